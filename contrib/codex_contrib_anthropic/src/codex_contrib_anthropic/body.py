"""Request bodies, built around messages that are already encoded."""

from __future__ import annotations

from typing import Any

from codex_contrib_anthropic.album import Limits
from codex_contrib_anthropic.catalogue import Abilities, abilities
from codex_contrib_anthropic.conversation import Conversation, Conversations
from codex_contrib_anthropic.options import MessagesOptions
from codex_contrib_anthropic.search_tool import search_tool
from codex_contrib_anthropic.tools import RequestTools
from codex_framework import ModelRequest
from codex_framework.contract.roles.models import LeftOut
from codex_lib_model_client.message_texts import utf8

__all__ = ["BodyWriter"]

_MOST_TOKENS = 32_000
"""The longest response that is asked for, in tokens: it counts as used in the context window while the request is checked."""

_MOST_OF_LARGE = 64_000
"""The same for models with a large window. Their thoughts, which may be long, are a part of the response."""

_BUDGETS = {"minimal": 1_024, "low": 4_096, "medium": 10_000, "high": 20_000}
"""Tokens of thinking for a reasoning effort."""

_LARGEST_BUDGET = 24_000
_HIGHER = ("xhigh", "max", "ultra")

_LEAST_BUDGET = 1_024
_SMALL_WINDOW = 200_000


