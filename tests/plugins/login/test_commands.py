"""The commands, as the shell runs them."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import say
from codex_framework.testing.server import ResponsesServer
from tests.forked import RunProgram
from tests.plugins.login.issuer import Issuer

KEY = "sk-test-1234567890abcdef"
NO_KEYS = (" \n", "two words\n", "a\nb\n", "sk-\x00x", "ü")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(env: dict[str, str], tmp_path: Path, run_program: RunProgram) -> Run:
    def ran(*words: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return run_program(*words, cwd=tmp_path, env={**env, **more}, stdin=stdin.encode())

    return ran


def test_an_api_key_is_stored_and_shown_masked(run: Run, codex_home: Path) -> None:
    done = run("login", "--with-api-key", stdin=f" {KEY}\n")
    assert (done.returncode, done.stdout, KEY in done.stderr) == (0, "", False)
    path = codex_home / "auth.json"
    assert json.loads(path.read_text()) == {"auth_mode": "apikey", "OPENAI_API_KEY": KEY}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    shown = run("login", "status")
    assert shown.stderr.splitlines()[0] == "API key configured - sk-test-***bcdef"
    gone = run("logout")
    assert (gone.returncode, gone.stderr, path.exists()) == (0, "Successfully logged out\n", False)


def test_a_byte_order_mark_on_stdin_is_no_part_of_the_key(run: Run, codex_home: Path) -> None:
    assert run("login", "--with-api-key", stdin=f"\ufeff{KEY}\n").returncode == 0
    assert json.loads((codex_home / "auth.json").read_text())["OPENAI_API_KEY"] == KEY


@pytest.mark.thorough
def test_who_is_not_logged_in_is_told_so(run: Run) -> None:
    status = run("login", "status")
    assert (status.returncode, status.stderr) == (1, "Not logged in\n")
    done = run("logout")
    assert (done.returncode, done.stderr) == (0, "Not logged in\n")


@pytest.mark.parametrize("given", ["", *(pytest.param(text, marks=pytest.mark.thorough) for text in NO_KEYS)])
def test_what_cannot_be_a_key_is_refused(run: Run, codex_home: Path, given: str) -> None:
    done = run("login", "--with-api-key", stdin=given)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert not (codex_home / "auth.json").exists()


def test_a_device_code_logs_in(run: Run, issuer: Issuer, codex_home: Path) -> None:
    done = run("login", "--device-auth", "--issuer", issuer.url)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "Successfully logged in")
    assert f"{issuer.url}/codex/device" in done.stderr
    assert "ABCD-1234" in done.stderr
    base = "/api/accounts/deviceauth"
    assert issuer.paths() == [f"{base}/usercode", f"{base}/token", f"{base}/token", "/oauth/token"]
    assert dict(issuer.seen[1].form) == {"device_auth_id": "device-1", "user_code": "ABCD-1234"}
    assert json.loads((codex_home / "auth.json").read_text())["tokens"]["account_id"] == "acct-1"
    assert run("login", "status").stderr.splitlines()[:1] == ["Logged in using ChatGPT"]
    assert run("logout").returncode == 0
    assert dict(issuer.seen[-1].form) == {
        "token": "refresh-1-canary",
        "token_type_hint": "refresh_token",
        "client_id": "app_EMoamEEZ73f0CkXaXp7hrann",
    }


@pytest.mark.thorough
def test_a_browser_logs_in(run: Run, env: dict[str, str], issuer: Issuer, codex_home: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "codex_framework", "login", "--issuer", issuer.url, "--timeout", "30"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = ""
        for line in process.stderr:
            if found := re.match(r"http\S+/oauth/authorize\S+", line):
                address = found[0]
                break
        with urllib.request.urlopen(address, timeout=20) as page:
            assert page.status == 200
        assert process.wait(30) == 0
    assert (codex_home / "auth.json").exists()


@pytest.mark.parametrize(
    ("issuer_url", "words"),
    [
        ("http://example.com", "it is not an https URL"),
        pytest.param("ftp://x", "it is not an https URL", marks=pytest.mark.thorough),
        pytest.param("nonsense", "it is not an https URL", marks=pytest.mark.thorough),
        ("https://user:secret-login@127.0.0.1:9", "cannot be reached"),
    ],
)
def test_an_issuer_that_cannot_be_used_is_an_error(run: Run, issuer_url: str, words: str) -> None:
    done = run("login", "--device-auth", "--issuer", issuer_url)
    assert (done.returncode, words in done.stderr, "Traceback" in done.stderr) == (1, True, False)
    assert "secret-login" not in done.stderr


@pytest.mark.thorough
def test_a_personal_access_token_is_checked_and_stored(run: Run, issuer: Issuer, codex_home: Path) -> None:
    issuer.answers["/v1/user-auth-credential/whoami"] = lambda _: (200, {"chatgpt_account_id": "acct-9"})
    assert run("login", "--with-access-token", stdin="at-abc").returncode == 0
    assert issuer.seen[0].headers["authorization"] == "Bearer at-abc"
    stored = json.loads((codex_home / "auth.json").read_text())
    assert stored == {"OPENAI_API_KEY": None, "personal_access_token": "at-abc"}
    assert run("login", "status").stderr == "Logged in using personal access token\n"
    issuer.answers["/v1/user-auth-credential/whoami"] = lambda _: (401, {})
    refused = run("login", "--with-access-token", stdin="at-old")
    assert (refused.returncode, "at-old" in refused.stderr) == (1, False)
    assert run("login", "--with-access-token", stdin="eyJ.other.kind").returncode == 1


def test_forced_settings_forbid_the_other_login(run: Run, codex_home: Path) -> None:
    config = codex_home / "config.toml"
    config.write_text('forced_login_method = "chatgpt"\n')
    done = run("login", "--with-api-key", stdin=KEY)
    assert (done.returncode, "ChatGPT login is required" in done.stderr) == (1, True)
    config.write_text('forced_login_method = "api"\n')
    done = run("login", "--device-auth")
    assert (done.returncode, "API key login is required" in done.stderr) == (1, True)
    assert not (codex_home / "auth.json").exists()


@pytest.mark.parametrize(
    ("store", "status"),
    [("keyring", 1), *(pytest.param(*case, marks=pytest.mark.thorough) for case in (("ephemeral", 1), ("auto", 0)))],
)
def test_a_store_that_cannot_be_used_is_an_error(run: Run, codex_home: Path, store: str, status: int) -> None:
    (codex_home / "config.toml").write_text(f'cli_auth_credentials_store = "{store}"\n')
    done = run("login", "--with-api-key", stdin=KEY)
    assert (done.returncode, "cli_auth_credentials_store" in done.stderr) == (status, bool(status))
    assert (codex_home / "auth.json").exists() is not bool(status)


@pytest.mark.thorough
def test_what_cannot_be_read_can_be_deleted(run: Run, codex_home: Path) -> None:
    (codex_home / "auth.json").write_text("{")
    assert run("login", "status").returncode == 1
    done = run("logout")
    assert (done.returncode, (codex_home / "auth.json").exists()) == (0, False)


# Beside the real Codex


@pytest.fixture
def codex(env: dict[str, str], tmp_path: Path, codex_binary: str) -> Run:

    def ran(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        path = {"PATH": os.environ["PATH"]}
        return subprocess.run(
            [codex_binary, *words],
            cwd=tmp_path,
            env={**env, **path},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return ran


@pytest.mark.parametrize("kind", ["key", "device", "personal"])
def test_codex_reads_what_is_written_here_and_the_reverse(
    run: Run, codex: Run, issuer: Issuer, codex_home: Path, kind: str
) -> None:
    whoami = {
        "email": "a@b.c",
        "chatgpt_user_id": "u",
        "chatgpt_account_id": "acct-9",
        "chatgpt_plan_type": "team",
        "chatgpt_account_is_fedramp": False,
    }
    issuer.answers["/v1/user-auth-credential/whoami"] = lambda _: (200, whoami)
    ways: dict[str, tuple[tuple[str, ...], str]] = {
        "key": (("--with-api-key",), KEY),
        "device": (("--device-auth", "--experimental_issuer", issuer.url), ""),
        "personal": (("--with-access-token",), "at-abc"),
    }
    options, stdin = ways[kind]
    path = codex_home / "auth.json"
    shapes: list[Any] = []
    for writer, reader in ((run, codex), (codex, run)):
        issuer.pending = 0
        assert writer("login", *options, stdin=stdin).returncode == 0
        shapes.append((_shape(json.loads(path.read_text())), stat.S_IMODE(path.stat().st_mode), path.read_text()[-2:]))
        said = reader("login", "status")
        assert said.returncode == 0
        assert ("API key configured" if kind == "key" else "Logged in using") in said.stderr
        assert reader("logout").returncode == 0
        assert not path.exists()
    assert shapes[0] == shapes[1]


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return [(name, _shape(part)) for name, part in value.items()]
    return type(value).__name__


@pytest.mark.parametrize("first", ["codex", "here"])
def test_what_one_has_refreshed_the_other_uses(
    run: Run, codex: Run, issuer: Issuer, codex_home: Path, first: str
) -> None:
    """A login of here, whose tokens are about to expire, is refreshed by one program and used by both."""
    issuer.pending, issuer.lifetime_s = 0, 100
    assert run("login", "--device-auth", "--issuer", issuer.url).returncode == 0
    issuer.lifetime_s = 3600
    programs = {"codex": codex, "here": run}
    with ResponsesServer([say("ok")], repeat_last=True) as server:
        table = f'{{name="x",base_url="{server.url}",requires_openai_auth=true}}'
        options = ("-c", f"model_providers.x={table}", "-c", 'model_provider="x"', "-c", "features.apps=false")
        for name in (first, *(programs.keys() - {first})):
            done = programs[name]("exec", "--skip-git-repo-check", *options, "-c", "analytics.enabled=false", "hi")
            assert done.returncode == 0, done.stderr
    tokens = json.loads((codex_home / "auth.json").read_text())["tokens"]
    sent = {(each.headers["authorization"], each.headers["chatgpt-account-id"]) for each in server.requests}
    assert sent == {(f"Bearer {tokens['access_token']}", "acct-1")}
    assert tokens["refresh_token"] == "refresh-2-canary"
    assert len([seen for seen in issuer.seen if seen.form.get("grant_type") == "refresh_token"]) == 1


@pytest.mark.parametrize("status", [403, 404, 429, 500, 503])
def test_a_device_code_is_asked_for_again_while_the_issuer_is_busy(run: Run, issuer: Issuer, status: int) -> None:
    token = "/api/accounts/deviceauth/token"
    busy = [status]

    def answer(seen: Any) -> tuple[int, Any]:
        return (busy.pop(), {}) if busy else issuer._device()

    issuer.pending, issuer.answers[token] = 0, answer
    done = run("login", "--device-auth", "--issuer", issuer.url)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "Successfully logged in")
    assert issuer.paths().count(token) == 2
