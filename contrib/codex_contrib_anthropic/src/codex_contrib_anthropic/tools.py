"""The tools of a request, and how its response is read."""

from __future__ import annotations

from codex_framework.contract.roles.tool_specs import ToolSpec
from codex_framework.toolkit.model_server.functions import Projection

__all__ = ["RequestTools"]


class RequestTools(Projection):
    """The tools of a request as functions.

    Args:
        searches: Whether the server may search the web. It then cuts texts into blocks, which belong together.
        links: Whether readers see links to the sources of a text.
    """

    def __init__(self, specs: tuple[ToolSpec, ...], *, searches: bool = False, links: bool = True) -> None:
        super().__init__(specs)
        self.searches = searches
        self.links = links
