"""Modules that the command line loads when they are used: nobody who uses them sees a difference."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codex_framework.cli.late_modules import LATE
from codex_framework.cli.own_modules import _OwnModules
from codex_framework.testing.replies import say

_START = """
import sys
from codex_framework.cli.own_modules import find_own_modules
find_own_modules()
def late(name):
    return type(sys.modules[name]).__name__ == "_LateModule"
"""


def run(program: str, *arguments: str) -> list[str]:
    """Return what a program prints after the finder has been installed. Nothing that a run does before imports the modules."""
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path[:0] = {sys.path!r}\n{_START}{program}",
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_module_is_loaded_when_it_is_used() -> None:
    program = """
import textwrap, textwrap as again
from urllib import parse
print(late("textwrap"), late("ipaddress"))
print(textwrap.dedent(" x"), late("textwrap"), late("ipaddress"), again is textwrap, again is sys.modules["textwrap"])
print(parse.urlsplit("http://[::1]/").hostname, parse.ipaddress.ip_address("::1"), late("ipaddress"))
"""
    assert run(program) == [*("True", "True"), *("x", "False", "True", "True", "True"), *("::1", "::1", "False")]


@pytest.mark.parametrize(
    "use",
    [
        "from textwrap import dedent",
        "from textwrap import *",
        "textwrap.dedent = 1; assert textwrap.dedent == 1 and textwrap.indent",
        "del textwrap.dedent; assert not hasattr(textwrap, 'dedent')",
        "dir(textwrap)",
        "vars(textwrap)['dedent']",
        "hasattr(textwrap, 'nothing')",
        "textwrap.__file__",
    ],
)
def test_whatever_reads_or_changes_a_module_uses_it(use: str) -> None:
    assert run(f"import textwrap\nprint(late('textwrap'))\n{use}\nprint(late('textwrap'))\n") == ["True", "False"]


@pytest.mark.parametrize("name", sorted(LATE))
def test_a_module_is_what_it_is_otherwise(name: str) -> None:
    facts = f"""
import {name} as module, importlib
def facts():
    spec = module.__spec__
    place = (module.__name__, module.__file__, module.__cached__, module.__package__, spec.name, spec.origin, spec.cached)
    return str((sorted(vars(module)), type(module), place, spec.has_location)).replace(" ", "")
first = facts()
importlib.reload(module)
print(first, facts())
"""
    plain = [sys.executable, "-I", "-S", "-c", facts]
    usual = subprocess.run(plain, capture_output=True, text=True, check=True).stdout.split()
    assert run(facts) == usual
    assert run(f"import {name}\nprint(late('{name}'))") == ["True"]


def test_threads_that_use_a_module_at_once_load_it_once() -> None:
    program = """
import threading, time
from importlib.machinery import SourceFileLoader
loads = []
load = SourceFileLoader.exec_module
def slow(loader, module):
    loads.append(loader.name)
    time.sleep(0.05)
    load(loader, module)
SourceFileLoader.exec_module = slow
import textwrap
found, start = [], threading.Barrier(8)
def use():
    start.wait()
    found.append(textwrap.dedent(" x"))
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(loads.count("textwrap"), *found)
"""
    assert run(program) == ["1", *["x"] * 8]


def test_a_module_that_could_not_be_loaded_is_tried_again() -> None:
    program = """
import resource, textwrap
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
try:
    textwrap.dedent
except OSError as error:
    print(error.errno, late("textwrap"))
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
print(textwrap.dedent(" x"), late("textwrap"))
"""
    assert run(program) == ["24", "True", "x", "False"]


def test_another_module_of_the_name_has_precedence_where_python_would_find_it_first(tmp_path: Path) -> None:
    (tmp_path / "textwrap.py").write_text("VALUE = 1\n")
    program = "import textwrap; print(type(textwrap).__name__, textwrap.VALUE)"
    command = [
        sys.executable,
        "-P",
        "-c",
        f"import sys; sys.path.insert(0, sys.argv[1])\n{_START}{program}",
        str(tmp_path),
    ]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["module", "1"]


def test_a_run_loads_none_of_them_before_its_first_request(cli: Any) -> None:
    cli.serve(say("ok"))
    program = """
import sys
loaded = []
def note(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        loaded.append({name for name, module in sys.modules.items() if type(module).__name__ != "_LateModule"})
sys.addaudithook(note)
from codex_framework.cli import main, own_modules
own_modules.find_own_modules()
sys.argv[1:] = ["exec", "--skip-git-repo-check", "say hi"]
from codex_framework.cli import shutdown
end = shutdown.end_process
def tell(status):
    print(status, *sorted(loaded[0]))
    end(status)
shutdown.end_process = tell
main.main()
"""
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=cli.env, cwd=cli.work, check=False
    )
    assert done.returncode == 0, done.stderr
    status, *modules = done.stdout.splitlines()[-1].split()
    assert status == "0"
    assert "asyncio" in modules
    assert sorted(LATE & set(modules)) == []


def test_a_library_without_sources_is_left_to_python(tmp_path: Path) -> None:
    assert _OwnModules(".pyc", None, str(tmp_path)).find_spec("textwrap") is None
    (tmp_path / "textwrap.py").touch()
    assert _OwnModules(".pyc", None, str(tmp_path)).find_spec("textwrap") is not None


def test_the_modules_are_of_the_library() -> None:
    library = Path(os.__file__).parent
    assert [name for name in sorted(LATE) if not (library / f"{name}.py").is_file()] == []
