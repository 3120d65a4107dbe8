"""What a program does wrong with a thread, and what it is told."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from codex_framework import (
    ApprovalPolicy,
    CommandVerdict,
    Decision,
    Interceptor,
    ReviewDecision,
    ThreadError,
    ToolContext,
    TurnContext,
    UserInput,
    Verdict,
    tool,
)
from codex_framework.cli.commands import BUILT_IN
from codex_framework.cli.exec_options import EXEC_OPTIONS, RESUME_OPTIONS, SHARED_OPTIONS
from codex_framework.contract.protocol.events import ErrorEvent, UserMessageEvent, WarningEvent
from codex_framework.contract.protocol.items import message_text
from codex_framework.contract.protocol.ops import (
    ExecApproval,
    RequestPermissionsResponse,
    TextInput,
    ThreadSettings,
    ThreadSettingsOverrides,
    UserInputOp,
)
from codex_framework.loader.static_commands import BUILT_IN_COMMANDS
from codex_framework.loader.value_checks import BUILT_IN_OPTIONS
from codex_framework.testing import Offer, call, say


@pytest.mark.parametrize(
    ("op", "fact"),
    [
        ("hello", "submit() takes an Op, not str. Pass an Op, such as UserInputOp."),
        (UserInputOp("hello"), "the op 'user_input' is wrong: its `items` is 'hello', not tuple[UserInputItem, ...]. Set "),
        (UserInputOp(("hello",)), "the op 'user_input' is wrong: its `items` has 'hello' at index 0. Set "),
        (UserInputOp((TextInput(5),)), "the op 'user_input' is wrong: its `items` has a value at index 0: its `text` is 5, not str. "),
        (ExecApproval("a", "approved"), "the op 'exec_approval' is wrong: its `decision` is 'approved', not ReviewDecision. Set "),
        (RequestPermissionsResponse("a", {}), "the op 'request_permissions_response' is wrong: its `response` is dict, not "),
        (
            ThreadSettings(ThreadSettingsOverrides(approval_policy="sometimes")),
            "the op 'thread_settings' is wrong: its `thread_settings`: its `approval_policy` is 'sometimes', not ",
        ),
    ],
)  # fmt: skip
def test_an_op_with_a_wrong_value_is_refused_and_the_thread_goes_on(make_thread: Any, op: Any, fact: str) -> None:
    async def main() -> None:
        async with make_thread([say("Hello.")]) as thread:
            events = thread.events()
            submission = await thread.submit(op)
            assert (await thread.run("Hi!")).final_message == "Hello."
            await thread.shutdown()
            (error,) = [event async for event in events if isinstance(event.msg, ErrorEvent)]
            assert error.msg.message.startswith(fact)
            assert error.id == submission

    asyncio.run(main())


def test_an_answer_to_nothing_is_a_warning_for_its_sender(make_thread: Any) -> None:
    async def main() -> None:
        async with make_thread([]) as thread:
            events = thread.events()
            submission = await thread.submit(ExecApproval("call-7", ReviewDecision(Decision.APPROVED)))
            await thread.shutdown()
            (warning,) = [event async for event in events if isinstance(event.msg, WarningEvent)]
            assert warning.id == submission
            assert warning.msg.message == (
                "no request 'call-7' is open: it was answered already, has ended, or never existed."
                " The answer has no effect; open requests: none."
            )

    asyncio.run(main())


def test_input_for_a_running_turn_has_the_id_of_the_turn(make_thread: Any) -> None:
    async def main() -> None:
        @tool
        async def steer(context: ToolContext) -> str:
            """Steer."""
            ids.append(await thread.submit(UserInputOp((TextInput("And this."),))))
            return "ok"

        ids: list[str] = []
        async with make_thread([call("steer"), say("Done.")], tools=[steer]) as made:
            thread = made
            events = thread.events()
            await thread.run("Hi!")
            await thread.shutdown()
            said = {event.msg.message: event.id async for event in events if isinstance(event.msg, UserMessageEvent)}
            assert said["And this."] == said["Hi!"] != ids[0]

    asyncio.run(main())


@pytest.mark.parametrize("early", [False, True])
def test_a_tool_that_waits_learns_of_input_that_no_request_has_yet(make_thread: Any, early: bool) -> None:
    """The input of the first request does not count, nor does what a request has taken up since."""

    async def main() -> None:
        @tool
        async def watch(context: ToolContext) -> str:
            """Wait for input."""
            if early:
                await thread.submit(UserInputOp((TextInput("And this."),)))
                await asyncio.sleep(0.01)
                began.set()
            waiting = asyncio.ensure_future(context.turn.until_input())
            if not early:
                await asyncio.sleep(0)
                assert not waiting.done()
                began.set()
            await asyncio.wait_for(waiting, 20)
            return "came"

        @tool
        async def idle(context: ToolContext) -> str:
            """Wait for input that does not come."""
            try:
                await asyncio.wait_for(context.turn.until_input(), 0.01)
            except TimeoutError:
                return "nothing came"
            return "came"

        began = asyncio.Event()
        replies = [call("idle"), call("watch"), call("idle"), say("Done.")]
        async with make_thread(replies, tools=[watch, idle]) as made:
            thread = made
            turn = asyncio.ensure_future(thread.run("Hi!"))
            await asyncio.wait_for(began.wait(), 20)
            if not early:
                await thread.submit(UserInputOp((TextInput("And this."),)))
            assert (await turn).final_message == "Done."
            found = [item.output for item in thread.history.items if item.type == "function_call_output"]
            assert found == ["nothing came", "came", "nothing came"]

    asyncio.run(main())


def test_input_that_came_before_the_first_request_waits_for_the_second(make_thread: Any) -> None:
    class Slow(Interceptor):
        name = "slow"

        async def input(self, input: UserInput, turn: TurnContext) -> UserInput:  # noqa: A002  # the contract's word
            await asyncio.sleep(0.02)
            return input

    @tool
    async def watch(context: ToolContext) -> str:
        """Wait for input."""
        await asyncio.wait_for(context.turn.until_input(), 60)
        return "came"

    async def main() -> None:
        async with make_thread([call("watch"), say("Done.")], tools=[watch], interceptors=[Slow()]) as thread:
            turn = asyncio.ensure_future(thread.run("Hi!"))
            await asyncio.sleep(0)
            await thread.submit(UserInputOp((TextInput("And this."),)))
            assert (await turn).final_message == "Done."
            texts = [message_text(item) for item in thread.history.items if item.type == "message"]
            assert texts[-3:] == ["Hi!", "And this.", "Done."]
            assert [item.output for item in thread.history.items if item.type == "function_call_output"] == ["came"]

    asyncio.run(main())


class Asks:
    """A policy that wants every command to be asked about."""

    name = "asks"

    def judge(self, command: Any, facts: Any) -> CommandVerdict:
        return CommandVerdict(verdict=Verdict.ASK)


def test_nobody_is_asked_about_a_command_that_no_sandbox_can_confine(make_thread: Any) -> None:
    @tool
    async def work(context: ToolContext) -> str:
        """Work."""
        return (await context.run(["echo", "hi"])).output

    async def main() -> None:
        asked = []

        async def answer(request: Any) -> None:
            asked.append(request)

        settings = {"approval_policy": ApprovalPolicy.ON_REQUEST}
        config = ['sandbox_mode="workspace-write"']
        made = make_thread(
            [call("work"), say("Done.")], tools=[work], policies=[Asks()], config=config, settings=settings
        )
        async with made as thread:
            await thread.run("Hi!", on_request=answer)
            assert asked == []
            assert "no sandbox plugin is loaded" in str(thread.history.items)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("before", "configured", "after", "told"),
    [
        ("untrusted", "on-request", "untrusted", False),
        ("never", "on-request", "never", False),
        ("on-request", "untrusted", "untrusted", True),
        ("never", "untrusted", "untrusted", True),
        ("on-request", "on-request", "on-request", False),
    ],
)
def test_a_resumed_thread_keeps_its_approval_policy_if_that_is_stricter(
    make_kernel: Any, before: str, configured: str, after: str, told: bool
) -> None:
    async def main() -> None:
        made = make_kernel([say("One."), say("Two.")], config=[f'approval_policy="{configured}"'])
        async with made as kernel:
            first = await kernel.start_thread(approval_policy=ApprovalPolicy(before))
            await first.run("Hi!")
            await first.shutdown()
            second = await kernel.resume_thread(first.id)
            events = second.events()
            await second.run("Hi!")
            assert second.settings.approval_policy == ApprovalPolicy(after)
            await second.shutdown()
            texts = [event.msg.message async for event in events if isinstance(event.msg, WarningEvent)]
            assert any("last used with the approval policy" in text for text in texts) == told
            third = await kernel.resume_thread(first.id, approval_policy=ApprovalPolicy.ON_FAILURE)
            assert third.settings.approval_policy is ApprovalPolicy.ON_FAILURE

    asyncio.run(main())


def test_plugins_know_which_commands_are_built_in() -> None:
    assert {*BUILT_IN, "e", "resume", "fork"} == BUILT_IN_COMMANDS


def test_plugins_know_which_options_of_exec_are_built_in() -> None:
    names = {name for option in (*SHARED_OPTIONS, *EXEC_OPTIONS, *RESUME_OPTIONS) for name in option.names}
    assert {name[2:] for name in names if name.startswith("--")} == BUILT_IN_OPTIONS


def test_a_kernel_tells_what_came_too_late_for_its_threads(make_kernel: Any) -> None:
    class Loud:
        name = "loud"

        def notify(self, notification: Any) -> None:
            over.wait(60)
            raise RuntimeError("no bell")

    over = threading.Event()

    async def main() -> None:
        async with make_kernel([say("One.")], plugins=[Offer(name="bells", notifiers=[Loud()])]) as kernel:
            thread = await kernel.start_thread(ephemeral=True)
            await thread.run("Hi!")
            await thread.shutdown()
            over.set()
        (text,) = [text for text in kernel.registry.warnings if "'loud'" in text]
        assert text.startswith("notifier 'loud' of plugin 'bells': notify() failed: RuntimeError: no bell (")

    asyncio.run(main())


def test_a_program_can_give_a_thread_its_id(make_kernel: Any) -> None:
    id_ = "5D0E3C5A-9B1F-5C53-8B57-2B4C3A1F0E11"

    async def main() -> None:
        async with make_kernel([say("Hello.")]) as kernel:
            thread = await kernel.start_thread(thread_id=id_)
            assert thread.id == id_.lower()
            with pytest.raises(ThreadError, match=f"thread {thread.id} is already running"):
                await kernel.start_thread(thread_id=id_)
            await thread.run("Hi!")
            await thread.shutdown()
            resumed = await kernel.resume_thread(id_.lower())
            assert [message_text(item) for item in resumed.history][-1] == "Hello."

    asyncio.run(main())


@pytest.mark.parametrize("id_", ["", "../../escape", "5d0e3c5a/9b1f", "latest"])
def test_an_id_that_is_no_uuid_is_refused(make_kernel: Any, id_: str) -> None:
    async def main() -> None:
        async with make_kernel([]) as kernel:
            with pytest.raises(ThreadError, match="cannot be the id of a thread"):
                await kernel.start_thread(thread_id=id_)
            assert not kernel.threads

    asyncio.run(main())
