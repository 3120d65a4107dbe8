"""Which recorded answer a request gets, what a miss shows, and that nothing is sent for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import FunctionSpec, ModelError, ModelInfo, ModelPrices, ModelRequest, ProviderInfo
from codex_framework.contract.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    Reasoning,
    ResponseItem,
    UnknownItem,
    user_message,
)
from codex_framework.contract.roles.models import Completed, TextDelta
from codex_framework.testing import ScriptedModel, say
from codex_framework.testing.cassettes import CassetteFile
from codex_framework.testing.requests import model_request
from codex_plugin_replay.cassette import Cassette, CassetteMissError, digest
from codex_plugin_replay.provider import ReplayProvider
from codex_plugin_replay.recording import recorded

Start = Callable[..., Any]


def write(path: Path, *requests: ModelRequest) -> None:
    """Record a request after another, with its number as the answer."""

    async def run() -> None:
        info = ProviderInfo(id="mock", options={"record": str(path)})
        client = recorded(ScriptedModel([say(str(n)) for n in range(len(requests))]), info, {})
        for request in requests:
            async for _ in client.stream(request):
                pass

    asyncio.run(run())


def played(cassette: Cassette, request: ModelRequest) -> str | None:
    """Return the number of the recorded request whose answer another one gets. None means a miss."""
    try:
        events = cassette.play(request).events
    except CassetteMissError:
        return None
    return next(getattr(event, "delta") for event in events if hasattr(event, "delta"))  # noqa: B009


def match(tmp_path: Path, was: ModelRequest, now: ModelRequest, how: str = "input") -> bool:
    path = tmp_path / "cassette.jsonl"
    path.unlink(missing_ok=True)
    write(path, was)
    return played(Cassette.read(path, match=how), now) == "0"


@pytest.mark.parametrize(
    ("was", "now"),
    [(["a", "b"], ["a"]), (["a"], ["a", "b"]), (["a", "b"], ["b", "a"]), (["a", "b"], ["b"]), (["a"], ["A"])],
)
@pytest.mark.parametrize("how", ["input", "strict"])
def test_all_items_count_in_their_order(tmp_path: Path, was: list[str], now: list[str], how: str) -> None:
    assert not match(tmp_path, model_request(*was), model_request(*now), how)
    assert match(tmp_path, model_request(*was), model_request(*was), how)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("by 0d9f7c3e-1111-2222-3333-444455556666", "by 0d9f7c3e-1111-2222-3333-444455556667"),
        ("process with session ID 12", "process with session ID 4711"),
        ("Chunk ID: ab12", "Chunk ID: ff"),
        ("see /tmp/abc.d-1/x", "see /private/tmp/other/x"),
        ("see /tmp/abc", "see /var/folders/ab/c_1/T/other"),
        ("at 2026-01-02T03:04:05.123Z", "at 2027-11-12 13:14+02:00"),
        ("key sk-0123456789abcdef0123", "key sk-fedcba98765432100000"),
        ("key ghp_0123456789abcdefghij", "key gho_0123456789abcdefghiX"),
        ("key github_pat_0123456789abcdefghij", "key github_pat_0123456789abcdefghiX"),
        ("key xoxb-0123456789", "key xoxp-9876543210"),
        ("Authorization: Bearer 0123456789abcdef", "Authorization: Bearer fedcba9876543210"),
    ],
)
@pytest.mark.parametrize("how", ["input", "strict"])
def test_what_differs_between_runs_is_not_compared(tmp_path: Path, was: str, now: str, how: str) -> None:
    first, second = (
        model_request(FunctionCall("f", json.dumps({"text": text}), "call_1"), FunctionCallOutput("call_1", text))
        for text in (was, now)
    )
    assert match(tmp_path, first, second, how)
    assert match(tmp_path, model_request(instructions=was), model_request(instructions=now), how)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (Reasoning("rs_1", (), None, "sealed"), Reasoning("rs_2", (), None, "other")),
        (
            UnknownItem({"type": "x", "internal_chat_message_metadata_passthrough": {"turn_id": "1"}}),
            UnknownItem({"type": "x", "internal_chat_message_metadata_passthrough": {"turn_id": "2"}}),
        ),
    ],
)
def test_what_a_server_adds_to_items_is_not_compared(tmp_path: Path, was: ResponseItem, now: ResponseItem) -> None:
    assert match(tmp_path, model_request(was), model_request(now))
    assert match(tmp_path, model_request(was), model_request(now), "strict")


@pytest.mark.parametrize(
    "setting",
    [
        user_message("Be good.", role="developer"),
        user_message("<environment_context>\n</environment_context>"),
        user_message("# AGENTS.md instructions for /home/ann\n\nBe good."),
    ],
)
def test_settings_count_only_where_matching_is_strict(tmp_path: Path, setting: ResponseItem) -> None:
    assert match(tmp_path, model_request(setting, "hello"), model_request("hello"))
    assert match(tmp_path, model_request("hello"), model_request(setting, "hello"))
    assert not match(tmp_path, model_request(setting, "hello"), model_request("hello"), "strict")


def test_the_model_counts_only_where_matching_is_strict(tmp_path: Path) -> None:
    other = model_request(model=ModelInfo(slug="other"))
    assert match(tmp_path, model_request(), other)
    assert not match(tmp_path, model_request(), other, "strict")


def test_order_ignores_what_is_asked_and_input_the_order_of_requests(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    requests = [model_request(text) for text in "abc"]
    write(path, *requests)
    backwards = list(reversed(requests))
    by_input, by_order = Cassette.read(path), Cassette.read(path, match="order")
    assert [played(by_input, request) for request in backwards] == ["2", "1", "0"]
    assert [played(by_order, request) for request in backwards] == ["0", "1", "2"]
    assert [played(cassette, backwards[0]) for cassette in (by_input, by_order)] == [None, None]


def test_requests_that_are_made_anew_each_time_are_told_apart(tmp_path: Path) -> None:
    """Python gives the place of an object that is gone, and so its id, to the next one."""
    path = tmp_path / "cassette.jsonl"

    class Forgetful:
        async def stream(self, request: ModelRequest) -> Any:
            yield TextDelta("msg", "ok")
            yield Completed("r")

        async def aclose(self) -> None:
            pass

    async def run() -> None:
        client = recorded(Forgetful(), ProviderInfo(id="mock", options={"record": str(path)}), {})
        for number in range(50):
            async for _ in client.stream(model_request(f"message {number}")):
                pass

    asyncio.run(run())
    cassette = Cassette.read(path)
    for number in range(50):
        assert played(cassette, model_request(f"message {number}")) == "ok"
    assert cassette.unplayed == 0


def test_digests_do_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": {"c": 2, "d": 3}}) == digest({"b": {"d": 3, "c": 2}, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    assert digest("\ud800") != digest("?")


def miss(path: Path, *items: str, recorded: Iterable[ModelRequest]) -> str:
    path.unlink(missing_ok=True)
    write(path, *recorded)
    with pytest.raises(CassetteMissError) as caught:
        Cassette.read(path).play(model_request(*items))
    return caught.value.fact


def test_the_nearest_request_has_the_longest_common_start(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    starts = model_request("one", "two", "left", "out", "here")
    shares = model_request("zero", "two", "three", "four", "new")
    for requests in ([starts, shares], [shares, starts]):
        fact = miss(path, "one", "two", "three", "four", "new", recorded=requests)
        assert '-   "text": "left",' in fact
        assert "zero" not in fact


def test_among_equal_starts_the_nearest_has_more_in_common_and_less_besides(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    near, far = model_request("other", "two", "three"), model_request("far", "away", "three")
    for requests in ([near, far], [far, near]):
        assert '-   "text": "other",' in miss(path, "one", "two", "three", recorded=requests)
    long = model_request("long", "two", "three", *(f"more {n}" for n in range(5)))
    for requests in ([near, long], [long, near]):
        assert '-   "text": "other",' in miss(path, "one", "two", "three", recorded=requests)


def test_a_long_difference_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    text = "\n".join(f"line {n}" for n in range(200))
    fact = miss(path, text, recorded=[model_request("short")])
    lines = fact.split("\n")
    assert len(lines) == 62
    rest = int(lines[-1].removeprefix("... ").removesuffix(" more lines differ"))
    assert sum(line.startswith("+line ") for line in lines) < 60
    assert rest > 140
    assert "more lines differ" not in miss(path, "a", recorded=[model_request("b")])


def test_text_that_is_not_unicode_is_recorded_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    write(path, model_request("half \ud83d of a pair, ä"), model_request("other ?"), model_request("ä"))
    assert '"ä"' in path.read_text("utf-8")
    cassette = Cassette.read(path)
    assert played(cassette, model_request("half ? of a pair, ä")) is None
    assert played(cassette, model_request("half \ud83d of a pair, ä")) == "0"


def test_properties_of_models_are_those_of_the_recording(tmp_path: Path) -> None:
    prices = ModelPrices(input=1.5, output=2.0, currency="EUR")
    info = ModelInfo(slug="mine", context_window=7, prices=prices, efforts=("low", "high"), truncation=("bytes", 5))
    broken, other, path = (tmp_path / name for name in ("broken.jsonl", "other.jsonl", "cassette.jsonl"))
    broken.write_text("?\n")
    write(other, model_request())
    write(path, model_request(model=info))
    path.write_text(path.read_text().replace('"slug":"mine"', '"slug":"mine","of_another_version":[1]'))
    (tmp_path / "script.json").write_text('["Hi!"]')
    tables: dict[str, Any] = {
        "no": "table",
        "live": {"base_url": "http://127.0.0.1:9/v1"},
        "script": {"wire_api": "replay", "script": str(tmp_path / "script.json")},
        "broken": {"wire_api": "replay", "cassette": str(broken)},
        "other": {"wire_api": "replay", "cassette": str(other)},
        "mine": {"wire_api": "replay", "cassette": str(path)},
    }
    provider = ReplayProvider(tables)
    assert provider.model("mine") == info
    assert provider.model("unknown") == ModelInfo(slug="unknown")


def test_a_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    async def run() -> None:
        info = ProviderInfo(id="mock", options={"record": "~/cassette.jsonl"})
        async for _ in recorded(ScriptedModel([say("ok")]), info, {}).stream(model_request()):
            pass

    asyncio.run(run())
    assert (tmp_path / "cassette.jsonl").is_file()
    info = ProviderInfo(id="mock", options={"cassette": "~/cassette.jsonl"})

    async def play() -> int:
        client = ReplayProvider().open(info, {"HOME": str(tmp_path)})
        return len([event async for event in client.stream(model_request())])

    assert asyncio.run(play()) > 1


def test_the_names_and_limits_of_a_provider_stay_when_its_cassette_is_played(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    path.write_text("")
    text = (
        'model_provider = "mine"\n[model_providers.mine]\nname = "Mine"\nbase_url = "https://models.example"\n'
        'env_key = "KEY"\nstream_idle_timeout_ms = 5\n'
    )
    import tomlkit

    made = tomlkit.parse(CassetteFile(path)(text, match="strict")).unwrap()["model_providers"]["mine"]
    expected = {"name": "Mine", "stream_idle_timeout_ms": 5, "wire_api": "replay"}
    assert made == {**expected, "cassette": str(path), "match": "strict"}


@pytest.mark.parametrize("how", ["input", "strict", "order"])
def test_a_miss_never_asks_a_server(make_kernel: Any, model_server: Start, tmp_path: Path, how: str) -> None:
    """Neither the provider's own, nor that of another model that goes on for failed ones."""
    live = model_server([say("From a server!")], repeat_last=True)
    path = tmp_path / "cassette.jsonl"
    write(path, model_request("recorded"))
    text = (
        'model = "gpt-5.4"\nmodel_provider = "mine"\n'
        f'[model_providers.mine]\nbase_url = "{live.url}"\nwire_api = "replay"\ncassette = "{path}"\nmatch = "{how}"\n'
        f'[model_providers.live]\nbase_url = "{live.url}"\n'
        '[framework.plugins.fallbacks]\nmodel_fallbacks = [{ model = "gpt-5.5", provider = "live" }]\n'
    )

    async def run() -> list[str | None]:
        async with make_kernel(config=text) as kernel:
            thread = await kernel.start_thread()
            return [(await thread.run(text)).error for text in ("asked", "again")]

    errors = asyncio.run(run())
    if how == "order":
        assert errors[0] is None
        assert "all of them are played" in str(errors[1])
    else:
        assert all("has no answer to this request" in str(error) for error in errors)
    assert live.requests == []


