"""Hook ``codex_context_sources``: fragments of instructions and context."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from codex_framework import CodexError, ContextSource, Fragment, hookimpl
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.protocol.items import Message, message_text
from codex_framework.testing import Offer, say


def test_codex_context_sources_example_is_in_the_first_prompt(example, run_turn):
    turn = run_turn(example("codex_context_sources"))
    said = [(item.role, message_text(item)) for item in turn.requests[0].prompt.items if isinstance(item, Message)]
    assert said[:2] == [
        ("developer", "<house_rules>\nWrite British English.\n</house_rules>"),
        ("user", "Hello!"),
    ]


def test_codex_context_sources_that_fail_leave_the_turn_alone(run_turn):
    class Plugin:
        name = "torn"

        def fragments(self, facts):
            raise CodexError("the rules are torn")

        @hookimpl
        def codex_context_sources(self):
            return [self]

    turn = run_turn(Plugin())
    assert turn.final == "Done."
    assert any("'torn'" in event.message for event in turn.events if isinstance(event, WarningEvent))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (Fragment(role="system", text="<a>", start="<a>"), "its fragment '<a>' is wrong: its `role` is 'system', not"),
        (Fragment(role="user", text=None, start="<a>"), "its fragment '<a>' is wrong: its `text` is None, not str"),
        (Fragment(role="user", text="<a>", start="<a>", order="1"), "its `order` is '1', not int"),
        ("<a>", "it returned str instead of Fragment"),
        (Fragment(role="user", text="", start="<a>", recorded={"a": {1}}), "its `recorded` is not plain JSON data"),
        (
            Fragment(role="user", text="", start="<a>", recorded={1: "a"}),
            "its `recorded` is dict, not a mapping by name",
        ),
    ],
)
def test_codex_context_sources_are_told_which_fragment_is_wrong_and_the_others_are_sent(run_turn, wrong, told):
    class Plugin:
        name = "odd"

        def fragments(self, facts):
            return [wrong, Fragment(role="user", text="<b>right", start="<b>")]

        @hookimpl
        def codex_context_sources(self):
            return [self]

    turn = run_turn(Plugin())
    messages = [event.message for event in turn.events if isinstance(event, WarningEvent)]
    (warning,) = [message for message in messages if "'odd'" in message]
    assert warning.startswith("context source 'odd' of plugin 'Plugin': ")
    assert told in warning
    assert f"({__file__}, line " in warning
    assert "<b>right" in str(turn.requests)


@pytest.mark.parametrize("result", [None, 5])
def test_codex_context_sources_that_give_no_list_leave_the_turn_alone(run_turn, result):
    class Plugin:
        name = "odd"

        def fragments(self, facts):
            return result

        @hookimpl
        def codex_context_sources(self):
            return [self]

    turn = run_turn(Plugin())
    assert turn.final == "Done."
    warnings = [event.message for event in turn.events if isinstance(event, WarningEvent)]
    assert any("context source 'odd' of plugin 'Plugin': fragments() failed: it returned " in text for text in warnings)


def test_codex_context_sources_add_fields_to_the_record_of_the_settings_of_a_turn(make_thread):
    class Notes(ContextSource):
        name = "notes"

        def fragments(self, facts):
            recorded = {"notes": [facts.turn_id], "model": "another", "effort": "high", "cwd": "/", "environments": []}
            yield Fragment(role="user", text="", start="<notes>", recorded=recorded)

    async def story():
        async with make_thread(Offer(name="notes", context=[Notes()])) as thread:
            result = await thread.turn("Hello!", say("Hi."))
            return result, thread.client.rollout_path

    result, path = asyncio.run(story())
    assert result.outcome.error is None
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    (settings,) = [line["payload"] for line in lines if line["type"] == "turn_context"]
    assert settings["notes"] == [settings["turn_id"]]
    assert ("another" in settings.values(), settings["cwd"] != "/", {"effort", "environments"} & settings.keys()) == (
        False,
        True,
        set(),
    )
