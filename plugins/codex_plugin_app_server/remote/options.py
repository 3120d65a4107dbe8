"""``exec --remote``: the command line in the words of the protocol. Options that the server itself decides are refused."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from codex_framework import CodexError, ExecOption, ExecRun, ExecThread, PluginContext
from codex_framework.contract.roles.exec_options import OptionUse
from codex_plugin_app_server.remote.address import RemoteAddress, parse_remote_address
from codex_plugin_app_server.remote.peer import Peer
from codex_plugin_app_server.remote.thread import RemoteThread

__all__ = ["exec_options"]

_SERVERS_HINT = "Leave it out. The server has its own configuration for this."

_OUTPUT = ("color", "heartbeat", "json", "output-last-message")
_INPUT = ("image", "output-schema")
_REMOTE = ("remote", "remote-auth-token-env")
_SETTINGS = (
    "approve-for-me",
    "ask-for-approval",
    "config",
    "dangerously-bypass-approvals-and-sandbox",
    "full-auto",
    "model",
    "sandbox",
)
_OF_NEW_THREADS = ("disable", "enable", "ephemeral", "search", "thread-source")
_NO_EFFECT = ("no-alt-screen", "no-daemon", "skip-git-repo-check")
_KNOWN = frozenset((*_OUTPUT, *_INPUT, *_REMOTE, *_SETTINGS, *_OF_NEW_THREADS, *_NO_EFFECT, "at", "cd"))

_TURN_KEYS = {
    "approval_policy": "approvalPolicy",
    "approvals_reviewer": "approvalsReviewer",
    "model": "model",
    "model_reasoning_effort": "effort",
    "model_reasoning_summary": "summary",
    "personality": "personality",
    "service_tier": "serviceTier",
}
"""Settings that a turn can change, and their names in ``turn/start``."""

_MODES = {"read-only": "readOnly", "workspace-write": "workspaceWrite", "danger-full-access": "dangerFullAccess"}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def exec_options(plugin: PluginContext) -> list[ExecOption]:
    """Return ``--remote`` and ``--remote-auth-token-env``."""

    @asynccontextmanager
    async def open_thread(run: ExecRun) -> AsyncIterator[ExecThread]:
        _check_options(run)
        address = parse_remote_address(str(run.value), plugin.codex_home)
        token = _token(run.options.get("remote-auth-token-env"), address, plugin.environ)
        opening, turn = _thread_request(run), _turn_settings(run)
        async with Peer.connect(address, token, plugin.environ) as peer:
            yield await RemoteThread.open(peer, *opening, turn, run.config)

    return [
        ExecOption(
            name="remote",
            text="Run the turn on an app server: ws://HOST:PORT, wss://HOST:PORT, unix:// or unix://PATH.",
            metavar="ADDR",
            open_thread=open_thread,
        ),
        ExecOption(
            name="remote-auth-token-env",
            text="The environment variable with the token that the app server demands.",
            metavar="ENV_VAR",
            implies=_check_remote,
        ),
    ]


def _check_remote(use: OptionUse) -> Mapping[str, Any]:  # noqa: ARG001  # the role's
    """Refuse the option without ``--remote``. With it, no kernel runs here, and implied settings are not needed."""
    raise CodexError("`--remote-auth-token-env` requires `--remote`.", slug="remote", hint="Add --remote ADDR.")


def _check_options(run: ExecRun) -> None:
    """Refuse options that the server would not receive, or decides itself.

    Raises:
        CodexError: Such options or settings were given.
    """
    known = _KNOWN - frozenset(_OF_NEW_THREADS) if run.resume else _KNOWN
    unknown = [f"--{name}" for name in run.options if name not in known]
    unknown += [f"-c {key}" for key in _settings_of_the_program(run)]
    if unknown:
        where = "--remote resume" if run.resume else "--remote"
        raise CodexError(f"{where} does not support {', '.join(unknown)}", slug="remote", hint=_SERVERS_HINT)


def _settings_of_the_program(run: ExecRun) -> list[str]:
    """Return settings that a thread of the server cannot have: of this program, and for an existing thread, of threads."""
    if run.resume:
        return [key for key in run.given if key not in (*_TURN_KEYS, "sandbox_mode")]
    return ["framework"] if "framework" in run.given else []


def _token(variable: str | None, address: RemoteAddress, environ: Mapping[str, str]) -> str | None:
    """Return the token that the server demands.

    Raises:
        CodexError: The variable is not set, or the token would be sent unencrypted.
    """
    if variable is None:
        return None
    if not address.keeps_secrets:
        fact = "`--remote-auth-token-env` requires a `wss://` or loopback `ws://` remote."
        raise CodexError(fact, slug="remote", hint="Use wss://, which encrypts the token.")
    token = environ.get(variable)
    if token is None or not token.strip():
        state = "is not set" if token is None else "is empty"
        raise CodexError(f"environment variable `{variable}` {state}", slug="remote", hint="Put the token into it.")
    return token.strip()


def _thread_request(run: ExecRun) -> tuple[str, dict[str, Any]]:
    """Return the method that opens the thread, and its parameters.

    Raises:
        CodexError: The thread is not named by its id.
    """
    params: dict[str, Any] = {"approvalPolicy": _approval_policy(run), "cwd": _folder(run)}
    if run.resume:
        params |= {"threadId": _thread_id(run.thread), "excludeTurns": True}
        if run.fork and run.at is not None:
            params["lastTurnId"] = _turn_id(run.at)
        return "thread/fork" if run.fork else "thread/resume", params
    params |= {"ephemeral": run.options.get("ephemeral"), "threadSource": run.options.get("thread-source")}
    names = {"model": "model", "sandbox_mode": "sandbox", "approvals_reviewer": "approvalsReviewer"}
    params |= {name: run.given[key] for key, name in names.items() if key in run.given}
    config = {key: value for key, value in run.given.items() if key not in (*names, "approval_policy")}
    params["config"] = dict(_flatten_table(config)) or None
    return "thread/start", params


def _turn_settings(run: ExecRun) -> dict[str, Any]:
    """Return the settings of the turn. For a new thread, they are settings of the thread as well."""
    turn: dict[str, Any] = {"approvalPolicy": _approval_policy(run), "turnTrigger": "exec"}
    if run.resume:
        turn |= {name: run.given[key] for key, name in _TURN_KEYS.items() if key in run.given}
        turn["cwd"] = _folder(run)
        if "sandbox_mode" in run.given:
            turn["sandboxPolicy"] = {"type": _MODES[run.given["sandbox_mode"]]}
    return turn


def _approval_policy(run: ExecRun) -> object:
    """Return the policy. Nobody can be asked, unless the command line says otherwise."""
    return run.given.get("approval_policy", "never")


def _folder(run: ExecRun) -> str | None:
    """Return the folder of ``-C``, relative to the current folder. The server has its own folder."""
    folder = run.options.get("cd")
    return None if folder is None else str(Path(folder).absolute())


def _thread_id(named: str | None) -> str:
    try:
        return str(UUID(named or ""))
    except ValueError:
        hint = "The first line of `exec --json` has it."
        raise CodexError("remote resume requires a thread UUID", slug="remote", hint=hint) from None


def _turn_id(at: int | str) -> str:
    if isinstance(at, str):
        return at
    raise CodexError("--remote needs the id of a turn with --at, not its number", slug="remote", hint="Name the id.")


def _flatten_table(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a table by dotted keys, so that they replace nothing else on the server."""
    for key, value in table.items():
        if isinstance(value, Mapping) and value and all(_BARE_KEY.fullmatch(each) for each in value):
            yield from _flatten_table(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
