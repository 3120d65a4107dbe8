"""A watcher that ends unconfined commands if this process is killed, as a sandbox's launcher does with confined ones.

A small shell waits for the end of a pipe that only this process holds open. Running commands are listed in a file that both
processes have open. The file is mapped into this process, so adding a command takes no system call, and the shell wakes up only
once.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import stat
import subprocess

from codex_framework.toolkit.signals import default_signals

__all__ = ["WATCHER", "Watcher"]

_SLOT = 40
"""Size of an entry in bytes. It contains the command's process id (its output while it is being started), spaces and a line feed."""

_BLANK = b" " * (_SLOT - 1) + b"\n"
_FIRST_SLOTS = 8

_SCRIPT = r"""
exec 3<&0
{
trap '' HUP INT QUIT TERM TSTP TTIN TTOU
read -r nothing
pids= outputs=
while read -r entry; do
    case $entry in
        '') ;;
        p*) outputs="$outputs pipe:[${entry#p}]" ;;
        /*) outputs="$outputs $entry!" ;;
        *) pids="$pids $entry" ;;
    esac
done <&1
[ -n "$pids$outputs" ] || exit 0
find() {
    [ -n "$outputs" ] || return
    pids="$pids $(ls -l /proc/[0-9]*/fd/1 | while read -r line; do
        case $line in *' (deleted)') line="${line% (deleted)}!" ;; esac
        case " $outputs " in *" ${line##* -> } "*) ;; *) continue ;; esac
        line=${line%% -> *}; line=${line##*/proc/}
        read -r line <"/proc/${line%%/*}/stat" || continue
        set -- ${line##*) }
        [ "$4" = "$0" ] || echo "$4"
    done | tr '\n' ' ')"
}
end() {
    members=
    for stat in /proc/[0-9]*/stat; do
        read -r line <"$stat" || continue
        set -- ${line##*) }
        case "$1 $pids " in Z*) ;; *" $4 "*) stat=${stat#/proc/}; members="$members ${stat%/stat}" ;; esac
    done
    for pid in $pids; do kill -s "$signal" -- "-$pid"; done
    for pid in $members; do kill -s "$signal" "$pid"; done
}
signal=TERM; find; end
signal=KILL
for pause in 0.05 0.01 0.01 0.02 0.05 0.1 0.2 0.5 1; do
    sleep $pause; find; end
    [ -n "$members$outputs" ] || break
done
} <&3 3<&- &
"""
"""The watcher's script. Its stdin is the pipe, and its stdout is the list.

It signals groups and sessions, as at the normal end of a command: first TERM, then KILL until no process is left, because
processes may fork in the meantime, and a command that was being started may appear a little later. If a process is found by its
output, its whole session is signalled, because the session's leader may have ended. A terminal is compared only in its deleted
state (``!``), because otherwise its number may belong to another terminal. ``$0`` is this process's own session, which is never
signalled. The shell runs in the background, so that it is not a child of this process, which other code might wait for.

``kill -TERM -- -PID`` is an error in dash; ``kill -s TERM -- -PID`` works in all shells.
"""


