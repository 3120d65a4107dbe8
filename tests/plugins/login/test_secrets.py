"""No credential is ever written: not to the session, the trace, the telemetry, the output, nor into an error."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from codex_framework.testing.replies import call, fault, say
from codex_framework.testing.server import ResponsesServer
from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.flow import refusal
from codex_lib_model_client.login.issuer import Reply
from codex_lib_model_client.login.policy import LoginPolicy
from codex_lib_model_client.login.storage import LoginStorage
from codex_lib_model_client.login.stored import StoredLogin
from codex_plugin_login.status import status_text
from tests.forked import RunProgram
from tests.plugins.login.issuer import Issuer, jwt

CANARY = "cAnArY-01/23+45=67~89-dO-nOt-WrItE"
"""It has characters that are written differently in URLs and in base64."""


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


def stale(home: Path, issuer: Issuer) -> dict[str, str]:
    """Tokens that are refreshed before the first request, at an issuer that repeats what it is sent."""
    login_of_chatgpt(home, issuer)
    content = json.loads((home / "auth.json").read_text())
    (home / "auth.json").write_text(json.dumps({**content, "last_refresh": "2020-01-01T00:00:00Z"}))

    def careless(seen: Any) -> tuple[int, Any]:
        return 400, {
            "error": {"code": canary("code"), "message": repr(dict(seen.form))},
            "error_description": repr(seen),
        }

    issuer.answers["/oauth/token"] = careless
    return {}


def agent(home: Path, issuer: Issuer) -> dict[str, str]:
    """An agent identity, at a login server that repeats what it is sent."""
    from tests.plugins.login.agents import Agents

    agents = Agents(issuer)
    (home / "auth.json").write_text(json.dumps({"auth_mode": "agentIdentity", "agent_identity": agents.record}))
    SECRETS["an agent identity"] = [str(agents.record["agent_private_key"])]
    return agents.env


def with_login(home: Path, issuer: Issuer) -> dict[str, str]:
    """An id token whose claims are private."""
    login_of_chatgpt(home, issuer)
    content = json.loads((home / "auth.json").read_text())
    token = jwt(email=canary("email"), **{"https://api.openai.com/auth": {"chatgpt_account_id": "acct-1"}})
    content["tokens"]["id_token"] = token
    (home / "auth.json").write_text(json.dumps(content))
    SECRETS["an id token"] = [token]
    return {}


SECRETS: dict[str, list[str]] = {}
"""Further secrets of a kind, apart from the canary."""

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
    "tokens that are refreshed": ("requires_openai_auth=true", stale),
    "an id token": ("requires_openai_auth=true", with_login),
    "an agent identity": ("requires_openai_auth=true", agent),
    "MCP servers": ('env_key="MY_KEY"', lambda *_: {"MY_KEY": canary("env")}),
    "a proxy": ('env_key="MY_KEY"', lambda *_: {"MY_KEY": canary("env")}),
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


def encoded(*encodings: Callable[[str], str]) -> Callable[[Any], Any]:
    """A server that repeats what it was sent in other encodings."""

    def answer(request: Any) -> Any:
        told = [value for value in (*request.headers.values(), request.path) if "cAnArY" in unquote(value)]
        told = told or [request.headers.get("authorization", "?")]
        message = " ".join(encode(text) for text in told for encode in encodings)
        return fault(status=400, body={"error": {"message": message, "code": "odd"}})

    return answer


def in_base64(text: str) -> str:
    return " ".join(base64.b64encode(f"{before}{text}".encode()).decode() for before in ("", "x", "xx"))


def in_base64_for_urls(text: str) -> str:
    return base64.urlsafe_b64encode(f"xx{text}".encode()).decode().rstrip("=")


def escaped(text: str) -> str:
    return f"{quote(text, safe='')} {quote(text)} {json.dumps(text)}"


def in_hex(text: str) -> str:
    return f"{text.encode().hex()} {text.encode().hex().upper()}"


REPLIES: dict[str, list[Any]] = {
    "a good turn": [call("exec_command", cmd="env; true"), say("done")],
    "a refusal that repeats it": [echoed],
    "another refusal": [garbled],
    "base64": [encoded(in_base64, in_base64_for_urls)],
    "other encodings": [encoded(escaped, in_hex)],
    "a failure in the stream": [failing],
    "a cut": [fault(after=1, raw_before="event: x\n\n")],
}


def written(folder: Path) -> dict[str, bytes]:
    """Everything below a folder, apart from where credentials belong."""
    own = {"auth.json", "config.toml", "token", "chatty"}
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name not in own}


QUICK = {
    ("tokens of ChatGPT", "base64"),
    ("a URL", "a failure in the stream"),
    ("a proxy", "a refusal that repeats it"),
    ("MCP servers", "a good turn"),
}
CASES = [
    pytest.param(kind, replies, marks=() if (kind, replies) in QUICK else (pytest.mark.thorough,))
    for kind in KINDS
    for replies in REPLIES
]


def forms(secret: str) -> set[bytes]:
    """A secret as it may be written: as it is, or encoded with whatever stands before and after it."""
    data = secret.encode()
    plain = {secret, quote(secret, safe=""), quote(secret), data.hex(), data.hex().upper(), json.dumps(secret)[1:-1]}
    plain |= {text.lower() for text in plain if "%" in text}
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            whole = encode(b"x" * before + data).decode()
            plain.add(whole[before and before + 1 : len(whole) // 4 * 4 - 4])
    return {text.encode() for text in plain}


def careless(seen: Any) -> tuple[int, Any]:
    told = repr((dict(seen.headers), dict(seen.query)))
    return 400, {"error": {"message": told}, "error_description": told, "jsonrpc": "2.0", "id": 1}


def mcp_servers(issuer: Issuer, home: Path) -> str:
    """MCP servers that repeat what they know, over HTTP and over stdio."""
    program = home.parent / "chatty"
    program.write_text('#!/bin/sh\necho "my secret is $MCP_SECRET $1" >&2\nexit 1\n')
    program.chmod(0o755)
    issuer.answers["/mcp"] = careless
    return f"""
