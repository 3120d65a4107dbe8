"""The scripts that hooks run stay as the user has seen them: the model can change neither them nor what leads to them."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from codex_framework.config import load_config
from codex_framework.loader.context import LoadContext
from codex_framework.testing import call, custom_call, say
from codex_plugin_hooks.cli import hooks as hooks_command
from codex_plugin_hooks.scripts import scripts
from codex_plugin_landlock.sandbox import LandlockSandbox
from tests.plugins.hooks.conftest import group

confined = pytest.mark.skipif(
    not (sys.platform == "linux" and LandlockSandbox().probe().available), reason="no sandbox here"
)
WRITE = 'sandbox_mode="workspace-write"'


def shell(script: str):
    return call("exec_command", cmd=script, login=False, yield_time_ms=20_000)


@pytest.fixture
def guard(workspace):
    """A script in a project, which lets everything through."""
    (workspace / ".git").mkdir()
    (workspace / ".git/HEAD").write_text("ref: x\n")
    file = workspace / "tools/guard.sh"
    file.parent.mkdir()
    file.write_text("exit 0\n")
    return file


@confined
@pytest.mark.parametrize(
    "named", ["sh tools/guard.sh", 'sh "$CLAUDE_PROJECT_DIR"/tools/guard.sh', "cd tools && sh guard.sh"]
)
def test_a_command_of_the_model_cannot_change_the_script_of_a_hook(hooks, workspace, guard, named):
    hooks.write({"PreToolUse": [named]})
    attempts = [
        "echo x > tools/guard.sh",
        "rm -f tools/guard.sh && echo x > tools/guard.sh",
        "echo x > tools/new && mv -f tools/new tools/guard.sh",
        "mv tools gone && mkdir tools && echo x > tools/guard.sh",
        "ln tools/guard.sh other && echo x > other",
        "ln -s tools/guard.sh link && echo x > link",
        "chmod 777 tools/guard.sh",
    ]
    before = (guard.read_text(), guard.stat().st_mode)
    turn = hooks.turn([*map(shell, attempts), shell("echo fine > tools/other.sh"), say("Done.")], config=[WRITE])
    assert (guard.read_text(), guard.stat().st_mode) == before
    assert ["code 0" in output for output in turn.outputs] == [False] * len(attempts) + [True]
    assert (workspace / "tools/other.sh").read_text() == "fine\n"


@confined
def test_a_script_that_does_not_exist_yet_cannot_be_made(hooks, workspace):
    hooks.write({"SessionStart": ["sh tools/later.sh; true", "sh later.sh; true"]})
    turn = hooks.turn(
        [shell("echo x > later.sh"), shell("mkdir -p tools; echo x > tools/later.sh"), say("Done.")], config=[WRITE]
    )
    assert not (workspace / "later.sh").is_file() or not (workspace / "later.sh").read_text()
    assert not (workspace / "tools/later.sh").exists()
    assert ["code 0" in output for output in turn.outputs] == [False, False]


@confined
def test_a_turn_in_a_folder_of_the_project_protects_the_script_in_its_root(hooks, workspace, guard):
    hooks.write({"PreToolUse": ['sh "$CLAUDE_PROJECT_DIR"/tools/guard.sh']})
    (workspace / "sub").mkdir()
    roots = f'sandbox_workspace_write.writable_roots=["{workspace}"]'
    replies = [shell("echo x > ../tools/guard.sh"), shell("echo x > ../tools/other.sh"), say("Done.")]
    turn = hooks.turn(replies, config=[WRITE, roots], cwd=workspace / "sub")
    assert ["code 0" in output for output in turn.outputs] == [False, True]
    assert guard.read_text() == "exit 0\n"


@pytest.mark.parametrize(
    "patch",
    [
        "*** Update File: tools/guard.sh\n@@\n-exit 0\n+exit 2",
        "*** Delete File: tools/guard.sh",
        "*** Update File: tools/guard.sh\n*** Move to: tools/moved.sh\n@@\n-exit 0\n+exit 2",
        "*** Update File: tools/new.sh\n*** Move to: tools/guard.sh\n@@\n-new\n+exit 2",
    ],
)
def test_a_patch_cannot_change_the_script_of_a_hook(hooks, workspace, guard, patch):
    hooks.write({"PreToolUse": [group("sh tools/guard.sh", matcher="Bash")]})
    (workspace / "tools/new.sh").write_text("new\n")
    whole = f"*** Begin Patch\n{patch}\n*** End Patch"
    config = [WRITE, 'model="gpt-5-codex"']
    turn = hooks.turn([custom_call("apply_patch", whole), say("Done.")], config=config)
    assert guard.read_text() == "exit 0\n"
    assert (
        "writing is blocked" in turn.outputs[0] or "not permitted" in turn.outputs[0] or "outside" in turn.outputs[0]
    ), turn.outputs
    other = "*** Begin Patch\n*** Update File: tools/new.sh\n@@\n-new\n+newer\n*** End Patch"
    hooks.turn([custom_call("apply_patch", other), say("Done.")], config=config)
    assert (workspace / "tools/new.sh").read_text() == "newer\n"


def test_full_access_includes_the_scripts(hooks, workspace, guard):
    hooks.write({"PreToolUse": ["sh tools/guard.sh"]})
    hooks.turn([shell("echo 'exit 1' > tools/guard.sh"), say("Done.")], config=['sandbox_mode="danger-full-access"'])
    assert guard.read_text() == "exit 1\n"


def test_the_list_says_what_is_protected_and_what_is_not(hooks, workspace):
    hooks.write({"Stop": ["python3 tools/guard.py && $WHERE/other.sh && python3 -m third"]})
    environ = {"CODEX_HOME": str(hooks.home), "PATH": "/nowhere"}
    context = LoadContext("hooks", load_config(cwd=workspace, environ=environ), environ)
    shown = CliRunner().invoke(hooks_command, ["list"], obj=context).output
    assert "read-only for the model: tools/guard.py\n" in shown
    assert "not understood, so perhaps not protected: $WHERE/other.sh, python3 -m third\n" in shown
    (entry,) = json.loads(CliRunner().invoke(hooks_command, ["list", "--json"], obj=context).output)["hooks"]
    assert (entry["protectedPaths"], entry["notUnderstood"]) == (
        ["tools/guard.py"],
        ["$WHERE/other.sh", "python3 -m third"],
    )


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("tools/guard.sh", ["tools/guard.sh"]),
        ("./tools/../guard.sh arg", ["guard.sh"]),
        ("~/bin/guard.py", ["/home/u/bin/guard.py"]),
        ("python3 -S tools/guard.py --config x.toml", ["tools/guard.py"]),
        ("bash guard", ["guard"]),
        ("node ./hooks/x.mjs", ["hooks/x.mjs"]),
        (". ./lib.sh; source lib2.sh", ["lib.sh", "lib2.sh"]),
        ('"$CLAUDE_PROJECT_DIR"/.claude/hooks/check.sh', [".claude/hooks/check.sh"]),
        ("${CLAUDE_PROJECT_DIR:-.}/x.sh", ["x.sh"]),
        ('"$(git rev-parse --show-toplevel)/h/x y.sh"', ["h/x y.sh"]),
        ("`git rev-parse --show-toplevel`/x.sh", ["x.sh"]),
        ("$HOOKS/x.sh", ["/opt/hooks/x.sh"]),
        ('cd "$CLAUDE_PROJECT_DIR" && uv run python tools/x.py', ["tools/x.py"]),
        ("cd scripts; ./guard.sh", ["scripts/guard.sh"]),
        ("bash -lc 'python3 tools/x.py; ./b.sh'", ["tools/x.py", "b.sh"]),
        ("timeout 5s nice ./x.sh", ["x.sh"]),
        ("env A=b C=./d python -S a.py", ["a.py"]),
        ("FOO=1 ./x.sh | ./y.sh && (./z.sh)", ["x.sh", "y.sh", "z.sh"]),
        ("if true; then ./a.sh; fi", ["a.sh"]),
        ("while read l\ndo ./y.sh\ndone", ["y.sh"]),
        ("! ./a.sh < in.txt > out.txt 2>&1", ["a.sh"]),
        ("./a.sh # it's not closed\n./b.sh", ["a.sh", "b.sh"]),
        ("prettier --write ./src/a.js", []),
        ("uv run pytest tests/", []),
        ("cat ./notes.md; echo done > ./log", []),
        ("sh . ; sh .. ; sh / ; $CLAUDE_PROJECT_DIR", []),
        ("python3 -c 'import x'", []),
    ],
)
def test_the_scripts_of_a_command(text, paths):
    environ = {"HOME": "/home/u", "PATH": "/nowhere", "HOOKS": "/opt/hooks"}
    assert list(scripts(text, environ).paths) == paths


def test_a_program_of_the_workspace_that_is_found_by_its_name(tmp_path):
    (tmp_path / "check").write_text("#!/bin/sh\n")
    (tmp_path / "check").chmod(0o755)
    assert scripts("check --fast", {"PATH": f"/nowhere:{tmp_path}"}).paths == (str(tmp_path / "check"),)


@pytest.mark.parametrize(
    "text", ["$X/a.sh", "tools/*.sh", "`./a.sh`", "$(./a.sh)", "python3 -m guard", "x=`./a.sh`", "sh ."]
)
def test_what_a_command_runs_may_be_unknown(text):
    assert scripts(text, {}).unknown


def test_a_command_of_any_size_is_read_at_once():
    long = "a/b;" * 20_000 + "bash -c " * 5_000 + "'" * 4_001
    assert len(scripts(long, {}).paths) < 10
    assert len(scripts("env -i " * 5_000 + "xargs -a " * 5_000 + "(" * 5_000 + "if { " * 5_000, {}).paths) < 10


@pytest.mark.parametrize(
    "command",
    [
        "sh < checks/f",
        "bash -x < checks/f",
        "python3 < checks/f",
        "cat checks/f | sh",
        "cat checks/f | sed s/a/b/ | bash -s",
        "head -n 5 checks/f | python3",
        "echo checks/f | xargs sh",
        "ls checks/f | xargs -n 1 bash",
        "xargs sh checks/f",
        "cat checks/f | xargs -I {} env {}",
        "find . -exec sh checks/f {} +",
        "sed -f checks/f in.txt",
        "sed --file=checks/f in.txt",
        "awk -f checks/f in.txt",
        "run-parts checks/f",
        "sh -c 'cat checks/f | sh'",
        "cat checks/f | (cd sub; sh)",
        "(cat checks/f; true) | sh",
        "{ cat checks/f; } | nice -n 5 sh",
        "cat < checks/f | tr a b | sh -s x",
        "sort checks/f | sh",
        "cat checks/f | env -i A=b sudo -u root bash -eo pipefail",
        "{ true; sh; } < checks/f",
        'while read line; do sh -c "$line"; done < checks/f',
        'cat checks/f | while read -r name; do eval "$name"; done',
        "if true; then cat checks/f; fi | sh",
        "case $1 in a|b) cat checks/f;; *) true;; esac | sh",
        "for x in a b; do cat checks/f; done | sh",
        "bash <(cat checks/f)",
        ". /dev/stdin < checks/f",
        "python3 - < checks/f",
        "sh 2> log < checks/f",
        "true && cat checks/f | sh && true",
        'eval "$(cat checks/f)"',
        "eval $(cat checks/f)",
        'sh -c "$(cat checks/f)"',
        'bash -ec "`cat checks/f`"',
        "echo checks/f | xargs -I % sh %",
        "echo checks/f | xargs -I {} sh -c 'sh {}'",
        "find checks/f -exec sh {} ';'",
        "find checks/f -type f | xargs sh",
        "doas checks/f",
        "ionice -c 3 sh checks/f",
        "strace -f sh checks/f",
        "conda run -n base python checks/f",
        "cat checks/f | chronic sh",
        "time -p sh checks/f",
        "exec -c checks/f",
        "cat checks/f | parallel",
        "env A=b sed -nf checks/f in.txt",
        "sed -fchecks/f in.txt",
        "nice run-parts checks/f",
        "timeout 9 awk -f checks/f",
        "make -f checks/f",
        "BASH_ENV=checks/f bash -c true",
        "bash --rcfile checks/f -i",
        "node -r checks/f x.js",
        "sudo -u root checks/f",
        "uv run --with x python checks/f",
        'echo "$(sh < checks/f)"',
    ],
)
def test_a_file_whose_content_is_run_is_found(command: str) -> None:
    assert "checks/f" in scripts(command, {"PATH": "/usr/bin:/bin"}).paths


@pytest.mark.parametrize(
    "command",
    [
        "cat notes.md | wc",
        "./a.sh < in.txt",
        "sh a.sh < in.txt",
        "grep x < in.txt",
        "ls src/ && ruff check .",
        "ls src/; echo notes.md; cat notes.md | wc; sh",
        "ls src/ | xargs ruff check .",
        "cat notes.md | xargs -n 1 grep x; sh ./a.sh",
        "cat notes.md || echo x | sh",
        "(cat notes.md); echo x | sh",
        "echo x | sh | tee notes.md",
        "python3 -W ignore a.py < in.txt",
        "bash -eo pipefail a.sh < in.txt",
        "cat notes.md | awk '{print}'",
        "find src -name '*.py' -exec ruff check {} +",
        "cat notes.md | xargs sh a.sh",
        "sh -c 'cat notes.md' | wc",
        "cat in.txt | sh -c 'wc'",
        "for x in src notes.md; do echo $x; done",
        "case x in src/*) true;; esac",
        "diff <(cat notes.md) <(cat in.txt)",
        "echo $(cat notes.md)",
        "curl https://x/in.txt | sh",
        'while read line; do echo "$line"; done < in.txt',
    ],
)
def test_a_file_that_is_only_read_is_not(command: str) -> None:
    found = {*scripts(command, {"PATH": "/usr/bin:/bin"}).paths}
    assert not {path for path in found if not path.startswith("/")} - {"a.sh", "a.py"}
