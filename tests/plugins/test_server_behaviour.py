"""What model servers do that their APIs do not say: one test per row of the table and wire."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from typing import Any

import attrs
import pytest

from codex_framework import (
    FunctionCall,
    FunctionSpec,
    InputImage,
    InputText,
    ItemDone,
    Message,
    ModelError,
    ModelEvent,
    ModelProvider,
    ModelRequest,
    NativeSpec,
    ProviderInfo,
    TextDelta,
    ToolNamespace,
)
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCallOutput,
    LocalShellCall,
    Reasoning,
)
from codex_framework.contract.roles.models import LeftOut, ModelWarning
from codex_framework.testing import CHAT, RESPONSES, ModelServer, Reply, fault, model_request, say
from codex_lib_model_client.call_pairing import ID_CHARACTERS, SentCallIds
from codex_lib_model_client.server_behaviour import ANSWERS, REFUSALS
from codex_plugin_chat.provider import ChatProvider
from codex_plugin_openai.provider import ResponsesProvider

WIRES: dict[str, tuple[Any, type[ModelProvider]]] = {
    "responses": (RESPONSES, ResponsesProvider),
    "chat": (CHAT, ChatProvider),
}


@attrs.frozen
class Outcome:
    """What the client gave for some requests of one thread, and what the server saw."""

    answers: list[list[ModelEvent]]
    errors: list[ModelError | None]
    bodies: list[dict[str, Any]]

    @property
    def items(self) -> list[Any]:
        return [event.item for event in self.answers[0] if isinstance(event, ItemDone)]


def ask(
    wire: str,
    replies: Iterable[Any],
    *requests: ModelRequest,
    form: Any = None,
    env: Any = None,
    env_key: str | None = None,
    **options: Any,
) -> Outcome:
    """Ask a server that speaks a wire.

    Args:
        form: How the server writes its events. By default as the API says.
        env: Variables of the environment, of which one may be the key.
        options: Keys of the provider's table.
    """
    known, provider = WIRES[wire]

    async def run(server: ModelServer) -> Outcome:
        info = ProviderInfo(
            id="mock", wire_api=wire, base_url=server.url, request_max_retries=0, env_key=env_key, options=options
        )
        client = provider().open(info, env or {})
        answers: list[list[ModelEvent]] = []
        errors: list[ModelError | None] = []
        for request in requests or (model_request(),):
            answers.append([])
            errors.append(None)
            try:
                async with asyncio.timeout(20):
                    async for event in client.stream(request):
                        answers[-1].append(event)
            except ModelError as error:
                errors[-1] = error
        await client.aclose()
        return Outcome(answers, errors, [one.json for one in server.requests])

    with ModelServer(replies, wires=[form or known]) as server:
        return asyncio.run(run(server))


def refusals(meaning: str) -> list[Any]:
    return [
        pytest.param(row, id=f"{row.server}-{number}") for number, row in enumerate(REFUSALS) if row.meaning == meaning
    ]


def refusal(row: Any) -> Any:
    return fault(
        row.status, body={"error": {"message": row.words, "type": "invalid_request_error", "code": row.status}}
    )


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("row", refusals("too long"))
def test_a_conversation_that_is_too_long_is_recognised(wire, row):
    error = ask(wire, [refusal(row)]).errors[0]
    assert error is not None
    assert (error.info, error.retryable) == ("context_window_exceeded", False)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "words",
    [
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
        "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for m",
        "Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64, but got a string with length 317.",
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 200 instead.",
        "Unsupported parameter: 'max_tokens' is not supported with this model.",
        "tool name exceeds maximum length of 64",
        "tool description exceeds max length of 1024",
        "Invalid 'metadata': exceeds the limit of 16 keys",
        "you have exceeded your monthly token limit of 1000000",
        "stop sequences exceed the limit of 4",
        "This request would exceed the rate limit for your organization of 40,000 input tokens per minute. Reduce the prompt length.",
        "This request would exceed your organization's rate limit of 30,000 input tokens per minute (model: m).",
        "Rate limit reached for m in organization o on tokens per min (TPM): Limit 30000, Used 29937, Requested 385.",
        "The rate limit of 40,000 tokens is exceeded.",
        "Daily token limit exceeded for this key.",
        "Requests per hour exceed the limit of 60 tokens",
        "Your team has either used all available credits or reached its monthly spending limit.",
        "You have reached your specified API usage limits. You will regain access on 2027-01-01.",
        "Prompt tokens limit exceeded: 230799 > 91442. Create a key with a higher monthly limit",
        "Spending limit of 50 USD exceeded",
        "Key limit exceeded (total limit)",
        "Too many tools: 150 exceeds limit of 128",
        "'tools' : maximum number of items is 128",
        "You may not include more than 128 tools in your request.",
        "The length of the tool name cannot exceed 64.",
        "The function exceeds the maximum length of 64 characters",
        "prompt_cache_key exceeds max length of 64",
        "user exceeds the limit of 256",
        "max_tokens (100000) exceeds the maximum of 8192",
        "Too many images in request: 11 images provided, but the model supports a maximum of 10 images.",
        "image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes",
        "Too many concurrent requests: limit of 5 tokens exceeded",
    ],
)
def test_other_limits_are_not_taken_for_it(wire, words):
    error = ask(wire, [fault(400, body={"error": {"message": words, "type": "invalid_request_error"}})]).errors[0]
    assert error is not None
    assert error.info == "bad_request"
    assert words in error.fact


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "body",
    [
        {"error": "the input length exceeds the context length"},
        {"object": "error", "message": "This model's maximum context length is 10 tokens."},
        {"detail": "The prompt is too long."},
        [{"error": {"message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}}],
        {"error": {"message": "Provider returned error", "metadata": {"raw": '{"message":"prompt is too long"}'}}},
        "prompt is too long",
    ],
)
def test_it_is_recognised_wherever_a_server_writes_it(wire, body):
    error = ask(wire, [fault(400, body=body)]).errors[0]
    assert error is not None
    assert error.info == "context_window_exceeded"


PNG = "data:image/png;base64,iVBORw0KGgo="
LOOK = Message("user", (InputText("look"), InputImage(PNG)))
SEEN = FunctionCallOutput("c1", (InputText("seen"), InputImage(PNG)))
PICTURED = (LOOK, FunctionCall("view", "{}", "c1"), SEEN)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("row", refusals("no images"))
def test_images_that_the_model_does_not_take_are_left_out_once_refused(wire, row):
    request = model_request(*PICTURED)
    outcome = ask(wire, [refusal(row), say("Fine."), say("Still.")], request, request)
    assert outcome.errors == [None, None]
    assert [PNG in json.dumps(body) for body in outcome.bodies] == [True, False, False]
    assert "seen" in json.dumps(outcome.bodies[1])
    assert json.dumps(outcome.bodies[1]).count("An image was here") == 2
    assert [(loss.what, loss.count) for loss in outcome.answers[0] if isinstance(loss, LeftOut)] == [("images", 2)]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "words",
    [
        "registry.ollama.ai/library/llama3.2-vision:11b does not support tools",
        "Llama 3.2 Vision does not support tools",
        "This multimodal model does not support function calling",
        "Multi-modal models do not support response_format",
        "This endpoint only supports text/event-stream.",
        "tool calling is not supported by vision models",
        "revision main is not available",
        "The model `gpt-4-vision-preview` does not exist or you do not have access to it.",
        "More than 20 images are not allowed",
        "This model does not support more than 20 images.",
        "At most 5 image(s) may be provided in one request.",
        "Too many images in request: 11 images provided, but the model supports a maximum of 10 images.",
        "request contains 52 images, exceeding the maximum of 50 allowed per request",
        "too many images and documents: 120 + 0 > 100",
        "Image media type image/bmp is not supported",
        "Images larger than 5 MB are not allowed",
        "image dimensions of 9000x9000 are not supported",
        "image_url with a remote address is not supported; use base64",
        "image detail 'original' is not supported",
        "Image generation is not available for this model",
        "Invalid value: 'file'. Supported values are: 'input_text', 'input_image' and 'refusal'.",
        "messages[2]: unknown variant `file`, expected one of `text`, `image_url`",
        "You do not have access to the image models",
    ],
)
def test_other_refusals_leave_the_images_in(wire, words):
    outcome = ask(wire, [fault(400, body={"error": {"message": words}}), say("Fine.")], model_request(*PICTURED))
    assert outcome.errors[0] is not None
    assert outcome.errors[0].info == "bad_request"
    assert len(outcome.bodies) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_images_are_left_out_at_once_if_the_table_says_so(wire):
    outcome = ask(wire, [say("Fine.")], model_request(*PICTURED), input_modalities=["text"])
    assert PNG not in json.dumps(outcome.bodies)
    assert LeftOut("images", 2, "the model takes none") in outcome.answers[0]


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_without_images_is_not_repeated(wire):
    row = next(row for row in REFUSALS if row.meaning == "no images" and row.status == 400)
    error = ask(wire, [refusal(row)]).errors[0]
    assert error is not None
    assert row.words in error.fact


def tool(name: str, **more: Any) -> FunctionSpec:
    return FunctionSpec(name, f"Does {name}.", {"type": "object", "properties": {}}, **more)


TOOLS = (tool("first"), tool("second"), tool("third"))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "Invalid schema for function 'second': In context=('properties', 'a'), array schema missing items."),
        (400, "Invalid 'tools[1].function.parameters': unknown keyword."),
        (400, "tools.1.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"),
        (
            400,
            "* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties[a].items: missing field.",
        ),
        (
            400,
            "Unable to submit request because `second` functionDeclaration `parameters.a` schema didn't specify the type field.",
        ),
        (400, "invalid JSON schema for tool second, tools[1].function.parameters: `/properties/a`: missing"),
        (422, "Tool second has an unsupported parameter schema"),
        (
            400,
            "Unable to submit request because `second` functionDeclaration `parameters.a` any_of must be the only field set.",
        ),
        (400, "Invalid JSON schema for function second: no"),
        (400, "Invalid tool schema for `second`"),
        (400, "Invalid 'tools[1].function.name': string too long. Expected a string with maximum length 64."),
        (
            400,
            "Invalid JSON payload received. Unknown name \"x\" at 'tools[0].function_declarations[1].parameters': Cannot find field.",
        ),
        (400, "* GenerateContentRequest.tools[1].functionDeclarations[0].name: Invalid function name."),
        (400, "The value at toolConfig.tools.1.toolSpec.inputSchema.json.type must be one of the following: object."),
        (422, "[{'type': 'missing', 'loc': ('body', 'tools', 1, 'function', 'description'), 'msg': 'Field required'}]"),
        (400, "tools[1].***.parameters must be valid JSON (line 1, column 1)."),
        (400, 'Error from provider: {"error":{"message":"Invalid schema for function \'second\': type is null"}}'),
        (
            400,
            "Invalid schema for function 'second': In context=('properties', 'messages'), array schema missing items.",
        ),
        (400, "Invalid schema for function 'second': In context=('properties', 'arguments', 'tool_calls'), no items."),
    ],
)
def test_a_thread_goes_on_without_a_tool_that_the_server_refuses(wire, status, words):
    request = model_request(tools=TOOLS)
    refused = fault(status, body={"error": {"message": words, "type": "invalid_request_error"}})
    outcome = ask(wire, [refused, say("Fine."), say("Still.")], request, request)
    assert outcome.errors == [None, None]
    names = [[(one.get("function") or one)["name"] for one in body["tools"]] for body in outcome.bodies]
    assert names == [["first", "second", "third"], ["first", "third"], ["first", "third"]]
    warnings = [event.message for event in outcome.answers[0] if isinstance(event, ModelWarning)]
    assert len(warnings) == 1
    assert "`second`" in warnings[0]
    assert not [event for event in outcome.answers[1] if isinstance(event, ModelWarning)]


@pytest.mark.parametrize("wire", WIRES)
def test_tools_are_left_out_one_after_the_other_and_only_of_their_thread(wire):
    def refused(name: str) -> Any:
        return fault(400, body={"error": {"message": f"Invalid schema for function '{name}': no."}})

    first, other = model_request(tools=TOOLS), model_request(tools=TOOLS, thread_id="other")
    outcome = ask(wire, [refused("second"), refused("first"), say("Fine."), say("Hello.")], first, other)
    assert [len(body["tools"]) for body in outcome.bodies] == [3, 2, 1, 3]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "words",
    [
        *("Invalid schema for function 'unknown': no.", "Invalid schema.", "tools[7]: wrong", "No."),
        "Function call is missing a thought_signature in functionCall parts. Additional data, function call `second` , position 2.",
        "Tool call validation failed: attempted to call tool 'second' which was not in request.tools",
        "tool call validation failed: parameters for tool second did not match schema: errors: [`/a`: expected array, but got string]",
        "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details: <function=second>",
        "Invalid schema for response_format 'second': In context=(), 'additionalProperties' is required to be false.",
        "Invalid 'messages[3].tool_calls[0].function.arguments': no valid JSON for the function 'second'.",
        "The arguments do not match the schema for function 'second'.",
        "The schema for function 'second' does not permit the arguments of the call.",
        "Invalid 'messages[1].tools[1].name': wrong",
        "Invalid 'input[4].tools[1].parameters': wrong",
        "Invalid tool_choice: the function 'second' and tools[1] do not go together",
        "Failed to initialize samplers: failed to parse grammar of the second tool",
        "tools.function.parameters is not a valid moonshot flavored json schema, details: <At path 'properties.second'>",
        "model second does not support tools",
        "Invalid 'tools': array too long. Expected an array with maximum length 2, but got an array with length 3 instead.",
        "tools: Tool names must be unique: second",
        "every second tool of this schema is wrong",
        "every second tool x schema is wrong",
        "this is the schema for second graders",
        "schema: the second property is unknown in the function",
    ],
)
def test_a_refusal_that_does_not_say_which_tool_is_wrong_is_an_error(wire, words):
    outcome = ask(wire, [fault(400, body={"error": {"message": words}})], model_request(tools=TOOLS))
    assert outcome.errors[0] is not None
    assert words in outcome.errors[0].fact
    assert len(outcome.bodies) == 1


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", [401, 402, 403, 409, 429])
def test_only_a_refusal_of_the_request_leaves_a_tool_out(wire, status):
    words = "Invalid schema for function 'second': no."
    outcome = ask(wire, [fault(status, body={"error": {"message": words}})], model_request(tools=TOOLS))
    assert outcome.errors[0] is not None
    assert len(outcome.bodies) == 1


def test_a_tool_of_a_group_is_found_by_its_place_and_by_both_of_its_names():
    group = ToolNamespace("mcp__s__", "Tools of s.")
    tools = (tool("alone"), *(tool(f"mcp__s__{name}", namespace=group, local_name=name) for name in ("a", "bee")))
    request = model_request(tools=tools)
    request = request.evolve(model=request.model.evolve(namespaces=True))
    for words in (
        "Invalid 'tools[1].tools[1].parameters': no",
        "Invalid schema for function 'bee': no",
        "schema of mcp__s__bee: no",
    ):
        outcome = ask("responses", [fault(400, body={"error": {"message": words}}), say("Fine.")], request)
        assert outcome.errors == [None], words
        assert [one["name"] for one in outcome.bodies[1]["tools"][1]["tools"]] == ["a"]


@pytest.mark.parametrize(
    "words",
    ["schema of bee: no", "schema of function bee: no", "Invalid 'tools[1].parameters': no", "the bee of tool schemas"],
)
def test_a_group_or_a_word_that_is_the_name_within_a_group_names_no_tool(words):
    group = ToolNamespace("mcp__s__", "Tools of s.")
    tools = (tool("alone"), *(tool(f"mcp__s__{name}", namespace=group, local_name=name) for name in ("a", "bee")))
    request = model_request(tools=tools)
    request = request.evolve(model=request.model.evolve(namespaces=True))
    outcome = ask("responses", [fault(400, body={"error": {"message": words}}), say("Fine.")], request)
    assert outcome.errors[0] is not None
    assert len(outcome.bodies) == 1


def test_a_tool_is_found_by_its_place_in_the_shorter_form():
    group = ToolNamespace("mcp__s__", "Tools of s.")
    tools = (
        tool("mcp__s__a", namespace=group, local_name="a"),
        NativeSpec("web_search", "web_search"),
        tool("alone"),
        tool("other"),
    )
    request = model_request(tools=tools)
    request = request.evolve(model=request.model.evolve(lite=True, namespaces=True))

    def names(body):
        return [
            [inner["name"] for inner in one["tools"]] if "tools" in one else one["type"]
            for one in body["input"][0]["tools"]
        ]

    for words, left in (
        ("Invalid 'input[0].tools[0].tools[1].parameters': no", [["alone"], ["a"], "web_search"]),
        ("Invalid 'tools[0].tools[0].parameters': no", [["other"], ["a"], "web_search"]),
        ("Invalid 'input[0].tools[1].tools[0].parameters': no", [["alone", "other"], "web_search"]),
        ("Invalid 'input[0].tools[2].type': no", [["alone", "other"], ["a"]]),
    ):
        outcome = ask("responses", [fault(400, body={"error": {"message": words}}), say("Fine.")], request)
        assert outcome.errors == [None], words
        assert [names(body) for body in outcome.bodies] == [[["alone", "other"], ["a"], "web_search"], left]


_FORMS = {"responses": re.compile(r"[A-Za-z0-9_-]{1,64}"), "chat": re.compile(r"[A-Za-z0-9_.:-]{1,64}")}


def sent_ids(wire: str, body: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the ids of the calls and of the outputs of a request."""
    if wire == "responses":
        calls = [one["call_id"] for one in body["input"] if one["type"].endswith("_call")]
        return calls, [one["call_id"] for one in body["input"] if one["type"].endswith("_output")]
    calls = [call["id"] for one in body["messages"] for call in one.get("tool_calls") or ()]
    return calls, [one["tool_call_id"] for one in body["messages"] if one["role"] == "tool"]


