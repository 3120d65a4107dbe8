"""The documentation is found from the command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from codex_framework.toolkit import documentation


def test_help_ends_with_the_place_of_the_documentation(cli: Any) -> None:
    *_, last = cli.run("--help").out.strip().splitlines()
    head, _, page = last.partition(": ")
    assert head == "Documentation"
    assert "errors" in Path(page).read_text(encoding="utf-8")


def pages(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "errors.md").touch()
    return folder


def test_it_is_that_of_the_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "user" / "lib" / "codex_framework"
    monkeypatch.setattr(documentation, "__file__", str(package / "toolkit" / "documentation.py"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setattr("site.getuserbase", lambda: str(tmp_path / "user"))
    assert documentation.documentation_folder() is None
    pages(package.parent / "docs")
    assert documentation.documentation_folder() is None, "anybody's folder beside the package"
    whole = pages(tmp_path / "prefix" / "share" / "doc" / "codex-framework")
    assert documentation.documentation_folder() == str(whole)
    own = pages(tmp_path / "user" / "share" / "doc" / "codex-framework")
    assert documentation.documentation_folder() == str(own)
    monkeypatch.setattr("site.getuserbase", lambda: str(tmp_path / "other"))
    assert documentation.documentation_folder() == str(whole)
    (package.parent / "pyproject.toml").touch()
    assert documentation.documentation_folder() == str(package.parent / "docs")
