"""The details of a step."""

from __future__ import annotations

from codex_plugin_trace.reading.timeline import Step


def test_a_step_has_the_sections_that_it_was_given() -> None:
    step = Step("tool", "echo")
    assert not step.has("Output")
    step.part("Arguments", "{}")
    step.part("Output", "")
    assert (step.has("Arguments"), step.has("Output")) == (True, False), "an empty section is left out"
    step.part("Output", "one")
    step.part("Output", "two")
    assert (step.has("Output"), [part.text for part in step.parts]) == (True, ["{}", "two"])
