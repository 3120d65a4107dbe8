"""Compressed requests: which providers get them, and a server that refuses them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ModelError, ProviderInfo
from codex_framework.testing.replies import fault, say
from codex_framework.testing.requests import ask as ask_provider
from codex_framework.testing.requests import model_request
from codex_framework.testing.server import ResponsesServer
from codex_framework.toolkit.installing import install_command
from codex_lib_model_client import compression
from codex_plugin_openai.provider import ResponsesProvider
from tests.plugins.login.issuer import Issuer

Ask = Callable[..., Any]

ZSTD = {"request_compression": "zstd"}


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What servers refused in one test is not known in the next."""
    monkeypatch.setattr(compression, "_refused", set())


def encodings(outcome: Any) -> list[str | None]:
    return [request.headers.get("content-encoding") for request in outcome.server.requests]


def test_the_body_is_the_same_and_shorter(ask: Ask) -> None:
    text = "All work and no play. " * 1000
    plain, packed = ask([say("a")], model_request(text)), ask([say("a")], model_request(text), options=ZSTD)
    one, other = plain.server.requests[0], packed.server.requests[0]
    assert one.json == other.json
    assert int(other.headers["content-length"]) < int(one.headers["content-length"]) / 50
    assert (encodings(plain), encodings(packed)) == ([None], ["zstd"])
    assert packed.events == plain.events


def test_a_long_body_is_compressed_too(ask: Ask) -> None:
    text = "0123456789abcdef" * 100_000
    outcome = ask([say("a")], model_request(text), options=ZSTD)
    assert encodings(outcome) == ["zstd"]
    assert outcome.server.requests[0].json["input"][0]["content"][0]["text"] == text


def test_a_server_that_refuses_compression_gets_the_request_again_and_no_compressed_one_later(ask: Ask) -> None:
    refusal = fault(415, body={"error": {"message": "Unsupported Media Type"}})
    outcome = ask([refusal, say("a"), say("b")], model_request("x"), model_request("y"), options=ZSTD)
    assert [answer[-1].response_id for answer in outcome.answers] == ["resp_2", "resp_3"]
    assert encodings(outcome) == ["zstd", None, None]
    bodies = [request.json["input"][0]["content"][0]["text"] for request in outcome.server.requests]
    assert bodies == ["x", "x", "y"]


def test_another_client_of_the_process_knows_what_a_server_refused() -> None:
    with ResponsesServer([fault(415), say("a"), say("b")]) as server:
        info = ProviderInfo(id="mock", base_url=server.url, options=ZSTD)
        for _ in range(2):
            asyncio.run(ask_provider(ResponsesProvider(), info))
        assert [request.headers.get("content-encoding") for request in server.requests] == ["zstd", None, None]


def test_what_a_server_refused_says_nothing_of_another() -> None:
    for replies, encodings in (([fault(415), say("a")], ["zstd", None]), ([say("b")], ["zstd"])):
        with ResponsesServer(replies) as server:
            info = ProviderInfo(id="mock", base_url=server.url, options=ZSTD)
            asyncio.run(ask_provider(ResponsesProvider(), info))
            assert [request.headers.get("content-encoding") for request in server.requests] == encodings


def test_a_server_that_refuses_the_plain_request_too_is_told(ask: Ask) -> None:
    outcome = ask([fault(415, body="No."), fault(415, body="No.")], options=ZSTD)
    assert outcome.error.fact.startswith("unexpected status 415")
    assert encodings(outcome) == ["zstd", None]


def test_an_encoding_of_the_table_is_left_alone(ask: Ask) -> None:
    assert encodings(ask([say("a")], options=ZSTD, http_headers={"Content-Encoding": "identity"})) == ["identity"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home with a login of ChatGPT."""
    with Issuer() as issuer:
        tokens = {**issuer.tokens(), "account_id": issuer.account}
        login = {"auth_mode": "chatgpt", "tokens": tokens, "last_refresh": "2026-11-23T07:52:01.725831Z"}
        (tmp_path / "auth.json").write_text(json.dumps(login))
        (tmp_path / "auth.json").chmod(0o600)
        yield tmp_path


OPENAI = ResponsesProvider.builtin["openai"]
OFF = {"features": {"enable_request_compression": False}}


@pytest.mark.parametrize(
    ("table", "config", "env", "encoding"),
    [
        ({}, {}, {}, "zstd"),
        ({}, {"features": {"enable_request_compression": True}}, {}, "zstd"),
        ({}, OFF, {}, None),
        ({"options": ZSTD}, OFF, {}, "zstd"),
        ({"options": {"request_compression": "none"}}, {}, {}, None),
        ({}, {}, {"CODEX_API_KEY": "key"}, None),
        ({"id": "p", "name": "P"}, {}, {}, None),
        ({"id": "p"}, {}, {}, "zstd"),
    ],
    ids=["ChatGPT", "on", "off", "table", "not in the table", "API key", "another server", "OpenAI by its name"],
)
def test_openai_gets_compressed_requests_with_a_login_of_chatgpt(
    home: Path, table: dict[str, Any], config: Mapping[str, Any], env: dict[str, str], encoding: str | None
) -> None:
    with ResponsesServer([say("a")]) as server:
        info = OPENAI.evolve(**{"base_url": server.url, **table})
        asyncio.run(ask_provider(ResponsesProvider(config), info, env={"CODEX_HOME": str(home), **env}))
        assert [request.headers.get("content-encoding") for request in server.requests] == [encoding]


def test_without_the_package_openai_gets_plain_requests(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "find_spec", lambda _: None)
    with ResponsesServer([say("a")]) as server:
        info = OPENAI.evolve(base_url=server.url)
        asyncio.run(ask_provider(ResponsesProvider(), info, env={"CODEX_HOME": str(home)}))
        assert [request.headers.get("content-encoding") for request in server.requests] == [None]


def test_a_table_that_needs_the_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "find_spec", lambda _: None)
    with pytest.raises(ModelError, match="needs the package zstandard, which is not installed") as caught:
        ResponsesProvider().open(ProviderInfo(id="p", base_url="http://host", options=ZSTD), {})
    assert install_command("codex-framework[zstd]") in caught.value.hint


def test_an_unknown_compression_is_refused() -> None:
    info = ProviderInfo(id="p", base_url="http://host", options={"request_compression": "gzip"})
    with pytest.raises(ModelError, match=r"'gzip' in \[model_providers\.p\] is unknown"):
        ResponsesProvider().open(info, {})
