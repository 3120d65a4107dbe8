"""Recognises from a server's error message which tool it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from codex_framework.contract.errors import ModelError
from codex_framework.contract.roles.tool_specs import FunctionSpec, ToolSpec
from codex_lib_model_client.functions import function_name

__all__ = ["refused_tool"]

_QUOTED_NAME = r"[`'\"](?P<quoted>[^`'\"\s]{1,128})[`'\"]"
_BARE_NAME = r"(?P<bare>[A-Za-z0-9_.-]{1,128})"
_KIND = r"(?:function|tool|(?:function_?)?declaration)s?"
_SCHEMA_OF = r"\bschema (?:for|of|in) (?:the )?"
_NAMED = tuple(
    re.compile(rf"(?i){pattern}")
    for pattern in (
        rf"{_SCHEMA_OF}(?:{_KIND}(?: name)?[\s:=]+)?{_QUOTED_NAME}",
        rf"{_SCHEMA_OF}{_KIND}(?: name)?[\s:=]+{_BARE_NAME}",
        rf"{_SCHEMA_OF}(?P<bare>[A-Za-z0-9.-]{{1,64}}_[A-Za-z0-9_.-]{{1,64}})",  # which is no word of another sentence
        rf"\b{_KIND} (?:{_QUOTED_NAME}|{_BARE_NAME}) (?:has|contains|uses|with) (?:an? )?[^.:]{{0,60}}\bschema\b",
        rf"{_QUOTED_NAME} function_?declaration\b",
    )
)
"""How servers name a tool together with its schema."""

_PLACE = re.compile(
    r"(?i)(?:\b(?P<list>(?!tools\b)\w+)[\[.](?P<item>\d+)\]?\.)?(?<![\w-])tools(?:\[|\.|['\"], ?)(?P<tool>\d{1,4})\b\]?"
    r"(?:\.tools(?:\[|\.)(?P<inner>\d{1,4})\b|\.function_?declarations(?:\[|\.)(?P<declaration>\d{1,4})\b)?"
)
"""How servers name a tool by its place. Gemini has all functions in one tool."""

_ABOUT_CALLS = re.compile(
    r"(?i)\barguments?\b|(?:tool|function)[ _-]?calls?\b|\bcalls? (?:of|to) (?:the )?(?:tool|function)|\bmessages\b|\bmessage\["
    r"|response_?format|text\.format|thought_?signature|tool_(?:use|result|choice)|failed_generation|not match(?:ed)? (?:the )?schema"
)
"""Words about the content of a message or a conversation. Leaving out a tool does not fix such errors."""

_QUOTED = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"")
_SLUGS = ("bad-request", "not-found")
_UNPROCESSABLE = {"http_connection_failed": {"http_status_code": 422}}
_LONGEST = 4_000


def refused_tool(error: ModelError, sent: Sequence[Sequence[ToolSpec]]) -> ToolSpec | None:
    """Return the tool that a server refuses, or None if the error does not clearly say so.

    A tool is refused if the server names it together with its schema, or names its place among the tools. A text that merely
    contains the name is not enough, because names of tools are also words.

    Args:
        sent: The tools in the order of the request, with grouped tools adjacent.
    """
    if error.retryable or (error.slug not in _SLUGS and error.info != _UNPROCESSABLE):
        return None
    text = str(error.fact)[:_LONGEST]
    for pattern in _NAMED:
        for match in pattern.finditer(text):
            found = _tools_by_name(match, sent)
            if len(found) == 1 and not _is_about_calls(text, match):
                return found[0]
    for match in _PLACE.finditer(text):
        if (match["list"] is None or (match["list"], match["item"]) == ("input", "0")) and not _is_about_calls(
            text, match
        ):
            return _tool_at(match, sent)
    return None


def _is_about_calls(text: str, match: re.Match[str]) -> bool:
    """Return whether a text that names a tool is about a call. The quotation after the name may be a property of the schema."""
    return _ABOUT_CALLS.search(text[: match.start()] + " " + _QUOTED.sub("", text[match.end() :])) is not None


def _tools_by_name(match: re.Match[str], sent: Sequence[Sequence[ToolSpec]]) -> list[ToolSpec]:
    words = match.groupdict()
    quoted, bare = words.get("quoted") or "", (words.get("bare") or "").strip(".")
    return [
        tool
        for group in sent
        for tool in group
        if quoted in _names(tool) or bare in (tool.name, function_name(tool.name))
    ]


def _names(tool: ToolSpec) -> Iterator[str]:
    """Yield the names under which a server may know a tool."""
    yield tool.name
    yield function_name(tool.name)
    if isinstance(tool, FunctionSpec) and tool.namespace is not None:
        yield tool.local_name
        yield f"{tool.namespace.name}{tool.local_name}"
        yield f"{tool.namespace.name}.{tool.local_name}"


def _tool_at(match: re.Match[str], sent: Sequence[Sequence[ToolSpec]]) -> ToolSpec | None:
    """Return the tool at a place, if one tool is there."""
    place, inner, declaration = (
        None if match[name] is None else int(match[name]) for name in ("tool", "inner", "declaration")
    )
    assert place is not None
    tools: Sequence[ToolSpec] = sent[place] if place < len(sent) else ()
    if declaration is not None and place == 0:
        tools, inner = [tool for group in sent for tool in group], declaration
    if inner is None and len(tools) == 1:
        inner = 0
    return tools[inner] if inner is not None and inner < len(tools) else None
