"""The permissions of a turn in the words of an exec-server."""

from __future__ import annotations

import pytest

from codex_framework import FileAccess
from codex_framework.contract.protocol.permissions import AccessMode
from codex_plugin_environments.confining import _profile

OPEN = FileAccess(otherwise=AccessMode.READ)


@pytest.mark.parametrize(
    ("globs", "depth", "told"),
    [(("/a/**/*.pem",), 3, 3), (("/a/**/*.pem",), 0, 0), (("/a/**/*.pem",), None, None), ((), 3, None)],
)
def test_the_depth_of_a_search_is_told_if_there_is_one(globs: tuple[str, ...], depth: int, told: int | None) -> None:
    files = _profile(OPEN.evolve(denied_globs=globs, glob_depth=depth))["file_system"]
    assert files.get("glob_scan_max_depth") == told
    assert ("glob_scan_max_depth" in files) is (told is not None)
