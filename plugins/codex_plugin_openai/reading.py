"""The functions and classes that read a response, imported together once the request is sent."""

from __future__ import annotations

from codex_framework import Completed
from codex_plugin_openai.events import Sign, decode
from codex_plugin_openai.faults import broken_stream
from codex_plugin_openai.rate_limits import rate_limits
from codex_plugin_openai.sse import EventSplitter

__all__ = ["Completed", "EventSplitter", "Sign", "broken_stream", "decode", "rate_limits"]
