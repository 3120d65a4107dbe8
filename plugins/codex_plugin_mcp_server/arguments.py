"""The tools ``codex`` and ``codex-reply``: their schemas, and the interpretation of a client's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework import ApprovalPolicy, ToolError, Value
from codex_framework.toolkit.suggestions import did_you_mean

__all__ = ["OUTPUT_SCHEMA", "REPLY", "START", "Reply", "Start", "read_reply", "read_start"]

START, REPLY = "codex", "codex-reply"

_SANDBOXES = ("read-only", "workspace-write", "danger-full-access")


def _text(description: str, **more: Any) -> Mapping[str, Any]:
    return {"type": "string", "description": description, **more}


def _schema(properties: Mapping[str, Any], *required: str) -> Mapping[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


START_SCHEMA = _schema(
    {
        "prompt": _text("The first user message of the conversation."),
        "model": _text("The model (default: the configured one)."),
        "cwd": _text("The working folder. A relative path starts at the server's folder, which is the default."),
        "approval-policy": _text(
            "When to ask for approval of commands.", enum=[policy.value for policy in ApprovalPolicy]
        ),
        "sandbox": _text("The permissions of commands that run without approval.", enum=list(_SANDBOXES)),
        "config": {
            "type": "object",
            "description": "Keys of config.toml to set for this conversation. Keys may be dotted.",
            "additionalProperties": True,
        },
        "base-instructions": _text("The instructions to use instead of the default ones."),
        "developer-instructions": _text("Instructions to add, as a developer message."),
        "compact-prompt": _text("The prompt for summaries of a long conversation."),
    },
    "prompt",
)

REPLY_SCHEMA = _schema(
    {
        "prompt": _text("The next user message of the conversation."),
        "threadId": _text("The id of the conversation, from the result of an earlier call."),
        "conversationId": _text("Deprecated: use threadId.", deprecated=True),
    },
    "prompt",
)

OUTPUT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"threadId": {"type": "string"}, "content": {"type": "string"}},
    "required": ["threadId", "content"],
}


class Start(Value, kw_only=True):
    """A call of ``codex``.

    Attributes:
        settings: Keyword arguments of ``Kernel.start_thread``, without ``config``.
        config: Keys of the configuration.
    """

    prompt: str
    settings: Mapping[str, Any]
    config: Mapping[str, Any]


class Reply(Value):
    """A call of ``codex-reply``."""

    prompt: str
    thread_id: str


def read_start(arguments: Mapping[str, Any]) -> Start:
    """Read the arguments of ``codex``.

    Raises:
        ToolError: A field is unknown, missing or of the wrong type, or the folder does not exist.
    """
    given = _check_arguments(START, START_SCHEMA, arguments)
    settings = {name: given[field] for field, name in _SETTINGS.items() if field in given}
    if "cwd" in settings:
        settings["cwd"] = _folder(settings["cwd"])
    config = {key: value for key, value in given.get("config", {}).items() if value is not None}
    config.update({name: given[field] for field, name in _CONFIG.items() if field in given})
    return Start(prompt=given["prompt"], settings=settings, config=config)


_SETTINGS = {
    "model": "model",
    "cwd": "cwd",
    "approval-policy": "approval_policy",
    "base-instructions": "base_instructions",
}
_CONFIG = {
    "sandbox": "sandbox_mode",
    "developer-instructions": "developer_instructions",
    "compact-prompt": "compact_prompt",
}


def read_reply(arguments: Mapping[str, Any]) -> Reply:
    """Read the arguments of ``codex-reply``.

    Raises:
        ToolError: A field is unknown, missing or of the wrong type, or the id is no UUID.
    """
    from uuid import UUID

    given = _check_arguments(REPLY, REPLY_SCHEMA, arguments)
    thread_id = given.get("threadId", given.get("conversationId"))
    if thread_id is None:
        raise ToolError(f"{REPLY}: the field threadId is missing")
    try:
        return Reply(given["prompt"], str(UUID(thread_id)))
    except ValueError:
        raise ToolError(f"{REPLY}: threadId is {thread_id!r:.80}, which is no id of a conversation") from None


def _check_arguments(tool: str, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without nulls."""
    known = schema["properties"]
    for name in arguments:
        if name not in known:
            hint = did_you_mean(name, known) or f"The fields are {', '.join(known)}."
            raise ToolError(f"{tool}: unknown field {name!r}. {hint.strip()}")
    given = {name: value for name, value in arguments.items() if value is not None}
    for name in schema["required"]:
        if name not in given:
            raise ToolError(f"{tool}: the field {name} is missing")
    for name, value in given.items():
        _check(tool, name, value, known[name])
    return given


def _check(tool: str, name: str, value: object, schema: Mapping[str, Any]) -> None:
    kind, words = (str, "text") if schema["type"] == "string" else (Mapping, "an object")
    if not isinstance(value, kind):
        raise ToolError(f"{tool}: {name} must be {words}")
    choices = schema.get("enum")
    if choices and value not in choices:
        raise ToolError(f"{tool}: {name} is {value!r:.80}, not one of {', '.join(choices)}")


def _folder(text: str) -> Path:
    folder = Path.cwd() / text
    if not folder.is_dir():
        raise ToolError(f"{START}: cwd is {text!r}, which is no folder")
    return folder
