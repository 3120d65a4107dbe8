"""What the playbooks of the turn machine have in common: turns, items and commands."""

from __future__ import annotations

from codex_framework.contract.protocol.events.turn import StreamErrorEvent
from codex_framework.contract.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    user_message,
)
from codex_framework.contract.roles.outcomes import Compaction, Outcome, Status
from codex_framework.testing import Playbook
from codex_framework.threads.turn.commands import Admit, Emit, Finish, Record, Sample
from codex_framework.threads.turn.inputs import Admitted, InputArrived, ModelFailed
from codex_framework.threads.turn.machine import INTERRUPT_MARKER, OVERFLOW, Turn

PROMPT = user_message("Do it.")
MORE = user_message("And that.")
LATE = user_message("And then?")
NOTE = user_message("a note")
MARKER = Record((user_message(INTERRUPT_MARKER),))
CUT = "stream disconnected before completion: Transport error: network error: error decoding response body"
NOT_COMPLETED = "stream disconnected before completion: stream closed before response.completed"
IDLE = "stream disconnected before completion: idle timeout waiting for SSE"
DISCONNECTED = {"response_stream_disconnected": {"http_status_code": None}}
SUMMARY = Compaction(items=(user_message("the summary"),), message="the summary")


def new_turn(**settings: object) -> Turn:
    """Calls whose name begins with ``read`` are parallel-safe."""
    return Turn(parallel=lambda call: getattr(call, "name", "").startswith("read"), max_retries=3, **settings)  # type: ignore[arg-type]


def begun(**settings: object) -> Playbook:
    play = Playbook(new_turn(**settings))
    assert play << InputArrived((PROMPT,)) >> Record((PROMPT,)) >> Sample()
    return play


def said(text: str, phase: str | None = None) -> Message:
    return Message("assistant", (OutputText(text),), phase=phase)


def function(name: str, number: int = 1) -> FunctionCall:
    return FunctionCall(name, "{}", f"call-{number}")


def output(number: int = 1, text: str = "done") -> FunctionCallOutput:
    return FunctionCallOutput(f"call-{number}", text)


def lost(reason: str = CUT) -> ModelFailed:
    return ModelFailed(reason, retryable=True, info=DISCONNECTED)


def reconnecting(number: int, reason: str = CUT) -> Emit:
    return Emit(StreamErrorEvent(f"Reconnecting... {number}/3", DISCONNECTED, reason))


def completed(text: str | None) -> Finish:
    return Finish(Outcome(status=Status.COMPLETED, last_agent_message=text))


def interrupted(text: str | None = None, reason: str = "interrupted") -> Finish:
    return Finish(Outcome(status=Status.INTERRUPTED, last_agent_message=text, reason=reason))


def failed(error: str, info: object = "other") -> Finish:
    return Finish(Outcome(status=Status.FAILED, error=error, info=info))  # type: ignore[arg-type]


def guarded(**settings: object) -> Playbook:
    return Playbook(new_turn(guarded=True, **settings))


def first_admitted(**settings: object) -> Playbook:
    play = guarded(**settings)
    arrived = InputArrived((PROMPT,))
    assert play << arrived >> Admit(0, arrived) << Admitted(0, arrived) >> Record((PROMPT,)) >> Sample()
    return play


def due(*reasons: str | None) -> dict[str, object]:
    """The reasons that the compactor has, one for each time that it is asked; then none."""
    left = iter(reasons)
    return {"compacts": True, "due": lambda: next(left, None)}


def overflow(*, retryable: bool = False) -> ModelFailed:
    return ModelFailed("too long", retryable=retryable, info=OVERFLOW)
