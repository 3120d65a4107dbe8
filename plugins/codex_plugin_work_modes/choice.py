"""The mode that was chosen for one thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import CodexError, ThreadContext, ThreadError
from codex_plugin_work_modes.modes import STRICTEST, Mode, ModeRestrictions, Settings, mode_named, names

__all__ = ["Choice"]


class Choice:
    """The mode of one thread: at first the configured one, or the one in its record.

    A stricter mode applies from the next call of a running turn on, a looser one from the next turn on.

    Args:
        kind: The kind of its entries in the record of the thread.

    Attributes:
        mode: The mode.
        was_set: Whether it was chosen for this thread, and not by the configuration alone.
    """

    def __init__(self, thread: ThreadContext, kind: str) -> None:
        self._thread = thread
        self._kind = kind
        self._settings = _settings_of(thread)
        self.mode, self.was_set = self._first()
        self._of_turn = self.mode

    @property
    def restrictions(self) -> ModeRestrictions | None:
        """The current restrictions of the mode, in a running turn too. None without restrictions."""
        permitted = self.mode.restrictions.within(self._of_turn.restrictions)
        plan = self._in_plan_mode
        if plan is not None:
            permitted = permitted.within(plan.restrictions)
        return permitted if permitted.are_any else None

    @property
    def shown(self) -> str:
        """The name of the mode that restricts the thread."""
        plan = self._in_plan_mode
        for mode in (self.mode, plan, self._of_turn):
            if mode is not None and mode.restrictions.are_any:
                return mode.name
        return self.mode.name

    @property
    def instructions(self) -> str:
        """Instructions for the model in addition to the restrictions."""
        plan = self._in_plan_mode
        return self.mode.instructions if plan is None or self.mode.instructions else plan.instructions

    @property
    def _in_plan_mode(self) -> Mode | None:
        """The mode that the collaboration mode Plan brings, if the thread is in it."""
        name = self._settings.in_plan_mode
        if not name:
            return None
        now = (self._thread.turn or self._thread.settings).collaboration_mode
        if now is None or now.kind != "plan":
            return None
        return mode_named(name, self._settings) or Mode(name, STRICTEST)

    def begin(self) -> None:
        """Begin a turn with the chosen mode."""
        self._of_turn = self.mode

    def named(self, name: str) -> Mode:
        """Return a mode by its name. Raises ThreadError if it does not exist."""
        found = mode_named(name, self._settings)
        if found is None:
            from codex_framework.toolkit.suggestions import did_you_mean

            known = names(self._settings)
            hint = f"{did_you_mean(name, known)}The modes are: {', '.join(known)}."
            raise ThreadError(f"there is no work mode {name[:80]!r}", slug="bad-request", hint=hint)
        return found

    def choose(self, mode: Mode) -> bool:
        """Change the mode and record it. Return whether permissions were removed."""
        before = self.mode.restrictions.within(self._of_turn.restrictions)
        self.mode, self.was_set = mode, True
        if self._thread.turn is None:
            self._of_turn = mode
        self._thread.append_entry(self._kind, {"mode": mode.name, "configured": self._settings.mode})
        return before.within(mode.restrictions) != before

    def _first(self) -> tuple[Mode, bool]:
        """Return the initial mode of the thread: the recorded one, unless another one is configured now."""
        recorded = self._thread.entries(self._kind) if self._thread.origin in ("resumed", "forked") else ()
        last: Mapping[str, Any] = recorded[-1] if recorded else {}
        kept = bool(last) and last.get("configured") == self._settings.mode
        name = str(last.get("mode")) if kept else self._settings.mode
        found = mode_named(name, self._settings)
        if found is None:
            self._thread.warn(
                f"there is no work mode {name[:80]!r}, so the thread can do nothing but talk and read files."
                f" Choose one of {', '.join(names(self._settings))} with the op set_work_mode."
            )
            found = Mode(name, STRICTEST)
        return found, kept


def _settings_of(thread: ThreadContext) -> Settings:
    """Return the settings of a thread. If they are wrong, they name a mode that does not exist, which permits the least."""
    try:
        return thread.plugin_settings(Settings)
    except CodexError as error:
        thread.warn(f"the settings of work modes cannot be read: {error}")
        return Settings(mode="unreadable")
