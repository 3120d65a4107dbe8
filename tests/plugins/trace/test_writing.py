"""The trace file: what is written, and what happens if it cannot be."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Interceptor, hookimpl
from codex_framework.kernel import Kernel
from codex_framework.testing.replies import call, custom_call, say

PATCH = "*** Begin Patch\n*** Add File: a.txt\n+one\n*** End Patch\n"
CANARY = "canary-7d3a"


def replies() -> list[Any]:
    return [call("exec_command", cmd="echo hi; exit 3", login=False), custom_call("apply_patch", PATCH), say("done")]


async def turn(kernel: Kernel) -> Any:
    thread = await kernel.start_thread()
    return await thread.run("say hello")


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def setting(path: Path | str, *more: str) -> tuple[str, ...]:
    return (f"framework.plugins.trace.file={json.dumps(str(path))}", *more)


@pytest.fixture
def traced(scene: Any, tmp_path: Path) -> Any:
    """Run a turn with a trace, and return its records."""

    def run(*config: str, plugins: Sequence[object] = ()) -> list[dict[str, Any]]:
        path = tmp_path / "trace.jsonl"
        result = scene.play(turn, replies(), *setting(path, *config), plugins=plugins)
        assert result.final_message == "done"
        return records(path)

    return run


def test_a_trace_has_the_spans_and_events_of_a_turn(traced: Any, tmp_path: Path) -> None:
    found = traced()
    assert found[0]["type"] == "trace"
    assert found[0]["version"] == 1
    spans = [record["name"] for record in found if record["type"] == "span"]
    assert spans.count("codex.sampling") == 3
    assert spans.count("codex.tool.call") == 2
    assert {"codex.turn", "codex.command", "codex.sandbox.start"} <= set(spans)
    calls = [record for record in found if record.get("name") == "codex.tool.call"]
    assert json.loads(calls[0]["content"]["arguments"])["cmd"] == "echo hi; exit 3"
    assert "hi" in calls[0]["content"]["output"]
    events = [record["event"]["type"] for record in found if record["type"] == "event"]
    assert {
        "session_configured",
        "user_message",
        "exec_command_end",
        "patch_apply_end",
        "agent_message",
        "task_complete",
    } <= set(events)
    assert not {"raw_response_item", "agent_message_content_delta"} & set(events)
    turns = {record["span"] for record in found if record.get("name") == "codex.turn"}
    assert {record["parent"] for record in found if record.get("name") == "codex.sampling"} == turns
    assert stat.S_IMODE((tmp_path / "trace.jsonl").stat().st_mode) == 0o600


def test_a_second_run_is_appended(traced: Any) -> None:
    first = traced()
    found = traced()
    assert found[: len(first)] == first
    assert [record["type"] for record in found].count("trace") == 2
    assert len({record["thread"] for record in found if record.get("name") == "codex.turn"}) == 2


def test_a_record_that_is_later_than_the_end_has_no_second_head(tmp_path: Path) -> None:
    from codex_plugin_trace.writing.trace_file import TraceFile

    file = TraceFile(str(tmp_path / "trace.jsonl"), has_content=True)
    for number in range(3):
        file.append([{"type": "moment", "time": number}])
        file.close()
    lines = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert [line["type"] for line in lines] == ["trace", "moment", "moment", "moment"]


def test_a_line_that_a_killed_run_left_incomplete_stays_alone(traced: Any, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b'{"type":"trace","version":1,"time":1}\n{"type":"spa')
    with pytest.raises(json.JSONDecodeError):
        traced()
    lines = path.read_bytes().splitlines()
    assert lines[1] == b'{"type":"spa'
    assert json.loads(lines[2])["type"] == "trace"


def test_without_content_the_trace_has_no_texts(traced: Any, tmp_path: Path) -> None:
    found = traced("framework.plugins.trace.content=false")
    text = (tmp_path / "trace.jsonl").read_text()
    assert found[0]["content"] is False
    assert "event" not in {record["type"] for record in found}
    for secret in ("say hello", "echo hi", "exit code", "Begin Patch"):
        assert secret not in text
    assert any(record.get("name") == "codex.tool.call" and record["duration"] > 0 for record in found)


def test_what_interceptors_redact_is_not_in_the_trace(scene: Any, tmp_path: Path) -> None:
    class Redactor(Interceptor):
        name = "redactor"
        redacts = True

        def redact(self, text: str, turn: Any) -> str:
            return text.replace(CANARY, "[removed]")

    class Plugin:
        @hookimpl
        def codex_interceptors(self) -> list[Interceptor]:
            return [Redactor()]

    path = tmp_path / "trace.jsonl"
    scene.workspace.joinpath("secret.txt").write_text(CANARY)
    scripted = [call("exec_command", cmd="cat secret.txt", login=False), say("done")]
    scene.play(turn, scripted, *setting(path), plugins=[Plugin()])
    assert "[removed]" in path.read_text()
    assert CANARY not in path.read_text()


def test_a_key_of_the_environment_is_not_in_the_trace(
    traced: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    traced()
    assert CANARY not in (tmp_path / "trace.jsonl").read_text()


def unwritable(folder: Path) -> dict[str, tuple[Path, str]]:
    """Return files that cannot be written, each with the reason."""
    (folder / "a-folder").mkdir()
    (folder / "notes.txt").write_text("dear diary\n")
    os.mkfifo(folder / "pipe")
    (folder / "file").write_text("")
    return {
        "folder": (folder / "a-folder", "Is a directory"),
        "other content": (folder / "notes.txt", "the file exists and is not a trace"),
        "pipe": (folder / "pipe", "is not a regular file"),
        "missing folder": (folder / "none" / "t.jsonl", "No such file or directory"),
        "below a file": (folder / "file" / "t.jsonl", "Not a directory"),
        "device": (Path("/dev/null"), "is not a regular file"),
        "long name": (folder / ("x" * 300), "File name too long"),
    }


@pytest.mark.parametrize(
    "case", ["folder", "other content", "pipe", "missing folder", "below a file", "device", "long name"]
)
def test_a_file_that_cannot_be_written_is_one_warning_and_the_turn_goes_on(
    scene: Any, tmp_path: Path, case: str
) -> None:
    path, reason = unwritable(tmp_path)[case]

    async def story(kernel: Kernel) -> tuple[Any, list[str]]:
        thread = await kernel.start_thread()
        events = thread.events()
        result = await thread.run("say hello")
        await asyncio.sleep(0.5)
        await thread.run("again")
        await thread.shutdown()
        return result, [event.msg.message async for event in events if event.msg.type == "warning"]

    result, warnings = scene.play(story, [*replies(), say("more")], *setting(path))
    assert result.final_message == "done"
    told = [warning for warning in warnings if "trace" in warning]
    assert len(told) == 1, warnings
    assert reason in told[0]
    assert "\n" not in told[0]
    assert (tmp_path / "notes.txt").read_text() == "dear diary\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line_and_leaves_whole_lines(tmp_path: Path) -> None:
    """The limit on the size of files stands for a full disk: a write fails in its middle."""
    program = (
        "import resource, sys; from pathlib import Path\n"
        "from codex_framework.contract.errors import PluginError\n"
        "from codex_plugin_trace.writing.trace_file import TraceFile\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "file = TraceFile(sys.argv[1], has_content=True)\n"
        "for number in range(100):\n"
        "    try:\n"
        "        file.append([{'type': 'event', 'number': number, 'text': 'x' * 100}])\n"
        "    except PluginError as error:\n"
        "        print(error)\n"
    )
    path = tmp_path / "trace.jsonl"
    done = subprocess.run([sys.executable, "-B", "-c", program, str(path)], capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert "is not written: File too large" in line
    found = records(path)
    assert [record["number"] for record in found[1:]] == list(range(len(found) - 1))
    assert len(found) > 5


def test_a_symlink_that_appears_later_is_not_followed(tmp_path: Path) -> None:
    from codex_framework.contract.errors import PluginError
    from codex_plugin_trace.writing.trace_file import TraceFile

    (tmp_path / "work").mkdir()
    target = tmp_path / "target"
    file = TraceFile(str(tmp_path / "work" / "trace.jsonl"), has_content=True)
    (tmp_path / "work" / "trace.jsonl").symlink_to(target)
    with pytest.raises(PluginError, match="is not written"):
        file.append([{"type": "event"}])
    assert not target.exists()
    linked = TraceFile(str(tmp_path / "work" / "trace.jsonl"), has_content=True)  # the user's own link
    linked.append([{"type": "event"}])
    linked.close()
    assert len(records(target)) == 2
    other = TraceFile(str(tmp_path / "work" / "sub" / "trace.jsonl"), has_content=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "work" / "sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PluginError, match="exchanged for a symlink"):
        other.append([{"type": "event"}])
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_long_texts_and_odd_values_are_written(tmp_path: Path) -> None:
    from codex_framework import Event, Measurement
    from codex_framework.contract.protocol.events import AgentMessageEvent
    from codex_plugin_trace.writing.trace_file import TraceFile
    from codex_plugin_trace.writing.watchers import TraceObserver, TraceTelemetry

    path = tmp_path / "trace.jsonl"
    file = TraceFile(str(path), has_content=True)
    TraceObserver(file).observe("thread", Event("turn", AgentMessageEvent("é" * 70_000 + "\ud800")))
    odd = {"object": object(), "path": Path("x"), "lone": "\udcff"}
    TraceTelemetry(file).record(Measurement(kind="span", name="x", time_s=1.0, attributes=odd))
    file.close()
    _, event, span = records(path)
    assert event["event"]["message"].endswith("[4465 more characters are not in the trace]")
    assert len(event["event"]["message"]) < 66_000
    assert span["attributes"]["lone"] == "?"


def test_a_project_cannot_set_the_file(scene: Any, tmp_path: Path) -> None:
    from codex_framework import ConfigError
    from codex_framework.config import load_config

    folder = scene.workspace / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(f'[framework.plugins.trace]\nfile = "{tmp_path}/trace.jsonl"\n')
    environ = {"CODEX_HOME": str(scene.codex_home), "PATH": "/usr/bin:/bin"}
    trusted = f'projects={{"{scene.workspace}"={{trust_level="trusted"}}}}'

    async def made() -> Kernel:
        loaded = load_config(cwd=scene.workspace, environ=environ, overrides=[trusted])
        return await Kernel.create(loaded, environ=environ)

    try:
        kernel = asyncio.run(made())
    except ConfigError as error:
        assert "trace" in str(error)
        return
    assert not (tmp_path / "trace.jsonl").exists()
    assert any("trace" in warning for warning in kernel.registry.warnings)


def test_an_approval_is_measured_from_its_request_to_its_answer(scene: Any, tmp_path: Path) -> None:
    from codex_framework import ApprovalReviewer, ReviewDecision
    from codex_framework.contract.protocol.policies import Decision
    from codex_plugin_trace.reading.sources import read_timeline
    from codex_plugin_trace.reading.timeline import spent

    class Slow(ApprovalReviewer):
        name = "slow"

        async def review(self, request: Any, turn: Any) -> ReviewDecision:
            await asyncio.sleep(0.3)
            return ReviewDecision(Decision.APPROVED if "good" in str(request.command) else Decision.DENIED)

    class Plugin:
        @hookimpl
        def codex_approval_reviewers(self) -> list[ApprovalReviewer]:
            return [Slow()]

    path = tmp_path / "trace.jsonl"
    scripted = [
        call("exec_command", cmd="python3 -c 'good = 1'", login=False),
        call("exec_command", cmd="python3 -c 'bad = 1'", login=False),
        say("done"),
    ]
    policy = ('approval_policy="untrusted"', 'approvals_reviewer="auto_review"')
    scene.play(turn, scripted, *setting(path, *policy), plugins=[Plugin()])
    timeline = read_timeline(path, tmp_path)
    tools = [step for step in timeline.threads[0].all() if step.kind == "tool"]
    assert [tool.state for tool in tools] == ["", "refused"]
    approvals = [child for tool in tools for child in tool.children if child.kind == "approval"]
    assert [step.title for step in approvals] == ["approval: approved", "approval: denied"]
    assert [step.state for step in approvals] == ["", "refused"]
    assert all(step.start and step.end and step.end - step.start >= 0.25 for step in approvals)
    assert {child.kind for child in tools[0].children} == {"approval", "sandbox", "command"}
    (whole,) = [step for step in timeline.threads[0].children if step.kind == "turn"]
    assert spent(whole)["approval"] >= 0.5


def test_what_a_person_was_asked_is_one_step_with_the_measured_wait(scene: Any, tmp_path: Path) -> None:
    from codex_framework import ReviewDecision
    from codex_framework.contract.protocol.policies import Decision
    from codex_plugin_trace.reading.sources import read_timeline

    path = tmp_path / "trace.jsonl"

    async def story(kernel: Kernel) -> None:
        thread = await kernel.start_thread()
        async for msg in thread.stream("go"):
            if msg.type == "exec_approval_request":
                await asyncio.sleep(0.2)
                thread.answer(msg.request_id, ReviewDecision(Decision.APPROVED))

    scripted = [call("exec_command", cmd="python3 -c 'x = 1'", login=False), say("done")]
    scene.play(story, scripted, *setting(path, 'approval_policy="untrusted"'))
    timeline = read_timeline(path, tmp_path)
    (approval,) = [step for step in timeline.threads[0].all() if step.kind == "approval"]
    assert (approval.title, approval.note, approval.state) == ("approval: approved", "by user", "")
    assert {part.label: part.text for part in approval.parts}["Command"] == "python3 -c 'x = 1'"
    assert approval.start
    assert approval.end
    assert approval.end - approval.start >= 0.15
