"""``exec --trace`` and ``trace view``, as a user runs them; and the page as a document."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import attrs
import pytest

from codex_framework.testing.replies import call, say
from codex_framework.testing.server import ResponsesServer
from codex_plugin_trace.page.document import document, embedded
from tests.forked import RunProgram
from tests.plugins.trace.conftest import HEAD, event, span
from tests.plugins.trace.test_page_in_browser import ATTACKS, attack_records


@attrs.define
class User:
    """Somebody at a shell."""

    home: Path
    work: Path
    env: dict[str, str]
    run_program: RunProgram

    def run(self, *argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
        env = {**self.env, **options.pop("env", {})}
        return self.run_program(*argv, cwd=self.work, env=env, **options)


@pytest.fixture
def user(tmp_path: Path, responses_server: Callable[..., ResponsesServer], run_program: RunProgram) -> User:
    home, work = tmp_path / "home", tmp_path / "work"
    (work / ".git" / "objects").mkdir(parents=True)
    home.mkdir()
    turn = [call("exec_command", cmd="echo needle", login=False), say("done")]
    server = responses_server(turn * 4)
    (home / "config.toml").write_text(
        'model = "gpt-5.5"\nmodel_provider = "here"\nsandbox_mode = "danger-full-access"\n'
        f'[model_providers.here]\nname = "here"\nbase_url = "{server.url}"\n'
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CODEX_", "OPENAI_"))}
    return User(home, work, {**kept, "CODEX_HOME": str(home), "HOME": str(tmp_path), "NO_COLOR": "1"}, run_program)


def types(path: Path) -> list[str]:
    return [json.loads(line)["type"] for line in path.read_text().splitlines()]


def test_a_run_is_traced_and_viewed(user: User) -> None:
    ran = user.run("exec", "--trace", "t.jsonl", "go")
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
    assert "warning" not in ran.stderr
    viewed = user.run("trace", "view", "t.jsonl", "--output", "page.html")
    assert (viewed.returncode, viewed.stdout, viewed.stderr) == (0, f"{user.work}/page.html\n", "")
    data = data_of((user.work / "page.html").read_text())
    assert [row["k"] for row in data["rows"]][:3] == ["thread", "turn", "user"]
    assert any("needle" in part[2] for row in data["rows"] for part in row.get("p", ()) if part[0] == "Output")


def test_the_option_the_variable_and_the_setting_name_the_file(user: User) -> None:
    with (user.home / "config.toml").open("a") as config:
        config.write('[framework.plugins.trace]\nfile = "set.jsonl"\n')
    variable = {"CODEX_FRAMEWORK_TRACE": "variable.jsonl"}
    assert user.run("exec", "go").returncode == 0
    assert "span" in types(user.home / "set.jsonl")
    before = (user.home / "set.jsonl").read_bytes()
    assert user.run("exec", "go", env=variable).returncode == 0
    assert "span" in types(user.work / "variable.jsonl")
    assert user.run("exec", "--trace", "option.jsonl", "go", env=variable).returncode == 0
    assert "span" in types(user.work / "option.jsonl")
    assert types(user.work / "variable.jsonl").count("trace") == 1
    assert (user.home / "set.jsonl").read_bytes() == before


def test_a_run_without_a_trace_writes_none_and_measures_nothing(user: User) -> None:
    program = (
        "import sys; from codex_framework.cli.main import main; status = main(['exec', 'go']);"
        "print(status, [name for name in sys.modules if name.startswith('codex_plugin_trace.') and not name.endswith('.settings')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=user.work,
        env=user.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "0 []"


def test_an_unwritable_trace_is_one_line_of_a_run_that_succeeds(user: User) -> None:
    (user.work / "taken.txt").write_text("mine")
    ran = user.run("exec", "--trace", "taken.txt", "go")
    assert (ran.returncode, ran.stdout) == (0, "done\n")
    (line,) = [line for line in ran.stderr.splitlines() if "warning" in line]
    assert f"the trace '{user.work}/taken.txt' is not written: the file exists and is not a trace" in line
    assert (user.work / "taken.txt").read_text() == "mine"


def test_a_session_is_viewed_by_id_prefix_name_file_and_as_the_last(user: User, tmp_path: Path) -> None:
    assert user.run("exec", "go").returncode == 0
    (file,) = (user.home / "sessions").rglob("*.jsonl")
    thread = file.stem[-36:]
    (user.home / "session_index.jsonl").write_text(
        f"nonsense\n{json.dumps({'id': thread, 'thread_name': 'my work', 'updated_at': 'x'})}\n"
    )
    for name in (thread, thread[:30], "my work", str(file)):
        viewed = user.run("trace", "view", name, "--output", "-")
        assert viewed.returncode == 0, viewed.stderr
        data = data_of(viewed.stdout)
        assert (data["title"], dict(data["facts"])["session"]) == ("go", thread)
    last = user.run("trace", "view", "--last", env={"TMPDIR": str(tmp_path)})
    page = Path(last.stdout.strip())
    assert page.parent.parent == tmp_path
    assert page.stat().st_mode & 0o777 == 0o600
    assert "needle" in page.read_text()


def test_only_files_of_sessions_are_the_last_session(user: User) -> None:
    day = user.home / "sessions" / "2026" / "11" / "20"
    day.mkdir(parents=True)
    session = day / "rollout-2026-11-20T10-00-00-01a1fa36-db98-75f0-a6d6-2445f13ac227.jsonl"
    session.write_text('{"type": "session_meta", "payload": {"id": "x"}}\n')
    os.mkfifo(day / session.name.replace("227", "228"))
    os.mkfifo(user.home / "session_index.jsonl")
    (day / "notes.txt").write_text("later")
    last = user.run("trace", "view", "--last", "--output", "-")
    assert (last.returncode, data_of(last.stdout)["title"]) == (0, "Thread x")
    assert "there is no file 'nowhere'" in user.run("trace", "view", "nowhere").stderr


def test_a_warning_cannot_control_the_terminal(user: User) -> None:
    base = {"thread_id": "\x1b]0;red\x07", "end_ordinal_exclusive": 1}
    line = json.dumps({"type": "session_meta", "payload": {"id": "x", "history_base": base}})
    (user.work / "s.jsonl").write_text(f"{line}\n")
    viewed = user.run("trace", "view", "s.jsonl", "--output", "page.html")
    assert (viewed.returncode, "red" in viewed.stderr, "\x1b" in viewed.stderr) == (0, True, False)


def test_what_cannot_be_viewed_is_told_with_what_to_do(user: User) -> None:
    folder = user.home / "sessions" / "2026" / "11" / "20"
    folder.mkdir(parents=True)
    for end in ("a", "b"):
        (folder / f"rollout-2026-11-20T18-25-29-01a1fa34-000{end}.jsonl").write_text("{}\n")
    good = user.work / "t.jsonl"
    good.write_text(json.dumps(HEAD) + "\n")
    (user.work / "folder").mkdir()
    cases = {
        ("nothing",): "Error: there is no file 'nothing', and no session with this id or name",
        ("none.jsonl",): "Error: cannot show none.jsonl: No such file or directory",
        ("folder",): "Error: cannot show folder: it is a folder",
        ("01a1fa34-000",): "Error: 2 sessions have an id that begins with '01a1fa34-000': 01a1fa34-000a, 01a1fa34-000b",
        ("01a1fa34-000a",): "Error: cannot show ",
        (
            "t.jsonl",
            "--output",
            "none/page.html",
        ): f"Error: cannot write {user.work}/none/page.html: its folder does not exist",
    }
    for argv, error in cases.items():
        viewed = user.run("trace", "view", *argv)
        assert (viewed.returncode, viewed.stdout) == (1, ""), argv
        first, hint, address = viewed.stderr.splitlines()
        assert first.startswith(error), first
        assert hint
        assert "errors.md#" in address
    for argv in ((), ("t.jsonl", "--last"), ("t.jsonl", "--open", "--output", "-"), ("t.jsonl", "t.jsonl")):
        assert user.run("trace", "view", *argv).returncode == 2


def test_several_sources_get_a_page_each_and_one_that_is_missing_does_not_stop_the_others(user: User) -> None:
    (user.work / "pages").mkdir()
    for name in ("a", "b"):
        (user.work / f"{name}.jsonl").write_text(json.dumps(HEAD) + "\n")
    viewed = user.run("trace", "view", "a.jsonl", "nothing", "b.jsonl", "--output", "pages")
    assert viewed.returncode == 1
    assert sorted(each.name for each in (user.work / "pages").iterdir()) == ["a.html", "b.html"]
    assert viewed.stderr.splitlines()[0].startswith("warning: there is no file 'nothing'")


def test_prices_of_the_configuration_give_the_cost(user: User) -> None:
    count = {"input_tokens": 1_000_000, "output_tokens": 100_000}
    record = span("codex.sampling", 1000, 1, model="gpt-5.5", provider="here", **count)
    (user.work / "t.jsonl").write_text("".join(json.dumps(each) + "\n" for each in (HEAD, record)))
    costs = {
        "": None,
        '[framework.plugins.usage.prices."gpt-5.5"]\ninput = 2\noutput = 10\n': {"USD": 3.0},
        '[framework.plugins.usage.prices."here/gpt-5.5"]\ninput = 2\noutput = 10\ncurrency = "EUR"\n': {"EUR": 3.0},
        '[framework.plugins.usage.prices."gpt-5"]\ninput = 2\noutput = 10\n': None,
        '[framework.plugins.usage.prices."gpt-5.5"]\ninput = -2\noutput = "x"\n': None,
    }
    before = (user.home / "config.toml").read_text()
    for settings, cost in costs.items():
        (user.home / "config.toml").write_text(before + settings)
        viewed = user.run("trace", "view", "t.jsonl", "--output", "-")
        assert viewed.returncode == 0, viewed.stderr
        rows = data_of(viewed.stdout)["rows"]
        assert [row.get("cost") for row in rows if row["k"] == "model"] == [cost], settings


def test_the_page_is_opened_in_the_browser(user: User, tmp_path: Path) -> None:
    (user.work / "t.jsonl").write_text(json.dumps(HEAD) + "\n")
    program = tmp_path / "browser"
    program.write_text('#!/bin/sh\necho "$1" > "$0.asked"\n')
    program.chmod(0o755)
    viewed = user.run("trace", "view", "t.jsonl", "--output", "page.html", "--open", env={"BROWSER": str(program)})
    assert viewed.returncode == 0
    assert (tmp_path / "browser.asked").read_text() == f"file://{user.work}/page.html\n"


def test_damage_is_told_on_stderr_and_on_the_page(user: User) -> None:
    (user.work / "t.jsonl").write_bytes(json.dumps(HEAD).encode() + b'\nnonsense\n{"type":"sp')
    viewed = user.run("trace", "view", "t.jsonl", "--output", "-")
    assert viewed.stderr.splitlines() == [
        "warning: 1 line is damaged and not shown (the first is line 2).",
        "warning: The last line is incomplete: the run was killed, or is still running.",
    ]
    assert len(data_of(viewed.stdout)["warnings"]) == 2


class Parsed(HTMLParser):
    """What a browser makes of the page: its elements, and the text of its scripts and of its style sheet."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self.raw.append("")

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] in ("script", "style") and self.cdata_elem:
            self.raw[-1] += data


