"""Landlock: an allow-list for file access that a process applies to itself and its descendants."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable

from .syscalls import call, prctl

__all__ = ["ABI_NETWORK", "ABI_SCOPE", "MINIMUM_ABI", "READ", "abi_version", "restrict"]

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_RULE_PATH_BENEATH, _RULE_NET_PORT = 1, 2
_PR_SET_NO_NEW_PRIVS = 38

MINIMUM_ABI = 3
"""The oldest supported ABI. Older ones lack ``truncate`` (added in Linux 6.2), so files outside of the roots could be emptied."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
_FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_BIND_TCP, _CONNECT_TCP = 0b01, 0b10
_SCOPE_ABSTRACT_UNIX_AND_SIGNAL = 0b11

ABI_NETWORK, ABI_SCOPE = 4, 6
"""The first ABI that can restrict TCP, and the first that can restrict signals and abstract unix sockets to the sandbox."""


def abi_version() -> int:
    """Return the highest Landlock ABI of this kernel, or 0 if Landlock is unavailable."""
    try:
        return call("landlock_create_ruleset", _CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


def _handled_rights(abi: int) -> int:
    rights = (1 << 13) - 1
    if abi >= 2:
        rights |= REFER
    if abi >= 3:
        rights |= TRUNCATE
    if abi >= 5:
        rights |= IOCTL_DEV
    return rights


def restrict(rules: Iterable[tuple[int, int]], *, network: bool, ports: Iterable[int] = ()) -> int:
    """Confine this process permanently, and return the ABI that was used.

    Args:
        rules: Descriptors of folders or files, each with the rights below it; -1 means all rights. They are not closed.
        network: Whether TCP stays unrestricted.
        ports: The ports to which connections stay allowed, on any host, if TCP is restricted. Requires :data:`ABI_NETWORK`.

    Raises:
        OSError: The rules cannot be enforced. The process is then not confined.
    """
    abi = abi_version()
    if abi < 1:
        raise OSError(errno.ENOSYS, "Landlock is not available", "landlock")
    handled = _handled_rights(abi)
    tcp = 0 if network or abi < ABI_NETWORK else _BIND_TCP | _CONNECT_TCP
    scopes = _SCOPE_ABSTRACT_UNIX_AND_SIGNAL if abi >= ABI_SCOPE else 0
    attributes = struct.pack("QQQ", handled, tcp, scopes)
    size = 24 if abi >= ABI_SCOPE else 16 if abi >= ABI_NETWORK else 8
    ruleset = call("landlock_create_ruleset", _CREATE_RULESET, attributes, size, 0)
    try:
        for descriptor, rights in rules:
            _allow(ruleset, descriptor, handled & rights)
        for port in ports:
            rule = struct.pack("QQ", _CONNECT_TCP, port)
            call("landlock_add_rule", _ADD_RULE, ruleset, _RULE_NET_PORT, rule, 0)
        prctl(_PR_SET_NO_NEW_PRIVS, 1)
        call("landlock_restrict_self", _RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return abi


def _allow(ruleset: int, descriptor: int, rights: int) -> None:
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= _FOR_FILES
    rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor))
    call("landlock_add_rule", _ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
