"""The provider."""

from __future__ import annotations


def test_the_provider_answers_with_what_it_was_told(run_turn):
    result, _ = run_turn("Good morning!", provider="template-echo")
    assert (result.final_message, result.error) == ("You said: Good morning!", None)


def test_a_table_in_the_configuration_sets_the_prefix(run_turn):
    table = '[model_providers.parrot]\nname = "Parrot"\nwire_api = "template-echo"\nprefix = "Krah! "\n'
    result, _ = run_turn("Good morning!", provider="parrot", config=table)
    assert (result.final_message, result.error) == ("Krah! Good morning!", None)
