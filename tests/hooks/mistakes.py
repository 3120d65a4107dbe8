"""Tables of mistakes of plugin authors, and the way to try them.

Each mistake is a plugin that was written with nothing but the docs: a file, a distribution, or a class. The line that is at fault ends
with ``# <-``. ``{at}`` in a message stands for its place, ``{fix}`` for "fix or disable the plugin", and ``...`` for anything.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from textwrap import dedent, indent
from typing import Any, NamedTuple

from codex_framework import ApprovalPolicy, CodexError, Decision, Kernel, ReviewDecision
from codex_framework.config import load_config
from codex_framework.testing import Offer, ScriptedModel, call, say

FIX = 'Fix the plugin, or disable it with `[framework] plugins.disabled = ["acme"]`.'
RAISE = "Fix the tool, or raise ToolError with a text that helps the model."


class Mistake(NamedTuple):
    """A plugin, and what is said about it.

    Attributes:
        told: The message, as the docstring of this module says.
        form: ``file``, ``distribution`` or ``class``.
        config: The configuration.
        op: Submit this op instead of a prompt.
        provider: Let the plugin's provider answer.
        policy: The approval policy.
        kept: Whether the thread is stored.
    """

    what: str
    told: str
    source: str
    form: str = "file"
    config: str = ""
    op: str = ""
    provider: bool = False
    policy: str = "never"
    mode: str = "danger-full-access"
    kept: bool = False


MISTAKES: list[Mistake] = []
"""The rows of the module that is being imported, until :func:`taken` takes them."""


def taken() -> list[Mistake]:
    """Return the rows that were added since the last call."""
    rows = list(MISTAKES)
    MISTAKES.clear()
    return rows


def mistake(what: str, told: str, source: str, **more: Any) -> None:
    """Add a row to the table."""
    MISTAKES.append(Mistake(what, told, dedent(source), **more))


def of_tool(what: str, told: str, body: str, **more: Any) -> None:
    """Add a row about the body of a tool function."""
    source = f"""
        import asyncio, sys, time
        from codex_framework import Agent, EventMsg, ServiceKey, Task, ToolContext, hookimpl, tool

        @tool
        async def work(context: ToolContext) -> object:
            "Work."
{indent(dedent(body), " " * 12)}

        @hookimpl
        def codex_tools():
            return [work]
    """
    mistake(what, told, source, **more)


def of_class(what: str, told: str, hook: str, role: str, body: str, **more: Any) -> None:
    """Add a row about the members of a class that plays a role. The plugin has a tool that runs a command, too."""
    source = f"""
        import asyncio, time
        from codex_framework import *

        class X({role}):
            name = "x"
{indent(dedent(body), " " * 12)}

        @hookimpl
        def {hook}():
            return [X()]

        @tool
        async def work(context: ToolContext) -> str:
            "Work."
            return (await context.run(["echo", "hi"])).output
    """
    offered = """
        @hookimpl
        def codex_tools():
            return [work]
    """
    mistake(what, told, source if hook == "codex_tools" else source + offered, **more)


def of_client(what: str, told: str, body: str, provider: str = "def open(self, info, env): return Client()") -> None:
    """Add a row about a model provider's client."""
    source = f"""
        from codex_framework import *

        class Client:
{indent(dedent(body), " " * 12)}
            async def aclose(self): pass

        class Echo(ModelProvider):
            name = "echo"
{indent(dedent(provider), " " * 12)}

        @hookimpl
        def codex_model_providers():
            return [Echo()]
    """
    mistake(what, told, source, provider=True)


FILE = "plugin 'acme' ({file}): "


def check_table(rows: list[Mistake]) -> None:
    """Check that each row says what to do, and where."""
    assert len({row.what for row in rows}) == len(rows)
    for row in rows:
        assert "acme" in row.told or "Words" in row.told or "config" in row.told, row.what
        assert re.search(r"\. \S|\{raise\}|\{fix\}", row.told), f"{row.what}: nothing says what to do"
        assert ("{at}" in row.told) == ("# <-" in row.source), row.what