def exchanges(*ids: str) -> list[Any]:
    return [
        item
        for number, one in enumerate(ids)
        for item in (FunctionCall("f", "{}", one), FunctionCallOutput(one, f"{number}"))
    ]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("words", ["Invalid schema for function 'second': no.", "image input is not supported"])
def test_a_response_that_has_begun_is_not_requested_again(wire, words):
    failure = {"type": "response.failed", "response": {"error": {"code": "invalid_request_error", "message": words}}}
    events = {
        "responses": (PIECES[0], PIECES[1], failure),
        "chat": (chunk(content="THE "), {"error": {"type": "invalid_request_error", "message": words}}),
    }[wire]
    request = model_request(*PICTURED, tools=TOOLS)
    outcome = ask(wire, [Reply(), Reply()], request, request, form=Form(wire, *events))
    assert all(error is not None and words in error.fact for error in outcome.errors)
    assert len(outcome.bodies) == 2
    assert json.dumps(outcome.bodies[1]).count(PNG) == 2, "nothing was noted"
    assert len(outcome.bodies[1]["tools"]) == 3
    for events in outcome.answers:
        assert [event.delta for event in events if isinstance(event, TextDelta)] == ["THE "]


def test_a_text_whose_item_was_never_added_has_begun_too():
    words = "image input is not supported"
    form = Form(
        "responses",
        {"type": "response.content_part.added", "item_id": "m", "part": {"type": "output_text", "text": ""}},
        PIECES[1],
        {"type": "response.failed", "response": {"error": {"code": "invalid_request_error", "message": words}}},
    )
    outcome = ask("responses", [Reply(), Reply()], model_request(*PICTURED), form=form)
    assert outcome.errors[0] is not None
    assert words in outcome.errors[0].fact
    assert len(outcome.bodies) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_what_a_server_refuses_within_a_response_that_has_not_begun_is_left_out(wire):
    words = "image input is not supported"
    events = {
        "responses": (
            {"type": "response.created", "response": {}},
            {"type": "response.failed", "response": {"error": {"message": words}}},
        ),
        "chat": ({"error": {"type": "invalid_request_error", "message": words}},),
    }[wire]
    outcome = ask(wire, [Reply(), Reply()], model_request(*PICTURED), form=Form(wire, *events))
    assert [PNG in json.dumps(body) for body in outcome.bodies] == [True, False]


