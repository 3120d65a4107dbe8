"""Hook ``codex_sandboxes``: how a command is confined."""

from __future__ import annotations

from codex_framework import SandboxReport, ToolContext, hookimpl, tool
from codex_framework.testing.replies import call, say


class Tools:
    @hookimpl
    def codex_tools(self):
        @tool
        async def list_files(context: ToolContext) -> str:
            """List the files."""
            return (await context.run(["ls"])).stdout

        return [list_files]


def test_codex_sandboxes_example_is_probed_and_found_unavailable(example, registry_of):
    sandbox = registry_of(example("codex_sandboxes")).sandboxes["nowhere"]
    assert sandbox.probe() == SandboxReport(available=False, reason="this is an example", hint="write a real one")


def test_codex_sandboxes_without_an_available_one_no_confined_command_runs(example, run_turn):
    turn = run_turn(
        example("codex_sandboxes"),
        Tools(),
        replies=[call("list_files"), say("Pity.")],
        config=('sandbox_mode="read-only"',),
    )
    assert turn.final == "Pity."
    assert "poem.txt" not in turn.outputs[0]


def test_codex_sandboxes_are_not_needed_for_full_access(example, run_turn):
    turn = run_turn(example("codex_sandboxes"), Tools(), replies=[call("list_files"), say("Fine.")])
    assert turn.outputs == ["poem.txt\n"]
