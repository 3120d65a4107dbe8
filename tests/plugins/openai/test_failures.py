"""Every way a server was seen to fail, and what the person is told. Texts as Codex 0.169 has them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from codex_framework import ModelError, ProviderInfo
from codex_framework.contract.errors import INVALID_IMAGE
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.testing import Reply
from codex_framework.testing.replies import call, fault, say
from codex_framework.testing.requests import model_request
from codex_framework.testing.wire import sse_event
from codex_lib_model_client.error_objects import error_of
from codex_lib_model_client.faults import plain_refusal, retry_after, status_error, unreachable
from codex_plugin_openai.provider import ResponsesProvider
from tests.plugins.openai.conftest import provider_at

CUT = "stream disconnected before completion: Transport error: network error: error decoding response body"
CLOSED = "stream disconnected before completion: stream closed before response.completed"
IDLE = "stream disconnected before completion: idle timeout waiting for SSE"
DISCONNECTED = {"response_stream_disconnected": {"http_status_code": None}}
HIGH_DEMAND = "We’re currently experiencing high demand, which may cause temporary errors."
CONTEXT = (
    "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying."
)
TOO_MANY = {"response_too_many_failed_attempts": {"http_status_code": 429}}

COMPLETED = {"type": "response.completed", "response": {"id": "r"}}

Ask = Callable[..., Any]


class Speaking:
    """A server that answers a request with these bytes, pausing before each part, whatever the client does."""

    def __init__(self, parts: list[bytes], *pauses_s: float) -> None:
        self._parts = parts
        self._pauses_s = itertools.cycle(pauses_s)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._speak)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._listener.close()

    def _speak(self) -> None:
        connection, _ = self._listener.accept()
        with connection, contextlib.suppress(OSError):  # the client has given up
            while b"\r\n\r\n" not in connection.recv(65_536):
                pass
            for part, pause_s in zip(self._parts, self._pauses_s, strict=False):
                if self._over.wait(pause_s):
                    return
                connection.sendall(part)
            self._over.wait(30)


def asked(url: str, env: dict[str, str], **table: Any) -> ModelError | None:
    """Ask once. None means that the response was complete."""

    async def run() -> ModelError | None:
        client = ResponsesProvider().open(provider_at(url, **table), env)
        try:
            async with asyncio.timeout(20):
                async for _ in client.stream(model_request()):
                    pass
        except ModelError as error:
            return error
        finally:
            await client.aclose()
        return None

    return asyncio.run(run())


def facts(error: ModelError) -> tuple[str, bool, float | None, Any]:
    assert error.hint == "", "a hint would be added to a text that people's scripts know"
    return error.fact, error.retryable, error.retry_after_s, error.info


def refusal(code: str, message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": code, "code": code, "param": None, **more}}


@pytest.mark.parametrize(
    "reply",
    [
        say("hello", deltas=5) + fault(after=4),
        say("hello", deltas=5) + fault(after=4, reset=True),
        fault(after=0),
        call("shell", command=["ls"]) + fault(after=3),
    ],
    ids=["fin", "rst", "before the first event", "within a call"],
)
def test_a_stream_that_is_cut_can_be_asked_for_again(ask: Ask, reply: Reply) -> None:
    assert facts(ask([reply]).error) == (CUT, True, None, DISCONNECTED)


@pytest.mark.parametrize(
    "reply",
    [
        say("hello") + fault(no_completed=True),
        fault(200, body=""),
        fault(200, body="data: [DONE]\n\n"),
    ],
    ids=["no completed", "nothing", "chat completions' end"],
)
def test_a_stream_that_ends_early_can_be_asked_for_again(ask: Ask, reply: Reply) -> None:
    assert facts(ask([reply]).error) == (CLOSED, True, None, DISCONNECTED)


PAGE = "<!doctype html>\n<html>\n\n<h1>Sign in</h1>\n\n</html>"


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("<html>hi</html>", "a web page"),
        ("\ufeff\n " + PAGE, "a web page"),
        ('{"detail": "Not Found"}', 'JSON that is no stream of events: {"detail": "Not Found"}'),
        ('{"error": null}', 'JSON that is no stream of events: {"error": null}'),
        ("[1, 2]", "JSON that is no stream of events: [1, 2]"),
        ("{" * 300, "JSON that is no stream of events: " + "{" * 200 + "..."),
    ],
)
def test_what_is_no_stream_of_events_is_named(ask: Ask, body: str, cause: str) -> None:
    error = ask([fault(200, body=body)]).error
    assert error.fact == f"{CLOSED} (the server of the model provider 'mock' answered with {cause})"
    assert (error.retryable, error.info, error.slug) == (True, DISCONNECTED, "not-a-response")
    assert error.hint == "Check base_url of the model provider 'mock': /responses is added to it."


@pytest.mark.parametrize("body", [{"error": "It broke."}, {"error": {"message": "It broke.", "type": "server_error"}}])
def test_an_error_in_place_of_a_stream_is_that_of_the_server(ask: Ask, body: dict[str, Any]) -> None:
    error = ask([fault(200, body=body)]).error
    assert facts(error) == ("stream disconnected before completion: It broke.", True, None, DISCONNECTED)
    full = {"error": {"message": "Too long.", "code": "context_length_exceeded"}}
    assert ask([fault(200, body=full)]).error.slug == "context-window"


@pytest.mark.parametrize(
    "reply",
    [
        fault(400, body={"error": {"message": "m" * 60_000}}),
        fault(400, body="m" * 60_000),
        fault(404, body={"error": {"message": "m" * 60_000}}),
        fault(500, body="m" * 60_000),
        fault(502, body="m" * 60_000),
        say("a") + fault(failed={"code": "x", "message": "m" * 60_000}),
        say("a") + fault(failed={"code": "m" * 60_000}),
        say("a") + fault(incomplete="m" * 60_000),
    ],
)
def test_a_long_message_is_shortened(ask: Ask, reply: Reply) -> None:
    assert len(ask([reply]).error.fact) < 4200


def test_a_silent_stream_is_given_up_after_the_idle_timeout(ask: Ask) -> None:
    outcome = ask([say("hello", deltas=5) + fault(after=4, hang_s=30)], stream_idle_timeout_ms=100)
    assert facts(outcome.error) == (IDLE, True, None, DISCONNECTED)


@pytest.mark.parametrize(
    "drip",
    [
        b": keep-alive\n\n",
        b'data: {"type":"keepalive","sequence_number":3}\n\n',
        b'event: response.in_progress\ndata: {"type":"response.in_progress","response":{}}\n\n',
        b'data: {"type":"response.output_text.delta"}\n\n',
        b"data: ping\n\n",
        b": a comment without an end ",
        b"\n",
    ],
    ids=["comments", "unknown events", "in progress", "wrong deltas", "words", "an endless line", "empty lines"],
)
def test_a_server_that_says_nothing_in_many_words_is_idle(env: dict[str, str], drip: bytes) -> None:
    head, pause_s = b"HTTP/1.1 200 OK\r\n\r\n", 0.0 if drip.startswith(b": keep") else 0.02
    with Speaking([head, *[drip] * 100_000], pause_s) as url:
        assert facts(asked(url, env, stream_idle_timeout_ms=200)) == (IDLE, True, None, DISCONNECTED)


def test_a_server_that_works_slowly_is_not_idle(env: dict[str, str]) -> None:
    events = [
        'event: response.function_call_arguments.delta\ndata: {"type":"response.function_call_arguments.delta","delta":"a"}',
        'data: {"type":"response.function_call_arguments.delta","delta":"a"}',
        'data: {"type":"response.web_search_call.searching"}',
        'data: {"type":"response.output_text.delta","item_id":"m","delta":"a"}',
    ]
    wire = [b"HTTP/1.1 200 OK\r\n\r\n", *(f"{event}\n\n".encode() for event in events), sse_event(COMPLETED)]
    with Speaking(wire, 0.3) as url:
        assert asked(url, env, stream_idle_timeout_ms=550) is None


def test_an_event_restores_the_whole_time_limit(env: dict[str, str]) -> None:
    """A comment late in a pause shortens the rest of this pause only."""

    delta = b'data: {"type":"response.output_text.delta","item_id":"m","delta":"a"}\n\n'
    wire = [b"HTTP/1.1 200 OK\r\n\r\n", b": comment\n\n", delta, sse_event(COMPLETED)]
    with Speaking(wire, 0, 0.9, 0, 0.6) as url:
        assert asked(url, env, stream_idle_timeout_ms=1200) is None


@pytest.mark.parametrize(
    "drip", [b"", b"x-a: 1\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n"], ids=["silent", "slow", "hints"]
)
def test_the_head_of_an_answer_has_a_limit_of_its_own(env: dict[str, str], drip: bytes) -> None:
    start = b"HTTP/1.1 200 OK\r\n" if drip.startswith(b"x") else b""
    with Speaking([start, *[drip] * 1000], 0.02) as url:
        error = asked(url, env, response_timeout_ms=200)
    assert isinstance(error, ModelError)
    text = "stream disconnected before completion: the model server sent no response within 0.2 s"
    assert (error.fact, error.retryable, error.info) == (text, True, DISCONNECTED)
    assert error.hint.endswith("raise response_timeout_ms in [model_providers.mock].")


def test_a_refusal_that_is_cut_is_told_with_what_came(env: dict[str, str]) -> None:
    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 422 No\r\ncontent-length: 100\r\n\r\nsorry, but")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        error = asked(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", env)
        thread.join()
    assert isinstance(error, ModelError)
    assert error.fact.startswith("unexpected status 422 Unprocessable Entity: sorry, but")


def test_of_an_endless_refusal_only_the_beginning_is_read(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_lib_model_client.server_client._ERROR_BODY_S", 1000)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 422 No\r\nconnection: close\r\n\r\n")
            while True:  # until the client closes the connection
                connection.sendall(b"x" * 65_536)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        error = asked(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", env)
        thread.join()
    assert isinstance(error, ModelError)
    assert len(error.fact) < 2000


class Moody:
    """Closes its first connections when a request has come, and answers on the next one, or on none."""

    def __init__(self, closes: int, *, answers: bool = True) -> None:
        self.requests = 0
        self._closes, self._answers = closes, answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._left: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for connection in self._left:
            connection.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._left.append(connection)
                connection.recv(65_536)
                self.requests += 1
                if self.requests <= self._closes:
                    connection.close()
                elif self._answers:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + sse_event(COMPLETED))


@pytest.mark.parametrize(("retries", "succeeds"), [(2, True), (1, False)])
def test_a_server_that_cannot_be_reached_is_asked_again(env: dict[str, str], retries: int, *, succeeds: bool) -> None:
    server = Moody(2)
    with server as url:
        error = asked(url, env, request_max_retries=retries)
    assert server.requests == retries + 1
    assert (error is None) is succeeds
    assert error is None or (error.slug, error.retryable) == ("unreachable", True)


def test_a_server_that_is_silent_is_not_asked_again_without_a_word(env: dict[str, str]) -> None:
    """It has received the request, and waiting for it took long."""
    server = Moody(0, answers=False)
    with server as url:
        error = asked(url, env, request_max_retries=3, response_timeout_ms=200)
    assert isinstance(error, ModelError)
    assert (server.requests, error.retryable) == (1, True)


def test_a_refusal_whose_text_never_ends_is_told_with_what_came(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_lib_model_client.server_client._ERROR_BODY_S", 0.2)
    head = b"HTTP/1.1 422 No\r\ncontent-length: 100000\r\n\r\n"
    with Speaking([head, *[b"x"] * 1000], 0.01) as url:
        error = asked(url, env)
    assert isinstance(error, ModelError)
    assert error.fact.startswith("unexpected status 422 Unprocessable Entity: x")


def test_an_event_that_never_ends_does_not_fill_the_memory(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_lib_model_client.sse.EVENT_LIMIT", 3 << 20)
    for line_end in (b"", b"\n"):
        with Speaking([b"HTTP/1.1 200 OK\r\n\r\ndata: ", *[b"x" * 100_000 + line_end] * 1000], 0.0) as url:
            error = asked(url, env)
        assert (
            facts(error)[0]
            == "stream disconnected before completion: the model server sent an event of more than 3 MiB"
        )


def test_the_idle_timeout_does_not_count_for_the_head_of_the_answer(ask: Ask) -> None:
    outcome = ask([say("hello") + fault(hang_s=0.4)], stream_idle_timeout_ms=100)
    assert [type(event).__name__ for event in outcome.events][-1] == "Completed"


def test_malformed_events_are_passed_over(ask: Ask) -> None:
    noise = (
        'event: bogus\ndata: {"type":"response.bogus"}\n\n: comment line\n\ndata:\n\nid: 3\nretry: 5\n\ndata: ping\n\n'
        'garbage without colon\n\ndata: [1,2]\n\ndata: "word"\n\n'
        'data: {"type":"response.output_text.delta"}\n\ndata: {"type":7}\n\ndata: {"type":["x"]}\n\n'
    )
    noisy, clean = ask([say("hi") + fault(raw_before=noise)]), ask([say("hi")])
    assert noisy.events == clean.events


@pytest.mark.parametrize(
    "event",
    [
        'data: {"type":"response.output_item.done","item":{"type":"mess',
        'event: response.output_item.done\ndata: {"type":"response.output_item.done"}',
        'data: {"type":"response.output_item.done","item":"text"}',
        'data: {"type":"response.completed","response":{',
        'data: {"type":"response.completed","response":7}',
        'dat\0: {"type":"response.output_item.done","item":{"type":"message"}}',
        '{"type":"response.output_item.done","item":{"type":"message"}}',
        'data: {"type":"response.outp\ndata: {"type":"response.completed","response":{}}',
        'data: {"type":"response.output_item.done","item":' + '{"a":' * 100_000,
        'data: {"type":"response.output_item.done","item":{"type":"x","a":' + "[" * 200 + "]" * 200 + "}}",
    ],
)
def test_an_event_that_cannot_be_read_is_never_left_out(ask: Ask, event: str) -> None:
    error = ask([say("hi") + fault(raw_before=f"{event}\n\n")]).error
    start = "stream disconnected before completion: the model server sent an event that cannot be read: "
    assert error.fact.startswith(start)
    assert facts(error)[1:] == (True, None, DISCONNECTED)
    assert len(error.fact) < 250


def test_a_429_with_retry_after_is_for_the_turn_to_try_again(ask: Ask) -> None:
    body = refusal("rate_limit_exceeded", "Rate limit reached for mock on tokens per min.")
    outcome = ask([fault(429, headers={"retry-after": "1"}, body=body)], request_max_retries=4)
    text = "exceeded retry limit, last status: 429 Too Many Requests"
    assert facts(outcome.error) == (text, True, 1.0, TOO_MANY)
    assert len(outcome.server.requests) == 1


def test_a_429_without_retry_after_is_final(ask: Ask) -> None:
    body = refusal("rate_limit_exceeded", "Rate limit reached for mock on tokens per min.")
    outcome = ask([fault(429, headers={"x-request-id": "req_1"}, body=body)], request_max_retries=4)
    text = "exceeded retry limit, last status: 429 Too Many Requests, request id: req_1"
    assert facts(outcome.error) == (text, False, None, TOO_MANY)
    assert len(outcome.server.requests) == 1


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            {"plan_type": "plus", "resets_in_seconds": 3600},
            (
                "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit"
                " https://chatgpt.com/settings/usage to purchase more credits or try again later."
            ),
        ),
        (
            {"plan_type": "free"},
            (
                "You’ve hit your usage limit. Upgrade to Plus to continue using Codex (https://chatgpt.com/explore/plus),"
                " or try again later."
            ),
        ),
        (
            {"plan_type": "business"},
            "You’ve hit your usage limit. To get more access now, send a request to your admin or try again later.",
        ),
        (
            {"plan_type": "prolite"},
            "You’ve hit your usage limit. Visit https://chatgpt.com/settings/usage to purchase more credits or try again later.",
        ),
        ({}, "You’ve hit your usage limit. Try again later."),
    ],
)
def test_a_reached_usage_limit_is_final(ask: Ask, more: dict[str, Any], text: str) -> None:
    body = refusal("usage_limit_reached", "The usage limit has been reached", **more)
    assert facts(ask([fault(429, body=body)]).error) == (text, False, None, "usage_limit_exceeded")


def test_a_reached_usage_limit_names_the_time_of_its_end(ask: Ask) -> None:
    body = refusal("usage_limit_reached", "The usage limit has been reached", plan_type="pro", resets_at=4_102_488_000)
    start = "You’ve hit your usage limit. Visit https://chatgpt.com/settings/usage to purchase more credits or try again at "
    assert ask([fault(429, body=body)]).error.fact.startswith(start + "Jan 1st, 2100 ")


@pytest.mark.parametrize(
    ("code", "text", "info"),
    [
        ("insufficient_quota", "Quota exceeded. Check your plan and billing details.", "usage_limit_exceeded"),
        (
            "usage_not_included",
            "To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus.",
            "usage_limit_exceeded",
        ),
        ("context_length_exceeded", CONTEXT, "context_window_exceeded"),
        (
            "server_is_overloaded",
            "Selected model is at capacity. Please try a different model.",
            "server_overloaded",
        ),
        ("invalid_prompt", "as the server says", "bad_request"),
        ("cyber_policy", "as the server says", "cyber_policy"),
    ],
)
def test_a_response_that_fails_for_good_is_final(ask: Ask, code: str, text: str, info: str) -> None:
    outcome = ask([fault(failed={"code": code, "message": "as the server says"})])
    assert facts(outcome.error) == (text, False, None, info)


@pytest.mark.parametrize(
    "error",
    [
        {"message": "The image data you provided does not represent a valid image. Check it."},
        {"code": "invalid_base64_image", "message": "no"},
        {"message": "Could not process image"},
    ],
)
def test_an_image_that_the_server_refuses_has_an_error_of_its_own(ask: Ask, error: dict[str, str]) -> None:
    text = "Invalid image in your last message. Please remove it and try again."
    for refused in (fault(400, body={"error": error}), fault(failed=error)):
        found = ask([refused]).error
        assert (facts(found), found.slug) == ((text, False, None, "bad_request"), INVALID_IMAGE)
    assert ask([fault(403, body={"error": error})]).error.slug != INVALID_IMAGE


def test_an_exhausted_quota_is_final_as_a_status_too(ask: Ask) -> None:
    outcome = ask([fault(429, headers={"retry-after": "1"}, body=refusal("insufficient_quota", "You exceeded it."))])
    text = "Quota exceeded. Check your plan and billing details."
    assert facts(outcome.error) == (text, False, None, "usage_limit_exceeded")


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 1.2s.", 1.2),
        ("Please try again in 28ms.", 0.028),
        ("Try again in 35 seconds.", 35.0),
        ("Later.", None),
    ],
)
def test_a_rate_limit_within_a_stream_says_how_long_to_wait(ask: Ask, message: str, seconds: float | None) -> None:
    outcome = ask([fault(failed={"code": "rate_limit_exceeded", "message": message})])
    assert facts(outcome.error) == (f"rate limit exceeded: {message}", True, seconds, DISCONNECTED)


def test_any_other_failed_response_can_be_asked_for_again(ask: Ask) -> None:
    outcome = ask([say("x") + fault(failed={"code": "server_error", "message": "oops"})])
    assert facts(outcome.error) == ("stream disconnected before completion: oops", True, None, DISCONNECTED)


def test_a_failed_response_may_say_when_to_ask_again_or_nothing_but_a_code(ask: Ask) -> None:
    waits = ask([fault(failed={"code": "server_error", "message": "Busy, try again in 3s."})]).error
    assert (waits.retryable, waits.retry_after_s) == (True, 3.0)
    only = ask([fault(failed={"code": "server_error"})]).error
    assert only.fact == "stream disconnected before completion: server_error"


def test_an_error_event_counts_as_a_failed_response(ask: Ask) -> None:
    event = 'data: {"type":"error","error":{"code":"context_length_exceeded","message":"too long"}}\n\n'
    assert ask([fault(raw_before=event)]).error.fact == CONTEXT


@pytest.mark.parametrize("kind", ["incomplete", "failed"])
@pytest.mark.parametrize("details", [{"cached_tokens": 3}, None, [1]])
def test_the_tokens_of_a_failed_response_are_counted(ask: Ask, kind: str, details: Any) -> None:
    usage = {"input_tokens": 11, "input_tokens_details": details, "output_tokens": 7, "total_tokens": 18}
    event = {"type": f"response.{kind}", "response": {"usage": usage}}
    error = ask([fault(raw_before=sse_event(event).decode())]).error
    assert error.usage == TokenUsage(11, 3 if isinstance(details, dict) else 0, 7, 0, 18)


def test_an_incomplete_response_names_the_reason(ask: Ask) -> None:
    error = ask([fault(incomplete="max_output_tokens")]).error
    assert facts(error) == ("Incomplete response returned, reason: max_output_tokens", False, None, "other")
    again = ask([fault(incomplete="content_filter")]).error
    told = "stream disconnected before completion: Incomplete response returned, reason: content_filter"
    assert facts(again) == (told, True, None, DISCONNECTED)


@pytest.mark.parametrize(
    ("status", "phrase", "message", "info"),
    [
        (401, "401 Unauthorized", "Incorrect API key provided: sk-mock-000.", "unauthorized"),
        (403, "403 Forbidden", "Country not supported", {"http_connection_failed": {"http_status_code": 403}}),
        (422, "422 Unprocessable Entity", "No.", {"http_connection_failed": {"http_status_code": 422}}),
    ],
)
def test_a_refusal_is_final(ask: Ask, status: int, phrase: str, message: str, info: Any) -> None:
    outcome = ask([fault(status, body=refusal("invalid_request_error", message))], request_max_retries=3)
    error, url = outcome.error, f"{outcome.server.url}/responses"
    assert error.fact.startswith(f"unexpected status {phrase}")
    assert error.fact.endswith(f": {message}, url: {url}")
    assert (error.retryable, error.info) == (False, info)
    assert len(outcome.server.requests) == 1


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ({}, "The request had no key. Set env_key or auth of the model provider 'mock'."),
        ({"experimental_bearer_token": "sk-mock-000"}, "Check the key of the model provider 'mock'."),
        ({"http_headers": {"Authorization": "x"}}, "Check the key of the model provider 'mock'."),
        ({"http_headers": {"api-key": "x"}}, "Check the key of the model provider 'mock'."),
        ({"env_http_headers": {"api-key": "NONE"}}, "Check the key of the model provider 'mock'."),
    ],
)
def test_a_key_that_is_refused_is_told_with_what_to_do(ask: Ask, table: dict[str, Any], hint: str) -> None:
    assert ask([fault(401, body=refusal("invalid_api_key", "No."))], **table).error.hint == hint


def test_a_server_that_has_moved_is_told_with_its_new_address(ask: Ask) -> None:
    error = ask([fault(308, headers={"location": "https://user:secret@new.example/v1/responses?key=secret"})]).error
    assert error.fact.startswith("unexpected status 308 Permanent Redirect: ")
    assert "https://new.example/v1/responses" in error.hint
    assert "secret" not in error.hint


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("<!DOCTYPE html>\n<html><head><title>502 Bad\n Gateway</title>", "a web page, '502 Bad Gateway'"),
        ("<html><style>p {}</style><h1>Down <b>for</b> &amp; now</h1>", "a web page, 'Down for & now'"),
        ("<HTML><script>x<y</script> Sorry", "a web page, 'Sorry'"),
        ("<html></html>", "a web page"),
        ("<html><title>" + "x" * 2000, f"a web page, '{'x' * 100}'"),
    ],
)
def test_of_a_web_page_only_the_title_is_shown(ask: Ask, page: str, shown: str) -> None:
    outcome = ask([fault(502, body=page)], request_max_retries=0)
    url = f"{outcome.server.url}/responses"
    assert outcome.error.fact == f"unexpected status 502 Bad Gateway: {shown}, url: {url}"


def test_a_response_with_an_encoding_that_was_not_asked_for_is_told_as_such(ask: Ask) -> None:
    error = ask([fault(200, headers={"content-encoding": "br"}, body="x")]).error
    assert error.fact == "the server of the model provider 'mock' compressed its response (br), which was not asked for"
    assert (error.slug, error.retryable) == ("not-a-response", False)


def test_a_response_that_says_that_it_is_not_compressed_is_read(ask: Ask) -> None:
    assert ask([say("hi").evolve(headers={"content-encoding": "identity"})]).events


def test_a_compressed_refusal_is_told_with_its_status(ask: Ask) -> None:
    outcome = ask([fault(403, headers={"content-encoding": "br"}, body="\x00\x01")])
    assert outcome.error.fact == f"unexpected status 403 Forbidden: Unknown error, url: {outcome.server.url}/responses"


@pytest.mark.parametrize(
    ("error", "slug", "retryable"),
    [
        (
            {"message": "no such model", "type": "invalid_request_error", "code": "model_not_found"},
            "bad-request",
            False,
        ),
        ({"message": "bad key", "code": "invalid_api_key"}, "unexpected-status", False),
        ({"message": "no right", "type": "permission_error"}, "bad-request", False),
        ({"message": "wrong", "type": "BadRequestError"}, "bad-request", False),
        ({"message": "not there", "type": "not_found_error"}, "not-found", False),
        ({"message": "not there", "code": "model_not_found"}, "not-found", False),
        ({"message": "later", "code": 409}, "stream-disconnected", True),
        ({"message": "later", "code": "503"}, "stream-disconnected", True),
        ({"message": "wrong", "code": "422"}, "bad-request", False),
        ({"message": "busy", "type": "overloaded_error"}, "stream-disconnected", True),
        ({"message": "Quota exceeded.", "type": "insufficient_quota"}, "quota", False),
        ({"message": "slower", "type": "rate_limit_error"}, "rate-limit", True),
        ({"message": "slower", "code": "rate_limit"}, "rate-limit", True),
        ({"message": "later", "type": "server_error"}, "stream-disconnected", True),
        ("something", "stream-disconnected", True),
    ],
)
def test_an_error_in_place_of_a_stream_counts_as_the_status_of_its_meaning(
    ask: Ask, error: Any, slug: str, retryable: bool
) -> None:
    found = ask([fault(200, body={"error": error})]).error
    assert (found.slug, found.retryable) == (slug, retryable)
    assert (error if isinstance(error, str) else error["message"]) in found.fact
    word = "" if isinstance(error, str) else str(error.get("code") or error.get("type"))
    status = {"409": 409, "503": 503, "overloaded_error": 503}.get(word)
    if status is not None:
        assert found.info == {"response_stream_disconnected": {"http_status_code": status}}


@pytest.mark.parametrize("key", ["code", "type"])
def test_an_error_object_is_known_by_code_or_type(key: str) -> None:
    assert error_of({"message": "m", key: "insufficient_quota"}).slug == "quota"


def test_an_unexpected_status_shows_the_body_and_where_it_came_from(ask: Ask) -> None:
    headers = {"cf-ray": "ray-1", "x-request-id": "req_1"}
    outcome = ask([fault(403, headers=headers, body="x" * 2000)])
    url = f"{outcome.server.url}/responses"
    shown = "x" * 1000
    assert (
        outcome.error.fact == f"unexpected status 403 Forbidden: {shown}, url: {url}, cf-ray: ray-1, request id: req_1"
    )


def test_a_bad_request_shows_the_body_as_it_is(ask: Ask) -> None:
    body = refusal("invalid_request_error", "Unsupported parameter: 'foo'.")
    assert facts(ask([fault(400, body=body)]).error) == (json.dumps(body), False, None, "bad_request")


def test_a_bad_request_because_of_its_length_says_so(ask: Ask) -> None:
    assert ask([fault(400, body=refusal("context_length_exceeded", "too long"))]).error.fact == CONTEXT


def test_an_unknown_model_is_told_in_the_servers_words(ask: Ask) -> None:
    body = refusal("model_not_found", "The model `x` does not exist")
    assert facts(ask([fault(404, body=body)]).error) == ("The model `x` does not exist", False, None, "bad_request")


def test_a_404_that_says_nothing_shows_the_url(ask: Ask) -> None:
    outcome = ask([fault(404, body="<html>nope</html>")])
    url = f"{outcome.server.url}/responses"
    assert outcome.error.fact == f"unexpected status 404 Not Found: a web page, 'nope', url: {url}"
    assert outcome.error.hint == "Check base_url of the model provider 'mock': /responses is added to it."
    assert not outcome.error.retryable


def test_a_failing_server_is_asked_again_at_once(ask: Ask) -> None:
    outcome = ask([fault(500), fault(503, headers={"retry-after": "0"}), say("hi")], request_max_retries=2)
    assert len(outcome.events) == 4
    assert len(outcome.server.requests) == 3
    first, second, _ = outcome.server.requests
    assert second.received_at - first.received_at >= 0.18
    assert first.body == second.body


def test_retry_after_is_waited_for_between_requests(ask: Ask) -> None:
    outcome = ask([fault(503, headers={"retry-after": "0.5"}), say("hi")], request_max_retries=1)
    first, second = outcome.server.requests
    assert second.received_at - first.answered_at >= 0.45  # the server looks at its clock after it has answered


def test_a_long_pause_is_left_to_the_turn_which_can_tell_about_it(ask: Ask) -> None:
    for pause in ("6", "3600"):
        outcome = ask([fault(500, headers={"retry-after": pause})], request_max_retries=4)
        assert facts(outcome.error) == (HIGH_DEMAND, True, float(pause), "internal_server_error")
        assert len(outcome.server.requests) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "86400"},
        {"retry-after": "-1"},
        {"retry-after": "nan"},
        {"retry-after": "inf"},
        {"retry-after-ms": "86400000"},
        {"retry-after": "Fri, 31 Dec 2126 23:59:59 GMT"},
        {"retry-after": "soon"},
    ],
    ids=str,
)
def test_a_pause_of_a_day_or_more_or_of_no_sense_is_not_waited_for(headers: dict[str, str]) -> None:
    assert retry_after(headers) is None


def test_a_pause_below_a_day_counts_in_every_form() -> None:
    assert retry_after({"retry-after": "86399"}) == 86399.0
    assert retry_after({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0


@pytest.mark.parametrize("status", [400, 403, 503])
def test_a_known_code_counts_with_the_statuses_that_codex_knows_it_by(ask: Ask, status: int) -> None:
    outcome = ask([fault(status, body=refusal("server_is_overloaded", "busy"))], request_max_retries=0)
    assert facts(outcome.error)[3] == "server_overloaded"


@pytest.mark.parametrize("status", [401, 404, 422, 500, 502])
def test_a_known_code_says_nothing_with_another_status(ask: Ask, status: int) -> None:
    outcome = ask([fault(status, body=refusal("server_is_overloaded", "busy"))] * 2, request_max_retries=0)
    assert outcome.error.info != "server_overloaded"


def test_a_server_that_goes_on_failing_is_for_the_turn_to_try_again(ask: Ask) -> None:
    outcome = ask([fault(500, body=refusal("server_error", "boom"))] * 3, request_max_retries=2)
    assert facts(outcome.error) == (HIGH_DEMAND, True, None, "internal_server_error")
    assert len(outcome.server.requests) == 3


def test_an_overloaded_server_is_asked_again_only_with_the_retries_of_requests(ask: Ask) -> None:
    busy = fault(503, body=refusal("server_is_overloaded", "x"))
    outcome = ask([busy, busy], request_max_retries=1)
    assert outcome.error.info == "server_overloaded"
    assert not outcome.error.retryable
    assert len(outcome.server.requests) == 2
    assert ask([busy, say("Hi.")], request_max_retries=1).events


def test_a_gateway_that_fails_is_told_with_its_status(ask: Ask) -> None:
    outcome = ask([fault(502, body="<html>bad</html>")])
    url = f"{outcome.server.url}/responses"
    assert outcome.error.fact == f"unexpected status 502 Bad Gateway: a web page, 'bad', url: {url}"
    assert outcome.error.retryable


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_unreachable_server_is_told_with_its_url(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://{host}:{free.getsockname()[1]}/v1"

    async def run() -> ModelError:
        info = ProviderInfo(id="mock", base_url=url, request_max_retries=1)
        client = ResponsesProvider().open(info, {})
        with pytest.raises(ModelError) as caught:
            async for _ in client.stream(model_request()):
                pass
        await client.aclose()
        return caught.value

    error = asyncio.run(run())
    assert error.fact == f"Connection failed: error sending request for url ({url}/responses): Connection refused"
    assert (error.retryable, error.slug) == (True, "unreachable")
    assert error.hint


def test_a_server_that_speaks_something_else_is_told(env: dict[str, str]) -> None:
    import threading

    def speak(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=speak, args=(listener,))
        thread.start()

        async def run() -> ModelError:
            info = ProviderInfo(
                id="mock", base_url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1", request_max_retries=0
            )
            client = ResponsesProvider().open(info, env)
            with pytest.raises(ModelError) as caught:
                async for _ in client.stream(model_request()):
                    pass
            await client.aclose()
            return caught.value

        error = asyncio.run(run())
        thread.join()
    assert error.slug == "unreachable"


# What URLs keep secret

SECRET = "s3cret+value"
ESCAPED = "s3cret%2Bvalue"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 429, 500, 503])
@pytest.mark.parametrize("url", ["http://me:{0}@127.0.0.1:{1}/v1?sig={0}", "http://127.0.0.1:{1}/v1"])
def test_a_refusal_shows_neither_login_nor_query(status: int, url: str) -> None:
    """The server repeats the request's URL in its answer, as many do."""
    echo = f"cannot POST /v1/responses?sig={ESCAPED}&key={ESCAPED} for me:{SECRET} ({SECRET})"
    for body in (
        echo,
        json.dumps({"error": {"message": echo, "code": "other"}}),
        json.dumps({"error": {"message": echo}}),
    ):
        head = f"HTTP/1.1 {status} Refused\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        with Speaking([head.encode() + body.encode()], 0) as plain:
            port = plain.rpartition(":")[2].removesuffix("/v1")
            error = refused_by(url.format(ESCAPED, port))
        told = f"{error} {error.hint}"
        assert "s3cret" not in told
        assert status in (429, 500, 503, 400) or "cannot POST" in told