@pytest.mark.parametrize("wire", WIRES)
def test_a_refusal_that_is_answered_is_still_measured_and_hides_the_key(wire):
    told: list[tuple[str, bool, str]] = []

    def measure(name: str, attributes: Any, *, failed: bool = False, **_: Any) -> None:
        told.append((name, failed, str(attributes.get("error.message"))))

    words = "Invalid schema for function 'second': no (key sk-secret-1234567)."
    events = {
        "responses": ({"type": "error", "error": {"type": "invalid_request_error", "message": words}, "status": 400},),
        "chat": ({"error": {"type": "invalid_request_error", "message": words}},),
    }[wire]
    request = model_request(tools=TOOLS[:2], measure=measure)
    env = {"KEY": "sk-secret-1234567"}
    outcome = ask(wire, [Reply(), Reply()], request, form=Form(wire, *events), env=env, env_key="KEY")
    failures = [text for name, failed, text in told if failed and "event" in name]
    assert len(failures) == 2
    assert len(outcome.bodies) == 2
    warnings = [event.message for event in outcome.answers[0] if isinstance(event, ModelWarning)]
    assert len(warnings) == 1
    assert "sk-secret" not in "".join((*failures, *warnings, str(outcome.errors)))


LONG = "call_1__thought__" + "A" * 300
CONVERSATIONS = {
    "repeated over turns": exchanges("terminal:0", "terminal:0", "terminal:0"),
    "repeated in a response": [
        *[FunctionCall("f", "{}", "c"), FunctionCall("g", "{}", "c"), CustomToolCall("h", "x", "c")],
        *[FunctionCallOutput("c", "0"), FunctionCallOutput("c", "1"), CustomToolCallOutput("c", "2")],
    ],
    "long": exchanges(LONG, LONG + "B", LONG),
    "another form": exchanges("functions.f:0", "a|b c", "\u00e9\U0001f600", "x/y"),
    "a number that is taken": exchanges("a", "a_2", "a", "a", "a_2"),
    "empty": exchanges("", "", "call"),
    "often repeated": exchanges(*["call_0"] * 9, "call_0_12", "call_0_5", *["call_0"] * 9),
    "of the shell": [LocalShellCall({"type": "exec", "command": ["ls"]}, "c d"), FunctionCallOutput("c d", "0")],
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_ids_of_calls_have_the_form_of_the_server_and_occur_once(wire, name):
    items = [Message("user", (InputText("go"),)), *CONVERSATIONS[name]]
    once, grown = (
        model_request(*items),
        model_request(*[*items, Message("user", (InputText("on"),)), *exchanges("a")]),
    )
    outcome = ask(wire, [say("Yes.")] * 3, once, grown, grown)
    for body in outcome.bodies:
        calls, outputs = sent_ids(wire, body)
        assert calls == outputs
        assert len(set(calls)) == len(calls)
        assert all(_FORMS[wire].fullmatch(one) for one in calls), calls
    assert sent_ids(wire, outcome.bodies[1])[0][:-1] == sent_ids(wire, outcome.bodies[0])[0]
    texts = [
        one.get("output") or one.get("content")
        for one in outcome.bodies[0].get("input") or outcome.bodies[0]["messages"]
    ]
    assert [text for text in texts if str(text).isdecimal()] == [str(one) for one in range(len(calls) - 1)]


@pytest.mark.parametrize("wire", WIRES)
def test_ids_that_fit_stay(wire):
    items = [Message("user", (InputText("go"),)), *exchanges("call_A-b_1", "toolu_2", "x" * 64)]
    (body,) = ask(wire, [say("Yes.")], model_request(*items)).bodies
    assert sent_ids(wire, body)[0] == ["call_A-b_1", "toolu_2", "x" * 64]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("row", refusals("short ids"))
@pytest.mark.parametrize("name", ["long", "often repeated", "of the shell", "another form"])
def test_ids_are_short_once_the_server_demands_it(wire, row, name):
    items = [*exchanges("abcDEF123"), *CONVERSATIONS[name]]
    request, grown = model_request(*items), model_request(*[*items, *exchanges("x")], thread_id="other")
    outcome = ask(wire, [refusal(row), say("Yes."), say("Yes."), say("Yes.")], request, request, grown)
    assert outcome.errors == [None] * 3
    first, *others = (sent_ids(wire, body) for body in outcome.bodies)
    assert any(len(one) != 9 for one in first[0])
    for calls, outputs in others:
        assert calls == outputs
        assert calls[0] == "abcDEF123"
        assert len(set(calls)) == len(calls)
        assert all(re.fullmatch("[A-Za-z0-9]{9}", one) for one in calls)
    assert others[0] == others[1]
    assert others[2][0][:-1] == others[0][0]


@pytest.mark.parametrize("wire", WIRES)
def test_a_server_that_refuses_short_ids_too_is_told(wire):
    row = next(row for row in REFUSALS if row.meaning == "short ids")
    outcome = ask(wire, [refusal(row)] * 2, model_request("go", *exchanges("a")))
    assert outcome.errors[0] is not None
    assert row.words in outcome.errors[0].fact
    assert len(outcome.bodies) == 2


def test_numbers_for_repeated_ids_are_found_fast():
    ids = SentCallIds(ID_CHARACTERS)
    earlier = {"c", *(f"c_{number}" for number in range(2, 3_000))}
    checks = 0

    class Counted(set[str]):
        def __contains__(self, one: object) -> bool:
            nonlocal checks
            checks += 1
            return super().__contains__(one)

    assert [ids.of_call("c") for _ in range(4)] == ["c", "c_2", "c_3", "c_4"]
    assert SentCallIds(ID_CHARACTERS, Counted(earlier)).of_call("c") == "c_3000"
    assert checks < 40


def test_ids_of_items_that_another_server_wrote_are_not_sent():
    said = [
        Message("assistant", (InputText("x"),), id=one)
        for one in ("msg_1", "msg_1", "chatcmpl-1", "msg_" + "x" * 70, "msg_a|b")
    ]
    calls = [
        FunctionCall("f", "{}", one, id=item_id) for one, item_id in (("a", "fc_1"), ("b", "call_1"), ("c", "fc_1"))
    ]
    outputs = [FunctionCallOutput(one, "x") for one in "abc"]
    thoughts = [Reasoning(id="rs_1", encrypted_content="x"), Reasoning(id="r" * 65, encrypted_content="x")]
    (body,) = ask("responses", [say("Yes.")], model_request(*[*said, *calls, *outputs, *thoughts])).bodies
    assert [one.get("id") for one in body["input"]] == ["msg_1", *[None] * 4, "fc_1", *[None] * 5, "rs_1", None]


class Form:
    """A server that answers with these events, or with this body."""

    def __init__(self, wire: str, *events: dict[str, Any] | bytes) -> None:
        self.name, self.path = WIRES[wire][0].name, WIRES[wire][0].path
        self._events = [one if isinstance(one, bytes) else f"data: {json.dumps(one)}\n\n".encode() for one in events]

    def events(self, reply: Reply, number: int, /) -> list[bytes]:
        return self._events


SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "THE ANSWER"}],
}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
PIECES = (
    {"type": "response.output_item.added", "item": {**SAID, "content": []}},
    {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "THE "},
    {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "ANSWER"},
)


