"""Hook ``codex_context_sources``: fragments of instructions and context."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from pathlib import Path

import pytest

from codex_framework import Agent, ApprovalPolicy, CodexError, ContextSource, Fragment, hookimpl
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.protocol.items import Message, message_text, user_message
from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides
from codex_framework.contract.roles.outcomes import Compaction
from codex_framework.testing import Offer, say
from codex_framework.testing.facts import turn_facts
from codex_framework.threads.prompt_context import FirstContexts, PromptContext


def test_codex_context_sources_example_is_in_the_first_prompt(example, run_turn):
    turn = run_turn(example("codex_context_sources"))
    said = [(item.role, message_text(item)) for item in turn.requests[0].prompt.items if isinstance(item, Message)]
    assert said[:2] == [
        ("developer", "<house_rules>\nWrite British English.\n</house_rules>"),
        ("user", "Hello!"),
    ]


def test_codex_context_sources_that_fail_leave_the_turn_alone(run_turn):
    class Plugin:
        name = "torn"

        def fragments(self, facts):
            raise CodexError("the rules are torn")

        @hookimpl
        def codex_context_sources(self):
            return [self]

    turn = run_turn(Plugin())
    assert turn.final == "Done."
    assert any("'torn'" in event.message for event in turn.events if isinstance(event, WarningEvent))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (Fragment(role="system", text="<a>", start="<a>"), "its fragment '<a>' is wrong: its `role` is 'system', not"),
        (Fragment(role="user", text=None, start="<a>"), "its fragment '<a>' is wrong: its `text` is None, not str"),
        (Fragment(role="user", text="<a>", start="<a>", order="1"), "its `order` is '1', not int"),
        ("<a>", "it returned str instead of Fragment"),
        (Fragment(role="user", text="", start="<a>", recorded={"a": {1}}), "its `recorded` is not plain JSON data"),
        (
            Fragment(role="user", text="", start="<a>", recorded={1: "a"}),
            "its `recorded` is dict, not a mapping by name",
        ),
    ],
)
def test_codex_context_sources_are_told_which_fragment_is_wrong_and_the_others_are_sent(run_turn, wrong, told):
    class Plugin:
        name = "odd"

        def fragments(self, facts):
            return [wrong, Fragment(role="user", text="<b>right", start="<b>")]

        @hookimpl
        def codex_context_sources(self):
            return [self]

    turn = run_turn(Plugin())
    messages = [event.message for event in turn.events if isinstance(event, WarningEvent)]
    (warning,) = [message for message in messages if "'odd'" in message]
    assert warning.startswith("context source 'odd' of plugin 'Plugin': ")
    assert told in warning
    assert f"({__file__}, line " in warning
    assert "<b>right" in str(turn.requests)


@pytest.mark.parametrize("result", [None, 5])
def test_codex_context_sources_that_give_no_list_leave_the_turn_alone(run_turn, result):
    class Plugin:
        name = "odd"

        def fragments(self, facts):
            return result

        @hookimpl
        def codex_context_sources(self):
            return [self]

    turn = run_turn(Plugin())
    assert turn.final == "Done."
    warnings = [event.message for event in turn.events if isinstance(event, WarningEvent)]
    assert any("context source 'odd' of plugin 'Plugin': fragments() failed: it returned " in text for text in warnings)


def test_codex_context_sources_add_fields_to_the_record_of_the_settings_of_a_turn(make_thread):
    class Notes(ContextSource):
        name = "notes"

        def fragments(self, facts):
            recorded = {"notes": [facts.turn_id], "model": "another", "effort": "high", "cwd": "/", "environments": []}
            yield Fragment(role="user", text="", start="<notes>", recorded=recorded)

    async def story():
        async with make_thread(Offer(name="notes", context=[Notes()])) as thread:
            result = await thread.turn("Hello!", say("Hi."))
            return result, thread.client.rollout_path

    result, path = asyncio.run(story())
    assert result.outcome.error is None
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    (settings,) = [line["payload"] for line in lines if line["type"] == "turn_context"]
    assert settings["notes"] == [settings["turn_id"]]
    assert ("another" in settings.values(), settings["cwd"] != "/", {"effort", "environments"} & settings.keys()) == (
        False,
        True,
        set(),
    )


class Told(ContextSource):
    """Says what it is told to say, and counts how often it is asked."""

    name = "told"

    def __init__(self, *reads: str, files: tuple[Path, ...] = ()) -> None:
        self.reads = frozenset(reads)
        self.watched = files
        self.asked = 0
        self.text = "one"

    def fragments(self, facts):
        self.asked += 1
        for path in self.watched:
            self.text = path.read_text() if path.is_file() else "nothing"
        if self.text == "torn":
            raise CodexError("the rules are torn")
        yield Fragment(role="user", text=f"<told>{self.text}</told>", start="<told>", end="</told>")

    def files(self, facts):
        return self.watched


def in_turns(make_thread, source, *changes, **settings):
    """Run a turn, and another one after each change. Return what the source said in the prompt of each, and how often it was asked."""

    async def story():
        found = []
        async with make_thread(Offer(name="told", context=[source]), **settings) as thread:
            for change in (None, *changes):
                if change is not None:
                    await change(thread)
                source.asked = 0
                result = await thread.turn("Hello!", say("Hi."))
                texts = [message_text(item) for item in thread.history if isinstance(item, Message)]
                told = re.findall("<told>(.*?)</told>", "".join(texts))
                found.append((told[-1] if told else "", source.asked))
                assert result.outcome.error is None
        return found

    return asyncio.run(story())


async def nothing(thread):
    pass


def submitting(**changes):
    async def change(thread):
        await thread.client.submit(ThreadSettings(ThreadSettingsOverrides(**changes)))

    return change


def test_codex_context_sources_that_declare_what_they_read_are_asked_when_it_changes(make_thread):
    source = Told("settings")

    async def another_text(thread):
        source.text = "two"

    changed = submitting(approval_policy=ApprovalPolicy.ON_REQUEST)
    assert in_turns(make_thread, source, nothing, another_text, changed) == [
        ("one", 1),
        ("one", 0),
        ("one", 0),
        ("two", 1),
    ]


def test_codex_context_sources_that_declare_nothing_are_asked_in_every_turn(make_thread):
    source = Told()
    source.reads = None

    async def another_text(thread):
        source.text = "two"

    assert in_turns(make_thread, source, another_text, nothing) == [("one", 1), ("two", 1), ("two", 1)]


def test_codex_context_sources_that_read_files_are_asked_when_one_is_made_written_replaced_or_removed(
    make_thread, tmp_path
):
    rules = tmp_path / "rules.md"

    async def write(thread):
        rules.write_text("one")

    async def grow_old(thread):
        await asyncio.sleep(
            0.12
        )  # a fresh file is looked at again, because its timestamps may not show the next change

    async def write_the_same_length(thread):
        rules.write_text("two")

    async def replace(thread):
        (tmp_path / "new").write_text("six")
        (tmp_path / "new").replace(rules)

    async def remove(thread):
        rules.unlink()

    steps = (nothing, write, grow_old, grow_old, write_the_same_length, replace, remove, nothing)
    found = in_turns(make_thread, Told("files", files=(rules,)), *steps)
    assert [text for text, _ in found] == [
        "nothing",
        "nothing",
        "one",
        "one",
        "one",
        "two",
        "six",
        "nothing",
        "nothing",
    ]
    assert [asked for _, asked in found[:2]] == [1, 0]
    assert [asked for _, asked in found[4:6]] == [0, 1]
    assert found[-1] == ("nothing", 0)


def test_codex_context_sources_are_asked_when_what_a_link_leads_to_changes(make_thread, tmp_path):
    (tmp_path / "two").write_text("two")
    link = tmp_path / "rules.md"
    link.symlink_to("missing")

    async def appear(thread):
        (tmp_path / "missing").write_text("there")
        await asyncio.sleep(0.12)

    async def grow(thread):
        (tmp_path / "missing").write_text("there is more")
        await asyncio.sleep(0.12)

    async def lead_elsewhere(thread):
        (tmp_path / "new").symlink_to("two")
        (tmp_path / "new").replace(link)

    found = in_turns(make_thread, Told("files", files=(link,)), nothing, appear, grow, lead_elsewhere, nothing)
    assert found == [("nothing", 1), ("nothing", 0), ("there", 1), ("there is more", 1), ("two", 1), ("two", 0)]


def test_codex_context_sources_are_asked_again_about_files_that_have_just_been_written(tmp_path):
    """The next change within a tick of the system's clock would leave the timestamps as they are."""
    rules = tmp_path / "rules.md"
    for _ in range(100):
        source = Told("files", files=(rules,))
        context = PromptContext([source])
        began = time.monotonic()
        rules.write_text("one")
        for _ in range(3):
            context.update(turn_facts(), None)
        if time.monotonic() - began < 0.05:  # on a busy machine, the file may have grown old in between
            break
    assert source.asked == 3


