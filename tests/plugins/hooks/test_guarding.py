"""Who can define hooks and trust them: not a command of the model, and not a project without trust."""

from __future__ import annotations

import asyncio
import shlex
import sys

import pytest
from click.testing import CliRunner

from codex_framework import ConfigError
from codex_framework.config import load_config
from codex_framework.loader.context import LoadContext
from codex_framework.testing import KernelFactory, call, say
from codex_plugin_hooks.cli import hooks as hooks_command
from codex_plugin_landlock.sandbox import LandlockSandbox
from tests.plugins.hooks.conftest import TRUSTED, group, runs, warned

ECHO = [call("exec_command", cmd="echo x", login=False), say("Done.")]

confined = pytest.mark.skipif(
    not (sys.platform == "linux" and LandlockSandbox().probe().available), reason="no sandbox here"
)


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in (folder / "hooks.json", folder / "config.toml", *(folder / "hooks").glob("*"))
    }


@confined
def test_a_command_of_the_model_cannot_define_or_trust_hooks(hooks, workspace):
    home = hooks.home
    hooks.write({"SessionStart": ["true"]})
    (home / "hooks").mkdir()
    (home / "hooks/guard.sh").write_text("exit 2")
    (home / "config.toml").write_text("# mine\n")
    before = contents(home)
    trust = f"CODEX_HOME={home} {shlex.quote(sys.executable)} -m codex_framework hooks trust --yes"
    scripts = [
        *(f"echo x > {home}/{name}" for name in ("hooks.json", "config.toml", "hooks/guard.sh", "hooks/new.sh")),
        f"rm -f {home}/hooks.json",
        f"mv {home}/hooks {home}/gone",
        f"mkdir -p .codex && echo x > .codex/hooks.json; ln -s {home}/hooks.json link && echo x > link",
        trust,
        "echo fine > made",
    ]
    calls = [call("exec_command", cmd=script, login=False, yield_time_ms=20_000) for script in scripts]
    roots = f'sandbox_workspace_write.writable_roots=["{workspace.parent}", "{home}"]'
    turn = hooks.turn([*calls, say("Done.")], config=['sandbox_mode="workspace-write"', roots])
    assert contents(home) == before
    assert not (workspace / ".codex/hooks.json").exists()
    assert (workspace / "made").exists()
    assert ["code 0" in output for output in turn.outputs] == [False] * 8 + [True]


@confined
@pytest.mark.parametrize("name", ["hooks.json", "hooks/new.sh", "config.toml"])
def test_a_patch_cannot_define_or_trust_hooks(hooks, workspace, name):
    from codex_framework.testing import custom_call

    hooks.write({"SessionStart": ["true"]})
    target = hooks.home / name
    before = target.read_text() if target.exists() else None
    patch = f"*** Begin Patch\n*** Add File: {target}\n+x\n*** End Patch"
    roots = f'sandbox_workspace_write.writable_roots=["{workspace.parent}", "{hooks.home}"]'
    config = ['sandbox_mode="workspace-write"', roots, 'model="gpt-5-codex"']
    hooks.turn([custom_call("apply_patch", patch), say("Done.")], config=config)
    assert (target.read_text() if target.exists() else None) == before


def of_project(hooks, folder):
    """Write hooks that leave a mark into a project."""
    (folder / ".codex").mkdir(parents=True)
    hooks.write({"SessionStart": ["touch mark"], "PreToolUse": [group("touch mark; exit 2")]})
    (hooks.home / "hooks.json").rename(folder / ".codex/hooks.json")


@pytest.mark.parametrize("trust", ["", 'projects={{"{0}" = {{trust_level = "untrusted"}}}}'])
@pytest.mark.parametrize("table", [False, True])
def test_hooks_of_a_project_without_trust_never_run(hooks, workspace, trust, table):
    (workspace / ".git").mkdir()
    (workspace / ".git/HEAD").write_text("ref: x\n")
    of_project(hooks, workspace)
    if table:
        (workspace / ".codex/hooks.json").unlink()
        handler = '{type = "command", command = "touch mark; exit 2"}'
        (workspace / ".codex/config.toml").write_text(f"[[hooks.PreToolUse]]\nhooks = [{handler}]\n")
    turn = hooks.turn(ECHO, config=[trust.format(workspace)] if trust else [])  # even if trust in hooks is bypassed
    assert turn.outputs[0].endswith("x\n")
    assert runs(turn) == []
    assert not (workspace / "mark").exists()
    assert any("not trusted" in text for text in warned(turn)) or not trust


