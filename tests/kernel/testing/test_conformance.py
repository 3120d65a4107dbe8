"""The conformance checks find what is wrong with objects that play their role badly, and nothing wrong with good ones."""

from __future__ import annotations

import asyncio
import datetime
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

from codex_framework import (
    CodexError,
    Completed,
    ContextSource,
    FatalToolError,
    Fragment,
    FreeformFormat,
    FreeformSpec,
    FunctionSpec,
    ItemDone,
    Message,
    ModelError,
    ModelInfo,
    NativeSpec,
    OutputText,
    ProviderInfo,
    SandboxError,
    SandboxReport,
    ThreadError,
    ToolContext,
    ToolError,
    ToolOutput,
    tool,
)
from codex_framework.commands.process.spawn import Unconfined
from codex_framework.contract.protocol.events import ItemCompletedEvent
from codex_framework.contract.roles.provenance import ChangeRecorder, TurnRecorder
from codex_framework.testing import (
    ContractViolation,
    ScriptedModel,
    check_change_recorder,
    check_context_source,
    check_notifier,
    check_provider,
    check_sandbox,
    check_telemetry,
    check_thread_store,
    check_tool,
    say,
)
from codex_plugin_provenance.recorder import PatchRecorder
from codex_plugin_sessions.memory import MemoryStore

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def violations(check: Any, *arguments: Any, **keywords: Any) -> tuple[str, ...]:
    with pytest.raises(ContractViolation) as caught:
        check(*arguments, **keywords)
    return caught.value.violations


class Handmade:
    """A tool whose work is a function of the test."""

    def __init__(self, work: Any = None, **spec: Any) -> None:
        self.spec = FunctionSpec(**{"name": "handmade", "description": "Works.", "parameters": TEXT, **spec})
        self._work = work

    async def run(self, call: Any, context: Any) -> Any:
        return await self._work(call, context)


async def refuse(call: Any, context: Any) -> Any:
    raise ToolError("no")


@tool
async def good(text: str, context: ToolContext, times: int = 1) -> str:
    """Say something."""
    await asyncio.sleep(0.01)
    return text * times


def test_a_tool_made_by_the_decorator_keeps_to_the_role():
    check_tool(good)
    check_tool(good, {"text": "hi"})


def test_a_plain_function_keeps_to_the_role():
    @tool
    def plain(path: Path, kinds: list[str] | None = None) -> dict[str, int]:
        """Count."""
        return {"count": len(kinds or ())}

    check_tool(plain, {"path": "a"})


def test_the_failure_names_the_object_and_numbers_what_was_found():
    with pytest.raises(AssertionError) as caught:
        check_tool(Handmade(refuse, name="hand made", description=7))  # type: ignore[arg-type]
    assert str(caught.value) == (
        "Handmade 'hand made' does not fulfil the role of a tool (2 violations):\n"
        "  1. its name 'hand made' is not allowed: use 1 to 64 of a-z, A-Z, 0-9, '_', '.' and '-'\n"
        "  2. its description is int, not a string"
    )


def test_a_tool_without_a_description_is_found():
    assert violations(check_tool, Handmade(refuse, description=" ")) == (
        "its description is empty: the model would not know what it is for",
    )


def test_an_object_that_is_no_tool_is_found():
    (missing, _) = violations(check_tool, object())
    assert missing == "it has no attribute spec"


def test_a_bad_schema_is_found():
    (found,) = violations(check_tool, Handmade(refuse, parameters={"type": "object", "required": ["x"]}))
    assert found == "its parameters.required names 'x', which is not among its properties"


def test_a_tool_that_raises_something_else_on_bad_arguments_is_found():
    async def work(call: Any, context: Any) -> str:
        import json

        return str(json.loads(call.arguments)["text"] + "!")

    found = violations(check_tool, Handmade(work))
    assert len(found) == 6
    assert found[0].startswith("a call whose arguments are not JSON ('{') raises JSONDecodeError")
    assert "raises KeyError: 'text', not ToolError" in found[4]
    assert all("not ToolError" in one for one in found)


