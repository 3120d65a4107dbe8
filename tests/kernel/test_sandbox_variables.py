"""The variables of a sandbox: no inherited or configured variable replaces them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from codex_framework import (
    ChildProcess,
    CommandRequest,
    Confinement,
    FileAccess,
    Launch,
    Sandbox,
    SandboxReport,
    ToolContext,
    Unconfined,
    hookimpl,
    tool,
)
from codex_framework.testing.replies import call, say


class Marked(Confinement):
    @property
    def env(self) -> Mapping[str, str]:
        return {"SANDBOX_MARK": "of the sandbox"}

    async def start(self, launch: Launch) -> ChildProcess:
        return await Unconfined().start(launch)


class Marking(Sandbox):
    name = "marking"

    def probe(self) -> SandboxReport:
        return SandboxReport(available=True)

    def confine(self, access: FileAccess, cwd: Path) -> Confinement:
        return Marked()


class Plugin:
    @hookimpl
    def codex_sandboxes(self) -> list[Any]:
        return [Marking()]

    @hookimpl
    def codex_tools(self) -> list[Any]:
        @tool
        async def show(context: ToolContext) -> str:
            """Show the mark."""
            argv = ("/bin/sh", "-c", "echo $SANDBOX_MARK")
            return (await context.run(CommandRequest(argv=argv, env={"SANDBOX_MARK": "of the call"}))).stdout

        return [show]


@pytest.mark.parametrize("config", [(), ('shell_environment_policy.set={SANDBOX_MARK="of the configuration"}',)])
def test_no_other_variable_replaces_one_of_the_sandbox(
    make_kernel: Any, monkeypatch: pytest.MonkeyPatch, config: tuple[str, ...]
) -> None:
    monkeypatch.setenv("SANDBOX_MARK", "inherited")

    async def story() -> str:
        chosen = ('sandbox_mode="read-only"', 'framework.sandbox="marking"', *config)
        async with make_kernel([call("show"), say("done")], plugins=[Plugin()], config=chosen) as kernel:
            output: str = (await kernel.run_turn("go")).outputs[0]
            return output

    assert asyncio.run(story()) == "of the sandbox\n"
