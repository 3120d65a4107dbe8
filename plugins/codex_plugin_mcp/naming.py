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
_MAX_NAMESPACE = 48
"""Maximum length of a namespace, so that a hashed name of a tool fits behind it."""


class ToolName(Value, kw_only=True):
    """The names of one tool.

    Attributes:
        server: The server's name.
        tool: The name that the server uses.
        namespace: The server's namespace for the model: ``mcp__docs``.
        local: The name within the namespace: ``get_page``. Namespace and name together, as models state them in a call, are
            unique and at most 64 characters.
        full: The name without a namespace, at most 64 characters: ``mcp__docs__get_page``.
    """

    server: str
    tool: str
    namespace: str
    local: str
    full: str


def namespaces(servers: Iterable[str], *, prefixed: bool = True) -> dict[str, str]:
    """Return the namespace of each server. Servers that would have the same one, or a long one, get a hash of their names.

    Args:
        prefixed: Whether namespaces begin with ``mcp__``.
    """
    prefix = _PREFIX if prefixed else ""
    plain = {server: prefix + _sanitise(server) for server in servers}
    count = Counter(plain.values())
    return {
        server: _hashed_name(name, server, _MAX_NAMESPACE) if count[name] > 1 or len(name) > _MAX_NAMESPACE else name
        for server, name in plain.items()
    }


def tool_names(tools: Mapping[str, Sequence[str]], *, prefixed: bool = True) -> list[ToolName]:
    """Return the names of all tools, in an order that depends only on the names.

    If the name would not be unique or is too long, a hash of server and tool is added. So the name of a tool does not depend on
    which server started first.

    Args:
        tools: The names that each server uses, by server, without duplicates.
    """
    spaces = namespaces(tools, prefixed=prefixed)
    found = [(server, tool) for server in sorted(tools) for tool in sorted(tools[server])]
    plain = {pair: _sanitise(pair[1]) for pair in found}
    full = {pair: f"{spaces[pair[0]]}{_SEPARATOR}{plain[pair]}" for pair in found}
    joined = {pair: f"{spaces[pair[0]]}{plain[pair]}" for pair in found}
    fulls, calls = Counter(full.values()), Counter(joined.values())
    names = []
    for pair in found:
        space, name, local, call = spaces[pair[0]], full[pair], plain[pair], joined[pair]
        identity = "\0".join(pair)
        if fulls[name] > 1 or calls[call] > 1 or call in fulls or len(call) > MAX_NAME:
            local = _hashed_name(local, identity, MAX_NAME - len(space))
        if fulls[name] > 1 or len(name) > MAX_NAME:
            name = _hashed_name(name, identity)
        names.append(ToolName(server=pair[0], tool=pair[1], namespace=space, local=local, full=name))
    return names


def _sanitise(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name) or "_"


def _hashed_name(name: str, identity: str, limit: int = MAX_NAME) -> str:
    digest = hashlib.sha1(identity.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:_HASH]
    return f"{name[: limit - _HASH - 1]}_{digest}"
