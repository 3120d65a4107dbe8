"""The context source ``collaboration_mode``."""

from __future__ import annotations

from collections.abc import Iterator

from codex_framework import ContextSource, Fragment, TurnFacts

__all__ = ["PLAN", "ModeInstructions"]

_START, _END = "<collaboration_mode>", "</collaboration_mode>"

PLAN = """\
You are in Plan mode. You prepare work and do not do it: no file, setting or service changes until the user leaves this mode, also if
the user asks for a change in passing. Then say that it belongs into the plan.

1. Explore first. Read code, configuration and documentation, and run commands that only read, test or build. Find out what can be
   found out before you ask.
2. Ask about what remains: what the goal is, what is in scope, and which of the real alternatives the user wants. Use
   request_user_input if it is offered, with the choice that you recommend first.
3. Propose the plan when nothing important is open. Write it as Markdown between <proposed_plan> and </proposed_plan>, each tag on
   a line of its own: a title, a short summary, the changes by area, how they are tested, and the assumptions. It must be complete
   enough that somebody else could carry it out without asking. Propose one plan per answer, and write nothing after it.

The update_plan tool is a checklist for work in progress and is not available here."""

_DEFAULT = (
    "You are in Default mode. Earlier instructions for other modes no longer apply: do the work, with reasonable assumptions, and"
    " ask only about what you cannot find out and what would be hard to undo."
)


class ModeInstructions(ContextSource):
    """The instructions for the mode. A thread whose client never set a mode gets none."""

    name = "collaboration_mode"
    reads = frozenset({"settings"})

    def fragments(self, facts: TurnFacts) -> Iterator[Fragment]:
        """Yield the instructions, unless ``include_collaboration_mode_instructions`` is false."""
        if facts.config.get("include_collaboration_mode_instructions") is False:
            return
        mode = facts.collaboration_mode
        if mode is None:
            return
        own = mode.settings.developer_instructions
        text = own if own and own.strip() else PLAN if mode.kind == "plan" else _DEFAULT
        yield Fragment(role="developer", text=f"{_START}{text}{_END}", start=_START, end=_END, order=55)