def test_a_word_for_matching_that_is_unknown_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    write(path, model_request())
    info = ProviderInfo(id="mine", options={"cassette": str(path), "match": "fuzzy"})
    with pytest.raises(ModelError, match="match = 'fuzzy' is unknown") as caught:
        ReplayProvider().open(info, {})
    assert caught.value.hint == "Use one of: input, strict, order."


def test_tools_count_only_where_matching_is_strict(tmp_path: Path) -> None:
    tools = (FunctionSpec("f", "Does f.", {"type": "object"}), FunctionSpec("g", "Does g.", {"type": "object"}))
    was = model_request(tools=tools)
    assert match(tmp_path, was, model_request(tools=tools[:1]))
    assert match(tmp_path, was, was, "strict")
    assert not match(tmp_path, was, model_request(tools=tools[:1]), "strict")
    assert not match(tmp_path, was, model_request(tools=tools[::-1]), "strict")


@pytest.mark.parametrize("how", ["input", "strict"])
@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("/tmp/pytest-of-ann/pytest-7/test_it0/workspace", "/tmp/pytest-of-bob/pytest-12/test_it1/workspace"),
        ("/tmp/pytest-of-ann/pytest-7/test_it0/workspace", "/tmp/pytest-of-ann/pytest-8/popen-gw3/test_it0/workspace"),
        ("/private/var/folders/ab/c1/T/pytest-of-ann/pytest-7/test_it0", "/tmp/pytest-of-ann/pytest-8/test_it0"),
    ],
)
def test_folders_of_tests_are_the_same_in_every_run(tmp_path: Path, how: str, was: str, now: str) -> None:
    def asked(folder: str, rest: str = "") -> ModelRequest:
        where = f"<environment_context>\n  <cwd>{folder}</cwd>\n</environment_context>"
        return model_request(where, FunctionCall("exec", "{}", "1"), FunctionCallOutput("1", f"{folder}{rest}\n"))

    assert match(tmp_path, asked(was), asked(now), how)
    assert not match(tmp_path, asked(was), asked(now, "/below"), how)
