"""Checks that run in an environment with the Python SDK of Codex, unmodified: ``python python_sdk.py CHECK``.

The variables PROGRAM, WORK and HOME name the command under test, the workspace and the user's folder.
"""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from openai_codex import Codex
from openai_codex.api import ApprovalMode, ExternalMessage, ImageInput, LocalImageInput, Sandbox, TextInput
from openai_codex.client import CodexClient, CodexConfig
from openai_codex.errors import CodexError, InvalidRequestError, MethodNotFoundError

WORK = os.environ["WORK"]
CONFIG = CodexConfig(codex_bin=os.environ["PROGRAM"], cwd=WORK)
MARK = Path(os.environ["HOME"]) / "mark"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def completed(turn: Any, status: str = "completed") -> Any:
    assert turn.status.value == status, turn
    return turn


def items_of(result: Any) -> list[Any]:
    return [item.root for item in result.items]


def initialize() -> None:
    with Codex(CONFIG) as codex:
        assert codex.metadata.serverInfo.version.startswith("0.171.0")


def run() -> None:
    with Codex(CONFIG) as codex:
        result = codex.thread_start(model="gpt-5.5").run("say hello")
        assert result.final_response == "Hello."
        assert result.usage.total.total_tokens == 120


def stream_deltas() -> None:
    with Codex(CONFIG) as codex:
        methods = [note.method for note in codex.thread_start().turn("go").stream()]
    assert "item/agentMessage/delta" in methods
    assert "item/reasoning/summaryTextDelta" in methods
    assert methods[0] == "turn/started"
    assert methods[-1] == "turn/completed"


def two_turns() -> None:
    with Codex(CONFIG) as codex:
        thread = codex.thread_start()
        assert [thread.run(text).final_response for text in ("a", "b")] == ["one", "two"]


def command_execution() -> None:
    with Codex(CONFIG) as codex:
        result = codex.thread_start(sandbox=Sandbox.full_access).run("go")
    command = next(item for item in items_of(result) if item.type == "commandExecution")
    assert command.status.value == "completed"
    assert command.exit_code == 0
    assert "from-tool" in command.aggregated_output


def file_change() -> None:
    with Codex(CONFIG) as codex:
        result = codex.thread_start(sandbox=Sandbox.full_access).run("go")
    change = next(item for item in items_of(result) if item.type == "fileChange")
    assert change.status.value == "completed"
    assert [part.path for part in change.changes] == [f"{WORK}/new.txt"]
    assert Path(WORK, "new.txt").read_text() == "hi\n"


def _with_answers(decision: str) -> tuple[list[str], list[Any]]:
    """Run a turn and answer its questions. Return the methods of the questions and the completed items."""
    asked: list[str] = []

    def handler(method: str, params: Any) -> dict[str, Any]:
        asked.append(method)
        return {"decision": decision}

    with CodexClient(CONFIG, approval_handler=handler) as client:
        client.initialize()
        settings = {"approvalPolicy": "on-request", "approvalsReviewer": "user", "sandbox": "workspace-write"}
        thread_id = client.thread_start(settings).thread.id
        turn_id = client.turn_start(thread_id, [{"type": "text", "text": "go"}]).turn.id
        client.register_turn_notifications(turn_id)
        seen: list[Any] = []
        while True:
            note = client.next_turn_notification(turn_id)
            if note.method == "item/completed":
                seen.append(note.payload.item.root)
            if note.method == "turn/completed":
                seen.append(note.payload.turn)
                return asked, seen


def approval_accept() -> None:
    asked, seen = _with_answers("accept")
    assert asked == ["item/commandExecution/requestApproval"] * 2
    assert MARK.read_text() == "x\nx\n"
    completed(seen[-1])


def approval_accept_for_session() -> None:
    asked, seen = _with_answers("acceptForSession")
    assert asked == ["item/commandExecution/requestApproval"]
    assert MARK.read_text() == "x\nx\n"
    completed(seen[-1])


