"""Whether the running turn takes input of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_framework.contract.errors import ThreadError

if TYPE_CHECKING:
    from codex_framework.threads.task_run import Run

__all__ = ["check_steerable"]


def check_steerable(run: Run, turn_id: str, expected_turn_id: str | None) -> None:
    """Check that a run takes input, and that it is the one that the sender means. None expects any.

    Raises:
        ThreadError: It is another turn (``wrong-turn``), or one that takes no input (``not-steerable``).
    """
    if expected_turn_id is not None and expected_turn_id != turn_id:
        raise ThreadError(
            f"expected active turn id `{expected_turn_id[:80]}` but found `{turn_id}`",
            slug="wrong-turn",
            hint="Steer the turn that `task_started` names.",
        )
    if not run.steerable:
        raise ThreadError(
            f"cannot steer a {run.kind} turn",
            slug="not-steerable",
            hint="Wait until it ends, or interrupt it.",
            info={"active_turn_not_steerable": {"turn_kind": run.kind}},
        )