def check_mistake(row: Mistake, tmp_path: Path, monkeypatch: Any) -> None:
    """Check that a row's message reaches the person."""
    file = tmp_path / ("acme_words.py" if row.form.startswith("distribution") else "acme.py")
    if row.source:
        file.write_text(row.source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_words", raising=False)
    told = asyncio.run(asyncio.wait_for(everything_told(row, file, tmp_path), 30))
    assert any(re.fullmatch(pattern(row, file, tmp_path), text, re.S) for text in told), "\n".join(told)
    assert not any("Traceback" in text for text in told)


def pattern(row: Mistake, file: Path, folder: Path) -> str:
    """Return the regular expression of a row's message."""
    lines = [number for number, line in enumerate(row.source.splitlines(), 1) if "# <-" in line]
    at = f"({file}, line {lines[0]})" if lines else ""
    parts = {
        "{at}": at,
        "{fix}": FIX,
        "{raise}": RAISE,
        "{file}": str(file),
        "{config}": str(folder / "home/config.toml"),
    }
    words = re.split(r"(\{at\}|\{fix\}|\{raise\}|\{file\}|\{config\}|\.\.\.)", row.told)
    return "".join(".*" if word == "..." else re.escape(parts.get(word, word)) for word in words)


async def everything_told(row: Mistake, file: Path, folder: Path) -> list[str]:
    """Return what a person is told: by the loader, in a thread, at the end, and by errors."""
    told: list[str] = []
    try:
        async with await kernel_with(row, file, folder) as kernel:
            table = kernel.registry
            told += (text for report in table.reports_with_commands for text in report.warnings.values())
            told += kernel.registry.warnings
            told += await one_turn(row, kernel)
        told += kernel.registry.warnings
    except CodexError as error:
        told.append(f"{error}. {error.hint}")
    return told


async def kernel_with(row: Mistake, file: Path, folder: Path) -> Kernel:
    """Make a kernel with a row's plugin, and a model that calls its tool."""
    home, workspace = folder / "home", folder / "workspace"
    home.mkdir()
    workspace.mkdir()
    home.joinpath("config.toml").write_text(row.config)
    environ = {"CODEX_HOME": str(home), "PATH": "/usr/bin:/bin"}
    settings = [f'sandbox_mode="{row.mode}"', f'approval_policy="{row.policy}"', 'model_provider="scripted"']
    if row.provider:
        table = 'model_providers.echo={name="Echo", wire_api="echo", stream_max_retries=0}'
        settings = [*settings[:2], 'model_provider="echo"', table]
    config = load_config(cwd=workspace, environ=environ, overrides=settings)
    replies = [call("work"), say("Done.")] if "def work" in row.source or "class Work" in row.source else [say("Done.")]
    plugins: list[Any] = [Offer(providers=[ScriptedModel(replies)], name="model")]
    entry_points: list[Any] = []
    form, _, attribute = row.form.partition(":")
    if form == "file":
        plugins.append(file)
    elif form == "class":
        plugins.append(class_of(file))
    else:
        entry_points.append(installed(file, attribute))
    return await Kernel.create(config, environ=environ, plugins=plugins, entry_points=entry_points)


async def one_turn(row: Mistake, kernel: Kernel) -> list[str]:
    """Run a turn, and return the warnings and errors of the thread."""
    thread = await kernel.start_thread(ephemeral=not row.kept)
    events = thread.events(answers=False)

    async def approve(_: Any) -> ReviewDecision:
        return ReviewDecision(Decision.APPROVED)

    if row.op:
        await thread.submit(kernel.op(row.op))
        while thread.running:
            await asyncio.sleep(0.005)
    else:
        on_request = None if row.policy == ApprovalPolicy.NEVER else approve
        await thread.run("Go.", on_request=on_request)
    await thread.shutdown()
    return [event.msg.message async for event in events if event.msg.type in ("warning", "error")]


def class_of(file: Path) -> Any:
    """Return the class of a file, as a program would import it."""
    spec = importlib.util.spec_from_file_location("acme_class", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Words


def installed(file: Path, attribute: str) -> EntryPoint:
    """Return the entry point of a distribution that lies unpacked where a wheel is installed."""
    info = file.parent / "acme_words-1.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: acme-words\nVersion: 1.0\n")
    target = f"acme_words:{attribute}" if attribute else "acme_words"
    info.joinpath("entry_points.txt").write_text(f"[codex_framework]\nacme = {target}\n")
    (distribution,) = distributions(path=[str(file.parent)])
    (point,) = distribution.entry_points
    return point
