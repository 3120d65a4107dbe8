"""Recording real servers over each API, and playing it back: the same turn, no request, and no secret in the file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.protocol.items import Reasoning
from codex_framework.testing import Reply, call, custom_call, fault, say
from codex_framework.testing.cassettes import CassetteFile

Start = Callable[..., Any]

KEY = "canary-key-0123456789"
CANARIES = {
    "MODELS_KEY": KEY,
    "HEADER_VALUE": "canary-header-0123",
    "DEPLOY_TOKEN": "canary-environment-01",
}
TABLE_CANARIES = ("canary-bearer-0123", "canary-table-0123", "canary-query-0123", "canary+word/0123")
PATCH = "*** Begin Patch\n*** Add File: poem.txt\n+roses\n*** End Patch"


def config(url: str, wire: str, **table: Any) -> str:
    keys = "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
    return (
        'model = "gpt-5.4"\nmodel_provider = "mine"\nsandbox_mode = "danger-full-access"\napproval_policy = "never"\n'
        f'[model_providers.mine]\nbase_url = "{url}"\nwire_api = "{wire}"\nrequest_max_retries = 0\n{keys}'
    )


def turns(make_kernel: Any, text: str, *prompts: str, env: dict[str, str] | None = None) -> list[Any]:
    async def run() -> list[Any]:
        async with make_kernel(config=text, env=env or {}) as kernel:
            thread = await kernel.start_thread()
            results = [await thread.run(prompt) for prompt in prompts]
            return [(result.final_message, result.error) for result in results]

    return asyncio.run(run())


def replies() -> list[Reply]:
    thought = Reasoning("rs_1", ({"type": "summary_text", "text": "Hm."},), None, "sealed")
    return [
        Reply(items=(thought,)) + call("exec_command", cmd="echo one") + custom_call("apply_patch", PATCH),
        say("Written.", deltas=5),
        say("Half") + fault(cut_at=200),
        say("Again."),
        fault(400, body={"error": {"message": f"Wrong key {KEY}."}}),
    ]


def test_a_recording_of_compressed_requests_is_one_of_plain_ones(
    make_kernel: Any, model_server: Start, tmp_path: Path
) -> None:
    server = model_server([say("Hello.")])
    path = tmp_path / "compressed.jsonl"
    text = config(server.url, "responses", request_compression="zstd")
    turns(make_kernel, CassetteFile(path, "record")(text), "write this down")
    server.stop()
    assert server.requests[0].headers["content-encoding"] == "zstd"
    assert "write this down" in path.read_text()
    played = turns(make_kernel, CassetteFile(path)(config(server.url, "responses")), "write this down")
    assert played == [("Hello.", None)]


@pytest.mark.parametrize("wire", ["responses", "chat"])
def test_turns_play_back_without_a_server(
    make_kernel: Any, model_server: Start, tmp_path: Path, workspace: Path, wire: str
) -> None:
    server = model_server(replies())
    path = tmp_path / "turns.jsonl"
    text = config(server.url, wire)
    recorded = turns(make_kernel, CassetteFile(path, "record")(text), "write", "again", "once more")
    server.stop()
    assert (workspace / "poem.txt").read_text() == "roses\n"
    assert [message for message, _ in recorded] == ["Written.", "Again.", None]
    before = path.read_bytes()
    (workspace / "poem.txt").unlink()
    played = turns(make_kernel, CassetteFile(path)(text), "write", "again", "once more")
    assert [message for message, _ in played] == ["Written.", "Again.", None]
    assert "Wrong key" in str(played[2][1])
    assert (workspace / "poem.txt").read_text() == "roses\n"
    assert path.read_bytes() == before
    ((_, error),) = turns(make_kernel, CassetteFile(path)(text), "write something else")
    assert "has no answer to this request" in str(error)
    assert '+   "text": "write something else",' in str(error)


@pytest.mark.parametrize("wire", ["responses", "chat"])
def test_no_secret_is_in_the_file(make_kernel: Any, model_server: Start, tmp_path: Path, wire: str) -> None:
    told = " ".join((*CANARIES.values(), *TABLE_CANARIES, "canary%2Bword%2F0123"))
    replies = [
        say(f"I know {told}", deltas=30) + call("exec_command", cmd=f"echo {told}"),
        say(f"It is {told}"),
        fault(401, body={"error": {"message": f"Wrong: {told}"}}),
    ]
    server = model_server(replies)
    path = tmp_path / "turns.jsonl"
    text = config(server.url, wire, env_key="MODELS_KEY") + (
        'query_params = { api-key = "canary-query-0123", token = "canary+word/0123" }\n'
        'http_headers = { X-Api-Key = "canary-table-0123", X-Token = "canary-bearer-0123" }\n'
        'env_http_headers = { X-Plain = "HEADER_VALUE" }\n'
    )
    first, second = turns(make_kernel, CassetteFile(path, "record")(text), f"Use {told}", "again", env=CANARIES)
    assert told in str(first[0])
    assert second[1] is not None
    written = path.read_text()
    assert "canary" not in written
    assert written.count("<secret:") > 20


def test_a_strict_match_compares_the_whole_request(make_kernel: Any, model_server: Start, tmp_path: Path) -> None:
    server = model_server([say("Yes.")])
    path = tmp_path / "turns.jsonl"
    text = config(server.url, "chat")
    turns(make_kernel, CassetteFile(path, "record")(text), "hello")
    other = text.replace("gpt-5.4", "gpt-5.5")
    assert turns(make_kernel, CassetteFile(path)(text, match="strict"), "hello") == [("Yes.", None)]
    assert turns(make_kernel, CassetteFile(path)(other), "hello") == [("Yes.", None)]
    ((message, error),) = turns(make_kernel, CassetteFile(path)(other, match="strict"), "hello")
    assert message is None
    assert "-gpt-5.4" in str(error)
    assert "+gpt-5.5" in str(error)


def test_the_models_properties_are_played_back(make_kernel: Any, model_server: Start, tmp_path: Path) -> None:
    """Otherwise other tools would be offered than the recorded answers call."""
    server = model_server([custom_call("apply_patch", PATCH), say("Yes.")])
    path = tmp_path / "turns.jsonl"
    text = config(server.url, "chat").replace("gpt-5.4", "unknown-model")

    async def properties(text: str) -> Any:
        async with make_kernel(config=text) as kernel:
            thread = await kernel.start_thread()
            await thread.run("hello")
            return kernel.registry.providers["replay" if "replay" in text else "chat"].model("gpt-5.4")

    known = asyncio.run(properties(CassetteFile(path, "record")(text.replace("unknown-model", "gpt-5.4"))))
    server.stop()
    assert asyncio.run(properties(CassetteFile(path)(text.replace("unknown-model", "gpt-5.4")))) == known


def test_all_providers_of_a_test_share_its_cassette(make_kernel: Any, model_server: Start, tmp_path: Path) -> None:
    from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides

    server = model_server([say("One."), say("Two.")])
    path = tmp_path / "turns.jsonl"
    text = config(server.url, "chat") + f'[model_providers.other]\nbase_url = "{server.url}"\n'

    async def run(text: str) -> list[str | None]:
        async with make_kernel(config=text) as kernel:
            thread = await kernel.start_thread()
            first = await thread.run("hello")
            await thread.submit(ThreadSettings(ThreadSettingsOverrides(model_provider="other")))
            return [first.final_message, (await thread.run("hello")).final_message]

    assert asyncio.run(run(CassetteFile(path, "record")(text))) == ["One.", "Two."]
    assert [request.path for request in server.requests] == ["/v1/chat/completions", "/v1/responses"]
    server.stop()
    assert asyncio.run(run(CassetteFile(path)(text))) == ["One.", "Two."]


def test_modes(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "turns.jsonl"
    text = config("http://127.0.0.1:9/v1", "chat")
    with pytest.raises(FileNotFoundError, match="--codex-cassettes=record"):
        CassetteFile(path)(text)
    assert "record" in CassetteFile(path, "missing")(text)
    path.parent.mkdir()
    path.write_text("old")
    assert "replay" in CassetteFile(path, "missing")(text)
    again = CassetteFile(path, "record")
    assert "record" in again(text)
    assert not path.exists()
    path.write_text("new")
    again(text)  # a second kernel of the same test adds to what the first has recorded
    assert path.read_text() == "new"
    with pytest.raises(ValueError, match="A built-in provider has no table"):
        CassetteFile(path)('model = "gpt-5.4"\n')