def data_of(page: str) -> Any:
    return json.loads(Parsed(page).raw[1])


def test_the_page_has_the_same_elements_whatever_the_trace_contains(tmp_path: Path, page_of: Any, written: Any) -> None:
    plain = Parsed(page_of(written(HEAD)).read_text())
    attacked = Parsed(page_of(written(*attack_records(), name="<script>alert(1)<.jsonl")).read_text())
    assert [tag for tag, _ in attacked.elements] == [tag for tag, _ in plain.elements]
    assert [tag for tag, _ in plain.elements].count("script") == 2
    names = {name for _, attributes in attacked.elements for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in ("src", "href", "style", "srcset", "action")}
    assert attacked.raw[0::2] == plain.raw[0::2]  # style sheet and script


def test_the_policy_allows_the_script_and_the_style_sheet_of_the_page_only(page_of: Any, written: Any) -> None:
    parsed = Parsed(page_of(written(*attack_records())).read_text())
    policies = [each["content"] for _, each in parsed.elements if each.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in str(policies[0]).split("; "))
    digests = [base64.b64encode(hashlib.sha256(raw.encode()).digest()).decode() for raw in parsed.raw]
    assert rules == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digests[0]}'",
        "script-src": f"'sha256-{digests[2]}'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    tags = [tag for tag, _ in parsed.elements]
    assert tags.index("meta") < tags.index("title") < tags.index("style")