def test_a_tool_that_takes_anything_is_found():
    async def work(call: Any, context: Any) -> str:
        return "fine"

    found = violations(check_tool, Handmade(work))
    assert found[-1] == (
        'a call with text of a wrong type (\'{"text": {"no": ["such", "thing"]}}\') is accepted; it must raise ToolError'
    )


def test_a_tool_that_ends_the_turn_over_a_bad_argument_is_found():
    async def work(call: Any, context: Any) -> str:
        raise FatalToolError("broken")

    assert all("raises FatalToolError: broken, not ToolError" in one for one in violations(check_tool, Handmade(work)))


def test_a_tool_that_swallows_a_cancellation_is_found():
    async def work(call: Any, context: Any) -> str:
        if call.arguments != '{"text": "x"}':
            raise ToolError("no")
        try:
            await asyncio.sleep(0.2)
        except asyncio.CancelledError:
            return "interrupted"
        return "done"

    assert violations(check_tool, Handmade(work), {"text": "x"}) == (
        "a call, when cancelled, goes on and returns; asyncio.CancelledError must be raised again",
    )


def test_a_tool_that_is_slow_to_end_when_cancelled_is_found():
    async def work(call: Any, context: Any) -> str:
        if call.arguments != '{"text": "x"}':
            raise ToolError("no")
        try:
            await asyncio.sleep(0.1)
        finally:
            await asyncio.sleep(1.2 if asyncio.current_task().cancelling() else 0)  # type: ignore[union-attr]
        return "done"

    assert violations(check_tool, Handmade(work), {"text": "x"}) == (
        "a call does not end within 1 s of being cancelled",
    )


def test_a_tool_that_leaves_a_task_running_is_found():
    tasks = []

    async def work(call: Any, context: Any) -> str:
        tasks.append(asyncio.ensure_future(asyncio.sleep(60)))
        raise ToolError("no")

    (found,) = violations(check_tool, Handmade(work))
    assert found.endswith("of its tasks still run after the end of the thread: keep them in context.state")


def test_what_a_tool_gives_back_is_looked_at():
    async def work(call: Any, context: Any) -> Any:
        if call.arguments == '{"text": "x"}':
            return {"not": "an output"}
        raise ToolError("no")

    assert violations(check_tool, Handmade(work), {"text": "x"}) == (
        'the call with \'{"text": "x"}\' returns dict, not a ToolOutput (of text, or a tuple of parts) or a string',
    )


def test_a_freeform_tool_may_take_any_text_but_not_fall_over_it():
    class Freeform:
        spec = FreeformSpec("write", "Writes.", FreeformFormat("lark", "start: /x/"))

        def __init__(self, result: Any) -> None:
            self.result = result

        async def run(self, call: Any, context: Any) -> Any:
            if isinstance(self.result, Exception):
                raise self.result
            return self.result

    check_tool(Freeform(ToolOutput("written")))
    check_tool(Freeform(ToolError("that is no x")))
    assert len(violations(check_tool, Freeform(ValueError("x")))) == 2


def test_a_native_tool_is_called_with_what_the_test_gives():
    class Native:
        spec = NativeSpec("local_shell", "local_shell")

        async def run(self, call: Any, context: Any) -> str:
            assert call.kind == "local_shell"
            return "ran"

    check_tool(Native(), '{"type": "exec", "command": ["true"]}')


def test_abilities_are_tried():
    class Able(Handmade):
        def offered(self, facts: Any) -> bool:
            return facts.config["no such key"]  # type: ignore[no-any-return]

        def spec_for(self, facts: Any) -> Any:
            return self.spec.evolve(name="other")

    found = violations(check_tool, Able(refuse))
    assert found == ("offered() raises KeyError: 'no such key'",)


def test_a_form_with_another_name_is_found():
    class Renamed(Handmade):
        def spec_for(self, facts: Any) -> Any:
            return self.spec.evolve(name="other")

    assert violations(check_tool, Renamed(refuse)) == (
        "spec_for() returns the name 'other', and it is registered as 'handmade'",
    )


def test_an_arrangement_with_tools_that_were_not_offered_is_found():
    class Invents(Handmade):
        def arrange(self, specs: Any, turn: Any) -> Any:
            return [self.spec.evolve(name="other")] if turn.model.slug == "test-model" else specs

    assert violations(check_tool, Invents(refuse)) == ("arrange() adds tools that were not offered: other",)


