"""The test files on the page about testing a plugin pass in a folder of their own, and the page names every check."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from codex_framework import testing

PAGE = Path(__file__).parents[2] / "docs" / "extend" / "test-a-plugin.md"


@pytest.mark.slow
def test_the_files_of_the_page_pass(tmp_path):
    files = re.findall(r"^```python as (\S+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    for name, text in files:
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    with testing.ModelServer([testing.say("Four.")]) as server:
        env = {**os.environ, "MODELS_URL": server.url, "MODELS_KEY": "any"}
        record = [*command, "--codex-cassettes=record", "test_recorded.py"]
        done = subprocess.run(record, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(server.requests) == 1
    assert [path.name for path in (tmp_path / "cassettes").iterdir()] == ["test_recorded.test_a_sum.jsonl"]
    done = subprocess.run([*command, "."], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(files) >= 4
    assert "12 passed" in done.stdout


def test_the_page_names_every_check_and_fixture():
    from codex_framework.testing import plugin

    names = [name for name in testing.__all__ if name.startswith("check_")]
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}(" not in text] == []
    fixtures = set(plugin.__all__) - {"codex_home", "scripted_model"}
    assert [name for name in fixtures if name not in text] == []
