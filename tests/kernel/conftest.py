"""A kernel for tests: real config, real threads, a scripted model, and the tools a test brings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Kernel, Tool, hookimpl
from codex_framework.config import load_config
from codex_framework.replies import ReplySource
from codex_framework.testing.model import ScriptedModel
from codex_framework.thread import Thread

MakeThread = Callable[..., AbstractAsyncContextManager[Thread]]


class Offer:
    """A plugin that offers what it is given."""

    def __init__(self, **offers: Sequence[Any]) -> None:
        self._offers = offers

    @hookimpl
    def codex_tools(self) -> Iterable[Tool]:
        return self._offers.get("tools", ())

    @hookimpl
    def codex_model_providers(self) -> Iterable[Any]:
        return self._offers.get("providers", ())

    @hookimpl
    def codex_sandboxes(self) -> Iterable[Any]:
        return self._offers.get("sandboxes", ())

    @hookimpl
    def codex_command_policies(self) -> Iterable[Any]:
        return self._offers.get("policies", ())

    @hookimpl
    def codex_approval_reviewers(self) -> Iterable[Any]:
        return self._offers.get("reviewers", ())

    @hookimpl
    def codex_interceptors(self) -> Iterable[Any]:
        return self._offers.get("interceptors", ())

    @hookimpl
    def codex_observers(self) -> Iterable[Any]:
        return self._offers.get("observers", ())

    @hookimpl
    def codex_context_sources(self) -> Iterable[Any]:
        return self._offers.get("context", ())

    @hookimpl
    def codex_thread_stores(self) -> Iterable[Any]:
        return self._offers.get("stores", ())


@pytest.fixture
def make_thread(tmp_path: Path, codex_home: Path) -> MakeThread:
    """``async with make_thread([replies], tools=[...], approval_policy=...) as thread``."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    @asynccontextmanager
    async def make(
        replies: Sequence[ReplySource],
        *,
        config: Sequence[str] = (),
        settings: dict[str, Any] | None = None,
        **offers: Any,
    ) -> AsyncIterator[Thread]:
        model = ScriptedModel(replies)
        environ = {"CODEX_HOME": str(codex_home), "PATH": "/usr/bin:/bin"}
        overrides = (
            'model_provider="scripted"',
            'sandbox_mode="danger-full-access"',
            'approval_policy="never"',
            *config,
        )
        loaded = load_config(cwd=workspace, environ=environ, overrides=overrides)
        plugin = Offer(**{"providers": [model], **offers})
        async with await Kernel.create(loaded, environ=environ, entry_points=(), plugins=[plugin]) as kernel:
            assert [report.problems for report in kernel.registry.reports] == [()]
            thread = await kernel.start_thread(**(settings or {}))
            thread.model = model  # type: ignore[attr-defined]
            yield thread

    return make
