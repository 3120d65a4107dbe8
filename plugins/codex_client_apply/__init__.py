"""``codex-framework apply``: apply the changes of a task of Codex's cloud to this checkout."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from codex_framework.contract.errors import CodexError
from codex_framework.toolkit.git import without_drivers
from codex_framework.toolkit.lazy_command import help_group

__all__ = ["main"]

_BASE_URL = "https://chatgpt.com/backend-api"
_TIMEOUT_S = 60.0
_MAX_BYTES = 64 << 20


@help_group("Run")
@click.command("apply", short_help="Apply the changes of a cloud task to this checkout.")
@click.argument("task_id")
@click.option("--disable", multiple=True, metavar="FEATURE", help="Disable a feature.")
@click.option("--enable", multiple=True, metavar="FEATURE", help="Enable a feature.")
@click.option("-c", "--config", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a configuration key.")
def main(task_id: str, overrides: Sequence[str], enable: Sequence[str], disable: Sequence[str]) -> None:
    """Apply the latest changes of the cloud task TASK_ID to this git checkout, with `git apply --3way`.

    The task is fetched with your login with ChatGPT from `chatgpt_base_url`. Conflicts are marked in the files, as by a merge.
    """
    from codex_framework.config import load_config
    from codex_framework.toolkit.projects import git_root

    switches = [*(f"features.{name}=true" for name in enable), *(f"features.{name}=false" for name in disable)]
    config = load_config(cwd=Path.cwd(), environ=os.environ, overrides=(*overrides, *switches))
    root = git_root(Path.cwd())
    if root is None:
        raise _error("not a git repository", "Change to the checkout of the task's repository.")
    task = asyncio.run(_fetch(str(config.get("chatgpt_base_url") or _BASE_URL), task_id, config.tables))
    _apply(root, _diff(task))
    click.echo("Successfully applied diff")


async def _fetch(base_url: str, task_id: str, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a task.

    Raises:
        CodexError: Nobody is logged in with ChatGPT, or the server does not return the task.
    """
    from codex_lib_model_client.headers import authorization
    from codex_lib_model_client.https import httpx_module
    from codex_lib_model_client.login.access import find_login
    from codex_lib_model_client.small_replies import fetch

    login = find_login(os.environ, config)
    if login is None or isinstance(login, str):
        hint = "Tasks belong to an account of ChatGPT, not to an API key. Run: codex-framework login"
        raise _error("ChatGPT auth not available", hint)
    token = await login.token()
    headers = {"authorization": authorization(login, token), **login.headers}
    url = f"{base_url.rstrip('/')}/wham/tasks/{quote(task_id, safe='')}"
    httpx = httpx_module()
    try:
        reply = await fetch("GET", url, timeout_s=_TIMEOUT_S, max_bytes=_MAX_BYTES, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise _error(f"the task cannot be fetched: {reason}", "Check the network and chatgpt_base_url.") from None
    if reply.status != 200:
        hints = {
            401: "Log in again: codex-framework login",
            404: "Check the id of the task, and with whose login you are.",
        }
        raise _error(f"Request failed with status {reply.status}", hints.get(reply.status, "Try again later."))
    try:
        task = json.loads(reply.data or b"")
    except (ValueError, RecursionError):
        task = None
    if not isinstance(task, Mapping):
        raise _error("Failed to parse JSON response", "Check chatgpt_base_url.")
    return task


def _diff(task: Mapping[str, Any]) -> str:
    """Return the changes of the latest turn with changes.

    Raises:
        CodexError: No turn has changes.
    """
    turn = task.get("current_diff_task_turn")
    if not isinstance(turn, Mapping):
        raise _error("No diff turn found", "The task has not changed anything yet.")
    for item in turn.get("output_items") or ():
        output = item.get("output_diff") if isinstance(item, Mapping) and item.get("type") == "pr" else None
        if isinstance(output, Mapping) and isinstance(output.get("diff"), str):
            return str(output["diff"])
    raise _error("No PR output item found", "The task has not changed anything yet.")


def _apply(root: Path, diff: str) -> None:
    """Apply a diff.

    Raises:
        CodexError: git is missing, or a part of the diff does not apply.
    """
    try:
        done = subprocess.run(
            ["git", "apply", "--3way", "-"],
            cwd=root,
            env=without_drivers(root, os.environ),
            input=diff.encode(),
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise _error(f"git cannot be run: {error.strerror}", "Install git.") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        hint = "Commit or stash your changes of these files, or check out the commit that the task began at."
        raise _error(f"Git apply failed\n{said}", hint)


def _error(fact: str, hint: str) -> CodexError:
    return CodexError(fact, slug="apply", hint=hint)
