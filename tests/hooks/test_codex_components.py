"""Hook ``codex_components``: they live as long as the kernel or a thread, provide services, and have tools that come and go."""

from __future__ import annotations

from codex_framework import Component, ServiceKey, ThreadComponent, ToolContext, hookimpl, tool
from codex_framework.testing.replies import call, say

CLOCK = ServiceKey("clock")


class Ticks(ThreadComponent):
    def __init__(self, log):
        self.log = log

    async def start(self):
        self.log.append("thread starts")

    async def turn_ended(self, turn, outcome):
        self.log.append(f"turn {outcome.status}")

    async def aclose(self):
        self.log.append("thread ends")


class Clock(Component):
    name = "clock"

    def __init__(self):
        self.log = []

    async def start(self, kernel):
        self.log.append("kernel starts")
        return {CLOCK: self.log}

    def for_thread(self, thread):
        return Ticks(self.log)

    async def aclose(self):
        self.log.append("kernel ends")


class Plugin:
    def __init__(self):
        self.clock = Clock()

    @hookimpl
    def codex_components(self):
        return [self.clock]

    @hookimpl
    def codex_tools(self):
        @tool
        async def ticks(context: ToolContext) -> str:
            """Say what has happened so far."""
            return ", ".join(context.service(CLOCK))

        return [ticks]


class Broken(Component):
    name = "broken"

    async def start(self, kernel):
        raise RuntimeError("no disk")


class BrokenPlugin:
    @hookimpl
    def codex_components(self):
        return [Broken()]

    @hookimpl
    def codex_tools(self):
        @tool
        def never() -> str:
            """Do nothing."""
            return ""

        return [never]


def test_codex_components_example_gives_a_thread_a_tool_with_memory(example, run_turn):
    replies = [call("note", text="roses"), call("note", text="violets"), say("Done.")]
    turn = run_turn(example("codex_components"), replies=replies)
    assert turn.outputs == ["1 notes", "2 notes"]


def test_codex_components_live_as_long_as_the_kernel_and_its_threads(run_turn):
    plugin = Plugin()
    turn = run_turn(plugin, replies=[call("ticks"), say("Done.")])
    assert turn.outputs == ["kernel starts, thread starts"]
    assert plugin.clock.log == ["kernel starts", "thread starts", "turn completed", "thread ends", "kernel ends"]


def test_codex_components_that_fail_leave_their_plugin_out(run_thread):
    async def drive(kernel, thread, model):
        return kernel.registry

    registry = run_thread(drive, BrokenPlugin())
    report = next(report for report in registry.reports if report.problems)
    assert (report.status, registry.tools, registry.components) == ("failed", {}, {})
    assert "no disk" in report.problems[-1].text