class BodyWriter:
    """A writer of request bodies. Messages are encoded once, and tools again only when they change."""

    def __init__(self, options: MessagesOptions) -> None:
        self._options = options
        self._conversations = Conversations()
        self._projection = RequestTools(())
        self._functions: list[bytes] = []
        self._mark = {
            "5m": b',"cache_control":{"type":"ephemeral"}',
            "1h": b',"cache_control":{"type":"ephemeral","ttl":"1h"}',
        }.get(options.cache, b"")

    def body(self, request: ModelRequest) -> bytes:
        """Return the body of a request, encoded as UTF-8."""
        able = abilities(request.model.slug)
        tools, has_search = self._tools(request, able)
        conversation = self._conversation(request).messages(request.prompt.items, has_search=has_search)
        settings = self._settings(request, able, has_tools=bool(tools), may_begin=conversation.may_begin)
        if conversation.container is not None:
            settings["container"] = conversation.container
        return b"".join(
            (
                b'{"model":',
                utf8(request.model.slug),
                tools,
                self._system(request, able, conversation.lead),
                b',"messages":',
                *conversation.parts,
                b",",
                utf8(settings)[1:],
            )
        )

    def losses(self, request: ModelRequest) -> list[LeftOut]:
        """Return the omissions of a request that earlier requests of its thread have not reported."""
        _, reason = search_tool(request.tools, abilities(request.model.slug), self._options)
        return [
            *([LeftOut("hosted tools", 1, reason)] if reason else ()),
            *self._conversation(request).losses(request.prompt.items),
        ]

    def leave_out_thoughts(self, request: ModelRequest) -> int:
        """Leave out the thoughts in a request's history from now on. Returns how many of them there were."""
        return self._conversation(request).without_thoughts(request.prompt.items)

    def leave_out_server_blocks(self, request: ModelRequest) -> int:
        """Leave out the earlier work of the server's tools from now on. Return how many calls and cited texts this affects."""
        return self._conversation(request).without_server_blocks(request.prompt.items)

    def searches(self, request: ModelRequest) -> bool:
        """Return whether a request has the server's search of the web."""
        return search_tool(request.tools, abilities(request.model.slug), self._options)[0] is not None

    def _conversation(self, request: ModelRequest) -> Conversation:
        limits = None
        if request.model.supports_images:
            count = abilities(request.model.slug).images
            limits = Limits(self._options.max_image_bytes, self._options.max_request_bytes * 3 // 4, count)
        return self._conversations.of(request.thread_id, self._mark, limits)

    def projection(self, request: ModelRequest) -> RequestTools:
        """Return the tools of a request as functions."""
        searches, links = self.searches(request), request.output_schema is None
        known = self._projection
        if (known.searches, known.links) != (searches, links) or known.specs != request.tools:
            self._projection = RequestTools(request.tools, searches=searches, links=links)
            self._functions = [utf8(tool) for tool in self._projection.declared]
        return self._projection

    def _tools(self, request: ModelRequest, able: Abilities) -> tuple[bytes, bool]:
        """Return the field ``tools``, if there are tools, and whether they include the server's search."""
        self.projection(request)
        search, _ = search_tool(request.tools, able, self._options)
        tools = [*self._functions, *([] if search is None else [utf8(search)])]
        if not tools:
            return b"", False
        tools[-1] = tools[-1][:-1] + self._mark + b"}"
        return b',"tools":[' + b",".join(tools) + b"]", search is not None

    def _system(self, request: ModelRequest, able: Abilities, lead: str) -> bytes:
        texts = [request.instructions, lead]
        if request.output_schema is not None and not able.structured:
            schema = utf8(request.output_schema).decode()
            texts.append(
                f"Your final answer must be only JSON, without a code fence, that follows this schema:\n{schema}"
            )
        blocks = [utf8({"type": "text", "text": text}) for text in texts if text.strip()]
        if not blocks:
            return b""
        blocks[-1] = blocks[-1][:-1] + self._mark + b"}"
        return b',"system":[' + b",".join(blocks) + b"]"

    def _settings(self, request: ModelRequest, able: Abilities, *, has_tools: bool, may_begin: bool) -> dict[str, Any]:
        settings: dict[str, Any] = {"stream": True, "max_tokens": self._max_tokens(able)}
        if has_tools:
            settings["tool_choice"] = {
                "type": "auto",
                **({} if request.parallel_tool_calls else {"disable_parallel_tool_use": True}),
            }
        output: dict[str, Any] = {}
        thinking = self._thinking(request, able, settings["max_tokens"])
        if thinking is not None and (may_begin or thinking["type"] != "enabled"):
            settings["thinking"] = thinking
            if thinking["type"] == "adaptive" and (effort := self._effort(request, able)):
                output["effort"] = effort
        if request.output_schema is not None and able.structured:
            output["format"] = {"type": "json_schema", "schema": request.output_schema}
        if output:
            settings["output_config"] = output
        settings.update(self._options.request_fields)
        return {key: value for key, value in settings.items() if key not in self._options.omit_fields}

    def _max_tokens(self, able: Abilities) -> int:
        most = _MOST_OF_LARGE if able.window > _SMALL_WINDOW else _MOST_TOKENS
        return self._options.max_tokens or min(able.max_tokens, most)

    def _thinking(self, request: ModelRequest, able: Abilities, max_tokens: int) -> dict[str, Any] | None:
        kind = self._kind(request, able)
        if kind == "none":
            return {"type": able.off} if able.off in ("disabled", "between_tools") else None
        if kind == "adaptive":
            return {"type": "adaptive", **({"display": "summarized"} if able.shows_thinking else {})}
        effort = request.reasoning_effort or request.model.default_effort
        usual = _LARGEST_BUDGET if effort in _HIGHER else _BUDGETS.get(effort or "medium", _BUDGETS["medium"])
        budget = self._options.thinking_budget or usual
        budget = min(budget, max_tokens * 3 // 4)  # the answer needs room as well
        return {"type": "enabled", "budget_tokens": budget} if budget >= _LEAST_BUDGET else None

    def _kind(self, request: ModelRequest, able: Abilities) -> str:
        kind = able.thinking if self._options.thinking == "auto" else self._options.thinking
        if (request.reasoning_effort or request.model.default_effort) == "none":
            kind = "none"
        return "adaptive" if kind == "none" and able.off == "never" else kind

    def _effort(self, request: ModelRequest, able: Abilities) -> str | None:
        wanted = request.reasoning_effort or request.model.default_effort
        if wanted == "none" or self._options.thinking == "none":
            wanted = "low"  # of a model that always thinks
        return able.effort(wanted)
