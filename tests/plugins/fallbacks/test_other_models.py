"""What another model is asked, what is told of its failure, and who is asked at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ModelError, ModelEvent, ModelInfo, ModelProvider, ProviderInfo
from codex_framework.contract.errors import ConfigError
from codex_framework.contract.protocol.events import HistoryLossEvent, ModelFallbackEvent, TokenCountEvent
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import Reasoning
from codex_framework.testing import Reply, ScriptedModel, call, fail, fault, say
from codex_framework.testing.offering import Offer
from codex_framework.testing.requests import model_request
from codex_plugin_fallbacks.settings import Fallback, Settings
from codex_plugin_fallbacks.wrapping import FallbackClient, FallbackComponent, Fallbacks

Start = Callable[..., Any]

OVERLOADED = fault(503, body={"error": {"code": "server_is_overloaded", "message": "Busy."}})
QUOTA = fault(429, body={"error": {"type": "insufficient_quota", "message": "Pay."}})
LIMIT = fault(429, body={"error": {"type": "usage_limit_reached", "message": "Wait."}})
TOO_MANY = fault(429, body={"error": {"message": "Too many requests."}})


def config(chain: str, *tables: str, top: str = 'model = "gpt-5.4"', settings: str = "") -> str:
    return (
        'model_provider = "one"\nsandbox_mode = "danger-full-access"\napproval_policy = "never"\n'
        f"{top}\n[framework.plugins.fallbacks]\nmodel_fallbacks = [{chain}]\n{settings}\n" + "".join(tables)
    )


def table(name: str, url: str, wire: str = "responses", **keys: Any) -> str:
    keys = {"request_max_retries": 0, "stream_max_retries": 1, **keys}
    more = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    return f'[model_providers.{name}]\nbase_url = "{url}"\nwire_api = "{wire}"\n{more}'


def to(provider: str, model: str = "gpt-5.5") -> str:
    return f'{{ model = "{model}", provider = "{provider}" }}'


class Talk:
    """Turns of one thread: their results and all events."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.messages: list[Any] = []

    def of(self, *kind: type[Any]) -> list[Any]:
        return [msg for msg in self.messages if isinstance(msg, kind)]


def talk(make_kernel: Any, text: str, *prompts: str, providers: tuple[ModelProvider, ...] = ()) -> Talk:
    async def run() -> Talk:
        told = Talk()
        async with make_kernel(config=text, plugins=[Offer(providers=providers)]) as kernel:
            thread = await kernel.start_thread()
            events = thread.events()
            for prompt in prompts or ("go",):
                told.results.append(await thread.run(prompt))
            await thread.shutdown()
            told.messages = [event.msg async for event in events]
        return told

    return asyncio.run(run())


def test_a_request_to_another_model_has_the_properties_of_that_model(make_kernel: Any, model_server: Start) -> None:
    small = ModelInfo(slug="small", parallel_tool_calls=False, reasoning=False, verbosity="high")
    large = ModelInfo(slug="large", default_effort="low")
    other = ScriptedModel([QUOTA, say("Done.")], name="other", models={"small": small, "large": large})
    one = model_server([OVERLOADED])
    top = 'model = "gpt-5.4"\nmodel_reasoning_effort = "high"\nmodel_verbosity = "low"\nservice_tier = "priority"\n'
    text = config(f"{to('other', 'small')}, {to('other', 'large')}", table("one", one.url), top=top)
    told = talk(make_kernel, text, providers=(other,))
    assert told.results[0].final_message == "Done."
    asked = one.requests[0].json
    assert (asked["reasoning"]["effort"], asked["text"], asked["service_tier"]) == (
        "high",
        {"verbosity": "low"},
        "priority",
    )
    assert asked["parallel_tool_calls"] is True
    for request, info in zip(other.requests, (small, large), strict=True):
        assert request.model == info
        assert (request.parallel_tool_calls, request.verbosity, request.service_tier) == (
            info.parallel_tool_calls,
            info.verbosity,
            None,
        )
    assert [request.reasoning_effort for request in other.requests] == [None, "high"]
    assert not told.of(HistoryLossEvent)


def test_what_is_left_out_is_counted(make_kernel: Any, model_server: Start) -> None:
    thoughts = [Reasoning(f"rs_{n}", (), None, f"sealed-{n}") for n in range(3)]
    one = model_server([Reply(items=tuple(thoughts)) + call("exec_command", cmd="true"), OVERLOADED])
    two = model_server([say("Done.")])
    told = talk(make_kernel, config(to("two"), table("one", one.url), table("two", two.url)))
    (loss,) = told.of(HistoryLossEvent)
    assert (loss.what, loss.count, loss.provider, loss.model) == ("reasoning", 3, "two", "gpt-5.5")


@pytest.mark.parametrize("failure", [OVERLOADED, QUOTA, LIMIT, TOO_MANY])
def test_every_failure_that_only_another_model_can_help_is_passed_on(
    make_kernel: Any, model_server: Start, failure: Reply
) -> None:
    one, two = model_server([failure]), model_server([say("Done.")])
    told = talk(make_kernel, config(to("two"), table("one", one.url, stream_max_retries=5), table("two", two.url)))
    assert told.results[0].final_message == "Done."
    assert len(one.requests) == 1


