"""What stands between us and a server: TLS and proxies."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from codex_framework import ModelError, ProviderInfo
from codex_framework.testing.replies import say
from codex_framework.testing.requests import ask, model_request
from codex_framework.testing.server import ResponsesServer
from codex_lib_model_client.proxies import Proxy, proxy_for
from codex_plugin_openai.provider import ResponsesProvider


def run(url: str, **env: str) -> str:
    """Ask a server twice, and return what came of it."""
    info = ProviderInfo(id="x", base_url=url, request_max_retries=0)
    try:
        answers = asyncio.run(ask(ResponsesProvider(), info, model_request(), model_request(), env=env))
    except ModelError as error:
        return f"{error.slug} {error.fact} -> {error.hint}"
    return str([type(answer[-1]).__name__ for answer in answers])


class TlsFront:
    """Speaks TLS to whoever comes and passes on what is said to a plain server."""

    def __init__(self, certificate: Path, key: Path, port: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._behind = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> TlsFront:
        self._threads[0].start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(60)

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._pass_on, args=(plain,)))
            self._threads[-1].start()

    def _pass_on(self, plain: socket.socket) -> None:
        try:
            with self._context.wrap_socket(plain, server_side=True) as front:
                while request := front.recv(1 << 20):
                    while not request.endswith(b"}"):
                        request += front.recv(1 << 20)
                    with socket.create_connection(("127.0.0.1", self._behind)) as behind:
                        behind.sendall(request)
                        answer = b""
                        while not answer.endswith(b"0\r\n\r\n"):
                            answer += behind.recv(1 << 20)
                    front.sendall(answer)
        except OSError:
            plain.close()


def test_a_server_with_a_trusted_certificate_is_spoken_to(certificate: tuple[Path, Path]) -> None:
    with ResponsesServer([say("a"), say("b")]) as server:
        port = port_of(server.url)
        with TlsFront(*certificate, port) as front:
            url = f"https://127.0.0.1:{front.port}/v1"
            assert run(url, SSL_CERT_FILE=str(certificate[0])) == "['Completed', 'Completed']"


def test_a_server_with_an_unknown_certificate_is_not_spoken_to(certificate: tuple[Path, Path]) -> None:
    with ResponsesServer([]) as server:
        port = port_of(server.url)
        with TlsFront(*certificate, port) as front:
            told = run(f"https://127.0.0.1:{front.port}/v1")
            assert told.startswith("unreachable Connection failed: ")
            assert "CERTIFICATE_VERIFY_FAILED" in told
            assert "_ssl.c" not in told
            assert told.endswith("name the file with the certificate of that authority in CODEX_CA_CERTIFICATE.")


def test_a_proxy_is_used_where_one_is_set() -> None:
    with ResponsesServer([say("a"), say("b")]) as proxy:
        told = run("http://models.invalid/v1", HTTP_PROXY=proxy.url.removesuffix("/v1"))
    assert told == "['Completed', 'Completed']"
    assert [request.path for request in proxy.requests] == ["http://models.invalid/v1/responses"] * 2


def test_a_server_on_this_machine_is_reached_past_the_proxy() -> None:
    with ResponsesServer([say("a"), say("b")]) as server:
        assert run(server.url, HTTP_PROXY="http://127.0.0.1:9", NO_PROXY="127.0.0.1") == "['Completed', 'Completed']"


class Relay:
    """A proxy for connections: ``CONNECT``, or SOCKS5 with or without a password. It notes what it is asked for.

    Args:
        target: The port that every connection goes to.
        context: The TLS of the proxy itself. None means that it speaks without TLS.
        refuse: The response to whoever asks. Empty means that connections are made.
        password: The second byte of the reply to a password: 0 if it is right.
    """

    def __init__(
        self, target: int, *, context: ssl.SSLContext | None = None, refuse: bytes = b"", password: bytes = b"\x00"
    ) -> None:
        self._target, self._context, self._refuse, self._password = target, context, refuse, password
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.asked: list[bytes] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Relay:
        self._threads[0].start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(60)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(client,)))
            self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        client.settimeout(60)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(client)
            if self._context is not None:
                client = stack.enter_context(self._context.wrap_socket(client, server_side=True))
            first = client.recv(4096)
            if not (self._socks(client, first) if first[:1] == b"\x05" else self._connect(client, first)):
                return
            behind = stack.enter_context(socket.create_connection(("127.0.0.1", self._target)))
            self._threads.append(threading.Thread(target=_pump, args=(behind, client)))
            self._threads[-1].start()
            _pump(client, behind)

    def _connect(self, client: socket.socket, head: bytes) -> bool:
        self.asked.append(head)
        client.sendall(self._refuse or b"HTTP/1.1 200 Connection established\r\n\r\n")
        return not self._refuse

    def _socks(self, client: socket.socket, methods: bytes) -> bool:
        if b"\x02" in methods[2:]:
            client.sendall(b"\x05\x02")
            self.asked.append(client.recv(4096))
            client.sendall(b"\x01" + self._password)
        else:
            client.sendall(b"\x05\x00")
        self.asked.append(client.recv(4096))
        reply = b"\x05" + (self._refuse or b"\x00") + b"\x00\x01\x7f\x00\x00\x01\x00\x50"
        for byte in reply:  # in the smallest pieces that there are
            client.sendall(bytes([byte]))
        return not self._refuse


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


DONE = "['Completed', 'Completed']"


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:{}", "127.0.0.1:{}", "http://ann:s%3Acret@127.0.0.1:{}"])
def test_a_server_with_tls_is_reached_through_a_tunnel(proxy: str, certificate: tuple[Path, Path]) -> None:
    with (
        ResponsesServer([say("a"), say("b")]) as server,
        TlsFront(*certificate, port_of(server.url)) as front,
        Relay(front.port) as relay,
    ):
        told = run("https://localhost/v1", HTTPS_PROXY=proxy.format(relay.port), SSL_CERT_FILE=str(certificate[0]))
        assert told == DONE
    (head,) = relay.asked
    assert head.startswith(b"CONNECT localhost:443 HTTP/1.1\r\nhost: localhost:443\r\n")
    assert (b"proxy-authorization: Basic YW5uOnM6Y3JldA==\r\n" in head) is ("@" in proxy)


def test_a_proxy_may_have_tls_itself(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with (
        ResponsesServer([say("a"), say("b")]) as server,
        TlsFront(*certificate, port_of(server.url)) as front,
        Relay(front.port, context=context) as relay,
    ):
        proxy = f"https://localhost:{relay.port}"
        assert run("https://localhost/v1", all_proxy=proxy, CODEX_CA_CERTIFICATE=str(certificate[0])) == DONE
    assert len(relay.asked) == 1


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:{}", "socks5h://ann:secret@127.0.0.1:{}"])
def test_a_server_is_reached_through_a_socks_proxy(proxy: str, certificate: tuple[Path, Path]) -> None:
    with (
        ResponsesServer([say("a"), say("b"), say("c"), say("d")]) as server,
        TlsFront(*certificate, port_of(server.url)) as front,
        Relay(front.port) as secure,
        Relay(port_of(server.url)) as plain,
    ):
        trusted = str(certificate[0])
        assert run("https://localhost/v1", ALL_PROXY=proxy.format(secure.port), SSL_CERT_FILE=trusted) == DONE
        assert run("http://models.invalid:8080/v1", ALL_PROXY=proxy.format(plain.port)) == DONE
    words = [b"\x01\x03ann\x06secret"] if "@" in proxy else []
    assert secure.asked == [*words, b"\x05\x01\x00\x03\x09localhost\x01\xbb"]
    assert plain.asked == [*words, b"\x05\x01\x00\x03\x0emodels.invalid\x1f\x90"]


@pytest.mark.parametrize(
    ("proxy", "refuse", "told"),
    [
        (
            "http",
            b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n",
            "refused the connection: 407 Proxy Authentication Required -> Write USER:PASSWORD@ before the host",
        ),
        ("http", b"SSH-2.0\r\n\r\n", "the response is not HTTP"),
        ("socks5", b"\x05", "could not connect to the server: connection refused"),
        ("socks5", b"\x99", "does not speak SOCKS5"),
    ],
)
def test_a_proxy_that_refuses_is_told(proxy: str, refuse: bytes, told: str) -> None:
    with Relay(9, refuse=refuse) as relay:
        line = run("https://localhost/v1", HTTPS_PROXY=f"{proxy}://ann:secret@127.0.0.1:{relay.port}")
    assert line.startswith("unreachable Connection failed: ")
    assert told in line
    assert "secret" not in line


def test_a_wrong_password_for_a_socks_proxy_is_told() -> None:
    with Relay(9, password=b"\x01") as relay:
        line = run("http://models.invalid/v1", ALL_PROXY=f"socks5://ann:secret@127.0.0.1:{relay.port}")
    assert "the SOCKS proxy refused the user name and password" in line
    assert [asked for asked in relay.asked if asked] == [b"\x01\x03ann\x06secret"]


def test_the_certificate_behind_a_tunnel_must_be_that_of_the_server(certificate: tuple[Path, Path]) -> None:
    with TlsFront(*certificate, 9) as front, Relay(front.port) as relay:
        proxy = f"http://127.0.0.1:{relay.port}"
        line = run("https://models.invalid/v1", HTTPS_PROXY=proxy, SSL_CERT_FILE=str(certificate[0]))
    assert "Hostname mismatch" in line


def test_a_proxy_that_is_none_is_told() -> None:
    told = run("http://localhost/v1", HTTP_PROXY="gopher://ann:secret@host")
    assert told.startswith("proxy HTTP_PROXY is not the URL of a proxy that can be used -> ")


def test_a_proxy_that_cannot_be_reached_is_told_and_not_taken_for_the_server() -> None:
    told = run("https://models.invalid/v1", HTTPS_PROXY="http://ann:secret@127.0.0.1:9")
    assert "Connection refused, through the proxy 127.0.0.1:9 -> Check the proxy that HTTP_PROXY, HTTPS_PROXY" in told
    assert "secret" not in told


def test_a_proxy_that_breaks_off_within_the_tunnel_is_told() -> None:
    with Relay(9, refuse=b"HTTP/1.1 200 OK\r\n\r\n") as relay:
        told = run("https://localhost/v1", HTTPS_PROXY=f"http://127.0.0.1:{relay.port}")
    assert f", through the proxy 127.0.0.1:{relay.port} -> Check the proxy" in told
    assert "/responses): ," not in told


def test_a_server_without_tls_is_told() -> None:
    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        told = run(f"https://127.0.0.1:{listener.getsockname()[1]}/v1")
        thread.join()
    assert told.endswith("The server does not seem to speak TLS. Check whether base_url must begin with http://.")


P = Proxy("http", "p", 1)


@pytest.mark.parametrize(
    ("url", "env", "proxy"),
    [
        ("http://a.org/v1", {}, None),
        ("http://a.org/v1", {"HTTP_PROXY": "http://p:1"}, P),
        ("http://a.org/v1", {"HTTP_PROXY": "http://x:1", "http_proxy": "http://p:1"}, P),
        ("http://a.org/v1", {"HTTP_PROXY": "http://p:1", "http_proxy": ""}, None),
        ("http://a.org/v1", {"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, None),
        ("http://a.org/v1", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://a.org/v1", {"ALL_PROXY": "http://p:1"}, P),
        ("https://a.org/v1", {"ALL_PROXY": "http://x:1", "HTTPS_PROXY": "p:1"}, P),
        ("https://a.org/v1", {"ALL_PROXY": "socks5h://u:p%40@p"}, Proxy("socks5h", "p", 1080, "u", "p@")),
        *(
            ("https://a.org/v1", {"ALL_PROXY": "http://p:1", "NO_PROXY": no}, P)
            for no in ("", "b.org", "xa.org", ".a.org", "a.org:80", "http://a.org", "10.0.0.0/8", "org.")
        ),
        *(
            ("https://a.org/v1", {"ALL_PROXY": "http://p:1", "NO_PROXY": no}, None)
            for no in ("*", "b.org, A.ORG", "org", "a.org:443", "https://a.org", "all://a.org")
        ),
        ("https://b.a.org/v1", {"ALL_PROXY": "http://p:1", "no_proxy": ".a.org"}, None),
        ("http://10.1.2.3/v1", {"ALL_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, None),
        ("http://1.10.1.2/v1", {"ALL_PROXY": "http://p:1", "NO_PROXY": "10.1.2,10.1.2.3"}, P),
        ("http://[::1]:80/v1", {"ALL_PROXY": "http://p:1", "NO_PROXY": "::1"}, None),
        ("http://[::1]:80/v1", {"ALL_PROXY": "http://p:1", "NO_PROXY": "[::1]:80"}, None),
        ("http://x.localhost/v1", {"ALL_PROXY": "http://p:1", "NO_PROXY": "localhost"}, P),
    ],
)
def test_the_variables_name_the_proxy(url: str, env: dict[str, str], proxy: Proxy | None) -> None:
    assert proxy_for(url, env) == proxy


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 64}.invalid", "127.0\0.0.1"])
def test_a_host_that_can_have_no_address_is_told(host: str) -> None:
    assert "the name of the host is not valid" in run(f"http://{host}/v1")


def test_a_proxy_that_can_have_no_address_is_told() -> None:
    assert "the name of the host is not valid" in run("http://example.invalid/v1", HTTP_PROXY="http://p..q:1")
