"""Whole patches on whole folders, by the tool and by the command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codex_lib_confinement.standalone import standalone_argv
from codex_plugin_apply_patch import standalone


def command(patch: str, folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [*standalone_argv(standalone.__file__), patch]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)


FILES = {"a.py": "def a():\n    return 1\n", "b.txt": "bee\n", "sub/c.txt": "sea\n"}

SCENARIOS = {
    "everything at once": (
        (
            "*** Add File: new/x.txt\n+x\n*** Update File: a.py\n@@ def a():\n-    return 1\n+    return 2\n*** Delete File: b.txt\n"
            "*** Update File: sub/c.txt\n*** Move to: deep/er/d.txt\n@@\n-sea\n+dee"
        ),
        {"a.py": "def a():\n    return 2\n", "deep/er/d.txt": "dee\n", "new/x.txt": "x\n"},
        "A new/x.txt\nM a.py\nM deep/er/d.txt\nD b.txt\n",
    ),
    "an added file replaces another": (
        "*** Add File: b.txt\n+new",
        {**FILES, "b.txt": "new\n"},
        "A b.txt\n",
    ),
    "a moved file replaces another": (
        "*** Update File: a.py\n*** Move to: b.txt\n@@\n-def a():\n+def b():",
        {"b.txt": "def b():\n    return 1\n", "sub/c.txt": "sea\n"},
        "M b.txt\n",
    ),
    "a file moved onto itself stays": (
        "*** Update File: b.txt\n*** Move to: ./b.txt\n@@\n-bee\n+buzz",
        {**FILES, "b.txt": "buzz\n"},
        "M ./b.txt\n",
    ),
}

ONE_BY_ONE = {
    "hunks build on each other": (
        "*** Add File: n.txt\n+one\n*** Update File: n.txt\n@@\n-one\n+two\n*** Update File: n.txt\n@@\n-two\n+three",
        {**FILES, "n.txt": "three\n"},
        "A n.txt\nM n.txt\nM n.txt\n",
    ),
    "deleted and made again": (
        "*** Delete File: b.txt\n*** Add File: b.txt\n+other",
        {**FILES, "b.txt": "other\n"},
        "A b.txt\nD b.txt\n",
    ),
}


@pytest.fixture
def folder(desk: Any) -> Path:
    for name, text in FILES.items():
        (desk.folder / name).parent.mkdir(exist_ok=True)
        (desk.folder / name).write_text(text)
    return Path(desk.folder)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_tool_applies(name: str, desk: Any, folder: Path) -> None:
    body, expected, summary = SCENARIOS[name]
    output = desk.apply(f"*** Begin Patch\n{body}\n*** End Patch")
    assert output == f"Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\n{summary}"
    assert desk.tree() == {key: text.encode() for key, text in expected.items()}


@pytest.mark.parametrize("name", [*SCENARIOS, *ONE_BY_ONE])
def test_the_command_applies(name: str, desk: Any, folder: Path) -> None:
    """One operation after the other, so there may be several on one file."""
    body, expected, summary = (SCENARIOS | ONE_BY_ONE)[name]
    done = command(f"*** Begin Patch\n{body}\n*** End Patch", folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"Success. Updated the following files:\n{summary}", "")
    assert desk.tree() == {key: text.encode() for key, text in expected.items()}


def test_recorded_scenarios_end_as_recorded(anchors: Path, desk: Any) -> None:
    scenarios = sorted(path for path in (anchors / "apply_patch").iterdir() if path.is_dir())
    assert scenarios
    for scenario in scenarios:
        shutil.rmtree(desk.folder)
        start = scenario / "input"
        shutil.copytree(start, desk.folder) if start.is_dir() else desk.folder.mkdir()
        expected = {
            str(path.relative_to(scenario / "expected")): path.read_bytes()
            for path in (scenario / "expected").rglob("*")
            if path.is_file()
        }
        before = desk.tree()
        text = (scenario / "patch.txt").read_text()
        done = command(text, desk.folder)
        assert desk.tree() == expected, scenario.name
        if done.returncode != 0:
            assert done.stderr, scenario.name
            continue
        shutil.rmtree(desk.folder)
        shutil.copytree(start, desk.folder) if start.is_dir() else desk.folder.mkdir()
        assert desk.tree() == before
        assert desk.apply(text).startswith("Exit code: 0\n"), scenario.name
        assert desk.tree() == expected, scenario.name