@pytest.mark.parametrize(
    "url",
    [
        f"http://me:{ESCAPED}@127.0.0.1:1/v1?sig={ESCAPED}",
        f"https://me:{ESCAPED}@127.0.0.1:1/v1?sig={ESCAPED}",
        f"ftp://me:{SECRET}@host/v1?sig={SECRET}",
        f"https://me:{SECRET}@[::1/v1?sig={SECRET}",
        f"https://me:{SECRET}/é@host/v1?sig={SECRET}",
        f"https://me:{SECRET}@host:port/v1?sig={SECRET}",
        f"me:{SECRET}@host/v1?sig={SECRET}",
    ],
)
def test_a_server_that_cannot_be_reached_is_named_without_login_and_query(url: str) -> None:
    error = refused_by(url)
    assert "s3cret" not in f"{error} {error.hint}"
    assert "127.0.0.1" in str(error) or "base_url" in str(error)


@pytest.mark.parametrize(
    ("url", "text", "shown"),
    [
        ("https://anne@host/v1", "for anne@host", "for (hidden)@host"),
        ("https://ann:long-password@host/v1", "ann long-password", "ann (hidden)"),
        ("https://h/v1?sig=a%2Bbc&n=1", "sig=a%2Bbc&n=1", "(hidden)"),
        ("https://h/v1?sig=a%2Bbc&n=1", "a+bc and a%2Bbc, n 1", "(hidden) and (hidden), n 1"),
        ("https://h/v1?sig=a+b%2Fc", "'a b/c' a%20b%2Fc", "'(hidden)' (hidden)"),
        ("https://h/v1?short=abcd&long=abcd-efgh", "abcd-efgh abcd", "(hidden) (hidden)"),
        ("https://u%40home:p@host/v1", "u%40home u@home p", "(hidden) (hidden) p"),
        ("https://[host/v1?x", "https://[host/v1?x is wrong", "(hidden) is wrong"),
    ],
)
def test_faults_hide_what_a_url_keeps_secret(url: str, text: str, shown: str) -> None:
    """Also without the filter of a client, which knows the other credentials as well."""
    assert unreachable(url, text).fact.endswith(f": {shown}")
    error = status_error(418, "", {}, text.encode(), url)
    assert f": {shown}, url: " in error.fact


