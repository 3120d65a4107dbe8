"""Files that tools never open, whatever the permissions are: files of the operating system's kernel, and this program's credentials.

Programs of :mod:`codex_lib_confinement.standalone` may import this module.
"""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = ["NotPermittedError", "check_device", "check_path", "deny", "keep_private", "refusal_text"]

_SYSTEM = ("/proc", "/sys")
_NOT_FOR_TOOLS = "tools cannot access the system's files under /proc and /sys"
_CREDENTIALS = "tools cannot access the credentials of this program"
_private: set[str] = set()
_denied: dict[str, Callable[[str], bool]] = {}

_SYSTEM_TYPES = frozenset(
    "proc sysfs cgroup cgroup2 debugfs tracefs securityfs configfs bpf pstore efivarfs binfmt_misc fusectl selinuxfs"  # noqa: SIM905
    " smackfs nsfs rpc_pipefs nfsd resctrl mqueue devpts".split()
)
"""Types of file systems whose files are interfaces of the operating system."""

_MOUNTS = "/proc/self/mountinfo"
_is_system_device: dict[int, bool] = {}


class NotPermittedError(Exception):
    """A path is, or has come to be, in a place that may not be read or written.

    The text is the reason. It is empty if a rule forbids the access.
    """


def keep_private(*paths: str) -> None:
    """Prevent :class:`Files` from opening these files in this process, whatever the permissions are. They contain its credentials."""
    _private.update(os.path.realpath(path) for path in paths)


def deny(source: str, is_denied: Callable[[str], bool]) -> None:
    """Prevent :class:`Files` from opening files that the administrator denies, also for texts that this program sends.

    Args:
        source: The administrator's file. A later call for it replaces the earlier one.
        is_denied: Whether a real path is denied.
    """
    _denied[source] = is_denied


def refusal_text(what: str, path: object, error: NotPermittedError) -> str:
    """Return the sentence for the model: ``reading /x is not permitted``, with the reason if it has one."""
    return ": ".join(filter(None, (f"{what} {path} is not permitted", str(error))))


def check_path(real: str) -> None:
    """Raise NotPermittedError if a real path is off limits."""
    if real in _private:
        raise NotPermittedError(_CREDENTIALS)
    if any(is_denied(real) for is_denied in _denied.values()):
        raise NotPermittedError
    if real.startswith(_SYSTEM) and any(real == top or real.startswith(f"{top}/") for top in _SYSTEM):
        raise NotPermittedError(_NOT_FOR_TOOLS)


def check_device(about: os.stat_result) -> None:
    """Raise NotPermittedError if a status is from a file system of the operating system."""
    device = about.st_dev
    if os.major(device):  # on a disk
        return
    known = _is_system_device.get(device)
    if known is None:
        known = _is_system_device[device] = _has_system_type(device)
    if known:
        raise NotPermittedError(_NOT_FOR_TOOLS)


def _has_system_type(device: int) -> bool:
    number = f"{os.major(device)}:{os.minor(device)}".encode()
    try:
        with open(_MOUNTS, "rb") as mounts:  # noqa: PTH123
            lines = [line.split() for line in mounts]
    except OSError:  # not Linux
        return False
    return any(line[2] == number and line[line.index(b"-") + 1].decode() in _SYSTEM_TYPES for line in lines)
