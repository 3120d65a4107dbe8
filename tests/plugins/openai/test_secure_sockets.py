"""A TLS connection that is opened ahead: when it is used, when it is closed, and what it says."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codex_lib_model_client import https, known_roots, preconnect, secure_socket
from codex_lib_model_client.known_roots import KnownRoots
from codex_lib_model_client.opening import open_transport
from codex_lib_model_client.preconnect import EarlyConnection, close_unused, open_early, take_connection
from codex_lib_model_client.secure_socket import SecureSocket
from tests.tls import Authority, TlsServer

Greet = Callable[[ssl.SSLSocket, int], bool]


@pytest.fixture(autouse=True)
def _process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(known_roots, "_kept", [])
    monkeypatch.setattr(preconnect, "_opened", [])
    https._loaded_context.cache_clear()
    yield
    close_unused()
    finished("known roots", "connection")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path, "one")
    (tmp_path / "store.pem").write_text(made.pem)
    return made


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"SSL_CERT_FILE": str(tmp_path / "store.pem")}


def finished(*names: str) -> bool:
    """Wait for threads, and return whether they have ended."""
    threads = [thread for thread in threading.enumerate() if thread.name in names]
    for thread in threads:
        thread.join(60)
    return not any(thread.is_alive() for thread in threads)


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


def begin(url: str | None, env: dict[str, str], tmp_path: Path) -> None:
    open_early(tmp_path / "servers_cache.json", "p", url, env)


def secured(server: TlsServer, authority: Authority) -> SecureSocket:
    context = ssl.create_default_context(cadata=authority.pem)
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 10))
        secure = SecureSocket(plain, context, "127.0.0.1")
        stack.pop_all()
    return secure


class Ends:
    """Notes how connections ended: ``closed``, or what came."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, secure: ssl.SSLSocket, _: int) -> bool:
        try:
            data = secure.recv(10)
        except ConnectionResetError:  # closed before the client had read the tickets of its session
            self.seen.append("closed")
        except OSError as error:
            self.seen.append(type(error).__name__)
        else:
            self.seen.append(data.decode() or "closed")
        return False


