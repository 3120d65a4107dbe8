"""Runs one call: reads the patch, requests approval, writes files, and reports."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from codex_framework import ToolCall, ToolContext, ToolError, ToolOutput, ToolRefused, parse_arguments
from codex_framework.contract.protocol.events.command import FileChange, PatchApplyBeginEvent, PatchApplyEndEvent
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.contract.roles.tools import PatchRequest
from codex_framework.toolkit.environments import environment_for, in_environment
from codex_plugin_apply_patch.changes import changes_of, readable
from codex_plugin_apply_patch.descriptions import ARGUMENTS
from codex_plugin_apply_patch.disk import Disk
from codex_plugin_apply_patch.file_text import FileText
from codex_plugin_apply_patch.grammar import DeleteHunk, Hunk, InvalidPatch, Reader, read
from codex_plugin_apply_patch.plan import Plan, PlanFailed, Step, summary
from codex_plugin_apply_patch.steps import StepFailed, perform

__all__ = ["apply"]


class _Request(NamedTuple):
    """The content of a call.

    Attributes:
        workdir: The folder from which relative paths start. By default, the turn's folder.
        prefix: The text before the output. A call converted from a shell call answers in the form of that call.
        environment_id: The environment of that shell call. By default, the primary one.
        of_shell: Whether the call was converted from a shell call. The environment is then that of the shell, whatever the
            patch names.
    """

    patch: str
    workdir: str | None = None
    prefix: str = ""
    environment_id: str | None = None
    of_shell: bool = False


async def apply(call: ToolCall, context: ToolContext) -> ToolOutput:
    """Run one call, of either kind.

    Files are read and written on the event loop. This takes milliseconds, and an interrupt cannot stop a patch half way.

    Raises:
        ToolError: The patch is invalid or does not match the files; nothing was written.
        ToolRefused: The patch must not be applied.
    """
    request = _request(call)
    if request.environment_id is not None:
        environment_for(context, request.environment_id)
    patch = _parsed(request.patch)
    context = in_environment(context, _environment_of(request, patch.environment, context))
    cwd = context.cwd if request.workdir is None else context.resolve(request.workdir)
    disk = await _disk(str(cwd), patch.hunks, context)
    steps = _plan_steps(patch.hunks, disk)
    changes = changes_of(steps)
    await _approve(steps, changes, disk, context)
    output = await _finish_patch(_carry_out(steps, changes, disk, context), disk)
    return output.evolve(content=f"{request.prefix}{output.content}")


def _request(call: ToolCall) -> _Request:
    if call.kind == "custom":
        return _Request(call.arguments)
    found: dict[str, Any] = parse_arguments(call.arguments, ARGUMENTS)
    return _Request(
        found["input"],
        found.get("workdir"),
        found.get("prefix", ""),
        found.get("environment_id"),
        found.get("of_shell", False),
    )


class _SingleOperations:
    """Checks that no two hunks of a patch are for the same file, even under different names.

    It would be unclear whether the second hunk refers to the original file or to the result of the first one.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._seen: set[str] = set()

    def check(self, hunk: Hunk) -> None:
        """Note a hunk's file.

        Raises:
            InvalidPatch: An earlier hunk was for the same file.
        """
        path = self._disk.absolute(hunk.path)
        names = {path}
        with contextlib.suppress(ValueError):  # a NUL character, which reading the file reports
            names |= self._disk.names(path, itself=isinstance(hunk, DeleteHunk))
        if names & self._seen:
            raise InvalidPatch(f"multiple operations target {path}")
        self._seen |= names


def _parsed(patch: str) -> Reader:
    try:
        return read(_clean(patch))
    except InvalidPatch as error:
        raise ToolError(f"apply_patch verification failed: {_clean(str(error))}") from error


def _environment_of(request: _Request, named: str | None, context: ToolContext) -> str | None:
    """Return the id of the environment in which to work, by default the primary one.

    Raises:
        ToolError: The patch names one although there is no choice.
    """
    several = len(context.environments) > 1
    if named is None or (request.of_shell and not several):
        return request.environment_id
    if not several:
        raise ToolError("apply_patch environment selection is unavailable for this turn")
    return named


async def _disk(cwd: str, hunks: Sequence[Hunk], context: ToolContext) -> Disk:
    files = context.files
    if files is None:
        return Disk(cwd, access=context.access)
    from codex_plugin_apply_patch.elsewhere import loaded

    try:
        return await loaded(cwd, files, hunks)
    except ConnectionError as error:
        raise ToolError(f"apply_patch failed: {error}") from error


async def _finish_patch(work: Coroutine[Any, Any, ToolOutput], disk: Disk) -> ToolOutput:
    """Carry out a patch. An interrupt does not stop it half way in another environment either, where it takes longer."""
    if type(disk) is Disk:
        return await work
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise


def _plan_steps(hunks: Sequence[Hunk], disk: Disk) -> list[Step]:
    try:
        plan = Plan(disk)
        single = _SingleOperations(disk)
        for hunk in hunks:
            single.check(hunk)
            plan.add(hunk)
    except (InvalidPatch, PlanFailed) as error:
        raise ToolError(f"apply_patch verification failed: {_clean(str(error))}") from error
    if not plan.steps:
        raise ToolRefused("patch rejected: empty patch")
    return plan.steps


