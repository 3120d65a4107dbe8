"""Hook ``codex_constraints``: which settings a thread may have, and what its turns may do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from codex_framework import (
    Agent,
    ApprovalPolicy,
    CodexError,
    CommandPolicy,
    CommandVerdict,
    Constraint,
    Decision,
    Plugin,
    PluginContext,
    PluginError,
    ReviewDecision,
    Settings,
    Status,
    ThreadContext,
    ThreadError,
    ToolContext,
    Verdict,
    hookimpl,
    tool,
)
from codex_framework.contract.permissions.profile import Permissions, permissions_of
from codex_framework.contract.protocol.events import ApprovalRequest, ErrorEvent, ExecApprovalRequestEvent, WarningEvent
from codex_framework.contract.protocol.items import CustomToolCallOutput, FunctionCallOutput
from codex_framework.contract.protocol.ops import (
    ExecApproval,
    ReloadUserConfig,
    ThreadSettings,
    ThreadSettingsOverrides,
)
from codex_framework.contract.protocol.permissions import AbsolutePath, AccessMode, AdditionalPermissions, FileEntry
from codex_framework.contract.protocol.policies import DangerFullAccess, ReadOnly, WorkspaceWrite
from codex_framework.testing import ContractViolation, Offer, call, check_constraint, custom_call, say
from codex_framework.threads.turn.turn_permissions import TurnPermissions

WORKER: Agent[str] = Agent(name="worker", instructions="Work.")


class Narrows(Constraint):
    """Lets threads read only, once ``on`` is set; threads in ``of`` alone if that is given."""

    name = "narrows"

    def __init__(self, *, on: bool = True) -> None:
        self.on = on
        self.of: set[str] | None = None
        self.asked: list[str] = []

    def narrow(self, permissions: Permissions, thread: ThreadContext) -> Permissions:
        self.asked.append(thread.id)
        if not self.on or (self.of is not None and thread.id not in self.of):
            return permissions
        return permissions.read_only().evolve(options=permissions.options.evolve(fixed=True))


def play(make_kernel: Any, story: Any, constraint: Any, plugins: Any = (), **settings: Any) -> Any:
    async def main() -> Any:
        offered = [Offer(constraints=[constraint]), *plugins]
        async with make_kernel([], plugins=offered) as kernel, asyncio.timeout(30):
            return await story(kernel, await kernel.start_thread(**settings))

    return asyncio.run(main())


def outputs(thread: Any) -> list[Any]:
    kinds = (FunctionCallOutput, CustomToolCallOutput)
    return [item.output for item in thread.history.items if isinstance(item, kinds)]


async def errors(thread: Any, **overrides: Any) -> list[str]:
    heard = thread.events(answers=False)
    await thread.submit(ThreadSettings(ThreadSettingsOverrides(**overrides)))
    heard.end()
    return [event.msg.message async for event in heard if isinstance(event.msg, ErrorEvent)]


def test_codex_constraints_example_refuses_a_policy(example: Any, make_kernel: Any) -> None:
    async def main() -> Any:
        config = 'approval_policy = "on-request"'
        async with make_kernel([say("done")], plugins=[example("codex_constraints")], config=config) as kernel:
            thread = await kernel.start_thread()
            before = thread.settings
            found = await errors(thread, approval_policy=ApprovalPolicy.NEVER, model="other")
            with pytest.raises(ThreadError, match="not allowed here"):
                await kernel.start_thread(approval_policy="never")
            with pytest.raises(ThreadError, match="not allowed here"):
                await thread.conversation.context("test").spawn(WORKER.evolve(approval_policy="never"))
            return found, before == thread.settings, (await thread.run("Go!")).status

    found, unchanged, status = asyncio.run(main())
    assert found == ["the approval policy `never` is not allowed here. Use on-request."]
    assert unchanged, "nothing of the update is applied"
    assert status is Status.COMPLETED, "the session goes on"


def test_a_call_that_waited_for_an_approval_gets_what_is_permitted_after_it(make_kernel: Any, tmp_path: Path) -> None:
    narrows, made = Narrows(on=False), tmp_path / "made"

    @tool(needs_approval=True)
    async def write(context: ToolContext) -> str:
        """Write."""
        await context.write_text(str(made), "text")
        return "written"

    async def narrow_and_approve(request: Any) -> ReviewDecision:
        narrows.on = True
        return ReviewDecision(Decision.APPROVED)

    async def story(kernel: Any, thread: Any) -> Any:
        kernel.model.add(call("write"), say("done"))
        return await thread.run("Go!", on_request=narrow_and_approve)

    settings = {"sandbox_policy": DangerFullAccess(), "approval_policy": ApprovalPolicy.ON_REQUEST}
    result = play(make_kernel, story, narrows, [Offer(tools=[write])], **settings)
    assert result.status is Status.COMPLETED
    assert not made.exists()


def test_codex_constraints_that_raise_refuse(make_kernel: Any) -> None:
    class Breaks(Constraint):
        name = "breaks"
        started = False

        def check(self, settings: Settings, thread: ThreadContext | None) -> None:
            if self.started:
                raise RuntimeError("no rules")

        def narrow(self, permissions: Permissions, thread: ThreadContext) -> Permissions:
            raise RuntimeError("no rules")

    breaks = Breaks()

    async def story(kernel: Any, thread: Any) -> Any:
        breaks.started = True
        with pytest.raises(PluginError, match="constraint 'breaks'"):
            await kernel.start_thread()
        found = await errors(thread, model="other")
        kernel.model.add(say("done"))
        return found, thread.settings.model, await thread.run("Go!"), len(kernel.model.requests)

    found, model, result, requests = play(make_kernel, story, breaks)
    assert "check() failed: RuntimeError: no rules" in found[0]
    assert model != "other"
    assert result.status is Status.FAILED
    assert "narrow() failed" in (result.error or "")
    assert requests == 0


class Quiet(Constraint):
    """Demands a model provider's search mode and a model, and says so."""

    name = "quiet"

    def configure(self, config: Mapping[str, Any], warn: Callable[[str], None]) -> Mapping[str, Any]:
        if config.get("web_search") not in (None, "disabled"):
            warn("no searches")
        return {"web_search": "disabled"}

    def settle(self, settings: Settings, warn: Callable[[str], None]) -> Settings:
        if settings.model != "quiet":
            warn("a quiet model")
        return settings.evolve(model="quiet")


