"""Which file a program is that runs without a sandbox: never one whose place depends on the working folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_framework.toolkit.programs import found_program


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the program ``tool`` in it and in ``bin``."""
    for file in (tmp_path / "tool", tmp_path / "bin" / "tool"):
        file.parent.mkdir(exist_ok=True)
        file.touch(0o755)
    (tmp_path / "bin" / "text").touch(0o644)
    (tmp_path / "bin" / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", ["", ":", ".", "bin", "./bin:../x", "~/bin"])
def test_relative_folders_of_the_search_path_are_left_out(place: Path, path: str) -> None:
    assert found_program("tool", path) is None
    assert found_program("tool", f"{path}:{place}/bin:{place}") == f"{place}/bin/tool"


def test_the_first_folder_with_a_program_counts(place: Path) -> None:
    assert found_program("tool", f"{place}/none:{place}:{place}/bin") == f"{place}/tool"
    assert found_program("text", f"{place}/bin") is None, "it cannot be run"
    assert found_program("folder", f"{place}/bin") is None
    assert found_program("missing", f"{place}/bin") is None


def test_paths_are_taken_from_a_folder_that_is_certain(place: Path) -> None:
    assert found_program(f"{place}/bin/tool", "") == f"{place}/bin/tool"
    assert found_program("bin/tool", f"{place}") is None
    assert found_program("./tool", f"{place}") is None
    assert found_program("bin/tool", "", cwd=".") is None
    assert found_program("bin/tool", "", cwd=str(place)) == f"{place}/bin/tool"
    assert found_program("tool", "", cwd=str(place)) is None, "a name is searched for"
