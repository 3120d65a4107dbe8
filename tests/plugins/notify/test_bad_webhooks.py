"""Webhooks that refuse, hang, redirect or answer garbage: one clear line without secrets, and an end within bounds."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from codex_framework.testing import say
from codex_plugin_notify.component import NotifyComponent, Reports
from codex_plugin_notify.delivery import Delivery, Message
from codex_plugin_notify.settings import Webhook
from codex_plugin_notify.target import target

SECRET = {"HOOK_SECRET": "canary-of-the-secret"}


def table(url: str, *lines: str) -> str:
    own = [line.partition(" ")[0] for line in lines]
    usual = ("timeout_s = 20.0", "close_timeout_s = 1.0", 'secret_env_var = "HOOK_SECRET"')
    more = (*(line for line in usual if line.partition(" ")[0] not in own), *lines)
    return "\n".join(["[framework.plugins.notify.webhooks.ops]", f'url = "{url}"', *more])


def one_line(ran: Any) -> str:
    (line,) = ran.said
    assert line.startswith("notify: the webhook 'ops' ")
    assert "\n" not in line
    assert "canary" not in line
    assert "/services" not in line
    assert all(result.final_message for result in ran.results)
    assert ran.close_s < 30, "far above its bound, for a busy machine"
    return str(line)


class Raw:
    """A server that does something with each connection.

    Attributes:
        url: With a login and a path that must not be shown.
    """

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._serve = serve
        self._over = threading.Event()
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()
        host = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.url = f"http://user:canary@{host}/services/canary?token=canary"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(65536)
                self._serve(connection)
                self._over.wait(30)
            except OSError:
                return

    def close(self) -> None:
        self._over.set()
        self._server.close()


@pytest.fixture
def raw() -> Iterator[Callable[..., Raw]]:
    made: list[Raw] = []

    def make(serve: Callable[[socket.socket], None]) -> Raw:
        made.append(Raw(serve))
        return made[-1]

    yield make
    for each in made:
        each.close()


def drip(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for number in range(200):
        connection.sendall(f"x-{number}: y\r\n".encode())
        time.sleep(0.1)


def flood(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for _ in range(100_000):
        connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")


def end_in_order(connection: socket.socket) -> None:
    """End the connection in order: one that is closed with unread data is reset."""
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65_536):
        pass


@pytest.mark.parametrize(
    ("serve", "fact"),
    [
        (lambda connection: None, "did not answer within 0.3 s"),
        (drip, "did not answer within 0.3 s"),
        (lambda connection: connection.sendall(b"\xff\x00garbage\x1b[31m\r\n\r\n"), "did not answer in HTTP"),
        (end_in_order, "did not answer in HTTP"),
        (
            lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 50_000),
            "did not answer in HTTP",
        ),
        (lambda connection: connection.sendall(b"HTTP/1.1 999 \xff\r\n\r\n"), "answered with HTTP status 999"),
    ],
    ids=["hangs", "drips", "garbage", "closes", "endless headers", "status 999"],
)
def test_a_server_that_does_not_answer_properly(run: Any, raw: Any, serve: Any, fact: str):
    server = raw(serve)
    timeout_s = 0.3 if "0.3 s" in fact else 20.0
    line = one_line(run(table(server.url, "retry_s = 0.0", f"timeout_s = {timeout_s}"), env=SECRET, until=bool))
    host = server.url.partition("@")[2].partition("/")[0]
    assert f"the webhook 'ops' did not take a message: http://{host} {fact}." in line


def test_an_endless_answer_is_not_read(run: Any, raw: Any):
    server = raw(flood)
    assert run(table(server.url), env=SECRET, until=lambda said: server.connections > 0).said == []
    assert server.connections == 1


def test_a_server_that_refuses_connections(run: Any):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        config = table(f"http://127.0.0.1:{port}/services/canary", "retry_s = 0.0")
        line = one_line(run(config, [say("1"), say("2")], turns=2, env=SECRET, until=bool))
    assert f"http://127.0.0.1:{port} cannot be reached: Connection refused." in line


def test_a_name_that_does_not_exist(run: Any):
    line = one_line(run(table("https://no-such-host.invalid/services/canary", "retry_s = 0.0"), env=SECRET, until=bool))
    assert "https://no-such-host.invalid " in line


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(run: Any, hook: Any, status: int):
    hook.answers = lambda number: (status, {"location": f"{hook.url}/elsewhere"}, b"")
    line = one_line(run(table(hook.url), env=SECRET, until=bool))
    assert "redirects, which is not followed. Write the URL that it redirects to." in line
    assert len(hook.posted) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422])
def test_what_is_refused_is_not_sent_again(run: Any, hook: Any, status: int):
    hook.answers = lambda number: (status, {}, b"canary \x1b[31m")
    ran = run(table(hook.url), [say("1"), say("2")], turns=2, env=SECRET, until=lambda said: len(hook.posted) == 2)
    line = one_line(ran)
    assert f"answered with HTTP status {status}." in line
    assert len(hook.posted) == 2


@pytest.mark.thorough
@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_fails_for_now_is_sent_again(run: Any, hook: Any, status: int):
    hook.answers = lambda number: (status, {}, b"") if number == 1 else (200, {}, b"")
    ran = run(table(hook.url), env=SECRET, until=lambda said: len(hook.posted) == 2)
    assert ran.said == []
    first, second = hook.posted
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert second.headers["webhook-signature"].startswith("v1,")


def test_the_server_says_when_to_come_back(run: Any, hook: Any):
    hook.answers = lambda number: (429, {"retry-after": "3600"}, b"")
    line = one_line(run(table(hook.url), env=SECRET, until=bool))
    assert "answered with HTTP status 429." in line
    assert len(hook.posted) == 1


def test_an_outage_is_told_again_after_a_success(run: Any, hook: Any):
    hook.answers = lambda number: (400 if number in (1, 2, 4) else 200, {}, b"")
    replies = [say(str(number)) for number in range(4)]
    ran = run(table(hook.url), replies, turns=4, env=SECRET, until=lambda said: len(hook.posted) == 4)
    assert len(hook.posted) == 4
    assert len(ran.said) == 2


def answered(hook: Any) -> Callable[[list[str]], bool]:
    """Return whether the first request is answered, and the client has had time to read that."""
    since: list[float] = []

    def true(said: list[str]) -> bool:
        del said
        if hook.posted and not since:
            since.append(time.monotonic())
        return bool(since) and time.monotonic() - since[0] > 0.5

    return true


def test_the_end_does_not_wait_for_the_next_attempt_but_makes_it(run: Any, hook: Any):
    hook.answers = lambda number: (503, {"retry-after": "30"}, b"") if number == 1 else (204, {}, b"")
    ran = run(table(hook.url, "close_timeout_s = 4.0"), env=SECRET, until=answered(hook))
    assert len(hook.posted) == 2
    assert ran.said == []


def test_at_the_end_nothing_is_tried_that_has_no_time(run: Any, hook: Any):
    hook.answers = lambda number: (503, {"retry-after": "30"}, b"")
    config = table(hook.url, "close_timeout_s = 4.0")
    line = one_line(run(config, env=SECRET, until=answered(hook)))
    assert "answered with HTTP status 503." in line
    assert len(hook.posted) == 2


@pytest.mark.thorough
def test_what_is_left_at_the_end_is_counted(run: Any, raw: Any):
    server = raw(lambda connection: None)
    config = table(server.url, "timeout_s = 30.0")
    line = one_line(run(config, [say("1"), say("2"), say("3")], turns=3, env=SECRET))
    assert "the webhook 'ops' did not take 3 messages before the end." in line


def test_no_thread_is_left(run: Any, raw: Any):
    server = raw(lambda connection: None)
    run(table(server.url), env=SECRET)
    until = time.monotonic() + 60
    while any(thread.name.startswith("notify-") for thread in threading.enumerate()) and time.monotonic() < until:
        time.sleep(0.01)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("notify-")] == []


class Told:
    """Reports that can be read."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.reports = Reports(NotifyComponent())
        self.reports.tell = lambda thread_id, text: self.texts.append(text)  # type: ignore[method-assign]


