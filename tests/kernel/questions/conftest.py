"""Threads whose questions are answered as a test says, with parts that show what commands were given."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from codex_framework import (
    CommandRequest,
    CommandVerdict,
    FileAccess,
    FunctionSpec,
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
from codex_framework.commands.process.spawn import Unconfined
from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.events.command import (
    ApplyPatchApprovalRequestEvent,
    ExecApprovalRequestEvent,
)
from codex_framework.contract.protocol.items import FunctionCallOutput, Message, message_text
from codex_framework.contract.protocol.ops import ExecApproval, PatchApproval
from codex_framework.contract.protocol.policies import ApprovalPolicy, Decision, ReviewDecision
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
        child = await Unconfined().start(launch)
        while self._box.ready is not None and not self._box.ready.exists():
            await asyncio.sleep(0.005)
        return child


class Box:
    """A sandbox that confines nothing.

    Attributes:
        ready: A file that a command makes before it counts as started, so that no signal reaches it earlier.
    """

    name = "box"
    ready: Path | None = None

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


ASKS = CommandVerdict(verdict=Verdict.ASK, reason="hm", amendment=("echo",))


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
