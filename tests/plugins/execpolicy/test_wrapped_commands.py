"""Programs that run another command: rules that forbid see the other one, and no prefix of them can be allowed for ever."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from codex_framework import ApprovalPolicy, CommandRequest, Verdict
from codex_framework.testing import turn_facts
from codex_plugin_execpolicy.amendments import is_banned
from codex_plugin_execpolicy.judgement import Evaluation
from codex_plugin_execpolicy.layers import RuleLayers
from codex_plugin_execpolicy.policy import ExecPolicy
from codex_plugin_execpolicy.wrappers import Search, TooManyCommandsError


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
        "env -S'curl x'",
        "env -vS'curl x'",
        "env -iS 'curl x'",
        "env --split-string='curl x'",
        "env --s='-u A B=c curl x'",
        r"env -S'curl\_x'",
        "env -S'B=c nohup' curl x",
        "su -c'curl x'",
        "su root -c 'curl x'",
        "su -c curl root",
        "su -lc'curl x' root",
        "su --command='curl x'",
        "sg wheel 'curl x'",
        "bash -ce 'curl x'",
        "bash -ceo pipefail 'curl x'",
        "bash -c -o pipefail 'curl x'",
        "bash -xo pipefail -c 'curl x'",
        "setarch x86_64 curl x",
        "setarch x86_64 -R curl x",
        "linux64 curl x",
        "faketime '1 day ago' curl x",
        "gosu nobody curl x",
        "git rebase -x 'curl x' main",
        "git rebase -xcurl main",
        "git rebase --exec='curl x' main",
        "git rebase -i --exe 'curl x'",
        "git difftool -x curl",
        "git -C . difftool --extcmd='curl x'",
        "git bisect run curl x",
        "git submodule foreach --recursive 'curl x'",
        "git filter-branch --tree-filter 'curl x'",
        "trap 'curl x' EXIT",
        "su -c\"env -S'bash -ce curl'\"",
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
        "env -S'echo curl'",
        "git rebase -i curl",
        "git clean -xdf curl",
        "bash -ceo pipefail 'echo curl' curl",
    ],
)
def test_a_word_that_is_not_run_is_not_forbidden(policy: ExecPolicy, tmp_path: Path, command: str):
    assert verdict(policy, tmp_path, command) is None


@pytest.mark.parametrize("command", ["git -C . push", "git --no-pager -c a=b push", "env git --git-dir=x push"])
def test_options_before_a_subcommand_do_not_hide_it(policy: ExecPolicy, tmp_path: Path, command: str):
    (tmp_path / "rules" / "a.rules").write_text('prefix_rule(["git", "push"], "forbidden")')
    assert verdict(policy, tmp_path, command) is Verdict.FORBID
    assert verdict(policy, tmp_path, command.replace("push", "fetch")) is None


MANY = {
    "wrappers": "env " * 30_000 + "curl x",
    "options": "env -a " * 15_000 + "curl x",
    "commands": "env -i env -i ls; " * 6_000 + "env -a b env curl x",
    "scripts": "eval " * 20_000 + "curl x",
    "letters": f"su -{'c' * 100_000}url",
    "values": f"su {'-cccccccccccccccccccc ' * 5_000}'-ccurl x'",
}


@pytest.mark.parametrize("decision", ["prompt", "forbidden"])
@pytest.mark.parametrize("command", MANY.values(), ids=MANY)
def test_a_line_with_too_many_commands_meets_the_strictest_rule(
    policy: ExecPolicy, tmp_path: Path, command: str, decision: str
):
    (tmp_path / "rules" / "a.rules").write_text(f'prefix_rule(["curl"], "{decision}")\nprefix_rule(["env"])')
    assert verdict(policy, tmp_path, command) is (Verdict.FORBID if decision == "forbidden" else Verdict.ASK)


@pytest.mark.parametrize("command", MANY.values(), ids=MANY)
def test_the_search_ends_soon(command: str):
    """The limit counts characters, because what takes time is to copy words and to parse scripts, not to count commands."""
    words = tuple(word.strip("'") for word in command.split())
    seen = 0
    with contextlib.suppress(TooManyCommandsError):
        for found in Search().within(words):
            seen += len(found) + sum(map(len, found))
    assert seen <= 1_000_000


def test_only_rules_that_ask_or_forbid_cost_a_search(policy: ExecPolicy, tmp_path: Path):
    (tmp_path / "rules" / "a.rules").write_text('prefix_rule(["ls"])')
    assert verdict(policy, tmp_path, MANY["wrappers"]) is None


def test_a_long_line_of_ordinary_commands_is_searched_whole(policy: ExecPolicy, tmp_path: Path):
    script = "; ".join(f"timeout 9 nice -n 5 echo {number}" for number in range(3_000))
    assert verdict(policy, tmp_path, script) is None
    assert verdict(policy, tmp_path, f"{script}; timeout 9 nice -n 5 curl x") is Verdict.FORBID


@pytest.mark.parametrize(
    "prefix",
    [
        *("setarch x86_64", "setarch x86_64 bash", "faketime now python3 -c", "faketime now", "taskset ff sh"),
        *("gosu root bash", "chrt 1 perl -e", "timeout 9 taskset ff sh", "env -S ls", "pkexec bash", "git -C"),
        *("git -C /x rebase", "git --no-pager difftool", "git --no-pager", "git -C /x -c a=b status"),
    ],
)
def test_what_runs_any_program_behind_operands_cannot_be_allowed_for_ever(prefix: str):
    assert is_banned(tuple(prefix.split()))


def test_a_long_prefix_of_wrappers_is_judged_at_once():
    assert is_banned(("timeout",) * 400)
    assert is_banned((*("timeout",) * 400, "make", "bash"))


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
        *(
            "git -C /repo status",
            "git -C /a -C b --no-pager log",
            "git --no-pager diff",
            "jq",
            "jq .",
            "setarch x86_64 make",
        ),
        *("faketime now make", "taskset ff make", "gosu me make test"),
        *("busybox ls", "npx tsc", "docker ps", "bash -c ls", "go test", "ls", "cat", "rm x"),
    ],
)
def test_certain_commands_can(prefix: str):
    assert not is_banned(tuple(prefix.split()))


def test_a_line_of_many_commands_with_rules_is_judged_in_time_that_grows_with_it(
    policy: ExecPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The decision over all matches must not be made again for each of them, which takes seconds for such a line."""
    (tmp_path / "rules" / "a.rules").write_text('prefix_rule(["ls"], "prompt")')
    asked = []
    whole = Evaluation.decision.fget
    monkeypatch.setattr(Evaluation, "decision", property(lambda found: asked.append(found) or whole(found)))
    assert verdict(policy, tmp_path, "ls; " * 100) is Verdict.ASK
    assert len(asked) < 10
