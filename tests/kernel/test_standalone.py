"""Programs that run without the plugin's and the kernel's dependencies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from codex_lib_confinement.standalone import standalone_argv

PROGRAM = """
import sys
from codex_framework.contract.permissions.globs import has_wildcards
from our_plugin.inner import beside
from .beside import WORD

def main(arguments):
    names = {name.partition(".")[0] for name in sys.modules}
    unwanted = sorted(names & {"attrs", "attr", "cattrs", "pluggy", "click", "site"})
    print(WORD, beside.WORD, has_wildcards(arguments[0]), len(arguments), unwanted, sys.flags.optimize)
    return 3
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    folder = tmp_path / "our_plugin" / "inner"
    folder.mkdir(parents=True)
    (tmp_path / "our_plugin" / "__init__.py").write_text("raise RuntimeError('it needs the kernel')")
    (folder / "__init__.py").touch()
    (folder / "beside.py").write_text("WORD = 'beside'")
    (folder / "program.py").write_text(PROGRAM)
    return str(folder / "program.py")


def run(*argv: str) -> tuple[int, str]:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd="/", env={})
    assert not done.stderr
    return done.returncode, done.stdout.strip()


def test_a_module_runs_with_its_package_and_the_kernels_globs_and_without_their_inits(program: str) -> None:
    assert run(*standalone_argv(program), "a*", "--", "b") == (3, "beside beside True 3 [] 0")


def test_the_interpreter_and_its_options_can_be_chosen(program: str) -> None:
    argv = standalone_argv(program, "-O", python=sys.executable)
    assert argv[:4] == (sys.executable, "-I", "-S", "-O")
    assert run(*argv, "a") == (3, "beside beside False 1 [] 1")


def test_a_module_right_in_its_package_is_found_too(tmp_path: Path) -> None:
    folder = tmp_path / "flat"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "tool.py").write_text("def main(arguments):\n    print(__name__)\n")
    assert run(*standalone_argv(str(folder / "tool.py"))) == (0, "flat.tool")
