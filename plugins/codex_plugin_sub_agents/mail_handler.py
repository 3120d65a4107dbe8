"""The handler of the op ``inter_agent_communication``."""

from __future__ import annotations

from codex_framework import OpHandler, ServiceError, ThreadContext, ThreadError, ToolError
from codex_plugin_sub_agents.mail import MAX_LENGTH, InterAgentCommunication, letter
from codex_plugin_sub_agents.part import AgentsPart

__all__ = ["MailHandler"]

_LONGEST_NAME = 1024
"""Maximum length of the author's path or id. It is a part of a message's head, which must not look like two messages."""


class MailHandler(OpHandler[InterAgentCommunication]):
    """Adds the message to the conversation at the next suitable point."""

    op = InterAgentCommunication

    async def handle(self, op: InterAgentCommunication, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Deliver the message.

        Raises:
            ThreadError: It is empty or too long, or it is for another thread, or its author is no name.
        """
        mail = op.communication
        if not mail.author.strip():
            raise _bad("a message requires an author", "Set `author` to the id of the sender's thread.")
        if len(mail.author) > _LONGEST_NAME or not mail.author.isprintable():
            raise _bad(
                f"the author of a message must be one line of at most {_LONGEST_NAME} characters",
                "Set `author` to the id of the sender's thread.",
            )
        part = await _part(thread)
        path = None if part is None else part.path
        if mail.recipient not in (thread.id, path):
            raise _bad(
                f"the message is for {mail.recipient[:80]!r}, but this thread is {thread.id}",
                "Submit it to the thread that it is for.",
            )
        is_readable = path is not None and part is not None and part.takes_letters
        if mail.encrypted_content is not None and not mail.content and not is_readable:
            raise _bad("an encrypted message cannot be read here", "Send it with `content`.")
        if not mail.content.strip() and mail.encrypted_content is None:
            raise _bad("Empty message can't be sent to an agent", "Set `content`.")
        others = sum(map(len, mail.other_recipients))
        length = max(len(mail.content) + others, len(mail.encrypted_content or ""))
        if length > MAX_LENGTH:
            raise _bad(f"the message has {length} characters; at most {MAX_LENGTH} are allowed", "Shorten it.")
        if part is not None:
            try:
                part.receive(mail)
            except ToolError as error:
                raise _bad(str(error), "Send it later.") from error
            return
        thread.deliver([letter(mail)], "steer" if mail.trigger_turn else "join", trigger=mail.trigger_turn)


async def _part(thread: ThreadContext) -> AgentsPart | None:
    try:
        return await thread.part(AgentsPart)
    except ServiceError:
        return None


def _bad(fact: str, hint: str) -> ThreadError:
    return ThreadError(fact, slug="bad-request", hint=hint)
