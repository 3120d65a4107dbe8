"""Hooks that misbehave, and scripts as other agents of this format document them."""

from __future__ import annotations

import json
import sys

import pytest

from codex_framework.testing import call, say
from codex_plugin_hooks import matching
from tests.plugins.hooks.conftest import entries, group, prints, specific, warned

ECHO = [call("exec_command", cmd="echo x", login=False), say("Done.")]


@pytest.mark.parametrize(
    ("command", "fact"),
    [
        ("kill -9 $$", "hook exited with code 137 (SIGKILL)"),
        ("/no/such/program", "hook exited with code 127: "),
        ("touch f; ./f", "hook exited with code 126: "),
        ("exec <&-; cat >/dev/null; exit 3", "hook exited with code 3"),
        ("exit 2", "PreToolUse hook exited with code 2 but did not write a blocking reason to stderr"),
        (
            "head -c 3000000 /dev/zero | tr '\\0' '{'",
            "hook returned invalid pre-tool-use JSON output: there is more than 1 MiB",
        ),
        (prints("{broken"), "hook returned invalid pre-tool-use JSON output: it is not JSON"),
        (prints("[1]"), "hook returned invalid pre-tool-use JSON output: it is not an object"),
        (prints({"decide": 1}), "hook returned invalid pre-tool-use JSON output: unknown field `decide`"),
        (prints({"reason": 5}), "hook returned invalid pre-tool-use JSON output: `reason` has the wrong type"),
        (prints({"continue": False}), "PreToolUse hook returned unsupported continue:false"),
        (prints({"suppressOutput": True}), "PreToolUse hook returned unsupported suppressOutput"),
        (prints({"stopReason": "x"}), "PreToolUse hook returned unsupported stopReason"),
        (prints({"decision": "approve"}), "PreToolUse hook returned unsupported decision:approve"),
        (
            prints(specific("PreToolUse", permissionDecision="ask")),
            "PreToolUse hook returned unsupported permissionDecision:ask",
        ),
        (
            prints(specific("PreToolUse", updatedInput={})),
            "PreToolUse hook returned updatedInput without permissionDecision:allow",
        ),
    ],
)
def test_a_hook_that_fails_is_one_line_and_the_call_is_made(hooks, command, fact):
    hooks.write({"PreToolUse": [command]})
    turn = hooks.turn(ECHO)
    assert turn.outputs[0].endswith("x\n")
    ((kind, text),) = entries(turn)
    assert (kind, text[: len(fact)]) == ("error", fact)
    (line,) = warned(turn)
    assert fact in line
    assert "\n" not in line


def test_a_hook_that_hangs_is_killed_with_its_children(hooks, workspace):
    hooks.write({"PreToolUse": [group("(sleep 30; touch late) & echo $! > pid; wait", timeout=1)]})
    turn = hooks.turn(ECHO)
    assert entries(turn) == [("error", "hook timed out after 1s")]
    pid = int((workspace / "pid").read_text())
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
            state = stat.read().split()[2]
    except OSError:
        state = "gone"
    assert state in ("gone", "Z")


def test_a_big_input_that_is_not_read_blocks_nothing(hooks):
    hooks.write({"PostToolUse": ["true"], "PreToolUse": ["sleep 0.1"]})
    turn = hooks.turn([call("exec_command", cmd="head -c 900000 /dev/zero | tr '\\0' x", login=False), say("Done.")])
    assert entries(turn) == []


def test_secrets_do_not_reach_hooks_unless_they_are_named(hooks):
    code = "print(json.dumps({'systemMessage': ' '.join(sorted(n for n in os.environ if 'KEY' in n or 'CLAUDE' in n or 'MY' in n))}))"
    hooks.write({"SessionStart": [hooks.python(code)]})
    env = {"OPENAI_API_KEY": "sk-1", "MY_API_KEY": "k", "MY_WORD": "w"}
    assert warned(hooks.turn(env=env)) == ["CLAUDE_PROJECT_DIR MY_WORD"]
    named = hooks.turn(env=env, config=['framework.plugins.hooks.env_vars=["MY_API_KEY"]'])
    assert warned(named) == ["CLAUDE_PROJECT_DIR MY_API_KEY MY_WORD"]


@pytest.mark.parametrize(
    ("matcher", "name", "fits"),
    [
        (None, "Bash", True),
        ("", "Bash", True),
        ("*", "Bash", True),
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("Edit|Write", "Write", True),
        ("mcp__memory", "mcp__memory__add", False),
        ("mcp__memory__.*", "mcp__memory__add", True),
        ("^Bash", "BashOutput", True),
        (".ash$", "Bash", True),
    ],
)
def test_matchers(matcher, name, fits):
    assert matching.matches(matcher, [name]) is fits
    assert matcher is None or matching.problem(matcher) is None


GUARD = """#!/usr/bin/env python3
import json
import re
import sys

RULES = [(r"\\brm\\s+-rf\\b", "Do not remove folders recursively."), (r"^grep\\b", "Use rg instead of grep.")]

try:
    input_data = json.load(sys.stdin)
except json.JSONDecodeError as e:
    print(f"Error: Invalid JSON input: {e}", file=sys.stderr)
    sys.exit(1)

command = input_data.get("tool_input", {}).get("command", "")
if input_data.get("tool_name") != "Bash" or not command:
    sys.exit(0)
issues = [message for pattern, message in RULES if re.search(pattern, command)]
if issues:
    for message in issues:
        print(f"* {message}", file=sys.stderr)
    sys.exit(2)
"""

LOGGER = r"""#!/bin/bash
set -euo pipefail
input=$(cat)
command=$(printf '%s' "$input" | sed -n 's/.*"command": *"\([^"]*\)".*/\1/p')
echo "$(basename "$CLAUDE_PROJECT_DIR"): $command" >> "$CLAUDE_PROJECT_DIR/commands.log"
exit 0
"""

PROMPT = """#!/usr/bin/env python3
import json, re, sys
data = json.load(sys.stdin)
if re.search(r"(?i)password\\s*[:=]", data.get("prompt", "")):
    print(json.dumps({"decision": "block", "reason": "Security policy violation: the prompt contains a password."}))
    sys.exit(0)
print("Current branch: main")
"""


def test_scripts_of_other_agents_run_unchanged(hooks, workspace):
    for name, text in (("guard.py", GUARD), ("log.sh", LOGGER), ("prompt.py", PROMPT)):
        file = workspace / name
        file.write_text(text.replace("/usr/bin/env python3", sys.executable))
        file.chmod(0o755)
    hooks.write(
        {
            "PreToolUse": [
                group('"$CLAUDE_PROJECT_DIR"/guard.py', matcher="Bash"),
                group('"$CLAUDE_PROJECT_DIR"/log.sh', matcher="Bash|Edit"),
            ],
            "UserPromptSubmit": ['"$CLAUDE_PROJECT_DIR"/prompt.py'],
        }
    )
    commands = [call("exec_command", cmd=text, login=False) for text in ("rm -rf build", "echo fine")]
    turn = hooks.turn([*commands, say("Done.")])
    assert "* Do not remove folders recursively." in turn.outputs[0]
    assert turn.outputs[1].endswith("fine\n")
    assert (workspace / "commands.log").read_text() == "workspace: rm -rf build\nworkspace: echo fine\n"
    assert "Current branch: main" in json.dumps([str(item) for item in turn.history])
    assert hooks.turn(prompt="password: 123").requests == ()
