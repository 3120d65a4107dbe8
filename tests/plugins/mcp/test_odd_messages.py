"""Messages of servers that differ from the specification, and have only one meaning."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from codex_framework.testing import call, say
from codex_plugin_mcp.transports import stdio
from codex_plugin_mcp.transports.stdio import _Messages
from codex_plugin_mcp.transports.transport import read_messages, whole_number
from tests.plugins.mcp.http_server import McpServer, Reply, event, events
from tests.plugins.mcp.test_http import call as call_over_http
from tests.plugins.mcp.test_http import connected

ANSWER = {"jsonrpc": "2.0", "id": 5, "result": {"a": "ü"}}
TEXT = json.dumps(ANSWER, ensure_ascii=False)


@pytest.mark.parametrize(
    "data",
    [
        f"\ufeff{TEXT}".encode(),
        TEXT.encode("utf-16"),
        TEXT.encode("utf-16-le"),
        f"\r\n \0{TEXT}\0\r\n".encode(),
        json.dumps({**ANSWER, "id": "5"}),
        json.dumps({**ANSWER, "id": 5.0}),
        json.dumps({**ANSWER, "error": None}),
        json.dumps({**ANSWER, "error": {}, "method": None}),
        json.dumps([ANSWER]),
    ],
)
def test_an_answer_is_read_however_it_is_written(data):
    (message,), has_others = read_messages(data)
    assert ((message["id"], message["result"]), has_others) == ((5, {"a": "ü"}), False)
    assert "error" not in message


@pytest.mark.parametrize(
    ("members", "kept"),
    [
        ({"result": None, "error": None}, "result"),
        ({"result": None}, "result"),
        ({"result": None, "error": {}}, "error"),
        ({"error": None}, "error"),
        ({"result": {}, "error": {"message": "no"}}, "error"),
    ],
)
def test_an_answer_is_either_a_result_or_an_error(members, kept):
    (message,), _ = read_messages(json.dumps({"id": 5, **members}))
    assert {"result", "error"} & message.keys() == {kept}


def test_characters_that_are_not_utf_8_are_replaced():
    (message,), _ = read_messages(b'{"id": 1, "result": "caf\xe9\ttab"}')
    assert message["result"] == "caf\ufffd\ttab"
    (message,), _ = read_messages(b'{"id": 1, "result": "caf\xe9"}', "iso-8859-1")
    assert message["result"] == "café"
    (message,), _ = read_messages('{"id": 1, "result": "café"}'.encode(), "no-such-charset")
    assert message["result"] == "café"


@pytest.mark.parametrize("text", [f"{TEXT}{TEXT}", f"{TEXT} \n{TEXT}", f"[{TEXT}, {TEXT}]", f"[{TEXT}][{TEXT}]"])
def test_several_messages_in_a_text_are_all_read(text):
    messages, has_others = read_messages(text)
    assert (len(messages), has_others) == (2, False)


@pytest.mark.parametrize("text", [f"{TEXT} [debug] done", f"[{TEXT}, 7]", f"{TEXT}{{"])
def test_what_stands_beside_a_message_is_known(text):
    messages, has_others = read_messages(text)
    assert (len(messages), has_others) == (1, True)


@pytest.mark.parametrize("text", ["", "Server started", "[info] ready", "7 tools", "{", "\ufeff"])
def test_a_text_without_a_message_is_no_json(text):
    with pytest.raises(json.JSONDecodeError):
        read_messages(text)


def test_a_request_of_a_server_keeps_its_id_and_one_without_an_id_is_a_notification():
    (request, notification), _ = read_messages(
        '[{"id": "5", "method": "ping", "params": null}, {"id": null, "method": "m"}]'
    )
    assert request["id"] == "5"
    assert "id" not in notification


@pytest.mark.parametrize(
    ("value", "number"),
    [("5", 5), ("-32601", -32601), (5.0, 5), (True, None), ("x", None), (5.5, None), ("5" * 99, None)],
)
def test_whole_numbers_are_read_from_numbers_and_strings(value, number):
    assert whole_number(value) == number


def read(*lines: str | bytes) -> tuple[list[dict], list[str]]:
    """Return the messages in the output of a server, and what is told about it."""
    faults: list[str] = []
    messages = _Messages(faults.append)
    texts = [line.encode() if isinstance(line, str) else line for line in lines]
    return [message for text in texts for line in text.split(b"\n") for message in messages.add(line)], faults


ODD = {
    "jsonrpc": "2.0",
    "id": 5,
    "result": {"text": 'a "quoted" }}} ] \\', "more": [{}, {"id": 1, "error": "{[["}, []]},
}


@pytest.mark.parametrize("indent", [0, 1, 4, "\t"])
@pytest.mark.parametrize("value", [ODD, [ODD, {**ODD, "id": 6}]])
def test_a_message_may_extend_over_several_lines(indent, value):
    text = json.dumps(value, indent=indent)
    count = len(value) if isinstance(value, list) else 1
    for lines in ([text], [TEXT, text, TEXT], [f"\ufeff{text}"], [text.replace("\n", "\r\n")]):
        messages, faults = read(*lines)
        assert len(messages) == count + lines.count(TEXT)
        assert faults == []
    assert read(text)[0][0] == ODD


@pytest.mark.parametrize("noise", ["{ starting", "[debug [x", "{", '{"a": {', "[1,"])
def test_what_only_looks_like_the_beginning_of_a_message_is_told_and_ignored(noise):
    messages, faults = read(noise, TEXT, TEXT)
    assert (messages, len(faults)) == ([ANSWER] * 2, 1)


def test_an_answer_that_is_cut_is_an_error_at_once():
    messages, faults = read('{"jsonrpc": "2.0", "id": 5, "result": {"a"')
    assert [(one["id"], "error" in one) for one in messages] == [(5, True)]
    assert len(faults) == 1


def test_lines_that_never_become_a_message_are_bounded(monkeypatch):
    monkeypatch.setattr(stdio, "MAX_MESSAGE_BYTES", 100)
    messages, faults = read("{", *["  [" * 10] * 5)
    assert (messages, len(faults)) == ([], 1)


def test_a_string_without_an_end_is_read_in_one_go():
    line = '"' + '\\"' * 200_000
    messages, faults = read("{", line, "}", TEXT)
    assert (messages, len(faults)) == ([ANSWER], 1)


SERVER = """
import json, sys
def send(text):
    sys.stdout.buffer.write(text.encode() if isinstance(text, str) else text)
    sys.stdout.flush()
