"""The server's search of the web, as a tool of a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from codex_contrib_anthropic.catalogue import Abilities
from codex_contrib_anthropic.options import MessagesOptions
from codex_framework import NativeSpec
from codex_framework.contract.roles.tool_specs import ToolSpec

__all__ = ["search_tool"]

_NAME = "web_search"
_BASIC = "web_search_20250305"
"""The version that every server and model with a search has."""

_FILTERING = "web_search_20260209"
"""The first version in which a model filters the results with its own code, if it can."""

_PLACE = ("city", "region", "country", "timezone")


def search_tool(
    specs: Iterable[ToolSpec], able: Abilities, options: MessagesOptions
) -> tuple[dict[str, Any] | None, str]:
    """Return the tool, or None if it is not requested or cannot be had. Then the second value is the reason, as a clause.

    Args:
        specs: The tools of a request.
    """
    wanted: Mapping[str, Any] | None = None
    for spec in specs:
        if isinstance(spec, NativeSpec) and spec.type == _NAME:
            wanted = spec.options
        elif spec.name == _NAME:
            return None, ""  # a function of this name: two tools cannot have the same one
    if wanted is None or options.web_search_tool == "none":
        return None, ""
    version = options.web_search_tool
    if version == "auto":
        if not able.searches:
            return None, "the model is not known to search the web (set web_search_tool for the provider if it can)"
        version = _BASIC
    if wanted.get("external_web_access") is False:
        return None, 'the server has no search of stored pages alone (set web_search = "live")'
    tool: dict[str, Any] = {"type": version, "name": _NAME}
    if version >= _FILTERING and not able.filters:
        tool["allowed_callers"] = ["direct"]
    if options.web_search_max_uses is not None:
        tool["max_uses"] = options.web_search_max_uses
    if domains := _domains(wanted.get("filters")):
        tool["allowed_domains"] = domains
    place = wanted.get("user_location")
    if isinstance(place, Mapping) and (known := {key: place[key] for key in _PLACE if place.get(key)}):
        tool["user_location"] = {"type": "approximate", **known}
    return tool, ""


def _domains(filters: Any) -> list[str]:
    """Return the domains, which servers take without a scheme only."""
    domains = filters.get("allowed_domains") if isinstance(filters, Mapping) else None
    bare = (str(domain).split("://")[-1].strip("/ ") for domain in domains or ())
    return [domain for domain in bare if domain]
