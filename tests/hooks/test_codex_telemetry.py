"""Hook ``codex_telemetry``: who measures."""

from __future__ import annotations

from codex_framework import hookimpl
from codex_framework.testing.replies import call, say


def test_codex_telemetry_example_counts_tool_calls(example, registry_of, run_turn):
    module = example("codex_telemetry")
    counter = module.Counter()

    class Plugin:
        @hookimpl
        def codex_telemetry(self):
            return [counter]

    assert [offer.item.name for offer in registry_of(module).telemetry] == ["counter"]
    run_turn(Plugin(), replies=[call("nothing"), say("Done.")])
    assert counter.calls == 1


def test_codex_telemetry_is_flushed_when_the_kernel_closes(run_turn):
    heard = []

    class Plugin:
        name = "meter"

        def record(self, measurement):
            heard.append(measurement.name)

        def flush(self):
            heard.append("flushed")

        @hookimpl
        def codex_telemetry(self):
            return [self]

    run_turn(Plugin())
    assert heard[-1] == "flushed"
    assert len(heard) > 1