class Watcher:
    """The watching shell. It is started when first needed, and again if it was killed or this process is a fork."""

    def __init__(self) -> None:
        self._owner = 0
        self._pipe = -1
        self._table = -1
        self._lines: mmap.mmap | None = None
        self._slots: dict[int, int] = {}
        self._free: list[int] = []
        self._made = 0
        self._ends = select.poll()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that stay open until the process ends. Empty before the first start."""
        return tuple(number for number in (self._pipe, self._table) if number >= 0)

    def is_list(self, descriptor: int) -> bool:
        """Return whether an open descriptor belongs to the list. :mod:`mmap` has a separate one."""
        try:
            return self._table >= 0 and os.path.samestat(os.fstat(descriptor), os.fstat(self._table))
        except OSError:  # another thread has closed it
            return False

    def ensure(self) -> None:
        """Start the shell unless it is running. If it cannot be started, commands run without it."""
        if self._owner == os.getpid() and self._pipe >= 0 and not self._ends.poll(0):
            return  # an error of the pipe would mean that its other end is closed
        noted = [*self._slots] if self._owner == os.getpid() else []
        self._close()
        with contextlib.suppress(OSError):
            self._start()
        for pid in noted:
            self.note(self.announce(None), pid)

    def announce(self, output: int | None) -> int:
        """Reserve a slot for a command that is about to be started, and return it.

        Args:
            output: The command's output, which no other process writes to. It identifies the command until :meth:`note`. By
                default, other processes may write to it too.
        """
        if self._free:
            slot = self._free.pop()
        else:
            slot, self._made = self._made, self._made + 1
        if output is not None and self._lines is not None:
            self._write(slot, _line_of(output))
        return slot

    def note(self, slot: int, pid: int) -> None:
        """Add a started command to the list, by the id of its process group and session."""
        self._slots[pid] = slot
        self._write(slot, b"%-39d\n" % pid)

    def withdraw(self, slot: int) -> None:
        """Release the slot of a command that could not be started."""
        self._free.append(slot)
        self._write(slot, _BLANK)

    def forget(self, pid: int) -> None:
        """Remove a command that has ended. Its background processes keep running, as they do when this process ends normally."""
        slot = self._slots.pop(pid, None)
        if slot is not None:
            self.withdraw(slot)

    def _write(self, slot: int, line: bytes) -> None:
        """Write a line of length ``_SLOT``."""
        start, lines = slot * _SLOT, self._lines
        if lines is None:
            return
        if start >= len(lines):
            with contextlib.suppress(OSError):
                lines = self._lines = _extend_memory(self._table, len(lines), 2 * len(lines))
        if start < len(lines):
            lines[start : start + _SLOT] = line

    def _start(self) -> None:
        self._owner = os.getpid()
        self._table = _unnamed_file()
        self._lines = _extend_memory(self._table, 0, _FIRST_SLOTS * _SLOT)
        reader, self._pipe = os.pipe()
        self._ends = select.poll()
        self._ends.register(self._pipe, 0)
        try:
            with default_signals():
                shell = subprocess.Popen(
                    ["/bin/sh", "-c", _SCRIPT, str(os.getsid(0))],
                    cwd="/",
                    env={"PATH": os.defpath},
                    stdin=reader,
                    stdout=self._table,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        finally:
            os.close(reader)
        shell.wait()

    def _close(self) -> None:
        for descriptor in (self._pipe, self._table):
            if descriptor >= 0:
                os.close(descriptor)
        if self._lines is not None:
            self._lines.close()
        self._owner, self._pipe, self._table, self._lines, self._made = 0, -1, -1, None, 0
        self._slots, self._free = {}, []


def _line_of(output: int) -> bytes:
    """Return a line with the number of a pipe, or with a terminal's name in ``/proc/PID/fd``."""
    status = os.fstat(output)
    if stat.S_ISFIFO(status.st_mode):
        return b"p%-38d\n" % status.st_ino
    try:
        name = os.readlink(f"/proc/self/fd/{output}").encode()  # noqa: PTH115  # not necessarily a path
    except OSError:
        return _BLANK  # without /proc, a command is not known before it is noted
    return b"%-39b\n" % name if len(name) < _SLOT and name.startswith(b"/") else _BLANK


def _extend_memory(table: int, old: int, new: int) -> mmap.mmap:
    """Extend the list from ``old`` to ``new`` bytes, and return it as memory."""
    os.pwrite(table, _BLANK * ((new - old) // _SLOT), old)
    return mmap.mmap(table, new)


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("commands")
    import tempfile

    with tempfile.TemporaryFile(buffering=0) as file:
        return os.dup(file.fileno())


WATCHER = Watcher()
"""The watcher of this process. One is enough for all kernels."""