def test_embedded_data_says_the_same_and_ends_nothing() -> None:
    data = {"texts": [*ATTACKS, "日本語 ✓ 😀", "\\u003c", "a\\"]}
    text = embedded(data)
    assert json.loads(text) == data
    assert not re.search("[<>&\u2028\u2029\ud800-\udfff]", text)
    assert "😀" in text


def test_the_script_makes_no_markup_of_text() -> None:
    script = (Path(__file__).parents[3] / "plugins/codex_plugin_trace/page/page.js").read_text()
    forbidden = (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "createContextualFragment",
        "fetch(",
        "XMLHttpRequest",
        "import(",
    )
    assert [word for word in forbidden if word in script] == []


def test_a_page_of_many_long_texts_stays_small(page_of: Any, written: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_plugin_trace.page.data._LONGEST_PAGE", 200_000)
    long = [event("agent_message", message=f"{number} {'x' * 60_000}") for number in range(20)]
    page = page_of(written(HEAD, *long)).read_text()
    assert 200_000 < len(page) < 400_000
    parts = [row["p"][0][2] for row in data_of(page)["rows"] if row["k"] == "message"]
    assert parts[0].endswith("more characters are in the file, and not on this page]")
    assert len(parts[-1]) < 1_200


def test_the_names_of_rows_do_not_depend_on_the_order_of_lines(page_of: Any, written: Any) -> None:
    records = [
        span("codex.turn", 1000, 9, status="completed"),
        span("codex.tool.call", 1003, 1, tool_name="b", call_id="2"),
        span("codex.tool.call", 1001, 1, tool_name="a", call_id="1"),
        event("user_message", 1000, message="Go"),
    ]
    names = [
        [row["n"] for row in data_of(page_of(written(HEAD, *order)).read_text())["rows"]]
        for order in (records, records[::-1])
    ]
    assert names[0] == names[1] == ["Turn 1: Go", "Go", "a", "b"]


def test_document_escapes_the_title() -> None:
    page = document({"title": "</title><script>1</script>\ud800", "rows": []})
    assert "&lt;/title&gt;&lt;script&gt;" in page
