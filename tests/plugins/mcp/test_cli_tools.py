"""``codex-framework mcp tools|call``: real servers, the rules of approvals, and what is shown of results."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_plugin_mcp.cli.asking import value_of

SERVER = """
import json, os, sys
open(sys.argv[1], "a").write("started\\n")
TOOLS = [
    {"name": "echo", "description": "Echo.\\nMore.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "write", "description": "Write \\x1b[2J", "inputSchema": {"type": "object"}},
    {"name": "hide", "inputSchema": {"type": "object"}},
    {"name": "fail", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]
CONTENT = [{"type": "text", "text": "got "}, {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    params = message.get("params", {})
    if message["method"] == "initialize":
        info = {"name": "s", "version": "1"}
        send(id=message["id"], result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
    elif message["method"] == "tools/list":
        send(id=message["id"], result={"tools": TOOLS})
    elif message["method"] == "tools/call":
        open(sys.argv[1], "a").write("called " + params["name"] + "\\n")
        token = params["_meta"].get("progressToken")
        if token is not None:
            progress = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
            send(method="notifications/progress", params=progress)
        content = [{**CONTENT[0], "text": "got " + json.dumps(params["arguments"])}, CONTENT[1]]
        send(id=message["id"], result={"content": content, "isError": params["name"] == "fail"})
    elif "id" in message:
        send(id=message["id"], error={"code": -32601, "message": "no"})
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def home(tmp_path: Path, log: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "server.py").write_text(SERVER)
    command = f"command = {json.dumps(sys.executable)}\nargs = {json.dumps([str(tmp_path / 'server.py'), str(log)])}\n"
    (home / "config.toml").write_text(f'[mcp_servers.s]\n{command}disabled_tools = ["hide"]\n')
    return home


def add(home: Path, text: str) -> None:
    with (home / "config.toml").open("a") as file:
        file.write(text)


def test_the_tools_of_all_servers(mcp: Callable[..., Any], home: Path, log: Path) -> None:
    add(home, '[mcp_servers.dead]\ncommand = "false"\n[mcp_servers.off]\ncommand = "false"\nenabled = false\n')
    ran = mcp("tools")
    assert ran.status == 1
    dead, _, rest = ran.out.partition("\n\n")
    assert dead.startswith("dead (failed)\n  MCP client for `dead` failed to start")
    assert rest == (
        "s\n"
        "  mcp__s__echo: runs (read-only)\n"
        "    Echo.\n"
        "  mcp__s__fail: runs (read-only)\n"
        "  hide: hidden\n"
        "  mcp__s__write: asks first\n"
        "    Write \\x1b[2J\n"
    )
    assert log.read_text() == "started\n"


def test_the_tools_of_one_server_as_json(mcp: Callable[..., Any], home: Path) -> None:
    add(
        home,
        '[mcp_servers.s.tools.write]\napproval_mode = "approve"\n[mcp_servers.s.tools.echo]\napproval_mode = "prompt"\n',
    )
    ran = mcp("tools", "s", "--json")
    assert ran.status == 0
    (server,) = ran.json
    assert (server["name"], server["state"], server["error"]) == ("s", "ready", None)
    assert [(tool["name"], tool["model_name"], tool["decision"]) for tool in server["tools"]] == [
        ("echo", "mcp__s__echo", "ask"),
        ("fail", "mcp__s__fail", "run"),
        ("hide", None, "hidden"),
        ("write", "mcp__s__write", "run"),
    ]
    assert server["tools"][0]["annotations"] == {"readOnlyHint": True}


def test_a_call_shows_its_progress_and_result(mcp: Callable[..., Any]) -> None:
    for tool in ("echo", "mcp__s__echo"):
        ran = mcp("call", "s", tool, '{"a": 1}')
        assert (ran.status, ran.out) == (0, 'got {"a": 1}\n[image: image/png, 6 bytes]\n')
        assert "progress: 50% half\n" in ran.err
    assert mcp("call", "s", "echo", "--json").json["content"][1]["data"] == "aGVsbG8="


def test_a_call_that_fails_has_the_status_1(mcp: Callable[..., Any]) -> None:
    ran = mcp("call", "s", "fail")
    assert (ran.status, ran.out.splitlines()[0]) == (1, "got {}")


def test_a_call_that_needs_approval_is_made_only_with_yes(mcp: Callable[..., Any], log: Path) -> None:
    error = mcp("call", "s", "write").error
    assert error is not None
    assert error.slug == "mcp-approval"
    assert "--yes" in error.hint
    assert "called" not in log.read_text()
    assert mcp("call", "s", "write", "--yes").status == 0
    assert "called write" in log.read_text()


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (("s", "nope"), "mcp-unknown"),
        (("s", "hide", "--yes"), "mcp-unknown"),
        (("t", "echo"), "mcp-unknown"),
        (("s", "echo", "[1"), "mcp-arguments"),
        (("s", "echo", "[1]"), "mcp-arguments"),
        (("dead", "echo"), "mcp"),
        (("off", "echo"), "mcp-disabled"),
    ],
)
def test_calls_that_cannot_be_made(mcp: Callable[..., Any], home: Path, words: tuple[str, ...], slug: str) -> None:
    add(home, '[mcp_servers.dead]\ncommand = "false"\n[mcp_servers.off]\ncommand = "false"\nenabled = false\n')
    error = mcp("call", *words).error
    assert error is not None
    assert error.slug == slug
    assert error.hint


def test_an_untrusted_project_starts_nothing(mcp: Callable[..., Any], home: Path, tmp_path: Path, log: Path) -> None:
    project = tmp_path / "project"
    (project / ".git" / "objects").mkdir(parents=True)
    (project / ".codex").mkdir()
    (home / "config.toml").rename(project / ".codex" / "config.toml")
    assert mcp("tools", cwd=project).out == "No MCP server is enabled.\n"
    assert mcp("call", "s", "echo", cwd=project).error is not None
    assert not log.exists()


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(("answer", "called", "saved"), [("n", False, False), ("y", True, False), ("a", True, True)])
def test_the_user_is_asked_on_a_terminal(
    home: Path, tmp_path: Path, log: Path, answer: str, called: bool, saved: bool
) -> None:
    outer, inner = pty.openpty()
    command = [Path(sys.executable).with_name("codex-framework"), "mcp", "call", "s", "write"]
    env = {**os.environ, "CODEX_HOME": str(home)}
    process = subprocess.Popen(command, env=env, cwd=tmp_path, stdin=inner, stdout=subprocess.DEVNULL, stderr=inner)
    os.close(inner)
    shown = b""
    try:
        while b"[N]o: " not in shown:
            assert select.select([outer], [], [], 60)[0]
            shown += os.read(outer, 10_000)
        os.write(outer, f"{answer}\n".encode())
        assert process.wait(60) == (0 if called else 1)
    finally:
        process.kill()
        process.wait()
        os.close(outer)
    lines = shown.decode().splitlines()
    assert {"Allow the MCP server `s` to run the tool `write`?", "[y]es/[a]lways/[N]o: "} <= set(lines)
    assert ("called write" in log.read_text()) is called
    assert ('approval_mode = "approve"' in (home / "config.toml").read_text()) is saved


def test_only_the_named_server_is_started(mcp: Callable[..., Any], home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    add(home, f'[mcp_servers."a.b/c"]\ncommand = "touch"\nargs = [{json.dumps(str(other))}]\n')
    assert mcp("tools", "s").status == 0
    assert not other.exists()
    mcp("tools", "a.b/c")
    assert other.exists()


READS = {"readOnlyHint": True}


@pytest.fixture
def scripted(home: Path) -> Callable[..., None]:
    """Replace the configuration by one with the scripted server ``x``, and further keys of its table."""

    def write(settings: dict[str, Any], keys: str = "", before: str = "") -> None:
        args = [str(Path(__file__).with_name("scripted_server.py")), json.dumps(settings)]
        text = f"command = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\n{keys}"
        (home / "config.toml").write_text(f"{before}\n[mcp_servers.x]\n{text}")

    return write


def test_what_is_wrong_with_a_server_is_shown(mcp: Callable[..., Any], scripted: Callable[..., None]) -> None:
    tools = [{"name": "a.b"}, {"name": "a"}, {"name": "a"}, {"description": "no name"}]
    scripted({"tools": tools})
    ran = mcp("tools")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == (
        "x\n"
        "  warning: it lists two tools with the name 'a'; the second is ignored\n"
        "  warning: it lists a tool without a name, which is ignored\n"
        "  mcp__x__a: asks first\n"
        "  mcp__x__a_b: asks first\n"
        "    on the server: a.b\n"
    )
    assert len(mcp("tools", "--json").json[0]["warnings"]) == 2


def test_a_server_that_is_too_slow_has_its_hint(mcp: Callable[..., Any], scripted: Callable[..., None]) -> None:
    scripted({"silent": ["initialize"]}, "startup_timeout_sec = 0.1\nrequired = true\n")
    ran = mcp("tools")
    assert ran.status == 1
    assert ran.out.endswith(
        "in your config.toml:\n  [mcp_servers.x]\n  startup_timeout_sec = XX\n"  # a line of the server's text is one here
    )
    called = mcp("call", "x", "a")
    assert "startup_timeout_sec" in str(called.error)
    assert called.err == ""


@pytest.mark.parametrize(
    ("policy", "decision", "slug"),
    [
        ('approval_policy = "never"\nsandbox_mode = "read-only"', "refuse", "mcp-approval"),
        ('approval_policy = "never"\nsandbox_mode = "danger-full-access"', "run", None),
        (
            "approval_policy = { granular = { sandbox_approval = false, rules = true, mcp_elicitations = true } }",
            "refuse",
            "mcp-approval",
        ),
        ('approval_policy = "on-request"', "ask", "mcp-approval"),
    ],
)
def test_the_approval_policy_of_the_configuration_holds(
    mcp: Callable[..., Any], scripted: Callable[..., None], policy: str, decision: str, slug: str | None
) -> None:
    scripted({"tools": [{"name": "write"}]}, before=policy)
    assert mcp("tools", "--json").json[0]["tools"][0]["decision"] == decision
    error = mcp("call", "x", "write").error
    assert (None if error is None else error.slug) == slug
    if decision == "refuse":
        assert "refused without asking" in mcp("tools").out
        assert "does not allow asking" in str(error)
        assert mcp("call", "x", "write", "--yes").out == "write {}\n"


@pytest.mark.parametrize("arguments", ['{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', "[" * 100_000])
def test_arguments_that_are_not_json(mcp: Callable[..., Any], home: Path, arguments: str, log: Path) -> None:
    error = mcp("call", "s", "echo", arguments).error
    assert error is not None
    assert error.slug == "mcp-arguments"
    assert not log.exists()


def test_a_call_that_takes_too_long(mcp: Callable[..., Any], scripted: Callable[..., None]) -> None:
    scripted({"tools": [{"name": "never", "annotations": READS}]}, "tool_timeout_sec = 0.1\n")
    error = mcp("call", "x", "never").error
    assert "after 0.1 seconds (`tool_timeout_sec`)" in str(error)


@pytest.mark.parametrize(
    ("kind", "line", "value"),
    [
        ("integer", " 7", 7),
        ("number", "7.5", 7.5),
        ("integer", "x", "x"),
        ("boolean", "Y", True),
        ("boolean", "no", False),
        ("boolean", "maybe", "maybe"),
        ("array", "a, b", ["a", "b"]),
        ("string", " 7", " 7"),
    ],
)
def test_what_a_person_enters_has_the_type_of_the_field(kind: str, line: str, value: object) -> None:
    found = value_of({"type": kind}, line)
    assert (found, type(found)) == (value, type(value))


FORM = {
    "type": "object",
    "properties": {"size": {"type": "integer", "title": "Size"}, "color": {"type": "string", "default": "red"}},
    "required": ["size"],
}
ASK = json.dumps({"method": "elicitation/create", "params": {"message": "Which?", "requestedSchema": FORM}})


def test_a_question_without_a_terminal_is_cancelled_and_named(
    mcp: Callable[..., Any], scripted: Callable[..., None]
) -> None:
    scripted({"tools": [{"name": "ask", "annotations": READS}]})
    ran = mcp("call", "x", "ask", ASK)
    assert json.loads(ran.out) == {"result": {"action": "cancel"}}
    assert "the MCP server x asks 'Which?'; cancelled, as there is no terminal to ask on" in ran.err


def test_a_question_that_cannot_be_shown_is_cancelled(
    home: Path, tmp_path: Path, scripted: Callable[..., None]
) -> None:
    scripted({"tools": [{"name": "ask", "annotations": READS}]})
    reader, writer = os.pipe()
    os.close(reader)
    command = [Path(sys.executable).with_name("codex-framework"), "mcp", "call", "x", "ask", ASK]
    env = {**os.environ, "CODEX_HOME": str(home)}
    try:
        done = subprocess.run(
            command,
            env=env,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=writer,
            timeout=20,
            check=False,
        )
    finally:
        os.close(writer)
    assert json.loads(done.stdout) == {"result": {"action": "cancel"}}


@pytest.mark.slow
def test_a_question_of_a_server_is_asked_on_a_terminal(
    home: Path, tmp_path: Path, scripted: Callable[..., None]
) -> None:
    scripted({"tools": [{"name": "ask", "annotations": READS}]})
    outer, inner = pty.openpty()
    command = [Path(sys.executable).with_name("codex-framework"), "mcp", "call", "x", "ask", ASK]
    env = {**os.environ, "CODEX_HOME": str(home)}
    process = subprocess.Popen(command, env=env, cwd=tmp_path, stdin=inner, stdout=subprocess.PIPE, stderr=inner)
    os.close(inner)
    shown = b""
    try:
        lines = [b"Size (required): ", b"7", b'color (default: "red"): ', b"", b"Send this answer? [y]es/[N]o: ", b"y"]
        for prompt, entered in zip(lines[::2], lines[1::2], strict=True):
            while prompt not in shown:
                assert select.select([outer], [], [], 60)[0]
                shown += os.read(outer, 10_000)
            os.write(outer, entered + b"\n")
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
        os.close(outer)
    assert json.loads(out) == {"result": {"action": "accept", "content": {"size": 7, "color": "red"}}}


@pytest.mark.slow
def test_the_server_of_an_interrupted_call_is_ended(
    home: Path, tmp_path: Path, log: Path, scripted: Callable[..., None]
) -> None:
    scripted({"tools": [{"name": "never", "annotations": READS}], "log": str(log)})
    command = [Path(sys.executable).with_name("codex-framework"), "mcp", "call", "x", "never"]
    env = {**os.environ, "CODEX_HOME": str(home)}
    process = subprocess.Popen(command, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL)
    try:
        while not (log.exists() and "tools/call" in log.read_text()):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(json.loads(log.read_text().splitlines()[0])["pid"], 0)
