"""YAML as plain trees of text: every scalar is a string, as Codex reads names such as ``yes`` and ``1.0``. Null is empty."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from yaml import MappingNode, Node

__all__ = ["Tree", "YamlError", "read_mapping"]

Tree: TypeAlias = "str | Sequence[Tree] | Mapping[str, Tree]"

_SIMPLE_LINE = re.compile(r"([A-Za-z][\w-]*): +([^\W_][^\n]*)")
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_NOT_PLAIN = re.compile(r": |:$|\s#|[^\x20-\x7e\xa1-\ud7ff\ue000-\ufefe\uff00-\ufffd]")


class YamlError(Exception):
    """A text is not the YAML that is expected. Its text is for the user."""


def read_mapping(text: str) -> Mapping[str, Tree]:
    """Return a YAML mapping as a tree of text.

    Raises:
        YamlError: It is not valid YAML, no mapping, or has the same key twice.
    """
    simple = _simple_mapping(text)
    return _parsed(text) if simple is None else simple


def _simple_mapping(text: str) -> dict[str, Tree] | None:
    """Return a mapping of which each line is ``key: plain text``, the usual form, or None if it needs a whole parser.

    It saves most sessions the import of the parser, which takes 15 ms.
    """
    found: dict[str, Tree] = {}
    for line in text.split("\n"):
        if not line.strip():
            continue
        match = _SIMPLE_LINE.fullmatch(line.rstrip(" "))
        if match is None or match[1] in found or match[2] in _NULLS or _NOT_PLAIN.search(match[2]):
            return None
        found[match[1]] = match[2]
    return found or None


def _parsed(text: str) -> Mapping[str, Tree]:
    import yaml

    try:
        # The loader in C would be faster, but a deeply nested text overflows its stack and ends the process.
        node = yaml.compose(text, Loader=yaml.BaseLoader)
        tree = "" if node is None else _Trees().of(node)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise YamlError(f"not valid YAML: {_reason(error)}") from error
    if not isinstance(tree, Mapping):
        raise YamlError("not a YAML mapping of keys to values")
    return tree


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    mark = getattr(error, "problem_mark", None)
    return f"{problem} (line {mark.line + 1})" if mark is not None else str(problem)


class _Trees:
    """Makes trees of nodes. A node that several aliases share is made once, so that aliases cannot multiply it."""

    def __init__(self) -> None:
        self._made: dict[int, Tree | None] = {}

    def of(self, node: Node) -> Tree:
        known = id(node)
        if known in self._made:
            made = self._made[known]
            if made is None:
                raise ValueError("an alias contains itself")
            return made
        self._made[known] = None
        tree = self._made[known] = self._new(node)
        return tree

    def _new(self, node: Node) -> Tree:
        from yaml import MappingNode, SequenceNode

        if isinstance(node, MappingNode):
            return dict(self._pairs(node))
        if isinstance(node, SequenceNode):
            return [self.of(part) for part in node.value]
        return "" if getattr(node, "style", None) is None and node.value in _NULLS else str(node.value)

    def _pairs(self, node: MappingNode) -> Iterator[tuple[str, Tree]]:
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                raise ValueError(f"`{name}` is given twice")
            seen.add(name)
            yield name, self.of(value)
