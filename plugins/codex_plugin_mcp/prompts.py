"""Prompts of servers, as input of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import InputText, Message, OutputText, ThreadContext, Value
from codex_framework.contract.protocol.ops import ImageInput, TextInput, UserInputItem, UserInputOp
from codex_plugin_mcp.connection import Connection
from codex_plugin_mcp.errors import McpError, ServerError
from codex_plugin_mcp.images import read_image

__all__ = ["Prompt", "fetched", "submit"]

_MAX_CHARACTERS = 1_000_000
_MAX_MESSAGES = 200


class Prompt(Value):
    """The messages of a prompt.

    Attributes:
        earlier: The messages before the last ones of the user, which become a part of the conversation.
        input: The last messages of the user, which start the turn.
    """

    earlier: tuple[Message, ...]
    input: tuple[UserInputItem, ...]


async def fetched(connection: Connection, name: str, arguments: Mapping[str, str]) -> Prompt:
    """Get a prompt from its server.

    Raises:
        McpError: There is no connection, no such prompt, or its messages cannot be used.
    """
    answer = await connection.ask(lambda session, limit_s: session.get_prompt(name, arguments, timeout_s=limit_s))
    return read_prompt(answer)


async def submit(prompt: Prompt, thread: ThreadContext) -> str:
    """Start a turn with a prompt, or add it to the running turn. Returns the submission's id."""
    if prompt.earlier:
        thread.deliver(prompt.earlier)
    return await thread.submit(UserInputOp(prompt.input))


def read_prompt(answer: Mapping[str, Any]) -> Prompt:
    """Return the messages in the answer to ``prompts/get``.

    Raises:
        McpError: They cannot be used.
    """
    given = answer.get("messages")
    given = [given] if isinstance(given, Mapping) else given
    if not isinstance(given, list) or not given or len(given) > _MAX_MESSAGES:
        raise ServerError(f"its answer has no list of 1 to {_MAX_MESSAGES} messages")
    messages = [_message(one) for one in given]
    last = len(messages)
    while last and messages[last - 1][0] == "user":
        last -= 1
    if last == len(messages):
        raise ServerError("its last message is not the user's")
    items = tuple(item for _, parts in messages[last:] for item in parts)
    if sum(len(getattr(item, "text", "")) for item in items) > _MAX_CHARACTERS:
        raise McpError(f"it is longer than {_MAX_CHARACTERS} characters")
    return Prompt(tuple(_earlier(role, parts) for role, parts in messages[:last]), items)


def _message(given: Any) -> tuple[str, Sequence[UserInputItem]]:
    role = given.get("role") if isinstance(given, Mapping) else None
    if role not in ("user", "assistant"):
        raise ServerError("a message has neither the role user nor assistant")
    content = given.get("content")
    return role, [_item(part) for part in (content if isinstance(content, list) else [content])]


def _item(part: Any) -> UserInputItem:
    """Return one content: text and images unchanged, resources as text with their address."""
    if isinstance(part, str):
        return TextInput(part)
    part = part if isinstance(part, Mapping) else {}
    match part.get("type"):
        case "text" if isinstance(part.get("text"), str):
            return TextInput(part["text"])
        case "image":
            image = read_image(part.get("data"), part.get("mimeType"))
            if image.problem:
                raise ServerError(f"a message has an image that models cannot read: {image.problem}")
            return ImageInput(image.url)
        case "resource" if isinstance(part.get("resource"), Mapping):
            return _resource(part["resource"])
        case "resource_link":
            return TextInput(f"[resource {part.get('uri')}: {part.get('description') or part.get('name') or ''}]")
    raise ServerError(f"a message has content of the unsupported type {str(part.get('type'))[:80]!r}")


def _resource(resource: Mapping[str, Any]) -> UserInputItem:
    text = resource.get("text")
    if isinstance(text, str):
        return TextInput(f"[resource {resource.get('uri')}]\n{text}")
    image = read_image(resource.get("blob"), resource.get("mimeType"))
    if not image.problem:
        return ImageInput(image.url)
    return TextInput(f"[resource {resource.get('uri')}: binary content left out]")


def _earlier(role: str, parts: Sequence[UserInputItem]) -> Message:
    texts = [part.text if isinstance(part, TextInput) else "(an image)" for part in parts]
    return Message(role, tuple(InputText(text) if role == "user" else OutputText(text) for text in texts))
