"""The sentence that says what was restored."""

from __future__ import annotations

import pytest

from codex_plugin_undo.snapshots import Restored


@pytest.mark.parametrize(("written", "removed"), [(0, 0), (1, 0), (0, 1), (2, 3)])
def test_files_that_were_written_or_removed_are_counted(written: int, removed: int) -> None:
    summary = Restored("a" * 40, written, removed).summary
    counted = f"Restored {written} and removed {removed} files. Snapshot {'a' * 12} "
    assert summary.startswith(counted if written or removed else "The files are already as they were")
