"""Hook ``codex_events``: event classes of a plugin, told to clients, stored, and read back as values."""

from __future__ import annotations

import asyncio

from codex_framework import Kernel
from codex_framework.config import load_config
from codex_framework.contract.protocol.wire import read_event, to_wire
from codex_framework.testing import Offer
from codex_framework.testing.model import ScriptedModel
from codex_framework.testing.replies import call, say


def test_codex_events_example_tells_clients_of_its_milestone(example, run_turn):
    module = example("codex_events")
    turn = run_turn(module, replies=[call("reach", name="first tests"), say("Done.")])
    assert module.Milestone("first tests") in turn.events


def test_codex_events_are_read_back_from_the_wire_as_values_of_their_class(example, registry_of):
    module = example("codex_events")
    registry = registry_of(module)
    wire = to_wire(module.Milestone("beta"))
    assert wire == {"type": "milestone", "name": "beta"}
    assert read_event(wire, registry.events) == module.Milestone("beta")


def test_codex_events_that_are_kept_come_back_with_a_resumed_thread(example, tmp_path, codex_home):
    module = example("codex_events")
    environ = {"CODEX_HOME": str(codex_home), "PATH": "/usr/bin:/bin"}
    overrides = ('sandbox_mode="danger-full-access"', 'approval_policy="never"', 'model_provider="scripted"')
    config = load_config(cwd=tmp_path, environ=environ, overrides=overrides)

    def kernel(*replies):
        plugins = [module, Offer(providers=[ScriptedModel(replies)])]
        return Kernel.create(config, environ=environ, plugins=plugins)

    async def story():
        async with await kernel(call("reach", name="beta"), say("Done.")) as first:
            thread = await first.start_thread()
            await thread.run("Go.")
        async with await kernel() as second:
            again = await second.resume_thread(thread.id)
            configured = await anext(again.events())
            return configured.msg.initial_messages

    assert module.Milestone("beta") in asyncio.run(story())
