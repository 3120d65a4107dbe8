"""Mail between agents: the op ``inter_agent_communication`` and the form in which a model reads it."""

from __future__ import annotations

import json
from typing import ClassVar, Literal

from codex_framework import Message, Op, OpHandler, OutputText, ThreadContext, ThreadError, Value

__all__ = ["MAX_LENGTH", "Communication", "InterAgentCommunication", "MailHandler", "letter"]

MAX_LENGTH = 1 << 20
"""Maximum length of a message, in characters (Codex's limit for input)."""


class Communication(Value):
    """A message of one agent to another.

    Attributes:
        author, recipient: The ids of threads.
        other_recipients: Others that received the same message.
        encrypted_content: Accepted for messages of Codex. It cannot be read here.
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


class MailHandler(OpHandler[InterAgentCommunication]):
    """Adds the message to the conversation at the next suitable point."""

    op = InterAgentCommunication

    async def handle(self, op: InterAgentCommunication, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Deliver the message.

        Raises:
            ThreadError: It is empty or too long, or it is for another thread.
        """
        mail = op.communication
        if not mail.author.strip():
            raise _bad("a message requires an author", "Set `author` to the id of the sender's thread.")
        if mail.recipient != thread.id:
            raise _bad(
                f"the message is for {mail.recipient[:80]!r}, but this thread is {thread.id}",
                "Submit it to the thread that it is for.",
            )
        if mail.encrypted_content is not None and not mail.content:
            raise _bad("an encrypted message cannot be read here", "Send it with `content`.")
        if not mail.content.strip():
            raise _bad("Empty message can't be sent to an agent", "Set `content`.")
        if len(mail.content) > MAX_LENGTH:
            raise _bad(
                f"the message has {len(mail.content)} characters; at most {MAX_LENGTH} are allowed", "Shorten it."
            )
        thread.deliver([letter(mail)], "steer" if mail.trigger_turn else "join", trigger=mail.trigger_turn)


def _bad(fact: str, hint: str) -> ThreadError:
    return ThreadError(fact, slug="bad-request", hint=hint)
