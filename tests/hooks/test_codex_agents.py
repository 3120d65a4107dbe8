"""Hook ``codex_agents``: what a thread is made of, by name."""

from __future__ import annotations

import pytest

from codex_framework import Agent, CodexError, hookimpl


class Plugin:
    @hookimpl
    def codex_agents(self):
        return [
            Agent(name="poet", instructions="Answer in rhyme."),
            Agent(name="clerk", instructions="Answer in lists."),
        ]


def test_codex_agents_example_may_read_and_change_nothing(example, registry_of):
    registry = registry_of(example("codex_agents"))
    assert registry.agents["librarian"].item.permissions == ":read-only"


def test_codex_agents_are_found_by_name(run_thread):
    async def drive(kernel, thread, model):
        await kernel.run(kernel.agent("poet"), "Hello!")
        with pytest.raises(CodexError, match="there is no agent 'cook'") as caught:
            kernel.agent("cook")
        return model.requests[0].instructions, caught.value.hint

    instructions, hint = run_thread(drive, Plugin())
    assert instructions == "Answer in rhyme."
    assert "clerk, poet" in hint
