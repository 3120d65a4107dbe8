"""For the tests of plugins, and of programs built on the kernel.

``server``: a real Responses server on loopback. ``model``: a scripted model in process. ``replies``: short ways to
write what they say. ``requests``: requests to try a provider with. ``plugin``: pytest fixtures. The names below are
loaded at first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codex_framework.testing.model import ScriptedModel
    from codex_framework.testing.replies import call, custom_call, fail, fault, local_shell, reasoning, reply, say
    from codex_framework.testing.requests import ItemsPrompt, ask, model_request
    from codex_framework.testing.server import RecordedRequest, ResponsesServer

_HOMES = {
    "model": "ScriptedModel",
    "replies": "call custom_call fail fault local_shell reasoning reply say",
    "requests": "ItemsPrompt ask model_request",
    "server": "RecordedRequest ResponsesServer",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "ItemsPrompt",
    "RecordedRequest",
    "ResponsesServer",
    "ScriptedModel",
    "ask",
    "call",
    "custom_call",
    "fail",
    "fault",
    "local_shell",
    "model_request",
    "reasoning",
    "reply",
    "say",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
