"""Servers in threads: start, calls, events, what servers do wrong, their end and restart."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import pytest

from codex_framework import Agent, Decision, ReviewDecision, Status, ToolApprovalRequestEvent
from codex_framework.contract.protocol.events import ItemCompletedEvent, ItemStartedEvent, ToolCallProgressEvent
from codex_framework.contract.protocol.items import FunctionCall
from codex_framework.testing import Reply, answer, call, say
from codex_plugin_mcp.connections import Connections
from codex_plugin_mcp.events import (
    Invocation,
    McpStartupCompleteEvent,
    McpStartupUpdateEvent,
    McpToolCallBeginEvent,
    McpToolCallEndEvent,
)

SERVER = Path(__file__).parent / "scripted_server.py"


def tools(*names, **more):
    return [{"name": name, **more} for name in names]


def texts(output):
    return [getattr(part, "text", "") for part in output] if not isinstance(output, str) else [output]


def received(tmp_path, name="srv"):
    return [json.loads(line) for line in (tmp_path / f"{name}.log").read_text().splitlines()]


def connection(thread, name="srv"):
    return thread.inside("mcp").component(Connections).pool.connections[name]


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


def test_a_call_reaches_the_server_and_clients_see_it(play, table, tmp_path):
    async def story(thread):
        await thread.turn("go", call("mcp__srv__plain", k=1), say("done"))
        return thread

    thread = play(story, table(tools=tools("plain", annotations={"readOnlyHint": True})))
    assert texts(thread.outputs[0])[1:] == ['plain {"k": 1}']
    begun = [
        event.item
        for event in thread.events
        if isinstance(event, ItemStartedEvent) and event.item["type"] == "McpToolCall"
    ]
    done = [
        event.item
        for event in thread.events
        if isinstance(event, ItemCompletedEvent) and event.item["type"] == "McpToolCall"
    ]
    assert begun[0]["status"] == "inProgress"
    assert {key: done[0][key] for key in ("server", "tool", "arguments", "readOnlyHint", "status")} == {
        "server": "srv",
        "tool": "plain",
        "arguments": {"k": 1},
        "readOnlyHint": True,
        "status": "completed",
    }
    (begin,) = (event for event in thread.events if isinstance(event, McpToolCallBeginEvent))
    (end,) = (event for event in thread.events if isinstance(event, McpToolCallEndEvent))
    assert begin.invocation == end.invocation == Invocation("srv", "plain", {"k": 1})
    assert begin.call_id == end.call_id == begun[0]["id"]
    assert end.result == {"Ok": {"content": [{"type": "text", "text": 'plain {"k": 1}'}]}}
    states = [event.status["state"] for event in thread.events if isinstance(event, McpStartupUpdateEvent)]
    assert states == ["starting", "ready"]
    (complete,) = (event for event in thread.events if isinstance(event, McpStartupCompleteEvent))
    assert (complete.ready, complete.failed) == (("srv",), ())
    (sent,) = (message["params"] for message in received(tmp_path) if message.get("method") == "tools/call")
    assert (sent["name"], sent["arguments"]) == ("plain", {"k": 1})
    assert sent["_meta"]["threadId"] == thread.client.id
    assert "codex/sandbox-state-meta" not in sent["_meta"]


def test_a_call_says_who_calls(play, table, tmp_path):
    async def story(thread):
        await thread.turn("go", Reply(items=(FunctionCall("plain", "{}", "one", "mcp__srv", "fc_1"),)), say("done"))
        return thread.client.id

    thread_id = play(story, table(tools=tools("plain")), 'model_reasoning_effort="low"')
    (sent,) = (message["params"] for message in received(tmp_path) if message.get("method") == "tools/call")
    meta = sent["_meta"]
    assert (meta["callId"], meta["itemId"]) == ("one", "fc_1")
    assert (meta["threadId"], meta["sessionId"]) == (thread_id, thread_id)
    about = meta["x-codex-turn-metadata"]
    assert (about["thread_id"], about["reasoning_effort"]) == (thread_id, "low")


def test_the_tools_of_a_server_are_a_group_with_its_instructions(play, table):
    async def story(thread):
        await thread.turn("go", say("done"))
        return {spec.name: spec for spec in thread.requests[0].tools if spec.name.startswith("mcp__")}

    good = table("good", tools=tools("do-it"), instructions="Use it well.\x1b[2J\nOr not.")
    specs = play(
        story, good, table("other", tools=tools("x"), instructions="x" * 100_000), table("bare", tools=tools("y"))
    )
    spec = specs["mcp__good__do_it"]
    assert (spec.namespace.name, spec.local_name) == ("mcp__good", "do_it")
    assert spec.namespace.description == "Use it well.\nOr not."
    assert len(specs["mcp__other__x"].namespace.description) < 10_000
    assert specs["mcp__bare__y"].namespace.description == "Tools in the mcp__bare namespace."


def test_the_model_is_offered_what_the_lists_and_the_server_let_it_see(play, table):
    given = [
        *tools("a", "b", "c"),
        {"name": "app", "_meta": {"ui": {"visibility": ["app"]}}},
        {"name": "both", "_meta": {"ui": {"visibility": ["model", "app"]}}},
    ]

    async def story(thread):
        await thread.turn("go", say("done"))
        return [spec.name for spec in thread.requests[0].tools if spec.name.startswith("mcp__")]

    assert play(story, table(tools=given, keys='disabled_tools=["b"]')) == [
        "mcp__srv__a",
        "mcp__srv__both",
        "mcp__srv__c",
    ]
    assert play(story, table(tools=given, keys='enabled_tools=["b", "app"]')) == ["mcp__srv__b"]


def test_a_server_gets_the_allowed_variables_only(play, table):
    async def story(thread):
        await thread.turn("go", call("mcp__srv__environment"), say("done"))
        return json.loads(texts(thread.outputs[0])[1])

    config = table(tools=tools("environment"), keys='env={OWN="1"}, env_vars=["PASSED"]')
    env = play(story, config, env={"PASSED": "2", "OPENAI_API_KEY": "sk-secret", "OTHER": "3"})
    assert (env["OWN"], env["PASSED"]) == ("1", "2")
    assert "OPENAI_API_KEY" not in env
    assert "OTHER" not in env
    assert "CODEX_HOME" not in env
    assert not {name for name in env if name.startswith("CODEX_")}


def test_the_sandbox_state_goes_to_servers_that_ask_for_it(play, table, tmp_path):
    capabilities = {"tools": {}, "experimental": {"codex/sandbox-state-meta": {}}}

    async def story(thread):
        await thread.turn("go", call("mcp__srv__plain"), say("done"))

    play(story, table(tools=tools("plain"), capabilities=capabilities))
    (sent,) = (message["params"] for message in received(tmp_path) if message.get("method") == "tools/call")
    state = sent["_meta"]["codex/sandbox-state-meta"]
    assert state["sandboxCwd"].startswith("file:///")
    assert state["permissionProfile"]["type"] in ("managed", "disabled")


def test_an_approval_is_asked_once_for_the_session(play, table):
    yes = answer(ToolApprovalRequestEvent, ReviewDecision(Decision.APPROVED_FOR_SESSION))

    async def story(thread):
        for _ in range(2):
            await thread.turn("go", call("mcp__srv__plain"), say("done"))
        await thread.turn("go", call("mcp__srv__other"), say("done"))
        return [request.tool for request in thread.seen]

    config = table(mode="auto", tools=tools("plain", "other"))
    assert play(story, config, 'approval_policy="on-request"', answers=[yes]) == ["mcp__srv__plain", "mcp__srv__other"]


def test_always_is_saved_and_nobody_is_asked_again(play, table, codex_home):
    yes = answer(ToolApprovalRequestEvent, ReviewDecision(Decision.APPROVED_ALWAYS))
    (codex_home / "config.toml").write_text(
        "# mine\n" + table(mode="auto", tools=tools("plain")).replace("=", " = ", 1)
    )

    async def story(thread):
        for _ in range(2):
            await thread.turn("go", call("mcp__srv__plain"), say("done"))
        return len(thread.seen), thread.warnings

    asked, warnings = play(story, 'approval_policy="on-request"', answers=[yes])
    assert (asked, [text for text in warnings if "MCP" in text or "allow_always" in text]) == (1, [])
    text = (codex_home / "config.toml").read_text()
    assert text.startswith("# mine\n")
    assert "approve" in text


def test_a_refused_call_does_not_reach_the_server(play, table, tmp_path):
    no = answer(ToolApprovalRequestEvent, ReviewDecision(Decision.DENIED))

    async def story(thread):
        await thread.turn("go", call("mcp__srv__plain", k=1), say("done"))
        kinds = (ItemStartedEvent, ItemCompletedEvent)
        return [(type(event), event.item) for event in thread.events if isinstance(event, kinds)]

    asked = table(mode="auto", tools=tools("plain"))
    for config, why in (("on-request", "rejected by user"), ("never", "MCP tool call requires approval, but")):
        policy = (f'approval_policy="{config}"', 'sandbox_mode="read-only"')
        seen = play(story, asked, *policy, answers=[no])
        (begun, item), (done, failed) = ((kind, item) for kind, item in seen if item["type"] == "McpToolCall")
        assert (begun, done) == (ItemStartedEvent, ItemCompletedEvent)
        assert (item["server"], item["tool"], item["arguments"]) == ("srv", "plain", {"k": 1})
        assert failed["status"] == "failed"
        assert failed["error"]["message"].startswith(why)
    assert not [message for message in received(tmp_path) if message.get("method") == "tools/call"]


def test_calls_overlap_only_if_the_server_allows_it(play, table):
    async def story(thread):
        began = time.monotonic()
        two = call("mcp__srv__slow", pause_s=0.2) + call("mcp__srv__slow", pause_s=0.2)
        await thread.turn("go", two, say("done"))
        return time.monotonic() - began

    apart = play(story, table(tools=tools("slow")))
    together = play(story, table(tools=tools("slow"), keys="supports_parallel_tool_calls=true"))
    assert apart - together > 0.3


def test_progress_is_passed_on(play, table):
    async def story(thread):
        await thread.turn("go", call("mcp__srv__slow"), say("done"))
        return [(event.text, event.done) for event in thread.events if isinstance(event, ToolCallProgressEvent)]

    assert play(story, table(tools=tools("slow"))) == [("step 1", 0.25), ("step 2", 0.5), ("step 3", 0.75)]


@pytest.mark.parametrize(
    ("call_of", "fact"),
    [
        (call("mcp__srv__fails"), "Mcp error: -32000: it is broken"),
        (call("mcp__srv__never"), "timed out awaiting tools/call after 0.3 seconds"),
        (call("mcp__srv__exit"), "the server ended with exit code 3; its last lines on stderr: the last words"),
    ],
)
def test_a_call_that_fails_says_why(play, table, call_of, fact):
    given = table(
        tools=tools("fails", "never", "exit"),
        answers={"fails": {"code": -32000, "message": "it is broken"}},
        keys="tool_timeout_sec=0.3",
    )

    async def story(thread):
        result = await thread.turn("go", call_of, say("done"))
        assert result.status is Status.COMPLETED
        return texts(thread.outputs[0])[1]

    text = play(story, given)
    assert text.startswith("tool call error: tool call failed for `srv/")
    assert fact in text


def test_a_call_that_is_late_or_interrupted_is_cancelled_at_the_server(play, table, tmp_path):
    async def story(thread):
        await thread.turn("go", call("mcp__srv__never"), say("done"))
        thread.start("go", call("mcp__srv__never"))
        await until(lambda: sum(message.get("method") == "tools/call" for message in received(tmp_path)) == 2)
        await thread.client.interrupt()
        cancelled = "notifications/cancelled"
        await until(lambda: sum(message.get("method") == cancelled for message in received(tmp_path)) == 2)

    play(story, table(tools=tools("never"), keys="tool_timeout_sec=0.5"))
    ids = [message["id"] for message in received(tmp_path) if message.get("method") == "tools/call"]
    told = [
        message["params"]["requestId"]
        for message in received(tmp_path)
        if message.get("method", "").endswith("cancelled")
    ]
    assert told == ids


def test_a_killed_server_comes_back_with_its_tools(play, table):
    async def story(thread):
        await thread.turn("go", say("done"))
        first = connection(thread).session
        pid = connection(thread).session.peer._transport._inner.process_id
        thread.start("go", call("mcp__srv__never"), call("mcp__srv__plain"), say("done"))
        await thread.until(ItemStartedEvent)
        await until(lambda: connection(thread).caller is not None)
        os.killpg(pid, signal.SIGKILL)
        await thread.client.settled()
        assert connection(thread).session not in (None, first)
        return [texts(output)[1] for output in thread.outputs], thread.warnings

    (lost, again), warnings = play(story, table(tools=tools("never", "plain")))
    assert "was ended by SIGKILL" in lost
    assert again == "plain {}"
    assert [text for text in warnings if "MCP" in text] == [
        "MCP server `srv`: the server was ended by SIGKILL. It is started again."
    ]


def test_a_changed_list_of_tools_is_read_again(play, table):
    async def story(thread):
        await thread.turn("go", call("mcp__srv__grow", name="new"), say("done"))
        await until(lambda: len(connection(thread).tools) == 2)
        await thread.turn("go", call("mcp__srv__new", k=2), say("done"))
        return [spec.name for spec in thread.requests[-1].tools], texts(thread.outputs[-1])

    names, output = play(story, table(tools=tools("grow")))
    assert "mcp__srv__new" in names
    assert output[1] == 'new {"k": 2}'


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        (
            {"first": ["Listening on port 80", "[1, 2]"]},
            "it printed a line on stdout that is not JSON, which is ignored: 'Listening on port 80'",
        ),
        (
            {"tools": [{"name": "plain"}, {"name": "plain"}]},
            "it lists two tools with the name 'plain'; the second is ignored",
        ),
        ({"tools": [{"name": "plain"}, {"description": "x"}]}, "it lists a tool without a name, which is ignored"),
        (
            {"pages": {"": "two", "two": "two"}},
            "its answers to tools/list repeat the cursor 'two'; the rest of the list is ignored",
        ),
    ],
)
def test_what_a_server_does_wrong_is_one_line_and_the_rest_works(play, table, settings, fact):
    async def story(thread):
        await thread.turn("go", call("mcp__srv__plain"), say("done"))
        return texts(thread.outputs[0]), [text for text in thread.warnings if text.startswith("MCP server `srv`")]

    output, warnings = play(story, table(**{"tools": tools("plain"), **settings}))
    assert output[1] == "plain {}"
    assert warnings[0] == f"MCP server `srv`: {fact}"
    assert len(warnings) <= 2


OBJECT = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}


@pytest.mark.parametrize(
    "schema",
    [
        *([], "no schema", None, 7, True, {}),
        *({"type": "string"}, {"type": ["object", "null"]}, {"type": "Object"}, {"$ref": "#/$defs/missing"}),
        {**OBJECT, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {**OBJECT, "required": None},
        {**OBJECT, "required": ["a", "ghost"]},
        {"type": "object", "properties": None},
        {"type": "object", "properties": ["a"]},
        {"type": "object", "properties": {"x": {"type": "int"}}},
        {"type": "object", "properties": {"x": {"type": "array", "items": [{"type": "number"}, {"type": "number"}]}}},
        {"type": "object", "properties": {"x": {"type": "string", "description": "x" * 300_000}}},
        {"type": "object", "properties": {"x": {"description": "no type"}, "y": True, "z": None}},
    ],
)
def test_a_tool_is_offered_whatever_its_schema_is(play, table, schema):
    async def story(thread):
        await thread.turn("go", call("mcp__srv__odd"), say("done"))
        return texts(thread.outputs[0]), [text for text in thread.warnings if text.startswith("MCP server `srv`")]

    output, warnings = play(story, table(tools=[{"name": "odd", "inputSchema": schema}]))
    assert output[1] == "odd {}"
    assert warnings == []


def test_what_a_schema_cannot_say_is_said_by_the_description(play, table):
    async def story(thread):
        await thread.turn("go", say("done"))
        return {spec.name: spec for spec in thread.requests[0].tools if spec.name.startswith("mcp__")}

    either = {**OBJECT, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    large = {**OBJECT, "description": "x" * 300_000}
    odd = [{"name": "either", "inputSchema": either}, {"name": "large", "description": "Big.", "inputSchema": large}]
    specs = play(story, table(tools=odd))
    assert specs["mcp__srv__either"].parameters["properties"] == OBJECT["properties"]
    assert specs["mcp__srv__either"].description
    assert specs["mcp__srv__large"].description == "Big.\n\nThe schema of its arguments is too large to be shown."


def test_garbage_and_wrong_ids_beside_an_answer_do_no_harm(play, table):
    async def story(thread):
        await thread.turn("go", call("mcp__srv__garbage"), call("mcp__srv__wrong_id"), say("done"))
        return [texts(output)[1] for output in thread.outputs], "\n".join(thread.warnings)

    outputs, warnings = play(story, table(tools=tools("garbage", "wrong_id")))
    assert outputs == ["garbage {}", "wrong_id {}"]
    for fact in (
        "this is not JSON",
        "it sent JSON that is not a message",
        "'987654' that was never sent",
        "'x' that was",
    ):
        assert fact in warnings


def test_an_answer_that_is_too_large_ends_its_call_only(play, table, monkeypatch):
    monkeypatch.setattr("codex_plugin_mcp.transports.stdio.MAX_MESSAGE_BYTES", 1 << 20)

    async def story(thread):
        big, plain = call("mcp__srv__big", size=3 << 20), call("mcp__srv__plain")
        await thread.turn("go", big, plain, say("done"))
        return [texts(output)[1] for output in thread.outputs], thread.warnings

    (refused, output), warnings = play(story, table(tools=tools("big", "plain")))
    assert "the answer is larger than 1 MiB" in refused
    assert output == "plain {}"
    assert "MCP server `srv`: it sent a message of more than 1 MiB, which is ignored" in warnings


def test_a_large_answer_arrives_whole(play, table):
    async def story(thread):
        await thread.turn("go", call("mcp__srv__big", size=3 << 20), say("done"))
        return [event.item for event in thread.events if isinstance(event, ItemCompletedEvent)]

    items = play(story, table(tools=tools("big")))
    (item,) = (item for item in items if item["type"] == "McpToolCall")
    assert item["status"] == "completed"
    assert len(json.dumps(item)) < 1 << 20


@pytest.mark.parametrize(
    ("settings", "keys", "fact"),
    [
        ({"exit": 4}, "", "the server ended with exit code 4; its last lines on stderr: cannot start: no database"),
        (
            {"silent": ["initialize"]},
            "startup_timeout_sec=0.4",
            "MCP client for `srv` timed out after 0.4 seconds. Add or adjust `startup_timeout_sec`",
        ),
        ({"silent": ["tools/list"]}, "startup_timeout_sec=0.4", "MCP client for `srv` timed out after 0.4 seconds."),
    ],
)
def test_a_server_that_does_not_start_is_reported_and_the_others_work(play, table, settings, keys, fact):
    async def story(thread):
        result = await thread.turn("go", call("mcp__good__plain"), say("done"))
        assert result.status is Status.COMPLETED
        (complete,) = (event for event in thread.events if isinstance(event, McpStartupCompleteEvent))
        assert complete.ready == ("good",)
        return texts(thread.outputs[0])[1], complete.failed, thread.warnings

    good = table("good", tools=tools("plain"))
    output, failed, warnings = play(story, table(keys=keys, **settings), good)
    assert output == "plain {}"
    assert (failed[0].server, fact in failed[0].error) == ("srv", True), failed
    assert sum(fact in text for text in warnings) == 1


def test_a_program_that_does_not_exist_is_named(play):
    async def story(thread):
        await thread.turn("go", say("done"))
        return thread.warnings

    (warning,) = (text for text in play(story, 'mcp_servers.srv={command="no-such-program"}') if "MCP" in text)
    assert warning.startswith("MCP client for `srv` failed to start: `no-such-program` cannot be started")


def test_a_required_server_that_fails_ends_the_turn_and_the_next_tries_again(play, table, tmp_path):
    async def story(thread):
        first = await thread.turn("go", say("never sent"))
        settings = json.loads((tmp_path / "srv.json").read_text())
        del settings["exit"]
        (tmp_path / "srv.json").write_text(json.dumps(settings))
        return first, await thread.turn("go")

    first, second = play(story, table(keys="required=true", exit=1, tools=tools("plain")))
    assert first.status is Status.FAILED
    assert "MCP client for `srv` failed to start" in first.error
    assert second.status is Status.COMPLETED


@pytest.mark.thorough
def test_one_of_many_servers_that_hangs_delays_the_first_sample_by_its_limit_only(play, table):
    many = [table(f"s{number}", tools=tools("plain")) for number in range(6)]
    hanging = table("hangs", silent=["initialize"], keys="startup_timeout_sec=3")

    async def story(thread):
        began = time.monotonic()
        await thread.turn("go", say("done"))
        return time.monotonic() - began, [spec.name for spec in thread.requests[0].tools if "mcp__" in spec.name]

    taken, names = play(story, *many, hanging)
    assert names == [f"mcp__s{number}__plain" for number in range(6)]
    assert taken < 3 + 10  # not the 30 s of the others, and not one limit after the other


def test_a_server_that_hangs_at_its_start_blocks_neither_interrupt_nor_end(play, table):
    async def story(thread):
        thread.start("go")
        await until(lambda: connection(thread).state == "starting")
        await asyncio.wait_for(thread.client.interrupt(), 60)
        return connection(thread)

    assert play(story, table(silent=["initialize"])).state == "closed"


def test_a_server_ends_with_its_thread(play, table, tmp_path):
    async def story(thread):
        await thread.turn("go", say("done"))

    play(story, table(tools=tools("plain")))
    pid = received(tmp_path)[0]["pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_child_thread_shares_the_connections(play, table, tmp_path):
    async def story(thread):
        await thread.turn("go", say("done"))
        agent = Agent(name="helper", instructions="Help.")
        child = await thread.inside("mcp").spawn(agent)
        thread.kernel.model.add(call("mcp__srv__plain", who="child"), say("done"))
        await child.run("go")
        await child.shutdown()
        await thread.turn("go", call("mcp__srv__plain", who="parent"), say("done"))

    play(story, table(tools=tools("plain")))
    log = received(tmp_path)
    assert len([message for message in log if "pid" in message]) == 1
    callers = [message["params"]["arguments"] for message in log if message.get("method") == "tools/call"]
    assert callers == [{"who": "child"}, {"who": "parent"}]


def test_a_server_may_be_confined(play, table, tmp_path):
    target = tmp_path / "written"
    config = table(tools=tools("environment"), log=str(target), keys='sandbox=":read-only"')

    async def story(thread):
        await thread.turn("go", say("done"))
        return thread.warnings

    warnings = play(story, config)
    assert not target.exists()
    assert any("MCP client for `srv` failed to start" in text for text in warnings)
