"""Checks before a command is passed to ``sandbox-exec``, whose own messages would look like output of the command."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

from codex_framework import CommandFailed, Launch, SandboxError

__all__ = ["TRIAL", "check_program", "try_out"]

TRIAL = ("/usr/bin/true",)
"""A program that does nothing."""

_TRIAL_S = 20.0


def check_program(launch: Launch) -> None:
    """Refuse a command that cannot be started. ``sandbox-exec`` would only print a message and exit.

    Raises:
        CommandFailed: The program or the folder does not exist or is unusable; the fact is the system's text.
    """
    program = launch.argv[0] if launch.argv else ""
    code = _reason(program, launch)
    if code:
        hint = f"Check that {program!r} is on PATH and that {launch.cwd!r} is a folder."
        raise CommandFailed(f"{os.strerror(code)} (os error {code})", hint=hint)


def _reason(program: str, launch: Launch) -> int:
    """Return the number of the error that a start would cause; 0 for none."""
    cwd = Path(launch.cwd)
    if not cwd.is_dir():
        return errno.ENOTDIR if cwd.exists() else errno.ENOENT
    if not program:
        return errno.ENOENT
    folders = [""] if "/" in program else launch.env.get("PATH", os.defpath).split(os.pathsep)
    paths = [cwd / folder / program for folder in folders]
    if any(path.is_file() and os.access(path, os.X_OK) for path in paths):
        return 0
    return errno.EACCES if any(path.exists() for path in paths) else errno.ENOENT


def try_out(argv: tuple[str, ...]) -> None:
    """Confine a program that does nothing, so that a rejected profile does not look like a failed command.

    Args:
        argv: The whole command line.

    Raises:
        SandboxError: The profile is rejected, or nothing can run under it.
    """
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, env={}, cwd="/", timeout=_TRIAL_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SandboxError(
            f"{argv[0]} has not started a program after {_TRIAL_S:.0f} s",
            hint="try again; check whether one of the paths is on a volume that does not respond",
        ) from error
    except OSError as error:
        raise SandboxError(f"{argv[0]} cannot be run: {error.strerror}", hint=_hint_of(error)) from error
    message = done.stderr.decode("utf-8", "replace").strip()
    if done.returncode == 0 or "execvp" in message:  # the profile was applied; only this program is missing or denied
        return
    if "sandbox_apply" in message:
        raise SandboxError(
            f"macOS refuses a sandbox here: {message}",
            hint="run the agent outside of the sandbox that it is already in",
        )
    raise SandboxError(
        f"no program can be started under the generated profile (status {done.returncode}): {message or 'no message'}",
        hint="if the permissions deny system folders, remove these rules; if not, report this with the version of macOS",
    )


def _hint_of(error: OSError) -> str:
    if error.errno == errno.E2BIG:
        return "use fewer paths in the permissions, because all of them are arguments of one program"
    return "restore it; it is part of macOS"
