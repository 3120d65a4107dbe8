"""The checks of notifiers, telemetry and change recorders: quick and without exceptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from codex_framework.contract.protocol.items import InputText, Message, user_message
from codex_framework.contract.roles.calls import ToolCall, ToolOutput
from codex_framework.contract.roles.interceptors import UserInput
from codex_framework.contract.roles.observers import Measurement, Notification, Notifier, Telemetry
from codex_framework.contract.roles.provenance import Actor, Change, ChangeRecorder, Passage, Provenance, TurnRecorder
from codex_framework.contract.roles.scopes import Trace
from codex_framework.testing.conformance.findings import Findings, Unmet
from codex_framework.testing.requests import model_request
from codex_framework.toolkit.roles import add_defaults, overrides

__all__ = ["check_change_recorder", "check_notifier", "check_telemetry"]

_WITHIN_S = 5.0
"""Time limit of the roles for one call, in seconds."""

_SAID = "Done: 3 files, \N{GREEK SMALL LETTER ALPHA}\N{PARTY POPPER}\n\x1b[31mnot red\x1b[0m\x00'\"`$(id)"

NOTIFICATIONS = (
    Notification(
        type="agent-turn-complete",
        thread_id="thread-1",
        turn_id="turn-1",
        cwd="/",
        input_messages=("What is this?",),
        last_assistant_message="A test.",
    ),
    Notification(type="agent-turn-complete", thread_id="thread-1", turn_id="turn-2", cwd="/no such folder"),
    Notification(
        type="agent-turn-complete",
        thread_id="thread-1",
        turn_id="turn-3",
        cwd="/",
        input_messages=(_SAID, ""),
        last_assistant_message="long " * 100_000,
    ),
    Notification(
        type="approval-requested", thread_id="thread-1", turn_id="turn-4", cwd="/", text=_SAID, client="codex_exec"
    ),
    Notification(
        type="turn-failed",
        thread_id="thread-1",
        turn_id="turn-5",
        cwd="/",
        input_messages=("\udce4 is no character",),
        text=_SAID,
        duration_s=0.0,
    ),
    Notification(
        type="budget-reached", thread_id="thread-1", turn_id="turn-6", cwd="/", text="1 request", duration_s=1e9
    ),
    Notification(type="something-new", thread_id="", turn_id="", cwd=""),
)
"""Notifications for the check: typical, empty, long and unusual ones, one of each type, and one of an unknown type."""

MEASUREMENTS = (
    Measurement(
        kind="span", name="codex.tool.call", time_s=1.7e9, duration_s=0.25, attributes={"tool": "a", "ok": True}
    ),
    Measurement(
        kind="event",
        name="codex.user_prompt",
        time_s=1.7e9,
        attributes={"prompt_length": 3, "share": 0.5},
        content={"prompt": _SAID},
        marks=(("half", 1.7e9),),
    ),
    Measurement(kind="counter", name="codex.turn.count", time_s=1.7e9, value=3.0),
    Measurement(kind="counter", name=_SAID, time_s=0.0, attributes={_SAID: _SAID, "": ""}),
    Measurement(kind="something-new", name="", time_s=-1.0),
)
"""Measurements for the check."""


def check_notifier(notifier: Notifier) -> None:
    """Check that a notifier fulfils its role. It gets seven notifications, some of them unusual, and is flushed, twice.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("notifier", notifier)
    if findings.check_members(notifier, Notifier):
        notifier = add_defaults(notifier, Notifier)
        findings.require_name(notifier)
        for notification in NOTIFICATIONS:
            what = f"notify({notification.type!r}, turn {notification.turn_id!r})"
            if not findings.call_on_thread(what, partial(notifier.notify, notification), within_s=_WITHIN_S):
                break
        for which in ("flush()", "a second flush() with nothing to deliver"):
            findings.call_on_thread(which, notifier.flush, within_s=_WITHIN_S)
        again = partial(notifier.notify, NOTIFICATIONS[0])
        findings.call_on_thread("notify after flush()", again, within_s=_WITHIN_S)
        findings.call_on_thread("flush() after that", notifier.flush, within_s=_WITHIN_S)
    findings.raise_any()


