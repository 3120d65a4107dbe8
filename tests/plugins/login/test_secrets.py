"""No credential is ever written: not to the session, the trace, the telemetry, the output, nor into an error."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import call, fault, say
from codex_framework.testing.server import ResponsesServer
from codex_framework.toolkit.login.errors import LoginError
from codex_framework.toolkit.login.issuer import Reply
from codex_framework.toolkit.login.policy import LoginPolicy
from codex_framework.toolkit.login.storage import LoginStorage
from codex_framework.toolkit.login.stored import StoredLogin
from codex_plugin_login.flow import refusal
from codex_plugin_login.status import status_text
from tests.plugins.login.issuer import Issuer, jwt

CANARY = "cAnArY-0123456789-dO-nOt-WrItE"


def canary(kind: str) -> str:
    return f"{kind}-{CANARY}"


def login_of_chatgpt(home: Path, issuer: Issuer) -> None:
    claims = {"https://api.openai.com/auth": {"chatgpt_account_id": "acct-1"}, "exp": 4_000_000_000}
    tokens = {
        "id_token": jwt(**claims),
        "access_token": canary("access"),
        "refresh_token": canary("refresh"),
        "account_id": "acct-1",
    }
    content = {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": "2126-01-01T00:00:00Z"}
    (home / "auth.json").write_text(json.dumps(content))
    issuer.answers["/oauth/token"] = lambda _: (400, {"error": {"code": canary("code"), "message": canary("refresh")}})


Setup = Callable[[Path, Issuer], dict[str, str]]


def with_program(home: Path, _: Issuer) -> dict[str, str]:
    program = home.parent / "token"
    program.write_text(f"#!/bin/sh\necho {canary('output')}\n")
    program.chmod(0o755)
    return {"TOKEN_PROGRAM": str(program)}


def with_stored_key(home: Path, _: Issuer) -> dict[str, str]:
    (home / "auth.json").write_text(json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": canary("stored")}))
    return {}


def with_chatgpt(home: Path, issuer: Issuer) -> dict[str, str]:
    login_of_chatgpt(home, issuer)
    return {}


KINDS: dict[str, tuple[str, Setup]] = {
    "a key in the environment": ('env_key="MY_KEY"', lambda *_: {"MY_KEY": canary("env")}),
    "a bearer token": (f'experimental_bearer_token="{canary("bearer")}"', lambda *_: {}),
    "a program's output": ('auth={command="TOKEN_PROGRAM"}', with_program),
    "a stored key": ("requires_openai_auth=true", with_stored_key),
    "OPENAI_API_KEY": ("requires_openai_auth=true", lambda *_: {"OPENAI_API_KEY": canary("openai")}),
    "CODEX_API_KEY": ("requires_openai_auth=true", lambda *_: {"CODEX_API_KEY": canary("codex")}),
    "CODEX_ACCESS_TOKEN": ("requires_openai_auth=true", lambda *_: {"CODEX_ACCESS_TOKEN": f"at-{CANARY}"}),
    "tokens of ChatGPT": ("requires_openai_auth=true", with_chatgpt),
    "headers": (
        f'http_headers={{"x-secret"="{canary("header")}"}}, env_http_headers={{"x-token"="MY_HEADER"}}',
        lambda *_: {"MY_HEADER": canary("env-header")},
    ),
    "a URL": (f'query_params={{"key"="{canary("query")}"}}', lambda *_: {}),
}
"""How a provider's table names a credential, and where the credential is."""


def echoed(request: Any) -> Any:
    """A server that repeats what it was sent in its refusal, as careless ones do."""
    message = f"bad credentials: {request.headers.get('authorization')} {dict(request.headers)} {request.path}"
    return fault(status=401, body={"error": {"message": message, "code": "invalid_api_key"}})


def garbled(request: Any) -> Any:
    return fault(status=403, body=f"<html>{request.headers.get('authorization')} {request.path}</html>")


def failing(request: Any) -> Any:
    message = f"quota of {request.headers.get('authorization')} at {request.path} with {dict(request.headers)}"
    return fault(failed={"code": "insufficient_quota_of_some_kind", "message": message})


