"""Programs that run another command: rules that forbid see the other one, and no prefix of them can be allowed for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_framework import ApprovalPolicy, CommandRequest, Verdict
from codex_framework.testing import turn_facts
from codex_plugin_execpolicy.amendments import is_banned
from codex_plugin_execpolicy.layers import RuleLayers
from codex_plugin_execpolicy.policy import ExecPolicy


@pytest.fixture
def policy(tmp_path: Path) -> ExecPolicy:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "a.rules").write_text('prefix_rule(["curl"], "forbidden")')
    return ExecPolicy(RuleLayers(str(tmp_path / "etc")), {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})


def verdict(policy: ExecPolicy, home: Path, command: str) -> Verdict | None:
    facts = turn_facts(approval_policy=ApprovalPolicy.NEVER, cwd=home, codex_home=home, shell="/bin/bash")
    found = policy.judge(CommandRequest(argv=("bash", "-lc", command)), facts)
    return None if found is None else found.verdict


@pytest.mark.parametrize(
    "command",
    [
        "env curl x",
        "env A=b curl x",
        "env -u A curl x",
        "env -S 'curl x'",
        "/usr/bin/env -i A=b /usr/bin/curl x",
        "command curl x",
        "command -p curl x",
        "exec curl x",
        "exec -a name curl x",
        "nohup curl x &",
        "timeout 10 curl x",
        "timeout -s KILL 10s curl x",
        "timeout -k 5 10 nice -n 5 curl x",
        "echo x | xargs curl",
        "echo x | xargs -I {} -n 1 curl {}",
        "sh -c 'curl x'",
        "sh -ec 'curl x'",
        "bash -x -c 'true; curl x'",
        "env sh -c 'nohup curl x'",
        "find . -exec curl {} ';'",
        "find . -name a -execdir sh -c 'curl x' ';'",
        "busybox curl x",
        "sudo -u root curl x",
        "eval curl x",
        "eval 'curl x'",
        "flock lock curl x",
        "flock lock -c 'curl x'",
        "stdbuf -oL curl x",
        "env env env env env env env curl x",
        "if true; then timeout 9 curl x > log; fi",
    ],
)
def test_a_rule_that_forbids_a_program_sees_it_behind_another(policy: ExecPolicy, tmp_path: Path, command: str):
    assert verdict(policy, tmp_path, command) is Verdict.FORBID


@pytest.mark.parametrize(
    "command",
    [
        "command -v curl",
        "command -V curl",
        "env echo curl",
        "timeout 10 echo curl x",
        "sh -c 'echo curl'",
        "find . -name curl",
        "grep -r curl .",
        "nice make curl",
        "xargs echo curl",
        "python script.py curl",
    ],
)
def test_a_word_that_is_not_run_is_not_forbidden(policy: ExecPolicy, tmp_path: Path, command: str):
    assert verdict(policy, tmp_path, command) is None


@pytest.mark.parametrize(
    "prefix",
    [
        *("awk", "awk -F :", "gawk -f", "find", "find .", "find . -name x", "fd x", "busybox", "busybox sh", "toybox"),
        *(
            "ssh",
            "ssh host",
            "ssh -o A=b host",
            "scp a",
            "rsync -a",
            "npx",
            "npx -y",
            "bunx",
            "uvx",
            "npm exec",
            "yarn dlx",
        ),
        *("sudo -u", "sudo -u root", "sudo -u root bash", "sudo sh", "env A=b", "env A=b sh", "env -i", "timeout 9"),
        *(
            "timeout -k 1 9",
            "timeout 9 sh",
            "nice",
            "nice python3",
            "xargs",
            "xargs -n1 ls",
            "nohup bash",
            "exec",
            "eval x",
        ),
        *(
            "python3 -W ignore",
            "python3 -X dev",
            "bash -O extglob",
            "node -r x",
            "perl -I lib",
            "perl -e 1",
            "php -d a=b",
        ),
        *("bash -c $1", "sh -c '$@'", "git -C /x", "git -c a=b", "git config", "git submodule", "git bisect run"),
        *("docker run", "docker", "kubectl exec", "uv run", "flock lock", "vim", "strace ls", "su root", "parallel"),
    ],
)
def test_what_runs_other_programs_cannot_be_allowed_for_ever(prefix: str):
    assert is_banned(tuple(prefix.split()))
    assert is_banned(("/usr/bin/" + prefix.split(maxsplit=1)[0], *prefix.split()[1:]))


@pytest.mark.parametrize(
    "prefix",
    [
        *(
            "git push",
            "git status",
            "git commit",
            "git fetch origin",
            "python3 manage.py",
            "python3 -m pytest",
            "bash run.sh",
        ),
        *(
            "npm",
            "npm test",
            "npm run build",
            "make",
            "make test",
            "cargo test",
            "env A=b make",
            "sudo apt-get",
            "timeout 9 make",
        ),
        *("busybox ls", "npx tsc", "docker ps", "bash -c ls", "go test", "ls", "cat", "rm x"),
    ],
)
def test_certain_commands_can(prefix: str):
    assert not is_banned(tuple(prefix.split()))