# Providers


class Client:
    """A client whose stream is a function of the test."""

    def __init__(self, events: Any) -> None:
        self.events = events
        self.closed = 0

    async def stream(self, request: Any) -> Any:
        for event in self.events:
            if isinstance(event, BaseException):
                raise event
            if isinstance(event, float):
                await asyncio.sleep(event)
                continue
            yield event

    async def aclose(self) -> None:
        self.closed += 1


class Provider:
    name = "test"
    builtin: ClassVar[Any] = {}

    def __init__(self, *events: Any, client: type[Client] = Client) -> None:
        self.client = client(events)

    def open(self, info: Any, env: Any) -> Any:
        return self.client

    def model(self, slug: str) -> Any:
        return None


DONE = ItemDone(Message("assistant", (OutputText("Hi!"),)))


def test_a_scripted_model_keeps_to_the_role():
    check_provider(ScriptedModel([say("Hi!", deltas=5)], repeat_last=True))
    check_provider(Provider(DONE, Completed("r")))


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([DONE], "a request ends without Completed, and without a ModelError"),
        ([DONE, Completed("r"), DONE], "a request yields more after Completed"),
        ([DONE, Completed("r"), Completed("r")], "a request yields Completed 2 times"),
        ([DONE, "text", Completed("r")], "a request yields str, which are no model events"),
        ([Completed("r")], "a request yields no ItemDone: an answer has an item, or is a ModelError"),
        ([ValueError("x")], "a request raises ValueError: x, not ModelError"),
        (
            [ModelError("no key")],
            "a request fails with a ModelError (no key); give check_provider a table and a server that answer",
        ),
    ],
)
def test_a_stream_that_breaks_the_rules_is_found(events, found):
    assert violations(check_provider, Provider(*events))[0] == found


def test_a_stream_that_swallows_a_cancellation_is_found():
    class Deaf(Client):
        async def stream(self, request: Any) -> Any:
            yield DONE
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                await asyncio.sleep(0)
            yield Completed("r")

    found = violations(check_provider, Provider(client=Deaf))
    assert found == ("a stream, when cancelled, goes on and returns; asyncio.CancelledError must be raised again",)


def test_a_client_that_does_not_say_clearly_whether_its_server_compacts_is_found():
    class Unclear(Client):
        compacts = "yes"

    found = violations(check_provider, Provider(DONE, Completed("r"), client=Unclear))
    assert found[0] == "its client's compacts is 'yes', not True or False"


def test_a_client_that_cannot_be_closed_twice_is_found():
    class Once(Client):
        async def aclose(self) -> None:
            if self.closed:
                raise RuntimeError("closed already")
            self.closed += 1

    assert violations(check_provider, Provider(DONE, Completed("r"), client=Once))[0] == (
        "a second aclose() raises RuntimeError: closed already"
    )


def test_tables_and_models_are_looked_at():
    class Odd(Provider):
        builtin: ClassVar[Any] = {"a": ProviderInfo(id="b", wire_api="test"), "c": ProviderInfo(id="c"), "d": {}}

        def model(self, slug: str) -> Any:
            return ModelInfo(slug="always-the-same") if slug else {}

    assert violations(check_provider, Odd(DONE, Completed("r"))) == (
        "its builtin provider 'a' has the id 'b'",
        "its builtin provider 'c' has wire_api 'responses', which is not its name",
        "its builtin provider 'd' is dict, not a ProviderInfo",
        "model('no-such-model-4711') returns the slug 'always-the-same'",
        "model('') returns dict, not a ModelInfo or None",
    )


def test_a_table_that_is_refused_is_told_with_its_hint():
    class Picky(Provider):
        def open(self, info: Any, env: Any) -> Any:
            raise ModelError("there is no key", hint="Set KEY.")

    assert violations(check_provider, Picky()) == (
        "open() refuses the table of the check (there is no key. Set KEY.); give check_provider one that works",
    )


# Sandboxes


class Sieve:
    """A sandbox that holds nothing."""

    name = "sieve"

    def __init__(self, report: Any = None) -> None:
        self.report = report or SandboxReport(available=True, level="none")

    def probe(self) -> Any:
        return self.report

    def confine(self, access: Any, cwd: Path) -> Any:
        return Unconfined()

    async def aclose(self) -> None:
        pass


