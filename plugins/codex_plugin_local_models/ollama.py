"""Ollama: whether it runs, which models it has, and the download of one."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from codex_framework.toolkit.terminal_text import one_line
from codex_lib_model_client.small_replies import run_alone
from codex_plugin_local_models.progress import Progress
from codex_plugin_local_models.server import LocalServer, failed

__all__ = ["prepare"]

_OLDEST = (0, 13, 4)
"""The first version with the Responses API (Codex's limit)."""
_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?!\d)", re.ASCII)
_START = "Start it with: `ollama serve` (after installing). Install instructions: https://github.com/ollama/ollama?tab=readme-ov-file#ollama"


_AGAIN = "Run the same command again. Ollama continues where it stopped."
_STALLED_S = 300.0
"""Seconds without progress after which a download counts as stalled. Ollama reports progress several times a second."""
_MOST_STEPS = 1000
"""How many steps count as progress. A model has some dozens."""
_SILENT, _SILENT_S = ("verifying", "writing"), 1800.0
"""Steps that report nothing until they are done, and their limit in seconds: a large file on a slow disk takes minutes to check."""


def prepare(url: str, model: str, env: Mapping[str, str]) -> None:  # noqa: ARG001  # the same for all servers
    """Make sure that the server runs and has the model. Progress goes to stderr.

    Raises:
        ModelError: The server does not run, is too old, or cannot download the model.
    """
    server = LocalServer(url, "Ollama", _START)
    _check_version(server)
    if not _has(server, model):
        _pull(server, model)


def _check_version(server: LocalServer) -> None:
    found = str(server.get(f"{server.root}/api/version", required=False).get("version", ""))
    numbers = re.match(_VERSION, found)
    if numbers is not None and tuple(map(int, numbers.groups())) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        fact = f"Ollama {_printable_text(found)} is too old. Version {oldest} or newer is required."
        raise failed(fact, hint="Install a newer version: https://ollama.com/download")


def _has(server: LocalServer, model: str) -> bool:
    listed = server.get(f"{server.root}/api/tags").get("models")
    if not isinstance(listed, list):
        raise server.senseless("it does not list its models")
    names = [each.get("name") for each in listed if isinstance(each, dict)]
    return model in names or f"{model}:latest" in names


def _pull(server: LocalServer, model: str) -> None:
    progress = Progress(sys.stderr, f"Pulling model {model}...")
    try:
        done = run_alone(_pull_model(server, model, progress))
    finally:
        progress.close()
    if not done:
        raise failed(f"Pull failed: the download of {model!r} ended before it was complete", hint=_AGAIN)
    if not _has(server, model):
        raise server.senseless(f"it says that it has downloaded {model!r}, but does not list it")


async def _pull_model(server: LocalServer, model: str, progress: Progress) -> bool:
    """Download a model. Returns whether the server says that it has succeeded.

    Raises:
        ModelError: The download fails, or makes no progress.
    """
    clock = asyncio.get_running_loop().time
    moved_at, limit_s = clock(), _STALLED_S
    steps: dict[tuple[str, str], float] = {}
    done = False
    async with aclosing(server.lines(f"{server.root}/api/pull", {"model": model, "stream": True})) as lines:
        while True:
            try:
                async with asyncio.timeout_at(moved_at + limit_s):
                    line = await anext(lines, None)
            except TimeoutError:
                fact = f"Pull failed: the download of {model!r} made no progress for {limit_s:g} seconds"
                raise failed(fact, hint=f"Check the network of the server. {_AGAIN}") from None
            if line is None:
                return done
            if "error" in line:
                raise failed(
                    f"Pull failed: {_printable_text(line['error'])}",
                    hint=f"Check the name {model!r}, the network and the disk, or run `ollama pull {model}`.",
                )
            status = _printable_text(line.get("status", ""))
            done = status == "success"
            step, completed = (status, _printable_text(line.get("digest", ""))), line.get("completed")
            if step not in steps and len(steps) >= _MOST_STEPS:
                continue
            if step not in steps or (type(completed) is int and completed > steps[step]):
                steps[step] = completed if type(completed) is int else 0
                moved_at = clock()
                limit_s = _SILENT_S if status.startswith(_SILENT) else _STALLED_S
            progress.report(*step, completed, line.get("total"))


def _printable_text(text: Any) -> str:
    if isinstance(text, dict):  # the error objects of other servers
        text = text.get("message", text)
    return one_line(str(text))
