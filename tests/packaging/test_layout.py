"""Folders, the wheel's package list and the entry points say the same."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CLIENTS, LIBRARIES, FOLDERS = (
    sorted(path.name for path in (ROOT / "plugins").glob(pattern) if path.is_dir())
    for pattern in ("codex_client_*", "codex_lib_*", "codex_plugin_*")
)
PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


def test_every_client_library_and_plugin_is_in_the_wheel_and_nothing_else() -> None:
    assert sorted(PACKAGES) == ["codex_framework", *(f"plugins/{name}" for name in (*CLIENTS, *LIBRARIES, *FOLDERS))]


def test_every_plugin_and_every_client_has_an_entry_point() -> None:
    entry_points = PROJECT["project"]["entry-points"]
    terminal = {"terminal": "codex_client_terminal.plugin"}  # the front end, which plugins extend by a service
    assert entry_points["codex_framework"] == {name.removeprefix("codex_plugin_"): name for name in FOLDERS} | terminal
    assert entry_points["codex_framework.front_ends"] == {"terminal": "codex_client_terminal.front:main"}
    commands = {
        name.removeprefix("codex_client_"): f"{name}:main" for name in CLIENTS if name != "codex_client_terminal"
    }
    assert commands.items() <= entry_points["codex_framework.commands"].items()
    further = entry_points["codex_framework.commands"].keys() - commands.keys()
    assert {entry_points["codex_framework.commands"][name] for name in further} == {"codex_client_doctor.update:main"}


def test_every_import_package_is_marked_as_typed() -> None:
    missing = [package for package in PACKAGES if not (ROOT / package / "py.typed").exists()]
    assert missing == []


def test_the_import_rules_name_every_package() -> None:
    linter = PROJECT["tool"]["importlinter"]
    contracts = {contract["name"]: contract for contract in linter["contracts"]}
    around = [*CLIENTS, *LIBRARIES, *FOLDERS]
    assert linter["root_packages"] == contracts["No circles"]["ancestors"] == ["codex_framework", *around]
    assert contracts["The kernel knows no library, no client and no plugin"]["forbidden_modules"] == around
    assert contracts["Libraries know no client and no plugin"]["source_modules"] == LIBRARIES
    assert contracts["Libraries know no client and no plugin"]["forbidden_modules"] == [*CLIENTS, *FOLDERS]
    assert contracts["Libraries do not know each other"]["modules"] == LIBRARIES
    assert contracts["Clients and plugins do not know each other"]["modules"] == [*CLIENTS, *FOLDERS]


def test_packages_around_the_kernel_import_the_contract_and_the_toolkit_and_clients_two_rooms_more() -> None:
    closed, for_clients = (one for one in PROJECT["tool"]["importlinter"]["contracts"] if one["type"] == "protected")
    root = ROOT / "codex_framework"
    rooms = {path.stem for path in root.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    open_rooms = {"contract", "toolkit", "__init__", "__main__"}
    protected = {*closed["protected_modules"], *for_clients["protected_modules"]}
    assert protected == {f"codex_framework.{room}" for room in rooms - open_rooms}
    assert closed["allowed_importers"] == ["codex_framework"]
    assert for_clients["protected_modules"] == ["codex_framework.config", "codex_framework.testing"]
    assert for_clients["allowed_importers"] == ["codex_framework", *CLIENTS]


def test_versions_agree() -> None:
    import codex_framework

    assert PROJECT["project"]["version"] == codex_framework.__version__


@pytest.mark.parametrize("stem", ["utils", "helpers", "common", "base", "core", "manager", "service", "misc"])
def test_no_module_has_a_name_that_says_nothing(stem: str) -> None:
    modules = (path for folder in ("codex_framework", "plugins") for path in (ROOT / folder).rglob("*.py"))
    found = [path for path in modules if stem in path.stem.split("_")]
    assert found == []
