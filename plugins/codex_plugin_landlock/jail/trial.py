"""Trials of each layer in a disposable process. If a layer does not work, the result is the system's error message."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import NamedTuple

from codex_lib_confinement.seccomp import assemble

from . import landlock, limits, mounts, namespaces, network, seccomp
from .enclosure import User
from .syscalls import (
    ATTR_NODEV,
    ATTR_NOSUID,
    ATTR_RDONLY,
    NEW_IPC,
    NEW_NET,
    NEW_NS,
    NEW_PID,
    NEW_USER,
    clone,
    mount,
    mount_setattr,
    move_mount,
    open_tree,
    pidfd_open,
)

__all__ = ["try_layers"]

_WITHIN_MS = 5000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_TEXT_BYTES = 4096
_WORKS = "+"


class _Layer(NamedTuple):
    name: str
    flags: int
    apply: Callable[[User], None]


def try_layers(user: User) -> list[tuple[str, str]]:
    """Try each layer, and return its name with an error message, which is empty if the layer works."""
    return [(layer.name, _outcome(layer, user)) for layer in _LAYERS]


def _outcome(layer: _Layer, user: User) -> str:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        try:
            pid = clone(layer.flags) if layer.flags else os.fork()
        except OSError as error:
            return _text(error)
        if pid == 0:
            _try(layer, user, writer)
        os.close(writer)
        writer = -1
        if not _ends(pid):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        answer = os.read(reader, _TEXT_BYTES).decode() or "the trial ended without an answer"
        return "" if answer == _WORKS else answer
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)


def _ends(pid: int) -> bool:
    descriptor = pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(_WITHIN_MS))
    finally:
        os.close(descriptor)


def _try(layer: _Layer, user: User, writer: int) -> None:
    """Run the trial in the child process. Does not return."""
    text = "it did not take effect"
    try:
        if layer.flags & NEW_USER:
            namespaces.map_identity(user.uid, user.gid)
        if layer.flags & NEW_NS:
            mounts.separate()
        layer.apply(user)
        text = _WORKS
    except OSError as error:
        text = _text(error)
    except _WithoutEffect as fault:
        text = str(fault)
    finally:
        with contextlib.suppress(OSError):
            os.write(writer, text.encode())
        os._exit(0)


class _WithoutEffect(Exception):  # noqa: N818
    """A layer was applied, but the action that it should prevent still works."""


def _text(error: OSError) -> str:
    return f"{error.strerror} ({error.filename})" if error.filename else str(error.strerror)


def _expect(condition: object, words: str) -> None:
    if not condition:
        raise _WithoutEffect(words)


def _expect_refusal(attempt: Callable[[], object], words: str) -> None:
    try:
        attempt()
    except OSError:
        return
    raise _WithoutEffect(words)


def _nothing(user: User) -> None:
    pass


def _read_only(user: User) -> None:  # noqa: ARG001
    mount_setattr("/", ATTR_NOSUID | ATTR_NODEV | ATTR_RDONLY)
    _expect(os.statvfs("/").f_flag & os.ST_RDONLY, "the root folder stays writable")


def _devices(user: User) -> None:  # noqa: ARG001
    tree = open_tree("/dev/null", recursive=False)
    mount("tmpfs", "/dev", "tmpfs", _MS_NOSUID, "mode=755,size=64k")
    os.close(os.open("/dev/null", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
    move_mount(tree, "/dev/null")
    with open("/dev/null", "wb") as file:
        file.write(b"x")


def _terminals(user: User) -> None:  # noqa: ARG001
    mount("devpts", "/dev/pts", "devpts", _MS_NOSUID | _MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    _expect(os.listdir("/dev/pts") == ["ptmx"], "other terminals are still there")


def _processes(user: User) -> None:  # noqa: ARG001
    mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _expect([name for name in os.listdir("/proc") if name.isdigit()] == ["1"], "other processes are still there")


def _network(user: User) -> None:  # noqa: ARG001
    network.raise_loopback()
    _expect([name for _, name in socket.if_nameindex()] == ["lo"], "other interfaces are still there")


def _limit(user: User) -> None:
    mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _expect(
        limits.bound_namespace(4096) or user.counted, "neither the process namespace nor a resource limit bounds it"
    )


def _landlock(user: User) -> None:  # noqa: ARG001
    abi = landlock.restrict([], network=False)
    _expect(abi >= landlock.MINIMUM_ABI, f"its ABI is {abi}, at least {landlock.MINIMUM_ABI} is needed")
    _expect_refusal(lambda: os.open("/", os.O_RDONLY), "files can still be opened")


def _seccomp(user: User) -> None:  # noqa: ARG001
    seccomp.install(assemble(seccomp.rules_for(network="off", has_namespaces=True)))
    _expect_refusal(lambda: socket.socket(socket.AF_INET), "sockets can still be made")


_LAYERS = (
    _Layer("user namespace", NEW_USER, _nothing),
    _Layer("read-only mounts", NEW_USER | NEW_NS, _read_only),
    _Layer("process namespace", NEW_USER | NEW_NS | NEW_PID, _processes),
    _Layer("own devices", NEW_USER | NEW_NS | NEW_PID, _devices),
    _Layer("own terminals", NEW_USER | NEW_NS | NEW_PID, _terminals),
    _Layer("network namespace", NEW_USER | NEW_NET, _network),
    _Layer("IPC namespace", NEW_USER | NEW_IPC, _nothing),
    _Layer("limit on processes", NEW_USER | NEW_NS | NEW_PID, _limit),
    _Layer("Landlock", 0, _landlock),
    _Layer("seccomp", 0, _seccomp),
)
