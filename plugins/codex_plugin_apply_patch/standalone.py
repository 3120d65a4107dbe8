"""The ``apply_patch`` command, for shells: ``apply_patch PATCH`` or ``echo PATCH | apply_patch``.

A separate program, which :mod:`codex_lib_confinement.standalone` runs without ``site-packages``. Exit status: 0 done, 1 failed,
2 wrong usage.
"""

from __future__ import annotations

import os
import sys

_USAGE = "Usage: apply_patch 'PATCH'\n       echo 'PATCH' | apply_patch\n"

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Apply one patch in the working folder, hunk by hunk. Hunks before a failure stay applied.

    Args:
        arguments: The arguments after the program's name.
    """
    from codex_framework.toolkit.os_errors import os_error_text
    from codex_plugin_apply_patch.grammar import InvalidPatch, parse
    from codex_plugin_apply_patch.plan import PlanFailed

    if len(arguments) > 1:
        return _complain("Error: apply_patch accepts exactly one argument.\n", 2)
    text = arguments[0] if arguments else sys.stdin.buffer.read().decode("utf-8-sig", "replace")
    if not arguments and not text:
        return _complain(_USAGE, 2)
    try:
        hunks = parse(text)
    except InvalidPatch as error:
        return _complain(f"{error.for_terminal}\n", 1)
    if not hunks:
        return _complain("No files were modified.\n", 1)
    from codex_plugin_apply_patch.disk import Disk
    from codex_plugin_apply_patch.plan import Plan, summary
    from codex_plugin_apply_patch.steps import StepFailed, perform

    try:
        disk = Disk(os.getcwd())  # noqa: PTH109
        plan = Plan(disk)
        for hunk in hunks:
            perform(disk, plan.add(hunk))
    except (PlanFailed, StepFailed) as error:
        return _complain(f"{error}\n", 1)
    except OSError as error:
        return _complain(f"{os_error_text(error)}\n", 1)
    return _say(f"Success. Updated the following files:\n{summary(plan.steps)}")


def _say(text: str) -> int:
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads the output, but the patch is applied nevertheless
    return 0


def _complain(text: str, status: int) -> int:
    sys.stderr.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stderr.buffer.flush()
    return status
