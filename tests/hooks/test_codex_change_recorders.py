"""Hook ``codex_change_recorders``: they make the record of who changed, refused or added something."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from codex_framework import Interceptor, ToolRefused, tool
from codex_framework.config import load_config
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.roles.provenance import KIND, ChangeRecorder, Passage, Provenance, TurnRecorder
from codex_framework.loader.context import LoadContext
from codex_framework.testing import KernelFactory, Offer, ThreadFactory, call, say
from codex_plugin_provenance.command import why

SECRET = "sk-canary-31337"


@tool
def echo(text: str) -> str:
    """Return the text."""
    return text


class Guard(Interceptor):
    """An interceptor with the methods that a test passes."""

    def __init__(self, name: str, order: int, **methods: Any) -> None:
        self.name, self.order = name, order
        for method, function in methods.items():
            setattr(self, method, function)


async def leak(call: Any, output: Any, turn: Any) -> Any:
    return output.evolve(content=f"{output.content} {SECRET}")


async def clean(call: Any, output: Any, turn: Any) -> Any:
    return output.evolve(content=output.content.replace(SECRET, "[key]"))


async def refuse(call: Any, turn: Any) -> Any:
    raise ToolRefused("not that")


class Runs:
    """Runs a turn that calls ``echo``. A store writes the record; no recorder is there but those that the test offers."""

    def __init__(self, home: Path, workspace: Path) -> None:
        self.home = home
        self._make_thread = ThreadFactory(KernelFactory(home, workspace))
        self.warnings: list[str] = []

    def __call__(self, *plugins: Any, interceptors: Sequence[Any] = (), **offers: Any) -> list[dict[str, Any]]:
        offer = Offer(tools=[echo], interceptors=interceptors, **offers)
        store = [entry for entry in entry_points(group="codex_framework") if entry.name == "rollout"]

        async def turn() -> None:
            replies = [call("echo", text="a"), say("Done.")]
            async with self._make_thread(offer, *plugins, replies=replies, entry_points=store) as thread:
                assert (await thread.turn("hello")).outcome.last_agent_message == "Done."
                self.warnings += [event.message for event in thread.events if isinstance(event, WarningEvent)]

        asyncio.run(turn())
        files = self.home.rglob("rollout-*.jsonl")
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        entries = [line["payload"] for line in lines if line["type"] == "plugin_entry"]
        return [entry["data"] for entry in entries if entry["kind"] == KIND]


@pytest.fixture
def run(codex_home: Path, workspace: Path) -> Runs:
    return Runs(codex_home, workspace)


def test_codex_change_recorders_example_records_refusals_only(example: Any, run: Runs) -> None:
    guards = [Guard("leak", 10, after_tool=leak), Guard("guard", 20, before_tool=refuse)]
    plugin = example("codex_change_recorders")
    entries = run(change_recorders=plugin.codex_change_recorders(), interceptors=guards)
    told = [(entry["did"], entry["by"]["role"], entry["reason"]) for entry in entries]
    assert told == [("refused", "interceptor", "not that"), ("refused", "tool", "not that")]


def test_codex_change_recorders_that_copy_all_values_cannot_record_what_was_taken_out(run: Runs) -> None:
    class Copies(TurnRecorder):
        def change_entries(self, passage: Passage) -> Any:
            for change in passage.changes:
                patch = [{"op": "replace", "path": "/content", "value": change.after.content}]
                yield Provenance(did="changed", what=passage.what, by=change.by, patch=patch)

    first, second = run(
        change_recorders=[recorder(Copies)],
        interceptors=[Guard("leak", 20, after_tool=leak), Guard("clean", 10, after_tool=clean)],
    )
    assert (first["patch"][0]["value"], first["withheld"]) == (None, ["/content"])
    assert second["patch"][0]["value"] == "a [key]"
    assert not [file for file in run.home.rglob("rollout-*.jsonl") if SECRET in file.read_text()]


def test_codex_change_recorders_write_texts_as_interceptors_redact_them(run: Runs) -> None:
    class Quotes(TurnRecorder):
        def change_entries(self, passage: Passage) -> Any:
            (change,) = passage.changes
            yield Provenance(did="changed", what=passage.what, by=change.by, reason=change.after.content)

    keys = Guard("keys", 10, redacts=True, redact=lambda text, turn: text.replace(SECRET, "[key]"))
    entries = run(change_recorders=[recorder(Quotes)], interceptors=[Guard("leak", 20, after_tool=leak), keys])
    assert [entry["reason"] for entry in entries if entry["did"] == "changed"] == ["a [key]"]


def test_codex_change_recorders_of_one_plugin_each_write_entries_of_their_own(run: Runs) -> None:
    def of(word: str) -> ChangeRecorder:
        def change_entries(_: TurnRecorder, passage: Passage) -> Any:
            return [Provenance(did="changed", what=passage.what, by=passage.changes[0].by, reason=word)]

        made = recorder(type("Says", (TurnRecorder,), {"change_entries": change_entries}))
        made.name = word
        return made

    entries = run(change_recorders=[of("one"), of("two")], interceptors=[Guard("leak", 10, after_tool=leak)])
    assert [entry["reason"] for entry in entries if entry["did"] == "changed"] == ["one", "two"]


@pytest.mark.parametrize("method", ["begin_turn", "change_entries", "fact_entries"])
def test_codex_change_recorders_that_raise_are_named_once_and_the_turn_goes_on(run: Runs, method: str) -> None:
    def fail(*_: Any) -> Any:
        raise OSError("no room")

    broken = type("Broken", (TurnRecorder,), {"change_entries": lambda *_: (), method: fail})
    plugin = recorder(broken)
    if method == "begin_turn":
        plugin.begin_turn = fail  # type: ignore[method-assign]
    guards = [Guard("leak", 10, after_tool=leak), Guard("guard", 20, before_tool=refuse)]
    assert run(change_recorders=[plugin], interceptors=guards if method != "change_entries" else guards[:1]) == []
    (warning,) = [text for text in run.warnings if "no room" in text]
    assert "change recorder 'mine'" in warning
    assert "`why` cannot show it" in warning


def test_a_session_without_a_recorder_has_no_entries_and_why_says_so(
    run: Runs, codex_home: Path, workspace: Path
) -> None:
    assert run(interceptors=[Guard("leak", 10, after_tool=leak)]) == []
    environ = {"CODEX_HOME": str(codex_home), "HOME": str(codex_home)}
    context = LoadContext("provenance", load_config(cwd=workspace, environ=environ), environ)
    shown = CliRunner().invoke(why, ["last"], obj=context)
    assert "inferred from the items" in shown.output
    assert "Nothing was changed" not in shown.output


def recorder(kind: type[TurnRecorder]) -> ChangeRecorder:
    """Return a recorder whose turns have recorders of a class."""

    class Recorder(ChangeRecorder):
        name = "mine"

        def begin_turn(self) -> TurnRecorder:
            return kind()

    return Recorder()
