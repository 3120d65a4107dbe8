"""Real kernels in their own folders, and turns in them, for the fixtures ``make_kernel`` and ``run_turn``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from codex_framework.config import load_config
from codex_framework.contract.protocol.items import ContentItem, CustomToolCallOutput, FunctionCallOutput, ResponseItem
from codex_framework.contract.roles.agents import RunResult
from codex_framework.contract.roles.models import ModelRequest
from codex_framework.contract.roles.tools import Tool
from codex_framework.contract.value import Value
from codex_framework.kernel import Kernel
from codex_framework.loader.discovery import EntryPointLike
from codex_framework.testing.model import ScriptedModel
from codex_framework.testing.offering import Offer
from codex_framework.testing.scripted import ReplySource
from codex_framework.threads.thread import Thread

__all__ = ["KernelFactory", "ScriptedKernel", "TurnRun"]

_OVERRIDES = ('sandbox_mode="danger-full-access"', 'approval_policy="never"')
"""Commands run without a sandbox and without approval, so that tests have the same results on every machine."""


class TurnRun(Value, kw_only=True):
    """The result of a turn in a test.

    Attributes:
        result: The result of ``Thread.run``: status, final message, error, usage, events.
        history: The thread's items at the end.
        requests: The requests to the scripted model, in order; empty with another provider.
        warnings: The problems of plugins.
    """

    result: RunResult[Any]
    history: tuple[ResponseItem, ...]
    requests: tuple[ModelRequest, ...]
    warnings: tuple[str, ...]

    @property
    def final_message(self) -> str | None:
        """The model's last message."""
        return self.result.final_message

    @property
    def error(self) -> str | None:
        """Why the turn failed."""
        return self.result.error

    @property
    def outputs(self) -> tuple[str | tuple[ContentItem, ...], ...]:
        """The outputs of calls, in order."""
        outputs = (FunctionCallOutput, CustomToolCallOutput)
        return tuple(item.output for item in self.history if isinstance(item, outputs))

    @property
    def offered(self) -> tuple[str, ...]:
        """The names of the tools that the first request offered."""
        return tuple(spec.name for spec in self.requests[0].tools) if self.requests else ()


class ScriptedKernel(Kernel):
    """A kernel with its scripted model.

    Attributes:
        model: The model that ``model_provider = "scripted"`` selects.
        on_failure: Called with the error of each turn of :meth:`run_turn` that fails.
    """

    model: ScriptedModel
    on_failure: Callable[[str], object] = staticmethod(str)

    async def run_turn(self, prompt: str, **settings: Any) -> TurnRun:
        """Run one turn in a new thread. ``settings`` are keyword arguments of ``start_thread``."""
        thread: Thread = await self.start_thread(**settings)
        result = await thread.run(prompt)
        if result.error:
            self.on_failure(result.error)
        return TurnRun(
            result=result,
            history=tuple(thread.history.items),
            requests=tuple(self.model.requests),
            warnings=self.registry.warnings,
        )


