"""The functions and classes that read a response, imported together once the request is sent."""

from __future__ import annotations

from codex_contrib_anthropic.faults import not_a_message, web_page
from codex_contrib_anthropic.reply import Reply
from codex_framework.toolkit.model_server.splitter import BodySplitter, PageError

__all__ = ["BodySplitter", "PageError", "Reply", "not_a_message", "web_page"]
