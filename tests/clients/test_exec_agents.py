"""``exec --agent``."""

from __future__ import annotations

from typing import Any

from codex_framework.testing.replies import call, say
from codex_framework.testing.server import ResponsesServer

AGENTS = """
[agents.poet]
instructions = "Answer in rhyme."
approval_policy = "on-request"
allowed_tools = ["view_image"]

[agents.wide]
permissions = ":danger-full-access"

[agents.brief]
limits.requests = 1
"""


def serve(cli: Any, *replies: Any) -> Any:
    cli.serve(*replies)
    cli.configure(base_url=cli.servers[0].url, more=AGENTS)
    return cli.servers[0]


def test_an_agent_of_the_configuration_is_used(cli: Any) -> None:
    server = serve(cli, say("Roses."))
    ran = cli.exec("--agent", "poet", "hi")
    assert (ran.status, ran.out) == (0, "Roses.\n"), ran.err
    body = next(request.json for request in server.requests if request.method == "POST")
    assert body["instructions"] == "Answer in rhyme."
    assert [tool["name"] for tool in body["tools"]] == ["view_image"]


def test_an_unknown_agent_is_told_with_those_that_there_are(cli: Any) -> None:
    serve(cli)
    ran = cli.exec("--agent", "pote", "hi")
    assert ran.status == 1
    assert "there is no agent 'pote'" in ran.err
    assert "The agents are: brief, default, explorer, poet, wide, worker." in ran.err
    assert "Traceback" not in ran.err


def test_an_agent_cannot_widen_what_the_command_line_permits(cli: Any) -> None:
    server = serve(cli, say("ok"))
    ran = cli.exec("--agent", "wide", "--sandbox", "read-only", "hi")
    assert ran.status == 1
    assert "which exceed the permissions of the session" in ran.err
    assert [request for request in server.requests if request.method == "POST"] == []
    assert cli.exec("--agent", "wide", "--sandbox", "danger-full-access", "hi").status == 0


def test_a_limit_that_is_reached_ends_the_run_with_status_1(cli: Any) -> None:
    serve(cli, call("update_plan", plan=[]), say("never"))
    ran = cli.json("--agent", "brief", "hi")
    assert ran.status == 1
    assert "budget_limited" in str(ran.events[-1])


def test_a_resumed_thread_may_have_an_agent(cli: Any) -> None:
    server = serve(cli, say("One."), say("Two."))
    cli.exec("hi")
    ran = cli.exec("--agent", "poet", "resume", "--last", "again")
    assert (ran.status, ran.out) == (0, "Two.\n"), ran.err
    bodies = [request.json for request in server.requests if request.method == "POST"]
    assert [tool["name"] for tool in bodies[1]["tools"]] == ["view_image"]


def test_calls_about_agents_have_codexs_items(cli: Any) -> None:
    def reply(request: Any) -> Any:
        text = request.body.decode()
        if '"Do it."' in text and "agent_id" not in text and "function_call" not in text:
            return say("agent answer")
        if "agent_id" not in text:
            return call("spawn_agent", message="Do it.")
        if "timed_out" not in text:
            return call("wait_agent", targets=[text.split('{\\"agent_id\\":\\"')[1].split('\\"')[0]])
        return say("done")

    server = ResponsesServer([reply] * 12).start()
    cli.servers.append(server)
    cli.configure(base_url=server.url)
    ran = cli.json("Go!")
    assert ran.status == 0, ran.err
    items = ran.items("collab_tool_call")
    assert [(item["tool"], item["status"]) for item in items] == [("spawn_agent", "completed"), ("wait", "completed")]
    (agent,) = items[0]["receiver_thread_ids"]
    assert items[0]["agents_states"] == {agent: {"status": "pending_init", "message": None}}
    assert items[1]["agents_states"] == {agent: {"status": "completed", "message": "agent answer"}}
    assert list(items[0]) == [
        *("type", "tool", "sender_thread_id", "receiver_thread_ids", "prompt", "agents_states", "status"),
    ]
    text = cli.exec("Go!")
    assert "collab: spawn agent\ncollab: wait\n" in text.err
