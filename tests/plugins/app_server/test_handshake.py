"""The first messages, and messages that are wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from codex_plugin_app_server.methods import METHODS
from codex_plugin_app_server.schema import protocol

HELLO = {"clientInfo": {"name": "probe", "version": "1"}}


def test_method_before_initialize_and_second_initialize_are_refused(home: Any, serving: Callable[..., Any]) -> None:
    home.serve()

    async def run() -> None:
        async with serving() as running:
            client = running.connect()
            assert await client.fail("model/list") == {"code": -32600, "message": "Not initialized"}
            greeting = await client.hello()
            assert greeting["userAgent"].startswith("test/0.171.0 (")
            assert greeting["codexHome"] == str(home.path)
            assert await client.fail("initialize", **HELLO) == {"code": -32600, "message": "Already initialized"}

    asyncio.run(run())


def test_name_of_a_client_must_fit_into_a_header(home: Any, serving: Callable[..., Any]) -> None:
    home.serve()

    async def run() -> None:
        async with serving() as running:
            client = running.connect()
            for name in ("a\r\nb: c", "\x7f"):
                error = await client.fail("initialize", clientInfo={"name": name, "version": "1"})
                assert error["message"].startswith("Invalid clientInfo.name: ")
            await client.call("initialize", clientInfo={"name": "é\t1", "version": "1"})

    asyncio.run(run())


def test_requests_may_follow_initialize_without_waiting_for_its_response(
    home: Any, serving: Callable[..., Any]
) -> None:
    home.serve()

    async def run() -> None:
        async with serving() as running:
            client = running.connect()
            first = client.start("model/list")
            hello = client.start("initialize", **HELLO)
            client.write({"method": "initialized"})
            models = client.start("model/list")
            again = client.start("initialize", **HELLO)
            assert (await client.response(first))["error"]["message"] == "Not initialized"
            assert "result" in await client.response(hello)
            assert (await client.response(models))["result"]["data"]
            assert (await client.response(again))["error"]["message"] == "Already initialized"

    asyncio.run(run())


def test_a_client_that_sends_nothing_more_gets_its_answers(
    home: Any, serving: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    home.serve()
    monkeypatch.setattr("codex_plugin_app_server.connection._LAST_WORDS_S", 60.0)

    async def run() -> None:
        async with serving() as running:
            client = running.connect()
            client.reading.clear()
            numbers = [client.start("initialize", **HELLO), client.start("model/list"), client.start("account/read")]
            client.leave()
            await asyncio.sleep(0.2)  # time to end the connection too early
            client.reading.set()
            for number in numbers:
                assert "result" in await client.response(number)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("thread/read", {}, "Invalid request: missing field `threadId`"),
        ("thread/list", {"limit": "x"}, 'Invalid request: invalid type: string "x", expected u32'),
        ("thread/list", {"limit": -1}, "Invalid request: invalid value: integer `-1`, expected u32"),
        ("thread/list", {"limit": 1 << 32}, "Invalid request: invalid value: integer `4294967296`, expected u32"),
        ("account/logout", {"x": 1}, "Invalid request: invalid type: map, expected unit"),
        ("marketplace/add", {}, "Invalid request: missing field `source`"),
        ("initialize", {}, "Invalid request: missing field `clientInfo`"),
        (
            "command/exec",
            {"command": ["a"], "outputBytesCap": "x"},
            'Invalid request: invalid type: string "x", expected usize',
        ),
        (
            "command/exec",
            {"command": ["a"], "timeoutMs": "x"},
            'Invalid request: invalid type: string "x", expected i64',
        ),
        (
            "thread/read",
            {"threadId": "bad"},
            "invalid thread id: invalid length: expected length 32 for simple format, found 3",
        ),
        (
            "thread/read",
            {"threadId": "x"},
            (
                "invalid thread id: invalid character: expected an optional prefix of `urn:uuid:` "
                "followed by [0-9a-fA-F-], found `x` at 1"
            ),
        ),
        *(
            ("thread/read", {"threadId": text}, f"invalid thread id: {problem}")
            for text, problem in (
                ("0189000-00000-7000-8000-000000000000", "invalid group length in group 0: expected 8, found 7"),
                ("01890000-0000-7000-8000-00000000000", "invalid group length in group 4: expected 12, found 11"),
                ("{0189-0000}", "invalid group count: expected 5, found 2"),
                ("urn:uuid:" + "0" * 32, "invalid group count: expected 5, found 1"),
            )
        ),
        ("thread/read", {"threadId": 5}, "Invalid request: invalid type: integer `5`, expected a string"),
        (
            "thread/start",
            {"sandbox": "nope"},
            (
                "Invalid request: unknown variant `nope`, expected one of "
                "`read-only`, `workspace-write`, `danger-full-access`"
            ),
        ),
        (
            "thread/start",
            {"approvalPolicy": "nope"},
            "Invalid request: unknown variant `nope`, expected one of `untrusted`, `on-request`, `never`, `granular`",
        ),
        ("thread/start", {"sandbox": 5}, "Invalid request: invalid type: integer `5`, expected string or map"),
        ("collaborationMode/list", {}, "collaborationMode/list requires experimentalApi capability"),
    ],
)
def test_wrong_request_gets_codex_error(
    connected: Callable[..., Any], home: Any, method: str, params: Any, message: str
) -> None:
    home.serve()

    async def run() -> None:
        async with connected() as client:
            assert await client.fail(method, **params) == {"code": -32600, "message": message}

    asyncio.run(run())


def test_unknown_and_unsupported_methods_are_named(home: Any, connected: Callable[..., Any]) -> None:
    home.serve()

    async def run() -> None:
        async with connected() as client:
            unknown = await client.fail("no/such")
            assert unknown["code"] == -32600
            assert unknown["message"].startswith(
                "Invalid request: unknown variant `no/such`, expected one of `initialize`"
            )
            assert await client.fail("marketplace/add", source="x") == {
                "code": -32601,
                "message": "marketplace/add is not supported by this server",
            }

    asyncio.run(run())


def test_what_is_no_request_is_ignored(home: Any, connected: Callable[..., Any]) -> None:
    home.serve()

    async def run() -> None:
        async with connected() as client:
            before = len(client.seen)
            for message in (
                "{broken",
                "[" * 100_000,
                "[]",
                "7",
                '\ufeff{"id":5,"method":"model/list","params":{}}',
                '{"id":5,"method":"model/list","params":{"limit":NaN}}',
                '{"id":5,"method":"model/list","params":{"x":' + "[" * 126 + "]" * 126 + "}}",
                {"method": "nope/notify"},
                {"id": 99},
                {"id": 99, "result": {}},
                {"id": "x", "error": {"code": 1, "message": "no"}},
                {"id": None, "method": "model/list"},
                {"id": {}, "method": "model/list"},
                {"id": 1 << 63, "method": "model/list"},
                {"id": -(1 << 63) - 1, "method": "model/list"},
                {"id": "\ud800", "method": "model/list"},
                {"id": 5, "method": 7},
            ):
                client.write(message)
            client.write('{"id":5,"method":"no/such","params":{"x":' + "[" * 125 + "]" * 125 + "}}")
            assert "unknown variant" in (await client.response(5))["error"]["message"]
            assert len(client.seen) == before + 1

    asyncio.run(run())


def test_client_is_spared_notifications_that_it_does_not_want(home: Any, connected: Callable[..., Any]) -> None:
    from codex_framework.testing.replies import say

    home.serve(say("Hello."))

    async def run() -> None:
        unwanted = ["item/agentMessage/delta", "thread/status/changed"]
        async with connected(optOutNotificationMethods=unwanted) as client:
            started = await client.call("thread/start")
            await client.turn(started["thread"]["id"], "hi")
            assert not set(unwanted) & set(client.methods())
            assert "turn/started" in client.methods()

    asyncio.run(run())


def test_table_agrees_with_the_schema() -> None:
    known = protocol()
    params = known.methods("ClientRequest")
    for method in METHODS.values():
        assert method.result in known.definitions
        if method.stability != "v1":
            assert method.params == params[method.name]
            assert (method.stability == "experimental") == (method.name in known.experimental)