[mcp_servers.careless]
url = "{issuer.url}/mcp?key={quote(canary("mcp-query"), safe="")}"
bearer_token_env_var = "MCP_TOKEN"
http_headers = {{ x-mcp = "{canary("mcp-header")}" }}
[mcp_servers.chatty]
command = "{program}"
env = {{ MCP_SECRET = "{canary("mcp-env")}" }}
"""


@pytest.mark.parametrize(("kind", "replies"), CASES)
def test_no_credential_is_written(
    kind: str,
    replies: str,
    env: dict[str, str],
    issuer: Issuer,
    codex_home: Path,
    tmp_path: Path,
    run_program: RunProgram,
) -> None:
    credential, setup = KINDS[kind]
    environ = {**env, **setup(codex_home, issuer)}
    if kind != "tokens that are refreshed":
        issuer.answers["/v1/user-auth-credential/whoami"] = lambda _: (200, {"chatgpt_account_id": "acct-1"})
    credential = credential.replace("TOKEN_PROGRAM", environ.pop("TOKEN_PROGRAM", ""))
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    script = REPLIES[replies]
    if kind == "a proxy" and replies == "a good turn":  # commands have the proxy, too, and `env` shows it
        script = [call("exec_command", cmd="true"), say("done")]
    with ResponsesServer(script, repeat_last=True) as server:
        url = server.url
        if kind == "a URL":
            url = url.replace("http://", f"http://user:{quote(canary('userinfo'), safe='')}@")
        if kind == "a proxy":
            environ["HTTP_PROXY"] = server.url.replace("http://", f"http://user:{quote(canary('proxy'), safe='')}@")
            url = "http://model.example/v1"
        extra = ""
        if kind == "MCP servers":
            environ["MCP_TOKEN"] = canary("mcp-token")
            extra = mcp_servers(issuer, codex_home)
        tries = f'request_max_retries=0, stream_max_retries=0, record="{tmp_path}/cassette.json"'
        (codex_home / "config.toml").write_text(
            f'model_provider="here"\nsandbox_mode="danger-full-access"\n{extra}\n[model_providers]\n'
            f'here={{base_url="{url}", {tries}, {credential}}}\n'
        )
        outputs = []
        for form in (["--json", "--trace", str(tmp_path / "trace")], []):
            done = run_program("exec", "--skip-git-repo-check", *form, "hi", cwd=work, env=environ)
            outputs += [done.stdout.encode(), done.stderr.encode()]
            good = replies == "a good turn" and kind != "tokens that are refreshed"
            assert done.returncode == (0 if good else 1), done.stderr
    secrets = [CANARY, *SECRETS.get(kind, ())]
    if kind == "tokens that are refreshed":
        assert CANARY in repr(issuer.seen)
    elif kind != "an agent identity":
        sent = repr([(dict(request.headers), request.path) for request in server.requests])
        assert any(form.decode() in sent for form in forms(CANARY))
    everything = {
        **written(tmp_path),
        "outputs": b"\n".join(outputs),
        **{str(i): r.body for i, r in enumerate(server.requests)},
    }
    if good:
        assert any(b"command" in content for content in everything.values())
        assert (tmp_path / "cassette.json").exists()
    found = {
        place: form.decode()
        for place, content in everything.items()
        for secret in secrets
        for form in forms(secret)
        if form in content
    }
    assert found == {}, everything["outputs"][-3000:]


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
