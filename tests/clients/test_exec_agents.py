"""``exec --agent``."""

from __future__ import annotations

from typing import Any

from codex_framework.testing.replies import call, say

AGENTS = """
[agents.poet]
instructions = "Answer in rhyme."
approval_policy = "on-request"
allowed_tools = ["update_plan"]

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
    assert [tool["name"] for tool in body["tools"]] == ["update_plan"]


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
    assert "which exceed those of the session" in ran.err
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
    assert [tool["name"] for tool in bodies[1]["tools"]] == ["update_plan"]
