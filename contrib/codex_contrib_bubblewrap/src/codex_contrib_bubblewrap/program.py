"""The choice of the ``bwrap`` to run, and the test whether it works on this machine."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from codex_framework import FileAccess, SandboxError
from codex_lib_confinement.launching import trusted_programs, within_reach

__all__ = ["HINT", "candidates", "choose", "trial"]

HINT = "install bubblewrap (package `bubblewrap` of your distribution), or set `[framework.plugins.bubblewrap] path`"

_TRIAL_S = 5.0
_TRIAL = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc", "--", "true"),
)
"""All features of the system that a command's sandbox needs."""

_PROC_HINT = "use a machine, or a container, whose /proc is not masked (Docker: --security-opt systempaths=unconfined)"
_NAMESPACE_HINT = (
    "allow unprivileged user namespaces: sysctl -w user.max_user_namespaces=10000, on Ubuntu also an AppArmor profile"
    " for bwrap, in a container --security-opt seccomp=unconfined"
)


def candidates(path: str | None, search: str) -> Iterator[str]:
    """Return the candidate programs as real paths, first choice first.

    Args:
        path: The configured program. If it is set, there is no other candidate.
        search: A ``PATH``. Programs in places that others may write are skipped.
    """
    named = (path,) if path is not None else trusted_programs(("bwrap",), search)
    for program in dict.fromkeys(map(os.path.realpath, named)):
        if os.path.isfile(program) and os.access(program, os.X_OK):
            yield program


def choose(path: str | None, search: str, access: FileAccess, cwd: Path) -> str:
    """Return the program for commands with this access. No command can have created or changed it.

    Raises:
        SandboxError: No such program was found.
    """
    found = list(candidates(path, search))
    for program in found:
        if not within_reach(program, access, cwd):
            return program
    if found:
        raise SandboxError(
            f"{found[0]} is in a place that commands can write to, so it cannot be trusted to confine them",
            hint="set `[framework.plugins.bubblewrap] path` to one outside of the working folder and the writable folders",
        )
    raise SandboxError("bwrap was not found", slug="no-sandbox", hint=HINT)


@functools.lru_cache(maxsize=8)
def trial(program: str) -> tuple[str, str]:
    """Run ``true`` in a sandbox with all namespaces. Return the reason of a failure and a hint; empty texts if it works.

    This takes about five milliseconds, once for each program.
    """
    try:
        done = subprocess.run(
            [program, *_TRIAL],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_S,
            env={"PATH": os.defpath},
        )
    except subprocess.TimeoutExpired:
        return f"{program} did not finish within {_TRIAL_S:g} s", HINT
    except OSError as error:
        return f"{program} cannot be run: {error.strerror}", HINT
    if done.returncode == 0:
        return "", ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    reason = said[-1] if said else f"bwrap ended with {done.returncode}"
    return reason, _PROC_HINT if "proc" in reason else _NAMESPACE_HINT