def approval_decline() -> None:
    asked, seen = _with_answers("decline")
    assert asked == ["item/commandExecution/requestApproval"]
    assert [item.status.value for item in seen[:-1] if item.type == "commandExecution"] == ["declined"]
    assert not MARK.exists()
    completed(seen[-1])


def approval_cancel() -> None:
    _, seen = _with_answers("cancel")
    assert not MARK.exists()
    completed(seen[-1], "interrupted")


def file_change_approval() -> None:
    asked, seen = _with_answers("accept")
    assert asked == ["item/fileChange/requestApproval"]
    assert MARK.read_text() == "hi\n"
    completed(seen[-1])


def deny_all_sandboxed() -> None:
    with Codex(CONFIG) as codex:
        codex.thread_start(approval_mode=ApprovalMode.deny_all, sandbox=Sandbox.workspace_write).run("go")
    assert not MARK.exists()


def interrupt() -> None:
    with Codex(CONFIG) as codex:
        thread = codex.thread_start()
        turn = thread.turn("go")
        notes = turn.stream()
        while next(notes).method != "turn/started":
            pass
        turn.interrupt()
        completed(list(notes)[-1].payload.turn, "interrupted")
        assert thread.run("again").final_response == "after"


def interrupt_command() -> None:
    with Codex(CONFIG) as codex:
        turn = codex.thread_start(sandbox=Sandbox.full_access).turn("go")
        notes = turn.stream()
        while (note := next(notes)).method != "item/started" or note.payload.item.root.type != "commandExecution":
            pass
        turn.interrupt()
        completed(list(notes)[-1].payload.turn, "interrupted")


def steer() -> None:
    with Codex(CONFIG) as codex:
        turn = codex.thread_start(sandbox=Sandbox.full_access).turn("first text")
        notes = turn.stream()
        while (note := next(notes)).method != "item/started" or note.payload.item.root.type != "commandExecution":
            pass
        turn.steer("steered text")
        completed(list(notes)[-1].payload.turn)


def list_read_name_archive() -> None:
    with Codex(CONFIG) as codex:
        thread = codex.thread_start(sandbox=Sandbox.full_access)
        thread.run("first question")
        thread.run("second question")
        thread.set_name("a fine name")
        listed = codex.thread_list().data
        assert [(each.id, each.name, each.preview) for each in listed] == [(thread.id, "a fine name", "first question")]
        turns = thread.read(include_turns=True).thread.turns
        assert [len(turn.items) for turn in turns] == [2, 2]
        codex.thread_archive(thread.id)
        assert codex.thread_list().data == []
        assert [each.id for each in codex.thread_list(archived=True).data] == [thread.id]
        codex.thread_unarchive(thread.id)
        assert [each.id for each in codex.thread_list().data] == [thread.id]


def resume_in_new_process() -> None:
    with Codex(CONFIG) as codex:
        thread_id = codex.thread_start(sandbox=Sandbox.full_access).id
        codex.thread_resume(thread_id).run("first question")
    with Codex(CONFIG) as codex:
        thread = codex.thread_resume(thread_id)
        turn = thread.read(include_turns=True).thread.turns[0]
        assert [item.root.type for item in turn.items] == ["userMessage", "commandExecution", "agentMessage"]
        assert thread.run("second question").final_response == "two"


def fork() -> None:
    with Codex(CONFIG) as codex:
        thread = codex.thread_start()
        thread.run("first question")
        other = codex.thread_fork(thread.id)
        assert other.id != thread.id
        assert other.run("fork question").final_response == "two"
        assert thread.run("origin question").final_response == "three"
        assert {each.id for each in codex.thread_list().data} == {thread.id, other.id}
        assert other.read().thread.forked_from_id == thread.id


def compact() -> None:
    with Codex(CONFIG) as codex:
        thread = codex.thread_start()
        thread.run("first question")
        thread.compact()
        deadline = time.monotonic() + 60
        while thread.read().thread.status.root.type != "idle" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert thread.run("next").final_response == "three"


def models() -> None:
    with Codex(CONFIG) as codex:
        found = codex.models(include_hidden=True).data
        assert "gpt-5.5" in [model.id for model in found]
        assert sum(model.is_default for model in found) == 1
        assert len(codex.models().data) < len(found)


