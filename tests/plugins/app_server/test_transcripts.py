"""Recorded conversations of clients with the real server: our server gives answers of the same shape, in the same order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import call, custom_call, say

OVERRIDES = (
    "sandbox_workspace_write.exclude_slash_tmp=true",  # the folders of tests are temporary
    "sandbox_workspace_write.exclude_tmpdir_env_var=true",
    "features.default_mode_request_user_input=true",
)

NOT_COMPARED = {
    "configWarning",  # about the machine
    "remoteControl/status/changed",  # not supported
    "account/rateLimits/updated",  # sent only if a server has told them
    "thread/readState/changed",  # not supported
    "thread/tokenUsage/updated",  # a compaction counts its requests in another order
    "turn/diff/updated",  # sent once for each change
    "thread/status/changed",  # when a question is over, at any time; a revert loads the thread anew
    "warning",
}

LEFT_OUT = {
    "readState",  # experimental, and not supported
    "readStates",
    "misalignment",
    "backwardsCursor",
    "availableDecisions",  # ours has one more
}
"""Fields that are not compared."""


def _escalated(command: str) -> Any:
    return call("exec_command", cmd=command, sandbox_permissions="require_escalated", justification="the mock wants it")


def _patch(text: str) -> Any:
    return custom_call("apply_patch", f"*** Begin Patch\n{text}\n*** End Patch")


def _questions(work: Path) -> Sequence[Any]:
    options = [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}]
    question = {"id": "q1", "header": "H", "question": "Which?", "options": options}
    return [call("lookup", id=7), call("request_user_input", questions=[question]), say("done")]


REPLIES: dict[str, Callable[[Path], Sequence[Any]]] = {
    "thread_lifecycle": lambda _: [say("one"), say("summary"), say("two")],
    "approve_decline": lambda _: [_escalated("echo x"), say("ok")],
    "approve_amendment": lambda _: [_escalated("touch a1 a2"), _escalated("touch a1 a2"), say("ok")],
    "paginated_revert": lambda _: [say("a1"), say("a2"), say("a3")],
    "dynamic_tools_and_input": _questions,
    "file_change_approval": lambda work: [
        _patch(f"*** Add File: {work.parent}/outside.txt\n+hi\n*** Update File: f.txt\n@@\n-one\n+two"),
        _patch("*** Update File: f.txt\n@@\n-two\n+three"),
        say("ok"),
    ],
}


class Replay:
    """Sends what the client of a record has sent, and compares what comes back."""

    def __init__(self, client: Any, home: Any) -> None:
        self._client = client
        self._names: dict[str, str] = {"/SANDBOX/work": str(home.work), "/SANDBOX": str(home.work.parent)}
        self._expected: list[dict[str, Any]] = []

    async def run(self, rows: Iterator[dict[str, Any]]) -> None:
        for row in rows:
            message = row.get("msg")
            if message is None:
                continue
            if row["dir"] == "s2c":
                if is_compared(message):
                    self._expected.append(message)
            else:
                await self._caught_up()
                self._send(message)
        await self._caught_up()
        compare_order(self._expected, self._seen())

    def _send(self, message: dict[str, Any]) -> None:
        text = json.dumps(message)
        for recorded, own in self._names.items():
            text = text.replace(recorded, own)
        if "method" in message and "id" in message:
            self._client._methods[message["id"]] = message["method"]
        self._client.write(text)

    def _seen(self) -> list[dict[str, Any]]:
        return list(filter(is_compared, self._client.seen))

    async def _caught_up(self) -> None:
        """Wait for as many messages as the record has, and learn the ids in them."""
        wanted = collapsed(self._expected)
        async with asyncio.timeout(60), self._client._arrived:
            await self._client._arrived.wait_for(lambda: len(collapsed(self._seen())) >= len(wanted))
        for recorded, own in zip(in_order(self._expected), in_order(self._seen()), strict=False):
            self._learn(recorded, own)

    def _learn(self, recorded: Any, own: Any) -> None:
        if isinstance(recorded, dict) and isinstance(own, dict):
            for key in recorded.keys() & own.keys():
                self._learn(recorded[key], own[key])
        elif isinstance(recorded, list) and isinstance(own, list):
            for each in zip(recorded, own, strict=False):
                self._learn(*each)
        elif isinstance(recorded, str) and isinstance(own, str) and len(recorded) == 36 and recorded.count("-") == 4:
            self._names[recorded] = own


def is_compared(message: dict[str, Any]) -> bool:
    return message.get("method") not in NOT_COMPARED


def kind(message: dict[str, Any]) -> str:
    """Return a word for a message: its method and the item, or the id of the request that it answers."""
    if "method" not in message:
        return f"{'error' if 'error' in message else 'result'} {message['id']}"
    item = message["params"].get("item", {}).get("type", "")
    return f"{message['method']} {item}".strip()


def collapsed(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Return the kinds of messages. Deltas that follow each other count once."""
    kinds = [kind(message) for message in messages]
    return [each for place, each in enumerate(kinds) if place == 0 or each != kinds[place - 1] or "elta" not in each]


def in_order(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages by kind, because a response and notifications of other threads have no fixed order."""
    return sorted(messages, key=kind)


def compare_order(recorded: Sequence[dict[str, Any]], own: Sequence[dict[str, Any]]) -> None:
    for pick in (lambda each: "method" in each, lambda each: "method" not in each):
        assert collapsed(list(filter(pick, own))) == collapsed(list(filter(pick, recorded)))
    for wanted, found in zip(in_order(recorded), in_order(own), strict=True):
        compare_shape(wanted, found, kind(wanted))


def compare_shape(recorded: Any, own: Any, where: str) -> None:
    """Check that two values have the same fields and types."""
    if recorded is None or own is None:
        return
    assert type(recorded) is type(own), f"{where}: {recorded!r} and {own!r}"
    if isinstance(recorded, dict):
        assert recorded.keys() - own.keys() <= LEFT_OUT, f"{where}: {recorded.keys() - own.keys()} missing"
        for key in (recorded.keys() & own.keys()) - LEFT_OUT:
            compare_shape(recorded[key], own[key], f"{where}.{key}")
    elif isinstance(recorded, list):
        for place, (wanted, found) in enumerate(zip(recorded, own, strict=False)):
            compare_shape(wanted, found, f"{where}[{place}]")
    elif isinstance(recorded, str) and recorded in ("completed", "failed", "declined", "interrupted", "idle"):
        assert own == recorded, where


@pytest.mark.parametrize("name", REPLIES)
def test_answers_and_notifications_are_those_of_the_record(
    home: Any, serving: Callable[..., Any], anchors: Path, name: str
) -> None:
    home.serve(*REPLIES[name](home.work))
    (home.work / "f.txt").write_text("one\n")
    rows = map(json.loads, (anchors / "app_server_transcripts" / f"{name}.jsonl").read_text().splitlines())

    async def run() -> None:
        async with serving(*OVERRIDES) as running:
            await Replay(running.connect(), home).run(rows)

    asyncio.run(run())