def test_a_file_that_is_read_again_stays_within_constraints(make_kernel: Any, codex_home: Path) -> None:
    async def main() -> Any:
        async with make_kernel([say("done")], plugins=[Offer(constraints=[Quiet()])]) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread()
            (codex_home / "config.toml").write_text('web_search = "live"\n')
            await thread.submit(ReloadUserConfig())
            await thread.run("Go!")
            return thread.conversation.config["web_search"]

    assert asyncio.run(main()) == "disabled"


def test_a_constraint_replaces_settings_and_says_so(make_kernel: Any) -> None:
    seen: list[str] = []

    class Early(Plugin):
        @hookimpl
        def codex_tools(self, plugin: PluginContext) -> list[Any]:
            seen.append(plugin.config["web_search"])
            return []

    async def main() -> Any:
        config = 'web_search = "live"'
        plugins = [Early, Offer(constraints=[Quiet()])]
        async with make_kernel([say("done")], plugins=plugins, config=config) as kernel, asyncio.timeout(30):
            thread = await kernel.start_thread(config={"web_search": "cached"}, model="loud")
            context = thread.conversation.context("test")
            context.reconfigure({"web_search": "live"})
            heard = thread.events(answers=False)
            await thread.run("Go!")
            heard.end()
            told = [event.msg.message async for event in heard if isinstance(event.msg, WarningEvent)]
            resumed_from = thread.id
            await thread.shutdown()
            resumed = await kernel.resume_thread(resumed_from, model="loud")
            return context.config["web_search"], thread.settings.model, resumed.settings.model, told

    search, model, resumed, told = asyncio.run(main())
    assert (search, model, resumed) == ("disabled", "quiet", "quiet")
    assert seen == ["disabled"], "plugins never see the configuration as it was"
    assert [line for line in told if line in ("no searches", "a quiet model")] == ["no searches", "a quiet model"]


@pytest.mark.parametrize("method", ["configure", "settle"])
def test_a_constraint_that_cannot_replace_anything_refuses(make_kernel: Any, method: str) -> None:
    def breaks(self: Any, *arguments: Any) -> Any:
        raise RuntimeError("no rules")

    kind = type("Breaks", (Constraint,), {"name": "breaks", method: breaks})

    async def main() -> None:
        async with make_kernel([], plugins=[Offer(constraints=[kind()])]) as kernel:
            await kernel.start_thread()

    with pytest.raises(PluginError, match=rf"constraint 'breaks'.*{method}\(\) failed: RuntimeError: no rules"):
        asyncio.run(main())


