"""Hook ``codex_roles``: hooks of a plugin's own, which other plugins implement."""

from __future__ import annotations

from codex_framework import hookimpl
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
