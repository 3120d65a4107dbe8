from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.contract.errors import ToolError
from codex_framework.contract.roles.tools import ToolCall
from codex_plugin_read_file.grep_files import GrepFiles
from codex_plugin_read_file.search import IgnoreFile, matching_files


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    files = {
        "old.py": "needle one\n",
        "new.py": "x\nneedle two\n",
        "src/mid.txt": "a needle\n",
        "src/build/out.py": "needle\n",
        "ignored.log": "needle\n",
        "kept.log": "needle\n",
        ".hidden": "needle\n",
        "binary.bin": "\0needle\n",
        "other.txt": "nothing\n",
        ".gitignore": "*.log\n!kept.log\nbuild/\n# a comment\n",
    }
    for age, (name, text) in enumerate(files.items()):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_000_000 + age, 1_000_000 + age))
    (tmp_path / ".git").mkdir()
    return tmp_path


@pytest.fixture
def grep(open_thread: Callable[..., Any]) -> Callable[..., str]:
    def found(**arguments: Any) -> str:
        async def call() -> str:
            async with open_thread() as thread:
                output = await GrepFiles().run(ToolCall("call", "grep_files", json.dumps(arguments)), thread.context)
                return str(output.content)

        try:
            return asyncio.run(call())
        except ToolError as error:
            return str(error)

    return found


def paths(folder: Path, *names: str) -> str:
    return "\n".join(str(folder / name) for name in names)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"pattern": "needle"}, ("kept.log", "src/mid.txt", "new.py", "old.py")),
        ({"pattern": "needle$"}, ("kept.log", "src/mid.txt")),
        ({"pattern": "^needle (one|two)"}, ("new.py", "old.py")),
        ({"pattern": "needle", "include": "*.py"}, ("new.py", "old.py")),
        ({"pattern": "needle", "include": "*.{txt,py}"}, ("src/mid.txt", "new.py", "old.py")),
        ({"pattern": "needle", "include": "src/*"}, ("src/mid.txt",)),
        ({"pattern": "needle", "include": "!*.py"}, ("kept.log", "src/mid.txt")),
        ({"pattern": "needle", "path": "src"}, ("src/mid.txt",)),
        ({"pattern": "needle", "path": "new.py"}, ("new.py",)),
        ({"pattern": "needle", "limit": 2}, ("kept.log", "src/mid.txt")),
    ],
)
def test_files_that_fit_are_named_the_last_changed_first(
    grep: Callable[..., str], repository: Path, arguments: dict[str, Any], names: tuple[str, ...]
) -> None:
    assert grep(**arguments) == paths(repository, *names)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pattern": "nowhere to be found"}, "No matches found."),
        ({"pattern": "  "}, "pattern must not be empty"),
        ({"pattern": "x", "limit": 0}, "limit must be greater than zero"),
        ({"pattern": "x", "path": "no"}, "unable to access `{0}/no`: No such file or directory (os error 2)"),
        ({}, "failed to parse function arguments: missing field `pattern` at line 1 column 2"),
    ],
)
def test_other_outcomes_are_told(
    grep: Callable[..., str], repository: Path, arguments: dict[str, Any], message: str
) -> None:
    assert grep(**arguments) == message.replace("{0}", str(repository))


def test_a_pattern_that_is_none_is_told(grep: Callable[..., str], repository: Path) -> None:
    assert grep(pattern="(").startswith("the search failed: ")


def test_rules_of_the_folders_above_count_within_a_repository(repository: Path) -> None:
    (repository / "src" / "late.log").write_text("needle\n")
    regex = re.compile(b"needle")
    assert matching_files(regex, str(repository / "src"), None) == [str(repository / "src" / "mid.txt")]
    (repository / ".git").rmdir()
    assert len(matching_files(regex, str(repository / "src"), None)) == 3


@pytest.mark.parametrize(
    ("include", "names"),
    [
        ("**/*.py", ("new.py", "old.py")),
        ("/*.txt", ()),
        ("**/m?d.[!x]xt", ("src/mid.txt",)),
        ("src/**", ("src/mid.txt",)),
        ("\\*.py", ()),
        ("{new,old}.p[a-z]", ("new.py", "old.py")),
    ],
)
def test_the_files_to_search_are_chosen_by_a_glob(
    grep: Callable[..., str], repository: Path, include: str, names: tuple[str, ...]
) -> None:
    assert grep(pattern="needle", include=include) == (paths(repository, *names) or "No matches found.")


def test_a_glob_that_is_none_is_told(grep: Callable[..., str], repository: Path) -> None:
    assert grep(pattern="needle", include="*.{py").startswith("the search failed: error parsing glob")


@given(st.text(alphabet="ab*?[]{}!,/\\.#- ", max_size=12))
def test_any_line_of_an_ignore_file_can_be_read(line: str) -> None:
    assert IgnoreFile("/top", line).verdict("/top/a/b", is_folder=False) in (True, False, None)


GIT_RULES = [
    "*.log",
    "!keep.log",
    "/top.txt",
    "build/",
    "a/*.txt",
    "**/deep",
    "x?z",
    "[ab].c",
    "doc/**",
    "#no",
    "\\#yes",
    "sp ",
    "{p,q}.t",
    "r**s",
]


def test_rules_are_understood_as_git_understands_them(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    names = [
        "x.log", "keep.log", "top.txt", "s/top.txt", "build/f", "s/build/f", "a/b.txt", "s/a/b.txt", "deep", "s/deep", "xyz",
        "s/xyz", "a.c", "c.c", "doc/f", "#no", "#yes", "sp", "s/x.log", "p.t", "{p,q}.t", "rxs", "r/s",
    ]  # fmt: skip
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("needle\n")
    (tmp_path / ".gitignore").write_text("\n".join(GIT_RULES))
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard", "-z"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    expected = {name for name in listed.stdout.split("\0") if name and name != ".gitignore"}
    found = matching_files(re.compile(b"needle"), str(tmp_path), None)
    assert {os.path.relpath(path, tmp_path) for path in found} == expected