def test_a_constraint_cannot_widen(make_kernel: Any) -> None:
    class Widens(Constraint):
        name = "widens"

        def narrow(self, permissions: Permissions, thread: ThreadContext) -> Permissions:
            return permissions_of(DangerFullAccess())

    async def story(kernel: Any, thread: Any) -> Any:
        kernel.model.add(say("done"))
        return await thread.run("Go!")

    result = play(make_kernel, story, Widens(), sandbox_policy=ReadOnly())
    assert result.status is Status.FAILED
    assert "permit more than those it was given" in (result.error or "")


@pytest.mark.parametrize("deep", [False, True])
def test_a_constraint_holds_for_children(make_kernel: Any, tmp_path: Path, deep: bool) -> None:
    constraint = Narrows()
    made = tmp_path / "made"

    async def story(kernel: Any, thread: Any) -> Any:
        constraint.of = {thread.id}  # not the child's own
        child = await thread.conversation.context("test").spawn(WORKER)
        if deep:
            child = await child.conversation.context("test").spawn(WORKER)
        kernel.model.add(call("exec_command", cmd=f"touch {made}", login=False), say("done"))
        await child.run("Go!")
        return made.exists()

    settings: Any = {"sandbox_policy": DangerFullAccess(), "approval_policy": ApprovalPolicy.NEVER}
    assert not play(make_kernel, story, constraint, **settings)


def test_a_running_turn_is_narrowed_from_its_next_call_on(make_kernel: Any, tmp_path: Path) -> None:
    constraint = Narrows(on=False)

    @tool
    async def switch() -> str:
        """Switch the constraint on."""
        constraint.on = True
        return "ok"

    async def story(kernel: Any, thread: Any) -> Any:
        kernel.model.add(
            call("exec_command", cmd=f"touch {tmp_path}/before", login=False),
            call("switch"),
            call("exec_command", cmd=f"touch {tmp_path}/after", login=False),
            say("done"),
        )
        await thread.run("Go!")
        return sorted(path.name for path in tmp_path.iterdir() if path.name in ("before", "after"))

    settings: Any = {"sandbox_policy": DangerFullAccess(), "approval_policy": ApprovalPolicy.NEVER}
    assert play(make_kernel, story, constraint, [Offer(tools=[switch])], **settings) == ["before"]


def test_what_the_user_grants_stays_within_constraints(make_kernel: Any, tmp_path: Path) -> None:
    class ReadsOnly(Constraint):
        name = "reads_only"

        def narrow(self, permissions: Permissions, thread: ThreadContext) -> Permissions:
            return permissions.read_only()

    more = AdditionalPermissions((FileEntry(AbsolutePath(str(tmp_path)), AccessMode.WRITE),))

    async def story(kernel: Any, thread: Any) -> list[bool]:
        permitted = TurnPermissions(thread.conversation, "turn")
        wider = permitted.settings.permissions.with_entries(more.entries)
        permitted.grant("local", more, False)
        return [
            each.may_write(tmp_path / "x") for each in (permitted.facts()["access"], permitted.resolve("local", wider))
        ]

    assert play(make_kernel, story, ReadsOnly()) == [False, False]
    assert play(make_kernel, story, Narrows(on=False)) == [True, True]


class Allows(CommandPolicy):
    """Lets every command run without a sandbox, by a rule."""

    name = "allows"

    def judge(self, command: Any, facts: Any) -> CommandVerdict:
        return CommandVerdict(verdict=Verdict.ALLOW, bypass_sandbox=True)