def status(number: int, body: Any = "", **headers: str) -> ModelError:
    data = body if isinstance(body, str) else json.dumps({"error": body})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status_error(number, "", named, data.encode(), "https://host/v1")


@pytest.mark.parametrize("code", ["server_is_overloaded", "slow_down"])
def test_an_overloaded_server_asks_for_another_model_and_for_no_wait(code: str) -> None:
    error = status(503, {"code": code}, retry_after="5")
    assert (error.slug, error.info, error.retryable, error.retry_after_s) == (
        "overloaded",
        "server_overloaded",
        False,
        None,
    )


@pytest.mark.parametrize("key", ["type", "code"])
@pytest.mark.parametrize(
    ("kind", "slug"),
    [("usage_limit_reached", "usage-limit"), ("insufficient_quota", "quota"), ("usage_not_included", "usage-limit")],
)
def test_what_is_used_up_is_told_by_type_or_code(key: str, kind: str, slug: str) -> None:
    error = status(429, {key: kind, "message": "m"}, retry_after="5")
    assert (error.slug, error.info, error.retryable) == (slug, "usage_limit_exceeded", False)


@pytest.mark.parametrize(
    ("number", "retryable"),
    [
        *((number, False) for number in (401, 402, 405, 422)),
        *((number, True) for number in (408, 409, 425, 500, 501, 502, 503, 504, 599)),
    ],
)
def test_statuses_say_whether_a_retry_can_help_and_when(number: int, *, retryable: bool) -> None:
    error = status(number, {"message": "m"}, retry_after="7")
    assert (error.retryable, error.retry_after_s) == (retryable, 7.0)
    assert error.info == (
        "internal_server_error"
        if number == 500
        else "unauthorized"
        if number == 401
        else {"http_connection_failed": {"http_status_code": number}}
    )