def test_a_connection_that_is_closed_while_it_is_opened_is_closed_when_it_is_open(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    ends, accepted, go_on = Ends(), threading.Event(), threading.Event()

    class Slow(TlsServer):
        def _serve(self, plain: socket.socket, number: int) -> None:
            accepted.set()
            go_on.wait(60)
            super()._serve(plain, number)

    with Slow(authority.server(), greet=ends) as server:
        begin(server.url, env, tmp_path)
        (held,) = preconnect._opened
        assert accepted.wait(60)
        close_unused()
        go_on.set()
        assert finished("connection")
        assert until(lambda: bool(ends.seen))
        assert held.get_if_ready() is None
    assert ends.seen == ["closed"]


def test_a_connection_that_nobody_takes_is_closed(authority: Authority, env: dict[str, str], tmp_path: Path) -> None:
    ends = Ends()
    with TlsServer(authority.server(), greet=ends) as first, TlsServer(authority.server()) as second:
        begin(first.url, env, tmp_path)
        (held,) = preconnect._opened
        assert finished("connection")
        begin(second.url, env, tmp_path)
        assert [each.server for each in preconnect._opened] == [f"127.0.0.1:{second.port}"]
        assert until(lambda: bool(ends.seen))
        assert held.get_if_ready() is None
        close_unused()
    assert ends.seen == ["closed"]


def test_one_that_waits_no_longer_disturbs_nobody(
    authority: Authority, tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, raised = threading.Event(), []
    monkeypatch.setattr(threading, "excepthook", raised.append)

    class Slow(TlsServer):
        def _serve(self, plain: socket.socket, number: int) -> None:
            go_on.wait(60)
            super()._serve(plain, number)

    async def waits(held: EarlyConnection) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await held.wait()

    with Slow(authority.server()) as server:
        begin(server.url, env, tmp_path)
        (held,) = preconnect._opened
        asyncio.run(waits(held))
        go_on.set()
        assert finished("connection")
        assert asyncio.run(held.wait()) is not None
        held.close()
    assert raised == []


def test_a_server_that_never_shakes_hands_is_given_up(
    authority: Authority, env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preconnect, "_OPEN_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begin(f"https://127.0.0.1:{silent.getsockname()[1]}/v1", env, tmp_path)
        (held,) = preconnect._opened
        assert asyncio.run(held.wait()) is None
        assert finished("connection")


def test_a_host_that_never_answers_is_given_up(
    authority: Authority, env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener whose queue is full does not answer."""
    monkeypatch.setattr(preconnect, "_OPEN_S", 0.5)
    with socket.socket() as full, contextlib.ExitStack() as stack:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        begin(f"https://127.0.0.1:{full.getsockname()[1]}/v1", env, tmp_path)
        assert finished("connection")


def test_an_address_that_fails_at_once_is_followed_by_the_next_one(
    authority: Authority, env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = socket.getaddrinfo("127.0.0.1", 0, type=socket.SOCK_STREAM)[0]
    with TlsServer(authority.server()) as server:
        bad = (*found[:4], ("255.255.255.255", server.port))
        good = (*found[:4], ("127.0.0.1", server.port))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [bad, good])
        begin(server.url, env, tmp_path)
        assert finished("connection")
        taken = take_connection("127.0.0.1", server.port, env)
        assert taken is not None
        assert taken.get_if_ready() is not None
        taken.close()


def test_addresses_of_both_families_are_tried_in_turns() -> None:
    six, four = socket.AF_INET6, socket.AF_INET
    found = [(six, "a"), (six, "b"), (six, "c"), (four, "d"), (four, "e")]
    assert [name for _, name in preconnect._alternate_families(found)] == ["a", "d", "b", "e", "c"]
    assert [name for _, name in preconnect._alternate_families(found[::-1])] == ["e", "c", "d", "b", "a"]
    assert preconnect._alternate_families([]) == []


def test_the_socket_is_ready_for_an_event_loop_and_sends_at_once(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    with TlsServer(authority.server()) as server:
        begin(server.url, env, tmp_path)
        (held,) = preconnect._opened
        assert finished("connection")
        secure = held.get_if_ready()
        assert secure is not None
        assert secure._socket.gettimeout() == 0
        assert secure._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        close_unused()


def test_certificates_are_loaded_where_nothing_is_opened(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    begin("https://127.0.0.1:9", {**env, "HTTPS_PROXY": "http://127.0.0.1:9"}, tmp_path)
    assert finished("preload")
    assert https._loaded_context.cache_info().currsize == 1


def test_a_configured_address_comes_before_the_last_one(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    KnownRoots(tmp_path / "servers_cache.json").note("127.0.0.1:9", env, [authority.der], provider="p")
    begin("https://127.0.0.1:10/v1", env, tmp_path)
    assert [each.server for each in preconnect._opened] == ["127.0.0.1:10"]


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://127.0.0.1/v1", "127.0.0.1:443"),
        ("https://[::1]:9/v1", "::1:9"),
        ("HTTPS://localhost:9", "localhost:9"),
    ],
)
def test_the_server_is_that_of_the_url(url: str, server: str, env: dict[str, str], tmp_path: Path) -> None:
    begin(url, env, tmp_path)
    assert [each.server for each in preconnect._opened] == [server]


@pytest.mark.parametrize("excepted", ["::1", "[::1]", "*"])
def test_a_server_that_needs_no_proxy_is_connected_directly(env: dict[str, str], tmp_path: Path, excepted: str) -> None:
    proxied = {**env, "HTTPS_PROXY": "http://127.0.0.1:9"}
    begin("https://[::1]:9/v1", {**proxied, "NO_PROXY": "other"}, tmp_path)
    assert preconnect._opened == []
    begin("https://[::1]:9/v1", {**proxied, "NO_PROXY": excepted}, tmp_path)
    assert [each.server for each in preconnect._opened] == ["::1:9"]


@pytest.mark.parametrize("name", ["CODEX_CA_CERTIFICATE", "SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_a_connection_belongs_to_its_certificates(name: str, env: dict[str, str], tmp_path: Path) -> None:
    begin("https://127.0.0.1:9", env, tmp_path)
    assert take_connection("127.0.0.1", 9, {**env, name: str(tmp_path)}) is None
    assert take_connection("127.0.0.1", 9, {**env, "OTHER": "x"}) is not None


def test_what_verified_a_server_only_before_is_not_tried_again(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    class Changing(TlsServer):
        contexts: list[ssl.SSLContext]

        @property
        def context(self) -> ssl.SSLContext:
            return self.contexts.pop(0) if len(self.contexts) > 1 else self.contexts[0]

        @context.setter
        def context(self, value: ssl.SSLContext) -> None:
            self.contexts = [Authority(tmp_path, "wrong").server(), value]

    async def posted() -> bytes:
        transport = open_transport(server.url, env)
        answer = await transport.post(f"{server.url}/x", {}, b"", head_s=10, on_sent=lambda: None)
        body = await answer.read(10)
        await transport.aclose()
        return body

    file = tmp_path / "servers_cache.json"
    with Changing(authority.server()) as server:
        place = f"127.0.0.1:{server.port}"
        KnownRoots(file).note(place, env, [authority.der])
        assert KnownRoots(file).context(place, env) is not None
        begin(server.url, env, tmp_path)
        assert finished("connection")
        assert asyncio.run(posted()) == b"ok"
        assert (server.connections, len(server.failures)) == (2, 1)
        assert finished("known roots")
    assert KnownRoots(file).context(place, env) is None


def test_a_server_is_told_why_it_is_not_trusted(authority: Authority, tmp_path: Path) -> None:
    with TlsServer(Authority(tmp_path, "wrong").server()) as server, pytest.raises(ssl.SSLCertVerificationError):
        secured(server, authority)
    assert ["ALERT_UNKNOWN_CA" in failure for failure in server.failures] == [True]


def test_a_server_that_hangs_up_during_the_handshake_is_an_error(authority: Authority) -> None:
    def hang_up() -> None:
        client, _ = listener.accept()
        with client:
            client.recv(10_000)

    context = ssl.create_default_context(cadata=authority.pem)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=hang_up)
        thread.start()
        with socket.create_connection(listener.getsockname(), 10) as plain, pytest.raises(ConnectionError):
            SecureSocket(plain, context, "127.0.0.1")
        thread.join(60)


def raw(secure: ssl.SSLSocket) -> socket.socket:
    return socket.socket(fileno=os.dup(secure.fileno()))


def talks(secure: ssl.SSLSocket) -> None:
    secure.sendall(b"HTTP/1.1 200 OK\r\n\r\n")


def ends(secure: ssl.SSLSocket) -> None:
    secure.shutdown(socket.SHUT_WR)


def says_goodbye(secure: ssl.SSLSocket) -> None:
    with contextlib.suppress(OSError):
        secure.setblocking(False)
        secure.unwrap()


def resets(secure: ssl.SSLSocket) -> None:
    secure.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    secure.close()


def garbage(secure: ssl.SSLSocket) -> None:
    with raw(secure) as plain:
        plain.sendall(b"HTTP/1.1 400 no TLS\r\n\r\n" * 10)


@pytest.mark.parametrize("does", [talks, ends, says_goodbye, resets, garbage])
def test_a_connection_on_which_the_server_did_something_is_not_usable(
    authority: Authority, does: Callable[[ssl.SSLSocket], None]
) -> None:
    begun, over = threading.Event(), threading.Event()

    def greet(secure: ssl.SSLSocket, _: int) -> bool:
        begun.wait(60)
        does(secure)
        over.wait(60)
        return False

    with TlsServer(authority.server(), greet=greet) as server:
        secure = secured(server, authority)
        assert secure.usable
        begun.set()
        assert until(lambda: not secure.usable)
        assert secure._socket.fileno() == -1
        over.set()


def test_a_connection_that_was_unused_for_long_is_closed(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends()
    with TlsServer(authority.server(), greet=ends) as server:
        secure = secured(server, authority)
        assert secure.usable
        monkeypatch.setattr(secure_socket, "_KEPT_S", 0.0)
        assert not secure.usable
        assert until(lambda: bool(ends.seen))
    assert ends.seen == ["closed"]


def test_a_message_for_a_connection_that_broke_is_no_error_yet(authority: Authority) -> None:
    gone = threading.Event()

    def greet(secure: ssl.SSLSocket, _: int) -> bool:
        resets(secure)
        gone.set()
        return False

    with TlsServer(authority.server(), greet=greet) as server:
        secure = secured(server, authority)
        assert gone.wait(60)
        time.sleep(0.05)
        assert secure.send(b"x" * 100_000) == 16_384
        secure.close()


@pytest.mark.parametrize("says_end", [False, True], ids=["cut", "ended"])
@pytest.mark.parametrize("early", [False, True], ids=["usual", "early"])
def test_a_response_without_a_length_lasts_until_the_end_of_the_connection(
    authority: Authority, env: dict[str, str], tmp_path: Path, *, early: bool, says_end: bool
) -> None:
    """asyncio does not say whether the server or somebody between has ended it. Streams of models have an end of their own."""

    def greet(secure: ssl.SSLSocket, _: int) -> bool:
        secure.recv(10_000)
        secure.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\npart")
        (says_goodbye if says_end else ends)(secure)
        return False

    async def posted() -> str:
        transport = open_transport(server.url, env)
        said = ""
        try:
            answer = await transport.post(f"{server.url}/x", {}, b"", head_s=10, on_sent=lambda: None)
            while piece := await answer.read(10):
                said += piece.decode()
        finally:
            await transport.aclose()
        return said

    with TlsServer(authority.server(), greet=greet) as server:
        if early:
            begin(server.url, env, tmp_path)
            assert finished("connection")
        assert asyncio.run(posted()) == "part"
        assert server.connections == 1


_IMPORTS = """
import socket, sys, threading
from pathlib import Path
from codex_lib_model_client.preconnect import open_early
open_early(Path(sys.argv[1]), "p", f"https://127.0.0.1:{sys.argv[2]}/v1", {"SSL_CERT_FILE": sys.argv[3]})
for thread in threading.enumerate():
    if thread.name == "connection":
        thread.join(20)
print("encodings.idna" in sys.modules)
"""


def test_no_encoding_is_imported_for_a_name_that_needs_none(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    with TlsServer(authority.server()) as server:
        arguments = [str(tmp_path / "servers_cache.json"), str(server.port), env["SSL_CERT_FILE"]]
        done = subprocess.run(
            [sys.executable, "-c", _IMPORTS, *arguments], capture_output=True, text=True, timeout=60, check=True
        )
        assert server.connections == 1
    assert done.stdout == "False\n"


def test_the_protocol_is_named_with_known_certificates_too(
    authority: Authority, env: dict[str, str], tmp_path: Path
) -> None:
    spoken: list[Any] = []

    def greet(secure: ssl.SSLSocket, _: int) -> bool:
        spoken.append(secure.selected_alpn_protocol())
        return False

    context = authority.server()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with TlsServer(context, greet=greet) as server:
        for known in (False, True):
            if known:
                KnownRoots(tmp_path / "servers_cache.json").note(f"127.0.0.1:{server.port}", env, [authority.der])
            begin(server.url, env, tmp_path)
            assert finished("connection")
            close_unused()
        assert until(lambda: len(spoken) == 2)
    assert spoken == ["http/1.1", "http/1.1"]
