from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import codex_framework
from codex_framework.config.notation import expected, misfit
from codex_framework.config.schema import KEYS, SECTIONS, USED_FEATURES, features

CHECKOUT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", [name for name, key in KEYS.items() if key.default.strip() not in ("", "by trust")])
def test_every_default_is_of_its_type(name):
    key = KEYS[name]
    if key.default in ("the id", "the first available"):
        return
    assert misfit(key.type, tomllib.loads(f"value = {key.default}")["value"]) is None


@pytest.mark.parametrize("kind", sorted({key.type for key in KEYS.values()}))
def test_every_type_can_be_said_in_words(kind):
    words = expected(kind)
    assert words
    assert "[" not in words
    assert " entries" not in words


def test_no_key_stands_twice():
    assert sum(len(section) for section in SECTIONS.values()) == len(KEYS)


def _sources() -> str:
    kernel = Path(codex_framework.__file__).parent
    files = [*kernel.rglob("*.py"), *(CHECKOUT / "plugins").rglob("*.py")]
    skipped = {kernel / "config" / "schema.py", kernel / "config" / "reference.py"}
    return "\n".join(file.read_text(encoding="utf-8") for file in files if file not in skipped)


def test_what_is_said_to_be_used_is_read_somewhere():
    sources = _sources()
    words = {name: name.removesuffix(".*").rsplit(".", 1)[-1] for name, key in KEYS.items() if key.used}
    assert [name for name, word in words.items() if word not in sources] == []
    assert [name for name in USED_FEATURES if f'"{name}"' not in sources] == []
    assert set(USED_FEATURES) <= features()