def test_the_failure_of_the_last_model_is_told_as_it_is(make_kernel: Any, model_server: Start) -> None:
    one, two = model_server([OVERLOADED]), model_server([QUOTA])
    told = talk(make_kernel, config(to("two"), table("one", one.url), table("two", two.url)))
    assert told.results[0].error == "Quota exceeded. Check your plan and billing details."
    assert (len(one.requests), len(two.requests)) == (1, 1)


def test_a_last_model_that_cannot_be_opened_is_told_with_its_hint(make_kernel: Any, model_server: Start) -> None:
    one = model_server([OVERLOADED])
    two = table("two", "http://127.0.0.1:9/v1", env_key="NO_SUCH_KEY_IS_SET", env_key_instructions="Ask Ann for it.")
    told = talk(make_kernel, config(to("two"), table("one", one.url), two))
    assert told.results[0].error == "Missing environment variable: `NO_SUCH_KEY_IS_SET`. Ask Ann for it."


def test_only_reasons_that_are_new_are_told(make_kernel: Any, model_server: Start) -> None:
    one, two, three = model_server([OVERLOADED]), model_server([QUOTA]), model_server([say("Done.")])
    tables = [table(name, server.url) for name, server in (("one", one), ("two", two), ("three", three))]
    told = talk(make_kernel, config(f"{to('two')}, {to('three')}", *tables))
    first, second = [msg.reason for msg in told.of(ModelFallbackEvent)]
    assert "capacity" in first
    assert "Quota" in second
    assert "capacity" not in second


def test_a_model_that_fails_again_is_told_again(make_kernel: Any, model_server: Start) -> None:
    one, two = model_server([OVERLOADED, say("Back."), QUOTA]), model_server([say("Two.")], repeat_last=True)
    text = config(to("two"), table("one", one.url), table("two", two.url), settings="return_after_s = 0")
    told = talk(make_kernel, text, "a", "b", "c")
    assert [result.final_message for result in told.results] == ["Two.", "Back.", "Two."]
    assert len(told.of(ModelFallbackEvent)) == 2


def test_a_model_of_the_list_goes_on_with_those_after_it(make_kernel: Any, model_server: Start) -> None:
    one, two, three = model_server([say("One.")]), model_server([OVERLOADED]), model_server([say("Three.")])
    tables = [table(name, server.url) for name, server in (("one", one), ("two", two), ("three", three))]
    text = config(f"{to('one', 'first')}, {to('two')}, {to('three')}", *tables, top='model = "gpt-5.5"')
    told = talk(make_kernel, text.replace('model_provider = "one"', 'model_provider = "two"'))
    assert told.results[0].final_message == "Three."
    assert one.requests == []


def test_a_model_that_is_listed_twice_is_asked_once(make_kernel: Any, model_server: Start) -> None:
    one, two, three = model_server([OVERLOADED]), model_server([QUOTA], repeat_last=True), model_server([say("Three.")])
    tables = [table(name, server.url) for name, server in (("one", one), ("two", two), ("three", three))]
    told = talk(make_kernel, config(f"{to('two')}, {to('two')}, {to('three')}", *tables))
    assert told.results[0].final_message == "Three."
    assert len(two.requests) == 1


def test_a_fallback_without_a_provider_is_one_of_the_configured_provider(make_kernel: Any, model_server: Start) -> None:
    one = model_server([OVERLOADED, say("Done.")])
    told = talk(make_kernel, config('{ model = "gpt-5.5" }', table("one", one.url)))
    assert told.results[0].final_message == "Done."
    assert [request.json["model"] for request in one.requests] == ["gpt-5.4", "gpt-5.5"]


def test_a_model_that_answers_another_thread_is_asked_again(
    make_kernel: Any, model_server: Start, workspace: Path
) -> None:
    """A turn that had begun before keeps its model. If that answers, other threads need not leave it out."""
    waits = call("exec_command", cmd="while [ ! -e flag ]; do sleep 0.02; done", yield_time_ms=30_000)
    one, two = model_server([waits, OVERLOADED, say("One."), say("Back.")]), model_server([say("Two.")])
    text = config(to("two"), table("one", one.url), table("two", two.url))

    async def run() -> list[str | None]:
        async with make_kernel(config=text) as kernel:
            first, second = await kernel.start_thread(), await kernel.start_thread()
            running = asyncio.ensure_future(first.run("go"))
            await asyncio.to_thread(one.wait_for, 1)
            found = [(await second.run("a")).final_message]
            (workspace / "flag").touch()
            found.append((await running).final_message)
            return [*found, (await second.run("b")).final_message]

    assert asyncio.run(run()) == ["Two.", "One.", "Back."]


