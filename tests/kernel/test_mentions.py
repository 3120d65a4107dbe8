"""Items of a client that name something: they reach interceptors, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

from codex_framework import InputText, Interceptor, Message, TurnContext, TurnFacts, UserInput
from codex_framework.contract.protocol.ops import MentionInput, SkillInput, TextInput, UserInputOp
from codex_framework.contract.protocol.wire import read_op, to_wire
from codex_framework.testing import say
from codex_framework.testing.offering import Offer


class Named(Interceptor):
    name = "named"

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def input(self, input: UserInput, turn: TurnContext) -> UserInput:  # noqa: A002
        self.seen.append(tuple(input.mentions))
        added = [Message(role="user", content=(InputText(f"about {each.name}"),)) for each in input.mentions]
        return input.evolve(items=(*input.items, *added))


SKILL, APP = SkillInput("alpha", "/skills/alpha/SKILL.md"), MentionInput("calendar", "app://calendar")


def history(make_kernel: Any, *inputs: Any, plugins: Any = ()) -> list[str]:
    async def main() -> list[str]:
        async with make_kernel([say("fine")] * len(inputs), plugins=plugins, entry_points=()) as kernel:
            thread = await kernel.start_thread()
            for items in inputs:
                await thread.submit(UserInputOp(items))
                await thread.settled()
            return [item.content[0].text for item in thread.history.items]

    return asyncio.run(main())


def test_an_interceptor_gets_what_the_client_has_named_and_adds_items(make_kernel: Any) -> None:
    named = Named()
    said = history(
        make_kernel, (TextInput("go"), SKILL, APP), (TextInput("on"),), plugins=[Offer(interceptors=[named])]
    )
    assert named.seen == [(SKILL, APP), ()]
    assert said == ["go", "about alpha", "about calendar", "fine", "on", "fine"]


def test_an_input_may_only_name_something(make_kernel: Any) -> None:
    assert history(make_kernel, (SKILL,), plugins=[Offer(interceptors=[Named()])]) == ["about alpha", "fine"]


def test_without_an_interceptor_it_has_no_effect(make_kernel: Any) -> None:
    assert history(make_kernel, (TextInput("go"), SKILL)) == ["go", "fine"]


def test_the_items_are_those_of_the_wire() -> None:
    raw = {
        "type": "user_input",
        "items": [
            {"type": "skill", "name": "alpha", "path": "/skills/alpha/SKILL.md"},
            {"type": "mention", "name": "calendar", "path": "app://calendar"},
        ],
    }
    op: Any = read_op(raw)
    assert op.items == (SKILL, APP)
    assert to_wire(op)["items"] == raw["items"]


class Choosy(Named):
    name = "choosy"

    def takes(self, input: UserInput, turn: TurnFacts) -> bool:  # noqa: A002
        assert turn.turn_id
        if "broken" in str(input.items):
            raise ValueError("no")
        return "please" in str(input.items) or bool(input.mentions)


def test_an_input_that_no_interceptor_takes_is_recorded_as_it_is(make_kernel: Any) -> None:
    choosy, other = Choosy(), Named()
    inputs = [(TextInput(text),) for text in ("go", "please go", "broken")]
    said = history(make_kernel, *inputs, (TextInput("x"), SKILL), plugins=[Offer(interceptors=[choosy])])
    assert choosy.seen == [(), (), (SKILL,)]
    assert said == ["go", "fine", "please go", "fine", "broken", "fine", "x", "about alpha", "fine"]
    other.name = "other"  # type: ignore[misc]
    history(make_kernel, *inputs, plugins=[Offer(interceptors=[choosy, other])])
    assert other.seen == [(), (), ()]


def test_a_predicate_that_fails_is_told(make_kernel: Any, run_turn: Any) -> None:
    run = run_turn("broken", [say("fine")], plugins=[Offer(interceptors=[Choosy()])], entry_points=())
    told = [event.message for event in run.result.events if event.type == "warning"]
    assert any("interceptor 'choosy'" in text and "takes() failed: ValueError: no" in text for text in told), told


def test_steered_input_that_nobody_takes_joins_the_turn(make_kernel: Any) -> None:
    async def main() -> list[str]:
        async with make_kernel(
            [say("one"), say("two")], plugins=[Offer(interceptors=[Choosy()])], entry_points=()
        ) as kernel:
            thread = await kernel.start_thread()
            await thread.submit(UserInputOp((TextInput("go"),)))
            await thread.submit(UserInputOp((TextInput("on"),)))
            await thread.settled()
            return [item.content[0].text for item in thread.history.items]

    assert sorted(asyncio.run(main())) == ["go", "on", "one", "two"]
