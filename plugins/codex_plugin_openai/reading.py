"""The functions and classes that read a response, imported together once the request is sent."""

from __future__ import annotations

from codex_framework import ItemDone, TextDelta
from codex_framework.contract.protocol.items import is_call
from codex_lib_model_client.faults import web_page
from codex_lib_model_client.splitter import BodySplitter, PageError
from codex_plugin_openai.events import End, ExpiredSocketError, Sign, decode, no_stream, unfinished, whole_response
from codex_plugin_openai.rate_limits import rate_limits
from codex_plugin_openai.response_items import ResponseItems

__all__ = [
    "SKIPPED",
    "UNWANTED",
    "BodySplitter",
    "End",
    "ExpiredSocketError",
    "ItemDone",
    "PageError",
    "ResponseItems",
    "Sign",
    "TextDelta",
    "decode",
    "is_call",
    "no_stream",
    "rate_limits",
    "unfinished",
    "web_page",
    "whole_response",
]

UNWANTED = "response.function_call_arguments.delta"
"""These events make up most of a long patch and are not needed: the finished item contains the arguments."""

SKIPPED = f'{{"type":"{UNWANTED}"'
"""The beginning of a message over a WebSocket that is not needed."""
