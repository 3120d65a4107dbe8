"""How the command line finds the modules of the framework: what is run is always what the source says."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from codex_framework.cli.own_modules import find_own_modules
find_own_modules()
import codex_plugin_probe.part as part
import codex_plugin_probe.inner as inner
print(part.VALUE, type(part.__spec__.loader).__name__, inner.VALUE, type(inner.__spec__.loader).__name__)
"""
_QUICK, _USUAL = "_Loader", "SourceFileLoader"
Run = Callable[..., list[str]]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "codex_plugin_probe"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "part.py").write_text("VALUE = 1\n")
    (folder / "inner" / "__init__.py").write_text("VALUE = 2\n")
    for file in (folder / "part.py", folder / "inner" / "__init__.py"):
        py_compile.compile(str(file), doraise=True)
    return folder


def run(package: Path, *options: str, more: str = "", env: dict[str, str] | None = None) -> list[str]:
    done = subprocess.run(
        [sys.executable, *options, "-c", _PROGRAM + more, package.parent],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(env or {})},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def compiled(package: Path) -> Path:
    (file,) = (package / "__pycache__").glob("part.*.pyc")
    return file


def test_a_compiled_module_is_found_at_once(package: Path) -> None:
    assert run(package) == ["1", _QUICK, "2", _QUICK]


def test_a_source_that_has_changed_since_is_compiled_anew(package: Path) -> None:
    source = package / "part.py"
    before = source.stat()
    source.write_text("VALUE = 3\n")
    os.utime(source, (before.st_atime, before.st_mtime + 10))
    assert run(package)[:2] == ["3", _USUAL]
    source.write_text("VALUE = 44\n")
    os.utime(source, (before.st_atime, before.st_mtime + 10))
    assert run(package)[:2] == ["44", _USUAL], "the time is the same, the size is not"


@pytest.mark.parametrize("content", [b"", b"\0" * 16, b"garbage"], ids=["empty", "zeros", "garbage"])
def test_a_compiled_file_that_is_none_is_not_used(package: Path, content: bytes) -> None:
    compiled(package).write_bytes(content)
    assert run(package)[:2] == ["1", _USUAL]


@pytest.mark.parametrize("rest", [b"", b"N", b"\xff\xff\xff"], ids=["nothing", "none", "garbage"])
def test_code_that_cannot_be_read_is_not_used(package: Path, rest: bytes) -> None:
    file = compiled(package)
    file.write_bytes(file.read_bytes()[:16] + rest)
    finding = "from codex_framework.cli.own_modules import _code_of; print(_code_of(*__import__('sys').argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", finding, package / "part.py", file], capture_output=True, text=True, check=True
    )
    assert done.stdout == "None\n"


def test_a_file_compiled_by_hash_is_left_to_python(package: Path) -> None:
    py_compile.compile(
        str(package / "part.py"), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
    )
    assert run(package)[:2] == ["1", _USUAL]


def test_code_that_was_compiled_elsewhere_is_left_to_python(package: Path) -> None:
    moved = package.parent / "moved" / package.name
    moved.parent.mkdir()
    package.rename(moved)
    assert run(moved) == ["1", _USUAL, "2", _USUAL]


def test_what_is_not_compiled_is_left_to_python(package: Path) -> None:
    compiled(package).unlink()
    assert run(package, "-B")[:2] == ["1", _USUAL]


@pytest.mark.parametrize("option", ["-O", "-Xpycache_prefix=/nowhere"])
def test_other_compiled_files_are_left_to_python(package: Path, option: str) -> None:
    assert run(package, "-B", option) == ["1", _USUAL, "2", _USUAL]


def test_finders_of_others_are_asked_first(package: Path) -> None:
    more = "import importlib.machinery as m; own = [f for f in sys.meta_path if type(f).__name__ == '_OwnModules']\n"
    more += (
        "sys.meta_path.insert(0, 'mine'); print(sys.meta_path.index(own[0]) + 1 == sys.meta_path.index(m.PathFinder))"
    )
    assert run(package, more=more)[-1] == "True"


def test_a_module_is_what_it_is_otherwise(package: Path) -> None:
    more = (
        "import inspect, importlib, pathlib\n"
        "print(part.__file__, part.__cached__, part.__package__, inner.__path__, inner.__package__)\n"
        "print(repr(inspect.getsource(part)))\n"
        "pathlib.Path(part.__file__).write_text('VALUE = 555\\n'); print(importlib.reload(part).VALUE)\n"
    )
    names = run(package, more=more)[4:]
    assert names[:5] == [
        str(package / "part.py"),
        str(compiled(package)),
        package.name,
        f"['{package / 'inner'}']",
        f"{package.name}.inner",
    ]
    assert names[-1] == "555"
    assert "'VALUE" in names


def test_no_package_of_ours_has_a_module_of_the_same_name_beside_it() -> None:
    import codex_framework

    root = Path(codex_framework.__file__).parent
    both = [file for file in root.rglob("*.py") if file.with_suffix("").is_dir()]
    assert both == []
