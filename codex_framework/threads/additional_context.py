"""What a client sends along with user input, as items of the conversation.

Apart from ``user_input``: it is a format of Codex's, with its own marks and limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.items import CONTEXT_MARKS, InputText, Message
from codex_framework.contract.protocol.ops import AdditionalContext
from codex_framework.threads.history import History
from codex_framework.toolkit.truncation import truncate

__all__ = ["context_messages"]

_MOST = 64
"""Entries of one input."""

_TOKENS = 1_000
"""What is kept of an entry, in tokens (Codex 0.169)."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")

_ROLES = {"application": "developer", "untrusted": "user"}


def context_messages(given: Mapping[str, AdditionalContext], history: History) -> tuple[Message, ...]:
    """Return the messages for entries that differ from what the history says last by their names.

    An entry of the application is ``<NAME>text</NAME>`` in a developer message. One of others is ``<external_NAME>`` in a user
    message, which is how everything recognises text that the user did not write (Codex's markers).

    Raises:
        ThreadError: There are too many entries, or a name or a kind is not allowed.
    """
    if len(given) > _MOST:
        raise _error(f"there are {len(given)} entries; at most {_MOST} are accepted", "Send fewer, or join them.")
    messages = (_message(name, entry) for name, entry in given.items())
    return tuple(message for message, start in messages if history.last_with(start) != _text(message))


def _message(name: str, entry: AdditionalContext) -> tuple[Message, str]:
    role = _ROLES.get(entry.kind)
    if role is None:
        raise _error(f"{name!r} has the kind {entry.kind!r}", f"Use {' or '.join(_ROLES)}.")
    if not _NAME.fullmatch(name):
        hint = "Use letters, digits, `_`, `-` and `.`, at most 64 of them."
        raise _error(f"the name {name[:80]!r} is not allowed", hint)
    tag = name if role == "developer" else f"external_{name}"
    start, end = f"<{tag}>", f"</{tag}>"
    if role == "developer" and any(mark.startswith(start[:-1]) for mark in CONTEXT_MARKS):
        raise _error(f"the name {name!r} stands for context of the kernel", "Choose another name.")
    text = truncate(entry.value, ("tokens", _TOKENS)).replace(end, "&lt;" + end[1:])
    return Message(role=role, content=(InputText(f"{start}{text}{end}"),)), start


def _text(message: Message) -> str:
    return "".join(part.text for part in _texts(message))


def _texts(message: Message) -> Iterator[InputText]:
    return (part for part in message.content if isinstance(part, InputText))


def _error(fact: str, hint: str) -> ThreadError:
    return ThreadError(f"the additional context cannot be used: {fact}", slug="bad-request", hint=hint)
