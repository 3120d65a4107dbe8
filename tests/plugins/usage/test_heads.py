"""The ids of session files."""

from __future__ import annotations

import json
from pathlib import Path

from codex_plugin_usage.folders import SessionFile
from codex_plugin_usage.heads import _id_of


def test_a_file_whose_name_has_no_id_has_that_of_its_head(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    head = {"id": "0199a213-81c0-7800-8aa1-bbab2a035a53", "cwd": "/"}
    path.write_text(
        json.dumps({"timestamp": "2026-11-23T02:53:17.711Z", "type": "session_meta", "payload": head}) + "\n"
    )
    assert _id_of(SessionFile(str(path), "", None, 0.0)) == head["id"]
    assert _id_of(SessionFile(str(path), "named", None, 0.0)) == "named"
    path.write_text("")
    assert _id_of(SessionFile(str(path), "", None, 0.0)) == ""
