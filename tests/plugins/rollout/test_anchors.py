"""Files that the real Codex has written load here, and ours have their shape."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codex_framework import Message, ThreadMeta
from codex_framework.contract.protocol.events import AgentMessageEvent, TokenCountEvent, UnknownEvent, UserMessageEvent
from codex_framework.contract.protocol.items import is_call, is_output, message_text, user_message
from codex_framework.contract.roles.stores import EventEntry, ItemEntry
from codex_framework.testing.replies import say
from codex_framework.testing.server import ResponsesServer
from codex_plugin_rollout import RolloutStore

GOLDEN = Path(__file__).with_name("golden.jsonl")
# What older versions write and 0.169 reads: it has put whole turn items in the place of messages, and profiles beside policies.
OF_OLDER_VERSIONS = {"forked_from_id", "local_images", "message"}


def keys(lines: list[dict[str, Any]]) -> dict[str, set[str]]:
    """All keys seen, by kind of line."""
    found: dict[str, set[str]] = {}
    for line in lines:
        payload = line["payload"]
        kind = f"{line['type']}.{payload.get('type', '')}"
        found.setdefault(kind, set()).update(payload)
        for part in ("info", "git", "base_instructions"):
            if isinstance(payload.get(part), dict):
                found.setdefault(f"{kind}.{part}", set()).update(payload[part])
    return found


def test_every_recorded_file_loads_without_a_warning(store: RolloutStore, anchors: Path) -> None:
    paths = sorted((anchors / "rollouts").glob("*.jsonl"))
    assert paths
    for path in paths:
        stored = store.load(str(path), "/nowhere")
        assert stored.warnings == (), path
        assert stored.history, path
        assert sum(map(is_call, stored.history)) == sum(map(is_output, stored.history)), path
        assert not [msg for msg in stored.events if isinstance(msg, UnknownEvent)], path
        assert stored.last_turn_context is not None, path
        assert stored.meta.base_instructions, path


def test_a_resumed_thread_is_read_as_it_was_said(store: RolloutStore, anchors: Path) -> None:
    stored = store.load(str(anchors / "rollouts/q_resume.0.jsonl"), "/nowhere")
    lines = [json.loads(line) for line in (anchors / "rollouts/q_resume.0.jsonl").read_text().splitlines()]
    items = [line["payload"] for line in lines if line["type"] == "response_item"]
    assert len(stored.history) == len(items)
    said = [msg.message for msg in stored.events if isinstance(msg, UserMessageEvent)]
    assert (
        said == [message_text(item) for item in stored.history if isinstance(item, Message) and item.role == "user"][1:]
    )
    assert any(isinstance(msg, AgentMessageEvent) for msg in stored.events)
    counts = [msg for msg in stored.events if isinstance(msg, TokenCountEvent) and msg.info]
    assert counts[-1].info
    assert counts[-1].info.total_token_usage.total_tokens > 0


def test_a_compacted_thread_starts_from_its_summary(store: RolloutStore, anchors: Path) -> None:
    history = store.load(str(anchors / "rollouts/p_compact.0.jsonl"), "/nowhere").history
    assert [item.type for item in history] == [*["message"] * 4, "function_call", "function_call_output", "message"]
    assert isinstance(history[3], Message)
    assert message_text(history[3]).endswith("SUMMARY: did one and two.")


def test_what_we_write_has_the_keys_of_the_real_files(anchors: Path) -> None:
    real: dict[str, set[str]] = {}
    for path in (anchors / "rollouts").glob("*.jsonl"):
        for kind, names in keys([json.loads(line) for line in path.read_text().splitlines()]).items():
            real.setdefault(kind, set()).update(names)
    ours = keys([json.loads(line) for line in GOLDEN.read_text().splitlines()])
    surplus = {kind: names - real[kind] - OF_OLDER_VERSIONS for kind, names in ours.items() if kind in real}
    assert {kind: names for kind, names in surplus.items() if names} == {}
    assert set(ours) - set(real) == {"event_msg.user_message", "event_msg.agent_message"}, "written by its legacy mode"


def test_a_numbered_file_goes_on_with_its_numbers(store: RolloutStore, anchors: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(anchors / "rollouts/q_resume.0.jsonl", tmp_path))
    count = len(path.read_bytes().splitlines())
    recorder = store.reopen(store.load(str(path), "/nowhere"), str(tmp_path))
    for text in ("one", "two"):
        recorder.append([ItemEntry(user_message(text)), EventEntry(UserMessageEvent(text))])
        recorder.flush()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["ordinal"] for line in lines] == list(range(count + 4))
    assert list(lines[-1]) == ["timestamp", "ordinal", "type", "payload"]


def test_codex_itself_goes_on_with_our_file_and_we_with_its(
    store: RolloutStore, meta: ThreadMeta, home: str, tmp_path: Path, codex_binary: str
) -> None:
    work = Path(meta.cwd)
    work.mkdir()

    def record(recorder: Any, word: str) -> None:
        recorder.append([ItemEntry(user_message(f"remember {word}")), EventEntry(UserMessageEvent(f"remember {word}"))])
        recorder.close()

    def codex(server: ResponsesServer, *arguments: str) -> None:
        provider = f'model_providers.mock={{name="mock",base_url="{server.url}",wire_api="responses"}}'
        options = ("-c", provider, "-c", "model_provider=mock", "-m", "gpt-5.5", "--json", "--skip-git-repo-check")
        subprocess.run(
            [codex_binary, "exec", *options, *arguments],
            cwd=work,
            env={"HOME": str(tmp_path), "CODEX_HOME": home, "PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=60,
        )

    def remembered(server: ResponsesServer) -> list[str]:
        return [word for word in ("KUMQUAT", "PAPAYA", "MANGO") if f"remember {word}" in json.dumps(server.inputs[-1])]

    record(store.create(meta, home), "KUMQUAT")
    with ResponsesServer([say("one"), say("two"), say("three"), say("four")]) as server:
        codex(server, "resume", meta.id, "go on")
        assert remembered(server) == ["KUMQUAT"]
        record(store.reopen(store.load(meta.id, home), home), "PAPAYA")
        codex(server, "resume", "--last", "go on")
        assert remembered(server) == ["KUMQUAT", "PAPAYA"]
        codex(server, "remember MANGO")
        latest: Callable[..., str | None] = store.latest
        theirs = latest(home, cwd=str(work))
        assert theirs
        assert theirs != meta.id
        record(store.reopen(store.load(theirs, home), home), "PAPAYA")
        codex(server, "resume", theirs, "go on")
        assert remembered(server) == ["PAPAYA", "MANGO"]
    assert store.load(theirs, home).warnings == ()
