"""Folders, the wheel's package list and the entry points say the same."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = sorted(
    path.name for path in (ROOT / "plugins").iterdir() if path.is_dir() and path.name.startswith("codex_plugin_")
)
PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


def test_every_plugin_folder_is_in_the_wheel_and_nothing_else() -> None:
    assert sorted(PACKAGES) == ["codex_framework", *(f"plugins/{name}" for name in FOLDERS)]


def test_every_plugin_folder_has_an_entry_point() -> None:
    entry_points = PROJECT["project"]["entry-points"]["codex_framework"]
    assert entry_points == {name.removeprefix("codex_plugin_"): name for name in FOLDERS}


def test_every_import_package_is_marked_as_typed() -> None:
    missing = [package for package in PACKAGES if not (ROOT / package / "py.typed").exists()]
    assert missing == []


def test_the_import_rules_name_every_plugin() -> None:
    linter = PROJECT["tool"]["importlinter"]
    assert linter["root_packages"] == ["codex_framework", *FOLDERS]
    contracts = {contract["type"]: contract for contract in linter["contracts"]}
    assert contracts["forbidden"]["forbidden_modules"] == contracts["independence"]["modules"] == FOLDERS
    assert contracts["acyclic_siblings"]["ancestors"] == ["codex_framework", *FOLDERS]


def test_plugins_may_import_the_contract_and_the_toolkit_and_no_other_room_of_the_kernel() -> None:
    (protected,) = (one for one in PROJECT["tool"]["importlinter"]["contracts"] if one["type"] == "protected")
    root = ROOT / "codex_framework"
    rooms = {path.stem for path in root.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    open_rooms = {"contract", "toolkit", "__init__", "__main__"}
    assert set(protected["protected_modules"]) == {f"codex_framework.{room}" for room in rooms - open_rooms}
    assert protected["allowed_importers"] == ["codex_framework"]


def test_versions_agree() -> None:
    import codex_framework

    assert PROJECT["project"]["version"] == codex_framework.__version__


@pytest.mark.parametrize("stem", ["utils", "helpers", "common", "base", "core", "manager", "service", "misc"])
def test_no_module_has_a_name_that_says_nothing(stem: str) -> None:
    modules = (path for folder in ("codex_framework", "plugins") for path in (ROOT / folder).rglob("*.py"))
    found = [path for path in modules if stem in path.stem.split("_")]
    assert found == []


LONGEST = 450
"""Lines of a module of the kernel. The turn machine alone may be longer: its rules belong together."""


def test_a_module_of_the_kernel_can_be_read_in_one_sitting():
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / "codex_framework").rglob("*.py")
    }
    assert lengths.pop("codex_framework/threads/turn/machine.py") > 0
    assert lengths["codex_framework/threads/thread.py"] <= 350
    assert {path: length for path, length in lengths.items() if length > LONGEST} == {}
