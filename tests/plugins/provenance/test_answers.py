"""Who did what: the answers to questions about recorded sessions."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from codex_framework import Interceptor, ThreadError, tool
from codex_framework.testing import call, say
from codex_framework.testing.offering import Offer
from codex_framework.toolkit.item_marks import item_mark
from tests.plugins.provenance.conftest import HOUSE, ID, OTHER, called, encoded, noted, returned, said, started


@tool
def echo(text: str) -> str:
    """Return the text."""
    return text


class Guard(Interceptor):
    name = "guard"

    async def request(self, request: Any, turn: Any) -> Any:
        turn.because("rule 1")
        return request.evolve(tools=tuple(spec for spec in request.tools if spec.name != "view_image"))

    async def before_tool(self, call: Any, turn: Any) -> Any:
        return call.evolve(arguments=json.dumps({"text": "hushed"}))

    async def input(self, input: Any, turn: Any) -> Any:  # noqa: A002
        return input.evolve(context=["Be quiet."])


def test_a_real_turn_is_explained(make_thread: Any, why: Any) -> None:
    async def turn() -> None:
        offer = Offer(interceptors=[Guard()], tools=[echo], name="house")
        async with make_thread(offer, replies=[call("echo", text="loud"), say("Done.")]) as thread:
            await thread.turn("hello")

    asyncio.run(turn())
    overview = why("last")
    assert "1 turn, " in overview
    assert "context from permissions of plugin context" in overview
    removed = why("last", "view_image")
    assert (
        "interceptor guard (plugin house) removed tool view_image in the request from request 1 of the turn on"
        in removed
    )
    assert "[because of rule 1]" in removed
    assert removed.count("view_image in the request") == 1, "not once for each request"
    rewritten = why("last", "echo")
    assert "changed /arguments/text in the call of echo" in rewritten
    assert '/arguments/text: "loud" -> "hushed"' in rewritten
    data = json.loads(why("last", "--json"))
    added = next(note for note in data["notes"] if note["what"] == "input")
    (number,) = added["numbers"]
    answer = why("last", str(number))
    assert "added context text at 0 in the input" in answer
    assert '/context/0: "Be quiet."' in answer
    for note in data["notes"]:
        assert note["text"]
        assert note["recorded"]
        assert note["what"] == "context" or note["seconds"] > 0


LINES = (
    started(),
    said("hello"),
    called(text="a"),
    noted(did="refused", what="call", by=HOUSE, call_id="c1", tool="echo", reason="not now", seconds=1.5),
    returned("not now"),
    said("Done.", "assistant", id="msg_1"),
)


@pytest.mark.parametrize("session", [ID, ID[:10], "last", "PATH"])
def test_a_session_is_named_by_id_beginning_path_or_last(sessions: Any, why: Any, session: str) -> None:
    path = sessions.write(LINES)
    assert "guard (plugin house) refused the call of echo: not now (1.5 s)" in why(
        str(path) if session == "PATH" else session
    )


@pytest.mark.parametrize("item", ["2", "3", "c1", "echo"])
def test_a_call_is_named_by_number_id_or_tool(sessions: Any, why: Any, item: str) -> None:
    sessions.write(LINES)
    assert "refused the call of echo: not now" in why("last", item)


@pytest.mark.parametrize("item", ["4", "msg_1", "msg"])
def test_an_item_without_notes_says_so(sessions: Any, why: Any, item: str) -> None:
    sessions.write(LINES)
    answer = why("last", item)
    assert "#4 assistant message: from the model in turn 1" in answer
    assert "Nobody changed or refused it." in answer


def test_an_archived_session_is_found_and_the_newest_of_several(sessions: Any, why: Any) -> None:
    sessions.write(LINES, folder="archived_sessions")
    sessions.write(LINES, id=OTHER, source={"subagent": "x"})
    assert why(ID).startswith(f"Session {ID}")
    assert why("last").startswith(f"Session {ID}"), "the thread of a sub-agent is not meant by `last`"


def test_equal_items_are_told_apart_by_their_place(sessions: Any, why: Any) -> None:
    again = said("again", "developer")
    mark = item_mark(again[1])
    added = noted(did="added", what="delivery", by={"role": "component", "plugin": "house"}, items=[mark])
    second = noted("turn-2", did="added", what="record", by={"role": "task", "plugin": "shed"}, items=[mark])
    sessions.write([started(), said("hello"), added, again, started("turn-2"), said("more"), second, again])
    assert "plugin house delivered 1 item" in why("last", "2")
    assert "shed" not in why("last", "2")
    assert "task (plugin shed) recorded 1 item" in why("last", "4")
    assert "house" not in why("last", "4")


def test_a_rolled_back_turn_is_marked(sessions: Any, why: Any) -> None:
    back = ("event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    sessions.write(
        [*LINES, started("turn-2"), said("more"), noted("turn-2", did="stopped", what="stop", by=HOUSE), back]
    )
    overview = why("last")
    assert 'Turn 2, 2026-11-23 02:53:17: "more" (rolled back)' in overview
    assert 'Turn 1, 2026-11-23 02:53:17: "hello"\n' in overview


def test_the_patches_of_later_requests_are_completed(sessions: Any, why: Any) -> None:
    one = {"op": "remove", "path": "/tools/a"}
    two = {"op": "remove", "path": "/tools/b"}
    notes = [
        noted(did="changed", what="request", by=HOUSE, sample=1, patch=[one]),
        noted(did="changed", what="request", by=HOUSE, sample=2, patch=[two], repeats=1),
        noted(did="changed", what="request", by=HOUSE, sample=3, patch=[]),
    ]
    sessions.write([started(), said("hello"), *notes])
    first, second, third = json.loads(why("last", "--json"))["notes"]
    assert (first["patch"], second["patch"], third["patch"]) == ([one], [one, two], [])
    assert "removed tools a, b" in second["text"]
    assert "no longer changed the request" in third["text"]
    assert why("last", "b").count("removed tool") == 1


def test_a_fork_is_read_with_what_it_continues(sessions: Any, why: Any) -> None:
    sessions.write(LINES, history_mode="paginated")
    base = {"history_base": {"thread_id": ID, "end_ordinal_exclusive": 6}}
    sessions.write([started("turn-2"), said("fork")], id=OTHER, forked_from_id=ID, **base)
    overview = why(OTHER)
    assert "2 turns, 4 items" in overview, "the last message of the parent does not belong to the fork"
    assert "#2, #3: interceptor guard (plugin house) refused the call of echo" in overview
    assert f"(in the thread {ID}, which this one continues)" in why(OTHER, "c1")


@pytest.mark.parametrize("ordinal", ["6", None, [6], 6.5])
def test_a_line_of_a_parent_without_a_number_is_before_the_end(sessions: Any, why: Any, ordinal: Any) -> None:
    odd = encoded(*said("odd"), ordinal)
    sessions.write([*LINES[:3], odd, *LINES[3:]], history_mode="paginated")
    base = {"history_base": {"thread_id": ID, "end_ordinal_exclusive": 6}}
    sessions.write([started("turn-2"), said("fork")], id=OTHER, forked_from_id=ID, **base)
    assert "2 turns, 4 items" in why(OTHER)


def test_a_fork_that_repeats_the_items_of_its_parent_has_its_notes(sessions: Any, why: Any) -> None:
    mark = item_mark(said("hello")[1])
    changed = noted(
        did="changed", what="input", by=HOUSE, items=[mark], patch=[{"op": "replace", "path": "/items/0", "value": 1}]
    )
    sessions.write([started(), changed, said("hello")])
    sessions.write([started("turn-2"), said("hello"), said("more")], id=OTHER, forked_from_id=ID)
    assert "guard (plugin house) changed item at 0 in the input" in why(OTHER, "1")
    assert "Nobody" in why(OTHER, "2")


def test_decisions_redactions_and_compactions_are_sentences(sessions: Any, why: Any) -> None:
    notes = [
        noted(did="decided", what="approval", by={"role": "user"}, call_id="c1", decision="approved", seconds=61.0),
        noted(
            did="decided",
            what="approval",
            by={"role": "nobody", "causes": ["unattended"]},
            call_id="c1",
            decision="denied",
        ),
        noted(did="redacted", what="text", by=HOUSE, call_id="c1", withheld=["output.content"]),
        noted(did="compacted", what="history", by={"role": "compactor", "name": "local", "plugin": "x"}, reason="auto"),
        ("compacted", {"message": "short"}),
        noted(did="changed", what="stop", by=HOUSE, patch=[{"op": "add", "path": "/items/0", "value": {}}]),
        noted(did="refused", what="call", by={"role": "sandbox"}, call_id="c1", reason="cannot"),
    ]
    sessions.write([started(), said("hello"), called(), *notes])
    overview = why("last")
    for text in (
        "the user answered 'approved' for the call (61.0 s)",
        "no user was there to answer, so the kernel answered 'denied' for the call [because of unattended]",
        "interceptor guard (plugin house) redacted texts at output.content",
        "compactor local (plugin x) compacted the history: auto",
        "interceptor guard (plugin house) continued the turn with a message",
        "the sandbox refused the call: cannot",
    ):
        assert text in overview
    assert overview.count("compacted the history") == 1


def test_ambiguous_and_unknown_names_are_errors_with_the_nearest(sessions: Any, why: Any) -> None:
    sessions.write(LINES)
    sessions.write(LINES, id=OTHER)
    with pytest.raises(ThreadError, match="2 sessions begin with '019f2c1e'") as caught:
        why("019f2c1e")
    assert ID in str(caught.value)
    with pytest.raises(ThreadError, match="there is no session") as caught:
        why(ID.replace("8922", "8923"))
    assert ID in caught.value.hint
    with pytest.raises(ThreadError, match="no item, call or tool 'ehco'") as caught:
        why(ID, "ehco")
    assert "The nearest: echo." in caught.value.hint
    with pytest.raises(ThreadError, match="'99'") as caught:
        why(ID, "99")
    assert "1 to 4" in caught.value.hint
