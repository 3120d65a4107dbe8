"""A workspace, a configuration and a way to run a turn. The fixture ``codex_home`` comes with codex-framework."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Kernel, TurnResult, hookimpl
from codex_framework.testing.model import ScriptedModel

RunTurn = Callable[..., tuple[TurnResult, ScriptedModel]]


class Scripted:
    """A plugin with a model that says what a test tells it to: ``model_provider = "scripted"``."""

    def __init__(self, replies: Sequence[Any]) -> None:
        self.model = ScriptedModel(replies)

    @hookimpl
    def codex_model_providers(self) -> list[ScriptedModel]:
        """Offer it."""
        return [self.model]


@pytest.fixture
def run_turn(tmp_path: Path, codex_home: Path, monkeypatch: pytest.MonkeyPatch) -> RunTurn:
    """Run a turn in a fresh workspace, with all installed plugins: this one was found by its entry point."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    workspace.joinpath("poem.txt").write_text("roses are red\nviolets are blue\n", encoding="utf-8")

    def run(
        prompt: str, *, provider: str = "scripted", config: str = "", replies: Sequence[Any] = ()
    ) -> tuple[TurnResult, ScriptedModel]:
        text = f'model_provider = "{provider}"\n{config}'
        codex_home.joinpath("config.toml").write_text(text, encoding="utf-8")

        async def turn() -> tuple[TurnResult, ScriptedModel]:
            scripted = Scripted(replies)
            environ = {"CODEX_HOME": str(codex_home), "PATH": os.environ["PATH"]}
            async with await Kernel.create(environ=environ, plugins=[scripted]) as kernel:
                thread = await kernel.start_thread()
                return await thread.run(prompt), scripted.model

        return asyncio.run(turn())

    return run
