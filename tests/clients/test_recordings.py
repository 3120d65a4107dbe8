"""Whole runs, compared with recordings: what is printed, the requests, the lines of the session's file, and what ``why`` says of it.

A recording fails with the difference. If the difference is what was wanted, renew it and read the change before you commit it:
``pytest tests/clients/test_recordings.py --renew-recordings``.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

import codex_framework
from codex_framework.contract.protocol.events import TokenUsage
from codex_framework.testing import call, custom_call, fault, reasoning, say
from codex_framework.testing.scripted import Reply

RECORDINGS = Path(__file__).with_name("recordings")
FULL = ("exec", "--json", "-s", "danger-full-access")
PATCH = """*** Begin Patch
*** Add File: made.txt
+one
+two
*** Update File: old.txt
@@
-a
+b
*** Delete File: gone.txt
*** End Patch
"""
HOOKS = {
    "SessionStart": "echo session context",
    "UserPromptSubmit": "echo prompt context",
    "PreToolUse": "grep -q touch && { echo no touching >&2; exit 2; }; exit 0",
    "PostToolUse": "echo seen >&2",
    "Stop": "test -e .stopped && exit 0; touch .stopped; echo once more >&2; exit 2",
}
SKILL = "---\nname: tidy\ndescription: Tidies up.\n---\nRemove what nobody uses.\n"
RULES = 'prefix_rule(pattern = ["git", "push"], decision = "forbidden", justification = "CI does that")\n'


def sh(text: str) -> Reply:
    return call("exec_command", cmd=text, login=False)


def used(reply: Reply, inputs: int) -> Reply:
    return reply.evolve(usage=TokenUsage(inputs, 0, 50, 0, inputs + 50))


@attrs.frozen
class Story:
    """One or more command lines in one home, the replies that they get, and the files that are there."""

    replies: Sequence[Reply]
    runs: Sequence[Sequence[str]] = ((*FULL, "Go."),)
    config: str = ""
    work: dict[str, str] = attrs.field(factory=dict)
    home: dict[str, str] = attrs.field(factory=dict)


STORIES = {
    "message": Story([say("Hello, world.", deltas=4)]),
    "resume": Story(
        [
            reasoning("**Thinking**\n\nAbout it.", encrypted_content="enc") + say("Answer."),
            sh("echo one"),
            say("Again."),
        ],
        [(*FULL, "First."), (*FULL, "resume", "--last", "Second.")],
    ),
    "fork": Story(
        [say("One."), say("Two."), say("Other.")],
        [(*FULL, "First."), (*FULL, "resume", "--last", "Second."), (*FULL, "fork", "--last", "Third.")],
    ),
    "commands": Story(
        [
            sh("echo one"),
            sh("echo two >&2; exit 3"),
            sh(r"printf 'a\xffb\n\033[31mred\r\n'"),
            call("update_plan", explanation="why", plan=[{"step": "a", "status": "in_progress"}]),
            say("Done."),
        ],
        config="tools.update_plan = {enabled = true}\n",
    ),
    "bad_calls": Story(
        [
            call("no_such_tool", x=1),
            call("exec_command", "{not json"),
            call("exec_command", cmd=5),
            call("update_plan"),
            custom_call("nothing", "x"),
            say("Done."),
        ],
        config="tools.update_plan = {enabled = true}\n",
    ),
    "patch": Story(
        [custom_call("apply_patch", PATCH), custom_call("apply_patch", "no patch"), say("Done.")],
        work={"old.txt": "a\nkept\n", "gone.txt": "x\n"},
    ),
    "rules": Story([sh("git push origin"), sh("true"), say("Done.")], home={"rules/default.rules": RULES}),
    "hooks": Story(
        [sh("touch made"), sh("echo fine"), say("One."), say("Two.")],
        config="[framework.plugins.hooks]\nbypass_trust = true\n",
        home={
            "hooks.json": json.dumps(
                {
                    "hooks": {
                        event: [{"hooks": [{"type": "command", "command": command}]}]
                        for event, command in HOOKS.items()
                    }
                }
            )
        },
    ),
    "compaction": Story(
        [
            used(sh("echo one"), 1000),
            used(sh("echo two"), 60_000),
            used(say("SUMMARY: did one and two."), 61_000),
            used(say("Done."), 100),
        ],
        [(*FULL, "-c", "model_auto_compact_token_limit=50000", "Go.")],
    ),
    "errors": Story(
        [say("x" * 300, deltas=10) + fault(cut_at=400), fault(401, body={"error": {"message": "bad key"}})],
        [(*FULL, "Use $tidy here.")],
        work={"AGENTS.md": "Be kind.\n"},
        home={"AGENTS.md": "Be brief.\n", "skills/tidy/SKILL.md": SKILL},
    ),
}

REPLACED = [
    (r"\b20\d\d-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", "<time>"),
    (r"\b20\d\d[-/]\d\d[-/]\d\d\b( \d\d:\d\d:\d\d)?", "<day>"),
    (r"\b1[78]\d{8}(\d{3})?(\.\d+)?\b", "<epoch>"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
    (r"<timezone>[^<]*</timezone>", "<timezone>...</timezone>"),
    (r"<shell>[^<]*</shell>", "<shell>...</shell>"),
    (r"/(usr/)?bin/\w*sh -c", "<shell> -c"),
    (r'("[a-z_]*(?:duration|elapsed|seconds|secs|nanos|_ms|took)[a-z_]*"\s*:\s*)[\d.e-]+', r"\1<n>"),
    (r"(Wall time:|Chunk ID:|session ID) [\da-f.]+\b", r"\1 <n>"),
    (r'("(?:pid|process_id|traceparent|sha256|hash)": ?)("[^"]*"|\d+)', r"\1<x>"),
    (r"\b[0-9a-f]{32,64}\b|\b(?=[a-f]*\d)[0-9a-f]{16}\b", "<hex>"),
    (r"\b\d+(\.\d+)? ?(ms|µs|s|seconds)\b", "<n> s"),
]
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder whose path is always as long, because tokens are estimated by length, and long texts are cut."""
    with tempfile.TemporaryDirectory(prefix="recorded-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize("name", STORIES)
def test_a_run_is_as_it_was_recorded(cli: Any, name: str, request: pytest.FixtureRequest) -> None:
    path = RECORDINGS / f"{name}.txt"
    found = without_chance("\n".join(record(cli, STORIES[name])) + "\n", cli)
    if request.config.getoption("--renew-recordings"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    assert found.splitlines() == path.read_text().splitlines()


def record(cli: Any, story: Story) -> Iterator[str]:
    server = cli.serve(*story.replies)
    cli.configure(base_url=server.url, more=story.config)
    for folder, files in ((cli.work, story.work), (cli.home, story.home)):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    for argv in story.runs:
        ran = cli.run(*argv)
        yield f"== {' '.join(argv)}: {ran.status}\n{ran.out}{ran.err}"
    known: list[Any] = []
    for request in server.requests:
        yield f"== {request.method} {request.path}"
        body = json.loads(request.body)
        new = [item for item in body["input"] if item not in known]
        known += new
        yield json.dumps(
            {**body, "instructions": body["instructions"][:60], "tools": names(body["tools"]), "input": []}
        )
        yield from map(json.dumps, new)
        left = [number for number, item in enumerate(known) if item not in body["input"]]
        yield f"without {left} of what was sent before"
    for path in cli.rollouts():
        yield f"== {path.name}"
        yield from map(shortened, path.read_text().splitlines())
        why = cli.run("why", str(path))
        yield f"== why: {why.status}\n{why.out}{why.err}"


def names(tools: Sequence[dict[str, Any]]) -> list[str]:
    return [tool.get("name", tool["type"]) for tool in tools]


def shortened(line: str) -> str:
    """A line of a session's file, without the instructions of the model, which are data of their own."""
    data = json.loads(line)
    instructions = data["payload"].get("base_instructions")
    if instructions:
        instructions["text"] = instructions["text"][:60]
    return json.dumps(data, ensure_ascii=False)


def without_chance(text: str, cli: Any) -> str:
    """Replace what differs from run to run and from machine to machine. Ids are numbered, so that it shows where one is repeated."""
    for place, name in ((cli.home, "/home"), (cli.work, "/work"), (cli.home.parent, "/folder")):
        text = text.replace(str(place), name)
    text = text.replace(codex_framework.__version__, "<version>")
    ids: dict[str, str] = {}
    text = UUID.sub(lambda found: ids.setdefault(found[0], f"<id {len(ids) + 1}>"), text)
    for pattern, replacement in REPLACED:
        text = re.sub(pattern, replacement, text)
    return text
