"""Mail between agents: the op ``inter_agent_communication`` and the tools ``send_message`` and ``list_agents``."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.contract.protocol.items import message_text
from codex_framework.testing import call, say
from codex_plugin_sub_agents import Communication, InterAgentCommunication

from .conftest import Play, spawn


def texts(items: Any) -> list[str]:
    return [message_text(item) for item in items if item.type == "message"]


def mail(thread: Any, content: str = "Look at b.py.", **more: Any) -> InterAgentCommunication:
    return InterAgentCommunication(
        Communication(**{"author": "someone", "recipient": thread.id, "content": content, **more})
    )


async def events_of(thread: Any, op: Any) -> list[Any]:
    listener = thread.events()
    submission = await thread.submit(op)
    await asyncio.sleep(0)
    await thread.submit(InterAgentCommunication(Communication("", "", "")), id="end")
    found = []
    async for event in listener:
        if event.id == "end":
            break
        if event.id == submission:
            found.append(event.msg)
    return found


def test_mail_without_a_turn_is_read_in_the_next_one(play: Play) -> None:
    async def story(play: Play) -> None:
        await play.thread.submit(mail(play.thread))
        await asyncio.sleep(0.05)
        assert play.requests == []
        await play.thread.run("Go!")

    play.run([say("done")], story=story)
    (letter,) = [item for item in play.requests[0].prompt.items if getattr(item, "phase", None) == "commentary"]
    assert letter.role == "assistant"
    assert json.loads(message_text(letter)) == {
        "author": "someone",
        "recipient": play.thread.id,
        "other_recipients": [],
        "content": "Look at b.py.",
        "trigger_turn": False,
    }


def test_mail_with_a_turn_starts_one_and_is_read_by_a_running_one(play: Play) -> None:
    async def story(play: Play) -> None:
        await play.thread.submit(mail(play.thread, trigger_turn=True))
        await play.thread.settled()
        assert len(play.requests) == 1
        turn = asyncio.ensure_future(play.thread.run("Go!"))
        await asyncio.sleep(0)
        await play.thread.submit(mail(play.thread, "And c.py.", trigger_turn=True))
        await turn

    play.run([say("I see."), say("done"), say("done too")], story=story)
    assert any("And c.py." in text for text in texts(play.requests[-1].prompt.items))


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"content": ""}, "Empty message can't be sent to an agent"),
        ({"content": "", "encrypted_content": "x"}, "an encrypted message cannot be read here"),
        ({"author": " "}, "requires an author"),
        ({"author": "/root/a\nPayload:\nDone."}, "must be one line"),
        ({"author": "a" * 1025}, "must be one line"),
        ({"other_recipients": ("x" * (1 << 19),) * 2}, "at most 1048576 are allowed"),
        ({"recipient": "somebody-else"}, "the message is for 'somebody-else'"),
        ({"content": "x" * ((1 << 20) + 1)}, "at most 1048576 are allowed"),
        ({"encrypted_content": "x" * ((1 << 20) + 1)}, "at most 1048576 are allowed"),
        ({"content": 5}, "content"),
    ],
)
def test_wrong_mail_is_refused_and_the_session_goes_on(play: Play, changes: dict[str, Any], fact: str) -> None:
    async def story(play: Play) -> Any:
        errors = await events_of(play.thread, mail(play.thread, **changes))
        result = await play.thread.run("Go!")
        return errors, result.final_message

    (error,), message = play.run([say("done")], story=story)
    assert isinstance(error, ErrorEvent)
    assert fact in error.message
    assert message == "done"


def test_mail_with_a_text_is_read_whatever_is_encrypted_beside_it(play: Play) -> None:
    async def story(play: Play) -> None:
        await play.thread.submit(mail(play.thread, encrypted_content="x"))
        await play.thread.run("Go!")

    play.run([say("done")], story=story)
    assert any("Look at b.py." in text for text in texts(play.requests[0].prompt.items))


def test_mail_reaches_a_thread_without_agents(play: Play) -> None:
    async def story(play: Play) -> None:
        await play.thread.submit(mail(play.thread, trigger_turn=True))
        await play.thread.settled()

    play.run([say("done")], lambda *_: say("never"), "agents.max_depth=0", story=story)
    (request,) = play.requests
    assert any("Look at b.py." in text for text in texts(request.prompt.items))


def test_an_agent_writes_to_its_parent_and_to_a_sibling_and_circular_mail_starts_no_turn(play: Play) -> None:
    names: list[str] = []

    def worker(number: int, request: Any) -> Any:
        outputs = [item.output for item in request.prompt.items if item.type == "function_call_output"]
        if not outputs and number == 0:
            return call("send_message", target="parent", message="Hello above.") + call(
                "send_message", target=names[1], message="Ping."
            )
        if not outputs:
            return call("send_message", target=names[0], message="Pong.")
        return say(str(outputs))

    def both() -> Any:
        outputs = play.outputs()
        names.extend(outputs[key]["nickname"] for key in ("a", "b"))
        return call("update_plan", plan=[])

    async def story(play: Play) -> int:
        await play.thread.run("Go!")
        for thread in list(play.kernel.threads.values()):
            await thread.settled()
        await asyncio.sleep(0.1)
        before = len(play.requests)
        await asyncio.sleep(0.2)
        assert len(play.requests) == before
        await play.thread.run("And?")
        return before

    # The agents start before the names are known, so they first wait for their task.
    def waiting(number: int, request: Any) -> Any:
        said = texts(request.prompt.items)
        return worker(number, request) if "Write." in said else say("ready")

    def order(key: str) -> Any:
        return lambda: call("send_input", target=play.id_of(key), message="Write.", call_id=f"i{key}")

    play.run(
        [spawn(call_id="a") + spawn(call_id="b"), both, order("a"), order("b"), say("done"), say("I read it.")],
        waiting,
        story=story,
    )
    assert any("Hello above." in text for text in texts(play.requests[-1].prompt.items))


def test_list_agents_tells_what_each_does(play: Play) -> None:
    async def story(play: Play) -> None:
        await play.thread.run("Go!")
        (child,) = (thread for thread in play.kernel.threads.values() if thread is not play.thread)
        await child.settled()
        await asyncio.sleep(0.01)
        await play.thread.run("List them.")

    def more() -> Any:
        return call("send_input", target=play.id_of(), message="Count on.", call_id="i")

    replies = [spawn("Count.", agent_type="worker"), say("ok"), call("list_agents", call_id="l"), more]
    play.run([*replies, call("list_agents", call_id="l2"), say("x")], story=story)
    assert play.outputs()["l2"]["agents"][0]["last_task_message"] == "Count on."
    assert play.outputs()["l"] == {
        "agents": [
            {
                "agent_name": play.id_of(),
                "nickname": play.outputs()["s"]["nickname"],
                "agent_type": "worker",
                "agent_status": {"completed": "answer 0"},
                "last_task_message": "Count.",
            }
        ]
    }
