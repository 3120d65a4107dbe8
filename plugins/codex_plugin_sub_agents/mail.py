"""Mail between agents: the value of the op ``inter_agent_communication`` and the forms in which a model reads it."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import ClassVar, Literal

from codex_framework import (
    InputText,
    Message,
    Op,
    OutputText,
    ResponseItem,
    Value,
)
from codex_framework.contract.protocol.items import LETTER_MARK, UnknownItem

__all__ = [
    "FINAL_ANSWER",
    "MAX_LENGTH",
    "Communication",
    "InterAgentCommunication",
    "letter",
    "team_letter",
]

MAX_LENGTH = 1 << 20
"""Maximum length of a message, in characters (Codex's limit for input)."""


class Communication(Value):
    """A message of one agent to another.

    Attributes:
        author, recipient: The ids of threads, or in a team the paths of agents.
        other_recipients: Others that received the same message.
        encrypted_content: The message as the model's server has encrypted it. Only a model of that server can read it.
        trigger_turn: Whether the recipient starts a turn if it is idle. Otherwise it reads the message in its next turn.
    """

    author: str
    recipient: str
    content: str
    other_recipients: tuple[str, ...] = ()
    encrypted_content: str | None = None
    trigger_turn: bool = False


class InterAgentCommunication(Op):
    """Deliver a message of another agent to this thread."""

    type: ClassVar[Literal["inter_agent_communication"]] = "inter_agent_communication"
    communication: Communication


def letter(communication: Communication) -> Message:
    """Return the message as the recipient's model reads it: JSON in a commentary message, as in Codex."""
    text = json.dumps(
        {
            "author": communication.author,
            "recipient": communication.recipient,
            "other_recipients": list(communication.other_recipients),
            "content": communication.content,
            "trigger_turn": communication.trigger_turn,
        },
        ensure_ascii=False,
    )
    return Message("assistant", (OutputText(text),), phase="commentary")


_HEAD = re.compile(r"\W*(message\W*type|task\W*name|sender|payload)\W*:", re.IGNORECASE)
"""A line that could be mistaken for a line of a head, whatever is between its words and before them."""

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")

_NEW_TASK, _MESSAGE, FINAL_ANSWER = "NEW_TASK", "MESSAGE", "FINAL_ANSWER"


def team_letter(communication: Communication, *, kind: str | None = None, as_item: bool) -> ResponseItem:
    """Return the message in the form for members of a team (Codex's form).

    A user message names no author. So it is marked as an agent's message, and its text is quoted: nothing in it can look like
    another head, the end of the message, or words of the user. An item names its author itself. Its text is quoted only if it
    contains a line that looks like a line of a head.

    Args:
        kind: ``FINAL_ANSWER``. By default ``NEW_TASK`` or ``MESSAGE``, depending on whether the message triggers a turn.
        as_item: Whether the recipient's model takes items of the type ``agent_message``. Others read a user message.
    """
    kind = kind or (_NEW_TASK if communication.trigger_turn else _MESSAGE)
    author, recipient = communication.author, communication.recipient
    head = f"Message Type: {kind}\nTask name: {recipient}\nSender: {author}\nPayload:\n"
    if not as_item:
        text = f"{LETTER_MARK}\n{head}{_quote_text(communication.content)}\n</{LETTER_MARK[1:]}"
        return Message("user", (InputText(text),))
    content = communication.content
    parts = [{"type": "input_text", "text": head + (_quote_text(content) if _has_head(content) else content)}]
    if communication.encrypted_content is not None:
        encrypted = {"type": "encrypted_content", "encrypted_content": communication.encrypted_content}
        parts.append(encrypted)
    return UnknownItem({"type": "agent_message", "author": author, "recipient": recipient, "content": parts})


def _quote_text(text: str) -> str:
    """Return the text with ``> `` before each line. Rare line ends become newlines, and other control characters become U+FFFD."""
    lines = (_CONTROL.sub("\ufffd", line) for line in text.splitlines())
    return "\n".join(f"> {line}" if line else ">" for line in lines)


def _has_head(text: str) -> bool:
    plain = unicodedata.normalize("NFKC", text)
    visible = "".join(each for each in plain if unicodedata.category(each) != "Cf")
    return any(_HEAD.match(line) for line in visible.splitlines())
