"""Hook ``codex_command_policies``: may this command run, ask, or never?"""

from __future__ import annotations

import pytest

from codex_framework import ToolContext, hookimpl, tool
from codex_framework.testing.replies import call, say


@tool
async def run_words(words: list[str], context: ToolContext) -> str:
    """Run a command."""
    return (await context.run(words)).stdout


class Tools:
    @hookimpl
    def codex_tools(self):
        return [run_words]


@pytest.mark.parametrize(
    ("words", "shown"), [(["curl", "x"], "use the fetch tool instead of curl"), (["echo", "hi"], "hi")]
)
def test_codex_command_policies_example_forbids_curl_only(example, run_turn, words, shown):
    turn = run_turn(example("codex_command_policies"), Tools(), replies=[call("run_words", words=words), say("Done.")])
    assert shown in turn.outputs[0]


def test_codex_command_policies_that_raise_forbid(run_turn):
    class Plugin:
        name = "broken"

        def judge(self, command, facts):
            raise RuntimeError("no rules")

        @hookimpl
        def codex_command_policies(self):
            return [self]

    turn = run_turn(Plugin(), Tools(), replies=[call("run_words", words=["echo", "hi"]), say("Done.")])
    assert "hi" not in turn.outputs[0].split()
    assert turn.final == "Done."
