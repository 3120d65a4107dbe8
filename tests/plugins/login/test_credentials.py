"""Which credential goes where, who may read it, and where it is never shown."""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ModelError, ProviderInfo
from codex_framework.testing.replies import fault, say
from codex_framework.testing.requests import model_request
from codex_framework.testing.server import ResponsesServer
from codex_lib_model_client.credentials import access, credentials
from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.flow import refusal
from codex_lib_model_client.login.issuer import Reply, check_url, request
from codex_lib_model_client.login.storage import LoginStorage
from codex_lib_model_client.login.stored import StoredLogin
from codex_lib_model_client.secret_masking import CredentialFilter
from codex_lib_model_client.token_command import TokenCommand
from codex_plugin_login.status import masked
from codex_plugin_openai.provider import ResponsesProvider
from tests.plugins.login.issuer import Issuer

KEY = "sk-canary-0123456789"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1.evil.example/oauth",
        "http://localhost.evil.example",
        "http://evil.example#@127.0.0.1",
        "http://127.0.0.1@evil.example",
        "http://evil.example",
        "https://",
        "https://evil.example:0",
        "https://a b",
        "//127.0.0.1",
    ],
)
def test_a_login_goes_only_over_https_or_to_this_machine(url: str) -> None:
    with pytest.raises(LoginError, match="cannot be used for a login"):
        check_url(url)


@pytest.mark.parametrize(
    "url", ["https://issuer.example/a", "http://127.0.0.1:5/a", "http://localhost", "http://[::1]:5"]
)
def test_an_issuer_with_https_or_on_this_machine_is_fine(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    ("table", "env", "sent"),
    [
        ({"env_http_headers": {"Authorization": "MINE"}}, {"MINE": "Basic x"}, None),
        ({"env_http_headers": {"Authorization": "MINE"}}, {}, KEY),
        ({"http_headers": {"AUTHORIZATION": "Basic x"}}, {}, None),
        ({"http_headers": {"x-other": "1"}}, {}, KEY),
        ({"requires_openai_auth": False}, {}, None),
    ],
)
def test_openais_key_is_sent_only_where_the_table_asks_for_it(
    table: Any, env: dict[str, str], sent: str | None
) -> None:
    info = ProviderInfo(**{"id": "mine", "base_url": "http://127.0.0.1:9/v1", "requires_openai_auth": True, **table})
    assert access(info, {**env, "CODEX_API_KEY": KEY, "CODEX_HOME": "/nowhere"}, {}).key == sent


def test_a_redirect_is_not_followed_with_the_key() -> None:
    async def ask(url: str) -> ModelError:
        info = ProviderInfo(id="mine", base_url=url, experimental_bearer_token=KEY, request_max_retries=0)
        client = ResponsesProvider({}).open(info, {})
        with pytest.raises(ModelError) as caught:
            async for _ in client.stream(model_request()):
                pass
        await client.aclose()
        return caught.value

    with ResponsesServer([say("stolen")], repeat_last=True) as thief:
        for status in (301, 302, 307, 308):
            away = fault(status, headers={"location": f"{thief.url}/responses"}, body="")
            with ResponsesServer([away]) as server:
                assert str(status) in asyncio.run(ask(server.url)).fact
    assert thief.requests == []


@pytest.mark.parametrize(
    ("headers", "table", "env"),
    [
        ({"Authorization": f"Bearer {KEY}"}, {}, {}),
        ({"x-api-key": KEY}, {}, {}),
        ({"Api-Key": KEY}, {}, {}),
        ({}, {"http_headers": {"x-mine": KEY}}, {}),
        ({}, {"env_http_headers": {"x-mine": "MINE"}}, {"MINE": f" {KEY}\n"}),
        ({}, {}, {"https_proxy": f"http://me:{KEY}@proxy:3128"}),
        ({}, {}, {"ALL_PROXY": f"me:{KEY}@proxy:3128"}),
    ],
)
def test_every_form_of_a_credential_is_hidden(headers: Any, table: Any, env: dict[str, str]) -> None:
    hiding = CredentialFilter(ProviderInfo(id="mine", **table), "https://h/v1", headers, env)
    assert hiding.text(f"no such key: {KEY}.") == "no such key: (hidden)."


