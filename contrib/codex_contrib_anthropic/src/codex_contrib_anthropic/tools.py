"""The tools of a request, and how its response is read."""

from __future__ import annotations

import json
from typing import Any

from codex_contrib_anthropic.schemas import api_schema
from codex_framework.contract.protocol.items import CallItem
from codex_framework.contract.protocol.wire import encode_json
from codex_framework.contract.roles.tool_specs import ToolSpec
from codex_lib_model_client.functions import Projection

__all__ = ["RequestTools"]


class RequestTools(Projection):
    """The tools of a request as functions.

    Args:
        searches: Whether the server may search the web. It then cuts texts into blocks, which belong together.
        links: Whether readers see links to the sources of a text.

    Attributes:
        declared: The functions as the API has them.
    """

    def __init__(self, specs: tuple[ToolSpec, ...], *, searches: bool = False, links: bool = True) -> None:
        super().__init__(specs)
        self.searches = searches
        self.links = links
        self.declared: list[dict[str, Any]] = []
        self._names: dict[str, dict[str, str]] = {}
        for function in self.functions:
            schema, names = api_schema(function["parameters"])
            described = {"description": text} if (text := function.get("description")) else {}
            self.declared.append({"name": function["name"], **described, "input_schema": schema})
            if names:
                self._names[function["name"]] = names

    def call(self, name: str, arguments: str, call_id: str, place: str) -> CallItem:
        """Return the call of a tool, with the arguments' own names; see :meth:`Projection.call`."""
        if (names := self._names.get(name)) is not None:
            arguments = _rename_arguments(arguments, names)
        return super().call(name, arguments, call_id, place)


def _rename_arguments(arguments: str, names: dict[str, str]) -> str:
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(found, dict):
        return arguments
    return encode_json({names.get(name, name): value for name, value in found.items()})
