"""Checks before a command, for sandboxes that start commands by a program whose messages would look like the command's."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from codex_framework.contract.errors import CommandFailed, SandboxError
from codex_framework.contract.permissions.file_access import FileAccess, Protection
from codex_framework.contract.roles.sandboxes import Launch, SandboxReport

__all__ = ["check_floor", "check_start", "check_text", "start_error", "trusted_programs", "within_reach"]

_PLAIN_TEXT = "Pass arguments and variables that are text without NUL bytes."
_OPEN_TO_ALL = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  # not used, but passed over


def check_text(argv: Iterable[str], env: Mapping[str, str]) -> None:
    """Refuse arguments and variables that the system does not accept.

    Raises:
        CommandFailed: One is not text that can be encoded, contains a NUL byte, or is an impossible name of a variable.
    """
    try:
        words = [os.fsencode(word) for word in (*argv, *env, *env.values())]
    except UnicodeError as error:  # half a surrogate pair
        raise CommandFailed("an argument cannot be encoded as text", hint=_PLAIN_TEXT) from error
    if any(b"\0" in word for word in words):
        raise CommandFailed("nul byte found in provided data", hint=_PLAIN_TEXT)
    wrong = next((name for name in env if not name or "=" in name), None)
    if wrong is not None:
        raise CommandFailed(f"a variable cannot have the name {wrong!r}", hint=_PLAIN_TEXT)


def check_start(launch: Launch) -> None:
    """Refuse a command that cannot be started, as far as this can be known outside of the sandbox.

    Raises:
        CommandFailed: The program or the folder does not exist or is unusable; the fact is the system's text.
    """
    number = _obstacle(launch)
    if number:
        program = launch.argv[0] if launch.argv else ""
        raise start_error(number, hint=f"Check that {program!r} is on PATH and that {launch.cwd!r} is a folder.")


def start_error(number: int, *, hint: str) -> CommandFailed:
    """Return the error for a command that cannot be started, with the system's text for an error number."""
    return CommandFailed(f"{os.strerror(number)} (os error {number})", hint=hint)


def _obstacle(launch: Launch) -> int:
    """Return the number of the error that ``chdir`` or ``execvp`` would end with; 0 for none."""
    cwd = Path(launch.cwd)
    try:
        if not cwd.is_dir():
            return errno.ENOTDIR if cwd.exists() else errno.ENOENT
    except OSError as error:  # a folder above cannot be entered, the name is too long
        return error.errno or errno.ENOENT
    program = launch.argv[0] if launch.argv else ""
    if not program:
        return errno.ENOENT
    folders = [""] if "/" in program else launch.env.get("PATH", os.defpath).split(os.pathsep)
    paths = [os.path.join(cwd, folder, program) for folder in folders]  # noqa: PTH118  # not normalised: `a/../b`
    if any(os.path.isfile(path) and os.access(path, os.X_OK) for path in paths):  # noqa: PTH113
        return 0
    return errno.EACCES if any(map(os.path.exists, paths)) else errno.ENOENT


def trusted_programs(names: Iterable[str], search: str) -> Iterator[str]:
    """Yield the paths of programs that may be asked to confine commands, first choice first.

    A program in this process's working folder, or in a folder where everyone may write, is skipped, because it cannot be
    trusted. Relative folders are skipped too, because their meaning depends on the working folder.

    Args:
        names: Names of programs, in order of preference.
        search: The folders, as in ``PATH``.
    """
    dubious = [os.path.realpath(folder) for folder in (Path.cwd(), *_OPEN_TO_ALL, tempfile.gettempdir())]
    for name in names:
        for folder in filter(os.path.isabs, search.split(os.pathsep)):
            found = shutil.which(name, path=folder)
            if found is None:
                continue
            real = Path(os.path.realpath(found))
            if not any(real.is_relative_to(place) for place in dubious if place != "/"):
                yield found


def within_reach(program: str, access: FileAccess, cwd: Path) -> bool:
    """Return whether commands of this access could replace a program, so that it cannot be trusted to confine them.

    With full access they could replace every program, which then does not count.
    """
    real, here = Path(os.path.realpath(program)), os.path.realpath(cwd)
    return (here != "/" and real.is_relative_to(here)) or (not access.full and access.may_write(real))


def check_floor(name: str, report: SandboxReport, access: FileAccess, *, bounds_memory: bool = False) -> None:
    """Refuse an access whose ``sandbox_floor`` demands more than is enforced here.

    Args:
        name: The subject of the error's sentence: ``bubblewrap``, ``a container``.
        report: The protections that the sandbox enforces.
        access: The permissions, with the floor and the limits.
        bounds_memory: Whether the sandbox has its own memory limit.

    Raises:
        SandboxError: Protections are missing; the fact names all of them.
    """
    limits = access.limits
    unlimited = {
        Protection.PROCESS_COUNT: limits.processes is None,
        Protection.RESOURCES: limits.file_bytes is None or (limits.memory_bytes is None and not bounds_memory),
    }
    missing = [
        protection
        for protection in sorted(access.floor)
        if protection in report.missing(access.floor) or unlimited.get(protection)
    ]
    if missing:
        raise SandboxError(
            f"{name} cannot enforce all of `sandbox_floor` here; missing: {', '.join(missing)}",
            slug="sandbox-floor",
            hint="set `[framework] sandbox_limits`: processes, memory_mb and file_size_mb"
            if all(unlimited.get(protection) for protection in missing)
            else "choose another sandbox, or remove it from `[framework] sandbox_floor`",
        )
