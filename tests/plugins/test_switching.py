"""A thread changes its model and provider: loops of tools go on, and reasoning goes to nobody but the provider that wrote it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from codex_framework import Agent, Interceptor, Message, Outcome, OutputText, TurnContext
from codex_framework.contract.protocol.events import HistoryLossEvent, WarningEvent
from codex_framework.contract.protocol.items import InputImage, InputText, Reasoning, UnknownItem
from codex_framework.contract.protocol.ops import ThreadSettings, ThreadSettingsOverrides
from codex_framework.testing import Offer, Reply, call, fault, say
from codex_framework.threads.reasoning_providers import ReasoningProviders

Start = Callable[..., Any]

WIRES = {"first": "responses", "second": "chat", "third": "responses"}
PAIRS = [("first", "second"), ("second", "first"), ("first", "third")]
STOPPED = fault(400, body={"error": {"message": "no more"}})


def config(url: str, provider: str) -> str:
    tables = "".join(
        f'[model_providers.{name}]\nbase_url = "{url}/{name}/v1"\nwire_api = "{wire}"\n' for name, wire in WIRES.items()
    )
    return (
        f'model = "gpt-5.4"\nmodel_provider = "{provider}"\nsandbox_mode = "danger-full-access"\n'
        f'approval_policy = "never"\n{tables}'
    )


def thought(text: str) -> Reply:
    return Reply(items=(Reasoning(f"rs_{text}", ({"type": "summary_text", "text": text},), None, f"sealed-{text}"),))


def step(number: int) -> Reply:
    return thought(f"thought{number}") + call("exec_command", cmd=f"echo {number} >> log")


def to(provider: str) -> ThreadSettings:
    return ThreadSettings(ThreadSettingsOverrides(model="gpt-5.4", model_provider=provider))


def sent(server: Any) -> list[tuple[str, str]]:
    """Return the provider and the body of each request."""
    return [(request.path.split("/")[1], request.body.decode()) for request in server.requests]


def check(server: Any, one: str, other: str) -> None:
    """Check who got whose thoughts: `one` wrote the first and the third, `other` the second."""
    bodies = sent(server)
    assert [name for name, _ in bodies] == [one, one, other, other, one, one]
    for name, body in bodies:
        own, foreign = (("thought1", "thought3"), "thought2") if name == one else (("thought2",), "thought1")
        assert foreign not in body
        if name != one:
            assert not any(word in body for word in ("thought1", "thought3"))
        elif WIRES[one] == "responses" and len(bodies) and body is not bodies[0][1]:
            assert f"sealed-{own[0]}" in body
    last = json.loads(bodies[-1][1])
    outputs = [one for one in last.get("input", last.get("messages")) if one.get("role") == "tool" or "output" in one]
    assert len(outputs) == 3


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_loop_of_tools_goes_on_with_another_provider_and_back(
    make_kernel: Any, model_server: Start, workspace: Path, one: str, other: str
) -> None:
    server = model_server([step(1), STOPPED, step(2), STOPPED, step(3), say("Done.")])
    heard: list[Any] = []

    async def run() -> str | None:
        async with make_kernel(config=config(server.url.removesuffix("/v1"), one)) as kernel:
            thread = await kernel.start_thread()
            events = thread.events()
            await thread.run("begin")
            await thread.submit(to(other))
            await thread.run("go on")
            await thread.submit(to(one))
            message: str | None = (await thread.run("go on")).final_message
            await thread.shutdown()
            heard.extend([event.msg async for event in events])
            return message

    assert asyncio.run(run()) == "Done."
    assert (workspace / "log").read_text().split() == ["1", "2", "3"]
    check(server, one, other)
    losses = [(msg.what, msg.provider, msg.count) for msg in heard if isinstance(msg, HistoryLossEvent)]
    assert losses == [("reasoning", other, 1), ("reasoning", one, 1)]
    warnings = [msg.message for msg in heard if isinstance(msg, WarningEvent) and "left out" in msg.message]
    assert len(warnings) == 2
    assert f"the provider `{other}`: reasoning (1)" in warnings[0]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_resumed_thread_goes_on_with_another_provider_and_back(
    make_kernel: Any, model_server: Start, workspace: Path, one: str, other: str
) -> None:
    server = model_server([step(1), STOPPED, step(2), STOPPED, step(3), say("Done.")])

    async def run() -> str | None:
        thread_id, message = "", None
        for provider in (one, other, one):
            async with make_kernel(config=config(server.url.removesuffix("/v1"), provider)) as kernel:
                thread = await (kernel.resume_thread(thread_id) if thread_id else kernel.start_thread())
                thread_id = thread.id
                message = (await thread.run("go on")).final_message
        return message

    assert asyncio.run(run()) == "Done."
    assert (workspace / "log").read_text().split() == ["1", "2", "3"]
    check(server, one, other)


class Child(Interceptor):
    """Spawns a child with the whole history at the end of a turn of the provider ``third``."""

    name = "child"

    async def stop(self, outcome: Outcome, turn: TurnContext) -> str | None:
        if turn.facts.depth == 0 and turn.thread.settings.provider.id == "third":
            child = await turn.thread.spawn(Agent(name="child", description=""), "go on", fork=None)
            await child.settled()
        return None


def test_a_child_with_another_provider_inherits_who_wrote_what(make_kernel: Any, model_server: Start) -> None:
    server = model_server([thought("thought1") + say("One."), say("Two."), say("Three.")])

    async def run() -> None:
        async with make_kernel(
            config=config(server.url.removesuffix("/v1"), "first"), plugins=[Offer(interceptors=[Child()])]
        ) as kernel:
            thread = await kernel.start_thread()
            await thread.run("begin")
            await thread.submit(to("third"))
            await thread.run("go on")

    asyncio.run(run())
    assert [name for name, _ in sent(server)] == ["first", "third", "third"]
    assert "Two." in sent(server)[2][1]
    assert not any("thought1" in body for _, body in sent(server))


def test_an_unknown_provider_is_refused_and_nothing_changes(make_kernel: Any, model_server: Start) -> None:
    server = model_server([say("Yes.")])

    async def run() -> Any:
        async with make_kernel(config=config(server.url.removesuffix("/v1"), "first")) as kernel:
            thread = await kernel.start_thread()
            events = thread.events()
            await thread.submit(to("secnd"))
            message = (await thread.run("hello")).final_message
            await thread.shutdown()
            return message, [event.msg async for event in events if event.msg.type == "error"]

    message, (error,) = asyncio.run(run())
    assert message == "Yes."
    assert "unknown model provider 'secnd'" in error.message
    assert sent(server)[0][0] == "first"


def test_what_an_api_has_no_place_for_is_told_once(make_kernel: Any, model_server: Start) -> None:
    search = UnknownItem({"type": "web_search_call", "id": "ws_1", "status": "completed"})
    seen = Message("user", (InputText("See:"), InputImage("data:image/png;base64,AAAA")))
    server = model_server([say("Yes."), say("Yes."), say("Yes.")])
    text = config(server.url.removesuffix("/v1"), "second").replace('"chat"', '"chat"\ninput_modalities = ["text"]')

    async def run() -> list[Any]:
        async with make_kernel(config=text) as kernel:
            thread = await kernel.start_thread()
            events = thread.events()
            thread.deliver([seen, search, Message("assistant", (OutputText("Hm."),))])
            for _ in range(3):
                await thread.run("hello")
            await thread.shutdown()
            return [event.msg async for event in events if isinstance(event.msg, HistoryLossEvent)]

    losses = [(msg.what, msg.count, msg.reason, msg.model) for msg in asyncio.run(run())]
    assert losses == [
        ("images", 1, "the model takes none", "gpt-5.4"),
        ("items of kind `web_search_call`", 1, "the API has none", "gpt-5.4"),
    ]


def test_encrypted_items_of_other_kinds_are_private_too(make_kernel: Any, model_server: Start) -> None:
    """Such as the encrypted summaries that servers make of a conversation."""
    summary = UnknownItem({"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed-summary"})
    server = model_server([Reply(items=(summary,)) + say("One."), say("Two."), say("Three.")])

    async def run() -> None:
        async with make_kernel(config=config(server.url.removesuffix("/v1"), "first")) as kernel:
            thread = await kernel.start_thread()
            await thread.run("begin")
            await thread.submit(to("third"))
            await thread.run("go on")
            await thread.submit(to("first"))
            await thread.run("go on")

    asyncio.run(run())
    assert ["sealed-summary" in body for _, body in sent(server)] == [False, False, True]


def test_providers_that_use_the_same_ids_do_not_get_the_reasoning_of_each_other(
    make_kernel: Any, model_server: Start
) -> None:
    def same_id(text: str) -> Reply:
        return Reply(items=(Reasoning("rs_1", ({"type": "summary_text", "text": text},), None, f"sealed-{text}"),))

    server = model_server(
        [same_id("thought1") + say("One."), same_id("thought2") + say("Two."), say("Three."), say("Four.")]
    )
    url = server.url.removesuffix("/v1")

    async def run() -> None:
        async with make_kernel(config=config(url, "first")) as kernel:
            thread = await kernel.start_thread()
            await thread.run("begin")
            await thread.submit(to("third"))
            await thread.run("go on")
            await thread.run("go on")
        async with make_kernel(config=config(url, "third")) as kernel:
            await (await kernel.resume_thread(thread.id)).run("go on")

    asyncio.run(run())
    assert [name for name, _ in sent(server)] == ["first", "third", "third", "third"]
    assert [("thought1" in body, "thought2" in body) for _, body in sent(server)[1:]] == [
        (False, False),
        (False, True),
        (False, True),
    ]


def test_reasoning_without_an_encrypted_part_is_told_apart_by_its_text() -> None:
    entries: list[Any] = []
    kept = SimpleNamespace(entries=lambda *_: [entry.data for entry in entries], append_entry=entries.append)
    one, two = (Reasoning("rs_1", ({"type": "summary_text", "text": text},)) for text in ("one", "two"))
    ReasoningProviders(cast("Any", kept), "first").note(two, "third", "turn")
    for provider, foreign in (("first", {1}), ("third", {0})):
        assert ReasoningProviders(cast("Any", kept), "first").foreign([one, two], provider) == foreign


def test_records_that_name_reasoning_by_its_id_alone_are_understood() -> None:
    kept = SimpleNamespace(entries=lambda *_: [{"provider": "third", "items": ["rs_1"]}])
    items = [Reasoning("rs_1", (), None, "sealed"), Reasoning("rs_2", (), None, "sealed")]
    assert ReasoningProviders(cast("Any", kept), "first").foreign(items, "first") == {0}


def test_the_record_names_the_provider_of_a_turn_that_is_not_the_threads_own(
    make_kernel: Any, model_server: Start, codex_home: Path
) -> None:
    server = model_server([say("One."), say("Two.")])

    async def run() -> None:
        async with make_kernel(config=config(server.url.removesuffix("/v1"), "first")) as kernel:
            thread = await kernel.start_thread()
            await thread.run("begin")
            await thread.submit(to("third"))
            await thread.run("go on")

    asyncio.run(run())
    (rollout,) = codex_home.rglob("rollout-*.jsonl")
    lines = [json.loads(line) for line in rollout.read_text().splitlines()]
    contexts = [line["payload"] for line in lines if line["type"] == "turn_context"]
    assert [context.get("model_provider") for context in contexts] == [None, "third"]
