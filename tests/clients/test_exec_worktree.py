"""``exec --worktree`` and ``exec --trust``."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import call, say


def git(folder: Path, *argv: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=a@b")
    return subprocess.run(["git", *identity, *argv], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(cli: Any) -> Path:
    (cli.work / ".git" / "objects").rmdir()
    (cli.work / ".git").rmdir()
    (cli.work / "sub").mkdir()
    (cli.work / "sub" / "file.txt").write_text("committed\n")
    git(cli.work, "init", "-q")
    git(cli.work, "add", ".")
    git(cli.work, "commit", "-qm", "first")
    (cli.work / "sub" / "file.txt").write_text("changed\n")
    return Path(cli.work)


def worktrees(cli: Any) -> list[Path]:
    return sorted((cli.home / "worktrees").glob("*/*"))


def decisions(cli: Any) -> dict[str, str]:
    projects = tomllib.loads((cli.home / "config.toml").read_text()).get("projects", {})
    return {name: table["trust_level"] for name, table in projects.items()}


@pytest.mark.parametrize(
    "argv", [("exec", "--worktree", "-C", "sub"), ("--worktree", "-C", "sub", "exec"), ("-C", "sub", "e", "--worktree")]
)
@pytest.mark.usefixtures("repository")
def test_a_session_works_in_a_worktree_of_its_own(cli: Any, argv: tuple[str, ...]) -> None:
    write = call("exec_command", cmd="cat file.txt; git status --short; echo new > new.txt; pwd")
    server = cli.serve(write, say("done"))
    ran = cli.run(*argv, "-s", "workspace-write", "go")
    assert ran.status == 0, ran.err
    (tree,) = worktrees(cli)
    assert tree.name == cli.work.name
    said = json.dumps(server.requests[1].json["input"][-1])
    assert "committed" in said
    assert f"{tree}/sub" in said
    assert (tree / "sub" / "new.txt").read_text() == "new\n"
    assert not (cli.work / "sub" / "new.txt").exists()
    assert git(tree, "rev-parse", "--abbrev-ref", "HEAD") == "HEAD\n"
    (rollout,) = cli.rollouts()
    assert json.loads(rollout.read_text().splitlines()[0])["payload"]["cwd"] == f"{tree}/sub"


@pytest.mark.usefixtures("repository")
def test_the_session_is_resumed_in_its_worktree_and_a_fork_gets_another_one(cli: Any) -> None:
    cli.serve(say("ok"), repeat_last=True)
    cli.exec("--worktree", "one")
    (first,) = worktrees(cli)
    assert cli.run("resume", "--last", "two", cwd=first).status == 0
    assert len(worktrees(cli)) == 1
    assert cli.exec("fork", "--worktree", "--last", "--all", "three").status == 0
    assert len(worktrees(cli)) == 2


def test_no_hook_and_no_monitor_of_the_repository_runs(cli: Any, repository: Path) -> None:
    cli.serve(say("ok"))
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {cli.home}/hooked\n")
    hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", f"touch {cli.home}/monitored")
    assert cli.exec("--worktree", "go").status == 0
    assert not (cli.home / "hooked").exists()
    assert not (cli.home / "monitored").exists()


@pytest.mark.usefixtures("repository")
def test_variables_of_git_lead_to_no_other_repository(cli: Any, tmp_path: Path) -> None:
    cli.serve(say("ok"))
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    cli.env |= {"GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other)}
    assert cli.exec("--worktree", "go").status == 0
    assert len(worktrees(cli)) == 1


def test_the_decision_about_the_repository_holds_in_the_worktree(cli: Any, repository: Path) -> None:
    server = cli.serve(say("ok"), say("ok"))
    (repository / ".codex").mkdir()
    (repository / ".codex" / "config.toml").write_text('model = "of-the-project"\n')
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "settings")
    cli.exec("--worktree", "go")
    cli.exec("--worktree", "--trust", "go")
    assert [request.json["model"] for request in server.requests] == ["gpt-5.5", "of-the-project"]
    assert decisions(cli) == {str(repository): "trusted"}


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (("exec", "resume", "--last", "--worktree", "go"), "--worktree cannot resume a session\nTo continue"),
        (("exec", "--worktree", "--ephemeral", "go"), "--worktree cannot be combined with --ephemeral"),
        (("exec", "--worktree", "review", "--uncommitted"), "--worktree is not supported for `review`"),
        (("review", "--worktree", "--uncommitted"), "--worktree is not supported for `review`"),
        (("exec", "--trust", "--ignore-user-config", "go"), "--trust cannot be combined with --ignore-user-config"),
    ],
)
@pytest.mark.usefixtures("repository")
def test_combinations_that_codex_refuses_are_refused(cli: Any, argv: tuple[str, ...], problem: str) -> None:
    cli.serve(say("ok"))
    ran = cli.run(*argv)
    assert ran.status == 1
    assert ran.err.startswith(f"Error: {problem}")
    assert worktrees(cli) == []


def test_other_commands_refuse_a_worktree(cli: Any) -> None:
    ran = cli.run("--worktree", "mcp", "list")
    assert (ran.status, worktrees(cli)) == (2, [])
    assert "these options belong to `exec`, not to `mcp`" in ran.err


def test_without_repository_or_commit_there_is_no_worktree(cli: Any, tmp_path: Path) -> None:
    cli.serve(say("ok"))
    outside, empty = tmp_path / "outside", tmp_path / "empty"
    outside.mkdir()
    empty.mkdir()
    git(empty, "init", "-q")
    ran = cli.exec("--worktree", "--skip-git-repo-check", "go", cwd=outside)
    assert f"no worktree for this session: {outside} is not in a git repository" in ran.err
    ran = cli.exec("--worktree", "go", cwd=empty)
    assert (ran.status, "Commit first, or leave --worktree out" in ran.err) == (1, True)
    cli.env["PATH"] = str(tmp_path)
    ran = cli.exec("--worktree", "go", cwd=empty)
    assert "git cannot be run: No such file or directory\nInstall git" in ran.err
    assert worktrees(cli) == []


@pytest.mark.parametrize("command", [("exec", "--trust", "go"), ("review", "--trust", "--uncommitted")])
def test_trust_is_stored_for_later(cli: Any, repository: Path, command: tuple[str, ...]) -> None:
    cli.serve(say("ok"), repeat_last=True)
    ran = cli.run(*command, cwd=repository / "sub")
    assert ran.status == 0, ran.err
    assert decisions(cli) == {str(repository): "trusted"}
    assert "\nsandbox: workspace-write" in ran.err
    before = (cli.home / "config.toml").read_text()
    assert cli.run(*command).status == 0
    assert (cli.home / "config.toml").read_text() == before


def test_trust_is_stored_by_an_ephemeral_run_too(cli: Any, repository: Path) -> None:
    cli.serve(say("ok"))
    assert cli.exec("--trust", "--ephemeral", "go").status == 0
    assert decisions(cli) == {str(repository): "trusted"}


def test_a_decision_against_a_project_stays(cli: Any, repository: Path) -> None:
    server = cli.serve(say("ok"))
    cli.run("trust", "--untrusted")
    ran = cli.exec("--trust", "go")
    assert ran.status == 1
    assert f"{repository} is marked as untrusted, which --trust does not change\nTo trust it after all" in ran.err
    assert (decisions(cli), server.requests) == ({str(repository): "untrusted"}, [])


def test_a_folder_without_repository_is_not_trusted_on_the_way(cli: Any, tmp_path: Path) -> None:
    cli.serve(say("ok"))
    outside = tmp_path / "outside"
    outside.mkdir()
    ran = cli.exec("--trust", "go", cwd=outside)
    assert ran.status == 1
    assert "Not inside a trusted directory" in ran.err
    assert decisions(cli) == {}
