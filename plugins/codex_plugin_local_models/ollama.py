"""Ollama: whether it runs, which models it has, and the download of one."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from codex_framework.toolkit.terminal_text import one_line
from codex_plugin_local_models.progress import Progress
from codex_plugin_local_models.server import LocalServer, failed

__all__ = ["prepare"]

_OLDEST = (0, 13, 4)
"""The first version with the Responses API (Codex's limit)."""
_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?!\d)", re.ASCII)
_START = "Start it with: `ollama serve` (after installing). Install instructions: https://github.com/ollama/ollama?tab=readme-ov-file#ollama"


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
    found = str(server.get(f"{server.root}/api/version").get("version", ""))
    numbers = re.match(_VERSION, found)
    if numbers is not None and tuple(map(int, numbers.groups())) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        fact = f"Ollama {_shown(found)} is too old. Version {oldest} or newer is required."
        raise failed(fact, hint="Install a newer version: https://ollama.com/download")


def _has(server: LocalServer, model: str) -> bool:
    listed = server.get(f"{server.root}/api/tags").get("models")
    if not isinstance(listed, list):
        raise server.senseless("it does not list its models")
    names = [each.get("name") for each in listed if isinstance(each, dict)]
    return model in names or (":" not in model and f"{model}:latest" in names)


def _pull(server: LocalServer, model: str) -> None:
    progress = Progress(sys.stderr, f"Pulling model {model}...")
    done = False
    try:
        for line in server.lines(f"{server.root}/api/pull", {"model": model, "stream": True}):
            if "error" in line:
                raise failed(
                    f"Pull failed: {_shown(line['error'])}",
                    hint=f"Check the name {model!r}, the network and the disk, or run `ollama pull {model}`.",
                )
            done = line.get("status") == "success"
            progress.report(
                _shown(line.get("status", "")), line.get("digest"), line.get("completed"), line.get("total")
            )
    finally:
        progress.close()
    if not done:
        raise failed(
            f"Pull failed: the download of {model!r} ended before it was complete",
            hint="Run the same command again. Ollama continues where it stopped.",
        )
    if not _has(server, model):
        raise server.senseless(f"it says that it has downloaded {model!r}, but does not list it")


def _shown(text: Any) -> str:
    if isinstance(text, dict):  # the error objects of other servers
        text = text.get("message", text)
    return one_line(str(text))
