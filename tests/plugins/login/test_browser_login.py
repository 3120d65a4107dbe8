"""The login in the browser, against an issuer on loopback that checks the proof key."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import socket
import stat
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from codex_lib_model_client.login import device, flow
from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.issuer import Reply
from codex_lib_model_client.login.policy import LoginPolicy
from codex_lib_model_client.login.storage import LoginStorage
from codex_plugin_login.browser import browser_login
from tests.plugins.login.issuer import Issuer

Browser = Callable[[str], Any]


def open_page(address: str) -> tuple[int, str]:
    """What a browser sees, after all redirects."""
    try:
        with urllib.request.urlopen(address, timeout=20) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def log_in(
    issuer: Issuer,
    home: Path,
    browser: Browser,
    *,
    ports: tuple[int, ...] = (0,),
    timeout_s: float = 20,
    environ: dict[str, str] | None = None,
    **policy: Any,
) -> Any:
    """Log in. The browser gets the address that the terminal shows. Returns what it saw."""
    seen: list[Any] = []
    threads: list[threading.Thread] = []

    def echo(text: str) -> None:
        (address,) = re.findall(r"^http\S+$", text, re.MULTILINE)
        threads.append(threading.Thread(target=lambda: seen.append(browser(address))))
        threads[0].start()

    try:
        asyncio.run(
            browser_login(
                flow.Issuer(issuer.url, "client-1"),
                LoginStorage(home),
                LoginPolicy(**policy),
                echo=echo,
                environ=environ or {},
                timeout_s=timeout_s,
                ports=ports,
            )
        )
    finally:
        for thread in threads:
            thread.join(20)
    return seen[0]


def failure(*args: Any, **named: Any) -> LoginError:
    with pytest.raises(LoginError) as caught:
        log_in(*args, **named)
    return caught.value


def test_a_login_is_stored_as_codex_stores_it(issuer: Issuer, codex_home: Path) -> None:
    status, page = log_in(issuer, codex_home, open_page)
    assert (status, "You are logged in" in page) == (200, True)
    path = codex_home / "auth.json"
    stored = json.loads(path.read_text())
    assert list(stored) == ["auth_mode", "OPENAI_API_KEY", "tokens", "last_refresh"]
    assert list(stored["tokens"]) == [
        *("id_token", "access_token", "refresh_token", "oauth_provenance", "login_owner_id", "account_id")
    ]
    assert (stored["auth_mode"], stored["OPENAI_API_KEY"]) == ("chatgpt", None)
    assert stored["tokens"]["oauth_provenance"] == {"issuer": issuer.url, "client_id": "client-1"}
    assert stored["tokens"]["account_id"] == "acct-1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", stored["last_refresh"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not list(codex_home.glob(".auth-*"))


BROWSER = """
import os, sys, time, urllib.request
urllib.request.urlopen(sys.argv[2], timeout=20).close()
with open(sys.argv[1], "w") as file:
    file.write(str(os.getpid()))
