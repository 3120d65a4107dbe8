"""Turns go on with another model when one has failed for good."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.protocol.events import HistoryLossEvent, ModelFallbackEvent, WarningEvent
from codex_framework.contract.protocol.items import Reasoning
from codex_framework.testing import Reply, call, fault, say

Start = Callable[..., Any]

OVERLOADED = fault(503, body={"error": {"code": "server_is_overloaded", "message": "Busy."}})
QUOTA = fault(429, body={"error": {"type": "insufficient_quota", "message": "Pay."}})
BAD = fault(400, body={"error": {"message": "No such field."}})


def config(chain: str, *tables: str, settings: str = "", model: str = "gpt-5.4") -> str:
    return (
        f'model = "{model}"\nmodel_provider = "one"\nsandbox_mode = "danger-full-access"\napproval_policy = "never"\n'
        f"[framework.plugins.fallbacks]\nmodel_fallbacks = [{chain}]\n{settings}\n" + "".join(tables)
    )


def table(name: str, url: str, wire: str = "responses", **keys: Any) -> str:
    keys = {"request_max_retries": 0, "stream_max_retries": 1, **keys}
    more = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    return f'[model_providers.{name}]\nbase_url = "{url}"\nwire_api = "{wire}"\n{more}'


TWO = '{ model = "gpt-5.5", provider = "two" }'
THREE = '{ model = "small", provider = "three" }'


def talk(make_kernel: Any, text: str, *prompts: str, between: Any = None) -> tuple[list[Any], list[Any]]:
    """Run turns. Return their results and all events."""

    async def run() -> tuple[list[Any], list[Any]]:
        async with make_kernel(config=text) as kernel:
            thread = await kernel.start_thread()
            events = thread.events()
            results = []
            for prompt in prompts:
                results.append(await thread.run(prompt))
                if between is not None:
                    between()
            await thread.shutdown()
            return results, [event.msg async for event in events]

    return asyncio.run(run())


def kinds(messages: list[Any], *kind: type[Any]) -> list[Any]:
    return [msg for msg in messages if isinstance(msg, kind)]


@pytest.mark.parametrize("wire", ["responses", "chat"])
@pytest.mark.parametrize("failure", [OVERLOADED, QUOTA])
def test_the_next_model_goes_on_and_no_tool_runs_twice(
    make_kernel: Any, model_server: Start, workspace: Path, wire: str, failure: Reply
) -> None:
    one = model_server([call("exec_command", cmd="echo 1 >> log"), failure])
    two = model_server([call("exec_command", cmd="echo 2 >> log"), say("Done.")])
    text = config(TWO, table("one", one.url), table("two", two.url, wire))
    ((result,), messages) = talk(make_kernel, text, "go")
    assert (result.final_message, result.error) == ("Done.", None)
    assert (workspace / "log").read_text().split() == ["1", "2"]
    assert [request.json["model"] for request in two.requests] == ["gpt-5.5", "gpt-5.5"]
    (fallback,) = kinds(messages, ModelFallbackEvent)
    assert (fallback.from_provider, fallback.from_model, fallback.to_provider, fallback.to_model) == (
        "one",
        "gpt-5.4",
        "two",
        "gpt-5.5",
    )
    (warning,) = [msg.message for msg in kinds(messages, WarningEvent) if "going on with" in msg.message]
    assert warning == f"`gpt-5.4` of `one` failed ({fallback.reason}); going on with `gpt-5.5` of `two`"
    assert not [msg for msg in messages if msg.type == "error"]


def test_a_server_that_is_not_there_is_asked_as_often_as_its_table_says(make_kernel: Any, model_server: Start) -> None:
    two = model_server([say("Done.")])
    text = config(TWO, table("one", "http://127.0.0.1:9/v1", stream_max_retries=2), table("two", two.url))
    ((result,), messages) = talk(make_kernel, text, "go")
    assert result.final_message == "Done."
    assert (
        len([msg for msg in messages if msg.type == "stream_error"]) == 1
    )  # after two failures, the next model is asked


def test_what_was_complete_before_the_failure_is_kept_and_run_once(
    make_kernel: Any, model_server: Start, workspace: Path
) -> None:
    broken = say("I begin.") + call("exec_command", cmd="echo 1 >> log") + fault(no_completed=True)
    one = model_server([broken])
    two = model_server([say("Done.")])
    ((result,), _) = talk(make_kernel, config(TWO, table("one", one.url), table("two", two.url)), "go")
    assert result.final_message == "Done."
    assert (workspace / "log").read_text() == "1\n"
    assert [item["type"] for item in two.requests[0].json["input"][-3:]] == [
        "message",
        "function_call",
        "function_call_output",
    ]


def test_a_chain_goes_on_after_complete_items_without_retries(
    make_kernel: Any, model_server: Start, workspace: Path
) -> None:
    def broken(number: int) -> Reply:
        return call("exec_command", cmd=f"echo {number} >> log") + fault(no_completed=True)

    names = ("one", "two", "three", "four")
    servers = [model_server([broken(number)]) for number in range(3)] + [model_server([say("Done.")])]
    tables = [table(name, server.url, stream_max_retries=0) for name, server in zip(names, servers, strict=True)]
    chain = ", ".join(f'{{ model = "gpt-5.5", provider = "{name}" }}' for name in names[1:])
    ((result,), _) = talk(make_kernel, config(chain, *tables), "go")
    assert (result.final_message, result.error) == ("Done.", None)
    assert (workspace / "log").read_text().split() == ["0", "1", "2"]
    assert [len(server.requests) for server in servers] == [1, 1, 1, 1]


def test_failures_that_are_the_requests_own_are_not_passed_on(make_kernel: Any, model_server: Start) -> None:
    one, two = model_server([BAD]), model_server([say("Done.")])
    ((result,), messages) = talk(make_kernel, config(TWO, table("one", one.url), table("two", two.url)), "go")
    assert "No such field." in str(result.error)
    assert (two.requests, kinds(messages, ModelFallbackEvent)) == ([], [])


def test_a_server_that_asks_for_a_long_wait_has_failed(make_kernel: Any, model_server: Start) -> None:
    wait = fault(429, headers={"retry-after": "120"}, body={"error": {"message": "Too many requests."}})
    one, two = model_server([wait]), model_server([say("Done.")])
    text = config(TWO, table("one", one.url, stream_max_retries=5), table("two", two.url))
    assert talk(make_kernel, text, "go")[0][0].final_message == "Done."
    assert len(one.requests) == 1


def test_the_whole_list_is_tried_and_the_last_failure_is_told(make_kernel: Any, model_server: Start) -> None:
    one, two, three = (model_server([reply], repeat_last=True) for reply in (OVERLOADED, QUOTA, BAD))
    tables = table("one", one.url), table("two", two.url), table("three", three.url, "chat")
    ((result,), messages) = talk(make_kernel, config(f"{TWO}, {THREE}", *tables), "go")
    assert "No such field." in str(result.error)
    assert [len(server.requests) for server in (one, two, three)] == [1, 1, 1]
    assert [(msg.from_provider, msg.to_provider) for msg in kinds(messages, ModelFallbackEvent)] == [
        ("one", "two"),
        ("two", "three"),
    ]


def test_a_fallback_that_cannot_be_opened_is_passed_over(make_kernel: Any, model_server: Start) -> None:
    one, three = model_server([OVERLOADED]), model_server([say("Done.")])
    two = table("two", "http://127.0.0.1:9/v1", env_key="NO_SUCH_KEY_IS_SET")
    text = config(f"{TWO}, {THREE}", table("one", one.url), two, table("three", three.url, "chat"))
    ((result,), messages) = talk(make_kernel, text, "go")
    assert result.final_message == "Done."
    assert "NO_SUCH_KEY_IS_SET" in kinds(messages, ModelFallbackEvent)[-1].reason


def test_later_turns_stay_with_the_fallback_until_the_time_is_over(make_kernel: Any, model_server: Start) -> None:
    one = model_server([OVERLOADED, say("Back.")])
    two = model_server([say("Two."), say("Two again.")])
    tables = table("one", one.url), table("two", two.url)
    results, messages = talk(make_kernel, config(TWO, *tables), "a", "b")
    assert [result.final_message for result in results] == ["Two.", "Two again."]
    assert len(kinds(messages, ModelFallbackEvent)) == 1
    one = model_server([OVERLOADED, say("Back.")])
    two = model_server([say("Two.")])
    tables = table("one", one.url), table("two", two.url)
    results, _ = talk(make_kernel, config(TWO, *tables, settings="return_after_s = 0"), "a", "b")
    assert [result.final_message for result in results] == ["Two.", "Back."]


def test_reasoning_goes_to_nobody_but_its_provider(make_kernel: Any, model_server: Start) -> None:
    def thought(text: str) -> Reply:
        return Reply(
            items=(Reasoning(f"rs_{text}", ({"type": "summary_text", "text": text},), None, f"sealed-{text}"),)
        )

    one = model_server([thought("first") + call("exec_command", cmd="true"), OVERLOADED, say("Back.")])
    two = model_server([thought("second") + call("exec_command", cmd="true"), say("Done.")])
    tables = table("one", one.url), table("two", two.url)
    results, messages = talk(make_kernel, config(TWO, *tables, settings="return_after_s = 0"), "a", "b")
    assert [result.final_message for result in results] == ["Done.", "Back."]
    assert not any(b"sealed-first" in request.body for request in two.requests)
    assert b"sealed-second" in two.requests[1].body
    assert b"sealed-first" in one.requests[2].body
    assert b"sealed-second" not in one.requests[2].body
    assert [msg.provider for msg in kinds(messages, HistoryLossEvent)] == ["two", "one"]


def test_threads_share_what_is_known_about_a_model(make_kernel: Any, model_server: Start) -> None:
    one, two = model_server([OVERLOADED]), model_server([say("Two.")], repeat_last=True)
    text = config(TWO, table("one", one.url), table("two", two.url))

    async def run() -> list[Any]:
        async with make_kernel(config=text) as kernel:
            first, second = await kernel.start_thread(), await kernel.start_thread()
            events = second.events()
            await first.run("go")
            await second.run("go")
            await second.shutdown()
            return [event.msg async for event in events]

    messages = asyncio.run(run())
    assert len(one.requests) == 1
    assert "capacity" in kinds(messages, ModelFallbackEvent)[0].reason


def test_an_interrupt_ends_the_request_to_a_fallback(make_kernel: Any, model_server: Start) -> None:
    from codex_framework.contract.protocol.ops import Interrupt

    one, two = model_server([OVERLOADED]), model_server([say("Slow.") + fault(hang_s=30)])
    text = config(TWO, table("one", one.url), table("two", two.url))

    async def run() -> Any:
        async with make_kernel(config=text) as kernel:
            thread = await kernel.start_thread()
            running = asyncio.ensure_future(thread.run("go"))
            await asyncio.to_thread(two.wait_for, 1)
            await thread.submit(Interrupt())
            return await running

    assert asyncio.run(run()).status.value == "interrupted"


def test_without_a_list_nothing_is_offered(make_kernel: Any) -> None:
    async def run() -> tuple[Any, Any]:
        async with make_kernel() as kernel:
            return dict(kernel.registry.components), [offer.item.name for offer in kernel.registry.interceptors]

    components, clients = asyncio.run(run())
    assert "fallbacks" not in components
    assert "fallbacks" not in clients


def test_failures_that_a_retry_has_mended_do_not_add_up(make_kernel: Any, model_server: Start) -> None:
    cut = say("Half") + fault(no_completed=True, after=2)
    one = model_server([cut, call("exec_command", cmd="true"), cut, say("Done.")])
    two = model_server([say("Two.")])
    text = config(TWO, table("one", one.url, stream_max_retries=2), table("two", two.url))
    ((result,), messages) = talk(make_kernel, text, "go")
    assert (result.final_message, two.requests) == ("Done.", [])
    assert kinds(messages, ModelFallbackEvent) == []


def test_a_fallback_has_one_try_if_there_is_another_one(make_kernel: Any, model_server: Start) -> None:
    one, three = model_server([QUOTA]), model_server([say("Done.")])
    two = model_server([fault(502, body="<html>"), say("Too late.")])
    tables = table("one", one.url, stream_max_retries=5), table("two", two.url), table("three", three.url, "chat")
    ((result,), _) = talk(make_kernel, config(f"{TWO}, {THREE}", *tables), "go")
    assert (result.final_message, len(two.requests)) == ("Done.", 1)
