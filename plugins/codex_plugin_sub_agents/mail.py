"""Mail between agents: the value of the op ``inter_agent_communication`` and the forms in which a model reads it."""

from __future__ import annotations

import json
import re
from typing import ClassVar, Literal

from codex_framework import (
    InputText,
    Message,
    Op,
    OutputText,
    ResponseItem,
    Value,
)
from codex_framework.contract.protocol.items import UnknownItem

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


_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_INVISIBLE = r"\u00ad\u200b-\u200f\u2060\ufeff"
_HEAD = re.compile(rf"(^|[{_BREAKS}])(?=(?:(?![{_BREAKS}])[\s{_INVISIBLE}])*Message Type:)", re.IGNORECASE)

_NEW_TASK, _MESSAGE, FINAL_ANSWER = "NEW_TASK", "MESSAGE", "FINAL_ANSWER"


def team_letter(communication: Communication, *, kind: str | None = None, as_item: bool) -> ResponseItem:
    """Return the message as a member of a team reads it (Codex's form).

    Args:
        kind: ``FINAL_ANSWER``. By default ``NEW_TASK`` or ``MESSAGE``, depending on whether the message triggers a turn.
        as_item: Whether the recipient's model takes items of the type ``agent_message``. Others read a user message.
    """
    kind = kind or (_NEW_TASK if communication.trigger_turn else _MESSAGE)
    author, recipient = communication.author, communication.recipient
    head = f"Message Type: {kind}\nTask name: {recipient}\nSender: {author}\nPayload:\n"
    if not as_item:
        # A user message has no author of its own, so a message must not look as if a second one, of somebody else, began in it.
        content = _HEAD.sub(r"\1 ", communication.content)
        return Message("user", (InputText(head + content),))
    parts = [{"type": "input_text", "text": head + communication.content}]
    if communication.encrypted_content is not None:
        encrypted = {"type": "encrypted_content", "encrypted_content": communication.encrypted_content}
        parts.append(encrypted)
    return UnknownItem({"type": "agent_message", "author": author, "recipient": recipient, "content": parts})
