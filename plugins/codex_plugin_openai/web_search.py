"""The tool ``web_search``, which the model's server runs itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import NativeSpec, Tool, ToolCall, ToolContext, ToolError, ToolOutput, ToolSpec, TurnFacts
from codex_framework.toolkit.web_searches import web_search_mode

__all__ = ["WebSearch"]

_NAME = "web_search"
_SIZES = ("low", "medium", "high")
_PLACE = ("country", "region", "city", "timezone")


class WebSearch(Tool):
    """Searches the web on the model's server. It is offered if ``web_search`` is ``cached`` or ``live``.

    The server runs the calls, so this tool runs nothing here. With ``cached``, the server only searches pages that it has
    fetched before.
    """

    parallel_safe = True
    reads = frozenset({"config", "model"})
    spec: ToolSpec = NativeSpec(_NAME, _NAME)

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether the configuration enables it."""
        return _mode(turn.config) is not None

    def spec_for(self, turn: TurnFacts) -> ToolSpec:
        """Return the spec with the options of the configuration."""
        options: dict[str, Any] = {"external_web_access": _mode(turn.config) == "live", **_options(turn.config)}
        if turn.model.known and turn.model.supports_images:
            options["search_content_types"] = ["text", "image"]
        return NativeSpec(_NAME, _NAME, options)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:  # noqa: ARG002  # the role's arguments
        """Refuse a call: servers run the calls of this tool themselves.

        Raises:
            ToolError: Always.
        """
        raise ToolError("web_search is run by the model's server and cannot be called")


def _mode(config: Mapping[str, Any]) -> str | None:
    """Return ``cached`` or ``live``, or None if there is no search."""
    mode = web_search_mode(config)
    return mode if mode in ("cached", "live") else None


def _options(config: Mapping[str, Any]) -> dict[str, Any]:
    tools = config.get("tools")
    table = tools.get("web_search") if isinstance(tools, Mapping) else None
    if not isinstance(table, Mapping):
        return {}
    options: dict[str, Any] = {}
    domains, place = table.get("allowed_domains"), table.get("location")
    if isinstance(domains, (list, tuple)) and domains:
        options["filters"] = {"allowed_domains": [str(domain) for domain in domains]}
    if isinstance(place, Mapping):
        known = {key: str(place[key]) for key in _PLACE if place.get(key)}
        options["user_location"] = {"type": "approximate", **known}
    if table.get("context_size") in _SIZES:
        options["search_context_size"] = table["context_size"]
    return options
