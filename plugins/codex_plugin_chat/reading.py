"""The functions and classes that read a response, imported together once the request is sent."""

from __future__ import annotations

from codex_framework.toolkit.model_server.splitter import BodySplitter, PageError
from codex_plugin_chat.faults import no_response, web_page
from codex_plugin_chat.reply import Reply

__all__ = ["BodySplitter", "PageError", "Reply", "no_response", "web_page"]