OLD = {old}
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    result = {{"initialize": {opening}, "tools/list": {tools}}}.get(method, {{"content": "done"}})
    if number is not None:
        {answer}
"""
OPENING = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
TOOLS = {"tools": [{"name": "work"}]}
PLAIN = 'send(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}) + "\\n")'


@pytest.mark.parametrize(
    ("changes"),
    [
        {"answer": 'send(json.dumps({"jsonrpc": "2.0", "id": str(number), "result": result}) + "\\n")'},
        {"answer": 'send(json.dumps({"id": float(number), "result": result, "error": None, "extra": 1}) + "\\n")'},
        {"answer": 'send(b"\\xef\\xbb\\xbf" + json.dumps({"id": number, "result": result}).encode() + b"\\r\\n")'},
        {"answer": 'send("\\n\\r\\n" + json.dumps([{"id": number, "result": result}]) + " log\\n")'},
        {"answer": 'send(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}, indent=2) + "\\n")'},
        {
            "answer": 'send("{ starting\\n" + json.dumps({"id": number, "result": result}, indent="\\t") + "\\r\\n[x\\n")'
        },
        {"opening": {**OPENING, "capabilities": ["tools"]}},
        {"opening": {**OPENING, "capabilities": {"tools": True}}},
        {"opening": {**OPENING, "capabilities": None}},
        {"opening": {"protocolVersion": "2099-01-01", "capabilities": {"tools": {}}}},
        {"opening": {"protocolVersion": None, "capabilities": {"tools": None, "prompts": None}} | {"capabilities": {}}},
        {"opening": {}},
        {"tools": [{"name": "work"}]},
        {"tools": {"tools": {"work": {"description": "d"}}}},
        {"tools": {**TOOLS, "nextCursor": "", "_meta": None}},
        {"tools": {**TOOLS, "nextCursor": "same"}},
        {"tools": {**TOOLS, "nextCursor": 7}},
        {
            "tools": {
                "tools": [{"name": "work", "description": 5, "annotations": "x", "_meta": [], "icons": None}, None]
            }
        },
    ],
)
def test_a_server_with_odd_habits_is_used(play, tmp_path, changes):
    async def story(thread):
        await thread.turn("go", call("mcp__odd__work"), say("done"))
        return [part.text for part in thread.outputs[0]][1:]

    settings = {"old": None, "opening": OPENING, "tools": TOOLS, "answer": PLAIN, **changes}
    answer = settings.pop("answer")
    file = tmp_path / "odd.py"
    file.write_text(SERVER.format(**{name: repr(value) for name, value in settings.items()}, answer=answer))
    table = f"{{command={json.dumps(sys.executable)}, args=[{json.dumps(str(file))}], required=true}}"
    assert play(story, f"mcp_servers.odd={table}", "mcp_servers.odd.default_tools_approval_mode='approve'") == ["done"]


def reply(body, kind):
    return Reply(200, body, {"content-type": kind})


@pytest.mark.parametrize(
    "answered",
    [
        lambda answer: reply(json.dumps({**answer, "id": str(answer["id"])}).encode(), "application/json"),
        lambda answer: reply(json.dumps({**answer, "id": None}).encode(), "application/json"),
        lambda answer: reply(json.dumps(answer).encode(), "text/plain"),
        lambda answer: reply(json.dumps(answer).encode(), "text/json; charset=latin-1"),
        lambda answer: reply(json.dumps(answer).encode(), "application/vnd.mcp+json"),
        lambda answer: reply(json.dumps(answer).encode(), ""),
        lambda answer: reply(json.dumps(answer).encode("utf-16"), "application/json; charset=utf-16"),
        lambda answer: reply(b"\xef\xbb\xbf" + json.dumps([answer]).encode(), "Application/JSON"),
        lambda answer: reply(event(answer).encode(), "application/json"),
        lambda answer: reply(event(answer).rstrip().encode(), "text/plain"),
        lambda answer: events(event(answer), headers={"content-type": "text/event-stream; charset=utf-8"}),
        lambda answer: events(event({**answer, "id": float(answer["id"])}, event="response")),
        lambda answer: events(event("ping", event="ping"), event([answer]).replace("\n", "\r\n")),
        lambda answer: events(event(answer).rstrip()),
    ],
)
def test_an_answer_over_http_is_read_whatever_it_is_called(answered):
    class Server(McpServer):
        def call(self, request):
            return answered({"jsonrpc": "2.0", "id": request.json["id"], "result": {"content": "done"}})

    async def run():
        async with connected(server.url) as peer:
            return (await call_over_http(peer))["content"]

    with Server() as server:
        assert asyncio.run(run()) == "done"
