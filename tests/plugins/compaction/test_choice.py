"""Which of several compactors is used."""

from __future__ import annotations

from codex_framework import Compaction, Compactor, hookimpl
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.protocol.items import user_message
from codex_framework.testing import say
from codex_plugin_compaction import Compact


class Blunt(Compactor):
    name = "blunt"

    async def compact(self, turn, reason):
        return Compaction(items=[user_message("forgotten")], message="forgotten")


class Other:
    @hookimpl
    def codex_compactors(self):
        return [Blunt()]


def left(scene, carry_out, replies, *config, plugins=()):
    async def story(kernel):
        thread = await kernel.start_thread()
        result = await thread.run("Hi!")
        await carry_out(thread, Compact())
        warnings = [event.message for event in result.events if isinstance(event, WarningEvent)]
        return [item.content[0].text.rpartition("\n")[2] for item in thread.history.items], warnings

    return scene.play(story, replies, *config, plugins=plugins)


def test_a_compactor_of_the_program_comes_before_the_bundled_one(scene, carry_out):
    assert left(scene, carry_out, [say("Hello.")], plugins=[Other()]) == (["forgotten"], [])


def test_the_configuration_names_another(scene, carry_out):
    replies = [say("Hello."), say("They greeted.")]
    config = 'framework.compactor="summary"'
    assert left(scene, carry_out, replies, config, plugins=[Other()]) == (["Hi!", "They greeted."], [])


def test_one_that_is_not_there_is_told_and_the_first_is_used(scene, carry_out):
    replies = [say("Hello."), say("They greeted.")]
    items, warnings = left(scene, carry_out, replies, 'framework.compactor="sumary"')
    assert items == ["Hi!", "They greeted."]
    note, warning = warnings
    assert (
        note == "the configuration chooses the compactor 'sumary', which no plugin offers (-c). Did you mean 'summary'?"
    )
    assert warning.startswith(
        "no plugin offers the compactor 'sumary'; used instead is 'summary' of plugin 'compaction'. "
    )
    assert "Set `[framework] compactor` to one of these: 'summary' of plugin 'compaction'." in warning
