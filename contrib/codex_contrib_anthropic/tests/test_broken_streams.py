"""Streams that are broken in random ways end in a response or a ``ModelError``, and make no call twice."""

from __future__ import annotations

import json
import random

import pytest
from message_blocks import LOOK, SEARCH, SONNET, SOURCE, check_rules, found, response, text, thinking, use
from message_blocks import call as call_block

from codex_contrib_anthropic.body import BodyWriter
from codex_contrib_anthropic.options import MessagesOptions
from codex_contrib_anthropic.reply import Reply
from codex_framework import ItemDone, ModelError
from codex_framework.contract.protocol.items import user_message, with_paired_outputs
from codex_framework.contract.protocol.wire import encode_item
from codex_framework.testing import MESSAGES, call, custom_call, model_request, reasoning, say
from codex_lib_model_client.functions import Projection
from codex_lib_model_client.splitter import BodySplitter

REPLY = reasoning("Hm.") + say("I look.", deltas=4) + call("look", at="a", call_id="c1") + custom_call("write", "text")
VALUES = (None, 3, -1, "x", [], {}, {"type": "text"}, "content_block_start", True, 1e300, "", [1])


def changed(value, dice):
    """Return JSON with one thing in it replaced or missing."""
    if not isinstance(value, dict) or not value:
        return dice.choice(VALUES)
    value, key = dict(value), dice.choice(list(value))
    match dice.randrange(3):
        case 0:
            value[key] = dice.choice(VALUES)
        case 1:
            del value[key]
        case _:
            value[key] = changed(value[key], dice)
    return value


def plain():
    """Return the events of a response with thoughts, a text and calls."""
    return MESSAGES.events(REPLY, 1)


def searching(reason):
    """Return the events of a response with searches."""
    blocks = [
        thinking("Hm."),
        use("a"),
        use("b"),
        found("a"),
        found("b"),
        text("It "),
        text("rains.", SOURCE),
        use("c"),
    ]
    events = response(1, reason, *blocks, *([call_block()] if reason == "tool_use" else []), container="box")
    return [f"data: {json.dumps(event)}\n\n".encode() for event in events]


def broken(dice, events):
    """Return the events of a response with a few faults."""
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(events))
        match dice.randrange(5):
            case 0:
                events.insert(place, dice.choice(events))
            case 1 if len(events) > 1:
                del events[place]
            case 2:
                dice.shuffle(events)
            case 3:
                events[place] = events[place][: dice.randrange(len(events[place]) + 1)]
            case _ if b"data: " in events[place] and events[place].endswith(b"}\n\n"):
                payload = json.loads(events[place].split(b"data: ")[1])
                events[place] = b"data: " + json.dumps(changed(payload, dice)).encode() + b"\n\n"
            case _:
                pass
    return b"".join(events)


def read(data, *, joins=False):
    """Return the items of a response, and whether it was complete."""
    splitter, reply, items = BodySplitter(), Reply(Projection(()), joins=joins), []
    try:
        for start in range(0, len(data), 97):
            for event in splitter.feed(data[start : start + 97]):
                items += [one.item for one in reply.feed(event) if isinstance(one, ItemDone)]
        if not reply.complete:
            reply.end()
        reply.completion()
    except ModelError:
        return items, False
    return items, True


@pytest.mark.parametrize("seed", range(8))
def test_broken_streams_end_as_they_should(seed):
    dice = random.Random(seed)
    ends = set()
    for _ in range(200):
        items, complete = read(broken(dice, plain()))
        ends.add(complete)
        calls = [item.call_id for item in items if hasattr(item, "call_id")]
        assert len(set(calls)) == len(calls)
        assert all(encode_item(item) for item in items)
    assert ends == {True, False}


@pytest.mark.parametrize("reason", ["end_turn", "pause_turn", "tool_use"])
def test_after_a_broken_search_the_next_request_follows_the_rules(reason):
    dice = random.Random(3)
    ends = set()
    for number in range(400):
        items, complete = read(broken(dice, searching(reason)), joins=True)
        ends.add(complete)
        history = with_paired_outputs([user_message("Rain?"), *items])
        for more in ([], [user_message("And snow?")]):
            request = model_request(*history, *more, model=SONNET, tools=(LOOK, SEARCH), thread_id=f"t{number}")
            check_rules(json.loads(BodyWriter(MessagesOptions()).body(request)))
    assert ends == {True, False}
