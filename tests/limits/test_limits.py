"""The kernel does not outgrow ``limits.toml``."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.limits.shape import ROOT, Shape

LIMITS = tomllib.loads(Path(__file__).with_name("limits.toml").read_text(encoding="utf-8"))
TOLERANCE = 1.05
pytestmark = pytest.mark.slow  # the environment `limits` runs all of them


@cache
def checkout() -> Shape:
    """Reading all modules takes some seconds, once."""
    return Shape()


def exceeded(measured: Mapping[str, float], limits: Mapping[str, float]) -> list[str]:
    """Return a sentence for each figure that is too large."""
    assert measured.keys() == limits.keys()
    return [
        f"{what} is {measured[what]:,.6g}, and {limit:,.6g} is recorded: make it smaller, or raise the limit in a commit that says why"
        for what, limit in limits.items()
        if measured[what] > limit * TOLERANCE
    ]


def test_contract_and_engine_do_not_grow() -> None:
    assert exceeded(checkout().sizes(), LIMITS["lines"]) == []


def test_functions_and_classes_can_be_read_at_once() -> None:
    lengths = sorted(checkout().functions().values())
    assert lengths[int(0.95 * len(lengths))] <= 30
    long = {name: lines for name, lines in checkout().classes().items() if lines > 300}
    assert long.keys() == set(LIMITS["long_classes"]), (
        "split by reason to change, or take from the list what is short enough now"
    )


def test_a_small_module_with_one_importer_says_why_it_is_apart() -> None:
    assert checkout().unexplained() == {}, (
        "merge it into its importer, or write into its docstring: Apart from ``importer``: ..."
    )


@pytest.mark.timeout(900)
def test_a_thread_takes_no_more_instructions() -> None:
    """valgrind runs the interpreter some fifty times slower."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] != (3, 11):
        pytest.skip("the recorded instructions are CPython 3.11's")
    if not shutil.which("valgrind"):
        pytest.skip("valgrind, which counts instructions, is not installed")
    command = [sys.executable, "-P", ROOT / "benchmarks" / "threads.py", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert exceeded(json.loads(done.stdout), LIMITS["instructions"]) == []


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / "codex_framework" / f"{name.replace('__', '/', 1)}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_what_the_kernel_reaches_counts_and_nothing_else(tmp_path: Path) -> None:
    write(
        tmp_path,
        kernel="from __future__ import annotations\nfrom codex_framework.threads import thread\n",
        threads__thread="def start():\n    from ..contract.roles import Role\n    import_module('codex_framework.threads.late')\n",
        threads__late="x = 1\n",
        threads____init__="",
        contract____init__='"""Roles."""\n',
        contract__roles="if TYPE_CHECKING:\n    from codex_framework.cli import main\n",
        cli="x = 1\n" * 100,
    )
    assert Shape(tmp_path).sizes() == {"contract": 3, "engine": 6}


def test_the_reason_to_be_apart_names_the_importer(tmp_path: Path) -> None:
    write(tmp_path, kernel="from codex_framework import part\n", part='"""A part.\n\nApart from ``thread``: no.\n"""\n')
    assert Shape(tmp_path).unexplained() == {"codex_framework.part": "codex_framework.kernel"}
    write(tmp_path, part='"""A part.\n\nApart from\n``kernel``: it is another topic.\n"""\n')
    assert Shape(tmp_path).unexplained() == {}


def test_growth_beyond_the_tolerance_is_told() -> None:
    assert exceeded({"engine": 1050}, {"engine": 1000}) == []
    (sentence,) = exceeded({"engine": 1051}, {"engine": 1000})
    assert sentence.startswith("engine is 1,051, and 1,000 is recorded")
