"""Configurations that were written for Codex."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_framework import ConfigError
from codex_framework.config import load_config
from tests.cases import for_each

KEYS = (Path(__file__).parent / "codex_keys.txt").read_text(encoding="utf-8").split()
"""The keys that Codex 0.171 knows with ``--strict-config``; names that a user chooses are ``s``, ``p``, ``r`` and the like."""


def problem(key: str, folder: Path) -> str | None:
    """Return why a key is unknown, or None if it is known or only warned about."""
    for value in ("1", '"x"', "true", '["x"]', '{ a = "b" }'):
        try:
            load_config(cwd=folder, environ={"HOME": str(folder)}, overrides=[f"{key}={value}"])
        except ConfigError as error:
            if error.slug == "config-unknown" and f"`{key}`" in error.fact:
                return error.fact
    return None


@for_each("key", KEYS)
def test_no_key_that_codex_knows_stops_a_start(key: str, tmp_path: Path) -> None:
    assert problem(key, tmp_path) is None


@pytest.mark.parametrize("key", ["model_providerr", "sandbox_workspace_write.network_acces", "permissions.p.zzz"])
def test_a_likely_mistake_does(key: str, tmp_path: Path) -> None:
    assert problem(key, tmp_path) is not None
