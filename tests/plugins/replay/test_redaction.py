"""Which texts count as secrets, and what else is written to a cassette."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from codex_framework import FunctionSpec, ModelError, ModelEvent, ProviderInfo
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.protocol.items import user_message
from codex_framework.contract.roles.models import (
    AnsweredBy,
    Completed,
    ItemDone,
    LeftOut,
    ModelNotice,
    ModelWarning,
    ReasoningDelta,
    ReasoningPartAdded,
)
from codex_framework.testing import ScriptedModel, say
from codex_framework.testing.requests import model_request
from codex_plugin_replay.cassette import Cassette
from codex_plugin_replay.recording import CassetteWriter, RecordingClient, Secrets, recorded


def clean(value: Any, env: Mapping[str, str] | None = None, **table: Any) -> Any:
    # Without CODEX_HOME, the login of whoever runs the test would be read.
    return Secrets.of(ProviderInfo(id="mock", **table), {"CODEX_HOME": "/nonexistent", **(env or {})}).without(value)


@pytest.mark.parametrize(
    "name",
    [
        "API_KEY",
        "api_key",
        "DEPLOY_TOKEN",
        "CLIENT_SECRET",
        "DB_PASSWORD",
        "AWS_CREDENTIALS",
        "PROXY_AUTHORIZATION",
        "SESSION_COOKIE",
    ],
)
def test_names_tell_secrets(name: str) -> None:
    assert clean("it is 01234567.", {name: "01234567"}) == f"it is <secret:{name}>."
    assert clean("it is 01234567.", http_headers={name: "01234567"}) == f"it is <secret:{name}>."
    assert clean("it is 01234567.", query_params={name: "01234567"}) == f"it is <secret:{name}>."
    url = f"https://models.example/v1?{name}=01234567"
    assert clean("it is 01234567.", base_url=url) == f"it is <secret:base_url {name}>."


def test_other_names_do_not() -> None:
    env = {"EDITOR": "01234567"}
    assert clean("it is 01234567.", env, http_headers={"x-team": "01234567"}) == "it is 01234567."


def test_shorter_values_are_words() -> None:
    assert clean("it is 0123456.", {"A_TOKEN": "0123456"}) == "it is 0123456."


def test_variables_that_the_table_names_are_secrets_whatever_their_names() -> None:
    env = {"PLAIN": "plain-value-1", "OTHER": "other-value-2", "THIRD": "third-value-3"}
    told = "plain-value-1 other-value-2 third-value-3"
    cleaned = clean(told, env, env_key="PLAIN", env_http_headers={"x-a": "OTHER", "x-b": "MISSING"})
    assert cleaned == "<secret:PLAIN> <secret:OTHER> third-value-3"


def test_a_secret_within_another_leaves_nothing_of_the_longer_one() -> None:
    for env in ({"A_KEY": "abcdefgh", "B_KEY": "abcdefgh-12345"}, {"B_KEY": "abcdefgh-12345", "A_KEY": "abcdefgh"}):
        assert clean("abcdefgh-12345 abcdefgh", env) == "<secret:B_KEY> <secret:A_KEY>"


def test_secrets_are_found_as_they_are_and_encoded() -> None:
    env = {"A_KEY": 'a"b\\c d/é+f'}
    for text in (env["A_KEY"], json.dumps(env["A_KEY"])[1:-1], "a%22b%5Cc%20d%2F%C3%A9%2Bf"):
        assert clean(f"<{text}>", env) == "<<secret:A_KEY>>"


def test_a_secret_is_never_a_pattern() -> None:
    assert clean("abcdefgh a.c.e.g.", {"A_KEY": "a.c.e.g."}) == "abcdefgh <secret:A_KEY>"


@pytest.mark.parametrize(
    "text",
    [
        "sk-0123456789abcdef",
        "ghp_0123456789abcdefghij",
        "ghs_0123456789abcdefghij",
        "github_pat_0123456789abcdefghij",
        "xoxb-0123456789",
    ],
)
def test_texts_that_look_like_keys_are_secrets(text: str) -> None:
    assert clean(f"({text})") == "(<secret:token>)"
    assert clean(f"({text[:11]})") == f"({text[:11]})"


def test_bearer_tokens_are_secrets() -> None:
    assert clean("Authorization: Bearer abc.DEF-_~+/0123456==") == "Authorization: Bearer <secret:token>"
    assert clean("the bearer of bad news") == "the bearer of bad news"


def test_keys_of_objects_and_nested_values_are_searched() -> None:
    value = {"known-0123": [{"a": ("known-0123", 5, None, True, 1.5)}]}
    assert clean(value, {"A_KEY": "known-0123"}) == {"<secret:A_KEY>": [{"a": ["<secret:A_KEY>", 5, None, True, 1.5]}]}


def test_parts_of_a_url_are_secrets_as_they_are_and_decoded() -> None:
    url = "https://ann%40home-1:pass%2Fword-0@models.example/v1?team=blue-team-1"
    told = "ann@home-1 ann%40home-1 pass/word-0 pass%2Fword-0 blue-team-1"
    cleaned = clean(told, base_url=url)
    assert cleaned == " ".join([*["<secret:base_url user>"] * 2, *["<secret:base_url password>"] * 2, "blue-team-1"])


def test_a_url_that_cannot_be_split_is_a_secret() -> None:
    url = "https://user:pass-0123@[models"
    assert clean(f"asked {url} for it", base_url=url) == "asked <secret:base_url> for it"


def test_a_login_is_a_secret_wherever_its_texts_are(tmp_path: Path) -> None:
    stored = {"OPENAI_API_KEY": "stored-key-1", "tokens": {"id_token": "stored-token-2", "account_id": "account-three"}}
    (tmp_path / "auth.json").write_text(json.dumps(stored))
    told = "stored-key-1 stored-token-2 account-three"
    expected = "<secret:auth.json OPENAI_API_KEY> <secret:auth.json id_token> account-three"
    assert clean(told, {"CODEX_HOME": str(tmp_path)}) == expected
    (tmp_path / "home" / ".codex").mkdir(parents=True)
    (tmp_path / "auth.json").rename(tmp_path / "home" / ".codex" / "auth.json")
    assert clean(told, {"CODEX_HOME": "", "HOME": str(tmp_path / "home")}) == expected


@pytest.mark.parametrize("content", ["", "[]", '"text"', "{", '{"a_key": 5, "tokens": [1]}'])
def test_a_login_that_cannot_be_read_has_no_secrets(tmp_path: Path, content: str) -> None:
    (tmp_path / "auth.json").write_text(content)
    assert clean("text and {", {"CODEX_HOME": str(tmp_path)}) == "text and {"


class Told:
    """A client whose responses consist of these events, and then fail if there is an error."""

    def __init__(self, *events: ModelEvent, error: ModelError | None = None) -> None:
        self._events = events
        self._error = error

    async def stream(self, request: Any) -> Any:
        for event in self._events:
            yield event
        if self._error is not None:
            raise self._error

    async def aclose(self) -> None:
        pass


def write(path: Path, client: Any, *requests: Any, env: Mapping[str, str] | None = None) -> None:
    async def run() -> None:
        info = ProviderInfo(id="mock", options={"record": str(path)})
        recording = recorded(client, info, {"CODEX_HOME": "/nonexistent", **(env or {})})
        for request in requests or (model_request(),):
            try:
                async for _ in recording.stream(request):
                    pass
            except ModelError:
                pass

    asyncio.run(run())


def test_what_is_said_of_a_request_is_not_part_of_its_answer(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    answer = [
        ReasoningPartAdded("rs", 1),
        ReasoningDelta("rs", "Hm.", 1, raw=False),
        ReasoningDelta("rs", "Raw.", 2, raw=True),
        ItemDone(user_message("hi", role="assistant")),
        Completed("r", None, end_turn=False),
    ]
    notes = [LeftOut("images", 2, "none"), AnsweredBy("two", "b", "busy"), ModelWarning("hm")]
    write(path, Told(*notes, ModelNotice(WarningEvent("hm")), *answer))
    assert list(Cassette.read(path).play(model_request()).events) == answer


def test_an_error_plays_back_with_everything_that_it_said(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    error = ModelError(
        "no known-0123",
        retryable=True,
        retry_after_s=1.5,
        info={"http_connection_failed": {"http_status_code": 503}},
        slug="overloaded",
        hint="Ask known-0123.",
    )
    write(path, Told(error=error), env={"A_KEY": "known-0123"})
    played = Cassette.read(path).play(model_request()).error
    assert played is not None
    assert (played.fact, played.hint) == ("no <secret:A_KEY>", "Ask <secret:A_KEY>.")
    assert (played.retryable, played.retry_after_s, played.info, played.slug) == (
        True,
        1.5,
        {"http_connection_failed": {"http_status_code": 503}},
        "overloaded",
    )


def test_secrets_in_the_names_of_arguments_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    spec = FunctionSpec("f", "Does f.", {"type": "object", "properties": {"known-0123": {"type": "string"}}})
    write(path, ScriptedModel([say("ok")]), model_request(tools=(spec,)), env={"A_KEY": "known-0123"})
    assert "known-0123" not in path.read_text()


def test_clients_of_a_process_that_record_at_once_write_each_part_once(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    requests = [model_request("shared", f"message {number}") for number in range(20)]

    def run() -> None:
        async def all_of_them() -> None:
            info = ProviderInfo(id="mock", options={"record": str(path)})
            client = recorded(ScriptedModel([say("ok")], repeat_last=True), info, {})
            for request in requests:
                async for _ in client.stream(request):
                    pass

        asyncio.run(all_of_them())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    parts = [line["part"] for line in lines if "part" in line]
    assert len(parts) == len(set(parts))
    assert len([line for line in lines if "cassette" in line]) == 1
    assert len([line for line in lines if "request" in line]) == 80


@pytest.mark.parametrize("method", ["check", "write"])
def test_a_path_that_is_none_is_told_before_anything_is_paid_for(method: str) -> None:
    writer = CassetteWriter(Path("a\0b"), "mock")
    with pytest.raises(ModelError, match=r"cannot be written: .*embedded null") as caught:
        getattr(writer, method)(*([{}, {}, {}] if method == "write" else []))
    assert caught.value.slug == "cassette-write"
    assert caught.value.hint
    model = ScriptedModel([say("ok")])

    async def run() -> None:
        async for _ in RecordingClient(model, writer, Secrets({})).stream(model_request()):
            pass

    with pytest.raises(ModelError, match="embedded null"):
        asyncio.run(run())
    assert model.requests == []


def test_a_file_without_a_head_is_no_cassette(tmp_path: Path) -> None:
    from codex_framework import ConfigError

    path = tmp_path / "cassette.jsonl"
    write(path, ScriptedModel([say("ok")]))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(ConfigError, match="line 1: KeyError: 'cassette'"):
        Cassette.read(path)
