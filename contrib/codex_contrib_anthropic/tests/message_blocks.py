"""Content blocks of the API, responses made of them, and the rules that the API has for conversations."""

from __future__ import annotations

import itertools
import json
from typing import Any

from codex_framework import FunctionSpec, ModelInfo, NativeSpec
from codex_framework.contract.protocol.items import UnknownItem
from codex_framework.testing import model_request, say

SEARCH = NativeSpec("web_search", "web_search", {"external_web_access": True})
LOOK = FunctionSpec("look", "Looks.", {"type": "object", "properties": {}})
SONNET = ModelInfo(slug="claude-sonnet-5", default_effort=None)
SOURCE = {
    "type": "web_search_result_location",
    "url": "https://a.org/x(1)",
    "title": "All about [rain]",
    "encrypted_index": "index-1",
    "cited_text": "It rains.",
}
LINK = " ([All about (rain)](https://a.org/x%281%29))"


def use(call_id="srvtoolu_1", query="rain", name="web_search", **more):
    return {"type": "server_tool_use", "id": call_id, "name": name, "input": {"query": query}, **more}


def found(call_id="srvtoolu_1", **more):
    page = {"type": "web_search_result", "url": "https://a.org/x(1)", "title": "Rain", "page_age": None}
    results = [{**page, "encrypted_content": f"sealed-{call_id}"}]
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": results, **more}


def failed(call_id="srvtoolu_1", code="too_many_requests"):
    error = {"type": "web_search_tool_result_error", "error_code": code}
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": error}


def text(words, *sources):
    return {"type": "text", "text": words, **({"citations": list(sources)} if sources else {})}


def thinking(words, signature="sig"):
    return {"type": "thinking", "thinking": words, "signature": signature}


def call(call_id="toolu_1"):
    return {"type": "tool_use", "id": call_id, "name": "look", "input": {}}


def after(ask, items, *more, table=None, **changes):
    """Return the body of a request with these items, and the outcome."""
    settings = {"model": SONNET, "tools": (LOOK, SEARCH), **changes}
    outcome = ask([say("Yes.")], model_request(*items, *more, **settings), **(table or {}))
    return outcome.bodies[0], outcome


def kinds(outcome):
    return [item.kind if isinstance(item, UnknownItem) else type(item).__name__ for item in outcome.items]


def searched(hear, reason, *blocks, **more):
    return hear(*response(1, reason, *blocks, **more), model=SONNET, tools=(LOOK, SEARCH))


CITED = [
    text("I'll look."),
    use(),
    found(),
    thinking("Well."),
    text("So: "),
    text("it rains", SOURCE, SOURCE),
    text(", and it pours", {**SOURCE, "title": None, "url": "https://b.org/y"}),
    text("."),
]
SHOWN = f"So: it rains{LINK}, and it pours ([b.org](https://b.org/y))."


def response(number: int, reason: str, *blocks: dict[str, Any], container: str | None = None) -> list[dict[str, Any]]:
    """Return the events of a response with these blocks, as the API streams them."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": f"msg_{number}", "usage": {}}}]
    for index, block in enumerate(blocks):
        begun, deltas = _streamed(block)
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": reason, "container": None if container is None else {"id": container, "expires_at": "?"}}
    return [*events, {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}, {"type": "message_stop"}]


def _streamed(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            text = block["text"]
            halves = [{"type": "text_delta", "text": part} for part in (text[:3], text[3:]) if part]
            sources = [{"type": "citations_delta", "citation": one} for one in block.get("citations", ())]
            return {**block, "text": "", **({"citations": []} if sources else {})}, [*sources, *halves]
        case "thinking":
            thought = {"type": "thinking_delta", "thinking": block["thinking"]}
            return {**block, "thinking": "", "signature": ""}, [
                thought,
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case "tool_use" | "server_tool_use":
            words = json.dumps(block["input"])
            parts = ["", words[:4], words[4:]]
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
        case _:
            return block, []


def check_rules(body: dict[str, Any]) -> None:
    """Check what the API demands of a conversation, as its documentation and its error messages say."""
    messages = body["messages"]
    offered = {tool["name"] for tool in body.get("tools", ()) if "type" in tool}
    assert messages[0]["role"] == "user"
    assert all(one["role"] != other["role"] for one, other in itertools.pairwise(messages))
    seen: set[str] = set()
    waiting: dict[str, str] = {}  # the server's calls without a result
    asked: list[str] = []
    for message in messages:
        blocks = message["content"]
        assert blocks
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        if message["role"] == "user":
            answers = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            assert answers == asked, "each call is answered in the next message"
            assert [block["type"] for block in blocks[: len(answers)]] == ["tool_result"] * len(answers)
            assert not waiting or (asked and len(blocks) == len(answers)), "the server's call has no result"
            asked = []
            continue
        assert blocks[-1]["type"] not in ("thinking", "redacted_thinking")
        for block in blocks:
            kind = block["type"]
            if kind in ("tool_use", "server_tool_use"):
                assert block["id"] not in seen, "ids are unique"
                seen.add(block["id"])
                if kind == "tool_use":
                    asked.append(block["id"])
                else:
                    waiting[block["id"]] = block["name"]
            elif kind.endswith("_tool_result"):
                assert waiting.pop(block["tool_use_id"], None), "the result has no call"
        assert asked or not waiting or message is messages[-1], "the server's call has no result"
    assert set(waiting.values()) <= offered
    last = messages[-1]["content"][-1]["type"]
    assert (
        messages[-1]["role"] == "user" or last == "server_tool_use" or last.endswith("_tool_result") or last == "text"
    )
