"""A recorded conversation plays back, says where it has drifted, and keeps no secret."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ConfigError, FunctionSpec, ModelError, ModelEvent, ModelRequest, ProviderInfo
from codex_framework.contract.protocol.items import FunctionCall, FunctionCallOutput, ResponseItem, user_message
from codex_framework.contract.roles.models import RateLimits, ReasoningDelta, TextDelta, ToolInputDelta
from codex_framework.testing.model import ScriptedModel
from codex_framework.testing.replies import call, custom_call, fail, reasoning, say
from codex_framework.testing.requests import model_request
from codex_framework.testing.scripted import Reply
from codex_framework.testing.server import RecordedRequest, ResponsesServer
from codex_plugin_replay.cassette import Cassette, CassetteMissError, Exchange
from codex_plugin_replay.recording import CassetteWriter, RecordingClient, Secrets, recorded

KEY = 'sk"weird\\key-0123456789'


def record(
    path: Path,
    model: Any,
    *requests: ModelRequest,
    env: Mapping[str, str] | None = None,
    **table: Any,
) -> list[list[ModelEvent] | str]:
    async def run() -> list[list[ModelEvent] | str]:
        info = ProviderInfo(id="mock", options={"record": str(path)}, **table)
        client = recorded(model.open(info, env or {}), info, env or {})
        heard: list[list[ModelEvent] | str] = []
        for request in requests:
            try:
                heard.append([event async for event in client.stream(request)])
            except ModelError as error:
                heard.append(error.fact)
        await client.aclose()
        return heard

    return asyncio.run(run())


def whole(exchange: Exchange) -> list[ModelEvent] | str:
    return list(exchange.events) if exchange.error is None else exchange.error.fact


def test_what_was_recorded_plays_back_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cassette.jsonl"
    model = ScriptedModel(
        [
            reasoning("a", "b", deltas=2) + say("hello there", deltas=3),
            call("f", x=1) + custom_call("g", "some text", deltas=2),
            fail("boom", retryable=True, retry_after_s=2.0, info="server_overloaded"),
        ]
    )
    requests = [model_request(text) for text in ("one", "two", "three")]
    heard = record(path, model, *requests)
    cassette = Cassette.read(path)
    backwards = [cassette.play(request) for request in reversed(requests)]
    assert [whole(exchange) for exchange in reversed(backwards)] == heard
    error = backwards[0].error
    assert error is not None
    assert (error.retryable, error.retry_after_s, error.info) == (True, 2.0, "server_overloaded")
    assert cassette.unplayed == 0


def test_all_other_events_play_back_too(tmp_path: Path) -> None:
    class Limited:
        def open(self, info: ProviderInfo, env: Mapping[str, str]) -> Any:
            return self

        async def stream(self, request: ModelRequest) -> Any:
            yield RateLimits({"limit_id": "codex", "primary": {"used_percent": 1.5}})

        async def aclose(self) -> None:
            pass

    path = tmp_path / "cassette.jsonl"
    heard = record(path, Limited(), model_request())
    assert [whole(Cassette.read(path).play(model_request()))] == heard


def test_equal_requests_get_their_answers_in_recorded_order(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    heard = record(path, ScriptedModel([say("first"), say("second")]), model_request(), model_request())
    cassette = Cassette.read(path)
    assert [whole(cassette.play(model_request())) for _ in range(2)] == heard
    with pytest.raises(CassetteMissError, match="has 2 answers, and all of them are played"):
        cassette.play(model_request())


def test_what_differs_from_run_to_run_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    was: list[ResponseItem] = [
        user_message("<permissions>old</permissions>", role="developer"),
        user_message("<environment_context>\n  <cwd>/home/ann</cwd>\n</environment_context>"),
        user_message("look into /tmp/tmpabc123/file"),
        FunctionCall("exec", "{}", "call_1", id="fc_1"),
        FunctionCallOutput(
            "call_1", "Chunk ID: a1b2c3\nWall time: 0.1523 seconds\n2026-01-02T03:04:05Z 1 passed in 0.02s"
        ),
    ]
    now: list[ResponseItem] = [
        user_message("<environment_context>\n  <cwd>/home/bob</cwd>\n</environment_context>"),
        user_message("look into /tmp/pytest-of-me/file".replace("/pytest-of-me", "/tmpxyz")),
        FunctionCall("exec", "{}", "call_1", id="fc_9"),
        FunctionCallOutput("call_1", "Chunk ID: ffffff\nWall time: 2 seconds\n2027-12-31 1 passed in 1.5s"),
    ]
    heard = record(path, ScriptedModel([say("ok")]), model_request(*was))
    assert [whole(Cassette.read(path).play(model_request(*now)))] == heard


def test_a_changed_request_fails_with_the_difference_to_the_nearest_one(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    far, near = model_request("something else"), model_request("list the files", "now count them")
    record(path, ScriptedModel([say("a"), say("b")]), far, near)
    with pytest.raises(CassetteMissError) as caught:
        Cassette.read(path).play(model_request("list the files", "now sort them"))
    fact = caught.value.fact
    assert fact.startswith(f"the cassette {path} has no answer to this request")
    assert '-   "text": "now count them",' in fact
    assert '+   "text": "now sort them",' in fact
    assert "something else" not in fact
    assert str(path) in caught.value.hint
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "change",
    [
        {"instructions": "Be long."},
        {"tools": (FunctionSpec("f", "Does f.", {"type": "object"}),)},
    ],
)
def test_instructions_and_tools_count_where_matching_is_strict(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "cassette.jsonl"
    heard = record(path, ScriptedModel([say("a")]), model_request())
    changed = model_request(**change)
    assert [whole(Cassette.read(path).play(changed))] == heard
    with pytest.raises(CassetteMissError):
        Cassette.read(path, match="strict").play(changed)


def test_nothing_counts_where_answers_come_in_order(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    heard = record(path, ScriptedModel([say("a"), say("b")]), model_request("x"), model_request("y"))
    cassette = Cassette.read(path, match="order")
    assert [whole(cassette.play(model_request("z"))) for _ in range(2)] == heard


def test_no_secret_is_written(tmp_path: Path) -> None:
    path, home = tmp_path / "cassette.jsonl", tmp_path / "home"
    home.mkdir()
    (home / "auth.json").write_text(json.dumps({"tokens": {"access_token": "stored-access-token"}}))
    env = {"MY_KEY": KEY, "DEPLOY_TOKEN": "tok-1234567890", "CODEX_HOME": str(home), "EDITOR": "vim-is-no-secret"}
    table = {
        "env_key": "MY_KEY",
        "experimental_bearer_token": "bearer-0123456789",
        "http_headers": {"X-Api-Key": "header-0123456789", "X-Team": "blue-is-no-secret"},
        "env_http_headers": {"X-Plain": "PLAINLY"},
    }
    table["base_url"] = (
        "https://ann-the-user:pass%2Fword-0123@models.example.com/v1?sig_token=url-token-0123&v=2026-01-01"
    )
    env["PLAINLY"] = "plainly-named-value"
    secrets = [
        KEY,
        "tok-1234567890",
        "bearer-0123456789",
        "header-0123456789",
        "plainly-named-value",
        "stored-access-token",
        "ann-the-user",
        "pass/word-0123",
        "pass%2Fword-0123",
        "url-token-0123",
        "sk-looks-like-a-key-0123",
        "ghp_0123456789abcdefghij",
    ]
    told = " | ".join(secrets) + " | vim-is-no-secret | blue-is-no-secret"
    model = ScriptedModel(
        [say(told, deltas=40) + call("f", text=told) + reasoning(told, deltas=9), fail(f"unexpected: {told}")]
    )
    heard = record(path, model, model_request(told), model_request(told, instructions=told), env=env, **table)
    assert str(heard).count("tok-1234567890") > 3, "the recorder must not change what the turn hears"
    written = path.read_text()
    for secret in secrets:
        assert secret not in written
        assert json.dumps(secret)[1:-1] not in written
        assert json.dumps(json.dumps(secret)[1:-1])[1:-1] not in written
    assert "<secret:DEPLOY_TOKEN>" in written
    assert "vim-is-no-secret | blue-is-no-secret" in written


class Told:
    """A provider whose response consists of these events."""

    def __init__(self, *events: ModelEvent) -> None:
        self._events = events

    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> Any:
        return self

    async def stream(self, request: ModelRequest) -> Any:
        for event in self._events:
            yield event

    async def aclose(self) -> None:
        pass


def test_no_secret_is_written_whose_pieces_are_apart(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    events = (
        TextDelta("one", "It is tok-123"),
        ToolInputDelta("two", '{"key": "tok-'),
        RateLimits({"limit_id": "codex"}),
        TextDelta("one", "4567"),
        ReasoningDelta("three", "harm"),
        RateLimits({"limit_id": "other"}),
        TextDelta("one", "890."),
        ReasoningDelta("three", "less"),
        ToolInputDelta("two", '1234567890"}'),
    )
    heard = record(path, Told(*events), model_request(), env={"DEPLOY_TOKEN": "tok-1234567890"})
    assert heard == [list(events)]
    played = list(Cassette.read(path).play(model_request()).events)
    texts: dict[str, str] = {}
    for event in played:
        if not isinstance(event, RateLimits):
            assert isinstance(event, TextDelta | ToolInputDelta | ReasoningDelta)
            texts[event.item_id] = texts.get(event.item_id, "") + event.delta
    assert texts == {
        "one": "It is <secret:DEPLOY_TOKEN>.",
        "two": '{"key": "<secret:DEPLOY_TOKEN>"}',
        "three": "harmless",
    }
    assert [type(event) for event in played] == [
        *[TextDelta] * 3,
        *[ToolInputDelta] * 2,
        RateLimits,
        ReasoningDelta,
        RateLimits,
        ReasoningDelta,
    ]
    assert [event.delta for event in played if isinstance(event, ReasoningDelta)] == ["harm", "less"]


def test_a_cassette_that_was_deleted_meanwhile_is_whole_again(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    for _ in range(2):
        heard = record(path, ScriptedModel([say("a")]), model_request())
        assert [whole(Cassette.read(path).play(model_request()))] == heard
        path.unlink()


def test_a_folder_that_is_deleted_while_the_model_answers_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "cassettes" / "cassette.jsonl"

    def answer(request: ModelRequest) -> Reply:
        path.parent.rmdir()
        return say("a")

    heard = record(path, ScriptedModel([answer]), model_request())
    assert [whole(Cassette.read(path).play(model_request()))] == heard


def test_only_its_owner_can_read_a_new_cassette(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    before = os.umask(0)
    try:
        record(path, ScriptedModel([say("a")]), model_request())
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_cassette_is_never_written_through_a_symlink_or_into_a_pipe(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    (tmp_path / "link").symlink_to(other)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        (fact,) = record(tmp_path / name, ScriptedModel([say("a")]), model_request())
        assert isinstance(fact, str)
        assert fact.startswith(f"the cassette {tmp_path / name} cannot be written: ")
    assert other.read_text() == "mine"


def test_a_symlink_that_comes_while_the_model_answers_is_not_followed_either(tmp_path: Path) -> None:
    path, other = tmp_path / "cassette.jsonl", tmp_path / "other"
    other.write_text("")

    def answer(request: ModelRequest) -> Reply:
        path.symlink_to(other)
        return say("a")

    (fact,) = record(path, ScriptedModel([answer]), model_request())
    assert str(fact).startswith(f"the cassette {path} cannot be written: ")
    assert other.read_text() == ""


def test_short_values_are_not_taken_for_secrets(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    record(path, ScriptedModel([say("a 1 b")]), model_request(), env={"USE_TOKEN": "1", "EMPTY_KEY": ""})
    assert '"a 1 b"' in path.read_text()


def test_items_are_written_once_however_often_they_are_sent(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    items = [user_message(f"message {n}") for n in range(30)]
    requests = [model_request(*items[: n + 1]) for n in range(30)]
    record(path, ScriptedModel([say("ok")], repeat_last=True), *requests[:15])
    record(path, ScriptedModel([say("ok")], repeat_last=True), *requests[15:])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum("message 0" in json.dumps(line) for line in lines) == 1
    assert [line for line in lines if "cassette" in line] == [{"cassette": 1, "provider": "mock"}]
    cassette = Cassette.read(path)
    for request in requests:
        cassette.play(request)


def test_an_answer_that_nobody_heard_out_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"

    async def run() -> None:
        info = ProviderInfo(id="mock", options={"record": str(path)})
        client: Any = recorded(ScriptedModel([say("hello", deltas=3)]).open(info, {}), info, {})
        stream = client.stream(model_request())
        await anext(stream)
        await stream.aclose()

    asyncio.run(run())
    assert not path.exists()


def test_a_table_without_record_is_left_alone() -> None:
    model, info = ScriptedModel([]), ProviderInfo(id="mock")
    assert recorded(model, info, {}) is model


def test_a_cassette_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (fact,) = record(tmp_path / "file" / "cassette.jsonl", ScriptedModel([say("a")]), model_request())
    assert isinstance(fact, str)
    assert fact.startswith(f"the cassette {tmp_path}/file/cassette.jsonl cannot be written: ")


def test_a_turn_fails_if_its_recording_cannot_be_written(run_turn: Any, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with ResponsesServer([say("a")], repeat_last=True) as server:

        def run(path: Path) -> str | None:
            table = f'{{base_url = "{server.url}", record = "{path}"}}'
            error: str | None = run_turn("hi", config=['model_provider="mine"', f"model_providers.mine={table}"]).error
            return error

        assert run(tmp_path / "cassette.jsonl") is None
        fact = f"the cassette {tmp_path}/folder cannot be written: Is a directory. Choose another path for record"
        assert (run(tmp_path / "folder") or "").startswith(fact)
        assert len(server.requests) == 1, "the error comes before the request"


def test_a_turn_fails_if_the_disk_fills_up_while_the_model_answers(run_turn: Any, tmp_path: Path) -> None:
    folder = tmp_path / "cassettes"

    def answer(request: RecordedRequest) -> Reply:
        (folder / "cassette.jsonl").mkdir()  # from now on, nothing can be written there
        return say("a")

    with ResponsesServer([answer]) as server:
        table = f'{{base_url = "{server.url}", record = "{folder / "cassette.jsonl"}"}}'
        error = run_turn("hi", config=['model_provider="mine"', f"model_providers.mine={table}"]).error
    assert (error or "").startswith(f"the cassette {folder}/cassette.jsonl cannot be written: Is a directory")


def test_a_record_that_is_no_path_is_refused() -> None:
    info = ProviderInfo(id="mock").evolve(options={"record": True})
    with pytest.raises(ConfigError, match=r"model_providers.mock.record is True, not a path"):
        recorded(ScriptedModel([]), info, {})


REQUEST = '{"request": {"model": "m", "instructions": "instructions", "tools": "tools", "input": ["input"]}}'


def with_parts(**values: str) -> str:
    """Return a cassette of six lines with one exchange, in which some values are others."""
    parts = {"instructions": '"Be brief."', "tools": "[]", "input": '{"type": "message", "role": "user"}', **values}
    rest = {"events": "[]", "error": "null", **values}
    return "\n".join(
        [
            '{"cassette": 1}',
            "",
            *(f'{{"part": "{name}", "value": {parts[name]}}}' for name in ("instructions", "tools", "input")),
            f'{REQUEST[:-1]}, "events": {rest["events"]}, "error": {rest["error"]}}}',
            "",
        ]
    )


@pytest.mark.parametrize(
    "content", ['"text"', '["text"]', "[[]]", "{}", '[{"text": 5}]', "[" * 400 + "]" * 400, '"' + "9" * 300_000 + '"']
)
def test_items_of_any_form_are_compared_at_once(tmp_path: Path, content: str) -> None:
    path = tmp_path / "cassette.jsonl"
    path.write_text(with_parts(input=f'{{"type": "message", "role": "user", "content": {content}}}'))
    with pytest.raises(CassetteMissError, match="has no answer to this request"):
        Cassette.read(path).play(model_request())


def test_values_that_are_too_deep_to_be_compared_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    for depth in range(100, 20_000, 500):
        path.write_text(
            with_parts(input=f'{{"type": "message", "role": "assistant", "x": {"[" * depth + "]" * depth}}}')
        )
        try:
            Cassette.read(path)
        except ConfigError as error:
            assert str(path) in error.fact
            return
    pytest.fail("no depth was too deep")


@pytest.mark.parametrize("duration", ["0.1523 seconds", "1 s", "20ms", "0.30000000000000004s"])
def test_durations_are_not_compared(tmp_path: Path, duration: str) -> None:
    path = tmp_path / "cassette.jsonl"
    record(path, ScriptedModel([say("ok")]), model_request(f"it took {duration}"))
    assert Cassette.read(path).play(model_request("it took 3 s"))


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", "contains no answer"),
        ("not json\n", "line 1: "),
        ('{"cassette": 99}\n', "line 1: ValueError: version 99 is not supported"),
        ('{"cassette": 1}\n{"request": {"model": "x"}, "events": []}\n', "line 2: KeyError: 'instructions'"),
        ('{"cassette": 1}\n[]\n', "line 2: "),
        ('{"cassette": 1}\n' + "[" * 100_000 + "\n", "line 2: "),
        (with_parts(input='"hello"'), "line 6: TypeError: dict expected, found str"),
        (with_parts(instructions="5"), "line 6: TypeError: str expected, found int"),
        (with_parts(tools="{}"), "line 6: TypeError: list expected, found dict"),
        (with_parts(events='[{"type": "item_done", "item": "x"}]'), "line 6: TypeError: dict expected, found str"),
        (with_parts(events='[{"type": "text_deltas", "item_id": 1, "text": "a", "pieces": 1}]'), "line 6: TypeError"),
        (
            with_parts(events='[{"type": "text_deltas", "item_id": "", "text": ["a"], "pieces": 1}]'),
            "line 6: TypeError",
        ),
        (with_parts(events='[{"type": "rate_limits", "snapshot": 1}]'), "line 6: TypeError"),
        (with_parts(events='[{"type": "completed", "response_id": "", "usage": {"input_tokens": "x"}}]'), "line 6: "),
        (with_parts(error='{"fact": 5}'), "line 6: TypeError: str expected, found int"),
        (with_parts(error='{"fact": "a", "retry_after_s": Infinity}'), "line 6: ValueError: retry_after_s"),
    ],
)
def test_a_file_that_is_no_cassette_is_refused_with_its_line(tmp_path: Path, text: str, fact: str) -> None:
    path = tmp_path / "cassette.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Cassette.read(path)
    assert fact in caught.value.fact
    assert str(path) in caught.value.fact


def test_a_cut_last_line_costs_only_that_exchange(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    heard = record(path, ScriptedModel([say("a"), say("b")]), model_request("x"), model_request("y"))
    path.write_bytes(path.read_bytes()[:-20])
    assert whole(Cassette.read(path).play(model_request("x"))) == heard[0]

    async def another_process() -> list[ModelEvent]:
        client = RecordingClient(ScriptedModel([say("c")]), CassetteWriter(path, "mock"), Secrets({}))
        return [event async for event in client.stream(model_request("z"))]

    again = asyncio.run(another_process())
    cassette = Cassette.read(path)
    assert [whole(cassette.play(model_request(text))) for text in ("x", "z")] == [heard[0], again]
