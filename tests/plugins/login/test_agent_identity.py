"""Agent identities, and logins that other programs keep: what is sent, verified and stored is what Codex 0.169 sends, and no more."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ModelError, ProviderInfo
from codex_framework.testing.replies import fault, say
from codex_framework.testing.requests import model_request
from codex_framework.testing.server import ResponsesServer
from codex_framework.toolkit.installing import install_command
from codex_lib_model_client.login.access import find_login
from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.storage import LoginStorage
from codex_lib_model_client.login.tokens import AgentTokens
from codex_plugin_login.status import status_text
from codex_plugin_openai.provider import ResponsesProvider
from tests.forked import RunProgram
from tests.plugins.login.issuer import Issuer, jwt

pytest.importorskip("cryptography", reason="the extra `identity` is not installed")

from tests.plugins.login.agents import Agents, coded, new_signer


@pytest.fixture
def agents(issuer: Issuer) -> Agents:
    return Agents(issuer)


def stored(codex_home: Path, identity: Any) -> None:
    content = {"auth_mode": "agentIdentity", "OPENAI_API_KEY": None, "agent_identity": identity}
    (codex_home / "auth.json").write_text(json.dumps(content))


def token_of(env: dict[str, str], config: dict[str, Any] | None = None) -> str:
    login = find_login(env, config or {})
    assert isinstance(login, AgentTokens)
    return asyncio.run(login.token())


def fields(assertion: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(base64.urlsafe_b64decode(assertion + "=="))
    return found


def test_requests_are_signed_by_the_agent_whose_token_is_given(env: dict[str, str], agents: Agents) -> None:
    env = {**env, **agents.env, "CODEX_ACCESS_TOKEN": agents.token(chatgpt_account_is_fedramp=True)}
    with ResponsesServer([say("a"), fault(status=401, body={}), say("b")]) as server:
        info = ProviderInfo(id="mine", base_url=server.url, requires_openai_auth=True, request_max_retries=0)

        async def ask() -> None:
            client = ResponsesProvider({}).open(info, env)
            for _ in range(2):
                async for _ in client.stream(model_request()):
                    pass
            await client.aclose()

        asyncio.run(ask())
        sent = [request.headers for request in server.requests]
    assert {(head["chatgpt-account-id"], head["x-openai-fedramp"]) for head in sent} == {("acct-1", "true")}
    schemes, assertions = zip(*(head["authorization"].split(" ") for head in sent), strict=True)
    assert set(schemes) == {"AgentAssertion"}
    given = list(map(fields, assertions))
    for each in given:
        agents.check(each["signature"], f"run/1:{each['task_id']}:{each['timestamp']}")
        assert (set(each), each["agent_runtime_id"]) == (
            {"agent_runtime_id", "signature", "task_id", "timestamp"},
            "run/1",
        )
    assert [each["task_id"] for each in given] == ["task-1", "task-1", "task-2"], "a refused one gets a new task"
    keys, register = "/keys/agent-identities/jwks", "/agents/v1/agent/run%2F1/task/register"
    assert agents.issuer.paths() == [keys, register, register]
    assert "authorization" not in agents.issuer.seen[1].headers


@pytest.mark.parametrize("task", ["", "task-of-codex"])
def test_a_record_of_codex_is_used_without_asking_for_keys(
    env: dict[str, str], agents: Agents, codex_home: Path, task: str
) -> None:
    stored(codex_home, {**agents.record, **({"task_id": task} if task else {})})
    assert fields(token_of({**env, **agents.env}))["task_id"] == (task or "task-1")
    assert len(agents.issuer.seen) == (0 if task else 1)


def test_a_key_with_its_public_half_is_read_too(env: dict[str, str], agents: Agents, codex_home: Path) -> None:
    seed, public = agents.key.private_bytes_raw(), agents.key.public_key().public_bytes_raw()
    key = bytes.fromhex("3051020101300506032b657004220420") + seed + bytes.fromhex("812100") + public
    stored(codex_home, {**agents.record, "agent_private_key": base64.b64encode(key).decode()})
    assert fields(token_of({**env, **agents.env}))["task_id"] == "task-1"


LATE: dict[str, Any] = {"exp": int(time.time()) - 100}
WRONG: dict[str, tuple[Callable[[Agents], str], str]] = {
    "another issuer": (lambda agents: agents.token(iss="https://evil.example"), "not one of ChatGPT"),
    "another audience": (lambda agents: agents.token(aud=["other"]), "not one of ChatGPT"),
    "expired": (lambda agents: agents.token(**LATE), "has expired"),
    "no expiry": (lambda agents: agents.token(exp=None), "has expired"),
    "another key": (lambda agents: agents.token({"kid": "k2"}), "its key is not trusted"),
    "no key": (lambda agents: agents.token({"kid": ""}), "invalid agent identity JWT format"),
    "no algorithm": (lambda agents: agents.token({"alg": "none"}), "not one of ChatGPT"),
    "another algorithm": (lambda agents: agents.token({"alg": "HS256"}), "not one of ChatGPT"),
    "another signer": (
        lambda agents: agents.token(signer=new_signer(1)),
        "its signature is wrong",
    ),
    "other claims": (
        lambda agents: ".".join(
            (
                agents.token().split(".")[0],
                coded(json.dumps(agents.claims(plan_type="x")).encode()),
                agents.token().split(".")[2],
            )
        ),
        "its signature is wrong",
    ),
    "no account": (lambda agents: agents.token(account_id=None), "has no account_id"),
    "a key of another kind": (lambda agents: agents.token(agent_private_key="AAAA"), "not an Ed25519 key"),
    "a key that is too long": (
        lambda agents: agents.token(agent_private_key=str(agents.record["agent_private_key"])[:-4] + "AAAAAAAA"),
        "not an Ed25519 key",
    ),
    "no base64": (lambda agents: agents.token(agent_private_key="@"), "not valid base64"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_token_that_is_not_valid_registers_nothing(env: dict[str, str], agents: Agents, name: str) -> None:
    make, why = WRONG[name]
    with pytest.raises(LoginError, match=why) as caught:
        token_of({**env, **agents.env, "CODEX_ACCESS_TOKEN": make(agents)})
    assert agents.tasks == 0
    assert str(agents.record["agent_private_key"]) not in str(caught.value) + caught.value.hint


def test_a_token_with_several_audiences_that_has_just_expired_is_valid(env: dict[str, str], agents: Agents) -> None:
    token = agents.token(aud=["x", "codex-app-server"], exp=int(time.time()) - 20)
    assert token_of({**env, **agents.env, "CODEX_ACCESS_TOKEN": token})


REGISTER = "/agents/v1/agent/run%2F1/task/register"
KEYS = "/keys/agent-identities/jwks"


@pytest.mark.parametrize(
    ("path", "status", "body", "why", "again"),
    [
        (KEYS, 500, {}, "JWKS endpoint returned an error", True),
        (KEYS, 200, {"keys": 5}, "its key is not trusted", False),
        (KEYS, 200, {"keys": [{"kid": "k1", "kty": "RSA", "e": "AQAB", "n": "@"}]}, "its key is not trusted", False),
        (
            KEYS,
            200,
            {"keys": [{"kid": "k1", "kty": "RSA", "e": "AQAB", "n": coded(b"\xff" * 1100)}]},
            "is not trusted",
            False,
        ),
        (
            KEYS,
            200,
            {"keys": [{"kid": "k1", "kty": "RSA", "e": "AQAB", "n": coded(b"7")}]},
            "signature is wrong",
            False,
        ),
        (REGISTER, 403, {}, "refused with status 403", False),
        (REGISTER, 503, {}, "agent task registration failed", True),
        (REGISTER, 200, {}, "it sent no id of a task", False),
        (REGISTER, 200, {"encrypted_task_id": "x"}, "it encrypted the id of the task", False),
        (REGISTER, 200, b"<html>", "it sent no id of a task", False),
    ],
)
def test_a_login_server_that_fails_is_an_error(
    env: dict[str, str], agents: Agents, path: str, status: int, body: Any, why: str, *, again: bool
) -> None:
    agents.issuer.answers[path] = lambda _: (status, body)
    with pytest.raises(LoginError, match=why) as caught:
        token_of({**env, **agents.env, "CODEX_ACCESS_TOKEN": agents.token()})
    assert caught.value.retryable is again


def test_a_task_is_registered_once_for_many_requests_at_once(env: dict[str, str], agents: Agents) -> None:
    async def ask() -> None:
        login = find_login({**env, **agents.env, "CODEX_ACCESS_TOKEN": agents.token()}, {})
        assert isinstance(login, AgentTokens)
        await asyncio.gather(*(login.token() for _ in range(5)))

    asyncio.run(ask())
    assert agents.tasks == 1


def test_the_configuration_decides_about_agents_too(env: dict[str, str], agents: Agents, codex_home: Path) -> None:
    env = {**env, **agents.env}
    for place in ("environment", "file"):
        if place == "file":
            env.pop("CODEX_ACCESS_TOKEN")
            stored(codex_home, agents.record)
        else:
            env["CODEX_ACCESS_TOKEN"] = agents.token()
        with pytest.raises(LoginError, match="restricted to workspace"):
            token_of(env, {"forced_chatgpt_workspace_id": "other"})
        with pytest.raises(LoginError, match="API key login is required"):
            find_login(env, {"forced_login_method": "api"})
    assert agents.tasks == 0


def test_the_command_stores_a_token_that_is_valid(
    env: dict[str, str], agents: Agents, codex_home: Path, tmp_path: Path, run_program: RunProgram
) -> None:
    env = {**env, **agents.env}

    def log_in(token: str) -> tuple[int, str]:
        done = run_program("login", "--with-access-token", cwd=tmp_path, env=env, stdin=token.encode())
        assert "Traceback" not in done.stderr
        assert token not in done.stderr
        return done.returncode, done.stderr

    token = agents.token()
    assert log_in(token)[0] == 0
    kept = {"auth_mode": "agentIdentity", "OPENAI_API_KEY": None, "agent_identity": token}
    assert json.loads((codex_home / "auth.json").read_text()) == kept
    assert status_text(LoginStorage(codex_home), env) == "Logged in using access token"
    status, told = log_in(agents.token(**LATE))
    assert (status, "has expired" in told) == (1, True)
    assert json.loads((codex_home / "auth.json").read_text()) == kept
    assert agents.tasks == 0


def test_without_the_extra_the_error_names_it(
    env: dict[str, str], agents: Agents, codex_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    stored(codex_home, agents.token())
    with pytest.raises(LoginError, match="need the package `cryptography`") as caught:
        token_of({**env, **agents.env})
    assert caught.value.hint == f"Install the extra: {install_command('codex-framework[identity]')}"
    assert agents.issuer.seen == []


def test_tokens_of_another_program_are_used_as_they_are_and_read_again_when_they_are_refused(
    env: dict[str, str], issuer: Issuer, codex_home: Path, store: Callable[..., dict[str, Any]]
) -> None:
    content = store(auth_mode="chatgptAuthTokens", last_refresh="2020-01-01T00:00:00Z")
    old, new = jwt(exp=int(time.time()) - 100), jwt(exp=int(time.time()) + 1000)
    content["tokens"]["access_token"] = old
    (codex_home / "auth.json").write_text(json.dumps(content))

    def replaced(_: Any) -> Any:
        content["tokens"]["access_token"] = new
        (codex_home / "auth.json").write_text(json.dumps(content))
        return fault(status=401, body={})

    async def ask(url: str) -> None:
        info = ProviderInfo(id="mine", base_url=url, requires_openai_auth=True, request_max_retries=0)
        client = ResponsesProvider({}).open(info, env)
        async for _ in client.stream(model_request()):
            pass
        with pytest.raises(ModelError, match="401") as caught:
            async for _ in client.stream(model_request()):
                pass
        assert "The program that stored the login must store a new token" in caught.value.hint
        await client.aclose()

    with ResponsesServer([replaced, say("a"), *[fault(status=401, body={})] * 2]) as server:
        asyncio.run(ask(server.url))
        sent = [request.headers["authorization"] for request in server.requests]
    assert sent == [f"Bearer {token}" for token in (old, new, new, new)]
    assert issuer.seen == [], "nobody else refreshes them"
    assert "another program" in status_text(LoginStorage(codex_home), env)


def test_tokens_of_another_account_are_not_taken_over(
    env: dict[str, str], codex_home: Path, store: Callable[..., dict[str, Any]]
) -> None:
    content = store(auth_mode="chatgptAuthTokens")
    old = content["tokens"]["access_token"]
    tokens: Any = find_login(env, {})
    content["tokens"] |= {"access_token": jwt(exp=int(time.time()) + 1000), "account_id": "acct-2"}
    (codex_home / "auth.json").write_text(json.dumps(content))
    assert asyncio.run(tokens.token(refused=old)) == old


@pytest.mark.parametrize(
    "names", [("OPENAI_FEDERATION_RULE_ID",), ("OPENAI_FEDERATION_RULE_ID", "OPENAI_IDENTITY_TOKEN_FILE")]
)
def test_where_codex_would_use_a_workload_identity_no_other_login_is_used_unasked(
    env: dict[str, str], store: Callable[..., Any], names: tuple[str, ...]
) -> None:
    store()
    asks = {**env, "OPENAI_API_KEY": "sk-1", **dict.fromkeys(names, "x")}
    with pytest.raises(LoginError, match=f"a workload identity is unsupported, and {' and '.join(names)}"):
        find_login(asks, {})
    assert find_login({**asks, "CODEX_API_KEY": "sk-2"}, {}) == "sk-2"
