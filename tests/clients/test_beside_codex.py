"""Scenarios of ``exec --json`` beside Codex 0.171: lines, exit status, and the items that the model gets, against the same server.

A scenario is equal in all that is compared, unless it is in DIFFERENCES; a table on the page of differences explains each
name. What differs in every run is left out by :func:`compared`.
"""

from __future__ import annotations

import base64
import difflib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

import codex_framework
from codex_framework.contract.protocol.events import TokenUsage
from codex_framework.contract.protocol.items import FunctionCall
from codex_framework.testing import call, custom_call, fault, reasoning, reply, say
from codex_framework.testing.scripted import Reply
from codex_framework.testing.server import ResponsesServer
from tests.clients.conftest import Cli
from tests.forked import RunProgram

PAGE = Path(__file__).parents[2] / "docs/explanation/differences-from-codex.md"
FULL = ("exec", "--json", "-s", "danger-full-access", "--skip-git-repo-check")
GO = (*FULL, "Go.")
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
SKILL = "---\nname: tidy\ndescription: Tidies up.\n---\nRemove what nobody uses.\n"
RULES = 'prefix_rule(pattern = ["git", "push"], decision = "forbidden", justification = "CI does that")\n'
REVIEW = {
    "findings": [],
    "overall_correctness": "patch is correct",
    "overall_explanation": "Fine.",
    "overall_confidence_score": 0.9,
}
MCP = """import json, sys
TOOL = {"name": "add", "description": "Add.", "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}, "resources": {}}}
        result["serverInfo"] = {"name": "s", "version": "1"}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "resources/list":
        result = {"resources": [{"uri": "sums://1", "name": "one"}]}
    elif method == "resources/templates/list":
        result = {"resourceTemplates": [{"uriTemplate": "sums://{n}", "name": "n"}]}
    elif method == "resources/read":
        result = {"contents": [{"uri": params["uri"], "text": "1"}]}
    elif method == "tools/call":
        text = {"type": "text", "text": "sum " + json.dumps(params["arguments"])}
        result = {"content": [text], "isError": params["arguments"].get("a") == 0}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
WITH_MCP = f"""[mcp_servers.sums]
command = "{sys.executable}"
args = ["sums.py"]
required = true
default_tools_approval_mode = "approve"
"""


def sh(text: str, **more: Any) -> Reply:
    return call("exec_command", cmd=text, login=False, **more)


def patch(*lines: str) -> Reply:
    return custom_call("apply_patch", "\n".join(("*** Begin Patch", *lines, "*** End Patch", "")))


def used(answer: Reply, inputs: int) -> Reply:
    return answer.evolve(usage=TokenUsage(inputs, 0, 50, 0, inputs + 50))


def hooks(**commands: str) -> Mapping[str, str]:
    groups = {event: [{"hooks": [{"type": "command", "command": text}]}] for event, text in commands.items()}
    return {"hooks.json": json.dumps({"hooks": groups})}


@attrs.frozen
class Scenario:
    """Command lines in one home, the replies that they get, and the files that are there."""

    replies: Sequence[Reply]
    runs: Sequence[Sequence[str]] = (GO,)
    config: str = ""
    work: Mapping[str, str | bytes] = attrs.field(factory=dict)
    home: Mapping[str, str] = attrs.field(factory=dict)
    stdin: bytes | None = None


def one(*replies: Reply, **more: Any) -> Scenario:
    """Return a scenario whose last reply is a message."""
    return Scenario([*replies, say("Done.")], **more)


TRUSTED_HOOKS = ((*FULL, "--dangerously-bypass-hook-trust", "Go."),)
OLD = {"old.txt": "a\nkept\nb\n"}

SCENARIOS = {
    # messages
    "message": one(),
    "message in pieces": Scenario([say("Hello, world. ünïcödé 🎉", deltas=7)]),
    "message of many lines": Scenario([say("one\n\ntwo\n```\nthree\n```\n")]),
    "message with controls": Scenario([say("a\x1b[31mred\u202eb\u2028c")]),
    "commentary before the answer": Scenario([say("First.", phase="commentary") + say("Then.", phase="final_answer")]),
    "two messages": Scenario([say("One.") + say("Two.")]),
    "commentary and a command": one(say("Looking.", phase="commentary") + sh("echo hi")),
    "reasoning": Scenario([reasoning("**Thinking**\n\nAbout it.", encrypted_content="enc") + say("Done.")]),
    "reasoning in two parts": Scenario([reasoning("**A**\n\na", "**B**\n\nb", encrypted_content="e") + say("Done.")]),
    "reasoning before a command": one(reasoning("**Look**", encrypted_content="enc") + sh("echo hi")),
    "prompt from stdin": one(runs=((*FULL, "-"),), stdin=b"From stdin.\n"),
    "stdin beside a prompt": one(stdin=b"more text\n"),
    "prompt of many lines": one(runs=((*FULL, "One.\nTwo.\n\n  Three."),)),
    # commands
    "command": one(sh("echo one")),
    "command that fails": one(sh("echo two >&2; exit 3")),
    "command without output": one(sh("true")),
    "command not found": one(sh("no-such-program-here")),
    "command ended by a signal": one(sh("kill -9 $$")),
    "command with bytes": one(sh(r"printf 'a\xffb\n'")),
    "command with colours": one(sh(r"printf '\033[31mred\033[0m\r\n'")),
    "command with a long output": one(sh("seq 1 30000")),
    "command with a long line": one(sh("head -c 200000 /dev/zero | tr '\\0' x")),
    "command with an output limit": one(sh("seq 1 3000", max_output_tokens=100)),
    "command in a folder": one(sh("pwd; ls", workdir="sub"), work={"sub/a": "x"}),
    "command in no folder": one(sh("pwd", workdir="missing")),
    "command with a shell": one(call("exec_command", cmd="echo $0", shell="/bin/sh", login=False)),
    "command with a shell by name": one(
        *(call("exec_command", cmd="echo $0", shell=name, login=False) for name in ("sh", "bash", "dash", "zsh", "no"))
    ),
    "command that shows its variables": one(
        sh("env | grep -E '^(CODEX_(APPLY|CI|VERSION|TOOL)|TERM|LC_|.*PAGER|COLORTERM|NO_COLOR)' | sort")
    ),
    "command with ripgrep": one(sh("rg --files | sort"), work={"a": "x", "sub/b": "x"}),
    "command with a terminal": one(sh("test -t 1 && echo tty", tty=True)),
    "command reads stdin": one(sh("cat; echo end")),
    "command with two lines": one(sh("echo a\necho b")),
    "command with quotes": one(sh('echo "it\'s" \'a "b"\' \\$HOME')),
    "two commands in turn": one(sh("echo one > f"), sh("cat f")),
    "command that writes": one(sh("echo x > made && cat made && rm made")),
    "command refused by the rules": one(sh("git push origin"), home={"rules/default.rules": RULES}),
    "command with a pipe": one(sh("printf 'b\\na\\n' | sort | head -1")),
    "session with input": one(
        sh("read line; echo got $line", tty=True, yield_time_ms=250),
        call("write_stdin", session_id=1000, chars="hello\n"),
    ),
    "input for no session": one(call("write_stdin", session_id=99999, chars="x")),
    # calls that are wrong
    "unknown tool": one(call("no_such_tool", x=1)),
    "unknown freeform tool": one(custom_call("nothing", "x")),
    "arguments that are no JSON": one(call("exec_command", "{not json")),
    "argument of a wrong type": one(call("exec_command", cmd=5)),
    "missing argument": one(call("exec_command", workdir=".")),
    "arguments that are a list": one(call("exec_command", "[1]")),
    "unknown argument": one(sh("echo fine", surprise=True)),
    # patches
    "patch that adds": one(patch("*** Add File: made.txt", "+one", "+two")),
    "patch that adds in a folder": one(patch("*** Add File: a/b/made.txt", "+one")),
    "patch that updates": one(patch("*** Update File: old.txt", "@@", "-a", "+A", " kept"), work=OLD),
    "patch that deletes": one(patch("*** Delete File: old.txt"), work=OLD),
    "patch that moves": one(patch("*** Update File: old.txt", "*** Move to: new.txt", "@@", "-a", "+A"), work=OLD),
    "patch of three files": one(
        patch("*** Add File: c", "+c", "*** Update File: old.txt", "@@", "-b", "+B", "*** Delete File: gone"),
        work={**OLD, "gone": "x\n"},
    ),
    "patch without a match": one(patch("*** Update File: old.txt", "@@", "-zzz", "+A"), work=OLD),
    "patch of a missing file": one(patch("*** Update File: none.txt", "@@", "-a", "+A")),
    "patch that deletes a missing file": one(patch("*** Delete File: none.txt")),
    "text that is no patch": one(custom_call("apply_patch", "no patch")),
    "patch with a wrong line": one(patch("*** Rename File: a")),
    "empty patch": one(patch()),
    "patch at the end of a file": one(patch("*** Update File: old.txt", "@@", "-b", "+B", "*** End of File"), work=OLD),
    "patch that adds over a folder": one(patch("*** Add File: sub", "+x"), work={"sub/a": "x"}),
    "patch that updates a folder": one(patch("*** Update File: sub", "@@", "-a", "+b"), work={"sub/a": "x"}),
    "patch that deletes a folder": one(patch("*** Delete File: sub"), work={"sub/a": "x"}),
    "patch as a command": one(
        sh("apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: m\n+x\n*** End Patch\nEOF"),
    ),
    "patch of a file with CRLF": one(
        patch("*** Update File: old.txt", "@@", "-a", "+A"), work={"old.txt": b"a\r\nb\r\n"}
    ),
    # images and plans
    "image seen": one(call("view_image", path="a.png"), work={"a.png": PIXEL}),
    "image missing": one(call("view_image", path="none.png")),
    "image that is text": one(call("view_image", path="a.png"), work={"a.png": "text"}),
    "image that is a folder": one(call("view_image", path=".")),
    "image given": one(runs=((*FULL, "-i", "a.png", "--", "Look."),), work={"a.png": PIXEL}),
    "plan": one(
        call("update_plan", explanation="why", plan=[{"step": "a", "status": "in_progress"}]),
        call("update_plan", plan=[{"step": "a", "status": "completed"}]),
        config="tools.update_plan = {enabled = true}\n",
    ),
    "plan that is not offered": one(call("update_plan", plan=[{"step": "a", "status": "pending"}])),
    "question in Default mode": one(
        call("request_user_input", questions=[{"id": "a", "header": "H", "question": "Which?", "options": []}])
    ),
    # goals
    "goal": one(call("create_goal", objective="Win."), call("update_goal", status="complete")),
    "no goal": one(call("get_goal")),
    # MCP
    "MCP tool": one(
        reply(FunctionCall("add", '{"a": 1}', "", namespace="mcp__sums")), config=WITH_MCP, work={"sums.py": MCP}
    ),
    "MCP tool that fails": one(
        reply(FunctionCall("add", '{"a": 0}', "", namespace="mcp__sums")), config=WITH_MCP, work={"sums.py": MCP}
    ),
    "MCP resources": one(
        call("list_mcp_resources"),
        call("list_mcp_resources", cursor="x"),
        call("list_mcp_resources", server="none"),
        call("list_mcp_resource_templates"),
        call("read_mcp_resource", server="sums", uri="sums://1"),
        config=WITH_MCP,
        work={"sums.py": MCP},
    ),
    "MCP server that is missing": one(config='[mcp_servers.none]\ncommand = "/no/such/program"\n'),
    "MCP server that is required": one(config='[mcp_servers.none]\ncommand = "/no/such/program"\nrequired = true\n'),
    # threads
    "resume": Scenario([sh("echo one"), say("One."), say("Two.")], [GO, (*FULL, "resume", "--last", "Second.")]),
    "fork": Scenario([say("One."), say("Two.")], [GO, (*FULL, "fork", "--last", "Second.")]),
    "resume of an unknown thread": one(runs=((*FULL, "resume", "0199a213-81c0-7800-8aa1-bbab2a035a53", "Go."),)),
    "ephemeral": one(runs=((*FULL, "--ephemeral", "Go."),)),
    # errors of servers
    "error 400": Scenario([fault(400, body={"error": {"message": "bad request"}})]),
    "error 401": Scenario([fault(401, body={"error": {"message": "bad key"}})] * 4),
    "error 404": Scenario([fault(404, body={"error": {"message": "no model"}})]),
    "error 429": Scenario([fault(429, body={"error": {"message": "slow down"}})] * 2),
    "error 500, then an answer": Scenario([fault(500, body={"error": {"message": "oops"}}), say("Done.")]),
    "error 500 twice": Scenario([fault(500, body={"error": {"message": "oops"}})] * 4),
    "broken stream, then an answer": Scenario([say("x" * 300, deltas=10) + fault(cut_at=400), say("Done.")]),
    "overflow": Scenario([fault(400, body={"error": {"code": "context_length_exceeded", "message": "too long"}})] * 6),
    "empty answer": Scenario([reply()]),
    # context
    "AGENTS.md": one(work={"AGENTS.md": "Be kind.\n"}, home={"AGENTS.md": "Be brief.\n"}),
    "AGENTS.md of another name": one(
        work={"NOTES.md": "Be kind.\n"}, config='project_doc_fallback_filenames = ["NOTES.md"]\n'
    ),
    "AGENTS.md that is no UTF-8": one(work={"AGENTS.md": b"Be k\xffnd.\n"}),
    "skill": one(runs=((*FULL, "Use $tidy here."),), home={"skills/tidy/SKILL.md": SKILL}),
    "compaction": Scenario(
        [
            used(sh("echo one"), 1000),
            used(sh("echo two"), 60_000),
            used(say("SUMMARY: did one and two."), 61_000),
            used(say("Done."), 100),
        ],
        [(*FULL, "-c", "model_auto_compact_token_limit=50000", "Go.")],
    ),
    # options
    "output schema": Scenario(
        [say('{"a": "b"}')],
        [(*FULL, "--output-schema", "schema.json", "Go.")],
        work={"schema.json": json.dumps(SCHEMA)},
    ),
    "output schema that is no JSON": one(
        runs=((*FULL, "--output-schema", "schema.json", "Go."),), work={"schema.json": "{"}
    ),
    "last message in a file": one(runs=((*FULL, "-o", "last.txt", "Go."),)),
    "effort": one(runs=((*FULL, "-c", 'model_reasoning_effort="high"', "Go."),)),
    "another folder": one(sh("pwd"), runs=((*FULL, "-C", "sub", "Go."),), work={"sub/a": "x"}),
    "folder that is missing": one(runs=((*FULL, "-C", "missing", "Go."),)),
    "profile": one(
        runs=((*FULL, "-p", "deep", "Go."),), home={"deep.config.toml": 'model_reasoning_effort = "high"\n'}
    ),
    "instructions of the developer": one(config='developer_instructions = "Be quick."\n'),
    "review": Scenario(
        [say(json.dumps(REVIEW))], [("exec", "review", "--json", "--skip-git-repo-check", "Look at it.")]
    ),
    # hooks
    "hook that refuses": one(
        sh("touch made"),
        runs=TRUSTED_HOOKS,
        home=hooks(PreToolUse="echo no touching >&2; exit 2"),
    ),
    "hook with context": one(runs=TRUSTED_HOOKS, home=hooks(SessionStart="echo session context")),
    "hook for the prompt": one(runs=TRUSTED_HOOKS, home=hooks(UserPromptSubmit="echo prompt context")),
    "hook that refuses the prompt": one(runs=TRUSTED_HOOKS, home=hooks(UserPromptSubmit="echo not now >&2; exit 2")),
    "hook after a tool": one(sh("echo fine"), runs=TRUSTED_HOOKS, home=hooks(PostToolUse="echo seen >&2; exit 2")),
    "hook that goes on": Scenario(
        [say("One."), say("Two.")],
        TRUSTED_HOOKS,
        home=hooks(Stop="test -e .stopped && exit 0; touch .stopped; echo once more >&2; exit 2"),
    ),
}

DIFFERENCES = {
    "arguments that are a list": ("list-of-arguments",),
    "reasoning before a command": ("reasoning-content",),
    "command refused by the rules": ("refused-command",),
    "command with a shell": ("path-of-the-shell",),
    "command in no folder": ("missing-folder",),
    "patch that adds over a folder": ("folder-in-the-way",),
    "image given": ("path-of-an-image",),
    "goal": ("plugin-events", "goal-items"),
    "MCP server that is missing": ("loud-warnings",),
    "MCP server that is required": ("loud-warnings",),
    "AGENTS.md that is no UTF-8": ("loud-warnings",),
    "error 404": ("no-vain-retry",),
    "error 401": ("no-vain-retry",),
    "fork": ("fork-of-the-last",),
    "overflow": ("overflow-compacts",),
    "empty answer": ("empty-answer",),
    "compaction": ("own-prompts",),
    "review": ("plugin-events", "review-tokens"),
    "hook that refuses": ("plugin-events",),
    "hook with context": ("plugin-events",),
    "hook for the prompt": ("plugin-events",),
    "hook that refuses the prompt": ("plugin-events", "refused-prompt"),
    "hook after a tool": ("plugin-events",),
    "hook that goes on": ("plugin-events",),
}
"""Scenarios that are not equal, and the names of what differs."""

REPLACED = [
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
    (r"(Wall time:|Chunk ID:|session ID|wall time of) [\da-f.]+\b", r"\1 <n>"),
    (r"\b1[78]\d{8}\b", "<epoch>"),
    (r"(request id: )[\w-]+", r"\1<id>"),
]


def compared(cli: Cli, ran: Sequence[tuple[int, str]], server: ResponsesServer) -> list[str]:
    """Return what is compared of the runs of one program.

    Left out are ids of items, what a developer message says, the context of the first message, and the text of warnings.
    """
    lines = []
    for status, out in ran:
        lines.append(f"status {status}")
        lines.extend(
            json.dumps(shown(json.loads(line)), sort_keys=True, ensure_ascii=False) for line in out.split("\n") if line
        )
    known: list[Any] = []
    for request in server.requests:
        items = [kept for item in request.json["input"] if (kept := sent(item))]
        lines.append(f"request of {request.json['model']}, {request.json.get('reasoning')}, {request.json.get('text')}")
        lines.extend(f"  {item}" for item in items[len(known) :] if items[: len(known)] == known)
        lines.extend(f"  anew {item}" for item in items if items[: len(known)] != known)
        known = items
    text = "\n".join(lines)
    for place, name in ((cli.home, "/home"), (cli.work, "/work"), (cli.home.parent, "/folder")):
        text = text.replace(str(place), name)
    for pattern, replacement in REPLACED:
        text = re.sub(pattern, replacement, text)
    return text.replace(codex_framework.__version__, "<version>").splitlines()


def shown(event: dict[str, Any]) -> dict[str, Any]:
    item = event.get("item")
    return {**event, "item": {key: value for key, value in item.items() if key != "id"}} if item else event


def sent(item: dict[str, Any]) -> str:
    """Return an item of a request as a line, or nothing for context, which each program words itself."""
    if item["type"] == "message":
        if item["role"] == "developer":
            return ""
        texts = [part.get("text", part["type"]) for part in item["content"]]
        return str(
            (
                item["role"],
                [text for text in texts if not text.startswith(("<environment_context>", "# AGENTS.md", "<skill>"))]
                or "context",
            )
        )
    return json.dumps({key: value for key, value in item.items() if key not in ("id", "status")}, sort_keys=True)


def run_scenario(cli: Cli, scenario: Scenario, program: str | None) -> list[str]:
    server = cli.serve(*scenario.replies)
    cli.configure(base_url=server.url, more=scenario.config)
    for folder, files in ((cli.work, scenario.work), (cli.home, scenario.home)):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    ran = []
    for argv in scenario.runs:
        if program is None:
            mine = cli.run(*argv, stdin=scenario.stdin)
            ran.append((mine.status, mine.out))
        else:
            done = subprocess.run(
                [program, *argv],
                cwd=cli.work,
                env=cli.env,
                input=scenario.stdin or b"",
                capture_output=True,
                timeout=60,
            )
            ran.append((done.returncode, done.stdout.decode()))
    return compared(cli, ran, server)


@pytest.fixture
def folders(tmp_path: Path, run_program: RunProgram) -> Iterator[tuple[Cli, Cli]]:
    """Homes and repositories of the two programs, whose paths are equally long."""
    both = []
    for name in ("ours", "them"):
        (tmp_path / name).mkdir()
        both.append(Cli(tmp_path / name, run_program))
    yield both[0], both[1]
    for cli in both:
        for server in cli.servers:
            server.stop()


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_equal_or_differs_as_named(name: str, folders: tuple[Cli, Cli]) -> None:
    binary = os.environ.get("CODEX_BINARY")
    if not binary:
        pytest.skip("no Codex at hand (set CODEX_BINARY)")
    scenario = SCENARIOS[name]
    ours = run_scenario(folders[0], scenario, None)
    theirs = run_scenario(folders[1], scenario, binary)
    difference = "\n".join(difflib.unified_diff(theirs, ours, "Codex", "this project", lineterm="", n=0))
    assert bool(difference) is (name in DIFFERENCES), difference or "nothing differs any more: remove the names"


def test_the_page_explains_exactly_the_differences_that_scenarios_name() -> None:
    rows = re.findall(
        r"^\| `([a-z0-9-]+)` \|",
        PAGE.read_text().partition("## Scenarios beside Codex")[2].partition("## ")[0],
        re.MULTILINE,
    )
    assert sorted(rows) == sorted({name for names in DIFFERENCES.values() for name in names})
