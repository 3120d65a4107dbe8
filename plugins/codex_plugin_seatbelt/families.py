"""Tracking of a command's descendants. Seatbelt does not end processes, so leftover processes of a command must be found.

A process is recognised by its parent or by its group. A process that has left its group is found while its parent is alive, and
its own children are then found through it. A process that leaves its group and loses its parent between two checks is missed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Family", "Row", "process_table"]

_PS = "/bin/ps"
_PS_S = 5.0
_ROUNDS = 20
_PAUSE_S = 0.005


class Row(NamedTuple):
    """A process.

    Attributes:
        started: The start time in the system's own notation. With the id, it distinguishes a process from later ones.
        zombie: Whether the process has already ended.
    """

    pid: int
    parent: int
    group: int
    started: str
    zombie: bool


def process_table() -> dict[int, Row]:
    """Return all processes by id. The result is empty if they cannot be listed."""
    rows = _from_proc() if Path("/proc/self/stat").exists() else _from_ps()
    return {row.pid: row for row in rows}


def _from_proc() -> Iterator[Row]:
    for entry in os.listdir("/proc"):  # noqa: PTH208  # hundreds of names, several times a second
        if not entry.isdigit():
            continue
        try:
            stat = Path(f"/proc/{entry}/stat").read_bytes()
        except OSError:
            continue  # it has just ended
        fields = stat.rpartition(b")")[2].split()
        yield Row(int(entry), int(fields[1]), int(fields[2]), fields[19].decode(), fields[0] in (b"Z", b"X"))


def _from_ps() -> Iterator[Row]:
    argv = [_PS, "-axo", "pid=,ppid=,pgid=,state=,lstart="]
    try:
        done = subprocess.run(argv, capture_output=True, env={"LC_ALL": "C"}, timeout=_PS_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in done.stdout.decode("ascii", "replace").splitlines():
        fields = line.split(None, 4)
        if len(fields) == 5 and all(field.lstrip("-").isdigit() for field in fields[:3]):
            yield Row(int(fields[0]), int(fields[1]), int(fields[2]), fields[4].strip(), fields[3].startswith("Z"))


class Family:
    """A command and its known descendants.

    Args:
        leader: The command's process id, which is also its group's id.
    """

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._known: dict[int, str] = {}
        self._looking = threading.Lock()

    @property
    def has_descendants(self) -> bool:
        """Whether any process other than the command itself is known."""
        return bool(self._known.keys() - {self._leader})

    def look(self, table: dict[int, Row]) -> list[int]:
        """Add new descendants. Return the ids of all living processes including the leader, youngest generation last."""
        with self._looking:
            self._known = {
                pid: started
                for pid, started in self._known.items()
                if pid not in table or table[pid].started == started  # the id now belongs to another process
            }
            if self._leader in table:
                self._known.setdefault(self._leader, table[self._leader].started)
            found_more = True
            while found_more:
                found_more = False
                for row in table.values():
                    if row.pid not in self._known and self._belongs(row):
                        self._known[row.pid] = row.started
                        found_more = True
            return [pid for pid in self._known if pid in table and not table[pid].zombie]

    def kill(self) -> None:
        """Kill all descendants that can be found, including those created in the meantime. Blocks for some milliseconds."""
        for _ in range(_ROUNDS):
            living = self.look(process_table())
            if not living:
                return
            for pid in living:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    continue  # gone, or not permitted
            time.sleep(_PAUSE_S)

    def _belongs(self, row: Row) -> bool:
        return row.group == self._leader or row.parent in self._known or row.group in self._known