def test_a_credential_is_hidden_in_urls_in_json_and_for_a_while_after_it_was_replaced() -> None:
    odd = 'tok"en\\0123456789'
    hiding = CredentialFilter(ProviderInfo(id="mine"), "https://me:pass%40word1@h/v1?key=a%2Fsecret99", {}, {})
    for number in range(8):
        hiding.add(f"token-{number}-{odd}")
    said = 'token-0-tok\\"en\\\\0123456789 pass%40word1 pass@word1 a/secret99 a%2Fsecret99'
    assert hiding.text(said) == "(hidden) (hidden) (hidden) (hidden) (hidden)"
    hiding.add("token-8-0123456789")
    assert "token-0" in hiding.text(said), "only the last eight are kept"


def test_a_token_that_cannot_be_sent_is_not_quoted(issuer: Issuer, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LoginError) as caught:
        request("GET", f"{issuer.url}/whoami", bearer=f"{KEY}\r\nx-evil: 1")
    assert issuer.seen == []
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert KEY not in repr(Reply(200, {"access_token": KEY}))
    assert KEY not in "".join(capfd.readouterr())


def test_a_refusal_shows_only_what_the_issuer_says_about_it() -> None:
    said = refusal("Token exchange failed", Reply(400, {"error": {"code": "invalid_grant"}, "refresh_token": KEY}))
    assert said.fact == "Token exchange failed: the login server answered with status 400: invalid_grant"


@pytest.mark.parametrize(("end", "words"), [("exit 3", "ended with status 3: oops"), ("echo two", "is not a token")])
def test_what_a_token_program_prints_is_not_shown(end: str, words: str) -> None:
    auth = {"command": "/bin/sh", "args": ["-c", f"echo {KEY}; echo oops >&2; {end}"]}
    command = TokenCommand.of(ProviderInfo(id="mine", options={"auth": auth}), {"PATH": "/usr/bin:/bin"})
    with pytest.raises(ModelError, match=words) as caught:
        asyncio.run(command.token())
    assert KEY not in f"{caught.value} {caught.value.hint} {caught.value.__cause__}"


@pytest.mark.parametrize(
    ("key", "shown"), [("", "***"), ("sk-12345", "***"), ("x" * 13, "***"), ("sk-proj-0123456789", "sk-proj-***56789")]
)
def test_a_short_key_is_masked_as_a_whole(key: str, shown: str) -> None:
    assert masked(key) == shown


def test_values_with_credentials_do_not_show_them(codex_home: Path) -> None:
    found = access(ProviderInfo(id="openai"), {"CODEX_API_KEY": KEY}, {})
    LoginStorage(codex_home).save(StoredLogin.of_chatgpt({"access_token": KEY, "refresh_token": KEY}))
    tokens = access(ProviderInfo(id="openai"), {"CODEX_HOME": str(codex_home)}, {}).tokens
    assert found.key == KEY
    assert tokens is not None
    assert KEY not in f"{found!r} {tokens!r} {credentials(ProviderInfo(id='mine', env_key='K'), {'K': 'k'}, {})!r}"


# Storage


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}


def test_only_the_owner_can_read_what_is_stored_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        home = tmp_path / "home"
        storage = LoginStorage(home)
        storage.save(StoredLogin.of_key(KEY))
        with storage.refreshing():
            assert modes(home) == {
                "home": 0o700,
                **dict.fromkeys(("auth.json", "auth.lock", "auth.json.lock", "auth.refresh.lock"), 0o600),
            }
        storage.path.chmod(0o644)
        storage.save(StoredLogin.of_key(KEY))
        assert modes(home)["auth.json"] == 0o600, "one that was readable for others is replaced"
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", ["auth.lock", "auth.json.lock"])
@pytest.mark.parametrize("action", ["save", "delete"])
def test_a_login_is_not_changed_while_codex_changes_it(name: str, action: str, codex_home: Path) -> None:
    storage = LoginStorage(codex_home)
    storage.save(StoredLogin.of_key("of Codex"))
    work: dict[str, Callable[[], Any]] = {
        "save": lambda: storage.save(StoredLogin.of_key(KEY)),
        "delete": storage.delete,
    }
    with (codex_home / name).open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(target=work[action])
        thread.start()
        thread.join(0.06)
        assert thread.is_alive()
        assert storage.load() == StoredLogin.of_key("of Codex")
    thread.join(60)
    assert storage.load() == (StoredLogin.of_key(KEY) if action == "save" else None)


def test_a_lock_that_is_a_symlink_is_refused(codex_home: Path, tmp_path: Path) -> None:
    (codex_home / "auth.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LoginError, match=r"auth\.lock cannot be opened"):
        LoginStorage(codex_home).save(StoredLogin.of_key(KEY))
    assert not (tmp_path / "elsewhere").exists()
    assert not (codex_home / "auth.json").exists()