@pytest.mark.parametrize("policy", [ApprovalPolicy.ON_REQUEST, ApprovalPolicy.ON_FAILURE, ApprovalPolicy.UNTRUSTED])
@pytest.mark.parametrize("by_rule", [False, True])
def test_no_approval_lifts_fixed_limits(
    make_kernel: Any, tmp_path: Path, policy: ApprovalPolicy, by_rule: bool
) -> None:
    """Neither a rule, nor an escalation, nor an answer that the user gave for the session before."""
    constraint = Narrows(on=False)
    made = tmp_path / "made"
    patch = f"*** Begin Patch\n*** Add File: {made}\n+x\n*** End Patch"
    escalated: Any = {"sandbox_permissions": "require_escalated", "justification": "?"}
    more: Any = {"file_system": {"write": [str(tmp_path)]}}
    calls = [
        call("exec_command", cmd=f"touch {made}", login=False, **escalated),
        call("exec_command", cmd=f"touch {made}", login=False),
        call(
            "exec_command",
            cmd=f"touch {made}",
            login=False,
            sandbox_permissions="with_additional_permissions",
            additional_permissions=more,
        ),
        custom_call("apply_patch", patch),
        call("request_permissions", permissions=more),
    ]

    async def story(kernel: Any, thread: Any) -> Any:
        asked: list[Any] = []

        async def answer(request: Any) -> ReviewDecision:
            asked.append(request)
            return ReviewDecision(Decision.APPROVED_FOR_SESSION)

        for one in calls:  # without limits, with answers for the session
            kernel.model.add(one, say("done"))
            await thread.run("Go!", on_request=answer)
            made.unlink(missing_ok=True)
        constraint.on = True
        before = len(asked)
        answers = []
        for one in calls:
            kernel.model.add(one, say("done"))
            await thread.run("Go!", on_request=answer)
            answers.append(outputs(thread)[-1])
        questions = [request for request in asked[before:] if isinstance(request, ApprovalRequest)]
        return answers, questions, made.exists()

    features = "features.exec_permission_approvals = true\nfeatures.request_permissions_tool = true\n"
    plugins = [Offer(policies=[Allows()])] if by_rule else []

    async def main() -> Any:
        offered = [Offer(constraints=[constraint]), *plugins]
        async with make_kernel([], plugins=offered, config=features) as kernel, asyncio.timeout(60):
            settings: Any = {"sandbox_policy": WorkspaceWrite(exclude_slash_tmp=True), "approval_policy": policy}
            return await story(kernel, await kernel.start_thread(**settings))

    answers, questions, exists = asyncio.run(main())
    assert not exists
    # What the limits permit is still asked about where the policy demands it: a plain command, under `untrusted`.
    assert len(questions) <= (1 if policy is ApprovalPolicy.UNTRUSTED else 0)
    assert all(getattr(question, "without_sandbox", False) is False for question in questions)
    assert "fixed" in answers[0]
    assert "no approval lifts the limits" in answers[3]
    assert "fixed" in answers[4]


def violations(constraint: Any) -> tuple[str, ...]:
    with pytest.raises(ContractViolation) as caught:
        check_constraint(constraint)
    return caught.value.violations


def test_constraints_that_keep_to_their_role_pass_the_check(example: Any) -> None:
    check_constraint(Narrows())
    (refuses,) = example("codex_constraints").codex_constraints()
    check_constraint(refuses)


def test_constraints_that_do_not_are_found() -> None:
    class Idle(Constraint):
        name = "idle"

    class Odd(Constraint):
        name = "odd"
        count = 0

        def check(self, settings: Settings, thread: ThreadContext | None) -> None:
            raise KeyError("x")

        def narrow(self, permissions: Permissions, thread: ThreadContext) -> Any:
            self.count += 1
            return permissions_of(DangerFullAccess()) if self.count > 2 else None

    class Later(Constraint):
        name = "later"

        async def check(self, settings: Settings, thread: ThreadContext | None) -> None:  # type: ignore[override]
            raise CodexError("no")

    class Grows(Constraint):
        name = "grows"

        def configure(self, config: Mapping[str, Any], warn: Any) -> Mapping[str, Any]:
            return {"developer_instructions": config.get("developer_instructions", "") + "More."}

        def settle(self, settings: Settings, warn: Any) -> Any:
            return settings.evolve(model=f"{settings.model}+")

    class Wrong(Constraint):
        name = "wrong"

        def configure(self, config: Mapping[str, Any], warn: Any) -> Any:
            return ["features"]

        def settle(self, settings: Settings, warn: Any) -> Any:
            return None

    assert violations(Idle()) == ("it overrides none of configure(), settle(), check() and narrow()",)
    grown = violations(Grows())
    assert "configure() demands something else of a configuration that has what it demands" in grown
    assert any("replaces settings that it returned itself" in text for text in grown)
    assert any("returns list, not a table" in text for text in violations(Wrong()))
    assert any("returns NoneType, not Settings" in text for text in violations(Wrong()))
    found = violations(Odd())
    assert any("raises KeyError" in text for text in found)
    assert any("is async" in text or "async" in text for text in violations(Later()))


def test_an_approval_is_not_asked_for_what_is_refused_anyway(make_kernel: Any) -> None:
    async def story(kernel: Any, thread: Any) -> Any:
        heard = thread.events()
        kernel.model.add(
            call("exec_command", cmd="true", sandbox_permissions="require_escalated", justification="?"), say("done")
        )
        await thread.run("Go!")
        heard.end()
        return [event.msg async for event in heard if isinstance(event.msg, (ExecApprovalRequestEvent, ExecApproval))]

    assert play(make_kernel, story, Narrows(), approval_policy=ApprovalPolicy.ON_REQUEST) == []
