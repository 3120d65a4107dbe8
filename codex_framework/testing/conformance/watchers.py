"""The checks of notifiers and telemetry: quick, without exceptions, and usable from a thread of the kernel."""

from __future__ import annotations

from functools import partial

from codex_framework.contract.roles.observers import Measurement, Notification, Notifier, Telemetry
from codex_framework.contract.roles.scopes import Trace
from codex_framework.testing.conformance.findings import Findings
from codex_framework.toolkit.roles import add_defaults, overrides

__all__ = ["check_notifier", "check_telemetry"]

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
    if findings.members(notifier, Notifier):
        notifier = add_defaults(notifier, Notifier)
        findings.named(notifier)
        for notification in NOTIFICATIONS:
            what = f"notify({notification.type!r}, turn {notification.turn_id!r})"
            if not findings.called_aside(what, partial(notifier.notify, notification), within_s=_WITHIN_S):
                break
        for which in ("flush()", "a second flush() with nothing to deliver"):
            findings.called_aside(which, notifier.flush, within_s=_WITHIN_S)
        again = partial(notifier.notify, NOTIFICATIONS[0])
        findings.called_aside("notify after flush()", again, within_s=_WITHIN_S)
        findings.called_aside("flush() after that", notifier.flush, within_s=_WITHIN_S)
    findings.raise_any()


def check_telemetry(telemetry: Telemetry) -> None:
    """Check that telemetry fulfils its role. It gets five measurements and is flushed, twice.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("telemetry", telemetry)
    if findings.members(telemetry, Telemetry):
        telemetry = add_defaults(telemetry, Telemetry)
        findings.named(telemetry)
        trace: list[object] = []
        if findings.called_aside("current()", lambda: trace.append(telemetry.current()), within_s=_WITHIN_S):
            fits = all(each is None or isinstance(each, Trace) for each in trace)
            findings.require(fits, f"current() returns {type(trace[0]).__name__}, not a Trace or None")
        for measurement in MEASUREMENTS:
            what = f"record({measurement.kind!r}, {measurement.name!r})"
            if not findings.called_aside(what, partial(telemetry.record, measurement), within_s=_WITHIN_S):
                break
        if overrides(telemetry, Telemetry, "record_many"):
            findings.called_aside("record_many()", partial(telemetry.record_many, MEASUREMENTS), within_s=_WITHIN_S)
        for which in ("flush()", "a second flush() with nothing to send"):
            findings.called_aside(which, telemetry.flush, within_s=_WITHIN_S)
        again = partial(telemetry.record, MEASUREMENTS[0])
        findings.called_aside("record after flush()", again, within_s=_WITHIN_S)
    findings.raise_any()
