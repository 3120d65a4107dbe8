"""The names of tools for the model, made from the names that servers use."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from codex_framework import Value

__all__ = ["MAX_NAME", "ToolName", "namespaces", "tool_names"]

MAX_NAME = 64
"""Maximum length of a name (the limit of model providers)."""

_PREFIX = "mcp__"
_SEPARATOR = "__"
_HASH = 12


class ToolName(Value, kw_only=True):
    """The names of one tool.

    Attributes:
        server: The server's name.
        tool: The name that the server uses.
        namespace: The server's namespace for the model: ``mcp__docs``.
        local: The name within the namespace: ``get_page``.
        full: The name without a namespace, at most 64 characters: ``mcp__docs__get_page``.
    """

    server: str
    tool: str
    namespace: str
    local: str
    full: str


def namespaces(servers: Iterable[str], *, prefixed: bool = True) -> dict[str, str]:
    """Return the namespace of each server. Servers that would have the same one get a hash of their names.

    Args:
        prefixed: Whether namespaces begin with ``mcp__``.
    """
    prefix = _PREFIX if prefixed else ""
    plain = {server: prefix + _sanitised(server) for server in servers}
    count = Counter(plain.values())
    return {server: _hashed(name, server) if count[name] > 1 else name for server, name in plain.items()}


def tool_names(tools: Mapping[str, Sequence[str]], *, prefixed: bool = True) -> list[ToolName]:
    """Return the names of all tools, in an order that depends on nothing but the names.

    Tools that would have the same name, or one that is too long, get a hash of server and tool. So the name of a tool does not
    depend on which server started first.

    Args:
        tools: The names that each server uses, by server, without duplicates.
    """
    spaces = namespaces(tools, prefixed=prefixed)
    found = [(server, tool) for server in sorted(tools) for tool in sorted(tools[server])]
    locals_ = {pair: _sanitised(pair[1]) for pair in found}
    full = {pair: f"{spaces[pair[0]]}{_SEPARATOR}{locals_[pair]}" for pair in found}
    count = Counter(full.values())
    names = []
    for server, tool in found:
        pair = (server, tool)
        identity = f"{server}\0{tool}"
        name, local = full[pair], locals_[pair]
        if count[name] > 1:
            local = _hashed(local, identity)
        if count[name] > 1 or len(name) > MAX_NAME:
            name = _hashed(name, identity)
        names.append(ToolName(server=server, tool=tool, namespace=spaces[server], local=local, full=name))
    return names


def _sanitised(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name) or "_"


def _hashed(name: str, identity: str) -> str:
    digest = hashlib.sha1(identity.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:_HASH]
    return f"{name[: MAX_NAME - _HASH - 1]}_{digest}"
