"""Replies from a file, without a model and without a network."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Completed, ItemDone, ModelError, ModelEvent, ModelInfo, ProviderInfo, TextDelta
from codex_framework.contract.protocol.items import (
    CustomToolCall,
    FunctionCall,
    LocalShellCall,
    Message,
    OutputText,
    Reasoning,
    UnknownItem,
)
from codex_framework.testing.requests import ask, model_request
from codex_plugin_replay.provider import ReplayProvider


def info(**options: Any) -> ProviderInfo:
    return ProviderInfo(id="offline", wire_api="replay", options=options)


def played(path: Path, count: int = 1) -> list[list[ModelEvent]]:
    return asyncio.run(ask(ReplayProvider(), info(script=str(path)), *[model_request(str(n)) for n in range(count)]))


def items(events: list[ModelEvent]) -> list[Any]:
    return [event.item for event in events if isinstance(event, ItemDone)]


def test_a_script_says_everything_a_model_can_say(tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text("""
[[responses]]
usage = { input_tokens = 7, output_tokens = 1, total_tokens = 8 }
output = [
    { reasoning = ["one", "two"], encrypted_content = "xyz" },
    "I look.",
    { say = "And now?", phase = "commentary" },
    { call = "exec_command", arguments = { cmd = "ls" } },
    { call = "exec_command", arguments = "not json", call_id = "mine" },
    { custom_call = "apply_patch", input = "*** Begin Patch" },
    { local_shell = ["ls", "-l"], timeout_ms = 5 },
    { type = "web_search_call", status = "completed" },
]

[[responses]]
say = "Done."
deltas = 2
end_turn = true
""")
    first, second = played(script, 2)
    assert items(first) == [
        Reasoning(
            "rs_1_1",
            ({"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}),
            encrypted_content="xyz",
        ),
        Message("assistant", (OutputText("I look."),), "msg_1_2"),
        Message("assistant", (OutputText("And now?"),), "msg_1_3", "commentary"),
        FunctionCall("exec_command", '{"cmd": "ls"}', "call_1_4", id="fc_1_4"),
        FunctionCall("exec_command", "not json", "mine", id="fc_1_5"),
        CustomToolCall("apply_patch", "*** Begin Patch", "call_1_6", "ctc_1_6", "completed"),
        LocalShellCall({"type": "exec", "command": ["ls", "-l"], "timeout_ms": 5}, "call_1_7", "completed", "lsh_1_7"),
        UnknownItem({"type": "web_search_call", "status": "completed"}),
    ]
    assert isinstance(first[-1], Completed)
    assert first[-1].usage is not None
    assert first[-1].usage.total_tokens == 8
    assert [event.delta for event in second if isinstance(event, TextDelta)] == ["Do", "ne."]
    assert second[-1] == Completed("resp_2", second[-1].usage, end_turn=True)  # type: ignore[union-attr]


def test_a_json_script_may_be_a_plain_list(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(["one", {"say": "two", "repeat": 2}]))
    texts = [items(events)[0].content[0].text for events in played(script, 3)]
    assert texts == ["one", "two", "two"]


@pytest.mark.parametrize(
    ("fault", "fact", "retryable"),
    [
        ({"error": "boom"}, "boom", False),
        ({"error": {"message": "boom", "retryable": True, "retry_after_s": 1.5}}, "boom", True),
        ({"status": 500}, "unexpected status 500 Internal Server Error", True),
        ({"status": 404}, "unexpected status 404 Not Found", False),
        (
            {"say": "hello", "cut_after": 1},
            "stream disconnected before completion: Transport error: network error: error decoding response body",
            True,
        ),
        (
            {"no_completed": True},
            "stream disconnected before completion: stream closed before response.completed",
            True,
        ),
        ({"incomplete": "max_output_tokens"}, "Incomplete response returned, reason: max_output_tokens", False),
        ({"failed": {"code": "x", "message": "bad"}}, "bad", False),
    ],
)
def test_a_script_can_go_wrong_on_purpose(tmp_path: Path, fault: dict[str, Any], fact: str, retryable: bool) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([fault]))
    with pytest.raises(ModelError) as caught:
        played(script)
    assert (caught.value.fact, caught.value.retryable) == (fact, retryable)


def test_a_script_that_has_ended_says_so(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('["only one"]')
    with pytest.raises(ModelError) as caught:
        played(script, 2)
    assert caught.value.fact == "the script has 1 replies, and this is request 2"
    assert caught.value.hint


def test_a_script_may_repeat_its_last_reply(tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text('repeat_last = true\nresponses = ["again"]')
    assert len(played(script, 5)) == 5


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("responses = [", "cannot be read"),
        ("answers = []", "is not a script of responses"),
        ("responses = [3]", "response 1: a response must be a string or a table, not 3"),
        ('responses = ["a", {shout = "x"}]', "response 2: an output needs one of: say, reasoning, call"),
        ('responses = [{output = ["a"], shout = 1}]', "response 1: unknown or misplaced: shout"),
        ('responses = [{say = "a", loud = 1}]', "response 1: "),
        ('responses = [{say = "a", deltas = "many"}]', "response 1: "),
    ],
)
def test_a_script_that_is_wrong_is_refused_when_it_is_opened(tmp_path: Path, text: str, fact: str) -> None:
    script = tmp_path / "script.toml"
    script.write_text(text)
    with pytest.raises(ModelError) as caught:
        ReplayProvider().open(info(script=str(script)), {})
    assert fact in caught.value.fact
    assert str(script) in caught.value.fact
    assert caught.value.hint


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({}, "[model_providers.offline] names no script and no cassette"),
        ({"script": "a", "cassette": "b"}, "[model_providers.offline] names a script and a cassette"),
        ({"script": 3}, "[model_providers.offline]: script is 3, not a path"),
        ({"skript": "a"}, "[model_providers.offline] has unknown keys: skript"),
        ({"cassette": "/nowhere/x.jsonl"}, "the cassette /nowhere/x.jsonl cannot be read: "),
        ({"cassette": "/nowhere/x.jsonl", "match": "loosely"}, "match = 'loosely' is unknown"),
    ],
)
def test_a_table_that_is_wrong_is_refused_when_it_is_opened(options: dict[str, Any], fact: str) -> None:
    with pytest.raises(ModelError) as caught:
        ReplayProvider().open(info(**options), {})
    assert caught.value.fact.startswith(fact)
    assert caught.value.hint


def test_threads_share_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('["one", "two"]')
    provider = ReplayProvider()
    texts = [
        items(events)[0].content[0].text
        for _ in range(2)
        for events in asyncio.run(ask(provider, info(script=str(script))))
    ]
    assert texts == ["one", "two"]


def test_any_model_name_is_known() -> None:
    assert ReplayProvider().model("gpt-5.5") == ModelInfo(slug="gpt-5.5", known=True)