def test_codex_context_sources_are_asked_again_after_an_error(make_thread):
    source = Told("settings")
    source.text = "torn"

    async def mend(thread):
        source.text = "mended"

    assert in_turns(make_thread, source, nothing, mend, nothing) == [("", 1), ("", 1), ("mended", 1), ("mended", 0)]


def test_codex_context_sources_are_asked_again_after_one_that_ended_the_turn():
    class Ends(Told):
        name = "ends"
        raises = False

        def fragments(self, facts):
            if self.raises:
                raise asyncio.CancelledError
            return super().fragments(facts)

    ends, told = Ends("settings"), Told("settings")
    context = PromptContext([ends, told])
    context.update(turn_facts(approval_policy=ApprovalPolicy.ON_REQUEST), None)
    ends.raises, told.text = True, "two"
    changed = turn_facts(approval_policy=ApprovalPolicy.NEVER)
    with pytest.raises(asyncio.CancelledError):
        context.update(changed, None)
    ends.raises = False
    texts = [message_text(message) for message in context.update(changed, None).messages]
    assert "<told>two</told>" in "".join(texts)


@pytest.mark.parametrize(
    ("reads", "asked"),
    [(("settings", "files"), [1, 0, 1, 0]), (("settings", "files", "thread"), [1, 1, 1, 1])],
    ids=["the same", "its own"],
)
def test_codex_context_sources_of_a_thread_say_what_they_said_in_another_one_of_the_folder(
    make_kernel, tmp_path, reads, asked
):
    rules = tmp_path / "rules.md"
    source = Told(*reads, files=(rules,))

    async def story():
        found = []
        async with make_kernel([say("Hi.")] * 4, plugins=[Offer(name="told", context=[source])]) as kernel:
            for text in ("", "", "new", ""):
                if text:
                    rules.write_text(text)
                    await asyncio.sleep(0.12)
                source.asked = 0
                thread = await kernel.start_thread()
                await thread.run("Hello!")
                said = "".join(message_text(item) for item in thread.history if isinstance(item, Message))
                found.append((*re.findall("<told>(.*?)</told>", said), source.asked))
        return found

    texts = ["nothing", "nothing", "new", "new"]
    assert asyncio.run(story()) == list(zip(texts, asked, strict=True))


