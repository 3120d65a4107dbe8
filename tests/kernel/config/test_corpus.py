"""Configurations as people have them: all load, without a warning, and every key has a line."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

from codex_framework.config import settings_from
from codex_framework.config.keys import format_key
from codex_framework.config.toml_positions import line_of
from codex_framework.contract.roles.models import ProviderInfo

CORPUS = sorted(Path(__file__).with_name("corpus").glob("*.toml"))
BUILTIN = {name: ProviderInfo(id=name, name=name) for name in ("openai", "ollama")}


def test_there_are_enough_of_them():
    assert len(CORPUS) >= 20


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_a_usual_configuration_loads(place, file):
    shutil.copy(file, place.codex_home / "config.toml")
    config = place.load()
    assert config.warnings == ()
    assert settings_from(config, BUILTIN).model


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_every_key_of_it_is_found_on_a_line_that_names_it(file):
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    for path in _keys(tomllib.loads(text)):
        line = line_of(text, path)
        assert line is not None, format_key(path)
        if isinstance(path[-1], str):
            assert path[-1] in lines[line - 1].replace("\\\\", "\\"), format_key(path)


def _keys(value, path=()):
    if path:
        yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield from _keys(part, (*path, name))
