"""Tokens of a ChatGPT login: which are sent, and when they are replaced."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ModelError, ModelEvent
from codex_framework.contract.roles.models import Completed, ProviderInfo
from codex_framework.testing.replies import fault, say
from codex_framework.testing.requests import model_request
from codex_framework.testing.server import ResponsesServer
from codex_lib_model_client.login.access import find_login
from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.stored import StoredLogin
from codex_lib_model_client.login.tokens import ChatGptTokens
from codex_plugin_openai.provider import ResponsesProvider
from tests.plugins.login.issuer import Issuer, jwt

UNAUTHORIZED = fault(status=401, body={"error": {"message": "bad token", "code": "token_expired"}})


def ask(server: ResponsesServer, env: dict[str, str], *, times: int = 1, **config: Any) -> list[Any]:
    """Ask the server that often, one after the other, with one client. Returns the last event or the error of each."""

    async def run() -> list[Any]:
        info = ProviderInfo(id="here", base_url=server.url, requires_openai_auth=True, request_max_retries=0)
        client = ResponsesProvider(config).open(info, env)
        outcomes: list[ModelEvent | ModelError] = []
        for _ in range(times):
            try:
                outcomes.append([event async for event in client.stream(model_request())][-1])
            except ModelError as error:
                outcomes.append(error)
        await client.aclose()
        return outcomes

    return asyncio.run(run())


def tokens_of(server: ResponsesServer) -> list[str]:
    return [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]


def stored(home: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((home / "auth.json").read_text())
    return content


Store = Callable[..., dict[str, Any]]


def test_a_request_has_the_token_and_the_account(issuer: Issuer, env: dict[str, str], store: Store) -> None:
    login = store()
    with ResponsesServer([say("hi")]) as server:
        assert isinstance(ask(server, env)[0], Completed)
    assert tokens_of(server) == [login["tokens"]["access_token"]]
    assert server.requests[0].headers["chatgpt-account-id"] == "acct-1"
    assert issuer.seen == []


@pytest.mark.parametrize(("left_s", "refreshed"), [(240, True), (360, False)])
def test_a_token_is_replaced_five_minutes_before_it_expires(
    issuer: Issuer, env: dict[str, str], store: Store, codex_home: Path, left_s: float, refreshed: bool
) -> None:
    issuer.lifetime_s = left_s
    before = store()
    issuer.lifetime_s = 3600
    with ResponsesServer([say("hi")]) as server:
        ask(server, env)
    after = stored(codex_home)
    assert (after != before) is refreshed
    assert tokens_of(server) == [after["tokens"]["access_token"]]
    if refreshed:
        (seen,) = issuer.seen
        assert dict(seen.form) == {
            "client_id": "app_EMoamEEZ73f0CkXaXp7hrann",
            "grant_type": "refresh_token",
            "refresh_reason": "proactive_expiry",
            "refresh_token": before["tokens"]["refresh_token"],
        }
        assert after["last_refresh"] > before["last_refresh"]
        assert (after["future"], after["tokens"]["later"]) == ({"x": 1}, [1]), "what is unknown is kept"
        assert stat.S_IMODE((codex_home / "auth.json").stat().st_mode) == 0o600


@pytest.mark.parametrize(("days", "refreshed"), [(7.9, False), (8.1, True)])
def test_a_token_without_an_expiry_is_replaced_after_eight_days(
    issuer: Issuer, env: dict[str, str], store: Store, codex_home: Path, days: float, refreshed: bool
) -> None:
    login = store(last_refresh=(datetime.now(UTC) - timedelta(days=days)).isoformat())
    login["tokens"]["access_token"] = jwt(sub="me")
    (codex_home / "auth.json").write_text(json.dumps(login))
    with ResponsesServer([say("hi")]) as server:
        ask(server, env)
    assert (len(issuer.seen) == 1) is refreshed


@pytest.mark.parametrize("exp", [10**400, 1e999, float("nan"), -5, True, "soon"], ids="ABCDEF")
def test_a_token_whose_expiry_is_no_date_is_replaced_after_eight_days(exp: Any) -> None:
    login = StoredLogin.of_chatgpt({"access_token": jwt(exp=exp)})
    assert not login.is_stale()
    long_ago = (datetime.now(UTC) - timedelta(days=8.1)).isoformat()
    assert StoredLogin({**login.content, "last_refresh": long_ago}).is_stale()


def test_a_refused_token_is_refreshed_once_and_the_request_repeated(
    issuer: Issuer, env: dict[str, str], store: Store, codex_home: Path
) -> None:
    before = store()
    with ResponsesServer([UNAUTHORIZED, say("hi")]) as server:
        assert isinstance(ask(server, env)[0], Completed)
    after = stored(codex_home)
    assert tokens_of(server) == [before["tokens"]["access_token"], after["tokens"]["access_token"]]
    assert [seen.form["refresh_reason"] for seen in issuer.seen] == ["unauthorized_recovery"]


def test_tokens_of_another_process_are_taken_before_the_issuer_is_asked(
    issuer: Issuer, env: dict[str, str], store: Store, codex_home: Path
) -> None:
    store()

    def replaced(_: Any) -> Any:
        newer = stored(codex_home)
        newer["tokens"] |= issuer.tokens()
        (codex_home / "auth.json").write_text(json.dumps(newer))
        return UNAUTHORIZED

    with ResponsesServer([replaced, say("hi")]) as server:
        assert isinstance(ask(server, env)[0], Completed)
    assert tokens_of(server)[1] == stored(codex_home)["tokens"]["access_token"]
    assert issuer.seen == []


def test_tokens_of_another_process_that_are_stale_are_refreshed(
    issuer: Issuer, env: dict[str, str], store: Store, codex_home: Path
) -> None:
    store()

    def replaced(_: Any) -> Any:
        newer = stored(codex_home)
        issuer.lifetime_s = 10
        newer["tokens"] |= issuer.tokens()
        issuer.lifetime_s = 3600
        (codex_home / "auth.json").write_text(json.dumps(newer))
        return UNAUTHORIZED

    with ResponsesServer([replaced, say("hi")]) as server:
        assert isinstance(ask(server, env)[0], Completed)
    assert tokens_of(server)[1] == stored(codex_home)["tokens"]["access_token"]
    assert [seen.form["refresh_token"] for seen in issuer.seen] == ["refresh-2-canary"]


def test_a_valid_token_of_a_user_who_has_logged_out_is_not_used_until_it_expires(
    issuer: Issuer, env: dict[str, str], store: Store
) -> None:
    issuer.lifetime_s = 200
    store()
    tokens = find_login(env, {})
    assert isinstance(tokens, ChatGptTokens)
    issuer.account = "acct-2"
    store()
    with pytest.raises(LoginError, match="since logged out or signed in to another account"):
        asyncio.run(tokens.token())
    assert issuer.seen == []


def test_a_refresh_token_goes_to_the_issuer_that_gave_it(
    issuer: Issuer, env: dict[str, str], store: Store, codex_home: Path
) -> None:
    issuer.lifetime_s = 100
    login = store()
    issuer.lifetime_s = 3600
    login["tokens"]["oauth_provenance"] = {"issuer": issuer.url, "client_id": "mine"}
    (codex_home / "auth.json").write_text(json.dumps(login))
    tokens = find_login({name: value for name, value in env.items() if not name.startswith("CODEX_REFRESH")}, {})
    assert isinstance(tokens, ChatGptTokens)
    assert asyncio.run(tokens.token()) == stored(codex_home)["tokens"]["access_token"]
    ((path, form),) = [(seen.path, seen.form) for seen in issuer.seen]
    assert (path, form["client_id"], form["refresh_token"]) == ("/oauth/token", "mine", "refresh-1-canary")


def test_a_server_that_refuses_every_token_ends_with_a_hint(issuer: Issuer, env: dict[str, str], store: Store) -> None:
    store()
    with ResponsesServer([UNAUTHORIZED], repeat_last=True) as server:
        (error,) = ask(server, env)
    assert len(server.requests) == 2
    assert len(issuer.seen) == 1
    assert (error.retryable, "codex-framework login" in error.hint) == (False, True)


REFUSALS = {
    "refresh_token_expired": ("expired", "because your refresh token has expired."),
    "refresh_token_reused": ("reused", "because your refresh token was already used."),
    "refresh_token_invalidated": ("revoked", "because your refresh token was revoked."),
    "something_else": ("refused", "could not be refreshed. Please"),
}


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refresh_token_that_is_of_no_use_says_why(
    code: str, issuer: Issuer, env: dict[str, str], store: Store, codex_home: Path
) -> None:
    before = store()
    issuer.answers["/oauth/token"] = lambda _: (401, {"error": {"code": code, "message": "m"}})
    with ResponsesServer([UNAUTHORIZED], repeat_last=True) as server:
        first, second = ask(server, env, times=2)
    reason, words = REFUSALS[code]
    assert isinstance(first, LoginError)
    assert (first.reason, words in first.fact, first.retryable) == (reason, True, False)
    assert "codex-framework login" in first.hint
    assert second.fact == first.fact
    assert len(issuer.seen) == 1, "the issuer is not asked again with the same token"
    assert stored(codex_home) == before


@pytest.mark.parametrize("body", [b"<html>", b"[]", {"access_token": ""}, {"access_token": 5}])
def test_a_refresh_with_a_senseless_reply_keeps_the_login(
    body: Any, issuer: Issuer, env: dict[str, str], store: Store, codex_home: Path
) -> None:
    before = store()
    issuer.answers["/oauth/token"] = lambda _: (200, body)
    with ResponsesServer([UNAUTHORIZED]) as server:
        (error,) = ask(server, env)
    assert (error.reason, stored(codex_home)) == ("protocol", before)


def test_a_dead_issuer_does_not_stop_a_token_that_is_still_valid(
    issuer: Issuer, env: dict[str, str], store: Store
) -> None:
    issuer.lifetime_s = 200
    login = store()
    env = {**env, "CODEX_REFRESH_TOKEN_URL_OVERRIDE": "http://127.0.0.1:9/oauth/token"}
    with ResponsesServer([say("hi")]) as server:
        assert isinstance(ask(server, env)[0], Completed)
    assert tokens_of(server) == [login["tokens"]["access_token"]]


def test_an_expired_token_and_a_dead_issuer_are_an_error(issuer: Issuer, env: dict[str, str], store: Store) -> None:
    issuer.lifetime_s = -10
    store()
    env = {**env, "CODEX_REFRESH_TOKEN_URL_OVERRIDE": "http://127.0.0.1:9/oauth/token"}
    with ResponsesServer([say("hi")]) as server:
        (error,) = ask(server, env)
    assert (error.reason, server.requests) == ("unreachable", [])


def test_another_account_is_not_taken_over_silently(
    issuer: Issuer, env: dict[str, str], store: Store, codex_home: Path
) -> None:
    store()

    def replaced(_: Any) -> Any:
        issuer.account = "acct-2"
        store()
        return UNAUTHORIZED

    with ResponsesServer([replaced, say("hi")]) as server:
        (error,) = ask(server, env)
    assert (error.reason, len(server.requests), issuer.seen) == ("changed", 1, [])


def test_refreshed_tokens_are_used_and_stored_later_if_the_disk_is_full(
    issuer: Issuer, env: dict[str, str], store: Store, codex_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    issuer.lifetime_s = 100
    before = store()
    issuer.lifetime_s = 3600
    real = os.fsync

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    def freed(_: Any) -> Any:
        assert stored(codex_home) == before
        monkeypatch.setattr(os, "fsync", real)
        return say("hi")

    monkeypatch.setattr(os, "fsync", full)
    with ResponsesServer([freed, say("hi")]) as server:
        outcomes = ask(server, env, times=2)
    assert [type(each) for each in outcomes] == [Completed, Completed]
    assert stored(codex_home)["tokens"]["access_token"] == tokens_of(server)[1]
    assert len(issuer.seen) == 1
    assert not list(codex_home.glob(".auth-*"))


def test_refreshed_tokens_that_are_not_stored_are_refreshed_themselves(
    issuer: Issuer,
    env: dict[str, str],
    store: Store,
    codex_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The refresh token in the file is used up."""
    import os

    before = store()
    real, written = os.fsync, []

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    def counted(descriptor: int) -> None:
        written.append(descriptor)
        real(descriptor)

    def freed(_: Any) -> Any:
        assert stored(codex_home) == before
        monkeypatch.setattr(os, "fsync", counted)
        return say("hi")

    monkeypatch.setattr(os, "fsync", full)
    with ResponsesServer(
        [UNAUTHORIZED, say("hi"), UNAUTHORIZED, freed, say("hi"), say("hi"), UNAUTHORIZED, say("hi")]
    ) as server:
        outcomes = ask(server, env, times=5)
    assert [type(each) for each in outcomes] == [Completed] * 5
    assert [seen.form["refresh_token"] for seen in issuer.seen] == [f"refresh-{n}-canary" for n in (1, 2, 3)]
    assert stored(codex_home)["tokens"]["access_token"] == tokens_of(server)[-1]
    assert len(written) == 2, "each login is stored once"
    assert len([record for record in caplog.records if "is not stored" in record.getMessage()]) == 1