def test_codex_context_sources_with_a_problem_are_asked_in_each_thread(make_kernel):
    source = Told("settings")
    source.text = "torn"

    async def story():
        warnings = []
        async with make_kernel([say("Hi.")] * 4, plugins=[Offer(name="told", context=[source])]) as kernel:
            for _ in range(2):
                thread = await kernel.start_thread()
                for _ in range(2):
                    await thread.run("Hello!")
                warnings.append(source.asked)
        return warnings

    assert asyncio.run(story()) == [2, 4]


def test_codex_context_sources_are_not_asked_again_for_the_context_after_a_compaction(make_thread):
    source = Told("settings")

    async def compact(thread):
        await thread.inside("told").edit_history(Compaction(items=(user_message("So far: nothing."),), message=""))

    assert in_turns(make_thread, source, compact) == [("one", 1), ("one", 0)]


def test_codex_context_sources_that_declare_an_unknown_word_are_ignored_and_named(run_turn):
    source = Told("weather")

    class Plugin:
        @hookimpl
        def codex_context_sources(self):
            return [source]

    turn = run_turn(Plugin())
    assert source.asked == 0
    (warning,) = [text for text in turn.warnings if "reads" in text]
    assert "its reads is frozenset({'weather'}), not a set of these words: settings, model," in warning


def test_codex_context_sources_that_read_a_file_are_asked_in_each_turn_until_its_times_show_the_next_change(
    make_thread, tmp_path, monkeypatch
):
    rules = tmp_path / "rules.md"
    rules.write_text("one")
    changed_at = rules.stat().st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: changed_at)

    async def grow_old(thread):
        monkeypatch.setattr(time, "time_ns", lambda: changed_at + 10**9)

    told = in_turns(make_thread, Told("files", files=(rules,)), nothing, grow_old, nothing)
    assert told == [("one", 1), ("one", 1), ("one", 1), ("one", 0)]