def test_a_full_queue_drops_the_oldest(hook: Any):
    gate = threading.Event()
    hook.answers = lambda number: (204 if gate.wait(30) else 500, {}, b"")
    told = Told()
    delivery = Delivery("the webhook 'x'", target("x", Webhook(url=hook.url, close_timeout_s=4.0), {}), told.reports)
    for number in range(150):
        delivery.add(Message.of({"n": number}, "thread"))
    gate.set()
    until = time.monotonic() + 30
    while len(hook.posted) < 100 and time.monotonic() < until:
        time.sleep(0.01)
    delivery.close()
    numbers = [posted.json["n"] for posted in hook.posted]
    assert numbers[-100:] == list(range(50, 150))
    assert set(told.texts) == {"the webhook 'x' is so slow that messages are dropped, because 100 wait already"}


def test_certificates_that_cannot_be_loaded(run: Any, hook: Any, tmp_path: Any):
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    ran = run(table(hook.url), [say("1"), say("2")], turns=2, env={**SECRET, "SSL_CERT_FILE": str(bad)}, until=bool)
    line = one_line(ran)
    assert "cannot be used: the certificates for checking servers cannot be loaded" in line
    assert f"SSL_CERT_FILE is {bad}: it contains no certificate. Fix this variable." in line
    assert hook.posted == []


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
def test_a_proxy_that_cannot_be_used(run: Any, hook: Any, monkeypatch: pytest.MonkeyPatch, variable: str):
    monkeypatch.setenv(variable, "no-such-scheme://canary")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    line = one_line(run(table(hook.url), env=SECRET, until=bool))
    assert "the proxy in the environment cannot be used. Fix HTTP_PROXY" in line


def test_the_loop_of_a_webhook_does_not_wait_for_a_name_server():
    from codex_plugin_notify.loops import run as run_loop

    forever = threading.Event()

    async def resolve() -> None:
        asyncio.get_running_loop().run_in_executor(None, forever.wait)
        assert await asyncio.get_running_loop().run_in_executor(None, str.upper, "x") == "X"
        with pytest.raises(ZeroDivisionError):
            await asyncio.get_running_loop().run_in_executor(None, divmod, 1, 0)

    run_loop(resolve())
    forever.set()
