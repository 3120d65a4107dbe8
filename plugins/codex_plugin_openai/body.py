"""Request bodies for the Responses API, built around a history that is already encoded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import FreeformSpec, FunctionSpec, ModelRequest, NativeSpec, ToolSpec
from codex_framework.contract.protocol.items import ResponseItem
from codex_lib_model_client.tool_schemas import normalised_schema
from codex_plugin_openai.sendable import SendableItems

__all__ = ["NOT_METADATA", "BodyWriter", "tool_groups"]

NOT_METADATA = frozenset({"originator", "terminal"})
"""Keys of ``ModelRequest.metadata`` that go into the user agent instead of ``client_metadata``."""


class BodyWriter:
    """A writer of request bodies. Instructions and tools are encoded again only when they change.

    Args:
        store: Whether the server keeps the response (wire: ``store``). Only Azure needs this.

    Attributes:
        short_ids: The models that take only ids of calls with nine letters and digits.
    """

    def __init__(self, *, store: bool = False) -> None:
        self._store = store
        self._tools: tuple[ToolSpec, ...] | None = None
        self._grouped = False
        self._tools_json = b"[]"
        self._lite_tools: tuple[ToolSpec, ...] | None = None
        self._lite_json = b""
        self._instructions = ""
        self._instructions_json = b""
        self._items = SendableItems(store=store)
        self.short_ids: set[str] = set()

    def body(self, request: ModelRequest) -> bytes:
        """Return the body of a request, encoded as UTF-8."""
        head, first, tail = self._pieces(request)
        items = _prepend_items(first, self._encoded_items(request))
        return b"".join((b"{", head, b',"input":', items, tail, self._metadata(request, {}), b"}"))

    def shape(self, request: ModelRequest) -> bytes:
        """Return everything in a request but the history and the metadata."""
        return b"".join(self._pieces(request))

    def message(
        self,
        request: ModelRequest,
        previous: str,
        added: Sequence[ResponseItem] | None,
        metadata: Mapping[str, str],
        *,
        generate: bool = True,
    ) -> bytes:
        """Return a request as a message for a WebSocket.

        Args:
            previous: The id of the response that the server has. Empty means none.
            added: The items since then. None if all items are sent.
            metadata: Added to the request's metadata.
            generate: Whether the model answers. Otherwise the server only prepares for requests that continue this one.
        """
        head, first, tail = self._pieces(request)
        reference = b',"previous_response_id":' + _json(previous) if previous else b""
        if added is None:
            items = _prepend_items(first, self._encoded_items(request))
        else:
            items = self._items.alone(added, images=request.model.supports_images)
        beginning = b'{"type":"response.create",' if generate else b'{"type":"response.create","generate":false,'
        return b"".join(
            (beginning, head, reference, b',"input":', items, tail, self._metadata(request, metadata), b"}")
        )

    def _encoded_items(self, request: ModelRequest) -> bytes:
        model = request.model
        return self._items.encoded(request.prompt, images=model.supports_images, short_ids=model.slug in self.short_ids)

    def _pieces(self, request: ModelRequest) -> tuple[bytes, bytes, bytes]:
        """Return the JSON before the input, the input items before the history, and the JSON after the input."""
        model, settings = b'"model":' + _json(request.model.slug), _json(self._settings(request))[1:-1]
        if request.model.lite:
            return model, self._lite_items(request), b"," + settings
        is_new = request.tools is not self._tools and request.tools != self._tools
        if is_new or request.model.namespaces != self._grouped:
            self._tools, self._grouped = request.tools, request.model.namespaces
            self._tools_json = _json(_encode_tools(request))
        if request.instructions != self._instructions:
            self._instructions = request.instructions
            self._instructions_json = b',"instructions":' + _json(request.instructions) if request.instructions else b""
        return model + self._instructions_json, b"", b"".join((b',"tools":', self._tools_json, b",", settings))

    def _lite_items(self, request: ModelRequest) -> bytes:
        """Return the first items in the shorter form, in which tools and instructions are items of the input."""
        if request.tools is not self._lite_tools and request.tools != self._lite_tools:
            self._lite_tools = request.tools
            self._lite_json = _json({"type": "additional_tools", "role": "developer", "tools": _encode_tools(request)})
        if not request.instructions:
            return self._lite_json
        text = {"type": "input_text", "text": request.instructions}
        return self._lite_json + b"," + _json({"type": "message", "role": "developer", "content": [text]})

    def _metadata(self, request: ModelRequest, more: Mapping[str, str]) -> bytes:
        metadata = {key: value for key, value in request.metadata.items() if key not in NOT_METADATA}
        metadata.update(more)
        return b',"client_metadata":' + _json(metadata) if metadata else b""

    def _settings(self, request: ModelRequest) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "tool_choice": "auto",
            "parallel_tool_calls": request.parallel_tool_calls,
            "store": self._store,
            "stream": True,
            "include": ["reasoning.encrypted_content"] if request.model.reasoning else [],
            "prompt_cache_key": request.cache_key,
        }
        if request.model.reasoning:
            settings["reasoning"] = _reasoning(request)
            if request.model.lite:
                settings["reasoning"]["context"] = "all_turns"
        if request.service_tier:
            settings["service_tier"] = request.service_tier
        if text := _text(request):
            settings["text"] = text
        return settings


def _prepend_items(first: bytes, items: bytes) -> bytes:
    """Return a JSON array with other items before its own."""
    if not first:
        return items
    return b"".join((b"[", first, b"" if items == b"[]" else b",", items[1:]))


def _reasoning(request: ModelRequest) -> dict[str, str]:
    reasoning: dict[str, str] = {}
    if effort := request.reasoning_effort or request.model.default_effort:
        reasoning["effort"] = effort
    summary = request.reasoning_summary or request.model.default_summary
    if summary and summary != "none":
        reasoning["summary"] = summary
    return reasoning


def _text(request: ModelRequest) -> dict[str, Any]:
    text: dict[str, Any] = {}
    if verbosity := request.verbosity or request.model.verbosity:
        text["verbosity"] = verbosity
    if request.output_schema is not None:
        text["format"] = {
            "type": "json_schema",
            "strict": True,
            "schema": request.output_schema,
            "name": "codex_output_schema",
        }
    return text


def tool_groups(request: ModelRequest) -> list[list[ToolSpec]]:
    """Return the tools of a request in the order of its body, with grouped tools adjacent.

    The shorter form also has a group for the tools without a namespace, before all others. Tools of the server stay ungrouped.
    """
    own: list[ToolSpec] = []
    groups: dict[str | int, list[ToolSpec]] = {}
    for number, spec in enumerate(request.tools):
        if isinstance(spec, FunctionSpec) and spec.namespace is not None and _has_groups(request):
            groups.setdefault(spec.namespace.name, []).append(spec)
        elif request.model.lite and not isinstance(spec, NativeSpec):
            own.append(spec)
        else:
            groups[number] = [spec]
    return [*([own] if own else []), *groups.values()]


def _has_groups(request: ModelRequest) -> bool:
    return request.model.lite or request.model.namespaces


def _encode_tools(request: ModelRequest) -> list[dict[str, Any]]:
    if not _has_groups(request):
        return [_tool(spec) for spec in request.tools]
    return [_group(group, request) for group in tool_groups(request)]


def _group(specs: Sequence[ToolSpec], request: ModelRequest) -> dict[str, Any]:
    first = specs[0]
    if isinstance(first, FunctionSpec) and first.namespace is not None:
        name, description = first.namespace.name, first.namespace.description
        tools = [{**_tool(spec), "name": spec.local_name} for spec in specs if isinstance(spec, FunctionSpec)]
    elif request.model.lite and not isinstance(first, NativeSpec):
        name, description, tools = "functions", "", [_tool(spec) for spec in specs]
    else:
        return _tool(first)
    return {"type": "namespace", "name": name, "description": description, "tools": tools}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    match spec:
        case FunctionSpec(name=name, description=description, parameters=parameters, strict=strict):
            schema, note = normalised_schema(parameters)
            described = f"{description}\n\n{note}".strip() if note else description
            return {"type": "function", "name": name, "description": described, "strict": strict, "parameters": schema}
        case FreeformSpec(name=name, description=description, format=form):
            grammar = {"type": "grammar", "syntax": form.syntax, "definition": form.definition}
            return {"type": "custom", "name": name, "description": description, "format": grammar}
        case NativeSpec(type=kind, options=options):
            return {"type": kind, **options}


def _json(value: Any) -> bytes:
    return _ENCODER.encode(value).encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    """Convert a mapping that ``json`` cannot encode to a ``dict``."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)