REPLIES: dict[str, list[Any]] = {
    "a good turn": [call("exec_command", cmd="env; true"), say("done")],
    "a refusal that repeats it": [echoed],
    "another refusal": [garbled],
    "a failure in the stream": [failing],
    "a cut": [fault(after=1, raw_before="event: x\n\n")],
}


def written(folder: Path) -> dict[str, bytes]:
    """Everything below a folder, apart from where credentials belong."""
    own = {"auth.json", "config.toml", "token"}
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name not in own}


QUICK = {
    ("tokens of ChatGPT", "a refusal that repeats it"),
    ("a URL", "a failure in the stream"),
}
CASES = [
    pytest.param(kind, replies, marks=() if (kind, replies) in QUICK else (pytest.mark.thorough,))
    for kind in KINDS
    for replies in REPLIES
]


@pytest.mark.parametrize(("kind", "replies"), CASES)
def test_no_credential_is_written(
    kind: str, replies: str, env: dict[str, str], issuer: Issuer, codex_home: Path, tmp_path: Path
) -> None:
    credential, setup = KINDS[kind]
    environ = {**env, **setup(codex_home, issuer)}
    issuer.answers["/v1/user-auth-credential/whoami"] = lambda _: (200, {"chatgpt_account_id": "acct-1"})
    credential = credential.replace("TOKEN_PROGRAM", environ.pop("TOKEN_PROGRAM", ""))
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    with ResponsesServer(REPLIES[replies], repeat_last=True) as server:
        url = server.url.replace("http://", f"http://user:{canary('userinfo')}@") if kind == "a URL" else server.url
        tries = "request_max_retries=0, stream_max_retries=0"
        (codex_home / "config.toml").write_text(
            f'model_provider="here"\nsandbox_mode="danger-full-access"\n[model_providers]\n'
            f'here={{base_url="{url}", {tries}, {credential}}}\n'
        )
        outputs = []
        for form in (["--json", "--trace", str(tmp_path / "trace")], []):
            done = subprocess.run(
                [sys.executable, "-m", "codex_framework", "exec", "--skip-git-repo-check", *form, "hi"],
                cwd=work,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=60,
                check=False,
            )
            outputs += [done.stdout, done.stderr]
            assert done.returncode == (0 if replies == "a good turn" else 1), done.stderr
            assert b"Traceback" not in done.stderr
    sent = json.dumps([(dict(request.headers), request.path) for request in server.requests])
    assert CANARY in sent or base64.b64encode(f"user:{canary('userinfo')}".encode()).decode() in sent
    everything = {
        **written(tmp_path),
        "outputs": b"\n".join(outputs),
        **{str(i): r.body for i, r in enumerate(server.requests)},
    }
    if replies == "a good turn":
        assert any(b"command" in content for content in everything.values())
    login = base64.b64encode(f"user:{canary('userinfo')}".encode())
    forms = [CANARY.encode(), login, CANARY.encode().hex().encode()]
    assert [place for place, content in everything.items() if any(form in content for form in forms)] == []


def test_an_issuer_cannot_control_the_terminal(codex_home: Path) -> None:
    evil = "\x1b[2J\r\nError: \u202e"
    claims = {
        "email": f"a{evil}",
        "https://api.openai.com/auth": {"chatgpt_account_id": evil, "chatgpt_plan_type": evil},
    }
    storage = LoginStorage(codex_home)
    storage.save(StoredLogin.of_chatgpt({"id_token": jwt(**claims), "access_token": "a"}))
    shown = status_text(storage, {})
    assert (len(shown.splitlines()), shown.replace("\n", "").isprintable()) == (2, True)
    storage.save(StoredLogin.of_key(f"{evil}0123456789"))
    assert status_text(storage, {}).replace("\n", "").isprintable()
    said = refusal("Token exchange failed", Reply(400, {"error_description": evil})).fact
    with pytest.raises(LoginError) as caught:
        LoginPolicy(workspaces=("mine",)).check_account(evil)
    assert (said.isprintable(), caught.value.fact.isprintable()) == (True, True)
