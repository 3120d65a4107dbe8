"""Runs the steps of a plan. Standard library only."""

from __future__ import annotations

from codex_framework.toolkit.os_errors import os_error_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from codex_plugin_apply_patch.disk import Disk
    from codex_plugin_apply_patch.plan import Step

__all__ = ["StepFailed", "perform"]


class StepFailed(Exception):  # noqa: N818  # named by what it says
    """A file could not be written or deleted.

    Attributes:
        half_done: Whether a moved file now exists in both places.
    """

    def __init__(self, message: str, *, half_done: bool = False) -> None:
        super().__init__(message)
        self.half_done = half_done


def perform(disk: Disk, step: Step) -> None:
    """Run one step.

    Raises:
        StepFailed: It failed. Unless ``half_done`` is set, nothing was changed.
    """
    if step.after is None:
        _remove_file(disk, step.path, f"Failed to delete file {step.path}")
        return
    path = step.path if step.move_to is None else step.move_to
    try:
        disk.write(path, step.after)
    except OSError as error:
        raise StepFailed(f"Failed to write file {path}: {os_error_text(error)}") from error
    if step.move_to is not None:
        _remove_file(disk, step.path, f"Failed to remove original {step.path}", half_done=True)


def _remove_file(disk: Disk, path: str, failure: str, *, half_done: bool = False) -> None:
    try:
        disk.remove(path)
    except OSError as error:
        raise StepFailed(f"{failure}: {os_error_text(error)}", half_done=half_done) from error
