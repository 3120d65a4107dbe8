"""What people are asked about commands, hosts and folders, and how their answers are kept."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from codex_framework import (
    AccessMode,
    CommandRequest,
    CommandVerdict,
    FileAccess,
    FunctionSpec,
    NetworkMode,
    NetworkRules,
    NetworkTarget,
    ProxyPorts,
    SandboxReport,
    ToolCall,
    ToolContext,
    ToolOutput,
    TurnFacts,
    Verdict,
)
from codex_framework.commands.approval import ApprovalCache
from codex_framework.commands.process.spawn import Unconfined
from codex_framework.contract.errors import CodexError
from codex_framework.contract.permissions.profile import additional_from_wire
from codex_framework.contract.protocol.events import ErrorEvent, TurnAbortedEvent
from codex_framework.contract.protocol.events.command import (
    ApplyPatchApprovalRequestEvent,
    ExecApprovalRequestEvent,
    ExecCommandBeginEvent,
)
from codex_framework.contract.protocol.items import FunctionCallOutput, Message, message_text
from codex_framework.contract.protocol.ops import ExecApproval, PatchApproval
from codex_framework.contract.protocol.policies import ApprovalPolicy, Decision, GranularApproval, ReviewDecision
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.contract.roles.networks import BlockedRequest
from codex_framework.contract.roles.sandboxes import ChildProcess, Launch
from codex_framework.testing.replies import call, say

OUTSIDE_TMP = "sandbox_workspace_write.exclude_slash_tmp = true\n"  # folders of tests lie there
WORKSPACE = 'sandbox_mode = "workspace-write"\n' + OUTSIDE_TMP

YES, NO = ReviewDecision(Decision.APPROVED), ReviewDecision(Decision.DENIED)
FOR_SESSION, ABORT = ReviewDecision(Decision.APPROVED_FOR_SESSION), ReviewDecision(Decision.ABORT)

Answer = Callable[[Any], ReviewDecision]


class Plan:
    """Starts commands as they are: what counts here is which access they were given."""

    env: Mapping[str, str] = {"CONFINED": "1"}

    def __init__(self, box: Box) -> None:
        self._box = box

    async def start(self, launch: Launch) -> ChildProcess:
        self._box.launches.append(launch)
        if launch.gate is not None:
            for target in self._box.wanted:
                self._box.reached.append((target, await launch.gate.passes(target)))  # type: ignore[attr-defined]
        return await Unconfined().start(launch)


class Box:
    name = "box"

    def __init__(self) -> None:
        self.accesses: list[FileAccess] = []
        self.launches: list[Launch] = []
        self.wanted: list[NetworkTarget] = []
        self.reached: list[tuple[NetworkTarget, bool]] = []

    def probe(self) -> SandboxReport:
        return SandboxReport(available=True)

    def confine(self, access: FileAccess, cwd: Path) -> Plan:
        self.accesses.append(access)
        return Plan(self)

    async def aclose(self) -> None:
        return


class Gate:
    """Lets through what its rules allow by name, and asks about the rest."""

    def __init__(self, rules: NetworkRules, ask: Callable[[NetworkTarget], Awaitable[bool]] | None) -> None:
        self._rules = rules
        self._ask = ask
        self.blocked: tuple[BlockedRequest, ...] = ()
        self.closed = False

    async def passes(self, target: NetworkTarget) -> bool:
        if target.host in self._rules.domains:
            allowed = self._rules.domains[target.host] == "allow"
            if not allowed:
                self.blocked = (*self.blocked, BlockedRequest(target, "blocked-by-denylist"))
            return allowed
        return self._ask is not None and await self._ask(target)

    def environment(self, ports: ProxyPorts) -> Mapping[str, str]:
        return {}

    async def serve(self, http: socket.socket, socks: socket.socket | None) -> None:
        return

    async def listen(self) -> ProxyPorts:
        return ProxyPorts(1, 2)

    async def aclose(self) -> None:
        self.closed = True


class Proxy:
    name = "proxy"

    def __init__(self) -> None:
        self.gates: list[Gate] = []
        self.closed = False

    def gate(self, rules: NetworkRules, ask: Callable[[NetworkTarget], Awaitable[bool]] | None = None) -> Gate:
        self.gates.append(Gate(rules, ask))
        return self.gates[-1]

    async def aclose(self) -> None:
        self.closed = True


class Keeper:
    """A policy that asks about everything, proposes a prefix, and keeps what it is told."""

    name = "keeper"

    def __init__(self, verdict: CommandVerdict | None = None, *, broken: bool = False) -> None:
        self._verdict = verdict
        self._broken = broken
        self.prefixes: list[tuple[str, ...]] = []
        self.hosts: dict[str, bool] = {}

    def judge(self, command: CommandRequest, facts: TurnFacts) -> CommandVerdict | None:
        if command.argv[:1] in self.prefixes:
            return CommandVerdict(verdict=Verdict.ALLOW)
        return self._verdict

    def judge_network(self, target: NetworkTarget, facts: TurnFacts) -> Verdict | None:
        if target.host not in self.hosts:
            return None
        return Verdict.ALLOW if self.hosts[target.host] else Verdict.FORBID

    def remember_prefix(self, prefix: tuple[str, ...], facts: TurnFacts) -> str:
        if self._broken:
            raise CodexError("the disk is full")
        self.prefixes.append(prefix)
        return f"kept {' '.join(prefix)}"

    def remember_host(self, target: NetworkTarget, facts: TurnFacts, *, allow: bool) -> str:
        self.hosts[target.host] = allow
        return f"{'allowed' if allow else 'denied'} {target.host}"


class Shell:
    """Runs ``argv`` with what else the test wants of the request."""

    name = "sh"
    parallel_safe = True
    spec = FunctionSpec("sh", "Runs a command.", {"type": "object", "properties": {}, "additionalProperties": True})

    def __init__(self, *argv: str, **fields: Any) -> None:
        self._request = CommandRequest(argv=argv, **fields)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        result = await context.run(self._request)
        return ToolOutput(f"{result.exit_code} {result.output}")


class Played:
    """A thread's turns, with every question answered as the test says."""

    def __init__(self, make_kernel: Any, workspace: Path) -> None:
        self._make_kernel = make_kernel
        self.workspace = workspace
        self.box = Box()
        self.proxy = Proxy()
        self.asked: list[Any] = []
        self.events: list[Any] = []
        self.history: list[Any] = []

    def play(
        self,
        tool: Any,
        answer: Answer = lambda event: YES,
        *,
        turns: int = 1,
        policy: Any = ApprovalPolicy.ON_REQUEST,
        config: str = WORKSPACE,
        policies: Any = (),
        proxies: bool = True,
    ) -> list[Any]:
        from codex_framework.testing import Offer

        async def main() -> None:
            offer = Offer(
                tools=[tool],
                sandboxes=[self.box],
                network_proxies=[self.proxy] if proxies else [],
                policies=policies,
            )
            replies = [reply for _ in range(turns) for reply in (call(tool.spec.name), say("done"))]
            made = self._make_kernel(replies, plugins=[offer], config=config, entry_points=())
            async with made as kernel:
                thread = await kernel.start_thread(approval_policy=policy)
                for _ in range(turns):
                    async for event in thread.stream("go"):
                        self.events.append(event)
                        if isinstance(event, (ExecApprovalRequestEvent, ApplyPatchApprovalRequestEvent)):
                            self.asked.append(event)
                            await self._answer(thread, event, answer(event))
                self.history = list(thread.history.items)

        asyncio.run(asyncio.wait_for(main(), 60))
        return [item.output for item in self.history if isinstance(item, FunctionCallOutput)]

    async def _answer(self, thread: Any, event: Any, decision: ReviewDecision) -> None:
        if isinstance(event, ExecApprovalRequestEvent):
            await thread.submit(ExecApproval(event.approval_id or event.call_id, decision))
        else:
            await thread.submit(PatchApproval(event.call_id, decision))

    @property
    def notes(self) -> list[str]:
        messages = (item for item in self.history if isinstance(item, Message) and item.role == "developer")
        return [message_text(message) for message in messages]


