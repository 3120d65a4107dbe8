"""Reads ``.rules`` files. They are programs in Starlark that call ``prefix_rule``, ``network_rule`` and ``host_executable``."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path

from codex_framework.contract.errors import ConfigError
from codex_framework.contract.value import Value
from codex_framework.toolkit.regular_files import open_regular
from codex_plugin_execpolicy.calls import Call, Example, RuleCollection, WrongCallError
from codex_plugin_execpolicy.interpretation import Deadline, Failure, Interpretation, Part
from codex_plugin_execpolicy.literals import literal_calls
from codex_plugin_execpolicy.rules import RuleSet

__all__ = ["LARGEST", "RuleFile", "parse_rules", "read_rules", "usable_rules"]

LARGEST = 1024 * 1024
"""Maximum size of a file in bytes, about 15,000 rules."""

_HINT = "Correct that line; docs/plugins/execpolicy.md describes the format of rules files."


class RuleFile(Value):
    """The content of a file.

    Attributes:
        examples: The examples, which have been checked.
    """

    rules: RuleSet
    examples: tuple[Example, ...]


def read_rules(path: Path, deadline: Deadline | None = None) -> RuleFile:
    """Read the rules of a file.

    Args:
        deadline: The time limit. The default is some seconds from now.

    Raises:
        ConfigError: The file cannot be read or evaluated, calls a function with wrong arguments, or has a wrong example.
    """
    return parse_rules(_read(path), str(path), deadline)


def parse_rules(data: bytes, path: str, deadline: Deadline | None = None) -> RuleFile:
    """Read the rules in the bytes of a file. ``path`` is for errors. Raises the same errors as :func:`read_rules`."""
    return _Program(_decode_text(data, path), path, deadline or Deadline()).rules()


def usable_rules(path: Path, deadline: Deadline | None = None) -> tuple[RuleSet, ConfigError | None]:
    """Read the rules of a file as far as possible.

    Returns:
        All rules, and None. For a file with an error, the rules of those statements that can be evaluated separately, and the
        error that :func:`read_rules` raises. If the file cannot be read, there are no rules. If it is too large, the rules are
        those at its beginning.
    """
    within = deadline or Deadline()
    try:
        data = _read(path)
    except ConfigError as error:
        return RuleSet(), error
    program = _Program(data[:LARGEST].decode("utf-8-sig", "replace"), str(path), within)
    try:
        _decode_text(data, str(path))
        return program.rules().rules, None
    except ConfigError as error:
        return program.readable_rules(), error


class _Program:
    """The text of a file, and the result of its evaluation."""

    def __init__(self, text: str, path: str, deadline: Deadline) -> None:
        self._text = text
        self._path = path
        self._deadline = deadline
        self._literal = literal_calls(text)

    @functools.cached_property
    def _apart(self) -> Interpretation:
        """The statements, each evaluated separately."""
        from codex_plugin_execpolicy.interpreter import interpret, parts_of

        return interpret(parts_of(self._text), self._deadline)

    def rules(self) -> RuleFile:
        """Return all rules and examples. Raises ConfigError."""
        collected = RuleCollection()
        found = self._whole()
        for call in found.calls:
            with self._at(call.line):
                collected.add(call)
        if found.failures:
            raise self._error(self._with_line(found.failures[0]))
        for example in collected.examples:
            with self._at(example.line):
                if not self._deadline.left():
                    raise WrongCallError("checking the examples takes too long")
                collected.check(example)
        return RuleFile(collected.rules, tuple(collected.examples))

    def _whole(self) -> Interpretation:
        if self._literal is not None:
            return Interpretation(self._literal)
        from codex_plugin_execpolicy.interpreter import interpret

        return interpret([Part(self._text)], self._deadline)

    def readable_rules(self) -> RuleSet:
        """Return the rules that are readable in spite of an error."""
        collected = RuleCollection()
        for call in self._readable_calls():
            with contextlib.suppress(WrongCallError):
                collected.add(call)
        return collected.rules

    def _readable_calls(self) -> Iterator[Call]:
        if self._literal is not None:
            yield from self._literal
            return
        yield from self._apart.calls
        for part in self._apart.rest:
            for call in literal_calls(part.text) or ():
                yield Call(part.line + call.line - 1, call.function, call.positional, call.named)

    def _with_line(self, failure: Failure) -> Failure:
        """Return the failure with its line. If Starlark gave no line, it is the statement's line."""
        if failure.exact or not self._apart.failures:
            return failure
        same = (apart for apart in self._apart.failures if apart.fact == failure.fact)
        line = next(same, self._apart.failures[-1]).line
        return Failure(fact=failure.fact, line=line, hint=failure.hint)

    @contextlib.contextmanager
    def _at(self, line: int) -> Iterator[None]:
        try:
            yield
        except WrongCallError as wrong:
            raise self._error(Failure(fact=str(wrong), line=line)) from None

    def _error(self, failure: Failure) -> ConfigError:
        column = "" if failure.column is None else f":{failure.column}"
        fact = f"{self._path}:{failure.line}{column}: {failure.fact}"
        return ConfigError(fact, path=self._path, line=failure.line, slug="exec-rules", hint=failure.hint or _HINT)


def _read(path: Path) -> bytes:
    """Return the bytes of a file, at most one more than the limit. Raises ConfigError."""
    try:
        with open(path, "rb", opener=open_regular) as file:
            return file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        fact = f"the rules file {path} cannot be read: {reason}"
        hint = "Name a file that exists and is readable."
        raise ConfigError(fact, path=str(path), slug="exec-rules", hint=hint) from error


def _decode_text(data: bytes, path: str) -> str:
    if len(data) > LARGEST:
        fact = f"the rules file {path} has more than {LARGEST:,} bytes"
        hint = "Split it into several files, or write fewer rules with lists of alternatives in them."
        raise ConfigError(fact, path=path, slug="exec-rules", hint=hint)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        fact = f"{path}:{line}: byte {data[error.start]:#04x} is not UTF-8"
        raise ConfigError(fact, path=path, line=line, slug="exec-rules", hint="Save it as UTF-8.") from error
