"""A one-file plugin with the tools that the conformance suite asks a server for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from codex_framework import (
    FunctionSpec,
    InputImage,
    InputText,
    Request,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    Value,
    hookimpl,
    tool,
)
from codex_framework.contract.protocol.events import BackgroundEvent
from codex_framework.contract.protocol.items import UnknownContent

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="


class FormAnswer(Value):
    """What the client's user did with a form."""

    action: str
    content: Mapping[str, Any] | None = None


class FormRequest(Request[FormAnswer], kw_only=True):
    """A form for the client's user."""

    type: ClassVar[Literal["suite_form"]] = "suite_form"
    answer_type = FormAnswer
    message: str
    requested_schema: Mapping[str, Any]

    def unattended(self) -> FormAnswer:
        return FormAnswer("cancel")


async def ask(context: ToolContext, message: str, properties: Mapping[str, Any], *required: str) -> str:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    answer = await context.request(FormRequest(message=message, requested_schema=schema))
    return f"User response: action={answer.action}, content={dict(answer.content or {})}"


@tool
def test_simple_text() -> str:
    """Return text."""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> ToolOutput:
    """Return an image."""
    return ToolOutput((InputImage(f"data:image/png;base64,{PIXEL}"),))


@tool
def test_audio_content() -> ToolOutput:
    """Return a sound."""
    return ToolOutput((UnknownContent({"type": "audio", "data": SOUND, "mimeType": "audio/wav"}),))


def resource(uri: str, mime_type: str, text: str) -> UnknownContent:
    return UnknownContent({"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}})


@tool
def test_embedded_resource() -> ToolOutput:
    """Return a resource."""
    return ToolOutput((resource("test://embedded-resource", "text/plain", "This is an embedded resource content."),))


@tool
def test_multiple_content_types() -> ToolOutput:
    """Return text, an image and a resource."""
    data = resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return ToolOutput((InputText("Multiple content types test:"), InputImage(f"data:image/png;base64,{PIXEL}"), data))


@tool
async def test_tool_with_logging(context: ToolContext) -> str:
    """Send messages for the log."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        context.emit(BackgroundEvent(text))
        await asyncio.sleep(0.05)
    return "logged"


@tool
def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
async def test_tool_with_progress(context: ToolContext) -> str:
    """Report progress."""
    for done in (0.0, 0.5, 1.0):
        context.progress(f"{done:.0%}", done=done)
        await asyncio.sleep(0.05)
    return "done"


@tool
async def test_elicitation(message: str, context: ToolContext) -> str:
    """Ask the user."""
    fields = {name: {"type": "string", "description": f"User's {name}"} for name in ("username", "email")}
    return await ask(context, message, fields, "username", "email")


@tool
async def test_elicitation_sep1034_defaults(context: ToolContext) -> str:
    """Ask with defaults."""
    fields = {
        "name": {"type": "string", "description": "User name", "default": "John Doe"},
        "age": {"type": "integer", "description": "User age", "default": 30},
        "score": {"type": "number", "description": "User score", "default": 95.5},
        "status": {
            "type": "string",
            "description": "User status",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "description": "Verification status", "default": True},
    }
    return await ask(context, "Please review and update the form fields with defaults", fields)


TITLED = [
    {"const": f"value{number}", "title": f"{name} Option"}
    for number, name in enumerate(("First", "Second", "Third"), 1)
]
OPTIONS = ["option1", "option2", "option3"]


@tool
async def test_elicitation_sep1330_enums(context: ToolContext) -> str:
    """Ask with all kinds of enums."""
    fields = {
        "untitledSingle": {"type": "string", "description": "Select one option", "enum": OPTIONS},
        "titledSingle": {"type": "string", "description": "Select one option with titles", "oneOf": TITLED},
        "legacyEnum": {
            "type": "string",
            "description": "Select one option (legacy)",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "description": "Select multiple options",
            "minItems": 1,
            "maxItems": 3,
            "items": {"type": "string", "enum": OPTIONS},
        },
        "titledMulti": {
            "type": "array",
            "description": "Select multiple options with titles",
            "minItems": 1,
            "maxItems": 3,
            "items": {"anyOf": TITLED},
        },
    }
    return await ask(context, "Please select options from the enum fields", fields)


class Schema2020(Tool):
    """A tool whose schema uses words of the draft 2020-12."""

    spec = FunctionSpec(
        "json_schema_2020_12_tool",
        "Tool with JSON Schema 2020-12 features",
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
            },
            "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
            "additionalProperties": False,
        },
    )

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        return call.arguments


@hookimpl
def codex_tools() -> list[Any]:
    return [
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
        test_tool_with_logging,
        test_error_handling,
        test_tool_with_progress,
        test_elicitation,
        test_elicitation_sep1034_defaults,
        test_elicitation_sep1330_enums,
        Schema2020(),
    ]
