"""Hook ``codex_ops``: what a thread can be asked beside the built-in ops."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import Op, ThreadContext, ThreadError, handles, hookimpl
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.protocol.ops import TextInput, UserInputOp
from codex_framework.loader.registry import load_registry


class Greet(Op):
    type = "greet"

    name: str


class Interrupting(Op):
    type = "interrupt"


@handles
async def greet(op: Greet, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
    if not op.name:
        raise ValueError("nobody to greet")
    thread.emit(WarningEvent(f"hello {op.name}"), id=id)


@handles
async def interrupt(op: Interrupting, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
    raise AssertionError("never called")


class Plugin:
    def __init__(self, *handlers):
        self.handlers = handlers

    @hookimpl
    def codex_ops(self):
        return self.handlers


async def answers(thread, op, last):
    """Submit an op, and return the events it caused up to one of a type."""
    found = []
    stream = thread.events()
    submission = await thread.submit(op)
    async with asyncio.timeout(30):
        async for event in stream:
            if event.id == submission:
                found.append(event.msg)
                if event.msg.type == last:
                    return found
    return found


def test_codex_ops_example_fills_a_turn(example, run_thread):
    module = example("codex_ops")

    async def drive(kernel, thread, model):
        await thread.run("Hello!")
        return len(thread.history.items), await answers(thread, module.Count(), "task_complete")

    items, events = run_thread(drive, module)
    assert [event.type for event in events] == ["task_started", "warning", "task_complete"], (
        "the warning: the model is not known"
    )
    assert events[-1].last_agent_message == f"{items} items"


def test_ops_of_the_kernel_are_made_by_tag_too(run_thread):
    async def drive(kernel, thread, model):
        op = kernel.op("user_input", items=[{"type": "text", "text": "hi"}])
        with pytest.raises(ThreadError, match="'user_input' cannot be made"):
            kernel.op("user_input", smell=1)
        with pytest.raises(ThreadError, match="no plugin handles the op 'nothing'"):
            kernel.op("nothing")
        return op, await answers(thread, op, "task_complete")

    op, events = run_thread(drive, Plugin(greet))
    assert op == UserInputOp((TextInput("hi"),))
    assert events[-1].type == "task_complete"


def test_codex_ops_are_made_from_plain_values_and_may_fail(run_thread):
    async def drive(kernel, thread, model):
        greeted = await answers(thread, kernel.op("greet", name="Ada"), "warning")
        failed = await answers(thread, kernel.op("greet", name=""), "error")
        return greeted[0].message, failed[0].message

    greeted, failed = run_thread(drive, Plugin(greet))
    assert greeted == "hello Ada"
    assert "failed to handle the op 'greet': ValueError: nobody to greet" in failed


def test_codex_ops_cannot_take_what_the_kernel_handles():
    registry = load_registry({}, entry_points=(), extra_plugins=[Plugin(greet, interrupt)])
    assert list(registry.ops) == ["greet"]
    assert (
        "its op 'interrupt' is ignored: the op 'interrupt' is built in and cannot be replaced" in registry.warnings[0]
    )
    assert __file__ in registry.warnings[0], "not the file of the decorator"
