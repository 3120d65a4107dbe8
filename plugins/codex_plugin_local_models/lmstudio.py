"""LM Studio: whether it runs, which models it has, and the download of one by its program ``lms``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from codex_framework.toolkit.programs import found_program
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_local_models.downloader import StalledError, download
from codex_plugin_local_models.server import LocalServer, failed

__all__ = ["prepare"]

_START = "Install from https://lmstudio.ai/download and run 'lms server start'."


def prepare(url: str, model: str, env: Mapping[str, str]) -> None:
    """Make sure that the server runs and has the model. Progress goes to stderr. LM Studio loads it with the first request.

    Raises:
        ModelError: The server does not run, or cannot download the model.
    """
    server = LocalServer(url, "LM Studio", _START)
    listed = server.get(f"{server.url}/models").get("data")
    if not isinstance(listed, list):
        raise server.senseless("it does not list its models")
    if not any(isinstance(each, dict) and each.get("id") == model for each in listed):
        _download(model, env)


def _download(model: str, env: Mapping[str, str]) -> None:
    program = _program(env)
    print(f"Downloading model: {printable(model)}", file=sys.stderr, flush=True)
    by_hand = f"Run `lms get {model}` by hand to find the cause."
    try:
        status = download([program, "get", "--yes", model], env, sys.stderr)
    except OSError as error:
        raise failed(f"{program} cannot be started: {error.strerror}", hint=_START) from error
    except StalledError as error:
        fact = f"the download of {model!r} made no progress for {error.seconds:g} seconds, and lms was ended"
        raise failed(fact, hint=f"Check the network, and run the same command again. {by_hand}") from None
    if status != 0:
        raise failed(f"the download of {model!r} failed: lms ended with status {status}", hint=by_hand)


def _program(env: Mapping[str, str]) -> str:
    """Return the path of ``lms``, which LM Studio does not always put on the PATH."""
    found = found_program("lms", env.get("PATH", os.defpath))
    if found is None:
        home = Path(env.get("HOME") or Path.home())
        places = [home / ".lmstudio" / "bin" / "lms", home / ".cache" / "lm-studio" / "bin" / "lms"]
        found = next((str(place) for place in places if place.is_file()), None)
    if found is None:
        raise failed(
            "LM Studio's program `lms`, which downloads models, is not found",
            hint="Install LM Studio from https://lmstudio.ai/download, or load the model there.",
        )
    return found
