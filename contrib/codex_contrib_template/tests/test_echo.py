"""The provider."""

from __future__ import annotations

from codex_contrib_template.echo import Echo
from codex_framework import ProviderInfo
from codex_framework.testing import check_provider


def test_the_provider_fulfils_its_role():
    check_provider(Echo(), ProviderInfo(id="parrot", wire_api="template-echo", options={"prefix": "Krah! "}))


def test_the_provider_repeats_the_message(run_turn):
    run = run_turn("Good morning!", config='model_provider = "template-echo"\n')
    assert (run.final_message, run.error) == ("You said: Good morning!", None)


def test_a_table_in_the_configuration_sets_the_prefix(run_turn):
    table = '[model_providers.parrot]\nname = "Parrot"\nwire_api = "template-echo"\nprefix = "Krah! "\n'
    run = run_turn("Good morning!", config=f'model_provider = "parrot"\n{table}')
    assert (run.final_message, run.error) == ("Krah! Good morning!", None)


def test_a_wrong_prefix_is_an_error_that_names_the_key(run_turn):
    run = run_turn(
        "Hello!", config='model_provider = "parrot"\n[model_providers.parrot]\nwire_api = "template-echo"\nprefix = 3\n'
    )
    assert run.error == 'model_providers.parrot.prefix is 3. Write a string, such as prefix = "...".'
