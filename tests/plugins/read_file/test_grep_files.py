from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from codex_framework.commands.access import file_access
from codex_framework.contract.errors import ToolError
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import DangerFullAccess, ReadOnly, WorkspaceWrite
from codex_framework.contract.roles.tools import ToolCall
from codex_framework.testing import call, say
from codex_lib_file_search.ignore_rules import IgnoreFile
from codex_plugin_read_file import grep_files
from codex_plugin_read_file.grep_files import GrepFiles
from codex_plugin_read_file.search import matching_files


def find_ripgrep() -> str:
    """The program ``rg`` of the extra ``search``, or that on PATH."""
    beside = Path(sys.executable).with_name("rg")
    found = str(beside) if beside.exists() else shutil.which("rg")
    if found is None:
        pytest.skip("ripgrep is not installed")
    return found


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


RIPGREP = grep_files._ripgrep


@pytest.fixture(params=["ripgrep", "python"])
def grep(open_thread: Callable[..., Any], request: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Call the tool, with ripgrep and without."""
    used: list[bool] = []

    def ripgrep(context: Any) -> str | None:
        found = RIPGREP(context) if request.param == "ripgrep" else None
        used.append(found is not None)
        return found

    monkeypatch.setattr(grep_files, "_ripgrep", ripgrep)
    if request.param == "ripgrep":
        find_ripgrep()

    def found(**arguments: Any) -> str:
        async def call() -> str:
            async with open_thread() as thread:
                output = await GrepFiles().run(ToolCall("call", "grep_files", json.dumps(arguments)), thread.context)
                return str(output.content)

        used.clear()
        try:
            return asyncio.run(call())
        except ToolError as error:
            return str(error)
        finally:
            assert set(used) <= {request.param == "ripgrep"}

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
        ({"pattern": "needle", "path": "new.py", "include": "*.py"}, ("new.py",)),
        ({"pattern": "needle", "path": "new.py", "include": "*.txt"}, ()),
        ({"pattern": "needle", "include": "*.log"}, ("kept.log",)),
        ({"pattern": "needle", "path": "binary.bin"}, ("binary.bin",)),
        ({"pattern": "(?<=a )needle"}, ("src/mid.txt",)),
        ({"pattern": "x\\nneedle"}, ("new.py",)),
        ({"pattern": "x\\sneedle"}, ()),
        ({"pattern": "n[^x]+e tw."}, ("new.py",)),
    ],
)
def test_files_that_fit_are_named_the_last_changed_first(
    grep: Callable[..., str], repository: Path, arguments: dict[str, Any], names: tuple[str, ...]
) -> None:
    assert grep(**arguments) == (paths(repository, *names) or "No matches found.")


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
    regex = re.compile("needle")
    assert matching_files(regex, str(repository / "src"), None) == [str(repository / "src" / "mid.txt")]
    (repository / "src" / ".git").mkdir()  # a repository of its own, whatever stands above
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
    found = matching_files(re.compile("needle"), str(tmp_path), None)
    assert {os.path.relpath(path, tmp_path) for path in found} == expected


# The same as ripgrep

RULES = ["*.log", "!keep.log", "a/", "/x.txt", "!.hidden", ".*", "b/*", "!b/x.txt", "**/c", "# no", "x?txt", "*"]
TEXTS = {
    "plain": b"one needle two\n",
    "other": b"nothing here\n",
    "empty": b"",
    "unicode": "naïve café needle\n".encode(),
    "latin": b"na\xefve needle\n",
    "crlf": b"needle\r\nx\r\n",
    "bom": b"\xef\xbb\xbfneedle\n",
    "utf16": b"\xff\xfe" + "needle\n".encode("utf-16-le"),
    "nul": b"needle\n\0\n",
    "late nul": b"needle\n" + b"x" * 30_000 + b"\0",
    "far nul": b"needle\n" + b"x" * 70_000 + b"\0",
    "after a far nul": b"x" * 70_000 + b"\0\nneedle\n",
    "lines": b"a\nneedle\nb\n",
}
PATTERNS = [
    "needle",
    "^needle$",
    "^needle",
    "na.ve",
    r"caf\w",
    r"\bneedle\b",
    r"a\s*needle",
    "[^q]needle",
    "(?i)NEEDLE",
    "e{2}",
]
NAMES = [
    "x.txt",
    "keep.log",
    "z.log",
    ".hidden",
    "a/x.txt",
    "b/x.txt",
    "b/y.txt",
    "b/c/x.txt",
    "b/a/.hidden",
    "n/x.txt",
    "n/z.log",
]


@st.composite
def trees(draw: st.DrawFn) -> dict[str, bytes]:
    files = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(list(TEXTS.values())), min_size=1, max_size=8))
    places = st.sampled_from(["", "b/", "n/"]).flatmap(
        lambda folder: st.sampled_from([".gitignore", ".ignore", ".rgignore"]).map(lambda name: folder + name)
    )
    rules = st.lists(st.sampled_from(RULES), min_size=1, max_size=3).map(lambda lines: "\n".join(lines).encode())
    files |= draw(st.dictionaries(places, rules, max_size=3))
    if draw(st.booleans()):
        files[".git/info/exclude"] = draw(rules)
    if draw(st.booleans()):
        files["n/.git/HEAD"] = b""
    return files


@settings(max_examples=settings.default.max_examples * 2)
@given(trees(), st.sampled_from(PATTERNS), st.sampled_from(["", "b", "n", "b/x.txt", ".hidden"]))
def test_it_finds_what_ripgrep_finds(tree: dict[str, bytes], pattern: str, below: str) -> None:
    # To Python's search, a byte that is not UTF-8 is a character that `.` matches.
    assume(pattern != "na.ve" or TEXTS["latin"] not in tree.values())
    ripgrep = find_ripgrep()
    with tempfile.TemporaryDirectory() as folder:
        for name, data in tree.items():
            path = Path(folder, "top", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        Path(folder, ".ignore").write_text("z.log\n")
        start = str(Path(folder, "top", below))
        argv = [ripgrep, *grep_files._OPTIONS, "--regexp", pattern, "--", start]
        ran = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert ran.stderr == ""
        assert sorted(matching_files(re.compile(pattern, re.MULTILINE), start, None)) == sorted(ran.stdout.splitlines())


@pytest.mark.parametrize(
    ("policy", "is_run"), [(ReadOnly(), True), (WorkspaceWrite(), False), (DangerFullAccess(), True)]
)
def test_a_ripgrep_that_commands_may_replace_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Any, is_run: bool
) -> None:
    fake = tmp_path / "bin" / "rg"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho fake\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=os.pathsep)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no" / "python"))
    access = file_access(permissions_of(policy), tmp_path, {})
    assert RIPGREP(SimpleNamespace(access=access)) == (str(fake) if is_run else None)  # type: ignore[arg-type]


def test_a_ripgrep_of_the_working_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "rg"
    fake.parent.mkdir()
    fake.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "bin")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no" / "python"))
    access = file_access(permissions_of(ReadOnly()), tmp_path, {})
    assert RIPGREP(SimpleNamespace(access=access)) is None  # type: ignore[arg-type]


def test_the_ripgrep_of_the_extra_is_on_the_path_of_commands(
    run_turn: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "rg"
    monkeypatch.setattr(grep_files, "_bundled_ripgrep", lambda: str(fake))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    search = [call("exec_command", cmd="rg a b; printenv PATH", login=False), say("Done.")]
    assert GrepFiles().programs == {}
    fake.write_text("#!/bin/sh\necho found $*\n")
    fake.chmod(0o755)
    (output,) = run_turn("hello", search).outputs
    found, path = output.partition("Output:\n")[2].splitlines()
    assert found == "found a b"
    assert path.endswith(":/usr/bin:/bin"), "nothing else of that folder is on the path"
    assert str(tmp_path) not in path.replace(str(tmp_path / "codex"), "")
