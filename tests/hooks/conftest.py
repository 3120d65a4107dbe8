"""Each hook's example, taken from its documentation and run as a plugin in a real kernel."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
import types
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import attrs
import pytest

from codex_framework import Kernel, Thread, hookimpl
from codex_framework.config import load_config
from codex_framework.contract import hookspecs
from codex_framework.contract.protocol.items import is_output
from codex_framework.loader.registry import Registry, load_registry
from codex_framework.testing.model import ScriptedModel
from codex_framework.testing.replies import say


@attrs.frozen
class Turn:
    """What came of a turn."""

    final: str | None
    error: str | None
    outputs: list[Any]
    requests: list[Any]
    events: tuple[Any, ...]
    warnings: tuple[str, ...]


class Scripted:
    """A plugin with a scripted model."""

    def __init__(self, replies: Sequence[Any]) -> None:
        self.model = ScriptedModel(replies)

    @hookimpl
    def codex_model_providers(self) -> list[ScriptedModel]:
        return [self.model]


@pytest.fixture
def example() -> Iterator[Callable[[str], types.ModuleType]]:
    """The example in a hook's documentation, as a module."""
    made: list[str] = []

    def module_of(hook: str) -> types.ModuleType:
        (source,) = re.findall(r"```python\n(.*?)```", inspect.getdoc(getattr(hookspecs, hook)) or "", re.S)
        module = types.ModuleType(f"example_of_{hook}")
        sys.modules[module.__name__] = module
        made.append(module.__name__)
        exec(compile(dedent(source), f"<example of {hook}>", "exec", dont_inherit=True), vars(module))
        return module

    yield module_of
    for name in made:
        del sys.modules[name]


@pytest.fixture
def registry_of() -> Callable[..., Registry]:
    """A registry of these plugins and no others; nothing may be wrong with them."""

    def load(*plugins: object) -> Registry:
        registry = load_registry({}, entry_points=(), extra_plugins=plugins)
        assert registry.warnings == ()
        return registry

    return load


@pytest.fixture
def run_thread(tmp_path: Path, codex_home: Path) -> Callable[..., Any]:
    """Drive a thread of a kernel with these plugins and a scripted model."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "poem.txt").write_text("roses are red\nviolets are blue\n")

    def run(
        drive: Callable[..., Awaitable[Any]],
        *plugins: object,
        replies: Sequence[Any] = (say("Done."),),
        config: Sequence[str] = (),
        **settings: Any,
    ) -> Any:
        async def driven() -> Any:
            scripted = Scripted(replies)
            environ = {"CODEX_HOME": str(codex_home), "PATH": "/usr/bin:/bin"}
            overrides = ('sandbox_mode="danger-full-access"', 'approval_policy="never"', 'model_provider="scripted"')
            loaded = load_config(cwd=workspace, environ=environ, overrides=(*overrides, *config))
            everything = [scripted, *plugins]
            async with await Kernel.create(loaded, environ=environ, entry_points=(), plugins=everything) as kernel:
                return await drive(kernel, await kernel.start_thread(**settings), scripted.model)

        return asyncio.run(driven())

    return run


@pytest.fixture
def run_turn(run_thread: Callable[..., Any]) -> Callable[..., Turn]:
    """Run one turn in a kernel with these plugins and a scripted model."""

    async def turn(kernel: Kernel, thread: Thread, model: ScriptedModel) -> Turn:
        result = await thread.run("Hello!")
        outputs = [item.output for item in thread.history.items if is_output(item)]
        warnings = kernel.registry.warnings
        return Turn(result.final_message, result.error, outputs, model.requests, result.events, warnings)

    def run(*plugins: object, **more: Any) -> Turn:
        found: Turn = run_thread(turn, *plugins, **more)
        return found

    return run
