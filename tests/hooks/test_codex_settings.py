"""Hook ``codex_settings``: the class of a plugin's settings, read from its table when the plugin is loaded."""

from __future__ import annotations

from codex_framework.testing.replies import call, say


def test_codex_settings_example_greets_as_it_is_configured(example, run_turn):
    module = example("codex_settings")
    replies = [call("greet", name="Ada"), say("Done.")]
    assert run_turn(module, replies=replies).outputs == ["Hello, Ada!"]
    setting = 'framework.plugins.example_of_codex_settings.greeting="Good day"'
    assert run_turn(module, replies=replies, config=[setting]).outputs == ["Good day, Ada!"]
