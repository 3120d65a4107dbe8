"""Evaluates Starlark. It runs as a script in a separate process, which may crash or be killed without harming the kernel.

``python -I -S worker.py FOLDER``, where FOLDER contains the package ``starlark``. Standard input is a JSON array of texts,
which are evaluated in order as parts of one module. Standard output has one JSON object or array a line:

- ``{"part": 0}``: the evaluation of a part begins.
- ``[3, "prefix_rule", [...], {...}]``: line 3 of the part called a function with these arguments, by position and by name.
  Strings are passed unchanged, lists are nested at most two deep, and anything else is ``{"": "its type"}``.
- ``{"error": "..."}``: the part failed with this message of Starlark.
- ``{"limit": "time", "error": "..."}``: the part took too much ``time``, ``memory`` or ``room``. No further part is evaluated.
- ``{"done": true}``: all parts have been evaluated.

A line without its end means that the process died while it evaluated the part that began last.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import starlark

__all__ = ["FILE_NAME", "FUNCTIONS", "MEMORY", "OUTPUT", "TIME_S"]

FUNCTIONS = ("prefix_rule", "network_rule", "host_executable")
"""The functions of rules files in addition to Starlark's functions."""

FILE_NAME = "rules"
"""The name of the text in Starlark's messages."""

TIME_S = 2
"""Processor time for all parts together, in seconds."""

MEMORY = 512 * 1024 * 1024
"""Address space of the process, in bytes."""

OUTPUT = 8 * 1024 * 1024
"""Bytes of standard output for calls. Literal calls take about as many bytes as their text."""

_LATEST_S = TIME_S + 0.5
"""Processor time in seconds after which the system ends this process, because nothing is checked during a single long operation."""

_BUFFER = 64 * 1024
_CALL_STACK = 52
"""Codex keeps the engine's default of 50; the functions here take two frames more than the native ones there."""

_FRAME = re.compile(rf"^  \* {FILE_NAME}:(\d+), in ", re.MULTILINE)

_ELEMENTS = """
def _element(value):
    if type(value) == "string":
        return value
    if type(value) == "list":
        return [word if type(word) == "string" else {"": type(word)} for word in value]
    return {"": type(value)}

def _plain(value):
    return [_element(element) for element in value] if type(value) == "list" else _element(value)
"""

_FUNCTION = """
def {name}(*args, **kwargs):
    positional = [_plain(value) for value in args]
    named = {{key: _plain(value) for key, value in kwargs.items()}}
    record(json.encode(["{name}", positional, named]), call_stack(strip_frames = 1))
"""

_PRELUDE = _ELEMENTS + "".join(_FUNCTION.format(name=name) for name in FUNCTIONS)
"""The functions are written in Starlark, because the bindings do not distinguish lists from tuples."""


class _Limits:
    """Checks whether an evaluation must end."""

    def __init__(self) -> None:
        self.reached: str | None = None
        self._size = _largest_size()

    def check(self) -> bool:
        """Compare time and memory with their limits. The engine calls this about every thousand steps."""
        if time.process_time() > TIME_S:
            self.reached = "time"
        elif _largest_size() - self._size > MEMORY // 2:
            self.reached = "memory"
        return self.reached is not None


def _largest_size() -> int:
    """Return the maximum memory of this process so far, in bytes. On Linux, this includes the memory of its parent process."""
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024


class _Output:
    """Standard output.

    Attributes:
        full: Whether the calls take too many bytes.
    """

    def __init__(self) -> None:
        self.full = False
        self._left = OUTPUT
        self._lines: list[bytes] = []
        self._size = 0

    def record(self, call: str, stack: str) -> None:
        """Report a call.

        Args:
            call: A JSON array of name and arguments.
            stack: The call stack as Starlark shows it.

        Raises:
            RuntimeError: The limit of the output is reached.
        """
        frames = _FRAME.findall(stack)
        line = f"[{frames[-1] if frames else 1}, {call[1:]}".encode()
        self._left -= len(line)
        if self._left < 0:
            self.full = True
            raise RuntimeError("the rules take too much memory")
        self._write(line)

    def report(self, **event: Any) -> None:
        """Report anything else immediately, because the process may die before the next line."""
        self._write(json.dumps(event).encode())
        self.flush()

    def _write(self, line: bytes) -> None:
        self._lines.append(line + b"\n")
        self._size += len(line)
        if self._size > _BUFFER:
            self.flush()

    def flush(self) -> None:
        data = memoryview(b"".join(self._lines))
        self._lines.clear()
        self._size = 0
        while data:
            data = data[os.write(1, data) :]


def _limit_process() -> None:
    """Let the system end this process, without a core dump, if it exceeds the limits between two checks."""
    signal.setitimer(signal.ITIMER_PROF, _LATEST_S)
    for kind, limit in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_AS, MEMORY)):
        _, most = resource.getrlimit(kind)
        allowed = limit if most == resource.RLIM_INFINITY else min(limit, most)
        with contextlib.suppress(OSError, ValueError):  # macOS does not limit the address space
            resource.setrlimit(kind, (allowed, allowed))


class _Module:
    """A module of Starlark in which the functions are defined, as in Codex: extended dialect, f-strings, standard library."""

    def __init__(self, output: _Output, limits: _Limits) -> None:
        import starlark

        self._engine = starlark
        self._dialect = starlark.Dialect.extended()
        self._dialect.enable_f_strings = True
        self._globals = starlark.Globals.standard()
        self._options = starlark.EvalOptions(check_cancelled=limits.check, max_callstack_size=_CALL_STACK)
        self._module = starlark.Module()
        self._define(output.record)

    def _define(self, record: Callable[[str, str], None]) -> None:
        engine = self._engine
        prelude = engine.Module()
        prelude.add_callable("record", record)
        further = [engine.LibraryExtension.CallStack, engine.LibraryExtension.Json]
        engine.eval(prelude, engine.parse("prelude", _PRELUDE, self._dialect), engine.Globals.extended_by(further))
        functions = prelude.freeze()
        names = ", ".join(f'"{name}"' for name in FUNCTIONS)
        loading = engine.parse("prelude", f'load("prelude", {names})', self._dialect)
        engine.eval(self._module, loading, self._globals, engine.FileLoader(lambda _: functions))

    def evaluate(self, text: str) -> None:
        """Evaluate a part. Raises StarlarkError."""
        self._engine.eval_with(self._options, self._module, self._parse(text), self._globals)

    def _parse(self, text: str) -> starlark.AstModule:
        try:  # the value of the last statement would be converted, which fails for a function
            return self._engine.parse(FILE_NAME, f"{text}\nNone\n", self._dialect)
        except self._engine.StarlarkError:
            return self._engine.parse(FILE_NAME, text, self._dialect)


def _evaluate(parts: Sequence[str]) -> None:
    import starlark

    output, limits = _Output(), _Limits()
    module = _Module(output, limits)
    for number, text in enumerate(parts):
        output.report(part=number)
        try:
            module.evaluate(text)
        except starlark.StarlarkError as error:
            reached = "room" if output.full else limits.reached
            if reached is not None:
                output.report(limit=reached, error=str(error))
                return
            output.report(error=str(error))
        except BaseException as error:  # a panic of the engine is not an Exception
            if not isinstance(error, MemoryError) and "out of memory" not in str(error):
                raise
            output.report(limit="memory", error="")
            return
    output.report(done=True)


def _main() -> None:
    _limit_process()
    parts = json.load(sys.stdin)
    sys.path.append(sys.argv[1])
    _evaluate(parts)


if __name__ == "__main__":
    _main()
