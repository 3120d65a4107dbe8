"""A trial run of ``sandbox-exec``. Without it, error messages of ``sandbox-exec`` would look like output of the command."""

from __future__ import annotations

import errno
import subprocess

from codex_framework import SandboxError

__all__ = ["TRIAL", "try_out"]

TRIAL = ("/usr/bin/true",)
"""A program that does nothing."""

_TRIAL_S = 20.0


def try_out(argv: tuple[str, ...]) -> None:
    """Run a program that does nothing in the sandbox, so that a rejected profile does not look like a failed command.

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