def end(*output: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"id": "resp_1", "output": list(output)}}


def done(item: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "item": {**item, **changes}}


def parts(*content: Any) -> tuple[dict[str, Any], ...]:
    return done(SAID, content=list(content)), end()


def chunk(reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def called(**function: Any) -> tuple[dict[str, Any], ...]:
    return (
        chunk(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "f", **function}}]),
        chunk("tool_calls"),
        b"data: [DONE]\n\n",
    )  # type: ignore[return-value]


def chat_body(**message: Any) -> tuple[bytes]:
    return (json.dumps({"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode(),)


CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
WITHOUT = {key: value for key, value in CALL.items() if key != "arguments"}
FORMS: dict[tuple[str, str], list[tuple[Any, ...]]] = {
    ("responses", "only deltas"): [
        (*PIECES, end()),
        (*PIECES[1:], end()),
        (PIECES[0], {"type": "response.output_text.done", "item_id": "msg_1", "text": "THE ANSWER"}, end()),
        (PIECES[0], {"type": "response.content_part.done", "item_id": "msg_1", "part": SAID["content"][0]}, end()),  # type: ignore[index]
        (
            *PIECES,
            {"type": "response.output_text.done", "item_id": "msg_1", "text": "THE ANSWER"},
            end({**SAID, "content": []}),
        ),
    ],
    ("responses", "only at the end"): [
        (end(SAID),),
        (*PIECES, end(SAID)),
        (*PIECES, end({**SAID, "id": "msg_other"})),
        (done(SAID), end({**SAID, "id": "msg_other"})),
        (json.dumps({"object": "response", "id": "resp_1", "status": "completed", "output": [SAID]}).encode(),),
    ],
    ("responses", "call at the end"): [
        (end(CALL),),
        (done(CALL), end({**CALL, "id": "fc_other"})),
        ({"type": "response.output_item.added", "item": {**CALL, "arguments": ""}}, end(CALL)),
        (
            {"type": "response.output_item.added", "item": {**CALL, "arguments": ""}},
            {"type": "response.function_call_arguments.done", "item_id": "fc_1", "arguments": "{}"},
            end(),
        ),
        (json.dumps({"object": "response", "id": "resp_1", "output": [CALL]}).encode(),),
    ],
    ("responses", "refusal"): [
        parts({"type": "refusal", "refusal": "THE ANSWER"}),
        (PIECES[0], {"type": "response.refusal.done", "item_id": "msg_1", "refusal": "THE ANSWER"}, end()),
        (PIECES[0], {"type": "response.refusal.delta", "item_id": "msg_1", "delta": "THE ANSWER"}, end()),
        (end({**SAID, "content": [{"type": "refusal", "refusal": "THE ANSWER"}]}),),
    ],
    ("responses", "other part"): [
        parts({"type": "text", "text": "THE ANSWER"}),
        parts("THE ANSWER"),
        (done(SAID, content="THE ANSWER"), end()),
    ],
    ("responses", "content null"): [
        (done(SAID, id="msg_0", content=None), done(SAID), end()),
        (done(SAID, id="msg_0", content=[None]), done(SAID), end()),
        (done(SAID, role=None), {**end(), "response": {"id": None, "output": None, "usage": None}}),
    ],
    ("responses", "arguments empty"): [
        (done(CALL, arguments=""), end()),
        (done(CALL, arguments=None), end()),
        (done(WITHOUT), end()),
    ],
    ("responses", "arguments object"): [(done(CALL, arguments={}), end()), (end({**CALL, "arguments": {}}),)],
    ("chat", "only deltas"): [(chunk(content="THE "), chunk(content="ANSWER"), chunk("stop"), b"data: [DONE]\n\n")],
    ("chat", "only at the end"): [
        chat_body(content="THE ANSWER"),
        (
            {"id": "c", "choices": [{"index": 0, "message": {"content": "THE ANSWER"}, "finish_reason": "stop"}]},
            b"data: [DONE]\n\n",
        ),
    ],
    ("chat", "call at the end"): [chat_body(content=None, tool_calls=[CHAT_CALL])],
    ("chat", "refusal"): [
        (chunk(content=None, refusal="THE ANSWER"), chunk("stop")),
        chat_body(content=None, refusal="THE ANSWER"),
    ],
    ("chat", "other part"): [
        (chunk(content=[{"type": "output_text", "text": "THE ANSWER"}]), chunk("stop")),
        (chunk(content=[{"type": "refusal", "refusal": "THE ANSWER"}]), chunk("stop")),
        (chunk(content=["THE ANSWER"]), chunk("stop")),
    ],
    ("chat", "content null"): [
        (
            chunk(content=None, tool_calls=None),
            chunk(content="THE ANSWER", tool_calls=None),
            chunk("stop", content=None),
        )
    ],
    ("chat", "arguments empty"): [called(arguments=""), called(arguments=None), called()],
    ("chat", "arguments object"): [
        called(arguments={}),
        chat_body(tool_calls=[{**CHAT_CALL, "function": {"name": "f", "arguments": {}}}]),
    ],
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("row", ANSWERS, ids=lambda row: row.name)
def test_an_answer_is_read_in_every_form(wire, row):
    for events in FORMS[wire, row.name]:
        outcome = ask(wire, [Reply()], form=Form(wire, *events))
        (error,) = outcome.errors
        assert error is None, (events, error)
        if row.name.startswith(("call", "arguments")):
            (item,) = outcome.items
            assert (item.name, item.arguments, item.call_id) == ("f", "{}", "c1"), events
        else:
            texts = ["".join(part.text for part in item.content) for item in outcome.items]
            assert [text for text in texts if text] == ["THE ANSWER"], events
