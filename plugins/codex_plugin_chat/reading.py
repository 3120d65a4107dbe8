"""The functions and classes that read a response, imported together once the request is sent."""

from __future__ import annotations

from codex_plugin_chat.faults import no_response, web_page
from codex_plugin_chat.reply import Reply
from codex_plugin_chat.splitter import BodySplitter, PageError

__all__ = ["BodySplitter", "PageError", "Reply", "no_response", "web_page"]
