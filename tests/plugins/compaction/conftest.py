"""Conversations in short, and replies that say how long they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from codex_framework.contract.protocol.events import TokenUsage
from codex_framework.testing import Reply


def _spoken(items: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    return [
        (item["role"], "".join(part.get("text", "<image>") for part in item["content"]))
        if item["type"] == "message"
        else (item["type"], item.get("output") or item.get("arguments") or "")
        for item in items
    ]


@pytest.fixture
def spoken() -> Callable[..., list[tuple[str, str]]]:
    """The items of a request: role and text of messages, kind and text of all others."""
    return _spoken


@pytest.fixture
def conversation() -> Callable[..., list[tuple[str, str]]]:
    """The same, without context and with summaries and the prompt for one in short."""

    def short(items: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
        from codex_plugin_compaction.prompt import PROMPT, SUMMARY_PREFIX

        result = []
        for role, text in _spoken(items):
            if role == "developer" or text.startswith("<environment_context>"):
                if not result or result[-1] != ("context", ""):
                    result.append(("context", ""))
            else:
                result.append((role, text.replace(SUMMARY_PREFIX, "PREFIX").replace(PROMPT.strip(), "PROMPT")))
        return result

    return short


@pytest.fixture
def used() -> Callable[[Reply, int], Reply]:
    """A reply that says how many tokens the conversation has."""
    return lambda reply, tokens: reply.evolve(usage=TokenUsage(tokens - 10, 0, 10, 0, tokens))
