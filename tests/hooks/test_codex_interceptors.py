"""Hook ``codex_interceptors``: they see and may change what passes by."""

from __future__ import annotations

from codex_framework import ToolOutput, ToolRefused, hookimpl, tool
from codex_framework.testing.replies import call, say


class Between:
    def __init__(self, name, order):
        self.name = name
        self.order = order

    async def request(self, request):
        return request.evolve(instructions=request.instructions + self.name)

    async def before_tool(self, call):
        if call.name == "forbidden":
            raise ToolRefused("not this one")
        return call

    async def after_tool(self, call, output):
        return ToolOutput(f"{output.content}{self.name}")


class Plugin:
    @hookimpl
    def codex_interceptors(self):
        return [Between("late", 90), Between("early", 10)]

    @hookimpl
    def codex_tools(self):
        @tool(name="say_hi")
        def hi() -> str:
            """Say hi."""
            return "hi "

        return [hi]


def test_codex_interceptors_example_changes_the_request(example, run_turn):
    turn = run_turn(example("codex_interceptors"))
    assert turn.requests[0].instructions == turn.requests[0].instructions.upper() != ""


def test_codex_interceptors_act_by_their_order(run_turn):
    turn = run_turn(Plugin(), replies=[call("say_hi"), say("Done.")])
    assert turn.requests[0].instructions.endswith("earlylate")
    assert turn.outputs == ["hi lateearly"], "the first interceptor is the outermost"


def test_codex_interceptors_may_refuse_a_call(run_turn):
    turn = run_turn(Plugin(), replies=[call("forbidden"), say("Done.")])
    assert turn.outputs == ["not this one"]