@pytest.fixture
def later(monkeypatch):
    """No file is fresh."""
    monkeypatch.setattr(time, "time_ns", lambda: 4 * 10**18)


@pytest.mark.usefixtures("later")
def test_codex_context_sources_say_what_is_in_the_folder_of_their_thread(make_kernel, tmp_path):
    class OfFolder(Told):
        def files(self, facts):
            self.watched = (facts.cwd / "rules.md",)
            return self.watched

    def folder(name):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rules.md").write_text(name)
        return tmp_path / name

    source = OfFolder("files")

    async def story():
        async with make_kernel([say("Hi.")] * 3, plugins=[Offer(name="told", context=[source])]) as kernel:
            for cwd in (folder("one"), folder("two"), tmp_path / "one"):
                thread = await kernel.start_thread(cwd=cwd)
                await thread.run("Hello!")
                said = "".join(message_text(item) for item in thread.history if isinstance(item, Message))
                yield re.findall("<told>(.*?)</told>", said)

    async def collect():
        return [text async for text in story()]

    assert asyncio.run(collect()) == [["one"], ["two"], ["one"]]


def test_codex_context_sources_that_an_agent_does_not_use_are_asked_by_the_next_thread_that_does():
    source, others = Told("settings"), FirstContexts()
    before, after = (
        turn_facts(first=True, approval_policy=each) for each in (ApprovalPolicy.NEVER, ApprovalPolicy.ON_REQUEST)
    )

    def said(sources, facts):
        update = PromptContext(sources, others=others).update(facts, None)
        return "".join(message_text(message) for message in update.messages)

    assert "one" in said([source], before)
    source.text = "two"
    other = Told("settings")
    other.name = "other"
    assert "two" not in said([other], after)
    assert "two" in said([source], after)


def test_codex_context_sources_of_a_new_thread_say_nothing_of_later_turns_of_another_one():
    class Greeting(Told):
        def fragments(self, facts):
            yield Fragment(role="user", text=f"<told>{facts.first}</told>", start="<told>", end="</told>")

    others = FirstContexts()
    earlier, later = (PromptContext([Greeting("settings")], others=others) for _ in range(2))
    changed = turn_facts(first=False, approval_policy=ApprovalPolicy.NEVER)
    earlier.update(turn_facts(first=True, approval_policy=ApprovalPolicy.ON_REQUEST), None)
    assert "False" in message_text(earlier.update(changed, None).messages[0])
    assert "True" in message_text(later.update(changed.evolve(first=True), None).messages[0])


def test_codex_context_sources_that_read_the_date_are_asked_when_the_time_zone_changes(make_thread, monkeypatch):
    async def travel(thread):
        monkeypatch.setenv("TZ", "Pacific/Kiritimati")

    assert in_turns(make_thread, Told("date"), nothing, travel) == [("one", 1), ("one", 0), ("one", 1)]


@pytest.mark.usefixtures("later")
def test_codex_context_sources_that_read_files_are_asked_when_another_one_with_the_same_times_replaces_it(
    make_thread, tmp_path
):
    rules, new = tmp_path / "rules.md", tmp_path / "new"
    for path, text in ((rules, "one"), (new, "two")):
        path.write_text(text)
        os.utime(path, ns=(1, 1))

    async def replace(thread):
        new.replace(rules)

    told = in_turns(make_thread, Told("files", files=(rules,)), nothing, replace)
    assert told == [("one", 1), ("one", 0), ("two", 1)]


@pytest.mark.parametrize(("context", "told"), [(None, True), (("told",), True), ((), False)])
def test_codex_context_sources_are_those_that_the_agent_names(make_kernel, context, told):
    async def story():
        async with make_kernel([say("Hi.")], plugins=[Offer(name="told", context=[Told("settings")])]) as kernel:
            thread = await kernel.start_thread(agent=Agent(name="a", context=context))
            await thread.run("Hello!")
            return "".join(message_text(item) for item in thread.history if isinstance(item, Message))

    assert ("<told>" in asyncio.run(story())) is told