def check_telemetry(telemetry: Telemetry) -> None:
    """Check that telemetry fulfils its role. It gets five measurements and is flushed, twice.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("telemetry", telemetry)
    if findings.check_members(telemetry, Telemetry):
        telemetry = add_defaults(telemetry, Telemetry)
        findings.require_name(telemetry)
        trace: list[object] = []
        if findings.call_on_thread("current()", lambda: trace.append(telemetry.current()), within_s=_WITHIN_S):
            fits = all(each is None or isinstance(each, Trace) for each in trace)
            findings.require(fits, f"current() returns {type(trace[0]).__name__}, not a Trace or None")
        for measurement in MEASUREMENTS:
            what = f"record({measurement.kind!r}, {measurement.name!r})"
            if not findings.call_on_thread(what, partial(telemetry.record, measurement), within_s=_WITHIN_S):
                break
        if overrides(telemetry, Telemetry, "record_many"):
            findings.call_on_thread("record_many()", partial(telemetry.record_many, MEASUREMENTS), within_s=_WITHIN_S)
        for which in ("flush()", "a second flush() with nothing to send"):
            findings.call_on_thread(which, telemetry.flush, within_s=_WITHIN_S)
        again = partial(telemetry.record, MEASUREMENTS[0])
        findings.call_on_thread("record after flush()", again, within_s=_WITHIN_S)
    findings.raise_any()


def check_change_recorder(recorder: ChangeRecorder) -> None:
    """Check that a change recorder fulfils its role. It gets changes of every kind and other facts, in two turns.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("change recorder", recorder)
    if findings.check_members(recorder, ChangeRecorder):
        findings.require_name(recorder)
        for _ in range(2):
            try:
                turn = findings.call("begin_turn()", recorder.begin_turn, within_s=_SOON_S)
                if findings.check_members(turn, TurnRecorder):
                    _check_turn(findings, add_defaults(turn, TurnRecorder))
            except Unmet:
                break
    findings.raise_any()


def _check_turn(findings: Findings, turn: TurnRecorder) -> None:
    for passage in _passages():
        refused = ", refused" if passage.refused else ""
        what = f"change_entries({passage.what!r}, {len(passage.changes)} changes{refused})"
        _check_entries(findings, what, partial(turn.change_entries, passage))
    for fact in _FACTS:
        _check_entries(findings, f"fact_entries({fact.did!r})", partial(turn.fact_entries, fact))


def _check_entries(findings: Findings, what: str, call: Callable[[], Iterable[Provenance]]) -> None:
    entries: list[object] = findings.call(what, lambda: list(call()), within_s=_SOON_S)
    wrong = next((entry for entry in entries if not isinstance(entry, Provenance)), None)
    findings.require(wrong is None, f"{what} returns {type(wrong).__name__}, not entries of the class Provenance")


_SOON_S = 0.25
"""Time limit for a call on the event loop, in seconds."""

_FACTS = (
    Provenance(did="refused", what="call", by=Actor(role="tool", name="echo"), call_id="c1", tool="echo", reason="no"),
    Provenance(did="refused", what="call", by=Actor(role="permissions"), call_id="c1", reason=_SAID),
    Provenance(did="stopped", what="input", by=Actor(role="interceptor", name="guard"), reason="", seconds=0.1),
    Provenance(did="decided", what="approval", by=Actor(role="user"), call_id="c2", decision="denied"),
    Provenance(did="redacted", what="text", by=Actor(role="interceptor", name="keys"), withheld=["output"]),
    Provenance(did="added", what="delivery", by=Actor(role="client"), items=["0123456789abcdef"]),
    Provenance(did="compacted", what="history", by=Actor(role="compactor"), reason="limit"),
)


def _passages() -> Iterable[Passage]:
    """Return changes of every kind, as the kernel reports them."""
    first, second = Actor(role="interceptor", name="first"), Actor(role="interceptor", name="second")
    hello = user_message("Hello!")
    request, call, output = model_request(hello), ToolCall("c1", "echo", '{"text": "a"}'), ToolOutput("a")
    note = Message("developer", (InputText(_SAID),))
    given = UserInput(items=(hello,))
    pairs: tuple[tuple[str, object, object], ...] = (
        ("input", given, given.evolve(items=(note,), context=["Be brief."])),
        ("request", request, request.evolve(instructions=_SAID, tools=())),
        ("call", call, call.evolve(arguments="[]")),
        ("output", output, output.evolve(content=_SAID, details={"what": object()})),
        ("item", hello, note),
        ("stop", (), (note,)),
    )
    for what, before, after in pairs:
        changes = (Change(first, before, after, 0.1), Change(second, after, before))
        of_call = call if what in ("call", "output") else None
        sample = 1 if what == "request" else None
        for some, refused in ((changes[:1], False), (changes, False), (changes, True), ((), what != "request")):
            yield Passage(what=what, changes=some, call=of_call, sample=sample, refused=refused)
