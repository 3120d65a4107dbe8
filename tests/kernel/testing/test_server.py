"""The loopback server that other tests lean on."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import call, fault, say
from codex_framework.testing.server import RecordedRequest, ResponsesServer


def post(url: str, body: Any = None) -> str:
    request = urllib.request.Request(f"{url}/responses", json.dumps(body or {}).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


def kinds(stream: str) -> list[str]:
    return [line.removeprefix("event: ") for line in stream.split("\n") if line.startswith("event: ")]


def test_it_answers_in_order_and_remembers_what_it_was_asked() -> None:
    with ResponsesServer([say("one"), call("f", {"a": 1})]) as server:
        first, second = post(server.url, {"input": [1]}), post(server.url, {"input": [2]})
    assert kinds(first) == [
        "response.created",
        "response.output_item.added",
        "response.output_text.delta",
        "response.output_item.done",
        "response.completed",
    ]
    assert '"arguments":"{\\"a\\": 1}"' in second
    assert [request.json for request in server.requests] == [{"input": [1]}, {"input": [2]}]
    assert [(request.method, request.path, request.connection) for request in server.requests] == [
        ("POST", "/v1/responses", 1),
        ("POST", "/v1/responses", 2),
    ]
    assert all(request.received_at < request.answered_at for request in server.requests)


def test_a_reply_may_depend_on_the_request() -> None:
    def echo(request: RecordedRequest) -> Any:
        return say(f"you sent {len(request.body)} bytes to {request.headers['host']}")

    with ResponsesServer([echo]) as server:
        assert f"you sent 2 bytes to 127.0.0.1:{server.url.split(':')[2][:-3]}" in post(server.url)


def test_a_request_too_many_is_refused_and_named() -> None:
    with ResponsesServer([say("only")]) as server:
        post(server.url)
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(server.url)
        with caught.value as answer:
            assert json.loads(answer.read()) == {
                "error": {"message": "the script has 1 replies, and this is request 2", "code": "script-ended"}
            }


def test_the_last_reply_may_go_on_for_ever() -> None:
    with ResponsesServer([say("a"), say("b")], repeat_last=True) as server:
        answers = [post(server.url) for _ in range(4)]
    assert ['"text":"b"' in answer for answer in answers] == [False, True, True, True]
    assert ["resp_4" in answer for answer in answers] == [False, False, False, True]


def test_other_paths_are_not_answered_from_the_script() -> None:
    with ResponsesServer([say("a")]) as server:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{server.url}/models", timeout=60)
        with caught.value as answer:
            assert answer.status == 404
        assert server.requests == []


def test_a_status_comes_with_its_headers_and_body() -> None:
    with ResponsesServer([fault(429, headers={"Retry-After": "3"}, body={"error": {"code": "slow"}})]) as server:
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(server.url)
        with caught.value as answer:
            assert (answer.status, answer.headers["retry-after"]) == (429, "3")
            assert json.loads(answer.read()) == {"error": {"code": "slow"}}


def test_a_cut_stream_ends_without_its_last_chunk() -> None:
    with (
        ResponsesServer([say("hello", deltas=5) + fault(after=3)]) as server,
        pytest.raises(http.client.IncompleteRead) as caught,
    ):
        post(server.url)
    assert kinds(caught.value.partial.decode()) == [
        "response.created",
        "response.output_item.added",
        "response.output_text.delta",
    ]


def test_a_reset_is_a_reset() -> None:
    with ResponsesServer([say("hello") + fault(after=0, reset=True)]) as server, pytest.raises(ConnectionResetError):
        post(server.url)


def test_stopping_ends_silences_and_idle_connections() -> None:
    server = ResponsesServer([fault(hang_s=60), say("a")]).start()
    port = int(server.url.split(":")[2][:-3])
    with socket.create_connection(("127.0.0.1", port)) as idle, socket.create_connection(("127.0.0.1", port)) as asking:
        asking.sendall(b"POST /v1/responses HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
        server.wait_for(1)
        server.stop()
        server.stop()
        assert asking.recv(100) == b""
        assert idle.recv(100) == b""


def test_waiting_for_a_request_that_does_not_come_ends() -> None:
    with ResponsesServer([]) as server, pytest.raises(TimeoutError, match="0 of 1 requests"):
        server.wait_for(1, timeout_s=0.05)


def test_it_runs_as_a_process_of_its_own(tmp_path: Path) -> None:
    script, log = tmp_path / "script.toml", tmp_path / "log.jsonl"
    script.write_text('[[responses]]\nsay = "hi"\nrepeat = 2\n')
    command = [
        sys.executable,
        "-m",
        "codex_framework.testing.server_process",
        "--script",
        str(script),
        "--log",
        str(log),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        started = json.loads(process.stdout.readline())
        assert started["pid"] == process.pid
        assert '"text":"hi"' in post(started["url"])
        assert '"text":"hi"' in post(started["url"])
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["request"], line["connection"], line["bytes"]) for line in lines] == [(1, 1, 2), (2, 2, 2)]


def test_a_process_with_a_wrong_script_says_what_is_wrong(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "codex_framework.testing.server_process", "--script", str(tmp_path / "none.toml")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert run.returncode == 1
    assert "none.toml cannot be read" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (b"GARBAGE\r\n\r\n", "the request begins with 'GARBAGE', not with METHOD PATH HTTP/1.1"),
        (b"POST /v1/responses HTTP/1.1\r\nno colon\r\n\r\n", "the header 'no colon' has no colon"),
        (
            b"POST /v1/responses HTTP/1.1\r\ncontent-length: two\r\n\r\n{}",
            "content-length is 'two', not a number of bytes",
        ),
        (
            b"POST /v1/responses HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            "a chunk begins with b'zz', not with its size",
        ),
    ],
)
def test_a_client_that_speaks_no_http_is_told_why(request_: bytes, told: str) -> None:
    with ResponsesServer([say("a")]) as server:
        port = int(server.url.split(":")[2].removesuffix("/v1"))
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(request_)
            answer = b"".join(iter(lambda: connection.recv(10_000), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert json.loads(body) == {"error": {"message": told}}
    assert not server.requests


def test_a_body_may_come_in_chunks() -> None:
    with ResponsesServer([say("a"), say("b")]) as server:
        port = int(server.url.split(":")[2].removesuffix("/v1"))
        with socket.create_connection(("127.0.0.1", port)) as connection:
            head = b"POST /v1/responses HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
            connection.sendall(head + b'6\r\n{"a": \r\n2;x=y\r\n1}\r\n0\r\n\r\n' + head + b"2\r\n{}\r\n0\r\n\r\n")
            server.wait_for(2)
    assert [request.json for request in server.requests] == [{"a": 1}, {}]