def test_a_sandbox_that_holds_nothing_is_found_out():
    found = violations(check_sandbox, Sieve())
    assert len(found) >= 30
    for expected in (
        "overwrite a file outside",
        "write through a hard link made in the workspace",
        "make a hook in .git",
        "make .codex",
        "read the environment of a process outside",
        "end a process outside",
        "connect from a child process",
        "write into the workspace where nothing may be written",
        "connect to a TCP server where all files may be written",
        "read what it may not",
    ):
        assert f"a confined command can {expected}" in found
    assert all(one.startswith(("a confined command can", "a background child")) for one in found), "all else is right"


def test_a_sandbox_that_is_not_available_has_to_say_why_and_to_refuse():
    assert violations(check_sandbox, Sieve(SandboxReport(available=False))) == (
        "it is not available, and its report gives no reason",
        "it is not available, and its report names no hint",
        "it is not available, and confine() returns a plan all the same; it must raise SandboxError",
    )


def test_a_sandbox_that_is_honestly_not_available_keeps_to_the_role():
    class Absent(Sieve):
        def confine(self, access: Any, cwd: Path) -> Any:
            raise SandboxError("not here")

    check_sandbox(Absent(SandboxReport(available=False, reason="no kernel support", hint="use Linux 5.13")))


def test_a_sandbox_that_cannot_start_anything_is_found():
    class Broken:
        env: ClassVar[Any] = {}

        async def start(self, launch: Any) -> Any:
            raise SandboxError("no namespaces left")

    class Stuck(Sieve):
        def confine(self, access: Any, cwd: Path) -> Any:
            return Broken()

    (found,) = violations(check_sandbox, Stuck())
    assert found == "it raises SandboxError: no namespaces left, but the check requires it to succeed"


def test_a_sandbox_whose_start_fails_in_another_way_is_found():
    class Broken:
        env: ClassVar[Any] = {}

        async def start(self, launch: Any) -> Any:
            raise OSError("no such program")

    class Raw(Sieve):
        def confine(self, access: Any, cwd: Path) -> Any:
            return Broken()

    (found,) = violations(check_sandbox, Raw())
    assert found.endswith("raises OSError: no such program, not SandboxError or CommandFailed")


def test_a_slow_probe_and_a_wrong_report_are_found():
    class Slow(Sieve):
        def probe(self) -> Any:
            time.sleep(1.1)
            return {"available": True}

    slow, wrong = violations(check_sandbox, Slow())
    assert slow.startswith("probe() takes 1.")
    assert wrong == "probe() returns dict, not a SandboxReport"


# Watchers


class Watcher:
    name = "watcher"

    def __init__(self, work: Any) -> None:
        self.work = work
        self.seen: list[Any] = []

    def notify(self, notification: Any) -> None:
        self.work()
        self.seen.append(notification)

    record = notify

    def flush(self) -> None:
        self.work()


def test_quiet_watchers_keep_to_their_roles():
    watcher = Watcher(lambda: None)
    check_notifier(watcher)
    check_telemetry(watcher)
    assert len(watcher.seen) == 8 + 6


def test_watchers_that_raise_are_found():
    def fail() -> None:
        raise OSError("no bell")

    assert violations(check_notifier, Watcher(fail)) == (
        "notify('agent-turn-complete', turn 'turn-1') raises OSError: no bell",
        "flush() raises OSError: no bell",
        "a second flush() with nothing to deliver raises OSError: no bell",
        "notify after flush() raises OSError: no bell",
        "flush() after that raises OSError: no bell",
    )
    assert violations(check_telemetry, Watcher(fail)) == (
        "record('span', 'codex.tool.call') raises OSError: no bell",
        "flush() raises OSError: no bell",
        "a second flush() with nothing to send raises OSError: no bell",
        "record after flush() raises OSError: no bell",
    )


def test_telemetry_with_a_wrong_trace_or_batch_is_found():
    class Odd(Watcher):
        def current(self):
            return "00-1-2-01"

        def record_many(self, measurements):
            raise OSError("no bell")

    assert violations(check_telemetry, Odd(lambda: None)) == (
        "current() returns str, not a Trace or None",
        "record_many() raises OSError: no bell",
    )


