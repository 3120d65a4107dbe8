"""Dynamic tools: tools that a client defines when it starts a thread, and runs itself.

The client passes their definitions as ``dynamic_tools`` in ``extra``. Each call of the model reaches the client as a request,
and the client's answer goes to the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import Component, OpHandler, hookimpl
from codex_framework.toolkit.exports import lazy_exports

if TYPE_CHECKING:
    from codex_plugin_dynamic_tools.calls import (
        DynamicToolAnswer,
        DynamicToolCallRequest,
        DynamicToolCallResponseEvent,
        DynamicToolResponse,
        ImageContent,
        TextContent,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "calls": (
                "DynamicToolAnswer DynamicToolCallRequest DynamicToolCallResponseEvent DynamicToolResponse"
                " ImageContent TextContent"
            )
        },
    )

__all__ = [
    "DynamicToolAnswer",
    "DynamicToolCallRequest",
    "DynamicToolCallResponseEvent",
    "DynamicToolResponse",
    "ImageContent",
    "TextContent",
    "codex_components",
    "codex_ops",
    "codex_settings",
]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.dynamic_tools]``."""
    from codex_plugin_dynamic_tools.settings import Settings

    return Settings


@hookimpl
def codex_components() -> Iterable[Component]:
    """Offer the component ``dynamic_tools``."""
    from codex_plugin_dynamic_tools.component import DynamicTools

    return [DynamicTools()]


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handler of the op ``dynamic_tool_response``."""
    from codex_plugin_dynamic_tools.calls import ResponseHandler

    return [ResponseHandler()]
