"""A connection that is opened ahead of the first request."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_lib_model_client import https, known_roots, preconnect
from codex_lib_model_client.opening import open_transport
from codex_lib_model_client.preconnect import close_unused, open_early, take_connection
from codex_lib_model_client.transport_errors import SendError
from tests.tls import Authority, TlsServer


@pytest.fixture(autouse=True)
def _process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(known_roots, "_kept", [])
    monkeypatch.setattr(preconnect, "_opened", [])
    https._loaded_context.cache_clear()
    yield
    close_unused()
    for thread in threading.enumerate():
        if thread.name in ("known roots", "connection"):
            thread.join(60)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path, "one")
    (tmp_path / "store.pem").write_text(made.pem)
    return made


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"SSL_CERT_FILE": str(tmp_path / "store.pem")}


def begin(url: str | None, env: dict[str, str], tmp_path: Path) -> None:
    open_early(tmp_path / "servers_cache.json", "p", url, env)


def opened() -> None:
    """Wait until the connection is open, or could not be opened."""
    for thread in threading.enumerate():
        if thread.name in ("connection", "preload"):
            thread.join(60)


def post(url: str, env: dict[str, str], body: bytes = b"question", times: int = 1) -> str:
    async def posted() -> str:
        transport = open_transport(url, env, "p")
        said = ""
        try:
            for _ in range(times):
                answer = await transport.post(f"{url}/x", {}, body, head_s=10, on_sent=lambda: None)
                while piece := await answer.read(10):
                    said += piece.decode()
                await answer.aclose()
        except SendError as error:
            return str(error)
        finally:
            await transport.aclose()
        return said

    return asyncio.run(posted())


@pytest.mark.parametrize("waits", [True, False])
def test_the_first_request_takes_the_connection_and_later_ones_go_on_over_it(
    authority: Authority, env: dict[str, str], tmp_path: Path, waits: bool
) -> None:
    with TlsServer(authority.server()) as server:
        begin(server.url, env, tmp_path)
        if waits:
            opened()
        assert post(server.url, env, times=3) == "okokok"
        assert (server.connections, len(server.requests)) == (1, 3)
        assert post(server.url, env) == "ok"
        assert server.connections == 2


def test_a_request_is_on_its_way_before_the_event_loop_goes_on(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    def blocks() -> bool:
        end = time.monotonic() + 60
        while not server.requests and time.monotonic() < end:
            time.sleep(0.005)
        return bool(server.requests)

    async def posted() -> bool:
        transport = open_transport(server.url, env)
        asking = asyncio.ensure_future(
            transport.post(f"{server.url}/x", {}, b"question", head_s=10, on_sent=lambda: None)
        )
        await asyncio.sleep(0)  # one step of the loop, which then blocks
        arrived = blocks()
        await (await asking).aclose()
        await transport.aclose()
        return arrived

    with TlsServer(authority.server()) as server:
        begin(server.url, env, tmp_path)
        opened()
        assert asyncio.run(posted())


def test_a_request_that_the_socket_does_not_take_at_once_arrives_whole(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    body = bytes(range(256)) * 40_000

    def wait(secure: ssl.SSLSocket, _: int) -> bool:
        time.sleep(0.1)
        return True

    with TlsServer(authority.server(), greet=wait) as server:
        begin(server.url, env, tmp_path)
        opened()
        assert post(server.url, env, body) == "ok"
        assert server.connections == 1
    assert server.requests[0].partition(b"\r\n\r\n")[2] == body


@pytest.mark.parametrize("last", [100, 16_384, 16_385, 300_000])
def test_what_the_socket_did_not_take_is_sent_without_more_to_write(authority: Authority, last: int) -> None:
    """The whole message is encrypted, and part of it is left when the event loop takes over."""
    from codex_lib_model_client.connection import Connection
    from codex_lib_model_client.secure_socket import SecureSocket

    context = ssl.create_default_context(cadata=authority.pem)
    message = b"POST /x HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % last + b"x" * last

    async def answered(secure: SecureSocket, rest: bytes) -> int:
        connection = Connection()
        connection.begin()
        await secure.connect(connection, "127.0.0.1")
        await connection.send(rest, 10, lambda: None)
        connection.cut()
        return connection.status

    with TlsServer(authority.server()) as server:
        connected = socket.create_connection(("127.0.0.1", server.port), 10)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        secure = SecureSocket(connected, context, "127.0.0.1")
        sent = secure.send(message)
        assert sent == len(message) or (sent % 16_384 == 0 and secure._left)
        assert asyncio.run(answered(secure, message[sent:])) == 200
    assert len(server.requests[0]) == len(message)


def test_a_connection_that_the_server_closed_meanwhile_is_not_used(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    closed = threading.Event()

    def close(secure: ssl.SSLSocket, number: int) -> bool:
        if number == 0:
            secure.unwrap()
            closed.set()
        return number > 0

    with TlsServer(authority.server(), greet=close) as server:
        begin(server.url, env, tmp_path)
        opened()
        taken = take_connection("127.0.0.1", server.port, env)
        assert taken is not None
        preconnect._opened.append(taken)
        end = time.monotonic() + 60
        while taken.get_if_ready() is not None and time.monotonic() < end:
            time.sleep(0.005)
        assert post(server.url, env) == "ok"
        assert (server.connections, len(server.requests)) == (2, 1)


def test_a_request_is_repeated_if_the_connection_breaks_before_the_server_says_anything(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    def leave(secure: ssl.SSLSocket, number: int) -> bool:
        if number == 0:
            secure.recv(10)
        return number > 0

    with TlsServer(authority.server(), greet=leave) as server:
        begin(server.url, env, tmp_path)
        opened()
        assert post(server.url, env) == "ok"
        assert (server.connections, len(server.requests)) == (2, 1)


def test_a_request_that_the_server_has_begun_to_answer_is_not_repeated(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    def leave(secure: ssl.SSLSocket, _: int) -> bool:
        secure.recv(10)
        secure.sendall(b"HTTP/1.1 200")
        return False

    with TlsServer(authority.server(), greet=leave) as server:
        begin(server.url, env, tmp_path)
        opened()
        assert post(server.url, env) != "ok"
        assert server.connections == 1


def test_a_server_that_talks_first_is_not_believed(authority: Authority, env: dict[str, str], tmp_path: Path) -> None:
    told = threading.Event()

    def talk(secure: ssl.SSLSocket, number: int) -> bool:
        if number == 0:
            secure.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged")
            told.set()
        return True

    with TlsServer(authority.server(), greet=talk) as server:
        begin(server.url, env, tmp_path)
        opened()
        assert told.wait(60)
        assert post(server.url, env) == "ok"


def test_a_server_that_is_not_trusted_gets_nothing_and_is_told(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    with TlsServer(Authority(tmp_path, "wrong").server()) as server:
        begin(server.url, env, tmp_path)
        assert "CERTIFICATE_VERIFY_FAILED" in post(server.url, env)
    assert (server.requests, len(server.failures), server.connections) == ([], 2, 2)


def test_a_server_with_another_name_gets_nothing_and_is_told(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    with TlsServer(authority.server("other.invalid")) as server:
        begin(server.url, env, tmp_path)
        opened()
        assert "IP address mismatch" in post(server.url, env)
    assert server.requests == []


def test_a_server_that_changed_its_authority_is_verified_by_the_whole_store(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    other = Authority(tmp_path, "two")
    (tmp_path / "store.pem").write_text(authority.pem + other.pem)
    with TlsServer(other.server()) as server:
        place = f"127.0.0.1:{server.port}"
        known_roots.KnownRoots(tmp_path / "servers_cache.json").note(place, env, [authority.der])
        begin(server.url, env, tmp_path)
        opened()
        assert post(server.url, env) == "ok"
        assert (server.connections, len(server.failures), len(server.requests)) == (2, 1, 1)
        _process_ends()
    context = known_roots.KnownRoots(tmp_path / "servers_cache.json").context(place, env)
    assert context is not None
    assert context.get_ca_certs(binary_form=True) == [other.der]


def test_a_connection_is_given_to_one_only(authority: Authority, env: dict[str, str], tmp_path: Path) -> None:
    with TlsServer(authority.server()) as server:
        begin(server.url, env, tmp_path)
        taken = take_connection("127.0.0.1", server.port, env)
        assert taken is not None
        assert take_connection("127.0.0.1", server.port, env) is None
        taken.close()


@pytest.mark.parametrize(
    "more", [{"HTTPS_PROXY": "http://127.0.0.1:9"}, {"ALL_PROXY": "socks5://127.0.0.1:9"}, {"ALL_PROXY": "gopher://x"}]
)
def test_nothing_is_opened_directly_where_a_proxy_is_set(
    authority: Authority, env: dict[str, str], tmp_path: Path, more: dict[str, str]
) -> None:
    with TlsServer(authority.server()) as server:
        begin(server.url, {**env, **more}, tmp_path)
        opened()
        assert server.connections == 0


def test_other_servers_and_other_certificates_do_not_get_the_connection(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    other.write_text(Authority(tmp_path, "wrong").pem)
    with TlsServer(authority.server()) as server, TlsServer(authority.server()) as second:
        begin(server.url, env, tmp_path)
        opened()
        assert post(second.url, env) == "ok"
        assert "CERTIFICATE_VERIFY_FAILED" in post(server.url, {"SSL_CERT_FILE": str(other)})
        assert take_connection("localhost", server.port, env) is None
        assert server.requests == []
        assert post(server.url, env) == "ok"


def test_a_provider_whose_address_is_not_configured_is_expected_where_it_was(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    with TlsServer(authority.server()) as server:
        begin(None, env, tmp_path)
        assert preconnect._opened == []
        assert post(server.url, env) == "ok"
        _process_ends()
        assert json.loads((tmp_path / "servers_cache.json").read_text())["providers"] == {
            "p": f"127.0.0.1:{server.port}"
        }
        begin(None, env, tmp_path)
        opened()
        assert server.connections == 2
        assert post(server.url, env) == "ok"
        assert server.connections == 2


def test_a_request_elsewhere_does_not_go_where_the_provider_was(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    with TlsServer(authority.server()) as old, TlsServer(authority.server()) as new:
        known_roots.KnownRoots(tmp_path / "servers_cache.json").note(
            f"127.0.0.1:{old.port}", env, [authority.der], provider="p"
        )
        begin(None, env, tmp_path)
        opened()
        assert post(new.url, env) == "ok"
        _process_ends()
        assert (old.requests, len(new.requests)) == ([], 1)
        close_unused()
        begin(None, env, tmp_path)
        opened()
        close_unused()
        assert (old.connections, new.connections) == (1, 2)


@pytest.mark.parametrize("url", ["", "https://", "https://[", "http://127.0.0.1:9", "https://127.0.0.1:99999", "x"])
def test_a_url_that_is_none_opens_nothing(url: str, env: dict[str, str], tmp_path: Path) -> None:
    begin(url, env, tmp_path)
    assert preconnect._opened == []


def test_the_next_address_is_tried_beside_one_that_does_not_answer(
    authority: Authority, env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener whose queue is full does not answer."""
    look_up = socket.getaddrinfo
    with socket.socket() as full, TlsServer(authority.server()) as server, socket.socket() as waiting:
        full.bind(("127.0.0.2", server.port))
        full.listen(0)
        waiting.connect(full.getsockname())
        more = [socket.socket() for _ in range(3)]
        for each in more:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        both = look_up("127.0.0.2", server.port, type=socket.SOCK_STREAM) + look_up(
            "127.0.0.1", server.port, type=socket.SOCK_STREAM
        )
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: list(both))
        began = time.monotonic()
        begin(server.url, env, tmp_path)
        opened()
        assert time.monotonic() - began < 5
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        assert (server.connections, server.failures) == (1, [])
        assert post(server.url, env) == "ok"
        assert server.connections == 1
        for each in more:
            each.close()


def test_a_host_without_a_server_is_told_by_the_request(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "store.pem").write_text(Authority(tmp_path, "one").pem)
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"https://127.0.0.1:{free.getsockname()[1]}/v1"
    begin(url, env, tmp_path)
    assert post(url, env) == "Connection refused"


def _process_ends() -> None:
    for thread in threading.enumerate():
        if thread.name == "known roots":
            thread.join(60)


_ENDING = """
import threading, time
from codex_lib_model_client.https import in_openssl

def work():
    with in_openssl():
        entered.set()
        time.sleep(0.3)
        print("left", flush=True)

entered = threading.Event()
threading.Thread(target=work, daemon=True).start()
entered.wait()
"""


def test_the_end_of_a_program_waits_for_threads_within_openssl() -> None:
    """OpenSSL frees what it has at the end, which crashes threads that use it."""
    done = subprocess.run([sys.executable, "-c", _ENDING], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")
