"""Conditions of which each half matters: patterns in any command, words that the grammar omits, and repositories with submodules."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_lib_shell_script.parsing import shell_commands
from codex_plugin_execpolicy.repositories import _GITLINK, _LARGEST_INDEX, names_programs


@pytest.mark.parametrize("script", ["ls *; pwd", "pwd; ls *", "ls ~ && pwd", "ls [ab] | wc", "pwd; ls ?; pwd"])
def test_a_pattern_in_any_command_counts(script: str) -> None:
    found = shell_commands(script)
    assert found is not None
    assert found.expands


@pytest.mark.parametrize("script", ["ls '*'; pwd", 'pwd; ls "~"', r"ls \*; pwd"])
def test_a_quoted_pattern_does_not_count(script: str) -> None:
    found = shell_commands(script)
    assert found is not None
    assert not found.expands


def repository(folder: Path, **files: bytes) -> Path:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_an_index_names_programs_only_with_a_submodule_or_if_it_is_too_large(tmp_path: Path) -> None:
    index = b"DIRC\0\0\0\2\0\0\0\1"
    assert not names_programs(repository(tmp_path))
    assert not names_programs(repository(tmp_path, index=index))
    assert not names_programs(repository(tmp_path, index=index.ljust(_LARGEST_INDEX, b"x")))
    assert names_programs(repository(tmp_path, index=index.ljust(_LARGEST_INDEX + 1, b"x")))
    assert names_programs(repository(tmp_path, index=index + _GITLINK))
    (tmp_path / "index").write_bytes(index)
    assert names_programs(repository(tmp_path, **{"sharedindex.1": _GITLINK}))
