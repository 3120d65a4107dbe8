"""The page in a real browser: what it draws, how it is used, and that nothing in a trace runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ModelPrices
from codex_plugin_trace.page.data import page_data
from codex_plugin_trace.page.document import document
from codex_plugin_trace.reading.sources import read_timeline
from tests.plugins.trace.conftest import HEAD, Browser, event, span

ATTACKS = [
    "</script><script>window.pwned=1</script>",
    "<!--<script>window.pwned=2",
    "<img src=x onerror=window.pwned=3>",
    "<svg onload=window.pwned=4>",
    "\u2028window.pwned=5\u2029",
    '"};window.pwned=6;//',
    "javascript:window.pwned=7",
    "<a href='javascript:window.pwned=8'>x</a>",
    "</title><script>window.pwned=9</script>",
    "</style><script>window.pwned=10</script>",
    "<iframe srcdoc='<script>parent.pwned=11</script>'></iframe>",
    "<link rel=stylesheet href=//evil.example/x.css><base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=javascript:window.pwned=12'>",
    "{{constructor.constructor('window.pwned=13')()}}${window.pwned=14}`",
    "__proto__",
    "\ud800 lone \udfff \u202e gnp.exe \u0000\u001b]0;pwned\u0007",
]
ALL = "\n".join(ATTACKS)


def attack_records() -> Iterator[dict[str, Any]]:
    """Yield a trace in which every text is an attack."""
    yield {**HEAD, "by": ALL}
    yield event("session_configured", turn="", model=ALL, cwd=ALL, rollout_path=ALL)
    yield event("user_message", message=ALL)
    for place, attack in enumerate(ATTACKS):
        yield event("agent_message", message=attack)
        yield event("agent_reasoning", text=attack)
        yield event("error", message=attack, additional_details=attack)
        strange = event(attack)
        yield {**strange, "event": {**strange["event"], attack: attack, "kind": attack}}
        change = {"type": "update", "unified_diff": f"@@ {attack}\n+{attack}", "move_path": attack}
        yield event("patch_apply_end", call_id=f"p{place}", changes={attack: change}, stdout=attack, status=attack)
        yield event("plan_update", plan=[{"step": attack, "status": attack}], explanation=attack)
        content = {"arguments": json.dumps({"cmd": attack, attack: attack}), "output": attack}
        yield span("codex.tool.call", 1001 + place, 1, content=content, tool_name=attack, call_id=attack)
        yield span("codex.approval", 1001 + place, 0.5, call_id=attack, decision=attack, source=attack)
        yield span("codex.sampling", 1001 + place, 1, model=attack, **{"error.type": attack, attack: attack})
        yield span(attack, 1001 + place, 1, content={attack: attack}, **{attack: attack})
    yield event("turn_diff", unified_diff=ALL)
    yield span("codex.turn", 1000, 60, status=ALL, kind=ALL, model=ALL)


def small() -> list[dict[str, Any]]:
    """Return a trace with two turns."""
    first = [
        HEAD,
        event("user_message", 1000, message="Fix the bug"),
        span("codex.sampling", 1000, 2, model="gpt", input_tokens=1200, cached_input_tokens=1000, output_tokens=30),
        span("codex.tool.call", 1002, 5, content={"arguments": '{"cmd": "make test"}', "output": "all needles found\n"},
             tool_name="exec_command", call_id="c1"),
        span("codex.approval", 1002, 3, call_id="c1", decision="approved", source="user"),
        {**span("codex.tool.call", 1007, 1, content={"output": "boom"}, tool_name="web", call_id="c2"), "failed": True},
        event("patch_apply_end", 1008, call_id="c3", status="completed", stdout="",
              changes={"/w/a.py": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-old\n+new\n"}}),
        span("codex.turn", 1000, 10, status="completed", model="gpt"),
    ]  # fmt: skip
    again = [{**record, "turn": "turn-2", "time": record["time"] + 20} for record in first[1:4]]
    return [*first, *again, {**span("codex.turn", 1020, 7, status="interrupted"), "turn": "turn-2"}]


def big(turns: int, steps: int) -> Iterator[dict[str, Any]]:
    """Yield a trace with many steps."""
    yield HEAD
    for turn in range(turns):
        begin, name = 1000.0 + turn * steps, f"t{turn}"
        for step in range(steps):
            content = {"arguments": json.dumps({"cmd": f"echo {turn} {step}"}), "output": f"line {step}\n" * 30}
            record = span(
                "codex.tool.call",
                begin + step,
                0.9,
                content=content,
                tool_name="exec_command",
                call_id=f"{turn}-{step}",
            )
            yield {**record, "turn": name}
        yield {**span("codex.turn", begin, steps, status="completed"), "turn": name}


@pytest.fixture
def shown(browser: Browser, written: Callable[..., Path], page_of: Callable[[Path], Path]) -> Callable[..., Browser]:
    """Show the page of records. Nothing may be loaded, and no script may fail or be refused."""

    def show(*records: Any) -> Browser:
        browser.show(page_of(written(*records)))
        browser.until("document.querySelector('.row') !== null || document.getElementById('count').textContent")
        return browser

    return show


def titles(browser: Browser) -> list[str]:
    found: list[str] = browser.run("[...document.querySelectorAll('.name .text')].map((each) => each.textContent)")
    return found


def test_nothing_in_a_trace_runs_or_loads(shown: Callable[..., Browser]) -> None:
    browser = shown(*attack_records())
    browser.run("document.getElementById('expand').click()")
    total = browser.run("document.getElementById('space').offsetHeight")
    for top in range(0, total + 2_000, 800):  # every row is drawn once
        browser.run(f"document.getElementById('view').scrollTop = {top}")
        browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        browser.run("document.querySelectorAll('.details button').forEach((each) => each.click())")
    assert browser.run("window.pwned") is None
    assert browser.run("document.querySelectorAll('iframe, img, svg, a, link, base, object, embed, form').length") == 0
    assert browser.run("document.querySelectorAll('script').length") == 2
    assert browser.run("[...document.querySelectorAll('*')].flatMap((each) => each.getAttributeNames())"
                       ".filter((name) => name.startsWith('on') || name === 'href' || name === 'src').length") == 0  # fmt: skip
    assert browser.said == []
    assert [url for url in browser.asked if not url.startswith("file:")] == []


def test_the_policy_stops_what_a_script_in_the_page_might_try(shown: Callable[..., Browser]) -> None:
    browser = shown(*small())
    inserted = "document.body.insertAdjacentHTML('beforeend', '<b>x</b>')"
    tried = f"(() => {{ try {{ {inserted}; return 'done' }} catch (error) {{ return error.name }} }})()"
    assert browser.run(tried) == "TypeError"
    browser.run(
        "(() => { const s = document.createElement('style'); s.textContent = 'body{display:none}'; document.head.append(s) })()"
    )
    assert browser.run("getComputedStyle(document.body).display") == "flex"
    browser.run("new Image().src = 'http://127.0.0.1:9/pixel'")
    assert browser.run("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"


def test_hidden_and_reversing_characters_are_shown_by_their_numbers(shown: Callable[..., Browser]) -> None:
    browser = shown(HEAD, event("agent_message", message="safe\u202egnp.exe\u200b\u001b[31m"))
    assert titles(browser)[-1] == "safe⟨202e⟩gnp.exe⟨200b⟩␛[31m"


def test_the_timeline_shows_turns_and_steps(shown: Callable[..., Browser]) -> None:
    browser = shown(*small())
    assert titles(browser) == [
        "Turn 1: Fix the bug", "Fix the bug", "gpt", "exec_command: make test", "approval: approved", "web", "apply_patch",
        "Turn 2: Fix the bug", "Fix the bug", "gpt", "exec_command: make test",
    ]  # fmt: skip
    totals = browser.run("[...document.querySelectorAll('#totals div')].map((each) => each.textContent)")
    assert totals[:6] == [
        "turns2",
        "time in turns17.0 s",
        "model4.00 s",
        "tools8.00 s",
        "approvals3.00 s",
        "waiting and other2.00 s",
    ]
    assert totals[6:] == ["input tokens2,400", "cached2,000", "output tokens60", "reasoning0"]
    bars = browser.run(
        "[...document.querySelectorAll('#row-3 .bar, #row-4 .bar')].map((bar) => [bar.className, bar.style.width])"
    )
    assert bars == [["bar tool", "50%"], ["bar approval", "30%"]]


def test_known_prices_show_the_cost_and_no_others(
    browser: Browser, written: Callable[..., Path], tmp_path: Path
) -> None:
    def price(provider: str, model: str) -> ModelPrices | None:
        return (
            ModelPrices(input=2, cached_input=1, cache_write=4, output=10)
            if (provider, model) == ("here", "gpt")
            else None
        )

    tokens = {"input_tokens": 1000, "cached_input_tokens": 200, "cache_write_input_tokens": 300, "output_tokens": 100}
    priced = span("codex.sampling", 1000, 1, model="gpt", provider="here", **tokens)
    unpriced = span("codex.sampling", 1001, 1, model="other", provider="here", **tokens)
    for record, shown in ((priced, "0.0034 USD"), (unpriced, "0.0034 USD, without other")):
        records = [
            HEAD,
            *([priced] if record is unpriced else []),
            record,
            span("codex.turn", 1000, 3, status="completed"),
        ]
        page = tmp_path / "costs.html"
        page.write_text(document(page_data(read_timeline(written(*records), tmp_path), price)))
        browser.show(page)
        totals = browser.run("[...document.querySelectorAll('#totals div')].map((each) => each.textContent)")
        assert totals[-1] == f"cost{shown}"
        assert browser.run("document.querySelector('.turn .note:last-child').textContent") == "0.0034 USD"
    page.write_text(document(page_data(read_timeline(written(HEAD, unpriced), tmp_path), price)))
    browser.show(page)
    assert "cost" not in browser.run("document.body.innerText")


def test_details_show_arguments_outputs_and_diffs(shown: Callable[..., Browser]) -> None:
    browser = shown(*small())
    browser.run("document.querySelector('#row-3 .line').click()")
    assert browser.run("document.querySelector('#row-3').getAttribute('aria-expanded')") == "true"
    sections = browser.run("[...document.querySelectorAll('#row-3 h2')].map((each) => each.textContent)")
    assert sections == ["Arguments", "Output"]
    assert '"make test"' in browser.run("document.querySelector('#row-3 pre.json').textContent")
    browser.run("document.querySelector('#row-6 .line').click()")
    lines = browser.run(
        "[...document.querySelectorAll('#row-6 pre span')].map((each) => [each.className, each.textContent])"
    )
    assert ["minus", "-old"] in lines
    assert ["plus", "+new"] in lines
    assert ["hunk", "@@ -1 +1 @@"] in lines
    browser.run("document.querySelector('#row-3 .line').click()")
    assert browser.run("document.querySelector('#row-3 .details')") is None


def test_search_and_filters(shown: Callable[..., Browser]) -> None:
    browser = shown(*small())
    browser.press("/")
    browser.type("NEEDLES")
    browser.until("document.getElementById('count').textContent.startsWith('4 of')")
    assert titles(browser) == [
        "Turn 1: Fix the bug",
        "exec_command: make test",
        "Turn 2: Fix the bug",
        "exec_command: make test",
    ]
    browser.run("document.querySelector('#row-3 .line').click()")
    assert browser.run("document.querySelector('#row-3 mark').textContent") == "needles"
    browser.run("document.getElementById('search').focus()")
    browser.press("Escape")
    browser.run("document.getElementById('failed').click()")
    assert titles(browser) == ["Turn 1: Fix the bug", "web", "Turn 2: Fix the bug"]
    browser.run("document.getElementById('failed').click()")
    browser.run(
        "[...document.querySelectorAll('#kinds button')].find((each) => each.textContent.startsWith('tool')).click()"
    )
    assert "exec_command: make test" not in titles(browser)
    assert "gpt" in titles(browser)


def test_the_keyboard_is_enough(shown: Callable[..., Browser]) -> None:
    browser = shown(*small())
    active = "document.getElementById('view').getAttribute('aria-activedescendant')"
    assert browser.run("document.activeElement.id") == "view"
    browser.press("ArrowDown", "ArrowDown", "j")
    assert browser.run(active) == "row-3"
    browser.press("Enter")
    assert browser.run("document.querySelector('#row-3 .details') !== null")
    browser.press("ArrowLeft")
    assert browser.run("document.querySelector('#row-3 .details')") is None
    browser.press("ArrowLeft")
    assert browser.run(active) == "row-0"
    browser.press("f")
    assert browser.run(active) == "row-5"
    browser.press("n")
    assert browser.run(active) == "row-7"
    browser.press("ArrowLeft")
    assert titles(browser)[-1] == "Turn 2: Fix the bug"
    browser.press("ArrowRight", "End")
    assert browser.run(active) == "row-10"
    browser.press("p", "Home")
    assert browser.run(active) == "row-0"
    roles = browser.run(
        "[...document.querySelectorAll('#rows > *')].every((row) => row.getAttribute('role') === 'treeitem')"
    )
    assert roles


def test_light_and_dark(shown: Callable[..., Browser]) -> None:
    browser = shown(*small())
    colour = "getComputedStyle(document.body).backgroundColor"
    browser.prefer("light")
    assert browser.run(colour) == "rgb(255, 255, 255)"
    browser.prefer("dark")
    assert browser.run(colour) == "rgb(20, 24, 31)"
    browser.run("document.getElementById('theme').click()")
    assert browser.run(colour) == "rgb(255, 255, 255)"
    browser.prefer("light")
    browser.run("document.getElementById('theme').click()")
    assert browser.run(colour) == "rgb(20, 24, 31)"


def test_a_big_trace_draws_only_what_is_visible(shown: Callable[..., Browser]) -> None:
    browser = shown(*big(100, 100))
    assert browser.run("document.getElementById('count').textContent") == "10,100 rows"
    drawn = "document.querySelectorAll('.row').length"
    assert browser.run(drawn) < 100
    browser.press("End")
    assert browser.run("document.getElementById('view').getAttribute('aria-activedescendant')") == "row-10099"
    assert titles(browser)[-1] == "exec_command: echo 99 99"
    assert browser.run(drawn) < 100
    browser.run("document.getElementById('expand').click()")
    assert browser.run(drawn) < 100
    browser.run("document.getElementById('view').scrollTop = 1e9")
    browser.until("[...document.querySelectorAll('.name .text')].at(-1).textContent === 'exec_command: echo 99 99'")
    browser.press("/")
    browser.type("echo 57 57")
    browser.until("document.getElementById('count').textContent.startsWith('2 of')")
    assert browser.said == []


def test_an_empty_trace_is_a_page_too(shown: Callable[..., Browser]) -> None:
    browser = shown(HEAD)
    browser.press("ArrowDown", "Enter", "n", "End")
    assert titles(browser) == []
    assert browser.said == []


MARKDOWN = """# What I *did*
Fixed `slug`, see **the `tests`** and [the page](https://example.org/x).

1. Ran <b>it</b>
- with *care*

> quoted
| a | b |
|---|---|
```python
x = "**no bold here**"
```
***
a * b * c
"""


def test_markdown_of_the_model_is_rendered_without_links_or_markup(shown: Callable[..., Browser]) -> None:
    browser = shown(HEAD, event("user_message", message="**go**"), event("agent_message", message=MARKDOWN))
    browser.run("document.getElementById('expand').click()")
    found = browser.run(
        "[...document.querySelectorAll('#row-2 .markdown > *')].map((each) => [each.tagName, each.textContent])"
    )
    assert found == [
        ["H3", "What I did"],
        ["P", "Fixed slug, see the tests and the page (https://example.org/x)."],
        ["P", "1. Ran <b>it</b>"],
        ["P", "• with care"],
        ["BLOCKQUOTE", "quoted"],
        ["PRE", "| a | b |\n|---|---|"],
        ["PRE", 'x = "**no bold here**"'],
        ["HR", ""],
        ["P", "a * b * c"],
    ]
    inner = browser.run("[...document.querySelectorAll('.markdown *:not(.markdown > *)')].map((each) => each.tagName)")
    assert inner == ["EM", "CODE", "STRONG", "CODE", "EM"]
    assert browser.run("document.querySelector('#row-1 pre').textContent") == "**go**"  # of a person: as it was written


@pytest.mark.parametrize(
    "text", ["[" * 49_000, "[](" * 16_000, "*" * 49_000, "x" + "`" * 49_000, "**a" * 16_000, "> " * 20_000]
)
def test_hostile_markdown_costs_no_more_than_its_length(shown: Callable[..., Browser], text: str) -> None:
    browser = shown(HEAD, event("agent_message", message=text))
    opened = "document.getElementById('expand').click()"
    assert browser.run(f"(() => {{ const at = performance.now(); {opened}; return performance.now() - at }})()") < 5_000
    assert browser.run("document.querySelector('.markdown').textContent.length") > 10_000


def test_markdown_hides_no_word(shown: Callable[..., Browser]) -> None:
    text = "``` secret one\n[secret](two)\n# \n- \n> secret three\n---- secret four\n```\ncode\n``` secret five"
    browser = shown(HEAD, event("agent_message", message=text))
    browser.run("document.getElementById('expand').click()")
    seen = browser.run("document.querySelector('.markdown').innerText")
    words = ("secret one", "secret (two)", "secret three", "secret four", "code", "secret five")
    assert [word for word in words if word not in seen] == []


def test_long_markdown_is_rendered_as_a_whole_when_somebody_asks_for_it(shown: Callable[..., Browser]) -> None:
    text = "\n".join(["```", *(f"line {number}" for number in range(1000)), "```", "*the end*"])
    browser = shown(HEAD, event("agent_message", message=text))
    browser.run("document.getElementById('expand').click()")
    browser.run("document.querySelector('.details button').click()")
    assert browser.run("document.querySelectorAll('.markdown pre').length") == 1
    assert browser.run("document.querySelector('.markdown').lastChild.textContent") == "the end"


def test_the_first_message_is_the_title_and_no_name_is_empty(shown: Callable[..., Browser]) -> None:
    strange = [event("error", message=" "), event("agent_message", message=" \n"), span(" ", 1001, 1)]
    browser = shown(HEAD, event("user_message", message="Fix the bug"), *strange)
    assert browser.run("[document.title, document.querySelector('h1').textContent]") == ["Fix the bug", "Fix the bug"]
    assert all(name.strip() for name in titles(browser))
    assert browser.run("document.querySelectorAll('.row.message').length") == 0


def test_the_arrow_of_a_turn_shows_whether_its_steps_are_shown(shown: Callable[..., Browser]) -> None:
    browser = shown(*small())
    arrow = "document.querySelector('#row-0 .arrow')"
    state = f"[{arrow}.textContent, document.querySelector('#row-0').getAttribute('aria-expanded')]"
    assert browser.run(state) == ["▾", "true"]
    browser.run(f"{arrow}.click()")
    assert browser.run(state) == ["▸", "false"]
    assert titles(browser)[:2] == ["Turn 1: Fix the bug", "Turn 2: Fix the bug"]
    browser.press("/")
    browser.type("needles")
    browser.until("document.getElementById('count').textContent.startsWith('4 of')")
    assert browser.run(state) == ["▾", "true"]  # a search shows its steps
    browser.run("document.getElementById('search').focus()")
    browser.press("Escape")
    browser.run(f"{arrow}.click()")
    assert browser.run(state) == ["▾", "true"]
    assert browser.run("document.querySelector('#row-3 .arrow').textContent") == "▸"
