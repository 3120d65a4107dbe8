"""Servers that make a short reply long: in bytes, or in time."""

from __future__ import annotations

import gzip
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from codex_framework import ModelError, ProviderInfo
from codex_lib_model_client.credentials import Access
from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.issuer import request
from codex_lib_model_client.small_replies import fetch, run_alone
from codex_plugin_local_models.server import LocalServer
from codex_plugin_models import refreshing

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@contextmanager
def serving(*pieces: bytes, pause_s: float = 0.0) -> Iterator[tuple[str, list[bytes]]]:
    """A server that sends these pieces to everyone, with pauses between them, and what it was asked."""
    asked: list[bytes] = []
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while not over.is_set():
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    asked.append(client.recv(65536))
                    try:
                        for piece in pieces:
                            client.sendall(piece)
                            if pause_s and over.wait(pause_s):
                                break
                    except OSError:
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        over.set()
        server.shutdown(socket.SHUT_RDWR)
    thread.join(60)


def ask_models(url: str) -> object:
    return refreshing.fetch(ProviderInfo(id="here", base_url=f"{url}/v1"), Access("sk-1"))


ASKING: dict[str, Callable[[str], object]] = {
    "issuer": lambda url: request("GET", url).content,
    "local server": lambda url: LocalServer(f"{url}/v1", "Ollama", "").get(url),
    "download": lambda url: run_alone(anext(LocalServer(f"{url}/v1", "Ollama", "").lines(url, {}))),  # type: ignore[arg-type]
    "models": ask_models,
}


@pytest.mark.parametrize("name", ASKING)
def test_a_compressed_reply_is_not_asked_for_and_refused(name: str) -> None:
    small = gzip.compress(gzip.compress(b'{"a": "' + b" " * 100_000 + b'"}\n'))
    head = HEAD + b"content-encoding: gzip, gzip\r\ncontent-length: %d\r\n\r\n" % len(small)
    with serving(head, small) as (url, asked), pytest.raises(ModelError) as caught:
        ASKING[name](url)
    assert "ValueError" in caught.value.fact
    assert b"accept-encoding: identity" in asked[0].lower()


@pytest.mark.parametrize("slow", ["head", "body"])
@pytest.mark.parametrize("name", ["issuer", "local server", "models"])
def test_a_reply_that_comes_byte_by_byte_has_a_time_limit(
    name: str, slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refreshing, "_TIMEOUT_S", 0.3)
    monkeypatch.setattr("codex_plugin_local_models.server._TIMEOUT_S", 0.3)
    asking: dict[str, Callable[[str], object]] = {**ASKING, "issuer": lambda url: request("GET", url, timeout_s=0.3)}
    ask = asking[name]
    whole = HEAD + b"content-length: 1000\r\n\r\n" + b" " * 1000
    sent = (HEAD, b"content-length: 400\r\n\r\n") if slow == "body" else ()
    drip = [whole[number : number + 1] for number in range(400)]
    started = time.monotonic()
    pieces = (*sent, *(b" " if sent else each for each in drip))
    with serving(*pieces, pause_s=0.1) as (url, _), pytest.raises(ModelError) as caught:
        ask(url)
    assert "TimeoutError" in caught.value.fact
    assert time.monotonic() - started < 20, "every byte alone comes in time: all of them take 40 s"
    assert not isinstance(caught.value, LoginError) or caught.value.retryable


def test_a_reply_that_is_too_long_is_not_read_to_its_end() -> None:
    with serving(HEAD, b"\r\n", *([b"x" * 1000] * 100)) as (url, _):
        reply = run_alone(fetch("GET", url, timeout_s=10, max_bytes=1500, local=True))
        whole = run_alone(fetch("GET", url, timeout_s=10, max_bytes=100_000, local=True))
    assert (reply.status, reply.data) == (200, None)
    assert whole.data == b"x" * 100_000


_ENDING = """
import asyncio, os, threading, time
from codex_lib_model_client import small_replies
from codex_lib_model_client.small_replies import run_until_exit

small_replies._END_S = 1000  # the end waits until the work has stopped, and no longer

async def work():
    entered.set()
    time.sleep(0.3)  # as within OpenSSL
    os.write(1, b"left\\n")  # print() of a daemon thread can crash at the end
    try:
        await asyncio.sleep(100)
    finally:
        os.write(1, b"closed\\n")

def run():
    try:
        run_until_exit(work())
    except asyncio.CancelledError:
        pass

entered = threading.Event()
threading.Thread(target=run, daemon=True).start()
entered.wait()
"""

_TOO_LATE = """
import asyncio, atexit, os, threading

def begin():
    ending.set()
    thread.join(20)
    os.write(1, b"over\\n")

def run():
    ending.wait()
    try:
        run_until_exit(work())
    except asyncio.CancelledError:
        os.write(1, b"cancelled\\n")

async def work():
    os.write(1, b"begun\\n")

atexit.register(begin)  # the first handler is called last
from codex_lib_model_client.small_replies import run_until_exit
ending = threading.Event()
thread = threading.Thread(target=run, daemon=True)
thread.start()
"""

_ENDED = """
import asyncio, threading
from concurrent.futures import ThreadPoolExecutor
from codex_lib_model_client import small_replies
from codex_lib_model_client.small_replies import run_until_exit

async def work():
    return 5

def fail():
    try:
        run_until_exit(wrong())
    except ZeroDivisionError:
        print("raised", flush=True)

async def wrong():
    return 1 / 0

print(run_until_exit(work()))
thread = threading.Thread(target=fail, daemon=True)
thread.start()
thread.join()
with ThreadPoolExecutor(thread_name_prefix="own") as own:
    print(run_until_exit(asyncio.to_thread(lambda: threading.current_thread().name), executor=own))
print(small_replies._exit._runs)
"""


@pytest.mark.parametrize(
    ("program", "told"),
    [(_ENDING, "left\nclosed\n"), (_TOO_LATE, "cancelled\nover\n"), (_ENDED, "5\nraised\nown_0\n[]\n")],
)
def test_the_end_of_a_program_cancels_requests_of_daemon_threads_and_waits_for_them(program: str, told: str) -> None:
    """OpenSSL frees what it has at the end, which crashes threads that use it."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(told)