def test_a_refresh_token_that_was_refused_does_not_stop_a_later_one(
    issuer: Issuer, env: dict[str, str], store: Store, codex_home: Path
) -> None:
    store()
    refusals = [(401, {"error": {"code": "refresh_token_reused"}})]
    issuer.answers["/oauth/token"] = lambda _: refusals.pop() if refusals else (200, issuer.tokens())

    def replaced(_: Any) -> Any:
        newer = stored(codex_home)
        newer["tokens"]["refresh_token"] = "of-a-new-login"
        (codex_home / "auth.json").write_text(json.dumps(newer))
        return UNAUTHORIZED

    with ResponsesServer([UNAUTHORIZED, replaced, say("hi")]) as server:
        first, second = ask(server, env, times=2)
    assert isinstance(first, LoginError)
    assert isinstance(second, Completed)
    assert [seen.form["refresh_token"] for seen in issuer.seen] == ["refresh-1-canary", "of-a-new-login"]


@pytest.mark.parametrize("answer", [(500, {"error": "busy"}), (503, b"")])
def test_an_issuer_that_was_busy_is_asked_again(
    answer: tuple[int, Any], issuer: Issuer, env: dict[str, str], store: Store
) -> None:
    store()
    failures = [answer]
    issuer.answers["/oauth/token"] = lambda _: failures.pop() if failures else (200, issuer.tokens())
    with ResponsesServer([UNAUTHORIZED, UNAUTHORIZED, say("hi")]) as server:
        first, second = ask(server, env, times=2)
    assert isinstance(first, LoginError)
    assert isinstance(second, Completed)


