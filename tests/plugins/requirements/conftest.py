"""An administrator's file of the test's own."""

from __future__ import annotations

import pytest

from codex_framework.toolkit import administration, off_limits


@pytest.fixture
def require(tmp_path, monkeypatch):
    """Return a function that writes the file."""
    path = tmp_path / "etc" / "codex" / "requirements.toml"
    path.parent.mkdir(parents=True)
    monkeypatch.setattr(administration, "REQUIREMENTS", str(path))
    # What the file denies would otherwise be looked up in all later tests of this process.
    monkeypatch.setattr(off_limits, "_denied", {})

    def write(text):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write
