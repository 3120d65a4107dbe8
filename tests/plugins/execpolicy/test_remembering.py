"""What people decide for good is written down whole, and holds from the next command on, everywhere."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework import (
    ApprovalPolicy,
    CodexError,
    CommandRequest,
    CommandVerdict,
    NetworkTarget,
    TurnFacts,
    Verdict,
)
from codex_framework.contract.protocol.policies import WorkspaceWrite
from codex_framework.testing import turn_facts
from codex_plugin_execpolicy.amendments import allow_prefix, decide_host
from codex_plugin_execpolicy.layers import RuleLayers
from codex_plugin_execpolicy.policy import ExecPolicy
from codex_plugin_execpolicy.rulefile import read_rules

UNCONFINED = CommandVerdict(verdict=Verdict.ALLOW, bypass_sandbox=True)
HTTPS = NetworkTarget("example.com", 443, "https")


@pytest.fixture
def policy(layers: RuleLayers) -> ExecPolicy:
    return ExecPolicy(layers)


@pytest.fixture
def facts(home: Path, work: Path) -> TurnFacts:
    return turn_facts(
        approval_policy=ApprovalPolicy.ON_REQUEST,
        sandbox_policy=WorkspaceWrite(),
        cwd=work,
        config={},
        codex_home=home,
    )


def written(home: Path) -> str:
    file = home / "rules" / "default.rules"
    return file.read_text() if file.exists() else ""


def test_an_allowed_prefix_holds_at_once_for_all(tmp_path: Path, policy: ExecPolicy, facts: TurnFacts) -> None:
    others = [ExecPolicy(RuleLayers(str(tmp_path / "etc"))) for _ in range(2)]
    command = CommandRequest(argv=("npm", "install", "x"))
    assert [each.judge(command, facts) for each in (policy, *others)] == [None] * 3
    text = policy.remember_prefix(("npm", "install"), facts)
    assert text.endswith('They run outside of the sandbox:\n- ["npm", "install"]')
    assert [each.judge(command, facts) for each in (policy, *others)] == [UNCONFINED] * 3
    assert policy.remember_prefix(("npm", "install"), facts) == text
    assert written(facts.codex_home or tmp_path) == 'prefix_rule(pattern=["npm", "install"], decision="allow")\n'


def test_a_decision_about_a_host_holds_at_once(policy: ExecPolicy, facts: TurnFacts, home: Path) -> None:
    other = NetworkTarget("other.example", 80, "http")
    assert policy.judge_network(HTTPS, facts) is None
    assert policy.remember_host(HTTPS, facts, allow=True) == (
        "From now on, the user allows connections to example.com (https)."
    )
    assert policy.remember_host(other, facts, allow=False) == (
        "From now on, the user denies connections to other.example (http)."
    )
    assert policy.remember_host(other, facts, allow=False)
    assert [policy.judge_network(target, facts) for target in (HTTPS, other)] == [Verdict.ALLOW, Verdict.FORBID]
    assert policy.judge_network(NetworkTarget("example.com", 80, "http"), facts) is None
    assert written(home) == (
        'network_rule(host="example.com", protocol="https", decision="allow", justification="allowed when asked")\n'
        'network_rule(host="other.example", protocol="http", decision="deny", justification="denied when asked")\n'
    )


@pytest.mark.parametrize(
    ("rule", "host", "verdict"),
    [
        ('network_rule("Example.COM.", "https", "allow")', "example.com", Verdict.ALLOW),
        ('network_rule("example.com:8443", "https", "prompt")', "EXAMPLE.com", Verdict.ASK),
        ('network_rule("example.com", "https_connect", "forbidden")', "example.com", Verdict.FORBID),
        ('network_rule("example.com", "http-connect", "deny")', "example.com.", Verdict.FORBID),
        ('network_rule("example.com", "https", "deny")', "www.example.com", None),
        ('network_rule("[2001:DB8:0::1]:443", "https", "deny")', "2001:db8::1", Verdict.FORBID),
        ('network_rule("127.0.0.1", "https", "deny")', "127.1", Verdict.FORBID),
        ('network_rule("127.0.0.1", "https", "deny")', "0x7f000001", Verdict.FORBID),
        ('network_rule("127.0.0.1", "https", "deny")', "::ffff:127.0.0.1", Verdict.FORBID),
        ('network_rule("日本.example", "https", "deny")', "xn--wgv71a.example", Verdict.FORBID),
        ('network_rule("example.com", "socks5_tcp", "deny")', "example.com", None),
    ],
)
def test_hosts_are_the_same_however_they_are_written(
    policy: ExecPolicy, facts: TurnFacts, home: Path, rule: str, host: str, verdict: Verdict | None
) -> None:
    (home / "rules" / "a.rules").write_text(rule)
    assert policy.judge_network(NetworkTarget(host, 443, "https"), facts) is verdict


def test_the_strictest_rule_about_a_host_counts(policy: ExecPolicy, facts: TurnFacts, home: Path) -> None:
    file = home / "rules" / "a.rules"
    rules = [f'network_rule("example.com", "https", "{decision}")' for decision in ("deny", "prompt", "allow")]
    for number, verdict in enumerate((Verdict.FORBID, Verdict.ASK, Verdict.ALLOW)):
        file.write_text("\n".join(rules[number:]))
        assert policy.judge_network(HTTPS, facts) is verdict


@pytest.mark.parametrize("decision", ["deny", "prompt"])
def test_what_a_stricter_rule_would_undo_is_not_written(
    policy: ExecPolicy, facts: TurnFacts, home: Path, decision: str
) -> None:
    word = {"deny": "forbidden"}.get(decision, decision)
    (home / "rules" / "a.rules").write_text(
        f'network_rule("example.com", "https", "{decision}")\nprefix_rule(["npm"], "{word}")'
    )
    with pytest.raises(
        CodexError, match=r"a rule .* https to example\.com, so a rule that allows it would have no effect"
    ):
        policy.remember_host(HTTPS, facts, allow=True)
    with pytest.raises(CodexError, match=r"a rule .* `npm install`, so a rule that allows it would have no effect"):
        policy.remember_prefix(("npm", "install"), facts)
    assert written(home) == ""
    policy.remember_host(HTTPS, facts, allow=False)
    assert policy.judge_network(HTTPS, facts) is Verdict.FORBID


def test_where_rules_are_left_out_it_is_said(tmp_path: Path, facts: TurnFacts, home: Path) -> None:
    policy = ExecPolicy(RuleLayers(str(tmp_path / "etc"), ignore_rules=True))
    assert policy.remember_prefix(("npm", "install"), facts).endswith("so it applies only in other sessions.")
    assert policy.remember_host(HTTPS, facts, allow=True).endswith("so it applies only in other sessions.")
    assert len(written(home).splitlines()) == 2


def test_without_a_home_nothing_can_be_kept(policy: ExecPolicy, facts: TurnFacts) -> None:
    homeless = facts.evolve(codex_home=None)
    with pytest.raises(CodexError, match="no folder for saving rules"):
        policy.remember_prefix(("npm", "install"), homeless)
    with pytest.raises(CodexError, match="no folder for saving rules"):
        policy.remember_host(HTTPS, homeless, allow=True)


@pytest.mark.parametrize("text", ["prefix_rule([", 'prefix_rule(pattern=["a", "b"], decision="al', "\udcff"])
def test_nothing_is_added_to_a_file_with_a_mistake(policy: ExecPolicy, facts: TurnFacts, home: Path, text: str) -> None:
    file = home / "rules" / "default.rules"
    before = text.encode(errors="surrogateescape")
    file.write_bytes(before)
    for _ in range(2):
        with pytest.raises(CodexError, match=r"nothing was added to .*default\.rules, because it ") as caught:
            policy.remember_prefix(("npm", "install"), facts)
        assert caught.value.hint
        with pytest.raises(CodexError, match="nothing was added to"):
            policy.remember_host(HTTPS, facts, allow=True)
    assert file.read_bytes() == before


def test_what_is_no_host_is_not_written(policy: ExecPolicy, facts: TurnFacts, home: Path) -> None:
    for host in ("", "*", "a b", 'a", "x'):
        with pytest.raises(CodexError, match="network_rule host"):
            policy.remember_host(NetworkTarget(host, 1, "https"), facts, allow=True)
    assert written(home) == ""


@pytest.mark.parametrize("before", ["", "# no line end", 'prefix_rule(["a"])\n'])
def test_on_a_full_disk_nothing_is_half_written(tmp_path: Path, before: str) -> None:
    rooms = range(0, 110, 9)
    files = [tmp_path / str(room) / "rules" / "default.rules" for room in rooms]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text(before)
    program = (
        "import pathlib, resource, sys\n"
        "from codex_framework import CodexError\n"
        "from codex_plugin_execpolicy.amendments import allow_prefix, decide_host\n"
        "for argument in sys.argv[2:]:\n"
        "    home = pathlib.Path(argument)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]) + int(home.name), resource.RLIM_INFINITY))\n"
        "    for add in (lambda: allow_prefix(home, ('npm', 'install', 'x' * 50)),"
        " lambda: decide_host(home, 'example.com', 'https', allow=True)):\n"
        "        try:\n"
        "            add()\n"
        "        except CodexError as error:\n"
        "            print(error)\n"
    )
    command = [sys.executable, "-B", "-c", program, str(len(before)), *(str(file.parents[1]) for file in files)]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    for file in files:
        text = file.read_text()
        assert text.startswith(before)
        lines = list(filter(None, text.removeprefix(before).splitlines()))
        assert all(line.endswith(")") for line in lines)
        read_rules(file)
        assert told.stdout.count(f"{file} cannot be written: File too large") == 2 - len(lines)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_process_that_dies_while_writing_leaves_whole_rules(home: Path) -> None:
    program = (
        "import itertools, pathlib, sys; from codex_plugin_execpolicy.amendments import allow_prefix\n"
        "for n in itertools.count(): allow_prefix(pathlib.Path(sys.argv[1]), ('x' * 2000, sys.argv[2], str(n)))"
    )
    for number in range(5):
        before = len(written(home))
        with subprocess.Popen([sys.executable, "-c", program, home, str(number)]) as process:
            while len(written(home)) == before:
                time.sleep(0.01)
            time.sleep(0.03)
            process.kill()
        read_rules(home / "rules" / "default.rules")
    assert all(line.endswith(")") or line.startswith("#") for line in written(home).splitlines())
    allow_prefix(home, ("npm",))
    assert written(home).endswith('\nprefix_rule(pattern=["npm"], decision="allow")\n')


def test_a_rule_counts_only_when_all_of_it_is_on_the_disk(home: Path) -> None:
    file = home / "rules" / "default.rules"
    program = (
        "import os, pathlib, signal, sys; from codex_plugin_execpolicy.amendments import allow_prefix\n"
        "os.pwrite = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "allow_prefix(pathlib.Path(sys.argv[1]), ('npm',))"
    )
    file.write_text("# mine")
    assert subprocess.run([sys.executable, "-c", program, home], check=False).returncode == -signal.SIGKILL
    read_rules(file)
    assert file.read_text() == '# mine\n#refix_rule(pattern=["npm"], decision="allow")\n'
    assert allow_prefix(home, ("npm",)), "the comment of the dead process allows nothing"
    assert file.read_text().endswith('\nprefix_rule(pattern=["npm"], decision="allow")\n')


def test_a_lock_that_is_never_let_go_is_an_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    monkeypatch.setattr("codex_plugin_execpolicy.amendments._LOCK_WAIT_S", 0.05)
    with (home / "rules" / "default.rules").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(CodexError, match="cannot be written: another program has locked it"):
            allow_prefix(home, ("npm",))
    assert allow_prefix(home, ("npm",))


def test_a_file_system_without_locks_keeps_a_rule(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import fcntl

    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    assert allow_prefix(home, ("npm",))


def test_a_rule_is_not_saved_where_the_lock_fails_otherwise(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import fcntl

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", broken)
    with pytest.raises(CodexError, match="cannot be written: Input/output error"):
        allow_prefix(home, ("npm",))


def test_a_file_that_is_a_link_stays_one(tmp_path: Path, home: Path) -> None:
    (tmp_path / "kept.rules").write_text("")
    (home / "rules" / "default.rules").symlink_to(tmp_path / "kept.rules")
    allow_prefix(home, ("npm",))
    assert (home / "rules" / "default.rules").is_symlink()
    assert (tmp_path / "kept.rules").read_text() == 'prefix_rule(pattern=["npm"], decision="allow")\n'


@given(host=st.from_regex(r"[a-zA-Z0-9][a-zA-Z0-9.-]{0,20}", fullmatch=True), allow=st.booleans())
def test_what_is_kept_of_a_host_is_what_is_judged(
    tmp_path_factory: pytest.TempPathFactory, host: str, allow: bool
) -> None:
    home = tmp_path_factory.mktemp("home")
    decide_host(home, host, "http", allow=allow)
    rules = read_rules(home / "rules" / "default.rules").rules
    assert rules.network_decision(host, "http") is (Verdict.ALLOW if allow else Verdict.FORBID)