time.sleep(60)
"""


def test_a_browser_that_stays_does_not_hold_up_the_login(issuer: Issuer, codex_home: Path, tmp_path: Path) -> None:
    (tmp_path / "browser.py").write_text(BROWSER)
    file = tmp_path / "pid"
    command = shlex.join([sys.executable, str(tmp_path / "browser.py"), str(file), "%s"])
    environ = {"BROWSER": command, "PATH": "/usr/bin:/bin"}
    log_in(issuer, codex_home, lambda _: None, environ=environ)
    for _ in range(200):
        if file.exists() and file.read_text():
            break
        time.sleep(0.02)
    os.kill(int(file.read_text()), signal.SIGKILL)  # it was still running


def test_a_browser_that_does_not_exist_is_no_error(issuer: Issuer, codex_home: Path) -> None:
    assert log_in(issuer, codex_home, open_page, environ={"BROWSER": "/nowhere/browser"})[0] == 200


def test_the_issuer_is_asked_as_codex_asks_it(issuer: Issuer, codex_home: Path) -> None:
    log_in(issuer, codex_home, open_page, workspaces=("acct-1",))
    asked, exchange = issuer.seen
    assert dict(asked.query) == {
        "response_type": "code",
        "client_id": "client-1",
        "redirect_uri": asked.query["redirect_uri"],
        "code_challenge": asked.query["code_challenge"],
        "code_challenge_method": "S256",
        "state": asked.query["state"],
        "scope": "openid profile email offline_access api.connectors.read api.connectors.invoke",
        "id_token_add_organizations": "true",
        "codex_cli_simplified_flow": "true",
        "originator": "codex_cli_rs",
        "allowed_workspace_id": "acct-1",
    }
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/auth/callback", asked.query["redirect_uri"])
    assert len(asked.query["state"]) >= 43
    assert set(exchange.form) == {"grant_type", "code", "redirect_uri", "client_id", "code_verifier"}
    assert len(exchange.form["code_verifier"]) >= 43
    assert exchange.form["code_verifier"] not in json.dumps(dict(asked.query))


def test_an_answer_with_a_wrong_state_is_ignored(issuer: Issuer, codex_home: Path) -> None:
    def browser(address: str) -> tuple[int, int, int]:
        (redirect,) = parse_qs(urlsplit(address).query)["redirect_uri"]
        forged = open_page(f"{redirect}?code=evil&state=guessed")[0]
        without = open_page(f"{redirect}?code=evil")[0]
        return forged, without, open_page(address)[0]

    assert log_in(issuer, codex_home, browser) == (400, 400, 200)
    assert [seen.form.get("code") for seen in issuer.seen if seen.path == "/oauth/token"] == ["code-1"]


def test_an_answer_counts_once(issuer: Issuer, codex_home: Path) -> None:
    again: list[int] = []
    query: dict[str, str] = {}

    def slow(_: Any) -> tuple[int, Any]:
        again.append(open_page(f"{query['redirect_uri']}?code=again&state={query['state']}")[0])
        return 200, issuer.tokens()

    def browser(address: str) -> int:
        query.update({name: values[0] for name, values in parse_qs(urlsplit(address).query).items()})
        return open_page(address)[0]

    issuer.answers["/oauth/token"] = slow
    assert (log_in(issuer, codex_home, browser), again) == (200, [400])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no 127.0.0.2")
def test_only_this_machine_can_answer(issuer: Issuer, codex_home: Path) -> None:
    def browser(address: str) -> int:
        (redirect,) = parse_qs(urlsplit(address).query)["redirect_uri"]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", urlsplit(redirect).port))
        return open_page(address)[0]

    assert log_in(issuer, codex_home, browser) == 200


def test_other_requests_are_answered_and_ignored(issuer: Issuer, codex_home: Path) -> None:
    def browser(address: str) -> tuple[int, int, int]:
        (redirect,) = parse_qs(urlsplit(address).query)["redirect_uri"]
        base = redirect.removesuffix("/auth/callback")
        posted = urllib.request.Request(redirect, data=b"x", method="POST")
        try:
            urllib.request.urlopen(posted, timeout=60)
        except urllib.error.HTTPError as error:
            status = error.code
        with socket.create_connection((urlsplit(base).hostname, urlsplit(base).port)) as garbage:
            garbage.sendall(b"\x16\x03\x01\x02\x00" + b"\xff" * 100 + b"\r\n\r\n")
            garbage.recv(100)
        return status, open_page(f"{base}/favicon.ico")[0], open_page(address)[0]

    assert log_in(issuer, codex_home, browser) == (405, 404, 200)


def test_a_denied_login_says_why(issuer: Issuer, codex_home: Path) -> None:
    issuer.refused = "access_denied"
    error = failure(issuer, codex_home, open_page)
    assert (error.reason, error.fact) == ("denied", "Sign-in could not be completed: access_denied")
    assert not (codex_home / "auth.json").exists()


def test_an_error_counts_even_if_there_is_a_code(issuer: Issuer, codex_home: Path) -> None:
    def browser(address: str) -> int:
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        return open_page(f"{query['redirect_uri']}?error=access_denied&code=c&state={query['state']}")[0]

    assert failure(issuer, codex_home, browser).reason == "denied"
    assert issuer.seen == []


def test_a_code_of_somebody_else_is_worth_nothing(issuer: Issuer, codex_home: Path) -> None:
    """The issuer checks the proof key: a code that was asked for with another one gives no tokens."""

    def browser(address: str) -> tuple[int, str]:
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        foreign = address.replace(query["code_challenge"], "c" * 43)
        return open_page(foreign)

    error = failure(issuer, codex_home, browser)
    assert (error.reason, "the verifier does not fit" in error.fact) == ("refused", True)
    assert not (codex_home / "auth.json").exists()


def test_nobody_logs_in(issuer: Issuer, codex_home: Path) -> None:
    error = failure(issuer, codex_home, lambda _: None, timeout_s=0.2)
    assert (error.reason, error.fact) == ("timeout", "nobody logged in within 0.2 seconds")


def test_a_workspace_that_is_not_permitted_is_not_stored(issuer: Issuer, codex_home: Path) -> None:
    error = failure(issuer, codex_home, open_page, workspaces=("other", "third"))
    assert error.fact == "Login is restricted to workspace(s) other, third, but current credentials belong to acct-1"
    assert not (codex_home / "auth.json").exists()


def test_the_second_port_is_used_if_the_first_is_busy(issuer: Issuer, codex_home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        assert log_in(issuer, codex_home, open_page, ports=(port, 0))[0] == 200
        error = failure(issuer, codex_home, open_page, ports=(port, port))
    assert (error.reason, str(port) in error.fact, "--device-auth" in error.hint) == ("port", True, True)


def test_another_login_takes_the_port_over(issuer: Issuer, codex_home: Path) -> None:
    def program(address: str) -> bytes:
        """Cancel as Codex does."""
        (redirect,) = parse_qs(urlsplit(address).query)["redirect_uri"]
        port = urlsplit(redirect).port
        with socket.create_connection(("127.0.0.1", port), 20) as connection:
            connection.sendall(f"GET /cancel HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
            return connection.recv(1000)

    assert failure(issuer, codex_home, program).fact == "the login was cancelled"


@pytest.mark.parametrize(
    "headers",
    [
        {"User-Agent": "Mozilla/5.0"},
        {"Origin": "https://evil.example"},
        {"Referer": "https://evil.example/"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Accept": "image/*"},
    ],
)
def test_a_page_in_the_browser_cannot_end_a_login(issuer: Issuer, codex_home: Path, headers: dict[str, str]) -> None:
    def browser(address: str) -> tuple[bytes, int]:
        (redirect,) = parse_qs(urlsplit(address).query)["redirect_uri"]
        lines = [f"{name}: {value}" for name, value in headers.items()]
        with socket.create_connection(("127.0.0.1", urlsplit(redirect).port), 20) as connection:
            head = "\r\n".join(["GET /cancel HTTP/1.1", "Host: 127.0.0.1", *lines, "Connection: close"])
            connection.sendall(f"{head}\r\n\r\n".encode())
            answer = connection.recv(1000).split(b"\r\n")[0]
        return answer, open_page(address)[0]

    assert log_in(issuer, codex_home, browser) == (b"HTTP/1.1 404 Not Found", 200)


def test_the_page_of_the_login_is_not_stored(issuer: Issuer, codex_home: Path) -> None:
    def browser(address: str) -> tuple[str, str]:
        with urllib.request.urlopen(address, timeout=20) as page:
            return page.headers["cache-control"], page.headers["referrer-policy"]

    assert log_in(issuer, codex_home, browser) == ("no-store", "no-referrer")


@pytest.mark.parametrize(
    ("given", "pause_s"),
    [
        ("0", 0.1),
        (7, 7.0),
        ("7", 7.0),
        (86_400, 60.0),
        *((value, 5.0) for value in (10**400, "9" * 400, 1e999, -1, "nan", [], None)),
    ],
)
def test_a_pause_between_questions_is_bounded(given: Any, pause_s: float) -> None:
    asked = Reply(200, {"interval": given})
    assert device.pause_of(asked) == pause_s


BAD_REPLIES: dict[str, tuple[int, Any, str]] = {
    "no JSON": (200, b"<html>maintenance</html>", "protocol"),
    "not an object": (200, b"[1]", "protocol"),
    "no access token": (200, {"id_token": "a.b.c", "refresh_token": "r"}, "protocol"),
    "garbage as an id token": (200, {"id_token": "garbage", "access_token": "a", "refresh_token": "r"}, "protocol"),
    "numbers as tokens": (200, {"id_token": 1, "access_token": 2, "refresh_token": 3}, "protocol"),
    "endless": (200, b"[" * 2_000_000, "protocol"),
    "a redirect": (302, {"location": "http://127.0.0.1:9/steal"}, "refused"),
    "an error page": (500, b"\xff\xfe broken", "refused"),
    "a refusal": (400, {"error": "invalid_grant"}, "refused"),
}


@pytest.mark.parametrize("name", BAD_REPLIES)
def test_a_reply_that_makes_no_sense_is_an_error(name: str, issuer: Issuer, codex_home: Path) -> None:
    status, body, reason = BAD_REPLIES[name]
    issuer.answers["/oauth/token"] = lambda _: (status, dict(body) if isinstance(body, dict) else body)
    error = failure(issuer, codex_home, open_page)
    assert (error.reason, "127.0.0.1" in error.fact or str(status) in error.fact) == (reason, True)
    assert not (codex_home / "auth.json").exists()
