"""What model servers do that their APIs do not say: one test per row of the table and wire."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import attrs
import pytest

from codex_framework import ItemDone, ModelError, ModelEvent, ModelProvider, ModelRequest, ProviderInfo
from codex_framework.testing import CHAT, RESPONSES, ModelServer, fault, model_request
from codex_lib_model_client.server_behaviour import REFUSALS
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


def ask(wire: str, replies: Iterable[Any], *requests: ModelRequest, form: Any = None, **options: Any) -> Outcome:
    """Ask a server that speaks a wire.

    Args:
        form: How the server writes its events. By default as the API says.
        options: Keys of the provider's table.
    """
    known, provider = WIRES[wire]

    async def run(server: ModelServer) -> Outcome:
        info = ProviderInfo(id="mock", wire_api=wire, base_url=server.url, request_max_retries=0, options=options)
        client = provider().open(info, {})
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