def test_an_async_notifier_is_found():
    class Async:
        name = "async"

        async def notify(self, notification: Any) -> None:
            pass

    assert violations(check_notifier, Async()) == (
        "its notify is async, but it is called without await: write `def notify(self, notification)`",
    )


def test_a_change_recorder_that_keeps_to_its_role_is_found_to_do_so() -> None:
    check_change_recorder(PatchRecorder())


def test_a_change_recorder_that_raises_or_returns_something_else_is_found() -> None:
    class Odd(TurnRecorder):
        def change_entries(self, passage: Any) -> Any:
            return [passage.what] if passage.changes else []

        def fact_entries(self, fact: Any) -> Any:
            raise OSError("no disk")

    class Recorder(ChangeRecorder):
        name = "odd"

        def begin_turn(self) -> TurnRecorder:
            return Odd()

    found = violations(check_change_recorder, Recorder())
    assert "fact_entries('refused') raises OSError: no disk" in found


# Context sources and stores


class Source:
    name = "source"

    def __init__(self, *fragments: Any) -> None:
        self.given = fragments

    def fragments(self, facts: Any) -> Any:
        for fragment in self.given:
            if isinstance(fragment, Exception):
                raise fragment
            yield fragment


def test_context_sources():
    good = Fragment(role="user", text="<a>x</a>", start="<a>", end="</a>")
    check_context_source(Source(good))
    check_context_source(Source(good, CodexError("the rest cannot be read")))
    assert violations(check_context_source, Source(good.evolve(text="x", role="system"), "text")) == (
        "the fragment that begins with '<a>' has the role 'system'",
        "the fragment that begins with '<a>' has a text that does not begin with it",
        "the fragment that begins with '<a>' has a text that does not end with '</a>'",
        "it returns str, not a Fragment",
    )
    check_context_source(Source(good.evolve(recorded={"house": ["rules", 1, None]})))
    assert violations(check_context_source, Source(good.evolve(recorded={"at": Path("/")}))) == (
        (
            "the fragment that begins with '<a>': its `recorded` is not plain JSON data: Object of type PosixPath is"
            " not JSON serializable"
        ),
    )
    assert violations(check_context_source, Source(KeyError("x"))) == (
        "fragments() raises KeyError: 'x', not CodexError",
    )


def test_a_source_that_never_gives_the_same_is_found():
    class Clock:
        name = "clock"
        ticks = 0

        def fragments(self, facts: Any) -> Any:
            self.ticks += 1
            return [Fragment(role="user", text=f"<t>{self.ticks}", start="<t>")]

    assert violations(check_context_source, Clock()) == (
        "it returns other fragments when called twice in a row, so each turn would send them again",
    )


class Declared(ContextSource):
    name = "declared"

    def __init__(self, say: Any, *reads: str, files: Any = ()) -> None:
        self.say = say
        self.reads = frozenset(reads)
        self.named = files

    def fragments(self, facts: Any) -> Any:
        return [Fragment(role="user", text=f"<d>{self.say(facts)}", start="<d>")]

    def files(self, facts: Any) -> Any:
        return self.named


@pytest.mark.parametrize(
    ("word", "say"),
    [
        ("settings", lambda facts: facts.cwd),
        ("settings", lambda facts: facts.mode),
        ("settings", lambda facts: facts.approvals_reviewer),
        ("model", lambda facts: facts.model.slug),
        ("environments", lambda facts: facts.environments),
        ("environments", lambda facts: facts.shell),
        ("tools", lambda facts: len(facts.deferred_tools)),
        ("date", lambda facts: datetime.date.today()),
    ],
)
def test_a_source_that_declares_too_little_is_found(word, say):
    check_context_source(Declared(say, word))
    (violation,) = violations(check_context_source, Declared(say))
    assert f"its `reads` lacks {word!r}" in violation


