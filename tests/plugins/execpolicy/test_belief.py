"""Rules that allow are believed only while commands cannot decide what the allowed command would do."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ApprovalPolicy, CommandRequest, CommandVerdict, FileAccess, PathRule, Verdict
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.testing import turn_facts
from codex_framework.testing.replies import call, say
from codex_plugin_execpolicy.layers import RuleLayers
from codex_plugin_execpolicy.policy import ExecPolicy

UNCONFINED = CommandVerdict(verdict=Verdict.ALLOW, bypass_sandbox=True)
ALLOW = CommandVerdict(verdict=Verdict.ALLOW)
RULES = """
prefix_rule(["git", ["status", "diff"]])
prefix_rule(["git", "-C", "/", "status"])
prefix_rule(["tool"])
prefix_rule(["cd"])
prefix_rule(["ls"])
"""


class Place:
    """A workspace that may be written, with tools in it, and a home and a PATH outside of it."""

    def __init__(self, tmp_path: Path) -> None:
        self.work, self.home, self.codex = (tmp_path / name for name in ("work", "user", "codex"))
        self.own, self.other = self.work / "bin", tmp_path / "bin"
        for folder in (self.work / "sub", self.home, self.codex / "rules", self.own, self.other):
            folder.mkdir(parents=True)
        (self.codex / "rules" / "a.rules").write_text(RULES)
        self.path = "/usr/bin:/bin"
        self.layers = RuleLayers(str(tmp_path / "etc"))
        self.program(self.other / "tool")

    def program(self, path: Path) -> None:
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)

    def repository(self, folder: Path, config: str = "") -> None:
        git = folder / ".git"
        (git / "refs").mkdir(parents=True)
        (git / "config").write_text(config)

    @property
    def access(self) -> FileAccess:
        rules = [PathRule(self.work, AccessMode.WRITE), PathRule(self.work / ".git", AccessMode.READ)]
        return FileAccess(rules=tuple(rules))

    def judge(self, command: str | list[str], approval: Any = ApprovalPolicy.ON_REQUEST, **fields: Any) -> Any:
        environ = {"PATH": self.path, "HOME": str(self.home)}
        policy = ExecPolicy(self.layers, environ)
        facts = turn_facts(
            approval_policy=approval,
            cwd=self.work,
            codex_home=self.codex,
            access=fields.pop("access", self.access),
            config=fields.pop("config", {}),
            shell=fields.pop("shell", "/bin/sh"),
        )
        argv = ("bash", "-lc", command) if isinstance(command, str) else tuple(command)
        return policy.judge(CommandRequest(argv=argv, **fields), facts)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_program_in_a_folder_that_commands_cannot_write_is_what_the_rule_means(place: Place):
    place.path = f"{place.own}:{place.other}:/usr/bin:/bin"
    assert place.judge("tool x") == UNCONFINED
    assert place.judge(["tool", "x"]) == UNCONFINED
    assert place.judge(["tool"], config={"shell_environment_policy": {"set": {"PATH": "/usr/bin:/bin"}}}) == UNCONFINED


def test_a_program_that_commands_can_write_is_not(place: Place):
    place.path = f"{place.own}:{place.other}:/usr/bin:/bin"
    place.program(place.own / "tool")
    assert place.judge("tool x") is None
    assert place.judge("tool x", ApprovalPolicy.UNTRUSTED).verdict is Verdict.ASK
    place.path = f"{place.other}:{place.own}:/usr/bin:/bin"
    assert place.judge("tool x") == UNCONFINED
    set_path = {"shell_environment_policy": {"set": {"PATH": f"{place.own}:{place.other}"}}}
    assert place.judge(["tool"], config=set_path) is None


def test_a_symlink_to_a_program_is_judged_by_both_ends(place: Place):
    place.program(place.work / "evil")
    place.path = f"{place.other}:/usr/bin:/bin"
    (place.other / "tool").unlink()
    (place.other / "tool").symlink_to(place.work / "evil")
    assert place.judge("tool x") is None
    place.program(place.other / "real")
    (place.own / "tool").symlink_to(place.other / "real")
    place.path = f"{place.own}:/usr/bin:/bin"
    assert place.judge("tool x") is None


def test_a_relative_folder_on_the_path_is_never_believed(place: Place):
    place.program(place.work / "sub" / "tool")
    place.path = f"sub:{place.other}:/usr/bin:/bin"
    assert place.judge("tool x") is None


@pytest.mark.parametrize("shell", ["./bash", "WORK/bash", "WORK/sub/sh", "/tmp/bash", "sub/zsh"])
def test_a_file_with_the_name_of_a_shell_is_no_shell(place: Place, shell: str):
    program = shell.replace("WORK", str(place.work))
    assert place.judge([program, "-lc", "ls"]) is None
    assert place.judge([program, "-c", "ls"], ApprovalPolicy.UNTRUSTED).verdict is Verdict.ASK
    assert place.judge(["/bin/bash", "-lc", "ls"]) == UNCONFINED


def test_what_a_file_with_the_name_of_a_shell_may_run_is_still_suspected(place: Place):
    (place.codex / "rules" / "b.rules").write_text('prefix_rule(["curl"], "forbidden")')
    assert place.judge(["./bash", "-lc", "ls; curl x"]).verdict is Verdict.FORBID
    assert place.judge(["./bash", "-lc", "rm -rf x"]).verdict is Verdict.ASK


def test_a_shell_that_is_found_in_the_workspace_is_no_shell_either(place: Place):
    place.program(place.own / "bash")
    place.path = f"{place.own}:/usr/bin:/bin"
    assert place.judge("ls") is None


def test_the_users_own_shell_counts_wherever_it_is(place: Place):
    place.program(place.other / "zsh")
    shell = str(place.other / "zsh")
    assert place.judge([shell, "-lc", "ls"], shell=shell) == UNCONFINED
    assert place.judge([shell, "-lc", "ls"]) is None


def test_variables_from_the_model_make_a_command_another_one(place: Place):
    assert place.judge(["ls"], env={"PAGER": "cat", "TERM": "dumb"}) == UNCONFINED
    assert place.judge(["ls"], env={"LD_PRELOAD": "x.so"}) is None
    assert place.judge(["ls"], env={"PAGER": "sh x"}) is None
    asked = place.judge(["ls"], ApprovalPolicy.UNTRUSTED, env={"LD_PRELOAD": "x.so"})
    assert asked == CommandVerdict(verdict=Verdict.ASK), "and no prefix is proposed, because it would leave them out"


def test_no_rule_is_believed_where_the_home_can_be_written(place: Place):
    place.home = place.work
    assert place.judge("ls") is None
    place.home = place.work.parent / "user"
    (place.home / ".bashrc").symlink_to(place.work / "bashrc")
    assert place.judge("ls") is None


def test_git_is_believed_at_the_root_of_a_protected_repository(place: Place):
    assert place.judge("git status") == UNCONFINED, "there is none, and none can be made"
    place.repository(place.work)
    assert place.judge("git status") == UNCONFINED
    assert place.judge("git status", ApprovalPolicy.NEVER) == UNCONFINED
    assert place.judge(["git", "-C", "/", "status"]) == UNCONFINED, "the rule names the folder"


@pytest.mark.parametrize(
    "command", ["cd sub && git status", "cd sub; git diff", "cd ./sub/../sub && git status", "cd - && git status"]
)
def test_git_is_not_believed_in_folders_in_which_commands_could_make_a_repository(place: Place, command: str):
    place.repository(place.work)
    assert place.judge(command) is None
    assert place.judge("git status", cwd="sub") is None
    assert place.judge(f"cd {place.work} && git status") == UNCONFINED


@pytest.mark.parametrize(
    "config",
    [
        "[core]\n\thooksPath = .husky\n",
        "[include]\n\tpath = ../.gitconfig\n",
        '[filter "x"]\n\tclean = ./strip.sh\n',
        '[filter "x"] clean = python3 -m strip\n',
        '[FILTER "x"]\n\tSmudge = "/usr/bin/python3" -m strip\n',
        '[diff "x"]\n\ttextconv = /bin/sh show.sh\n',
        '[diff "x"]\n\tcommand = tool --config conf/show\n',
        "[core]\n\tfsmonitor = \\\n./watch\n",
        "[credential]\n\thelper = !bin/helper\n",
        '[filter "lfs"]\n\tclean = git-lfs clean -- %f; ./strip.sh\n',
        '[remote "origin"]\n\tuploadpack = ./fetch\n',
        '[remote "origin"]\n\turl = ext::./fetch\n[protocol "ext"]\n\tallow = always\n',
        "[core]\n\tgitProxy = ./proxy\n",
        '[lfs "customtransfer.mine"]\n\tpath = ./transfer\n',
    ],
)
def test_git_is_not_believed_where_its_settings_lead_into_the_workspace(place: Place, config: str):
    place.repository(place.work, config)
    assert place.judge("git status") is None


@pytest.mark.parametrize(
    "config",
    [
        '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\trequired = true\n[core]\n\tfsmonitor = true\n\tpager =\n',
        "[core]\n\tpager = delta --dark\n[credential]\n\thelper = !/usr/bin/gh auth git-credential\n",
        '[remote "origin"]\n\turl = ../other\n[diff "x"]\n\tcommand = /opt/tool -q\n',
    ],
)
def test_git_is_believed_with_settings_that_name_programs_elsewhere(place: Place, config: str):
    place.repository(place.work, config)
    (place.home / ".gitconfig").write_text(config)
    assert place.judge("git status") == UNCONFINED


def test_git_is_not_believed_with_settings_that_cannot_be_read(place: Place):
    place.repository(place.work)
    assert place.judge("git status") == UNCONFINED
    for file in (place.home / ".gitconfig", place.work / ".git" / "config.worktree"):
        file.write_text(f"{'#' * 1023}\n" * 1024 + "#")
        assert place.judge("git status") is None
        file.unlink()
        os.mkfifo(file)
        assert place.judge("git status") is None
        file.unlink()
    (place.work / ".git" / "config.worktree").symlink_to(place.home / ".gitconfig")
    assert place.judge("git status") == UNCONFINED


def test_git_is_not_believed_where_the_user_s_settings_lead_into_the_workspace(place: Place):
    (place.home / ".gitconfig").write_text('[filter "nbstripout"]\n\tclean = python3 -m nbstripout\n')
    assert place.judge("git status") is None
    assert place.judge(["git", "-C", "/", "status"]) is None
    assert place.judge("ls") == UNCONFINED


@pytest.mark.parametrize("name", ["index", "sharedindex.1"])
def test_git_is_not_believed_with_submodules_that_are_not_checked_out(place: Place, tmp_path: Path, name: str):
    work = ["git", "-c", "user.name=a", "-c", "user.email=b", "-C", str(tmp_path / "made")]
    subprocess.run(["git", "init", "-q", str(tmp_path / "made")], check=True)
    subprocess.run([*work, "update-index", "--add", "--cacheinfo", "160000", "1" * 40, "sub"], check=True)
    place.repository(place.work)
    assert place.judge("git status") == UNCONFINED
    (place.work / ".git" / name).write_bytes((tmp_path / "made" / ".git" / "index").read_bytes())
    assert place.judge("git status") is None


def test_git_is_not_believed_with_submodules_whose_settings_can_be_written(place: Place):
    place.repository(place.work)
    (place.work / ".git" / "modules").mkdir()
    assert place.judge("git status") is None


def test_in_a_linked_worktree_the_shared_repository_is_looked_at(place: Place, tmp_path: Path):
    main = tmp_path / "main"
    place.repository(main, "[core]\n\thooksPath = .husky\n")
    (main / ".git" / "worktrees" / "w").mkdir(parents=True)
    (main / ".git" / "worktrees" / "w" / "commondir").write_text("../..\n")
    (place.work / ".git").write_text(f"gitdir: {main}/.git/worktrees/w\n")
    assert place.judge("git status") is None
    (main / ".git" / "config").write_text("")
    assert place.judge("git status") == UNCONFINED


def test_commands_that_only_look_are_known_by_their_program_too(place: Place):
    place.path = f"{place.own}:/usr/bin:/bin"
    assert place.judge("cat x", ApprovalPolicy.UNTRUSTED) == ALLOW
    place.program(place.own / "cat")
    assert place.judge("cat x", ApprovalPolicy.UNTRUSTED).verdict is Verdict.ASK
    (place.own / "cat").unlink()
    assert place.judge("git log", ApprovalPolicy.UNTRUSTED, cwd="sub") == ALLOW
    place.repository(place.work / "sub")
    assert place.judge("git log", ApprovalPolicy.UNTRUSTED, cwd="sub").verdict is Verdict.ASK
    assert place.judge("cd sub && git log -3", ApprovalPolicy.UNTRUSTED).verdict is Verdict.ASK


def test_with_full_access_nothing_is_looked_at_but_variables(place: Place):
    place.program(place.own / "tool")
    place.path = f"{place.own}:/usr/bin:/bin"
    assert place.judge("tool x", access=FileAccess(full=True)) == UNCONFINED
    assert place.judge("tool x", access=FileAccess(full=True), env={"A": "b"}) is None


@pytest.mark.parametrize(
    "setting",
    [
        '[diff "x"] textconv = /bin/cat',
        "[core]\nhooksPath = /x",
        "[diff] external = x",
        '[filter "lfs"] clean = git-lfs clean && /bin/x',
        '[remote "o"] uploadpack = /bin/x',
        '[remote "o"] receivepack = /bin/x',
        "[core] gitproxy = /bin/x",
        f"{'#' * 1023}\n" * 1024 + "[diff] external = x",
        '[protocol "ext"] allow = always',
    ],
)
def test_with_full_access_git_only_looks_where_the_repository_has_it_run_no_programs(place: Place, setting: str):
    def verdict() -> Any:
        return place.judge("git diff", ApprovalPolicy.UNTRUSTED, access=FileAccess(full=True), cwd="sub").verdict

    (place.codex / "rules" / "a.rules").unlink()
    place.repository(place.work)
    (place.work / ".git" / "config").write_text('[filter "lfs"]\n\tprocess = git-lfs filter-process --skip\n')
    assert verdict() is Verdict.ALLOW
    (place.work / ".git" / "config").write_text(setting)
    assert verdict() is Verdict.ASK


# In turns, with real commands

EVIL = '#!/bin/sh\necho evil > "{mark}"\n'
needs_sandbox = pytest.mark.skipif(sys.platform != "linux", reason="needs a sandbox")


class Turns:
    """Turns in a workspace that may be written, with rules. ``mark`` can be written outside of the sandbox only."""

    def __init__(self, make_kernel: Any, tmp_path: Path) -> None:
        self._make_kernel = make_kernel
        self.work: Path = make_kernel.workspace
        self.mark = tmp_path / "mark"
        self.rules = make_kernel.codex_home / "rules"
        self.rules.mkdir(parents=True)
        (self.rules / "a.rules").write_text(f'{RULES}\nprefix_rule(["touch", "{self.mark}"])\n')
        self.environ = {"PATH": f"{self.work}/bin:/usr/bin:/bin", "HOME": str(make_kernel.codex_home)}

    def evil(self, name: str) -> Path:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(EVIL.format(mark=self.mark))
        path.chmod(0o755)
        return path

    def run(self, tool: str, *config: str, **arguments: Any) -> str:
        sandboxed = [
            'sandbox_mode="workspace-write"',
            "sandbox_workspace_write={exclude_slash_tmp=true, exclude_tmpdir_env_var=true}",
            f'shell_environment_policy.set.PATH="{self.environ["PATH"]}"',
        ]

        async def turn() -> Any:
            replies = [call(tool, **arguments), say("Done.")]
            async with self._make_kernel(replies, config=[*sandboxed, *config], env=self.environ) as kernel:
                return await kernel.run_turn("go")

        return str(asyncio.run(turn()).outputs[0])


@pytest.fixture
def turns(make_kernel: Any, tmp_path: Path) -> Turns:
    return Turns(make_kernel, tmp_path)


@needs_sandbox
def test_a_rule_lets_the_program_that_it_means_out_of_the_sandbox(turns: Turns):
    turns.run("exec_command", cmd=f"touch {turns.mark}")
    assert turns.mark.exists()


@needs_sandbox
def test_a_program_of_the_workspace_stays_in_the_sandbox(turns: Turns):
    turns.evil("bin/touch")
    said = turns.run("exec_command", cmd=f"touch {turns.mark}", login=False)
    assert not turns.mark.exists()
    assert "Read-only file system" in said or "Permission denied" in said, "it ran, in the sandbox"


@needs_sandbox
def test_what_runs_outside_finds_no_programs_of_the_workspace(turns: Turns):
    """Also if one is put there after the rule was believed."""
    (turns.work / "bin").mkdir()
    rule = f'prefix_rule(["sh", "-c", "true; tool; echo $PATH > {turns.mark}"])'
    (turns.rules / "b.rules").write_text(rule)
    turns.evil("bin/tool")
    turns.run("exec_command", cmd=f"sh -c 'true; tool; echo $PATH > {turns.mark}'", login=False)
    assert turns.mark.read_text().strip().endswith("/usr/bin:/bin")
    assert str(turns.work) not in turns.mark.read_text()


@needs_sandbox
def test_a_shell_of_the_workspace_that_the_model_names_is_not_run(turns: Turns):
    fake = turns.evil("bash")
    for shell in (str(fake), "./bash"):
        turns.run("exec_command", cmd="ls", shell=shell)
    assert not turns.mark.exists()


@needs_sandbox
def test_a_repository_of_the_workspace_runs_nothing_outside(turns: Turns):
    monitor = turns.evil("monitor")
    nested = turns.work / "sub"
    subprocess.run(["git", "init", "-q", str(nested)], check=True)
    for key in ("core.fsmonitor", "diff.external"):
        subprocess.run(["git", "-C", str(nested), "config", key, str(monitor)], check=True)
    (nested / "file").write_text("x")
    subprocess.run(["git", "-C", str(nested), "add", "-N", "file"], check=True)
    turns.mark.unlink(missing_ok=True)  # git has run the monitor for the test as well
    turns.run("exec_command", cmd="git status", workdir="sub")
    turns.run("exec_command", cmd="git diff", workdir="sub")
    turns.run("exec_command", cmd="cd sub && git diff")
    assert not turns.mark.exists()


@needs_sandbox
def test_a_folder_of_the_workspace_that_looks_like_a_bare_repository_is_none(turns: Turns):
    monitor = turns.evil("monitor")
    subprocess.run(["git", "init", "-q", "--bare", str(turns.work)], check=True)
    for key, value in (("core.fsmonitor", str(monitor)), ("core.bare", "false"), ("core.worktree", str(turns.work))):
        subprocess.run(["git", "config", "--file", str(turns.work / "config"), key, value], check=True)
    said = turns.run("exec_command", cmd="git status")
    assert not turns.mark.exists()
    assert "safe.bareRepository" in said


@needs_sandbox
def test_settings_of_git_that_the_user_passes_on_stay(turns: Turns):
    subprocess.run(["git", "init", "-q", str(turns.work)], check=True)
    turns.environ |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "status.short", "GIT_CONFIG_VALUE_0": "true"}
    keep = 'framework.keep_variables=["GIT_CONFIG_*"]'
    (turns.work / "new").touch()
    assert "?? new" in turns.run("exec_command", keep, cmd="git status")
