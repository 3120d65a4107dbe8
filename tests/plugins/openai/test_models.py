"""What a request says for each model: facts recorded from Codex 0.171, which a test compares where Codex is at hand."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codex_framework import FreeformFormat, FreeformSpec, FunctionSpec, ModelInfo, NativeSpec, ToolNamespace
from codex_framework.contract.protocol.items import FunctionCall, FunctionCallOutput, Reasoning
from codex_framework.contract.roles.models import ItemDone
from codex_framework.testing.replies import call, say
from codex_framework.testing.requests import model_request
from codex_framework.testing.server import ResponsesServer
from codex_framework.toolkit.model_catalogue import bundled_models, fallback_model, known_model
from codex_plugin_openai.body import BodyWriter
from codex_plugin_openai.events import decode

LITE = {
    "gpt-6.2-sol": "low",
    "gpt-6.2-astra": "low",
    "gpt-6.1-sol": "low",
    "gpt-6-astra": "low",
    "gpt-6.1-terra": "low",
    "gpt-6-sol": "medium",
    "gpt-6-luna": "medium",
    "gpt-5.6-sol": "low",
    "gpt-5.6-terra": "medium",
    "gpt-5.6-luna": "medium",
    "gpt-daybreak-blue-latest": "low",
    "gpt-daybreak-red-latest": "medium",
    "codex-auto-review": "medium",
}
"""Models with the shorter form of requests, and their reasoning effort."""

COMMON = {"include": ["reasoning.encrypted_content"], "store": False, "stream": True, "tool_choice": "auto"}


def recorded(slug: str) -> dict[str, Any]:
    """What Codex 0.171 sends for a model, apart from its input, tools and ids."""
    if slug in LITE:
        verbosity = "high" if slug == "gpt-daybreak-red-latest" else "low"
        return {
            **COMMON,
            "model": slug,
            "parallel_tool_calls": False,
            "reasoning": {"effort": LITE[slug], "context": "all_turns"},
            "text": {"verbosity": verbosity},
        }
    if slug == "gpt-5.5":
        return {
            **COMMON,
            "model": slug,
            "parallel_tool_calls": True,
            "reasoning": {"effort": "medium"},
            "text": {"verbosity": "low"},
        }
    return {**COMMON, "model": slug, "parallel_tool_calls": True, "reasoning": {"summary": "auto"}}


VARYING = {"client_metadata", "input", "instructions", "prompt_cache_key", "tools"}
SLUGS = [*LITE, "gpt-5.5", "unknown-model"]


def properties(slug: str) -> ModelInfo:
    return known_model(slug) or fallback_model(slug)


def body_for(slug: str, *items: Any, **request: Any) -> dict[str, Any]:
    model = properties(slug)
    settings = {"parallel_tool_calls": model.parallel_tool_calls, **request}
    body: dict[str, Any] = json.loads(BodyWriter().body(model_request(*items or ("hi",), model=model, **settings)))
    return body


@pytest.mark.parametrize("slug", SLUGS)
def test_a_request_is_that_of_codex(slug: str) -> None:
    body = body_for(slug)
    assert {key: value for key, value in body.items() if key not in VARYING} == recorded(slug)
    assert ("tools" in body) is (slug not in LITE)


@pytest.mark.parametrize("slug", [*SLUGS[::4], "gpt-5.5", "unknown-model"])
def test_codex_sends_what_is_recorded_here(slug: str, tmp_path: Path, codex_binary: str) -> None:
    with ResponsesServer([say("ok")]) as server:
        provider = f'model_providers.here={{name="here",base_url="{server.url}"}}'
        options = ["-c", provider, "-c", 'model_provider="here"', "-m", slug]
        subprocess.run(
            [codex_binary, "exec", "--skip-git-repo-check", *options, "q"],
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path), "PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=60,
        )
    body, headers = server.requests[0].json, server.requests[0].headers
    assert {key: value for key, value in body.items() if key not in VARYING} == recorded(slug)
    assert ("x-openai-internal-codex-responses-lite" in headers) is (slug in LITE)
    assert (body["input"][0]["type"] == "additional_tools") is (slug in LITE)


GROUP = ToolNamespace("web__", "Sites.")
GRAMMAR = FreeformFormat("lark", "start: /a/")
TOOLS = (
    FunctionSpec("run", "Run.", {"type": "object"}),
    FunctionSpec("web__get", "Get.", {"type": "object"}, namespace=GROUP, local_name="get"),
    FreeformSpec("patch", "Patch.", GRAMMAR),
    NativeSpec("web_search", "web_search"),
)


def test_the_shorter_form_begins_with_tools_and_instructions() -> None:
    first, second, third = body_for("gpt-6.1-sol", tools=TOOLS)["input"]
    assert {key: first[key] for key in ("type", "role")} == {"type": "additional_tools", "role": "developer"}
    shapes = [
        (tool["type"], tool.get("name"), [each["name"] for each in tool.get("tools", ())]) for tool in first["tools"]
    ]
    assert shapes == [
        ("namespace", "functions", ["run", "patch"]),
        ("namespace", "web__", ["get"]),
        ("web_search", None, []),
    ]
    assert second == {
        "type": "message",
        "role": "developer",
        "content": [{"type": "input_text", "text": "Be brief."}],
    }
    assert third["role"] == "user"


def test_one_client_can_send_both_forms_with_changing_tools() -> None:
    writer = BodyWriter()
    names: list[Any] = []
    for slug, tools in (
        ("gpt-6.1-sol", TOOLS[:1]),
        ("gpt-5.5", TOOLS[2:3]),
        ("gpt-6.1-sol", TOOLS[2:3]),
        ("gpt-5.5", ()),
    ):
        body = json.loads(writer.body(model_request("hi", model=properties(slug), tools=tools)))
        given = body["tools"] if "tools" in body else body["input"][0]["tools"]
        names.append([tool["name"] if tool["type"] != "namespace" else tool["tools"][0]["name"] for tool in given])
    assert names == [["run"], ["patch"], ["patch"], []]


def test_a_call_in_the_group_of_functions_is_one_without_a_group() -> None:
    item = {"type": "function_call", "namespace": "functions", "name": "run", "call_id": "c", "arguments": "{}"}
    event = decode(json.dumps({"type": "response.output_item.done", "item": item}))
    assert isinstance(event, ItemDone)
    assert isinstance(event.item, FunctionCall)
    assert (event.item.namespace, event.item.name) == (None, "run")


def test_a_whole_turn_with_the_newest_model(scene: Any) -> None:
    async def story(kernel: Any) -> Any:
        thread = await kernel.start_thread(model="gpt-6.1-sol")
        return await thread.run("go")

    result = scene.play(story, [call("exec_command", cmd="echo 42"), say("done")])
    assert result.final_message == "done"
    first, second = scene.asked
    assert second["input"][: len(first["input"])] == first["input"], "the beginning stays, so that it is cached"
    output = second["input"][-1]
    assert (output["type"], "42" in output["output"]) == ("function_call_output", True)
    assert scene.server.requests[0].headers["x-openai-internal-codex-responses-lite"] == "true"


REASONING: dict[str, tuple[Reasoning, bool]] = {
    "encrypted": (Reasoning("rs_1", ({"type": "summary_text", "text": "s"},), None, "e"), True),
    "raw": (Reasoning("rs_2", (), ({"type": "reasoning_text", "text": "t"},), None), True),
    "only an id": (Reasoning("rs_3", ({"type": "summary_text", "text": "s"},), None, None), False),
    "empty": (Reasoning("rs_4", (), (), ""), False),
}


@pytest.mark.parametrize("name", REASONING)
@pytest.mark.parametrize("store", [False, True])
def test_reasoning_is_not_sent_back_by_its_id_alone(name: str, store: bool) -> None:
    item, sendable = REASONING[name]
    request = model_request("hi", item, FunctionCall("f", "{}", "c"), FunctionCallOutput("c", "42"))
    kinds = [each["type"] for each in json.loads(BodyWriter(store=store).body(request))["input"]]
    expected = ["message", "reasoning", "function_call", "function_call_output"]
    assert kinds == (expected if sendable or store else [kind for kind in expected if kind != "reasoning"])


def test_what_was_encoded_is_kept_and_a_changed_history_is_noticed() -> None:
    writer = BodyWriter()
    item = REASONING["only an id"][0]
    for words in (["a"], ["a", "b"], ["a", "c", "d"], ["x"], ["a", "b"]):
        body = json.loads(writer.body(model_request(item, *words)))
        assert [each["content"][0]["text"] for each in body["input"]] == words


def test_the_list_has_no_model_twice_and_consistent_limits() -> None:
    models = list(bundled_models())
    assert len({model.slug for model in models}) == len(models) == 18
    for model in models:
        assert not model.efforts or model.default_effort in model.efforts
        assert model.max_context_window is not None
        assert model.context_window <= model.max_context_window
        assert (model.known, bool(model.display_name)) == (True, True)
    assert known_model("no-such-model") is None
