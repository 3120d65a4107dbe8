"""Previews of the changes of a patch that is still being generated."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

from codex_framework.contract.protocol.events.command import AddFile, DeleteFile, FileChange, UpdateFile
from codex_plugin_apply_patch.grammar import SPACES, AddHunk, DeleteHunk, Hunk, InvalidPatch, Reader, opens_heredoc

__all__ = ["Previews", "StreamedPatch"]

_PACE_S = 0.5
"""Minimum time between two previews of one call, in seconds (Codex: 500 ms)."""

_KEPT = 64
"""Number of calls whose state is kept. The text of an older call is parsed again from its start."""


class StreamedPatch:
    """Parses a patch in pieces as they arrive. Only complete lines are used, and nothing after an error."""

    def __init__(self) -> None:
        self._reader = Reader()
        self._rest = ""
        self._begun = False
        self.fault: InvalidPatch | None = None

    @property
    def hunks(self) -> tuple[Hunk, ...]:
        """The hunks so far, including the incomplete last one."""
        return self._reader.hunks

    def push(self, piece: str) -> None:
        """Parse the next piece."""
        *lines, self._rest = (self._rest + piece).split("\n")
        for line in lines:
            self._take(line.removesuffix("\r"))

    def finish(self) -> None:
        """Parse the last line, which has no line end."""
        rest, self._rest = self._rest, ""
        if rest:
            self._take(rest)

    def _take(self, line: str) -> None:
        if self.fault is not None:
            return
        if not self._begun:
            line = line.lstrip(SPACES)
            if not line or opens_heredoc(line):
                return
            self._begun = True
        try:
            self._reader.take(line)
        except InvalidPatch as fault:
            self.fault = fault


class _Preview:
    """The state of one call."""

    def __init__(self) -> None:
        self.patch = StreamedPatch()
        self.read = 0
        self.shown_at = float("-inf")
        self.shown: Mapping[str, FileChange] = {}


class Previews:
    """The previews of calls that are being generated.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._calls: OrderedDict[str, _Preview] = OrderedDict()

    def changes(self, call_id: str, text: str) -> Mapping[str, FileChange] | None:
        """Return the changes so far, by path as written in the patch. None if there is nothing new, or it is too early.

        Args:
            text: The whole text so far.
        """
        preview = self._calls.setdefault(call_id, _Preview())
        if len(self._calls) > _KEPT:
            self._calls.popitem(last=False)
        now = self._clock()
        if now - preview.shown_at < _PACE_S:
            return None
        preview.patch.push(text[preview.read :])
        preview.read = len(text)
        changes = {hunk.path: _change(hunk) for hunk in preview.patch.hunks}
        if changes == preview.shown:
            return None
        preview.shown_at, preview.shown = now, changes
        return changes

    def forget(self, call_id: str) -> None:
        """Drop the state of a call."""
        self._calls.pop(call_id, None)


def _change(hunk: Hunk) -> FileChange:
    if isinstance(hunk, AddHunk):
        return AddFile(hunk.content)
    if isinstance(hunk, DeleteHunk):
        return DeleteFile("")  # its content is not read for a preview
    lines = []
    for chunk in hunk.chunks:
        lines.append("@@\n" if chunk.context is None else f"@@ {chunk.context}\n")
        lines += [f"{mark}{text}\n" for mark, text in chunk.lines]
    return UpdateFile("".join(lines), hunk.move_to)