def test_hooks_of_a_folder_in_a_trusted_project_are_ignored(hooks, workspace):
    """A command of the model may have written them."""
    (workspace / ".git").mkdir()
    (workspace / ".git/HEAD").write_text("ref: x\n")
    inner = workspace / "inner"
    of_project(hooks, inner)
    level = f'projects={{"{workspace}" = {{trust_level = "trusted"}}}}'

    async def main():
        async with KernelFactory(hooks.home, inner)(ECHO, config=[level, TRUSTED]) as kernel:
            return await kernel.run_turn("hello")

    turn = asyncio.run(main())
    assert turn.outputs[0].endswith("x\n")
    assert runs(turn) == []
    assert not (inner / "mark").exists()
    assert any("hooks.json: ignored" in text for text in warned(turn))


def test_a_moved_definition_is_not_trusted(hooks, run_turn):
    """Trust is for a file, event and position: the same command elsewhere is another hook."""
    from tests.plugins.hooks.test_trust import trusted

    hooks.write({"PreToolUse": ["echo no >&2; exit 2"]})
    trust = trusted(hooks, "PreToolUse")
    hooks.write({"PostToolUse": ["echo no >&2; exit 2"]})
    with pytest.raises(ConfigError, match="of PostToolUse is not trusted"):
        run_turn("hello", ECHO, config=[trust])
    hooks.write({"PreToolUse": ["true", "echo no >&2; exit 2"]})
    with pytest.raises(ConfigError, match=r"has changed since you trusted it|is not trusted"):
        run_turn("hello", ECHO, config=[trust])


@pytest.mark.parametrize("value", ["5", "true", '""', '"sha256:0"', '["x"]'])
def test_a_wrong_hash_is_no_trust(hooks, run_turn, value):
    hooks.write({"Stop": ["touch mark"]})
    key = f"{hooks.home / 'hooks.json'}:stop:0:0"
    with pytest.raises(ConfigError):
        run_turn("hello", [say("x")], config=[f'hooks.state={{"{key}" = {{trusted_hash = {value}}}}}'])
    assert not (hooks.workspace / "mark").exists()


def test_trust_may_be_bypassed_only_for_the_whole_kernel(hooks, make_kernel):
    hooks.write({"Stop": ["true"]})

    async def main():
        async with make_kernel([say("x")]) as kernel:
            await kernel.start_thread(config={TRUSTED.split("=")[0]: True})

    with pytest.raises(ConfigError):
        asyncio.run(main())


@pytest.mark.parametrize("words", [["list"], ["trust"], ["trust", "--yes"], ["test", "Stop", "--untrusted"]])
def test_a_definition_cannot_hide_a_part_of_itself_from_its_reader(hooks, words):
    environ = {"CODEX_HOME": str(hooks.home), "PATH": "/usr/bin:/bin", "HOME": str(hooks.home)}
    hooks.write({"Stop": ["printf 'a\\033[1Ab' >&2; exit 1 # \r\x1b[2Knothing\n\u202e here"]})
    context = LoadContext("hooks", load_config(cwd=hooks.workspace, environ=environ), environ)
    done = CliRunner().invoke(hooks_command, words, input="n\n", color=True, obj=context)
    assert "# \\r\\x1b[2Knothing\\n\\u202e here" in done.output
    assert not any(char in done.output for char in "\r\x1b\u202e")


@pytest.mark.parametrize("name", ["hooks", "codex_hooks"])
def test_a_project_cannot_switch_the_users_hooks_off(hooks, workspace, name):
    (workspace / ".git").mkdir()
    (workspace / ".git/HEAD").write_text("ref: x\n")
    (workspace / ".codex").mkdir()
    (workspace / ".codex/config.toml").write_text(f"[features]\n{name} = false\n")
    hooks.write({"PreToolUse": ["echo no >&2; exit 2"]})
    turn = hooks.turn(ECHO, config=[f'projects={{"{workspace}" = {{trust_level = "trusted"}}}}'])
    assert "blocked by PreToolUse hook" in turn.outputs[0]
    assert any(f"features.{name}" in text for text in warned(turn))