def test_a_recorder_sees_what_each_provider_really_answers(
    make_kernel: Any, model_server: Start, tmp_path: Path
) -> None:
    one, two = model_server([OVERLOADED]), model_server([say("Done.")])
    files = [tmp_path / f"{name}.jsonl" for name in ("one", "two")]
    tables = [
        table(name, server.url, record=str(file))
        for name, server, file in zip(("one", "two"), (one, two), files, strict=True)
    ]
    assert talk(make_kernel, config(to("two"), *tables)).results[0].final_message == "Done."
    first, second = (file.read_text() for file in files)
    assert "at capacity" in first
    assert "Done." not in first
    assert "at capacity" not in second
    assert "Done." in second


@pytest.mark.parametrize("own", ["", '[framework.plugins.fallbacks]\nmodel_fallbacks = [{ model = "mine" }]\n'])
def test_a_list_of_a_project_is_refused(make_kernel: Any, workspace: Path, own: str) -> None:
    """It would decide where conversations are sent."""
    file = workspace / ".codex" / "config.toml"
    (workspace / ".git").mkdir()
    file.parent.mkdir()
    file.write_text('[framework.plugins.fallbacks]\nmodel_fallbacks = [{ model = "theirs" }]\n')

    async def run() -> None:
        async with make_kernel([say("Hi!")], config=f'{own}[projects."{workspace}"]\ntrust_level = "trusted"\n'):
            pass

    with pytest.raises(ConfigError, match="a project's own file cannot configure the plugin 'fallbacks'") as caught:
        asyncio.run(run())
    assert str(file) in str(caught.value)


class Broken(ScriptedModel):
    """Fails after one item, with everything that an error can say."""

    async def stream(self, request: Any) -> Any:
        async for event in super().stream(request):
            if event.__class__.__name__ == "Completed":
                raise ModelError(
                    "cut",
                    retryable=True,
                    retry_after_s=7.0,
                    info="server_overloaded",
                    slug="overloaded",
                    hint="Wait.",
                    usage=TokenUsage(1, 2, 3, 4, 5),
                )
            yield event


def test_the_error_that_has_the_turn_go_on_says_what_the_failure_said() -> None:
    async def run() -> ModelError:
        settings = Settings(model_fallbacks=(Fallback(provider="two", model="small"),))
        fallbacks = Fallbacks(settings, FallbackComponent(), "one")
        client = FallbackClient(fallbacks, Broken([say("Half")]), ProviderInfo(id="one").evolve(stream_max_retries=0))
        with pytest.raises(ModelError) as caught:
            async for _ in client.stream(model_request()):
                pass
        return caught.value

    error = asyncio.run(run())
    assert (error.fact, error.info, error.slug, error.hint) == ("cut", "server_overloaded", "overloaded", "Wait.")
    assert (error.usage, error.retryable, error.retry_after_s, error.starts_over) == (
        TokenUsage(1, 2, 3, 4, 5),
        True,
        None,
        True,
    )


@pytest.mark.parametrize("begun", [False, True], ids=["alone", "after an item"])
def test_tokens_of_a_response_that_failed_are_counted(make_kernel: Any, model_server: Start, *, begun: bool) -> None:
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    error = {"code": "server_error", "message": "Sorry."}
    event = {"type": "response.failed", "response": {"id": "r", "error": error, "usage": usage}}
    failed = f"data: {json.dumps(event)}\n\n"
    reply = say("Half") + fault(raw_after=failed, no_completed=True) if begun else fault(raw_before=failed)
    one, two = model_server([reply]), model_server([say("Done.")])
    told = talk(make_kernel, config(to("two"), table("one", one.url), table("two", two.url)))
    assert told.results[0].final_message == "Done."
    assert (len(one.requests), len(two.requests)) == (1, 1)
    totals = [msg.info.total_token_usage.total_tokens for msg in told.of(TokenCountEvent) if msg.info]
    assert totals[-1] == 7 + 120


def test_nothing_is_kept_of_a_request_to_another_model(make_kernel: Any) -> None:
    """A later request may have the same place in memory."""

    async def run() -> list[set[int]]:
        component = FallbackComponent()
        settings = Settings(model_fallbacks=(Fallback(provider="other", model="small"),))
        fallbacks = Fallbacks(settings, component, "one")
        with pytest.raises(ModelError, match="have not started"):
            fallbacks.opened(("other", "small"))
        other = ScriptedModel([say("Whole", deltas=3), QUOTA, say("Left", deltas=3)], name="other")
        kept = []
        async with make_kernel(plugins=[Offer(providers=[other], components=[component])]):
            for _ in range(3):
                busy = ScriptedModel([fail("at capacity", retryable=True)])
                client = FallbackClient(fallbacks, busy, ProviderInfo(id="one").evolve(stream_max_retries=0))
                stream: Any = client.stream(model_request())
                seen: list[ModelEvent] = []
                try:
                    async for event in stream:
                        seen.append(event)
                        if len(seen) == 3 and len(other.requests) == 3:
                            break
                except ModelError:
                    pass
                await stream.aclose()
                kept.append(set(fallbacks.passed))
        assert len(other.requests) == 3
        return kept

    assert asyncio.run(run()) == [set(), set(), set()]