def test_a_forbidden_request_is_not_one_without_a_key() -> None:
    assert status(403, {"message": "m"}).info == {"http_connection_failed": {"http_status_code": 403}}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "m"}}, "m"),
        ({"error": "m"}, "m"),
        ({"object": "error", "message": "m", "code": 409}, "m"),
        ({"message": "m"}, '{"message": "m"}'),
        ("[" * 100_000, "[" * 1000),
    ],
)
def test_error_objects_of_all_servers_are_read(body: Any, message: str) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    assert status(409, text).fact == f"unexpected status 409 Conflict: {message}, url: https://host/v1"


@pytest.mark.parametrize(
    "moment", ["Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "soon", ""]
)
def test_a_date_that_is_none_is_no_pause(moment: str) -> None:
    assert retry_after({"retry-after": moment}) is None


def test_a_date_that_has_passed_is_no_wait() -> None:
    assert retry_after({"retry-after": "Mon, 01 Jan 2024 00:00:00 GMT"}) == 0.0
    assert retry_after({"retry-after": "0"}) == 0.0


@pytest.mark.parametrize(
    ("number", "message", "expected"),
    [
        (500, "m", ("the model server failed: m", True, "internal_server_error")),
        (500, "", None),
        (400, "m", ("m", False, "bad_request")),
        (400, "", None),
        (401, "m", ("the model server refuses the key: m", False, "unauthorized")),
        (401, "", ("the model server refuses the key: 401 Unauthorized", False, "unauthorized")),
        (403, "m", ("the model server refuses the key: m", False, "unauthorized")),
        (404, "", ("the model server has nothing at this address (404 Not Found)", False, "bad_request")),
        (404, "m", None),
        (None, "m", None),
        (503, "m", None),
    ],
)
def test_plain_refusals_of_other_apis(number: int | None, message: str, expected: Any) -> None:
    error = plain_refusal(number, message, "/x")
    assert (None if error is None else (error.fact, error.retryable, error.info)) == expected


def refused_by(url: str) -> ModelError:
    """What is told of a request to this URL; the table has a secret in its query as well."""
    info = ProviderInfo(id="p", name="p", base_url=url, query_params={"key": SECRET}, request_max_retries=0)

    async def ask() -> None:
        client = ResponsesProvider().open(info, {})
        try:
            async for _ in client.stream(model_request()):
                pass
        finally:
            await client.aclose()

    with pytest.raises(ModelError) as caught:
        asyncio.run(ask())
    return caught.value