@pytest.mark.parametrize(
    ("missing", "fact"),
    [
        ("access_token", "ChatGPT auth is missing an access token"),
        ("refresh_token", "ChatGPT auth is missing a refresh token"),
    ],
)
def test_a_login_without_a_token_is_named(
    missing: str, fact: str, issuer: Issuer, env: dict[str, str], store: Store, codex_home: Path
) -> None:
    content = store()
    content["tokens"][missing] = ""
    content["last_refresh"] = datetime.now(UTC).isoformat()
    (codex_home / "auth.json").write_text(json.dumps(content))
    with ResponsesServer([UNAUTHORIZED], repeat_last=True) as server:
        (error,) = ask(server, env)
    assert isinstance(error, ModelError)
    assert (fact in error.fact, "codex-framework login" in error.hint) == (True, True)
    assert issuer.seen == []


def test_a_key_in_place_of_the_login_is_not_used_for_it(
    issuer: Issuer, env: dict[str, str], store: Store, codex_home: Path
) -> None:
    issuer.account = ""
    store(tokens={**issuer.tokens(), "account_id": None})

    def replaced(_: Any) -> Any:
        (codex_home / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": "sk-other"}))
        return UNAUTHORIZED

    with ResponsesServer([replaced, say("hi")]) as server:
        (error,) = ask(server, env)
    assert (getattr(error, "reason", error), len(server.requests)) == ("changed", 1)


MANY = """
import asyncio, os, sys
from codex_lib_model_client.login.access import find_login
tokens = find_login(os.environ, {})
print("ready", flush=True)
sys.stdin.readline()
print(asyncio.run(tokens.token(refused=tokens._login.access_token if sys.argv[1] == "refused" else "")))
"""


@pytest.mark.parametrize("why", ["stale", pytest.param("refused", marks=pytest.mark.thorough)])
def test_of_ten_processes_one_refreshes(why: str, issuer: Issuer, env: dict[str, str], store: Store) -> None:
    issuer.lifetime_s = 200 if why == "stale" else 3600
    store()
    issuer.lifetime_s = 3600
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MANY, why], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True
        )
        for _ in range(10)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = {process.communicate(timeout=60)[0] for process in processes}
    assert len(answers) == 1
    assert len(issuer.seen) == 1


@pytest.mark.slow
def test_a_refresh_is_stored_although_the_process_ends(
    issuer: Issuer, env: dict[str, str], store: Store, codex_home: Path, tmp_path: Path
) -> None:
    """The issuer answers after the 2 seconds that other work has at the end of a run."""
    issuer.lifetime_s = 100
    store()
    asked = threading.Event()

    def slow(_: Any) -> tuple[int, Any]:
        asked.set()
        time.sleep(3.5)
        return 200, issuer.tokens()

    issuer.answers["/oauth/token"] = slow
    (codex_home / "config.toml").write_text('openai_base_url = "http://127.0.0.1:9/v1"\n')
    command = [sys.executable, "-m", "codex_framework", "exec", "--skip-git-repo-check", "hi"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert asked.wait(20)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        errors = process.stderr.read().decode()
        assert (process.wait(20), "abandoned" in errors) == (143, False)
    assert stored(codex_home)["tokens"]["refresh_token"] == "refresh-2-canary"
