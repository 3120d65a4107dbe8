"""Hook ``codex_exec_commands``: subcommands of ``exec`` that submit an op."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codex_framework import CommandOption, ExecCommand, ExecRequest, Op, hookimpl
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.loader.registry import load_registry
from codex_framework.testing import say


class Offering:
    def __init__(self, *commands: Any) -> None:
        self.commands = commands
        self.asked = 0

    @hookimpl
    def codex_exec_commands(self):
        self.asked += 1
        return self.commands


def request(options: Any, argument: str | None) -> ExecRequest:
    return ExecRequest(op=Op(), shown="")


def command(**changes: Any) -> ExecCommand:
    return ExecCommand(**{"name": "greet", "text": "Greet.", "request": request, **changes})


def loaded_with(*plugins: object) -> Any:
    return load_registry({}, entry_points=(), extra_plugins=plugins)


def test_codex_exec_commands_example_greets(example, registry_of, make_kernel):
    module = example("codex_exec_commands")
    (offer,) = registry_of(module).exec_commands.values()

    async def main() -> Any:
        async with make_kernel([say("Hi!")], plugins=[module]) as kernel:
            thread = await kernel.start_thread()
            asked = offer.item.request({"word": "Hi"}, None)
            return [event async for event in thread.follow(asked.op)], asked.shown

    events, shown = asyncio.run(main())
    assert shown == "Greet the user with Hi."
    assert events[-1].last_agent_message == "Hi!"


def test_they_are_asked_for_only_when_they_are_needed(registry_of):
    plugin = Offering(command())
    registry = registry_of(plugin)
    assert plugin.asked == 0
    (report,) = registry.reports_with_commands
    assert report.contributes == {"exec_commands": ("greet",)}


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"name": "Greet"}, "its name is 'Greet'"),
        ({"name": "two words"}, "its name is 'two words'"),
        ({"name": ""}, "its name is ''"),
        ({"name": 3}, "its name is 3"),
        ({"name": "resume"}, "the command 'resume' is built in"),
        ({"name": "plugins", "alone": True}, "the command 'plugins' is built in"),
        ({"request": "x"}, "its request is 'x', not a function"),
        ({"text": None}, "its text is None, not a string"),
        ({"argument": 1}, "its argument is 1, not a string"),
        ({"options": "x"}, "its options are 'x'"),
        ({"options": ["x"]}, "one of its options is 'x', not a CommandOption"),
        ({"options": [CommandOption(name="X", text="")]}, "one of its options has the name 'X'"),
        ({"options": [CommandOption(name="model", text="")]}, "its option --model is built in"),
    ],
)
def test_a_command_that_cannot_be_used_is_reported_and_left_out(changes, fact):
    table = loaded_with(Offering(command(**changes), command(name="fine")))
    (report,) = table.reports_with_commands
    assert list(table.exec_commands) == ["fine"]
    (problem,) = report.problems
    assert fact in problem.fact


def test_two_commands_of_one_name_are_reported():
    first, second = Offering(command()), Offering(command())
    table = loaded_with(first, second)
    assert list(table.exec_commands) == ["greet"]
    assert sum(len(report.problems) for report in table.reports_with_commands) >= 1


def test_an_op_that_starts_no_turn_is_followed_to_its_end(make_kernel):
    class Quiet(Op):
        type = "quiet"

    class Handler:
        op = Quiet

        async def handle(self, op, thread, id):  # noqa: A002
            thread.emit(WarningEvent("done"), id=id)

    class Plugin:
        @hookimpl
        def codex_ops(self):
            return [Handler()]

    async def main() -> list[str]:
        async with make_kernel(plugins=[Plugin()], entry_points=()) as kernel, asyncio.timeout(60):
            thread = await kernel.start_thread()
            return [event.type async for event in thread.follow(Quiet())]

    assert asyncio.run(main()) == ["warning"]
