"""Scripts as the documentation of another agent with this format shows them run unchanged."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from codex_framework.testing import call, custom_call, say
from tests.plugins.hooks.conftest import group, messages, runs, warned

PYTHON = {
    "permission.py": """#!/usr/bin/env python3
import json
import sys

try:
    input_data = json.load(sys.stdin)
except json.JSONDecodeError as e:
    print(f"Error: Invalid JSON input: {e}", file=sys.stderr)
    sys.exit(1)

tool_name = input_data.get("tool_name", "")
tool_input = input_data.get("tool_input", {})
command = tool_input.get("command", "")

if tool_name == "Bash" and command.startswith("git push"):
    output = {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "Pushing is left to people",
        }
    }
    print(json.dumps(output))
elif tool_name == "Bash" and "--loud" in command:
    output = {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "allow",
            "updatedInput": {"command": command.replace("--loud", "--quiet")},
        }
    }
    print(json.dumps(output))
sys.exit(0)
""",
    "prompt.py": """#!/usr/bin/env python3
import json
import sys
import datetime

input_data = json.load(sys.stdin)
prompt = input_data.get("prompt", "")
if "TOKEN=" in prompt:
    print(json.dumps({"decision": "block", "reason": "The prompt contains a token."}))
    sys.exit(0)
context = f"Prompt of {len(prompt)} characters in {input_data['cwd']}"
print(json.dumps({"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": context}}))
sys.exit(0)
""",
    "files.py": """#!/usr/bin/env python3
import json, sys
data = json.load(sys.stdin)
path = data.get("tool_input", {}).get("command", "")
sys.exit(2 if any(p in path for p in [".env", "package-lock.json", ".git/"]) and not print("protected file", file=sys.stderr) else 0)
""",
    "context.py": """#!/usr/bin/env python3
import json, sys
data = json.load(sys.stdin)
if "Traceback" in str(data.get("tool_response")):
    print(json.dumps({
        "decision": "block",
        "reason": "The script failed.",
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "Fix the traceback first."},
    }))
""",
}

BASH = {
    "start.sh": r"""#!/bin/bash
# Loads context at the start of a session
cd "$CLAUDE_PROJECT_DIR" || exit 1
echo "Project: $(basename "$PWD")"
cat <<EOF
Notes: $(cat notes.txt)
EOF
exit 0
""",
    "block.sh": r"""#!/bin/bash
input=$(cat)
if [[ "$input" =~ \"command\":\ ?\"[^\"]*drop\ table ]]; then
  echo "Blocked: destructive SQL" >&2
  exit 2
fi
exit 0
""",
    "stop.sh": r"""#!/usr/bin/env bash
input="$(cat)"
if printf '%s' "$input" | grep -Eq '"stop_hook_active": ?true'; then exit 0; fi
if [ ! -f tests-passed ]; then
  cat <<'JSON'
{"decision": "block", "reason": "Tests have not passed yet."}
JSON
fi
""",
    "jq.sh": r"""#!/bin/bash
COMMAND=$(jq -r '.tool_input.command')

if echo "$COMMAND" | grep -q 'rm -rf'; then
  jq -n '{
    hookSpecificOutput: {
      hookEventName: "PreToolUse",
      permissionDecision: "deny",
      permissionDecisionReason: "Destructive command blocked by hook"
    }
  }'
else
  exit 0
fi
""",
}


@pytest.fixture
def scripts(workspace):
    """The scripts, executable, in the project's folder."""
    (workspace / "hooks").mkdir()
    for name, text in {**PYTHON, **BASH}.items():
        file = workspace / "hooks" / name
        file.write_text(text.replace("/usr/bin/env python3", sys.executable))
        file.chmod(0o755)
    return lambda name, **more: group(f'"$CLAUDE_PROJECT_DIR"/hooks/{name}', **more)


def commands(*texts):
    return [*(call("exec_command", cmd=text, login=False) for text in texts), say("Done.")]


def test_permission_decisions_and_updated_input(hooks, scripts):
    hooks.write({"PreToolUse": [scripts("permission.py", matcher="Bash")]})
    turn = hooks.turn(commands("git push origin main", "echo --loud", "echo same"))
    assert turn.outputs[0].startswith("Command blocked by PreToolUse hook: Pushing is left to people.")
    assert turn.outputs[1].endswith("Output:\n--quiet\n")
    assert turn.outputs[2].endswith("Output:\nsame\n")


def test_prompts_are_refused_or_get_context(hooks, scripts, workspace):
    hooks.write({"UserPromptSubmit": [scripts("prompt.py")]})
    assert hooks.turn(prompt="use TOKEN=abc").requests == ()
    assert ("developer", f"Prompt of 5 characters in {workspace}") in messages(hooks.turn(prompt="hello"))


def test_a_protected_file_cannot_be_edited(hooks, scripts, workspace):
    hooks.write({"PreToolUse": [scripts("files.py", matcher="Edit|MultiEdit|Write")]})
    patch = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch"
    replies = [custom_call("apply_patch", patch.format(name)) for name in (".env", "fine.txt")]
    turn = hooks.turn([*replies, say("Done.")], config=['model="gpt-5-codex"'])
    assert "protected file" in turn.outputs[0]
    assert not (workspace / ".env").exists()
    assert (workspace / "fine.txt").exists()


def test_feedback_and_context_after_a_call(hooks, scripts):
    hooks.write({"PostToolUse": [scripts("context.py", matcher="Bash")]})
    turn = hooks.turn(commands("echo Traceback", "echo good"))
    assert turn.outputs[0] == "The script failed."
    assert turn.outputs[1].endswith("good\n")
    assert messages(turn).count(("developer", "Fix the traceback first.")) == 1


def test_bash_scripts_at_the_start_before_calls_and_at_the_end(hooks, scripts, workspace):
    (workspace / "notes.txt").write_text("be quick")
    hooks.write(
        {
            "SessionStart": [scripts("start.sh", matcher="startup|resume")],
            "PreToolUse": [scripts("block.sh", matcher="Bash")],
            "Stop": [scripts("stop.sh")],
        }
    )
    turn = hooks.turn([*commands("echo 'drop table users'", "echo ok"), say("Really done.")])
    assert ("developer", "Project: workspace\nNotes: be quick") in messages(turn)
    assert "Blocked: destructive SQL" in turn.outputs[0]
    assert turn.outputs[1].endswith("ok\n")
    assert turn.final_message == "Really done."
    assert "Tests have not passed yet." in json.dumps([str(item) for item in turn.history])
    assert [run.status for run in runs(turn)] == ["completed", "blocked", "completed", "blocked", "completed"]
    assert warned(turn) == []


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_a_script_with_jq(hooks, scripts, workspace):
    (workspace / "build").mkdir()
    hooks.write({"PreToolUse": [scripts("jq.sh", matcher="Bash")]})
    turn = hooks.turn(commands("rm -rf build", "echo fine"))
    assert "Destructive command blocked by hook" in turn.outputs[0]
    assert turn.outputs[1].endswith("fine\n")
    assert (workspace / "build").is_dir()
