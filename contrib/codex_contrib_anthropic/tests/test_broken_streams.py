"""Streams that are broken in random ways end in a response or a ``ModelError``, and make no call twice."""

from __future__ import annotations

import json
import random

import pytest

from codex_contrib_anthropic.reply import Reply
from codex_framework import ItemDone, ModelError
from codex_framework.contract.protocol.wire import encode_item
from codex_framework.testing import MESSAGES, call, custom_call, reasoning, say
from codex_framework.toolkit.model_server.functions import Projection
from codex_framework.toolkit.model_server.splitter import BodySplitter

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


def broken(dice):
    """Return the events of a response with a few faults."""
    events = MESSAGES.events(REPLY, 1)
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


def read(data):
    """Return the items of a response, and whether it was complete."""
    splitter, reply, items = BodySplitter(), Reply(Projection(())), []
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
        items, complete = read(broken(dice))
        ends.add(complete)
        calls = [item.call_id for item in items if hasattr(item, "call_id")]
        assert len(set(calls)) == len(calls)
        assert all(encode_item(item) for item in items)
    assert ends == {True, False}
