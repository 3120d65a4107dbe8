"""Compactions and connections in advance, where other models may go on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from codex_framework import ModelRequest, ProviderInfo
from codex_framework.contract.protocol.events import ModelFallbackEvent, WarningEvent
from codex_framework.contract.protocol.items import UnknownItem
from codex_framework.testing import ScriptedModel, check_interceptor, fault, reply, say
from codex_framework.testing.requests import model_request
from codex_plugin_compaction import Compact
from codex_plugin_fallbacks.settings import Fallback, Settings
from codex_plugin_fallbacks.wrapping import FallbackClient, FallbackComponent, Fallbacks

Start = Callable[..., Any]

SEALED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}
QUOTA = fault(429, body={"error": {"type": "insufficient_quota", "message": "Pay."}})


def compaction() -> Any:
    return reply(UnknownItem(SEALED))


def config(*tables: str, to: str = "two") -> str:
    return (
        'model = "gpt-5.4"\nmodel_provider = "one"\nsandbox_mode = "danger-full-access"\napproval_policy = "never"\n'
        f'[framework.plugins.fallbacks]\nmodel_fallbacks = [{{ model = "gpt-5.5", provider = "{to}" }}]\n'
        + "".join(tables)
    )


def table(provider: str, url: str, **keys: Any) -> str:
    keys = {"base_url": url, "wire_api": "responses", "request_max_retries": 0, "stream_max_retries": 1, **keys}
    return f"[model_providers.{provider}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


def compact(make_kernel: Any, text: str) -> list[Any]:
    """Say hello, compact, and go on. Return all events."""

    async def run() -> list[Any]:
        async with make_kernel(config=text) as kernel:
            thread = await kernel.start_thread()
            events = thread.events()
            await thread.run("Hi!")
            await thread.submit(Compact())
            await thread.settled()
            await thread.run("How are you?")
            await thread.shutdown()
            return [event.msg async for event in events]

    return asyncio.run(run())


def warnings(messages: list[Any]) -> list[str]:
    return [msg.message for msg in messages if isinstance(msg, WarningEvent)]


def ends(server: Any) -> list[tuple[str, str]]:
    """The model of each request, and the type of its last item."""
    return [(request.json["model"], request.json["input"][-1]["type"]) for request in server.requests]


def test_the_server_compacts_if_every_model_that_may_go_on_is_of_the_same_provider(
    make_kernel: Any, model_server: Start
) -> None:
    one = model_server([say("Hello."), QUOTA, compaction(), say("Fine.")])
    messages = compact(make_kernel, config(table("one", one.url, name="OpenAI", env_key="PATH"), to="one"))
    assert ends(one) == [
        ("gpt-5.4", "message"),
        ("gpt-5.4", "compaction_trigger"),
        ("gpt-5.5", "compaction_trigger"),
        ("gpt-5.5", "message"),
    ]
    assert SEALED in one.requests[-1].json["input"]
    assert len([msg for msg in messages if isinstance(msg, ModelFallbackEvent)]) == 1
    assert not [msg for msg in messages if msg.type == "error"]


def test_models_of_other_providers_get_a_summary_that_they_can_read(make_kernel: Any, model_server: Start) -> None:
    one, two = model_server([say("Hello."), say("They greeted."), QUOTA]), model_server([say("Fine.")])
    first = table("one", one.url, name="OpenAI", env_key="PATH")
    messages = compact(make_kernel, config(first, table("two", two.url)))
    assert ends(one) == [("gpt-5.4", "message")] * 3
    assert "They greeted." in two.requests[0].body.decode()
    assert not [text for text in warnings(messages) if "compact" in text]


@pytest.mark.parametrize("keys", [{}, {"remote_compaction": True}], ids=["cannot", "for itself"])
def test_a_table_can_ask_for_the_server_and_a_model_that_goes_on_writes_a_summary(
    make_kernel: Any, model_server: Start, keys: dict[str, Any]
) -> None:
    """What another provider's server returns could not be read by the first one."""
    one, two = model_server([say("Hello."), QUOTA]), model_server([say("They greeted."), say("Fine.")])
    first = table("one", one.url, remote_compaction=True)
    messages = compact(make_kernel, config(first, table("two", two.url, **keys)))
    assert ends(one) == [("gpt-5.4", "message"), ("gpt-5.4", "compaction_trigger")]
    assert ends(two) == [("gpt-5.5", "message")] * 2
    assert "They greeted." in two.requests[1].body.decode()
    refusal = "`gpt-5.5`, which takes over, does not compact conversations for the provider 'one'"
    assert f"The server did not compact the conversation, so the model summarises it: {refusal}" in warnings(messages)
    assert not [msg for msg in messages if msg.type == "error"]


def test_a_refusal_of_the_fallback_does_not_last(make_kernel: Any, model_server: Start) -> None:
    """When the first model answers again, its server is asked again."""
    one = model_server([say("Hello."), QUOTA, compaction()])
    two = model_server([say("They greeted.")])
    text = config(table("one", one.url, remote_compaction=True), table("two", two.url))
    text = text.replace("model_fallbacks", "return_after_s = 0\nmodel_fallbacks")

    async def run() -> None:
        async with make_kernel(config=text) as kernel:
            thread = await kernel.start_thread()
            await thread.run("Hi!")
            for _ in range(2):
                await thread.submit(Compact())
                await thread.settled()

    asyncio.run(run())
    assert ends(one)[1:] == [("gpt-5.4", "compaction_trigger")] * 2


class Able(ScriptedModel):
    compacts = True

    def __init__(self) -> None:
        super().__init__([say("Hi!")], repeat_last=True)
        self.prepared = 0

    async def prepare(self, request: ModelRequest, whole: Any) -> None:
        self.prepared += 1


def made(*targets: tuple[str, str]) -> Fallbacks:
    models = tuple(Fallback(provider=provider, model=model) for provider, model in targets)
    return Fallbacks(Settings(model_fallbacks=models), FallbackComponent(), "one")


@pytest.mark.parametrize(
    ("targets", "options", "compacts"),
    [
        ([("one", "small")], {}, True),
        ([("two", "small")], {}, False),
        ([("one", "small"), ("two", "small")], {}, False),
        ([("two", "small")], {"remote_compaction": True}, True),
    ],
)
def test_who_may_go_on_decides_whether_the_server_compacts(
    targets: list[tuple[str, str]], options: dict[str, Any], *, compacts: bool
) -> None:
    provider = ProviderInfo(id="one", options=options)
    assert FallbackClient(made(*targets), Able(), provider).compacts is compacts
    assert FallbackClient(made(*targets), ScriptedModel([]), provider).compacts is False


def test_only_the_model_that_would_be_asked_prepares() -> None:
    async def run() -> list[int]:
        inner, fallbacks = Able(), made(("two", "small"))
        client = FallbackClient(fallbacks, inner, ProviderInfo(id="one"))
        request = model_request()
        counts = []
        for failed in (False, True):
            if failed:
                fallbacks.health.failed(("one", request.model.slug), "down")
            await client.prepare(request, lambda: asyncio.sleep(0))  # type: ignore[arg-type, return-value]
            counts.append(inner.prepared)
        await FallbackClient(fallbacks, ScriptedModel([]), ProviderInfo(id="one")).prepare(request, None)  # type: ignore[arg-type]
        return counts

    assert asyncio.run(run()) == [1, 1]


def test_the_wrapper_fulfils_its_role() -> None:
    fallbacks = made(("one", "small"))
    check_interceptor(fallbacks)
