"""The arguments that tools share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import Agent, ToolContext, ToolError
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode
from codex_framework.contract.protocol.ops import (
    MAX_USER_INPUT_TEXT_CHARS,
    ImageInput,
    MentionInput,
    TextInput,
    UserInputItem,
)
from codex_framework.toolkit.model_catalogue import bundled_models, known_model

__all__ = ["agent_for", "check_fork", "check_text", "read_input"]

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
"""The reasoning efforts of a model whose own ones are unknown."""

_MAX_ITEMS = 100


def read_input(given: Mapping[str, Any], access: FileAccess) -> tuple[Sequence[UserInputItem], str]:
    """Return the input of a call, and its text for clients.

    Args:
        access: The permissions of the calling thread. The model's server fetches the images of addresses, so these need the
            network: an address can carry anything that the thread has read.

    Raises:
        ToolError: The input is missing or cannot be used. The texts are Codex's, if any.
    """
    message, items = given.get("message"), given.get("items")
    if message is not None and items is not None:
        raise ToolError("Provide either message or items, but not both")
    if items is None:
        if message is None:
            raise ToolError("Provide one of: message or items")
        return [TextInput(check_text(message))], message
    if not items:
        raise ToolError("Items can't be empty")
    if len(items) > _MAX_ITEMS:
        raise ToolError(f"at most {_MAX_ITEMS} items can be sent at once")
    online = access.network is NetworkMode.ON
    found = [_item(item, online=online) for item in items]
    return found, "\n".join(item.text if isinstance(item, TextInput) else f"[{item.type}]" for item in found)


def check_text(text: str) -> str:
    """Return the text of a message. Raises ToolError if it is empty or too long."""
    if not text.strip():
        raise ToolError("Empty message can't be sent to an agent")
    if len(text) > MAX_USER_INPUT_TEXT_CHARS:
        raise ToolError(f"the message has {len(text)} characters; at most {MAX_USER_INPUT_TEXT_CHARS} are allowed")
    return text


def _item(item: Mapping[str, Any], *, online: bool) -> TextInput | ImageInput | MentionInput:
    """Return an input item. Files are not read for a model here: an agent reads them with its own tools and permissions."""
    match item:
        case {"type": "text", "text": str(text)}:
            return TextInput(check_text(text))
        case {"type": "image", "image_url": str(url)} if url.startswith("data:image/"):
            return ImageInput(url)
        case {"type": "image", "image_url": str(url)} if url.startswith("https://"):
            if not online:
                raise ToolError(
                    "the address of an image cannot be sent without network access: send the image itself as a data: URL"
                )
            return ImageInput(url)
        case {"type": "mention", "name": str(name), "path": str(path)}:
            return MentionInput(name, path)
        case _:
            kind = str(item.get("type"))[:80]
            raise ToolError(
                f"an item of the type {kind!r} is incomplete or not available: use text (text), image (image_url: https: or"
                " data:) or mention (name, path). Name files in the text."
            )


def check_fork(given: Mapping[str, Any]) -> None:
    """Check that an agent that starts with the whole conversation has the type of its starter, as in Codex.

    Raises:
        ToolError: It asks for another type.
    """
    if given.get("agent_type") is not None:
        raise ToolError(
            "Full-history forked agents inherit the parent agent type; omit agent_type, or spawn without a full-history fork."
        )


def agent_for(agent: Agent[Any], given: Mapping[str, Any], context: ToolContext) -> Agent[Any]:
    """Return an agent with the model and effort of its type, else of the call, else of ``agents.default_subagent_*``.

    Raises:
        ToolError: The model or the effort is unknown.
    """
    model, effort = given.get("model"), given.get("reasoning_effort")
    own = context.model.slug
    if model is not None:
        models = _models(context.config, own)
        if model not in models:
            raise ToolError(f"Unknown model `{model[:80]}` for spawn_agent. Available models: {', '.join(models)}")
    chosen = context.model if model in (None, own) else known_model(model)
    efforts = (chosen.efforts if chosen is not None else ()) or _EFFORTS
    if effort is not None and effort not in efforts:
        raise ToolError(
            f"Reasoning effort `{effort[:80]}` is not supported for model `{model or own}`."
            f" Supported reasoning efforts: {', '.join(efforts)}"
        )
    defaults = _agents_table(context.config)
    return agent.evolve(
        model=agent.model or model or defaults.get("default_subagent_model"),
        reasoning_effort=agent.reasoning_effort or effort or defaults.get("default_subagent_reasoning_effort"),
    )


def _agents_table(config: Mapping[str, Any]) -> Mapping[str, Any]:
    agents = config.get("agents")
    return agents if isinstance(agents, Mapping) else {}


def _models(config: Mapping[str, Any], own: str) -> Sequence[str]:
    """Return the models that an agent may be started with: the thread's model, the configured models, and the known ones."""
    agents = _agents_table(config)
    named = [config.get("model"), agents.get("default_subagent_model")]
    named += [table.get("model") for table in agents.values() if isinstance(table, Mapping)]
    bundled = (model.slug for model in bundled_models() if not model.hidden)
    return list(dict.fromkeys((own, *(name for name in named if isinstance(name, str)), *bundled)))