def test_a_source_that_reads_files_or_keys_that_it_does_not_declare_is_found(tmp_path):
    rules = tmp_path / "rules.md"
    rules.write_text("Be kind.")
    source = Declared(lambda facts: rules.read_text(), "files", files=[rules])
    check_context_source(source, cwd=tmp_path)
    source.named = ()
    assert violations(lambda it: check_context_source(it, cwd=tmp_path), source) == (
        f"it reads {rules}, but its `files()` does not return it",
    )
    source.reads = frozenset()
    assert violations(lambda it: check_context_source(it, cwd=tmp_path), source) == (
        f"it reads {rules}, but its `reads` lacks 'files'",
    )
    assert violations(check_context_source, Declared(lambda facts: facts.config.get("rules"))) == (
        "it reads the configuration, but its `reads` lacks 'settings'",
    )


def test_a_store_that_forgets_is_found():
    class Forgetful:
        name = "forgetful"
        path = None

        def create(self, meta: Any, codex_home: str) -> Any:
            return self

        def reopen(self, stored: Any, codex_home: str) -> Any:
            return self

        def load(self, thread_id: str, codex_home: str) -> Any:
            raise ThreadError(f"there is no thread {thread_id}")

        def latest(self, codex_home: str, *, cwd: str | None = None) -> None:
            return None

        def append(self, entries: Any) -> None:
            pass

        def flush(self) -> None:
            pass

        close = flush

    (found,) = violations(check_thread_store, Forgetful())
    assert found.startswith("a thread that was flushed cannot be loaded: there is no thread ")


def test_a_store_that_loses_the_entries_of_plugins_is_found():
    from codex_plugin_rollout.store import RolloutStore

    class Careless(RolloutStore):
        def load(self, thread_id: str, codex_home: str) -> Any:
            stored = super().load(thread_id, codex_home)
            return stored.evolve(entries=[entry for entry in stored.entries if entry.plugin])

    (found,) = violations(check_thread_store, Careless())
    assert found.startswith("load() returns other entries of plugins: ")


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (lambda items: items[:-1], "load() returns 2 turn items for 3 events"),
        (lambda items: (items[-1], *items[:-1]), "the turn item of event 2, the last one, is at [0]"),
        (
            lambda items: items[-1:] * len(items),
            "the turn item of event 2, the last one, is at [0, 1, 2]",
        ),
    ],
)
def test_a_store_that_shows_turn_items_at_the_wrong_events_is_found(change: Any, fact: str) -> None:
    class Careless(MemoryStore):
        def load(self, thread_id: str, codex_home: str) -> Any:
            stored = super().load(thread_id, codex_home)
            return stored.evolve(turn_items=change(stored.turn_items)) if stored.turn_items else stored

    assert fact in violations(check_thread_store, Careless())


def test_a_store_that_loses_turn_items_is_found() -> None:
    class Careless(MemoryStore):
        def load(self, thread_id: str, codex_home: str) -> Any:
            stored = super().load(thread_id, codex_home)
            kept = [event for event in stored.events if not isinstance(event, ItemCompletedEvent)]
            return stored.evolve(turn_items=(), events=kept)

    assert violations(check_thread_store, Careless()) == (
        "load() returns neither the event nor the turn item of a plan",
    )


@pytest.mark.parametrize("field", ["id", "cwd", "source", "extra", "base_instructions"])
def test_a_store_whose_list_shows_another_head_is_found(field: str) -> None:
    class Careless(MemoryStore):
        def find(self, query: Any, codex_home: str) -> Any:
            page = super().find(query, codex_home)
            wrong = {} if field == "extra" else "/other"
            return page.evolve(
                threads=[each.evolve(meta=each.meta and each.meta.evolve(**{field: wrong})) for each in page.threads]
            )

    (found,) = violations(check_thread_store, Careless())
    assert found.startswith("find() returns the head ThreadMeta(")


def test_a_store_whose_list_says_something_else_than_the_thread_is_found() -> None:
    class Careless(MemoryStore):
        def find(self, query: Any, codex_home: str) -> Any:
            page = super().find(query, codex_home)
            return page.evolve(threads=[each.evolve(cwd="/other", meta=None) for each in page.threads])

    (found,) = violations(check_thread_store, Careless())
    assert found.startswith("find() returns a thread with ")


def test_a_check_within_a_running_loop_says_how_to_call_it():
    async def within() -> None:
        check_tool(good)

    with pytest.raises(RuntimeError, match="from a plain test function"):
        asyncio.run(within())