def _clean(text: str) -> str:
    """Return text that can be encoded as UTF-8. Halves of surrogate pairs (from JSON escapes) become U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


async def _approve(steps: Sequence[Step], changes: Mapping[str, FileChange], disk: Disk, context: ToolContext) -> None:
    """Request approval for the real paths of the files, with symlinks resolved. Later, only these paths are written.

    Raises:
        ToolRefused: It is not allowed.
    """
    shown = changes_of(steps, place=disk.target)
    places = [place for step in steps for place in _places(step, disk)]
    try:
        _check_symlinks(steps, disk, context)
        _check_sizes(steps, context)
        await context.approve_patch(PatchRequest(changes=shown))
    except ToolRefused as error:
        context.emit(_begin(changes, context, auto_approved=False))
        context.emit(_end(changes, context, "declined", stderr=str(error)))
        raise
    disk.approve(places)


def _places(step: Step, disk: Disk) -> Iterator[str]:
    """Yield the real paths that a step writes or removes."""
    if step.after is not None:
        yield disk.target(step.move_to or step.path)
    if step.after is None or step.move_to is not None:
        yield disk.place(step.path)


def _check_symlinks(steps: Sequence[Step], disk: Disk, context: ToolContext) -> None:
    """Refuse to delete a symlink in a folder that must not be written, because permissions only check its target."""
    if context.access.full:
        return
    for step in steps:
        if step.after is not None and step.move_to is None:
            continue
        place = disk.place(step.path)
        if place != disk.target(step.path) and context.access.mode_of(Path(place)) is not AccessMode.WRITE:
            raise ToolRefused(f"patch rejected: {step.path} is a symlink in a folder that must not be written")


def _check_sizes(steps: Sequence[Step], context: ToolContext) -> None:
    """Refuse a patch that makes a file larger than the limits allow. Files that are only moved or deleted may have any size."""
    most = context.access.limits.file_bytes
    for step in steps if most is not None else ():
        size = 0 if step.after is None or step.after == step.before else len(step.after.encode())
        if most is not None and size > most:
            path = step.move_to or step.path
            raise ToolRefused(f"patch rejected: {path} would have {size:,} bytes, and files may have at most {most:,}")


async def _carry_out(
    steps: Sequence[Step], changes: Mapping[str, FileChange], disk: Disk, context: ToolContext
) -> ToolOutput:
    paths = {path for step in steps for path in (step.path, step.move_to) if path is not None}
    writable = all(context.access.may_write(Path(disk.target(path))) for path in paths)
    context.emit(_begin(changes, context, auto_approved=writable))
    began = time.monotonic()
    done: list[Step] = []
    failure: StepFailed | None = None
    for step in steps:
        try:
            await _perform_step(disk, step)
        except StepFailed as error:
            failure = error
            if error.half_done:
                context.note_file_change(
                    step.move_to or step.path, _display_text(step.replaced), _display_text(step.after)
                )
            break
        done.append(step)
        _note(step, context)
    report = _success(done) if failure is None else _partial(failure, done)
    if failure is None:
        context.emit(_end(changes, context, "completed", stdout=report))
    else:
        context.emit(_end(changes_of(done), context, "failed", stderr=report))
    seconds = round(time.monotonic() - began, 1)
    header = f"Exit code: {0 if failure is None else 1}\nWall time: {seconds:g} seconds\nOutput:\n"
    return ToolOutput(header + report, success=failure is None, result={} if failure is None else None)


async def _perform_step(disk: Disk, step: Step) -> None:
    if type(disk) is Disk:
        perform(disk, step)
        return
    from codex_plugin_apply_patch.elsewhere import ElsewhereDisk

    assert isinstance(disk, ElsewhereDisk)
    await disk.perform(step)


def _success(steps: Sequence[Step]) -> str:
    return f"Success. Updated the following files:\n{summary(steps)}"


def _partial(failure: StepFailed, done: Sequence[Step]) -> str:
    if not done and not failure.half_done:
        return f"{failure}\nNo file was changed.\n"
    also = "The moved file was written, but its original could not be removed.\n" if failure.half_done else ""
    changed = f"These files were changed before that:\n{summary(done)}" if done else ""
    return f"{failure}\n{also}{changed}"


def _note(step: Step, context: ToolContext) -> None:
    if step.move_to is None:
        context.note_file_change(step.path, _display_text(step.before), _display_text(step.after))
        return
    context.note_file_change(step.path, _display_text(step.before), None)
    context.note_file_change(step.move_to, _display_text(step.replaced), _display_text(step.after))


def _display_text(text: FileText | None) -> str | None:
    return None if text is None else readable(text)


def _begin(changes: Mapping[str, FileChange], context: ToolContext, *, auto_approved: bool) -> PatchApplyBeginEvent:
    return PatchApplyBeginEvent(
        call_id=context.call_id, turn_id=context.turn_id, auto_approved=auto_approved, changes=changes
    )


def _end(
    changes: Mapping[str, FileChange], context: ToolContext, status: str, *, stdout: str = "", stderr: str = ""
) -> PatchApplyEndEvent:
    return PatchApplyEndEvent(
        call_id=context.call_id,
        turn_id=context.turn_id,
        stdout=stdout,
        stderr=stderr,
        success=status == "completed",
        changes=changes,
        status=status,
    )
