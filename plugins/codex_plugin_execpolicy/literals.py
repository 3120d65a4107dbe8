"""Parses ``.rules`` texts that consist only of calls with literal values, without starting Starlark.

Most files are of this kind, such as ``default.rules``. The result is the same as Starlark's, and anything doubtful is left to
Starlark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from codex_plugin_execpolicy.calls import PARAMETERS, Call

__all__ = ["literal_calls"]

_NAMES = frozenset(name for parameters in PARAMETERS.values() for name in parameters)

_COMMENT = r"\#[^\x00-\x1f\x7f]*+"
_GAP = rf"(?:[ \n]|{_COMMENT}\n)*"
_TEXT = r"""(?:"(?:[^"\\\x00-\x1f\x7f]|\\["\\bfnrt])*"|'[^'\\\x00-\x1f\x7f]*+')"""
"""Only the escapes that JSON and Starlark share. Control characters, including tabs, count as doubtful."""


def _several(pattern: str, closing: str) -> str:
    """Return a pattern for items separated by commas, optionally with one after the last."""
    return rf"{_GAP}(?:{pattern}{_GAP}(?:,{_GAP}|(?=\{closing})))*"


_WORDS = rf"\[{_several(_TEXT, ']')}\]"
_VALUE = rf"(?:{_TEXT}|\[{_several(f'(?:{_TEXT}|{_WORDS})', ']')}\])"
_NAMED = rf"[a-z_]++{_GAP}={_GAP}"
_FUNCTIONS = "|".join(PARAMETERS)

_BETWEEN = re.compile(rf"(?:[ ]*+(?:{_COMMENT})?\n)*(?:[ ]*+(?:{_COMMENT})?\Z)?")
_CALL = re.compile(rf"({_FUNCTIONS})[ ]*+\(({_several(f'(?:{_NAMED})?{_VALUE}', ')')})\)[ ]*+(?:{_COMMENT})?(?:\n|\Z)")
_ARGUMENT = re.compile(rf"{_COMMENT}|(?:([a-z_]++){_GAP}={_GAP})?({_VALUE})")
_ELEMENT = re.compile(rf"{_COMMENT}|({_TEXT}|{_WORDS})")


def literal_calls(text: str) -> tuple[Call, ...] | None:
    """Return the calls of a text with only literal values. None if the text contains anything else."""
    calls: list[Call] = []
    line, at = 1, 0
    while True:
        end = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        line += text.count("\n", at, end)
        if end == len(text):
            return tuple(calls)
        found = _CALL.match(text, end)
        arguments = None if found is None else _arguments(found[2])
        if found is None or arguments is None:
            return None
        calls.append(Call(line, found[1], *arguments))
        at = found.end()
        line += text.count("\n", end, at)


def _arguments(text: str) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return positional and keyword arguments. None if Starlark might not accept them."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for found in _ARGUMENT.finditer(text):
        name, value = found.groups()
        if value is None:  # a comment
            continue
        if name is None:
            if named:
                return None
            positional.append(_value(value))
        elif name in named or name not in _NAMES:
            return None
        else:
            named[name] = _value(value)
    return tuple(positional), named


def _value(source: str) -> Any:
    if source[0] == "[":
        return list(_elements(source[1:-1]))
    return json.loads(source) if "\\" in source else source[1:-1]


def _elements(source: str) -> Iterator[Any]:
    for found in _ELEMENT.finditer(source):
        if found[1] is not None:
            yield _value(found[1])