def account() -> None:
    with Codex(CONFIG) as codex:
        assert codex.account().account is None
        codex.login_api_key("sk-probe-key")
        assert codex.account().account.root.type == "apiKey"
        codex.logout()
        assert codex.account().account is None


def output_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"status": {"type": "string"}},
        "required": ["status"],
        "additionalProperties": False,
    }
    with Codex(CONFIG) as codex:
        thread = codex.thread_start()
        assert thread.run("go", output_schema=schema).final_response == '{"status": "fine"}'
        thread.run("plain")


def images() -> None:
    image = Path(WORK, "a.png")
    image.write_bytes(base64.b64decode(PNG))
    parts = [TextInput("look"), LocalImageInput(str(image)), ImageInput(f"data:image/png;base64,{PNG}")]
    with Codex(CONFIG) as codex:
        assert codex.thread_start().run(parts).final_response == "seen"


def turn_options() -> None:
    with Codex(CONFIG) as codex:
        thread = codex.thread_start(base_instructions="BASE-INSTR", developer_instructions="DEV-INSTR", ephemeral=True)
        thread.run("go", model="gpt-5.5", effort="high", summary="detailed")
        assert codex.thread_list().data == []


def failed_turn() -> None:
    with Codex(CONFIG) as codex:
        try:
            codex.thread_start().run("go")
        except (CodexError, RuntimeError) as error:
            assert "probe failure text" in str(error)
        else:
            raise AssertionError("the turn did not fail")


def http_errors() -> None:
    for text in ("probe unauthorized", "probe bad request"):
        with Codex(CONFIG) as codex:
            try:
                codex.thread_start().run("go")
            except (CodexError, RuntimeError) as error:
                assert text in str(error), error
            else:
                raise AssertionError("the turn did not fail")


def rpc_errors() -> None:
    with Codex(CONFIG) as codex:
        for what, message in (
            (lambda: codex.thread_resume("0199a213-81c0-7800-8aa1-bbab2a035a53"), "no rollout found for thread id"),
            (lambda: codex._client._request_raw("no/suchMethod", {}), "unknown variant `no/suchMethod`"),
            (lambda: codex._client._request_raw("thread/read", {"nothing": 1}), "missing field `threadId`"),
        ):
            try:
                what()
            except InvalidRequestError as error:
                assert message in error.message
            else:
                raise AssertionError(message)
        with contextlib.suppress(MethodNotFoundError):
            codex._client._request_raw("marketplace/add", {"source": "x"})
        assert codex.thread_start().run("go").final_response == "ok"


def concurrent_threads() -> None:
    answers: dict[int, str | None] = {}
    with Codex(CONFIG) as codex:

        def ask(place: int) -> None:
            answers[place] = codex.thread_start().run(f"question {place}").final_response

        running = [threading.Thread(target=ask, args=(place,)) for place in range(4)]
        for each in running:
            each.start()
        for each in running:
            each.join(60)
    assert answers == {place: f"answer {place}" for place in range(4)}


def ends_with_stdin() -> None:
    argv = [os.environ["PROGRAM"], "app-server", "--listen", "stdio://"]
    done = subprocess.run(argv, cwd=WORK, input=b"", capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b""


def external_message() -> None:
    with Codex(CONFIG) as codex:
        result = codex.thread_start().run(ExternalMessage("mailbox", "text from outside"))
        assert result.final_response == "ok"
        assert items_of(result)[0].type == "functionCallOutput"


def goal() -> None:
    with Codex(CONFIG) as codex:
        thread = codex.thread_start(sandbox=Sandbox.read_only)
        thread.run("hi")
        state, turn_id = codex._client.start_goal_operation(thread.id, "count to three")
        seen = []
        while not seen or seen[-1].method != "turn/completed":
            seen.append(codex._client.next_goal_notification(state))
        assert seen[-1].payload.turn.id == turn_id
        statuses = [note.payload.goal.status.value for note in seen if note.method == "thread/goal/updated"]
        assert statuses[-1] == "complete"


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("ok")
