"""The events by which clients that predate turn items learn about agents."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework import EventMsg
from codex_framework.contract.protocol.wire import read_event, to_wire
from codex_framework.testing import call, say
from codex_plugin_sub_agents.events import EVENTS
from codex_plugin_sub_agents.older_events import older_start

from .conftest import Play, spawn

KINDS = {kind.type: kind for kind in EVENTS}


def told(events: list[EventMsg]) -> list[dict[str, Any]]:
    """The older events, without their times."""
    found = []
    for event in events:
        if event.type in KINDS:
            raw = to_wire(event)
            assert read_event(raw, KINDS) == event
            times = [key for key in raw if key.endswith("_at_ms")]
            assert [raw.pop(key) > 1_700_000_000_000 for key in times] == [True]
            found.append(raw)
    return found


def test_events_of_older_clients_say_what_the_items_of_the_first_group_say(play: Play) -> None:
    def on(tool: str, key: str, **more: Any) -> Any:
        return lambda: call(tool, {key: play.id_of(), **more}, call_id=tool)

    replies = [
        *(spawn(agent_type="explorer"), lambda: call("wait_agent", targets=[play.id_of()], call_id="w")),
        *(on("close_agent", "target"), on("resume_agent", "id"), on("send_input", "target", message="More.")),
        say("done"),
    ]
    result = play.run(replies, lambda *_: say("ok"), reasoning_effort="low")
    agent, sender = play.id_of(), play.thread.id
    ended = {"completed": "ok"}
    named = {"receiver_agent_nickname": play.outputs()["s"]["nickname"], "receiver_agent_role": "explorer"}
    ref = {"thread_id": agent, "agent_nickname": named["receiver_agent_nickname"], "agent_role": "explorer"}
    chosen = {"prompt": "Do it.", "model": play.requests[0].model.slug, "reasoning_effort": "low"}

    def event(kind: str, call_id: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "call_id": call_id, "sender_thread_id": sender, **more}

    to_agent = {"receiver_thread_id": agent}
    assert told(result.events) == [
        event("collab_agent_spawn_begin", "s", **chosen),
        event(
            "collab_agent_spawn_end",
            "s",
            new_thread_id=agent,
            new_agent_nickname=ref["agent_nickname"],
            new_agent_role="explorer",
            status="pending_init",
            **chosen,
        ),
        event("collab_waiting_begin", "w", receiver_thread_ids=[agent], receiver_agents=[ref]),
        event("collab_waiting_end", "w", statuses={agent: ended}, agent_statuses=[{**ref, "status": ended}]),
        event("collab_close_begin", "close_agent", **to_agent),
        event("collab_close_end", "close_agent", status=ended, **to_agent, **named),
        event("collab_resume_begin", "resume_agent", **to_agent),
        event("collab_resume_end", "resume_agent", status=ended, **to_agent, **named),
        event("collab_agent_interaction_begin", "send_input", prompt="More.", **to_agent),
        event("collab_agent_interaction_end", "send_input", prompt="More.", status="running", **to_agent, **named),
    ]


def test_a_call_that_fails_has_an_end_too(play: Play) -> None:
    other = "01a2077a-206a-7233-b63a-2d552394c26b"
    replies = [
        *(spawn() + spawn(call_id="full"), call("close_agent", target=other, call_id="c")),
        *(call("send_input", target=other, message="x", call_id="i"), call("resume_agent", id=other, call_id="r")),
        *(call("wait_agent", targets=[other], call_id="w"), say("done")),
    ]
    result = play.run(replies, lambda *_: say("ok"), "agents.max_threads=1")
    ends = {event["call_id"]: event for event in told(result.events) if event["type"].endswith("_end")}
    assert (ends["full"]["status"], ends["full"].get("new_thread_id")) == ("not_found", None)
    assert [ends[key]["status"] for key in "cir"] == ["not_found"] * 3
    assert ends["w"]["statuses"] == {other: "not_found"}


def test_events_of_older_clients_tell_of_the_activity_of_a_team(play: Play) -> None:
    replies = [
        call("spawn_agent", task_name="a", message="x", call_id="s"),
        *(call("wait_agent", call_id="w"), call("send_message", target="a", message="x", call_id="m")),
        *(call("interrupt_agent", target="a", call_id="i"), say("done")),
    ]
    result = play.run(replies, lambda *_: say("ok"), "features.multi_agent_v2=true", reasoning_effort="low")
    found = told(result.events)
    child = play.of_agents()[0].thread_id
    activity = {"type": "sub_agent_activity", "agent_thread_id": child, "agent_path": "/root/a"}
    model = play.requests[0].model.slug
    started = {**activity, "event_id": "s", "kind": "started", "model": model, "reasoning_effort": "low"}
    assert started in found
    assert [event["kind"] for event in found if event["type"] == "sub_agent_activity"][-2:] == [
        "interacted",
        "interrupted",
    ]
    assert "completed" in [event.get("kind") for event in found]
    assert [event["type"] for event in found if "waiting" in event["type"]] == [
        "collab_waiting_begin",
        "collab_waiting_end",
    ]


@pytest.mark.parametrize("empty", [{}, {"prompt": None, "model": None}])
def test_what_an_item_does_not_say_is_an_empty_text(empty: dict[str, Any]) -> None:
    item = {"id": "i", "tool": "spawn_agent", "sender_thread_id": "t", "receiver_thread_ids": ["r"], **empty}
    event = older_start(item, 1)
    assert (event.prompt, event.model) == ("", "")  # type: ignore[union-attr]
