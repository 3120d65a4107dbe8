"""What a request says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from codex_framework import (
    FreeformFormat,
    FreeformSpec,
    FunctionSpec,
    ModelInfo,
    NativeSpec,
    ProviderInfo,
    ToolNamespace,
    __version__,
)
from codex_framework.contract.protocol.items import FunctionCallOutput
from codex_framework.testing.replies import say
from codex_framework.testing.requests import model_request
from codex_lib_model_client.headers import common_headers, request_headers
from codex_plugin_openai.body import BodyWriter
from codex_plugin_openai.provider import ResponsesProvider
from codex_plugin_openai.turn_metadata import described

Ask = Callable[..., Any]

GPT = ModelInfo(slug="gpt-5.5", verbosity="low", default_effort="medium")
PLAIN = ModelInfo(slug="llama", reasoning=False)


def test_a_body_has_everything_a_responses_server_wants() -> None:
    request = model_request("hi", FunctionCallOutput("call_1", "42"), model=GPT, parallel_tool_calls=False)
    assert json.loads(BodyWriter().body(request)) == {
        "model": "gpt-5.5",
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "function_call_output", "call_id": "call_1", "output": "42"},
        ],
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning": {"effort": "medium"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "thread-1",
        "text": {"verbosity": "low"},
    }


def test_what_is_not_set_is_left_out() -> None:
    body = json.loads(BodyWriter().body(model_request("hi", model=PLAIN, instructions="")))
    assert not {"instructions", "reasoning", "text", "service_tier", "client_metadata"} & set(body)
    assert body["include"] == []


def test_settings_of_the_turn_are_sent() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    request = model_request(
        "hi",
        model=GPT,
        reasoning_effort="high",
        reasoning_summary="auto",
        verbosity="high",
        service_tier="priority",
        output_schema=schema,
        metadata={"originator": "me", "x-codex-window-id": "thread-1:0", "turn_id": "turn-1"},
    )
    body = json.loads(BodyWriter(store=True).body(request))
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert body["text"] == {
        "verbosity": "high",
        "format": {"type": "json_schema", "strict": True, "schema": schema, "name": "codex_output_schema"},
    }
    assert body["service_tier"] == "priority"
    assert body["client_metadata"] == {"x-codex-window-id": "thread-1:0", "turn_id": "turn-1"}
    assert body["store"] is True


def test_a_summary_of_none_is_not_asked_for() -> None:
    body = json.loads(BodyWriter().body(model_request("hi", model=GPT, reasoning_summary="none")))
    assert body["reasoning"] == {"effort": "medium"}


def test_tools_have_their_wire_forms() -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = (
        FunctionSpec("f", "Does f.", parameters),
        FreeformSpec("g", "Does g.", FreeformFormat("lark", "start: /x/")),
        NativeSpec("local_shell", "local_shell"),
        NativeSpec("web_search", "web_search", {"external_web_access": True}),
    )
    body = json.loads(BodyWriter().body(model_request("hi", tools=tools)))
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}
    assert body["tools"] == [
        {"type": "function", "name": "f", "description": "Does f.", "strict": False, "parameters": parameters},
        {"type": "custom", "name": "g", "description": "Does g.", "format": grammar},
        {"type": "local_shell"},
        {"type": "web_search", "external_web_access": True},
    ]


def test_tools_and_instructions_may_change_between_requests() -> None:
    bodies, tool = BodyWriter(), FunctionSpec("f", "Does f.", {"type": "object"})
    first = model_request("hi", tools=(tool,))
    bodies.body(first)
    second = json.loads(bodies.body(first.evolve(tools=(), instructions="Be long.")))
    assert (second["tools"], second["instructions"]) == ([], "Be long.")


def test_text_that_is_no_unicode_is_still_sent() -> None:
    body = BodyWriter().body(model_request("lone \ud83d surrogate", instructions="and \udc00 here"))
    assert json.loads(body)["instructions"] == "and ? here"


def test_headers_say_who_asks(ask: Ask) -> None:
    outcome = ask(
        [say("hi")],
        model_request(
            cache_key="cache-1",
            thread_id="thread-2",
            metadata={"originator": "codex_exec", "x-codex-window-id": "w:0", "terminal": "xterm"},
            client_metadata={"ticket": "7é\n", "turn_id": "another", "model": "another"},
        ),
        http_headers={"X-Mine": "1"},
        experimental_bearer_token="sk-test",
    )
    headers = outcome.server.requests[0].headers
    assert {
        name: headers[name] for name in sorted(headers) if name not in ("host", "content-length", "connection")
    } == {
        "accept": "text/event-stream",
        "accept-encoding": "zstd,gzip",
        "authorization": "Bearer sk-test",
        "content-type": "application/json",
        "originator": "codex_exec",
        "session-id": "cache-1",
        "thread-id": "thread-2",
        "user-agent": headers["user-agent"],
        "x-client-request-id": "thread-2",
        "x-codex-turn-metadata": headers["x-codex-turn-metadata"],
        "x-codex-window-id": "w:0",
        "x-mine": "1",
    }
    ids = {"session_id": "cache-1", "thread_id": "thread-2", "turn_id": "turn-1"}
    turn = {**ids, "request_kind": "turn", "model": "test-model", "ticket": "7é\n"}
    assert json.loads(headers["x-codex-turn-metadata"]) == turn
    assert ids.items() <= outcome.server.requests[0].json["client_metadata"].items()
    assert headers["user-agent"].startswith(f"codex_exec/{__version__} (")
    assert headers["user-agent"].endswith(") xterm")


@pytest.mark.parametrize("text", ["", "{", "[1]", "7", "[" * 100_000])
def test_what_is_no_description_of_a_compaction_is_left_out(text: str) -> None:
    metadata = described(model_request(metadata={"request_kind": "mine", "compaction": text})).metadata
    turn = json.loads(metadata["x-codex-turn-metadata"])
    assert (turn["request_kind"], turn["model"], "compaction" in turn) == ("mine", "test-model", False)
    assert not {"request_kind", "compaction"} & set(metadata)


def test_the_metadata_of_a_request_says_how_much_is_thought_and_keeps_what_it_says_already() -> None:
    request = model_request(metadata={"thread_id": "mine", "source": "cron"}).evolve(reasoning_effort="high")
    metadata = described(request).metadata
    assert metadata["thread_id"] == "mine"
    turn = json.loads(metadata["x-codex-turn-metadata"])
    assert (turn["thread_id"], turn["reasoning_effort"], turn["turn_trigger"]) == (request.thread_id, "high", "cron")
    assert "turn_trigger" not in json.loads(described(request, "prewarm").metadata["x-codex-turn-metadata"])


def test_what_the_configuration_says_of_requests_is_said_of_every_turn_and_replaces_nothing(scene: Any) -> None:
    async def story(kernel: Any) -> None:
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        await thread.run("Bye!")

    told = 'responses_api_metadata={team = "blue", thread_id = "mine", model = "mine"}'
    scene.play(story, [say("Hello."), say("Bye.")], told)
    for request in scene.server.requests:
        turn = json.loads(request.headers["x-codex-turn-metadata"])
        assert turn["team"] == "blue"
        assert "mine" not in turn.values()
        assert json.loads(request.json["client_metadata"]["x-codex-turn-metadata"]) == turn


def test_the_first_state_of_a_turn_stays_and_those_of_old_threads_are_forgotten(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_plugin_openai.client._STATES", 2)
    replies = [say(name).evolve(headers={"x-codex-turn-state": name}) for name in "abcdefg"]
    places = [("one", "t1"), ("one", "t1"), ("one", "t1"), ("one", "t2"), ("one", "t2"), ("two", "t"), ("three", "t")]
    requests = [model_request(thread_id=thread, turn_id=turn) for thread, turn in [*places, ("one", "t2")]]
    outcome = ask([*replies, say("h")], *requests)
    sent = [request.headers.get("x-codex-turn-state") for request in outcome.server.requests]
    assert sent == [None, "a", "a", None, "d", None, None, None]


def test_a_client_around_us_names_itself_by_its_variable() -> None:
    env = {"CODEX_INTERNAL_ORIGINATOR_OVERRIDE": "codex_sdk_ts"}
    headers = request_headers(model_request(metadata={"originator": "codex_exec"}), env)
    assert headers["originator"] == "codex_sdk_ts"
    assert headers["user-agent"].startswith(f"codex_sdk_ts/{__version__} (")


def test_headers_may_come_from_the_environment() -> None:
    info = ProviderInfo(id="x", env_http_headers={"X-Team": "TEAM", "X-Unset": "UNSET", "X-Empty": "EMPTY"})
    headers = common_headers(info, {"TEAM": "blue", "EMPTY": ""}, None)
    assert {name for name in headers if name.startswith("x-")} == {"x-team"}
    assert headers["x-team"] == "blue"


def test_only_openai_itself_hears_of_organisation_and_project() -> None:
    env = {"OPENAI_ORGANIZATION": "org-1", "OPENAI_PROJECT": "proj-1"}
    ours = common_headers(ResponsesProvider.builtin["openai"], env, "k")
    theirs = common_headers(ProviderInfo(id="x"), env, "k")
    assert (ours["openai-organization"], ours["openai-project"]) == ("org-1", "proj-1")
    assert not {"openai-organization", "openai-project"} & set(theirs)


def test_query_parameters_are_added_to_the_url(ask: Ask) -> None:
    outcome = ask([say("hi")], query_params={"api-version": "2025-04-01 preview"})
    assert outcome.server.requests[0].path == "/v1/responses?api-version=2025-04-01+preview"


@pytest.mark.parametrize(("turn", "sent"), [("turn-1", "sticky"), ("turn-2", None)])
def test_the_servers_turn_state_goes_back_within_the_turn_only(ask: Ask, turn: str, sent: str | None) -> None:
    replies = [say("a").evolve(headers={"x-codex-turn-state": "sticky"}), say("b")]
    outcome = ask(replies, model_request(), model_request(turn_id=turn))
    assert outcome.server.requests[1].headers.get("x-codex-turn-state") == sent


def test_tools_of_a_namespace_are_one_group_for_models_that_take_groups() -> None:
    sea, land = ToolNamespace("mcp__sea", "At sea."), ToolNamespace("mcp__land", "On land.")
    schema = {"type": "object", "properties": {}}
    tools = (
        FunctionSpec("look", "Looks.", schema),
        FunctionSpec("mcp__sea__listen", "Listens.", schema, namespace=sea, local_name="listen"),
        FunctionSpec("mcp__land__go", "Goes.", schema, namespace=land, local_name="go"),
        FunctionSpec("mcp__sea__swim", "Swims.", schema, namespace=sea, local_name="swim"),
    )

    def function(name: str, description: str) -> dict[str, Any]:
        return {"type": "function", "name": name, "description": description, "strict": False, "parameters": schema}

    writer, grouping = BodyWriter(), GPT.evolve(namespaces=True)
    assert json.loads(writer.body(model_request("hi", model=grouping, tools=tools)))["tools"] == [
        function("look", "Looks."),
        {
            "type": "namespace",
            "name": "mcp__sea",
            "description": "At sea.",
            "tools": [function("listen", "Listens."), function("swim", "Swims.")],
        },
        {"type": "namespace", "name": "mcp__land", "description": "On land.", "tools": [function("go", "Goes.")]},
    ]
    flat = json.loads(writer.body(model_request("hi", model=PLAIN, tools=tools)))["tools"]
    assert [tool["name"] for tool in flat] == ["look", "mcp__sea__listen", "mcp__land__go", "mcp__sea__swim"]
