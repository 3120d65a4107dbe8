"""Sampling: a server asks to use the thread's model, if the settings name it, and if the user agrees each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codex_framework import Agent, InputImage, InputText, Limits, Message, OutputText, ResponseItem, ThreadContext
from codex_framework.contract.protocol.ops import ImageInput, TextInput, UserInputItem
from codex_plugin_mcp.errors import ServerError
from codex_plugin_mcp.images import read_image
from codex_plugin_mcp.questions import Elicitation
from codex_plugin_mcp.texts import plain

if TYPE_CHECKING:
    from codex_plugin_mcp.elicitation import Asker, Elicitations

__all__ = ["Sampling"]

_REFUSED = -1
"""The code for a request that the user refused (from the protocol's examples)."""

_INVALID_PARAMS = -32602
_MAX_CHARACTERS = 200_000
_MAX_SHOWN = 4_000
_CHARACTERS_PER_TOKEN = 4
"""An estimate, by which an answer is cut to the server's ``maxTokens``: providers have no such limit for each request."""

_APPROVAL = {"codex_approval_kind": "mcp_sampling"}


class Sampling:
    """The requests of one server.

    Args:
        max_requests: How many requests are accepted in the life of the thread.
        max_tokens: The token budget of one request, input included.
    """

    def __init__(self, connection: Asker, elicitations: Elicitations, *, max_requests: int, max_tokens: int) -> None:
        self._connection = connection
        self._elicitations = elicitations
        self._left = max_requests
        self._max_tokens = max_tokens

    async def create(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Answer ``sampling/createMessage``.

        Raises:
            ServerError: The request is invalid, refused by the user, or above a limit.
        """
        messages = _messages(params)
        if params.get("tools"):
            raise ServerError("tools are not supported in sampling", code=_INVALID_PARAMS)
        if self._left < 1:
            raise ServerError("the limit of sampling requests in this session is reached", code=_REFUSED)
        self._left -= 1
        answer = await self._elicitations.ask(self._question(params, messages))
        if answer.decision != "accept":
            raise ServerError("the user refused the sampling request", code=_REFUSED)
        with self._connection.paused():
            return await self._sampled(params, messages)

    def _question(self, params: Mapping[str, Any], messages: Sequence[Message]) -> Elicitation:
        system = params.get("systemPrompt")
        lines = [f"system: {system}"] if isinstance(system, str) and system else []
        lines += [f"{message.role}: {_message_text(message)}" for message in messages]
        asks = f"The MCP server {self._connection.name} asks to use your model, which costs up to {self._max_tokens} tokens."
        whole = "\n".join(lines)
        more = len(whole) - _MAX_SHOWN
        text = plain(whole, _MAX_SHOWN) + (f" ({more} more characters)" if more > 0 else "")
        form = {"type": "object", "properties": {}}
        return Elicitation(mode="form", message=f"{asks}\n\n{text}", requested_schema=form, meta=_APPROVAL)

    async def _sampled(self, params: Mapping[str, Any], messages: Sequence[Message]) -> dict[str, Any]:
        caller = self._connection.caller
        thread: ThreadContext = self._connection.thread if caller is None else caller.turn.thread
        system = params.get("systemPrompt")
        agent: Agent[str] = Agent(
            name=f"sampling for {self._connection.name}",
            instructions=system if isinstance(system, str) and system else "Answer.",
            allowed_tools=(),
            context=(),
            limits=Limits(requests=1, tokens=self._max_tokens),
            ephemeral=True,
        )
        child = await thread.spawn(agent)
        try:
            earlier: Sequence[ResponseItem] = messages[:-1]
            if earlier:
                child.deliver(earlier)
            result = await child.run(_input(messages[-1]))
        finally:
            await child.shutdown()
        if result.final_message is None:
            raise ServerError(f"the model gave no answer: {result.error or result.status}")
        text, reason = _truncate_answer(result.final_message, params)
        content = {"type": "text", "text": text}
        return {"role": "assistant", "content": content, "model": thread.settings.model, "stopReason": reason}


def _messages(params: Mapping[str, Any]) -> list[Message]:
    """Return the messages of a request. The last one is the user's.

    Raises:
        ServerError: They are invalid.
    """
    given = params.get("messages")
    if not isinstance(given, list) or not given:
        raise ServerError("messages must be a list that is not empty", code=_INVALID_PARAMS)
    messages = [_message(one) for one in given]
    if messages[-1].role != "user":
        raise ServerError("the last message must have the role user", code=_INVALID_PARAMS)
    length = sum(len(getattr(part, "text", "")) for message in messages for part in message.content)
    if length > _MAX_CHARACTERS:
        raise ServerError(f"the messages are longer than {_MAX_CHARACTERS} characters", code=_INVALID_PARAMS)
    return messages


def _message(given: Any) -> Message:
    role = given.get("role") if isinstance(given, Mapping) else None
    if role not in ("user", "assistant"):
        raise ServerError("each message must have the role user or assistant", code=_INVALID_PARAMS)
    content = given.get("content")
    parts = content if isinstance(content, list) else [content]
    return Message(role, tuple(_part(part, role) for part in parts))


def _part(part: Any, role: str) -> InputText | OutputText | InputImage:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return InputText(part["text"]) if role == "user" else OutputText(part["text"])
    if isinstance(part, str):
        return InputText(part) if role == "user" else OutputText(part)
    if role == "user" and kind == "image" and not (image := read_image(part.get("data"), part.get("mimeType"))).problem:
        return InputImage(image.url)
    raise ServerError(
        "the content of messages must be text, or PNG, JPEG, GIF or WebP images of the user", code=_INVALID_PARAMS
    )


def _input(message: Message) -> list[UserInputItem]:
    return [
        ImageInput(part.image_url) if isinstance(part, InputImage) else TextInput(getattr(part, "text", ""))
        for part in message.content
    ]


def _message_text(message: Message) -> str:
    return "\n".join(
        "(an image)" if isinstance(part, InputImage) else getattr(part, "text", "") for part in message.content
    )


def _truncate_answer(text: str, params: Mapping[str, Any]) -> tuple[str, str]:
    """Return an answer up to the first stop sequence and within ``maxTokens``, and why it ends there."""
    reason = "endTurn"
    for word in params.get("stopSequences") or ():
        if isinstance(word, str) and word and word in text:
            text, reason = text[: text.index(word)], "stopSequence"
    limit = params.get("maxTokens")
    if isinstance(limit, (int, float)) and 0 < limit * _CHARACTERS_PER_TOKEN < len(text):
        return text[: int(limit * _CHARACTERS_PER_TOKEN)], "maxTokens"
    return text, reason
