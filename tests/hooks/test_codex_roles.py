"""Hook ``codex_roles``: hooks of a plugin's own, which other plugins implement."""

from __future__ import annotations

import pytest

from codex_framework import hookimpl
from codex_framework.loader.registry import load_registry
from codex_framework.testing.replies import call, say


class Never:
    name = "never"

    def rhymes(self, one, other):
        return False


class Vowels:
    name = "vowels"

    def rhymes(self, one, other):
        return one[-1] in "aeiou" and other[-1] in "aeiou"


class Poet:
    @hookimpl
    def poetry_rhymes(self):
        return [Never(), Vowels()]


def test_codex_roles_example_collects_what_other_plugins_offer(example, run_turn):
    module = example("codex_roles")
    replies = [call("rhyme", one="roses", other="noses"), call("rhyme", one="blue", other="so"), say("Done.")]
    assert run_turn(module, replies=replies).outputs == ["true", "false"]
    turn = run_turn(module, Poet(), replies=replies)
    assert turn.outputs == ["true", "true"]
    assert turn.warnings == ()


def test_codex_roles_is_deprecated_and_the_warning_has_the_new_way(example):
    with pytest.warns(DeprecationWarning, match="codex_roles is deprecated.*Component.provides"):
        registry = load_registry({}, entry_points=(), extra_plugins=[example("codex_roles")])
    assert registry.warnings == ()
