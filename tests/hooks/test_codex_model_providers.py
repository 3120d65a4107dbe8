"""Hook ``codex_model_providers``: where replies stream from."""

from __future__ import annotations

from codex_framework import ProviderInfo, hookimpl


def test_codex_model_providers_example_answers_a_turn(example, run_turn):
    config = ('model_provider="parrot"', 'model_providers.parrot={name="Parrot",wire_api="echo"}')
    turn = run_turn(example("codex_model_providers"), config=config)
    assert (turn.final, turn.error) == ("You said: Hello!", None)


def test_codex_model_providers_bring_provider_ids_that_need_no_table(registry_of):
    class Local:
        name = "local"
        builtin = {"here": ProviderInfo(id="here", wire_api="local")}  # noqa: RUF012

        def open(self, info, env):
            raise NotImplementedError

        def model(self, slug):
            return None

    class Plugin:
        @hookimpl
        def codex_model_providers(self):
            return [Local()]

    registry = registry_of(Plugin())
    assert registry.builtin_providers == {"here": ProviderInfo(id="here", wire_api="local")}
    assert registry.owners == {("providers", "local"): "Plugin"}
