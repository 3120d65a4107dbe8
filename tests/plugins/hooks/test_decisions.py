"""Which decisions each event knows, and what each part of an output changes alone."""

from __future__ import annotations

from typing import Any

import pytest

from codex_plugin_hooks.names import EVENTS
from codex_plugin_hooks.outputs import Verdict, _check_words, _Invalid


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_approve_is_a_word_of_one_event_alone(event: Any) -> None:
    _check_words(event, {"decision": "block"}, {})
    if event.name == "PreToolUse":
        _check_words(event, {"decision": "approve"}, {})
    else:
        with pytest.raises(_Invalid, match="`decision` is 'approve', not block"):
            _check_words(event, {"decision": "approve"}, {})


@pytest.mark.parametrize(
    "part", [{"context": ("x",)}, {"stops": True}, {"allows": True}, {"reason": ""}, {"updated": {}}]
)
def test_each_part_of_a_verdict_is_an_effect_of_its_own(part: dict[str, Any]) -> None:
    assert not Verdict(status="failed", stop_reason="x").has_effect
    assert Verdict(**part).has_effect
