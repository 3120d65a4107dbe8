"""All that reads a response. It is loaded when the request has been sent."""

from __future__ import annotations

from codex_framework import Completed
from codex_plugin_openai.events import decode
from codex_plugin_openai.faults import broken_stream
from codex_plugin_openai.rate_limits import rate_limits
from codex_plugin_openai.sse import EventSplitter

__all__ = ["Completed", "EventSplitter", "broken_stream", "decode", "rate_limits"]
