"""Evaluates Starlark in a separate process, within limits.

The engine is the same as in Codex, so it accepts the same rules. In the kernel's process it could do harm: deep nesting
overflows its stack, and a single operation can use gigabytes.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Mapping, Sequence

from codex_plugin_execpolicy.calls import Call
from codex_plugin_execpolicy.fstrings import FStringError, without_fstrings
from codex_plugin_execpolicy.interpretation import WAIT_S, Deadline, Failure, Interpretation, Part
from codex_plugin_execpolicy.worker import FILE_NAME, MEMORY, OUTPUT, TIME_S

__all__ = ["interpret", "parts_of"]

_PART = re.compile(r"^(?=[^\s#)\]}])(?!(?:elif|else)\b)", re.MULTILINE)
_MESSAGE = re.compile(r"^error: (.+?)(?=\n *--> |\Z)", re.MULTILINE | re.DOTALL)
_PLACE = re.compile(rf"^ *--> {FILE_NAME}:(\d+):(\d+)$", re.MULTILINE)
_FRAME = re.compile(rf"^  \* {FILE_NAME}:(\d+), in ", re.MULTILINE)
_LONGEST_MESSAGE = 300

_LIMITS = {
    "time": (
        f"evaluating it takes more than {TIME_S} s of processor time",
        "Shorten the loops, or write the rules out.",
    ),
    "memory": (
        f"evaluating it takes more than {MEMORY >> 20} MiB of memory",
        "Build shorter strings and lists, or write the rules out.",
    ),
    "room": (
        f"its rules take more than {OUTPUT >> 20} MiB",
        "Write fewer rules, with lists of alternatives in them.",
    ),
    "nesting": (
        "brackets, operators or values are nested too deeply",
        "Split the expression; build long strings and lists with join or in a loop.",
    ),
    "wait": (
        f"it is not read, because reading the rules takes more than {WAIT_S:g} s",
        "Write the rules out in this file and those before it.",
    ),
}
"""The fact and the hint for each limit."""

_SIGNALS: Mapping[int, str] = {
    signal.SIGPROF: "time",
    signal.SIGKILL: "memory",  # by a system that is short of memory
    signal.SIGABRT: "memory",  # the engine's reaction to a failed allocation
    signal.SIGSEGV: "nesting",
    signal.SIGBUS: "nesting",
}
_MISSING = "Install starlark-pyo3, which codex-framework depends on."


class _UnusableError(Exception):
    """Starlark cannot be run."""


def parts_of(text: str) -> tuple[Part, ...]:
    """Split a text into statements, each from a line without indentation to the next. Some may only be parts of a statement."""
    line, parts = 1, []
    for piece in _PART.split(text):
        if piece:
            parts.append(Part(piece, line))
            line += piece.count("\n")
    return tuple(parts)


def interpret(parts: Sequence[Part], deadline: Deadline) -> Interpretation:
    """Evaluate parts of one module in order. If a part fails, the following ones are evaluated nevertheless."""
    if not parts:
        return Interpretation(())
    prepared = [_prepare_part(part) for part in parts]
    try:
        output, limit = _run([text for text, _ in prepared], deadline.left())
    except _UnusableError as error:
        failure = Failure(fact=str(error), line=parts[0].line, hint=_MISSING)
        return Interpretation((), (failure,), tuple(parts))
    done = _read(parts, output, limit)
    wrong = tuple(failure for _, failure in prepared if failure is not None)
    return Interpretation(done.calls, (*wrong, *done.failures), done.rest)


def _run(texts: Sequence[str], seconds: float) -> tuple[bytes, str | None]:
    """Return the worker's output for some texts, and the limit that ended it, if any. Raises _UnusableError."""
    import importlib.util
    import os
    import subprocess
    import sys
    from pathlib import Path

    package = importlib.util.find_spec("starlark")
    if package is None or package.origin is None:
        raise _UnusableError("Starlark is not installed")
    if not seconds:
        return b"", "wait"
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", Path(__file__).with_name("worker.py"), Path(package.origin).parent.parent],
            input=json.dumps(texts).encode(),
            capture_output=True,
            env={name: value for name, value in os.environ.items() if name.endswith("LIBRARY_PATH")},
            cwd="/",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return error.stdout or b"", "wait"
    except OSError as error:
        raise _UnusableError(f"Starlark cannot be started: {error.strerror or error}") from error
    if done.returncode > 0:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise _UnusableError(f"Starlark cannot be used: {reason or f'exit code {done.returncode}'}")
    return done.stdout, _SIGNALS.get(-done.returncode, "memory") if done.returncode else None


def _prepare_part(part: Part) -> tuple[str, Failure | None]:
    """Return the text to evaluate. It is empty if an f-string in it is invalid, which is the failure."""
    try:
        return without_fstrings(part.text), None
    except FStringError as error:
        before = part.text[: error.at]
        line, column = part.line + before.count("\n"), len(before) - before.rfind("\n")
        return "", Failure(fact=str(error), line=line, column=column)


def _limit_result(limit: str, parts: Sequence[Part], current: int, *, message: str = "") -> Interpretation:
    """Return the result if the part with this number reached a limit."""
    fact, hint = _LIMITS[limit]
    return Interpretation((), (_failure(parts[current], message, fact=fact, hint=hint),), tuple(parts[current + 1 :]))


def _read(parts: Sequence[Part], output: bytes, limit: str | None) -> Interpretation:
    """Parse the worker's output. ``limit`` is the reason why it did not finish."""
    calls: list[Call] = []
    failures: list[Failure] = []
    current = 0
    lines = output.split(b"\n")[:-1]  # the last one is empty or incomplete
    for event in map(json.loads, lines):
        match event:
            case [int(line), str(function), list(positional), dict(named)]:
                calls.append(Call(parts[current].line + line - 1, function, tuple(positional), named))
            case {"part": int(current)}:
                pass
            case {"limit": str(reached), "error": str(message)}:
                last = _limit_result(reached, parts, current, message=message)
                return Interpretation(tuple(calls), (*failures, *last.failures), last.rest)
            case {"error": str(message)}:
                failures.append(_failure(parts[current], message))
            case _:  # done
                return Interpretation(tuple(calls), tuple(failures))
    last = _limit_result(limit or "memory", parts, current)
    return Interpretation(tuple(calls), (*failures, *last.failures), last.rest)


def _failure(part: Part, message: str, *, fact: str = "", hint: str = "") -> Failure:
    """Return the failure for a message of Starlark, with its place in the file."""
    lines = part.text.count("\n") + 1
    if found := _PLACE.search(message):
        line, column = int(found[1]), int(found[2])
    else:
        frames = _FRAME.findall(message)
        line, column = int(frames[-1]) if frames else 0, None
    nowhere = "unexpected new line" in message and (line, column) == (
        1,
        1,
    )  # Starlark's message about an unexpected end
    exact = line > 0 and not nowhere
    return Failure(
        fact=fact or _fact(message),
        line=part.line + min(line, lines) - 1 if exact else part.line,
        column=column if exact else None,
        exact=exact,
        hint=hint,
    )


def _fact(message: str) -> str:
    found = _MESSAGE.search(message)
    text = " ".join((found[1] if found else message).split())
    text = text.removeprefix("Parse error: ").partition(", expected one of")[0]
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}..."
