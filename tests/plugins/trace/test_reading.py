"""Reading of traces and of recorded sessions, whole and damaged."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.errors import CodexError
from codex_plugin_trace.page.data import page_data
from codex_plugin_trace.page.document import document
from codex_plugin_trace.reading.calls import command_text
from codex_plugin_trace.reading.sources import read_timeline
from codex_plugin_trace.reading.timeline import Step, Timeline, Tokens, spent
from tests.plugins.trace.conftest import HEAD, event, span


def read(path: Path) -> Timeline:
    """Read a timeline and make its page."""
    timeline = read_timeline(path, path.parent)
    document(page_data(timeline))
    return timeline


def steps(timeline: Timeline) -> Iterator[Step]:
    for thread in timeline.threads:
        yield from thread.all()


def told(timeline: Timeline) -> list[tuple[str, str]]:
    return [(step.kind, step.title) for step in steps(timeline)]


def turn_of(timeline: Timeline) -> Step:
    return next(step for step in steps(timeline) if step.kind == "turn")


def test_the_time_of_a_turn_is_divided_without_overlap(written: Callable[..., Path]) -> None:
    timeline = read(
        written(
            HEAD,
            span("codex.sampling", 1000, 4, model="m"),
            span("codex.tool.call", 1003, 4, tool_name="a", call_id="1"),
            span("codex.tool.call", 1004, 2, tool_name="b", call_id="2"),
            span("codex.approval", 1005, 1, call_id="2", decision="denied", source="user"),
            span("codex.turn", 1000, 10, status="completed"),
        )
    )
    assert spent(turn_of(timeline)) == {"approval": 1.0, "tool": 3.0, "model": 3.0, "other": 3.0}
    approval = next(step for step in steps(timeline) if step.kind == "approval")
    assert (approval.title, approval.note, approval.state) == ("approval: denied", "by user", "refused")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["/bin/bash", "-lc", "ls 'a b'"], "ls 'a b'"),
        (["/tmp/bash", "-lc", "ls"], "/tmp/bash -lc ls"),
        (["python3", "-c", "print(1)"], "python3 -c 'print(1)'"),
        ("ls", "ls"),
    ],
)
def test_only_the_wrapper_of_a_known_shell_is_left_out(command: object, expected: str) -> None:
    assert command_text(command) == expected


def test_a_run_that_was_killed_shows_what_had_begun(written: Callable[..., Path]) -> None:
    timeline = read(
        written(
            HEAD,
            event("task_started", 1000),
            event("user_message", 1000.5, message="Go"),
            event("exec_command_begin", 1002, call_id="c", command=["bash", "-lc", "sleep 100"]),
            event("exec_approval_request", 1003, call_id="c", command=["bash", "-lc", "sleep 100"], reason="why not"),
            event("warning", 1009, message="late"),
        )
    )
    turn = turn_of(timeline)
    assert (turn.state, turn.start, turn.end) == ("unfinished", 1000, 1009)
    found = {step.kind: (step.title, step.state, step.start, step.end) for step in turn.all()}
    assert found["tool"] == ("command: sleep 100", "unfinished", 1002, 1009)
    assert found["approval"] == ("approval", "unfinished", 1003, 1009)


def test_a_refused_call_and_failed_requests_are_shown(written: Callable[..., Path]) -> None:
    moment = {**span("codex.tool_decision", 1001, 0, call_id="c", tool_name="exec", decision="denied", source="config")}
    request = span("codex.api_request", 1000, 1, attempt=2, **{"http.response.status_code": 429})
    fine = span("codex.api_request", 1001, 1, attempt=3, **{"http.response.status_code": 200})
    moments = [{**each, "type": "moment", "span": ""} for each in (moment, request, fine)]
    call = span("codex.tool.call", 1001, 1, tool_name="exec", call_id="c")
    timeline = read(written(HEAD, *moments, call, span("codex.turn", 1000, 3, status="completed")))
    assert told(timeline)[1:] == [("error", "request: attempt 2: status 429"), ("tool", "exec")]
    assert [step.state for step in steps(timeline)] == ["", "failed", "refused"]


def test_spans_of_plugins_stand_below_their_parents(written: Callable[..., Path]) -> None:
    call = span("codex.tool.call", 1001, 5, tool_name="mcp", call_id="c")
    own = {**span("mcp.request", 1002, 1, server="docs"), "parent": call["span"]}
    loose = {**span("mine", 1003, 1), "turn": "", "parent": call["span"]}
    timeline = read(written(HEAD, call, own, loose, span("codex.turn", 1000, 9, status="completed")))
    (tool,) = [step for step in steps(timeline) if step.kind == "tool"]
    assert [(child.title, child.parts[0].text if child.parts else "") for child in tool.children] == [
        ("mcp.request", "server: docs"), ("mine", ""),
    ]  # fmt: skip


GARBAGE: dict[str, tuple[bytes, list[str]]] = {
    "not JSON": (b'{"type":\nnonsense\n', ["2 lines are damaged and not shown (the first is line 2)."]),
    "cut": (b'{"type":"sp', ["The last line is incomplete: the run was killed, or is still running."]),
    "not UTF-8": (
        b'{"type":"x","a":"\xff\xfe"}\n',
        ["1 line contains bytes that are not UTF-8. They are shown as \ufffd."],
    ),
    "not objects": (b"[1]\n7\nnull\n", ["3 lines are damaged and not shown (the first is line 2)."]),
    "deep": (b"[" * 100_000 + b"\n", ["1 line is damaged and not shown (the first is line 2)."]),
    "long number": (
        b'{"type":"span","time":' + b"9" * 5000 + b"}\n",
        ["1 line is damaged and not shown (the first is line 2)."],
    ),
    "empty lines": (b"\n \r\n\0\0\0\n", []),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_what_can_be_read_of_a_damaged_trace_is_shown(tmp_path: Path, case: str) -> None:
    garbage, warnings = GARBAGE[case]
    path = tmp_path / "trace.jsonl"
    good = json.dumps(span("codex.tool.call", 1000, 1, tool_name="t", call_id="c")).encode()
    path.write_bytes(json.dumps(HEAD).encode() + b"\n" + (garbage if case != "cut" else good + b"\n" + garbage))
    if case != "cut":
        with path.open("ab") as file:
            file.write(good + b"\n")
    timeline = read(path)
    assert ("tool", "t") in told(timeline)
    assert timeline.warnings == warnings


ODD: list[Any] = [
    None, True, -1, 1e308, 10**400, float("nan"), "x", [], {}, [[{}]], {"type": []}, "\ud800", {"secs": "x"}, 2**63,
]  # fmt: skip


@pytest.mark.parametrize("kind", ["trace", "session"])
def test_values_of_any_type_are_survived(tmp_path: Path, kind: str) -> None:
    """Every field of every record is replaced with odd values, one at a time."""
    if kind == "trace":
        whole = [
            HEAD,
            event("task_started"),
            event("exec_command_end", call_id="c", command=["a"], exit_code=1, duration={"secs": 1}),
        ]
        whole += [event("plan_update", plan=[{"step": "a", "status": "b"}]), event("turn_diff", unified_diff="x")]
        whole += [event("patch_apply_end", call_id="c", changes={"a": {"type": "add", "content": "x"}})]
        whole += [
            event(
                "mcp_tool_call_end",
                call_id="m",
                invocation={"server": "s", "tool": "t", "arguments": {}},
                result={"Ok": {}},
            )
        ]
        whole += [event("exec_approval_request", call_id="c", command=["x"]), event("request_resolved", request_id="c")]
        names = ("codex.sampling", "codex.tool.call", "codex.approval", "codex.command", "codex.turn", "other")
        whole += [
            span(name, 1000, 1, call_id="c", model="m", input_tokens=1, content={"arguments": "{}"}) for name in names
        ]
        whole += [{**span("codex.tool_decision", 1, 1, call_id="c"), "type": "moment"}]
    else:
        source = Path(__file__).parent / "session.jsonl"
        whole = [json.loads(line) for line in source.read_text().splitlines()]
    path = tmp_path / "odd.jsonl"
    for place, record in enumerate(whole):
        variants = [
            json.dumps(variant) for field in paths(record) for odd in ODD for variant in [replaced(record, field, odd)]
        ]
        before, after = [json.dumps(each) for each in whole[:place]], [json.dumps(each) for each in whole[place + 1 :]]
        path.write_text("\n".join([*before, *variants, *after]) + "\n")
        try:
            read(path)
        except CodexError as error:
            assert "neither a trace nor a recorded session" in str(error)


def paths(value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the places of all values in plain data."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        yield (key,)
        yield from ((key, *rest) for rest in paths(each))


def replaced(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    copied = json.loads(json.dumps(value))
    at = copied
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = new
    return copied


@pytest.mark.parametrize("depth", [200, 600, 900])
def test_data_that_are_nested_without_end_are_shown_as_text_or_left_out(tmp_path: Path, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    asked = json.dumps(event("tool_call_begin", call_id="c", tool="t", arguments=f'{{"a": {deep}}}'))
    told = f'{{"type": "event", "time": 1000, "thread": "a", "turn": "b", "event": {{"type": "x", "a": {deep}}}}}'
    path = tmp_path / "trace.jsonl"
    path.write_text(f"{json.dumps(HEAD)}\n{asked}\n{told}\n")
    timeline = read(path)
    assert any(part.text.count("[") >= depth for step in steps(timeline) for part in step.parts)
    assert bool(timeline.warnings) is (depth > 300)


def test_spans_that_are_nested_without_end_are_shown(written: Callable[..., Path]) -> None:
    spans = [{**span("x", 1000.0, 1.0), "span": str(number), "parent": str(number - 1)} for number in range(2000)]
    assert sum(step.kind == "span" for step in steps(read(written(HEAD, *spans)))) == 2000


def test_files_that_cannot_be_shown_are_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "binary").write_bytes(os.urandom(10_000))
    (tmp_path / "cut").write_bytes(b"\xff\xfe{")
    (tmp_path / "other.jsonl").write_text('{"type":"event","name":"x"}\n{"a":1}\n')
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "packed.jsonl.zst").write_bytes(b"no zstd")
    os.mkfifo(tmp_path / "pipe")
    reasons = {
        "folder": "it is a folder",
        "empty.jsonl": "it is empty",
        "binary": "it is neither a trace nor a recorded session",
        "cut": "it is neither a trace nor a recorded session",
        "other.jsonl": "it is neither a trace nor a recorded session",
        "loop": "Too many levels of symbolic links",
        "pipe": "it is not a regular file",
        "missing": "No such file or directory",
        "packed.jsonl.zst": "zst",
    }
    for name, reason in reasons.items():
        with pytest.raises(CodexError) as raised:
            read(tmp_path / name)
        assert reason in str(raised.value)
        assert "\n" not in str(raised.value)
        assert raised.value.hint


def test_a_recorded_session_becomes_a_timeline(tmp_path: Path) -> None:
    timeline = read(Path(__file__).parent / "session.jsonl")
    turn = turn_of(timeline)
    assert (turn.start, turn.end, turn.state) == (1795199070.0, 1795199080.0, "")
    assert turn.total == Tokens(300, 20, 35, 6)
    kinds = [(step.kind, step.title) for step in turn.all() if step.kind != "context"]
    assert kinds == [
        ("user", "Fix it"),
        ("model", "gpt-5.5"),
        ("reasoning", "**Thinking**"),
        ("tool", "exec_command: make test"),
        ("model", "gpt-5.5"),
        ("tool", "apply_patch: a.txt"),
        ("tool", "docs/search: needle"),
        ("model", "gpt-5.5"),
        ("message", "Done."),
    ]
    tools = {step.title.partition(":")[0]: step for step in turn.all() if step.kind == "tool"}
    assert (tools["exec_command"].start, tools["exec_command"].end, tools["exec_command"].state) == (
        1795199073.0,
        1795199076.0,
        "failed",
    )
    assert tools["exec_command"].note == "exit code 2"
    assert [part.label for part in tools["exec_command"].parts] == ["Arguments", "Command", "Printed", "Output"]
    assert any(part.kind == "diff" and "+one" in part.text for part in tools["apply_patch"].parts)
    assert spent(turn) == {"approval": 0.0, "tool": 4.0, "model": 4.5, "other": 1.5}


def test_a_session_that_continues_another_shows_both(tmp_path: Path) -> None:
    stamp = "2026-11-20T18:25:29.000Z"
    first, second = "01a1fa34-d7b9-7920-bcec-bae70791e451", "01a1fa34-d7b9-7920-bcec-bae70791e452"
    folder = tmp_path / "sessions" / "2026" / "11" / "20"
    folder.mkdir(parents=True)

    def write(name: str, base: Any, *messages: str) -> Path:
        head = {"id": name, **({"history_base": base} if base else {})}
        lines = [{"timestamp": stamp, "ordinal": 0, "type": "session_meta", "payload": head}]
        for place, message in enumerate(messages, 1):
            payload = {"type": "user_message", "message": message}
            lines.append({"timestamp": stamp, "ordinal": place, "type": "event_msg", "payload": payload})
        path = folder / f"rollout-2026-11-20T18-25-29-{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    write(first, None, "one", "two", "dropped")
    path = write(second, {"thread_id": first, "end_ordinal_exclusive": 3}, "three")
    messages = [step.title for step in steps(read_timeline(path, tmp_path)) if step.kind == "user"]
    assert messages == ["one", "two", "three"]
    write(first, {"thread_id": second, "end_ordinal_exclusive": 3}, "one")  # a circle
    timeline = read_timeline(path, tmp_path)
    assert "whose file is missing" in timeline.warnings[0]
    (folder / f"rollout-2026-11-20T18-25-29-{first}.jsonl").unlink()
    timeline = read_timeline(path, tmp_path)
    assert "whose file is missing" in timeline.warnings[0]
    assert [step.title for step in steps(timeline) if step.kind == "user"] == ["three"]


def test_an_older_session_without_events_shows_its_items(written: Callable[..., Path]) -> None:
    def line(second: int, kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": f"2025-05-01T10:00:{second:02d}Z", "type": kind, "payload": payload}

    def message(second: int, role: str, text: str) -> dict[str, Any]:
        part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
        return line(second, "response_item", type="message", role=role, content=[part])

    path = written(
        line(0, "session_meta", id="old", cwd="/w"),
        message(1, "user", "<environment_context>x</environment_context>"),
        message(2, "user", "hello"),
        line(4, "response_item", type="function_call", name="shell", arguments='{"command":["ls"]}', call_id="c"),
        line(5, "response_item", type="function_call_output", call_id="c", output='{"output":"a"}'),
        message(7, "assistant", "bye"),
    )
    found = [(step.kind, step.title, step.end and step.start and step.end - step.start) for step in steps(read(path))][
        1:
    ]
    assert found == [
        ("context", "context: <environment_context>x</environment_context>", None),
        ("user", "hello", None),
        ("model", "model", 2.0),
        ("tool", "shell: ls", 1.0),
        ("model", "model", 2.0),
        ("message", "bye", None),
    ]  # fmt: skip


def test_a_compressed_session_is_read_and_one_without_end_is_an_error(tmp_path: Path) -> None:
    zstandard: Any = pytest.importorskip("zstandard")
    compress = zstandard.ZstdCompressor().compress
    session = (Path(__file__).parent / "session.jsonl").read_bytes()
    path = tmp_path / "packed.jsonl.zst"
    path.write_bytes(compress(session))
    assert turn_of(read(path)).total == Tokens(300, 20, 35, 6)
    path.write_bytes(compress(session) + compress(bytes(32 << 20)) * 8)
    with pytest.raises(CodexError, match="its content is longer than"):
        read(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(CodexError, match="it is not a regular file"):
        read(path)
