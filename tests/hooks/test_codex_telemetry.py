"""Hook ``codex_telemetry``: who measures."""

from __future__ import annotations

import asyncio

import attrs
import pytest

from codex_framework import Interceptor, Measurement, Measurements, Telemetry, Trace, hookimpl
from codex_framework.contract.protocol.ops import Interrupt
from codex_framework.testing.replies import call, say
from codex_plugin_otel.framing import encoded


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


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Batches(Telemetry):
    """Keeps the batches of measurements."""

    name = "batches"

    def __init__(self, trace=None):
        self.batches = []
        self.trace = trace

    def record(self, measurement):
        raise AssertionError("record_many is called instead")

    def record_many(self, measurements):
        self.batches.append(tuple(measurements))

    def current(self):
        return self.trace

    @property
    def measured(self):
        return [measurement for batch in self.batches for measurement in batch]

    @hookimpl
    def codex_telemetry(self):
        return [self]


class Secretive(Interceptor):
    name = "secretive"
    redacts = True

    def redact(self, text, turn):
        return text.replace("hush", "***").replace("Hello", "***")

    @hookimpl
    def codex_interceptors(self):
        return [self]


def test_measurements_come_in_batches_as_one_tree(run_turn):
    telemetry = Batches(Trace(PARENT))
    run_turn(telemetry, replies=[call("nothing"), say("Done.")])
    assert len(telemetry.batches) < len(telemetry.measured)
    spans = {each.name: each for each in telemetry.measured if each.kind == "span"}
    assert {each.trace_id for each in spans.values()} == {"0af7651916cd43dd8448eb211c80319c"}
    turn, dispatch = spans["codex.turn"], spans["op.dispatch.user_input"]
    assert dispatch.parent_id == "b7ad6b7169203331"
    assert turn.parent_id == dispatch.span_id
    assert (spans["codex.sampling"].parent_id, spans["codex.tool.call"].parent_id) == (turn.span_id, turn.span_id)
    assert (turn.attributes["samples"], turn.attributes["tool_calls"], turn.attributes["status"]) == (2, 1, "completed")
    assert spans["codex.tool.call"].failed
    assert not turn.failed
    (prompt,) = [each for each in telemetry.measured if each.name == "codex.user_prompt"]
    assert (prompt.kind, prompt.span_id, prompt.parent_id) == ("event", "", dispatch.span_id)
    assert (prompt.trace_id, prompt.turn_id) == (turn.trace_id, turn.turn_id)


def test_text_is_in_the_content_only_and_redacted(run_turn):
    telemetry = Batches()
    run_turn(telemetry, Secretive(), replies=[call("nothing", x="hush"), say("hush")])
    measured = {each.name: each for each in telemetry.measured}
    assert measured["codex.user_prompt"].content == {"prompt": "***!"}
    assert measured["codex.tool.call"].content["arguments"] == '{"x": "***"}'
    assert "hush" not in str([(each.attributes, each.content) for each in telemetry.measured])


@pytest.mark.parametrize("parent", ["", "00-1-2-01", f"ff{PARENT[2:]}", f"00-{'0' * 32}-b7ad6b7169203331-01"])
def test_an_invalid_trace_of_a_submission_is_told_to_its_client(make_kernel, parent):
    async def main():
        async with make_kernel([say("ok")]) as kernel:
            thread = await kernel.start_thread()
            heard = thread.events()
            await thread.submit(Interrupt(), trace=Trace(PARENT))
            await thread.submit(Interrupt(), trace=Trace(parent))
            await thread.shutdown()
            return [event.msg.message async for event in heard if event.msg.type == "warning"]

    told = [text for text in asyncio.run(main()) if "trace" in text]
    assert told == [f"ignoring an invalid trace context: {parent!r}"]


@pytest.mark.parametrize("parent", ["", "00-1-2-01", f"ff{PARENT[2:]}", f"00-{'0' * 32}-b7ad6b7169203331-01"])
def test_an_invalid_trace_begins_a_new_one(run_turn, parent):
    telemetry = Batches(Trace(parent))
    run_turn(telemetry)
    (dispatch,) = [each for each in telemetry.measured if each.name == "op.dispatch.user_input"]
    assert dispatch.parent_id == ""
    assert len(dispatch.trace_id) == 32


def test_telemetry_without_a_trace_of_its_own_that_raises_is_reported_once(run_turn):
    class Odd(Batches):
        def current(self):
            raise OSError("no trace")

    result = run_turn(Odd(), replies=[call("nothing"), say("Done.")])
    told = [event.message for event in result.events if event.type == "warning" and "no trace" in event.message]
    assert len(told) == 1


def test_measurements_are_made_when_they_are_looked_at():
    names = [field.name for field in attrs.fields(Measurement)]
    first = Measurement(
        kind="span", name="a", time_s=1.0, content={"text": "x"}, marks=(("m", 2.0),), thread_id="t", failed=True
    )
    second = Measurement(
        kind="counter", name="b", time_s=3.0, value=5.0, attributes={"n": 1}, trace_id="c", span_id="d"
    )
    rows = [tuple(getattr(each, name) for name in names) for each in (first, second)]
    batch = Measurements(rows)
    assert (len(batch), list(batch), batch[-1], list(batch[1:])) == (2, [first, second], second, [second])
    assert batch.rows is rows
    assert encoded(batch) == encoded([first, second])
