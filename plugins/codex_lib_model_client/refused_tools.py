"""Which tool a server refuses, by its words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from codex_framework.contract.errors import ModelError
from codex_framework.contract.roles.tool_specs import FunctionSpec, ToolSpec
from codex_lib_model_client.functions import function_name

__all__ = ["refused_tool"]

_ABOUT_TOOLS = re.compile(r"(?i)schema|function|\btools?\b|parameters|declaration|invalid_function_parameters")
_PLACE = re.compile(r"(?i)\btools?(?:\[|\.)(\d{1,4})\b\]?(?:\.tools(?:\[|\.)(\d{1,4})\b)?")
_DECLARATION = re.compile(r"(?i)function_?declarations?(?:\[|\.)(\d{1,4})\b")
"""How servers name a tool by its place. Gemini has all functions in one tool."""

_NAMED = re.compile(
    r"(?i)(?:function|tool|declaration|schema for)s?(?: name)?[\s:=]*[`'\"]?([A-Za-z0-9_.-]{1,128})[`'\"]?"
)
_WORD = re.compile(r"[A-Za-z0-9_.-]+")
_SLUGS = ("bad-request", "unexpected-status", "not-found")
_LONGEST = 4_000


def refused_tool(error: ModelError, sent: Sequence[Sequence[ToolSpec]]) -> ToolSpec | None:
    """Return the tool that a server refuses, or None if the error does not say it.

    Args:
        sent: The tools in the order of the request, those of a group together.
    """
    text = str(error.fact)[:_LONGEST]
    if error.retryable or error.slug not in _SLUGS or not _ABOUT_TOOLS.search(text):
        return None
    tools = [tool for group in sent for tool in group]
    for words in (_NAMED.findall(text), _WORD.findall(text)):
        found = {id(tool): tool for word in words for tool in tools if word.strip(".") in _names(tool)}
        if len(found) == 1:
            return next(iter(found.values()))
    if match := _DECLARATION.search(text):
        return _at(tools, int(match[1]))
    if match := _PLACE.search(text):
        group = sent[int(match[1])] if int(match[1]) < len(sent) else ()
        return _at(group, int(match[2] or 0)) if match[2] or len(group) == 1 else None
    return None


def _at(tools: Sequence[ToolSpec], place: int) -> ToolSpec | None:
    return tools[place] if place < len(tools) else None


def _names(tool: ToolSpec) -> Iterator[str]:
    """Yield the names under which a server may know a tool."""
    yield tool.name
    yield function_name(tool.name)
    if isinstance(tool, FunctionSpec) and tool.namespace is not None:
        yield tool.local_name
        yield f"{tool.namespace.name}{tool.local_name}"
        yield f"{tool.namespace.name}.{tool.local_name}"