@pytest.fixture
def played(make_kernel: Any) -> Played:
    return Played(make_kernel, make_kernel.workspace)


# Commands


NO_RULES = "approval required by policy rule, but AskForApproval::Granular.rules is false"
NO_SANDBOX = "approval required by policy, but AskForApproval::Granular.sandbox_approval is false"
ASKS = CommandVerdict(verdict=Verdict.ASK, reason="hm", amendment=("echo",))


def test_the_question_offers_the_prefix_that_could_be_allowed(played: Played) -> None:
    keeper = Keeper(ASKS)
    assert played.play(Shell("echo", "a"), policies=[keeper]) == ["0 a\n"]
    (event,) = played.asked
    assert event.proposed_execpolicy_amendment == ("echo",)
    assert event.reason == "hm"
    amendment = {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": ["echo"]}}
    assert event.available_decisions == ("approved", "approved_for_session", amendment, "denied", "abort")
    assert keeper.prefixes == []


class WithVariables(Shell):
    """Each call sets other variables."""

    def __init__(self, *variables: Mapping[str, str]) -> None:
        super().__init__("printenv", "A")
        self._variables = list(variables)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        result = await context.run(self._request.evolve(env=self._variables.pop(0)))
        return ToolOutput(result.output)


def test_the_variables_of_a_call_are_shown_and_an_approval_holds_for_them_only(played: Played) -> None:
    tool = WithVariables({"A": "x y"}, {"A": "x y"}, {"A": "z"}, {"A": "z", "LIB": "e.so", "PAGER": "cat"})
    outputs = played.play(tool, lambda event: FOR_SESSION, turns=4, policies=[Keeper(ASKS)])
    assert outputs == ["x y\n", "x y\n", "z\n", "z\n"]
    shown = [("env", "A=x y", "printenv", "A"), ("env", "A=z", "printenv", "A")]
    shown.append(("env", "A=z", "LIB=e.so", "printenv", "A"))
    assert [event.command for event in played.asked] == shown
    assert played.asked[0].parsed_cmd == ({"type": "unknown", "cmd": "env 'A=x y' printenv A"},)
    begun = [event.command for event in played.events if isinstance(event, ExecCommandBeginEvent)]
    assert begun == [shown[0], *shown]


@pytest.mark.parametrize(
    ("variables", "shown"), [({}, "echo a | cat"), ({"A": "b"}, "env A=b sh -c 'echo a | cat'")], ids=["none", "one"]
)
def test_a_script_is_shown_as_it_is_unless_the_call_sets_variables(
    played: Played, variables: dict[str, str], shown: str
) -> None:
    played.play(Shell("sh", "-c", "echo a | cat", script="echo a | cat", env=variables), policies=[Keeper(ASKS)])
    assert [event.parsed_cmd for event in played.asked] == [({"type": "unknown", "cmd": shown},)]


def test_an_accepted_prefix_is_kept_and_not_asked_about_again(played: Played) -> None:
    keeper = Keeper(ASKS)
    accepted = ReviewDecision(Decision.APPROVED, execpolicy_amendment=("echo",))
    assert played.play(Shell("echo", "a"), lambda event: accepted, turns=3, policies=[keeper]) == ["0 a\n"] * 3
    assert len(played.asked) == 1
    assert keeper.prefixes == [("echo",)]
    assert played.notes == ["kept echo"]


def test_a_prefix_that_cannot_be_kept_holds_for_once_and_the_model_hears_of_it(played: Played) -> None:
    accepted = ReviewDecision(Decision.APPROVED, execpolicy_amendment=("echo",))
    keeper = Keeper(ASKS, broken=True)
    assert played.play(Shell("echo", "a"), lambda event: accepted, turns=2, policies=[keeper]) == ["0 a\n"] * 2
    assert len(played.asked) == 2
    assert played.notes == ["The rule could not be saved, so it applies only once: the disk is full"] * 2


@pytest.mark.parametrize(
    ("granular", "by_rule", "refusal"),
    [
        (GranularApproval(True, False, True), True, NO_RULES),
        (GranularApproval(True, False, True), False, None),
        (GranularApproval(False, True, True), True, None),
        (GranularApproval(False, True, True), False, NO_SANDBOX),
    ],
)
def test_granular_approval_tells_rules_from_judgement(
    played: Played, granular: GranularApproval, by_rule: bool, refusal: str | None
) -> None:
    verdict = CommandVerdict(verdict=Verdict.ASK, by_rule=by_rule)
    outputs = played.play(Shell("echo", "a"), policy=granular, policies=[Keeper(verdict)])
    assert outputs == [refusal or "0 a\n"]
    assert len(played.asked) == (refusal is None)


def test_a_refused_sandbox_is_lifted_only_where_the_policy_lets_one_ask(played: Played) -> None:
    fails = Shell("sh", "-c", 'test -z "$CONFINED" || { echo Permission denied >&2; exit 1; }; echo free')
    assert played.play(fails, policy=ApprovalPolicy.ON_FAILURE) == ["0 free\n"]
    assert [event.reason for event in played.asked] == ["command failed; retry without sandbox?"]
    assert played.play(fails, policy=ApprovalPolicy.ON_REQUEST) == ["1 Permission denied\n"]
    assert played.play(fails, policy=ApprovalPolicy.NEVER) == ["1 Permission denied\n"]
    assert played.play(fails, policy=GranularApproval(False, True, True)) == ["1 Permission denied\n"]
    assert len(played.asked) == 1
    assert played.play(fails, lambda event: NO, policy=ApprovalPolicy.ON_FAILURE) == ["1 Permission denied\n"]


def test_what_was_approved_before_it_ran_is_not_asked_about_twice(played: Played) -> None:
    fails = Shell("sh", "-c", 'test -z "$CONFINED" || { echo Permission denied >&2; exit 1; }; echo free')
    assert played.play(fails, policy=ApprovalPolicy.UNTRUSTED) == ["0 free\n"]
    assert len(played.asked) == 1


class Shells(Shell):
    """Runs its requests one after the other, one for each call."""

    def __init__(self, *requests: CommandRequest) -> None:
        self._requests = iter(requests)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        result = await context.run(next(self._requests))
        return ToolOutput(f"{result.exit_code} {result.output}")


@pytest.mark.parametrize(
    "other",
    [
        {"tty": True},
        {"cwd": ".."},
        {"escalate": "require_escalated"},
        {"argv": ("echo", "b")},
        {"argv": ("echo a",)},
        {"stdin": b"b"},
    ],
    ids=repr,
)
def test_an_approval_for_the_session_covers_the_same_command_only(played: Played, other: dict[str, Any]) -> None:
    request = CommandRequest(argv=("echo", "a"), stdin=b"a")
    shells = Shells(request, request, request.evolve(**other))
    played.play(shells, lambda event: FOR_SESSION, turns=3, policies=[Keeper(ASKS)])
    assert len(played.asked) == 2


def test_an_approval_for_the_session_does_not_cover_the_retry_without_the_sandbox(
    played: Played, tmp_path: Path
) -> None:
    additional = additional_from_wire({"file_system": {"write": [str(tmp_path)]}})
    fails = Shell("sh", "-c", "echo Permission denied >&2; exit 1", escalate="with_additional_permissions")
    fails._request = fails._request.evolve(additional=additional)
    config = WORKSPACE + "features.exec_permission_approvals = true\n"
    policy = GranularApproval(True, True, True)
    played.play(fails, lambda event: FOR_SESSION, policy=policy, config=config)
    assert [event.reason for event in played.asked] == [None, "command failed; retry without sandbox?"]
    assert [event.without_sandbox for event in played.asked] == [False, True]


def test_an_approval_for_the_session_needs_every_part_to_be_covered() -> None:
    cache = ApprovalCache()
    cache.remember(["a", "b"], FOR_SESSION)
    cache.remember(["c"], YES)
    assert cache.covers(["a"])
    assert cache.covers(["b", "a"])
    assert not cache.covers(["a", "c"])
    assert not cache.covers(["c"])
    assert not cache.covers([])


DENYING = """default_permissions = "p"
[permissions.p]
extends = ":workspace"
[permissions.p.filesystem]
"/etc/shadow" = "deny"
"""


def test_what_is_denied_by_name_stays_denied_without_the_sandbox(played: Played) -> None:
    shell = Shell("echo", "a", escalate="require_escalated")
    assert played.play(shell, config=DENYING) == ["0 a\n"]
    (access,) = (access for access in played.box.accesses if access.network is NetworkMode.ON)
    assert access.mode_of(Path("/usr/x")) is AccessMode.WRITE
    assert access.mode_of(Path("/etc/shadow")) is AccessMode.DENY
    fails = Shell("sh", "-c", "echo Permission denied >&2; exit 1")
    asked = len(played.asked)
    assert played.play(fails, policy=ApprovalPolicy.ON_FAILURE, config=DENYING) == ["1 Permission denied\n"]
    assert len(played.asked) == asked, "nothing is offered that could not be given"


def test_without_denials_an_approved_command_runs_outside(played: Played) -> None:
    shell = Shell("sh", "-c", "echo ${CONFINED:-free}", escalate="require_escalated")
    assert played.play(shell) == ["0 free\n"]
    assert [(event.without_sandbox, "without_sandbox" in to_wire(event)) for event in played.asked] == [(True, False)]


# Additional permissions


FEATURE = WORKSPACE + "features.exec_permission_approvals = true\n"


def wanting(folder: Path, *, network: bool = False, **files: Any) -> Shell:
    raw: dict[str, Any] = {"file_system": files or {"write": [str(folder)]}}
    if network:
        raw["network"] = {"enabled": True}
    return Shell("true", escalate="with_additional_permissions", additional=additional_from_wire(raw))


def test_additional_permissions_widen_the_sandbox_for_the_one_call(played: Played, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    assert played.play(wanting(more, network=True), config=FEATURE) == ["0 "]
    (access,) = (access for access in played.box.accesses if access.may_write(more / "x"))
    assert not access.may_write(more / ".git" / "x")
    assert access.network is NetworkMode.ON
    (event,) = played.asked
    assert event.additional_permissions == {
        "network": {"enabled": True},
        "file_system": {"entries": [{"path": {"type": "path", "path": str(more)}, "access": "write"}]},
    }
    assert played.play(Shell("true"), config=FEATURE) == ["0 "]
    assert not played.box.accesses[-1].may_write(more / "x")


def test_additional_permissions_are_refused_where_nobody_may_be_asked(played: Played, tmp_path: Path) -> None:
    for policy, word in ((ApprovalPolicy.NEVER, "Never"), (GranularApproval(False, True, True), "Granular")):
        (refusal,) = played.play(wanting(tmp_path), policy=policy, config=FEATURE)
        assert refusal == f"approval policy is {word}: additional permissions cannot be requested; work without them"
    (refusal,) = played.play(wanting(tmp_path))
    assert "enable `features.exec_permission_approvals`" in refusal
    (refusal,) = played.play(Shell("true", escalate="with_additional_permissions"), config=FEATURE)
    assert refusal.startswith("missing `additional_permissions`")
    assert played.asked == []


@pytest.mark.parametrize("path", ["~nobody-of-this-name/x", "loop/x", "a" * 5000])
def test_additional_permissions_for_a_path_that_cannot_exist_are_a_question_like_any_other(
    played: Played, path: str
) -> None:
    (played.workspace / "loop").symlink_to("loop")
    assert played.play(wanting(played.workspace, read=[path]), config=FEATURE) == ["0 "]
    assert len(played.asked) == 1


def test_who_approves_additional_permissions_has_not_approved_to_lift_the_sandbox(
    played: Played, tmp_path: Path
) -> None:
    script = 'test -z "$CONFINED" || { echo Permission denied >&2; exit 1; }; echo free'
    additional = additional_from_wire({"file_system": {"write": [str(tmp_path)]}})
    fails = Shell("sh", "-c", script, escalate="with_additional_permissions", additional=additional)
    policy = GranularApproval(True, True, True)

    def refused_the_second(event: Any) -> ReviewDecision:
        return NO if event.reason == "command failed; retry without sandbox?" else YES

    assert played.play(fails, refused_the_second, policy=policy, config=FEATURE) == ["1 Permission denied\n"]
    assert len(played.asked) == 2
    assert played.play(fails, policy=policy, config=FEATURE) == ["0 free\n"]
    assert len(played.asked) == 4


def test_additional_permissions_do_not_lift_a_denial(played: Played, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    (secret / "deeper").mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(secret)
    config = f"""default_permissions = "p"
{OUTSIDE_TMP}
features.exec_permission_approvals = true
[permissions.p]
extends = ":workspace"
[permissions.p.filesystem]
"{secret}" = "deny"
"""
    away = tmp_path / "away"
    (secret / "way out").symlink_to(away)
    for path in (secret, secret / "deeper", link / "deeper", secret / "way out"):
        (refusal,) = played.play(wanting(path), config=config)
        assert refusal.startswith("additional permissions refused: ")
        assert refusal.endswith("is denied by the permission profile")
    assert played.asked == []
    assert played.play(wanting(tmp_path), config=config) == ["0 "]
    access = played.box.accesses[-1]
    assert access.may_write(tmp_path / "x")
    assert not access.may_read(secret / "deeper" / "x")


# Hosts


NETWORK = """default_permissions = "p"
[permissions.p]
extends = ":workspace"
[permissions.p.network]
enabled = true
[permissions.p.network.domains]
"known.example" = "allow"
"bad.example" = "deny"
"""


def target(host: str, port: int = 443, protocol: str = "https") -> NetworkTarget:
    return NetworkTarget(host, port, protocol)


def test_a_host_that_no_rule_speaks_of_is_asked_about(played: Played) -> None:
    played.box.wanted = [target("known.example"), target("bad.example"), target("new.example")]
    assert played.play(Shell("true"), config=NETWORK) == ["0 "]
    assert [allowed for _, allowed in played.box.reached] == [True, False, True]
    (event,) = played.asked
    assert event.command == ("network-access", "https://new.example:443")
    assert event.network_approval_context == {"host": "new.example", "protocol": "https"}
    assert event.proposed_network_policy_amendments == (
        {"host": "new.example", "action": "allow"},
        {"host": "new.example", "action": "deny"},
    )
    assert all(gate.closed for gate in played.proxy.gates)
    assert played.proxy.closed, "it ends with the kernel"


def test_an_answer_for_the_session_holds_for_host_port_and_protocol(played: Played) -> None:
    played.box.wanted = [target("a.example"), target("a.example"), target("a.example", 80, "http")]
    played.play(Shell("true"), lambda event: FOR_SESSION, turns=2, config=NETWORK)
    assert [event.network_approval_context["protocol"] for event in played.asked] == ["https", "http"]
    assert [allowed for _, allowed in played.box.reached] == [True] * 6


@pytest.mark.parametrize(("action", "allowed"), [("allow", True), ("deny", False)])
def test_a_rule_about_a_host_is_kept(played: Played, action: str, allowed: bool) -> None:
    keeper = Keeper()
    played.box.wanted = [target("a.example")]
    rule = {"host": "a.example", "action": action}
    verdict = Decision.APPROVED if allowed else Decision.DENIED
    played.play(
        Shell("true"),
        lambda event: ReviewDecision(verdict, network_amendment=rule),
        turns=2,
        config=NETWORK,
        policies=[keeper],
    )
    assert len(played.asked) == 1
    assert keeper.hosts == {"a.example": allowed}
    assert [one for _, one in played.box.reached] == [allowed] * len(played.box.reached)
    assert f"{'allowed' if allowed else 'denied'} a.example" in played.notes


def test_a_refused_host_ends_the_command(played: Played) -> None:
    played.box.wanted = [target("a.example")]
    outputs = played.play(Shell("sleep", "60"), lambda event: NO, config=NETWORK)
    assert outputs == ["Network access was denied by the Codex sandbox network proxy."]


def test_a_policy_that_denies_a_host_only_denies_the_host(played: Played) -> None:
    keeper = Keeper()
    keeper.hosts["a.example"] = False
    played.box.wanted = [target("a.example")]
    assert played.play(Shell("echo", "on"), config=NETWORK, policies=[keeper]) == ["0 on\n"]
    assert played.asked == []
    assert [allowed for _, allowed in played.box.reached] == [False]


def test_nobody_is_asked_about_hosts_where_nobody_may_be(played: Played) -> None:
    played.box.wanted = [target("a.example")]
    for policy in (ApprovalPolicy.NEVER, GranularApproval(False, True, True)):
        assert played.play(Shell("echo", "on"), policy=policy, config=NETWORK) == ["0 on\n"]
    assert played.asked == []


def test_a_policy_that_fails_denies_the_host_whatever_the_others_say(played: Played) -> None:
    class Broken(Keeper):
        name = "broken"

        def judge_network(self, target: NetworkTarget, facts: TurnFacts) -> Verdict | None:
            raise RuntimeError("no idea")

    allows = Keeper()
    allows.hosts["a.example"] = True
    for policies in ([Broken(), allows], [allows, Broken()]):
        played.box.wanted, played.box.reached = [target("a.example")], []
        assert played.play(Shell("echo", "on"), config=NETWORK, policies=policies) == ["0 on\n"]
        assert [allowed for _, allowed in played.box.reached] == [False]
    assert played.asked == []


def test_a_command_that_the_proxy_stopped_is_not_offered_without_the_sandbox(played: Played) -> None:
    fails = Shell("sh", "-c", "echo Permission denied >&2; exit 1")
    played.box.wanted = [target("bad.example")]
    assert played.play(fails, policy=ApprovalPolicy.ON_FAILURE, config=NETWORK) == ["1 Permission denied\n"]
    assert played.asked == []
    played.box.wanted = [target("known.example")]
    played.play(fails, lambda event: NO, policy=ApprovalPolicy.ON_FAILURE, config=NETWORK)
    assert [event.reason for event in played.asked] == ["command failed; retry without sandbox?"]


def test_aborting_at_a_question_about_a_host_ends_the_turn(played: Played) -> None:
    played.box.wanted = [target("a.example")]
    played.play(Shell("sleep", "60"), lambda event: ABORT, config=NETWORK)
    assert any(isinstance(event, TurnAbortedEvent) for event in played.events)
    assert all(gate.closed for gate in played.proxy.gates)


def test_without_a_proxy_nothing_runs(played: Played) -> None:
    (refusal,) = played.play(Shell("echo", "on"), config=NETWORK, proxies=False)
    assert refusal.startswith("only some hosts may be reached, but no network proxy is loaded. ")


# Folders


class Patch:
    name = "patch"
    parallel_safe = False
    spec = FunctionSpec("patch", "Writes files.", {"type": "object", "properties": {}, "additionalProperties": True})

    def __init__(self, *paths: Path) -> None:
        self._paths = paths

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        from codex_framework.contract.protocol.events.command import AddFile
        from codex_framework.contract.roles.tools import PatchRequest

        await context.approve_patch(PatchRequest(changes={str(path): AddFile("x") for path in self._paths}))
        return ToolOutput(" ".join(str(context.access.may_write(path)) for path in self._paths))


def test_a_folder_can_be_granted_for_the_session(played: Played, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "a").mkdir(parents=True)
    outputs = played.play(Patch(other / "x", other / "a" / "y"), lambda event: FOR_SESSION, turns=2)
    (event,) = played.asked
    assert event.grant_root == str(other)
    assert outputs == ["False False", "True True"]


def test_approving_once_grants_nothing(played: Played, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert played.play(Patch(other / "x"), turns=2) == ["False", "False"]
    assert len(played.asked) == 2


def test_too_much_is_never_offered(played: Played, tmp_path: Path) -> None:
    kept = played.workspace / ".git" / "config"
    for paths in ([Path("/x")], [Path("/etc/x")], [Path.home() / "x"], [kept]):
        played.play(Patch(*paths), lambda event: FOR_SESSION)
        assert played.asked[-1].grant_root is None, paths
    assert not any(isinstance(event, ErrorEvent) for event in played.events)


# Nobody there


PRECAUTION = CommandVerdict(verdict=Verdict.ASK, precaution=True)
NOBODY = "rejected: this needs an approval, and nobody can be asked for it"


@pytest.mark.parametrize(
    ("verdicts", "policy", "output"),
    [
        ([PRECAUTION], ApprovalPolicy.ON_REQUEST, "0 ran\n"),
        ([PRECAUTION], ApprovalPolicy.ON_FAILURE, "0 ran\n"),
        ([PRECAUTION], ApprovalPolicy.UNTRUSTED, NOBODY),
        ([PRECAUTION, ASKS], ApprovalPolicy.ON_REQUEST, NOBODY),
        ([ASKS, PRECAUTION], ApprovalPolicy.ON_REQUEST, NOBODY),
        ([PRECAUTION, CommandVerdict(verdict=Verdict.ALLOW)], ApprovalPolicy.ON_REQUEST, "0 ran\n"),
    ],
)
def test_only_a_question_that_was_a_precaution_needs_no_answer_if_nobody_is_there(
    make_kernel: Any, verdicts: list[CommandVerdict], policy: ApprovalPolicy, output: str
) -> None:
    from codex_framework.contract.protocol.events.thread import WarningEvent
    from codex_framework.testing import Offer

    async def main() -> tuple[list[Any], list[str]]:
        policies = [Keeper(verdict) for verdict in verdicts]
        for number, keeper in enumerate(policies):
            keeper.name = f"keeper-{number}"
        offer = Offer(tools=[Shell("echo", "ran")], sandboxes=[Box()], policies=policies)
        made = make_kernel([call("sh"), say("done")], plugins=[offer], config=WORKSPACE, entry_points=())
        async with made as kernel:
            thread = await kernel.start_thread(approval_policy=policy)
            result = await thread.run("go")
            outputs = [item.output for item in thread.history.items if isinstance(item, FunctionCallOutput)]
            return outputs, [event.message for event in result.events if isinstance(event, WarningEvent)]

    outputs, warnings = asyncio.run(asyncio.wait_for(main(), 60))
    assert outputs == [output]
    assert len([text for text in warnings if "nobody" in text]) == (output == NOBODY)


def test_what_nobody_has_approved_is_not_run_again_without_the_sandbox(make_kernel: Any) -> None:
    from codex_framework.testing import Offer

    fails = Shell("sh", "-c", 'test -z "$CONFINED" || { echo Permission denied >&2; exit 1; }; echo free')

    async def main() -> list[Any]:
        offer = Offer(tools=[fails], sandboxes=[Box()], policies=[Keeper(PRECAUTION)])
        made = make_kernel([call("sh"), say("done")], plugins=[offer], config=WORKSPACE, entry_points=())
        async with made as kernel:
            thread = await kernel.start_thread(approval_policy=ApprovalPolicy.ON_FAILURE)
            await thread.run("go")
            return [item.output for item in thread.history.items if isinstance(item, FunctionCallOutput)]

    assert "free" not in asyncio.run(asyncio.wait_for(main(), 60))[0]


def test_a_run_that_nobody_listens_to_is_denied_what_it_asks(make_kernel: Any, tmp_path: Path) -> None:
    from codex_framework.contract.protocol.events.thread import WarningEvent
    from codex_framework.testing import Offer

    async def main() -> tuple[list[Any], list[str]]:
        offer = Offer(
            tools=[Shell("echo", "ran", escalate="require_escalated"), Patch(tmp_path / "x")], sandboxes=[Box()]
        )
        made = make_kernel([call("sh"), call("patch"), say("done")], plugins=[offer], config=WORKSPACE, entry_points=())
        async with made as kernel:
            thread = await kernel.start_thread(approval_policy=ApprovalPolicy.ON_REQUEST)
            result = await thread.run("go")
            outputs = [item.output for item in thread.history.items if isinstance(item, FunctionCallOutput)]
            return outputs, [event.message for event in result.events if isinstance(event, WarningEvent)]

    outputs, warnings = asyncio.run(asyncio.wait_for(main(), 60))
    assert outputs == ["rejected: this needs an approval, and nobody can be asked for it"] * 2
    assert [text for text in warnings if "nobody" in text] == [
        "nobody can answer, so the answer is no: the command echo ran",
        f"nobody can answer, so the answer is no: a patch of {tmp_path}/x",
    ]


def test_a_listener_can_answer_what_a_run_asks(make_kernel: Any) -> None:
    from codex_framework.testing import Offer

    async def main() -> list[Any]:
        offer = Offer(tools=[Shell("echo", "ran", escalate="require_escalated")], sandboxes=[Box()])
        made = make_kernel([call("sh"), say("done")], plugins=[offer], config=WORKSPACE, entry_points=())
        async with made as kernel:
            thread = await kernel.start_thread(approval_policy=ApprovalPolicy.ON_REQUEST)

            async def answer() -> None:
                async for event in listening:
                    if isinstance(event.msg, ExecApprovalRequestEvent):
                        await thread.submit(ExecApproval(event.msg.call_id, YES))
                        return

            listening = thread.events()
            answering = asyncio.ensure_future(answer())
            await thread.run("go")
            await answering
            return [item.output for item in thread.history.items if isinstance(item, FunctionCallOutput)]

    assert asyncio.run(asyncio.wait_for(main(), 60)) == ["0 ran\n"]


def test_where_the_command_that_asked_is_gone_the_next_one_asks(tmp_path: Path) -> None:
    from codex_framework.commands.approval_prompts import ApprovalPrompts
    from codex_framework.testing import call_context

    async def main() -> None:
        asked: list[asyncio.Future[ReviewDecision]] = []

        def ask(_: Any) -> Awaitable[ReviewDecision]:
            asked.append(asyncio.get_running_loop().create_future())
            return asked[-1]

        async with call_context(tmp_path) as context:
            turn = context.caller.turn.evolve(approval_policy=ApprovalPolicy.ON_REQUEST)
            caller = context.caller.evolve(ask=ask, turn=turn)
            questions = ApprovalPrompts(())
            request = CommandRequest(argv=("true",))
            first, second, third = (
                asyncio.ensure_future(questions.host(target("a.example"), request, caller, tmp_path)) for _ in range(3)
            )
            await asyncio.sleep(0)
            assert len(asked) == 1
            first.cancel()
            await asyncio.wait([first])
            while len(asked) < 2:
                await asyncio.sleep(0)
            asked[1].set_result(YES)
            assert await asyncio.gather(second, third) == [True, True]
            assert len(asked) == 2

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("decision", [ABORT, ReviewDecision(Decision.TIMED_OUT)])
def test_a_question_that_nobody_could_answer_refuses_the_host_and_no_more(
    tmp_path: Path, decision: ReviewDecision
) -> None:
    from codex_framework.commands.approval_prompts import ApprovalPrompts
    from codex_framework.testing import call_context

    async def main() -> None:
        async def ask(_: Any) -> ReviewDecision:
            return decision

        async with call_context(tmp_path) as context:
            turn = context.caller.turn.evolve(approval_policy=ApprovalPolicy.ON_REQUEST)
            caller = context.caller.evolve(ask=ask, turn=turn)
            request = CommandRequest(argv=("true",))
            assert await ApprovalPrompts(()).host(target("a.example"), request, caller, tmp_path) is False

    asyncio.run(asyncio.wait_for(main(), 60))
