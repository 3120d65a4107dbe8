"""Request bodies, built around messages that are already encoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework import ModelRequest
from codex_framework.contract.roles.models import LeftOut
from codex_lib_model_client.functions import Projection
from codex_lib_model_client.message_texts import utf8
from codex_plugin_chat.conversation import Conversation, Conversations
from codex_plugin_chat.messages import Style
from codex_plugin_chat.options import ChatOptions

__all__ = ["BodyWriter"]


class BodyWriter:
    """A writer of request bodies. Messages are encoded once, and tools again only when they change.

    Args:
        is_openai: Whether the server is OpenAI's own, which has fields that others refuse.

    Attributes:
        short_ids: The models that take only ids of calls with nine letters and digits.
    """

    def __init__(self, options: ChatOptions, *, is_openai: bool) -> None:
        self._options = options
        self._is_openai = is_openai
        self.short_ids: set[str] = set()
        self._conversations = Conversations()
        self._projection = Projection(())
        self._tools_json = b""

    def body(self, request: ModelRequest) -> bytes:
        """Return the body of a request, encoded as UTF-8."""
        conversation = self._conversation(request)
        style = conversation.style
        lead, messages = conversation.messages(request.prompt.items)
        if text := "\n\n".join(part for part in (request.instructions, lead) if part):
            role = "developer" if style.developer_role == "developer" else "system"
            messages.insert(0, utf8({"role": role, "content": text}))
        projection = self.projection(request)
        return b"".join(
            (
                b'{"model":',
                utf8(request.model.slug),
                b',"messages":[',
                b",".join(messages),
                b"]",
                self._tools_json if projection.functions else b"",
                b",",
                utf8(self._settings(request, has_tools=bool(projection.functions)))[1:],
            )
        )

    def losses(self, request: ModelRequest) -> list[LeftOut]:
        """Return the omissions of a request that earlier requests of its thread have not reported."""
        return self._conversation(request).losses.new(request.prompt.items)

    def _conversation(self, request: ModelRequest) -> Conversation:
        style = Style(
            images=request.model.supports_images,
            developer_role=self._options.developer_role,
            send_reasoning=self._options.send_reasoning,
            short_ids=request.model.slug in self.short_ids,
        )
        return self._conversations.of(request.thread_id, style)

    def projection(self, request: ModelRequest) -> Projection:
        """Return the tools of a request as functions."""
        if request.tools is not self._projection.specs and request.tools != self._projection.specs:
            self._projection = Projection(request.tools)
            functions = [{"type": "function", "function": function} for function in self._projection.functions]
            self._tools_json = b',"tools":' + utf8(functions)
        return self._projection

    def _settings(self, request: ModelRequest, *, has_tools: bool) -> dict[str, Any]:
        settings: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
        if has_tools:
            settings["tool_choice"] = "auto"
            if not request.parallel_tool_calls:  # the default is true, and some models refuse the field
                settings["parallel_tool_calls"] = False
        if request.model.reasoning and (effort := request.reasoning_effort or request.model.default_effort):
            settings["reasoning_effort"] = effort
        if verbosity := request.verbosity or request.model.verbosity:
            settings["verbosity"] = verbosity
        if request.service_tier:
            settings["service_tier"] = request.service_tier
        if request.output_schema is not None:
            settings["response_format"] = _response_format(request.output_schema)
        if self._is_openai:
            settings["prompt_cache_key"] = request.cache_key
        settings.update(self._options.request_fields)
        return {key: value for key, value in settings.items() if key not in self._options.omit_fields}


def _response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {"name": "codex_output_schema", "schema": schema, "strict": True},
    }