class KernelFactory:
    """Creates kernels with a test's own configuration and workspace.

    Args:
        codex_home: ``$CODEX_HOME``.
        workspace: The working folder of turns.

    Attributes:
        on_failure: As for :class:`ScriptedKernel`. The fixtures add the error to pytest's report.
    """

    on_failure: Callable[[str], object] = staticmethod(str)

    def __init__(self, codex_home: Path, workspace: Path) -> None:
        self.codex_home = codex_home
        self.workspace = workspace

    def __call__(
        self,
        replies: Iterable[ReplySource] = (),
        *,
        plugins: Sequence[object] = (),
        tools: Sequence[Tool] = (),
        config: Sequence[str] | str = (),
        entry_points: Sequence[EntryPointLike] | None = None,
        env: dict[str, str] | None = None,
    ) -> AbstractAsyncContextManager[ScriptedKernel]:
        """Create a kernel: ``async with make_kernel([say("hi")], tools=[my_tool]) as kernel``.

        Args:
            replies: The replies of the scripted model.
            plugins: Plugins in addition to the installed ones.
            tools: Tools to offer, without a plugin.
            config: Settings as on the command line (``'model="x"'``), or the text of a ``config.toml``. By default, the
                scripted model answers, and commands run without approval and without a sandbox.
            entry_points: Entry points to use instead of the entry points of all installed distributions; ``()`` loads no
                installed plugin.
            env: Further environment variables. ``CODEX_HOME`` is always the folder of the fixture ``codex_home``, by default
                ``HOME`` is it too.

        Raises:
            ConfigError: The configuration is invalid.
        """
        model = ScriptedModel(replies)
        return self.around(model, plugins=plugins, tools=tools, config=config, entry_points=entry_points, env=env)

    def around(
        self,
        model: ScriptedModel,
        *,
        plugins: Sequence[object] = (),
        tools: Sequence[Tool] = (),
        config: Sequence[str] | str = (),
        entry_points: Sequence[EntryPointLike] | None = None,
        env: dict[str, str] | None = None,
    ) -> AbstractAsyncContextManager[ScriptedKernel]:
        """Create a kernel with an existing model. It takes the same arguments as :meth:`__call__`."""
        return self._create(model, (Offer(tools=tools), *plugins), config, entry_points, dict(env or {}))

    @asynccontextmanager
    async def _create(
        self,
        model: ScriptedModel,
        plugins: Sequence[object],
        config: Sequence[str] | str,
        entry_points: Sequence[EntryPointLike] | None,
        env: dict[str, str],
    ) -> AsyncIterator[ScriptedKernel]:
        # With ``env=dict(os.environ)``, a test must not get the configuration of the person who runs it, nor write to their sessions.
        own = str(self.codex_home)
        environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": own, **env, "CODEX_HOME": own}
        overrides: tuple[str, ...] = (*_OVERRIDES, f'model_provider="{model.name}"')
        if "default_permissions" in (config if isinstance(config, str) else " ".join(config)):
            overrides = overrides[1:]  # a mode would override the profile
        if isinstance(config, str):
            # Overrides would have precedence over a test's own file, so the defaults are written into the file.
            text = "\n".join(line for line in overrides if line.split("=")[0] not in _top_keys(config))
            (self.codex_home / "config.toml").write_text(f"{text}\n{config}", encoding="utf-8")
            overrides = ()
        else:
            overrides = (*overrides, *config)
        loaded = load_config(cwd=self.workspace, environ=environ, overrides=overrides)
        everything = (Offer(providers=[model]), *plugins)
        kernel = await ScriptedKernel.create(loaded, environ=environ, plugins=everything, entry_points=entry_points)
        assert isinstance(kernel, ScriptedKernel)
        kernel.model = model
        kernel.on_failure = self.on_failure
        async with kernel:
            yield kernel

    def run_turn(
        self,
        prompt: str = "Hello!",
        replies: Iterable[ReplySource] = (),
        *,
        plugins: Sequence[object] = (),
        tools: Sequence[Tool] = (),
        config: Sequence[str] | str = (),
        entry_points: Sequence[EntryPointLike] | None = None,
        env: dict[str, str] | None = None,
        **settings: Any,
    ) -> TurnRun:
        """Run one turn in a new kernel, without ``async``: ``run_turn("Count.", [call("count", path="a"), say("7")])``.

        It takes the arguments of :meth:`__call__`; ``settings`` are keyword arguments of ``Kernel.start_thread``.
        """

        async def turn() -> TurnRun:
            made = self(replies, plugins=plugins, tools=tools, config=config, entry_points=entry_points, env=env)
            async with made as kernel:
                return await kernel.run_turn(prompt, **settings)

        return asyncio.run(turn())


def _top_keys(text: str) -> set[str]:
    import tomllib

    try:
        return set(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        return set()  # loading it reports the error
