"""Questions of servers: asked of the clients of a thread, answered, refused, late, and at the end of a turn."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path

import pytest

from codex_framework import Closed, RequestResolvedEvent
from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.contract.protocol.ops import Interrupt, ThreadSettings, ThreadSettingsOverrides
from codex_framework.contract.protocol.wire import read_op, to_wire
from codex_framework.testing import answer, call, say
from codex_plugin_mcp.connections import Connections
from codex_plugin_mcp.elicitation import Elicitations, read_elicitation
from codex_plugin_mcp.errors import ServerError
from codex_plugin_mcp.ops import ResolveElicitation
from codex_plugin_mcp.questions import (
    ElicitationAnswer,
    ElicitationCompleteEvent,
    ElicitationRequest,
)

pytestmark = pytest.mark.slow

SERVER = Path(__file__).parent / "scripted_server.py"

FORM = {
    "message": "Who are \x1b[31myou?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 2}, "age": {"type": "integer", "default": 7}},
        "required": ["name"],
    },
}
PAGE = {"mode": "url", "message": "Log in.", "url": "https://login.example.org/x?y=1", "elicitationId": "e1"}

ASK = ['approval_policy="on-request"']
GRANULAR = """
[approval_policy.granular]
sandbox_approval = true
rules = true
mcp_elicitations = {}
"""


class Link:
    """The connection that asks, where no call is waiting."""

    name = "srv"
    caller = None

    def __init__(self, thread):
        self.thread = thread

    def paused(self):
        return contextlib.nullcontext()


def asking(thread, **settings):
    return Elicitations(Link(thread.inside("mcp")), **settings)


def accepted(**content):
    return ElicitationAnswer("accept", content)


def run(make_thread, story, *answers, config=ASK, **settings):
    async def main():
        async with make_thread(None, *answers, config=config, **settings) as thread:
            async with asyncio.timeout(30):
                return await story(thread)

    return asyncio.run(main())


def test_a_form_reaches_the_client_and_its_answer_the_server_with_defaults(make_thread):
    async def story(thread):
        return await asking(thread).create(FORM), thread.seen

    result, (request,) = run(make_thread, story, answer(ElicitationRequest, accepted(name="Ann", other=1)))
    assert result == {"action": "accept", "content": {"name": "Ann", "age": 7}}
    assert to_wire(request) == {
        "type": "elicitation_request",
        "server_name": "srv",
        "id": "srv:1",
        "request": {"mode": "form", "message": "Who are you?", "requested_schema": FORM["requestedSchema"]},
        "problems": [],
    }
    assert request.subject == "the MCP server srv asks 'Who are you?'"


@pytest.mark.parametrize("decision", ["decline", "cancel"])
def test_a_refusal_reaches_the_server_without_content(make_thread, decision):
    async def story(thread):
        return await asking(thread).create(FORM)

    given = ElicitationAnswer(decision, {"name": "Ann"})
    assert run(make_thread, story, answer(ElicitationRequest, given)) == {"action": decision}


def test_metadata_goes_both_ways(make_thread):
    async def story(thread):
        return await asking(thread).create({**FORM, "_meta": {"a": 1}}), thread.seen[0].request.meta

    given = ElicitationAnswer("accept", {"name": "Ann"}, {"b": 2})
    result, meta = run(make_thread, story, answer(ElicitationRequest, given))
    assert (result["_meta"], meta) == ({"b": 2}, {"a": 1})


def test_an_answer_that_does_not_fit_is_asked_again_and_then_cancelled(make_thread):
    async def story(thread):
        first = await asking(thread).create(FORM)
        await asyncio.sleep(0)
        return first, [request.problems for request in thread.seen], thread.warnings

    result, problems, warnings = run(make_thread, story, answer(ElicitationRequest, accepted(name="A")))
    why = ("name must be at least 2 characters",)
    assert (result, problems) == ({"action": "cancel"}, [(), why, why])
    assert any("no answer fits the form: name must be at least 2 characters" in text for text in warnings)


def test_an_answer_that_is_corrected_is_accepted(make_thread):
    async def story(thread):
        return await asking(thread).create(FORM)

    corrected = answer(ElicitationRequest, lambda request: accepted(name="Ann" if request.problems else "A"))
    assert run(make_thread, story, corrected)["content"]["name"] == "Ann"


def test_a_page_is_named_with_its_host_and_opened_by_nobody(make_thread):
    async def story(thread):
        elicitations = asking(thread)
        result = await elicitations.create(PAGE)
        await elicitations.completed({"elicitationId": "other"})
        await elicitations.completed({"elicitationId": "e1"})
        await elicitations.completed({"elicitationId": "e1"})
        await asyncio.sleep(0)
        return result, thread.seen[0], [e for e in thread.events if isinstance(e, ElicitationCompleteEvent)]

    result, request, completed = run(make_thread, story, answer(ElicitationRequest, accepted(leaked="x")))
    assert result == {"action": "accept"}
    assert (request.request.url, request.request.host) == (PAGE["url"], "login.example.org")
    assert request.subject == "the MCP server srv asks 'Log in.', to open a page of login.example.org"
    assert completed == [ElicitationCompleteEvent(server_name="srv", elicitation_id="e1")]


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://b\u00fccher.example/x", "xn--bcher-kva.example"),
        ("https://\u0430pple.com", "xn--pple-43d.com"),
        ("http://127.0.0.1:8080/", "127.0.0.1:8080"),
        ("https://[::1]:1/", "[::1]:1"),
        ("https://EXAMPLE.org", "example.org"),
    ],
)
def test_the_host_is_shown_as_the_browser_contacts_it(url, host):
    assert read_elicitation({**PAGE, "url": url}).host == host


@pytest.mark.parametrize(
    "url",
    [
        None,
        "",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "ftp://a.example/x",
        "https://",
        "https://good.example@evil.example/",
        "https://a.example\\@b.example",
        "https://a.example/\u202ex",
        "https://a.example/ x",
        "https://a.example/\n",
        "https://[::1",
        "https://a:99999/",
        "https://" + "a" * 64 + ".org",
        "https://a.example/" + "x" * 4000,
    ],
)
def test_an_address_that_nobody_should_open_is_refused(url):
    with pytest.raises(ServerError) as refused:
        read_elicitation({**PAGE, "url": url})
    assert refused.value.code == -32602


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"message": 7},
        {**FORM, "mode": "voice"},
        {**PAGE, "elicitationId": ""},
        {"message": "x"},
        {**FORM, "requestedSchema": 1},
    ],
)
def test_an_invalid_question_is_refused(params):
    with pytest.raises(ServerError):
        read_elicitation(params)


# Nobody is asked


def declined(make_thread, config, text):
    async def story(thread):
        result = await asking(thread).create(FORM)
        await asyncio.sleep(0)
        return result, thread.seen, thread.warnings

    result, seen, warnings = run(make_thread, story, answer(ElicitationRequest, accepted(name="Ann")), config=config)
    assert (result, seen) == ({"action": "decline"}, [])
    assert f"the MCP server 'srv' asks: 'Who are you?'. It was declined without asking: {text}." in warnings


def test_approval_policy_never_declines(make_thread):
    declined(make_thread, ['approval_policy="never"'], "the approval policy is `never`")


def test_granular_approval_without_elicitations_declines(make_thread):
    config = GRANULAR.format("false")
    declined(make_thread, config, "`approval_policy.granular.mcp_elicitations` is false")


def test_granular_approval_with_elicitations_asks(make_thread):
    async def story(thread):
        return await asking(thread).create(FORM)

    given = answer(ElicitationRequest, accepted(name="Ann"))
    assert run(make_thread, story, given, config=GRANULAR.format("true"))["action"] == "accept"


def test_without_a_client_the_question_is_cancelled_at_once(make_kernel):
    async def main():
        async with make_kernel(config=ASK) as kernel, asyncio.timeout(20):
            thread = await kernel.start_thread()
            events = thread.events(answers=False)
            result = await Elicitations(Link(thread.conversation.context("mcp")), limit_s=600).create(FORM)
            warnings = []
            async for event in events:
                if event.msg.type == "warning":
                    warnings.append(event.msg.message)
                    break
            return result, warnings

    result, warnings = asyncio.run(main())
    assert result == {"action": "cancel"}
    assert warnings == ["nobody can answer, so the answer is no: the MCP server srv asks 'Who are you?'"]


def test_a_question_that_nobody_answers_in_time_is_cancelled(make_thread):
    async def story(thread):
        result = await asking(thread, limit_s=0.05).create(FORM)
        resolved = await thread.until(RequestResolvedEvent)
        await asyncio.sleep(0)
        return result, resolved.how, thread.warnings[-1]

    result, how, warning = run(make_thread, story, answer(ElicitationRequest, _never))
    assert (result, how) == ({"action": "cancel"}, Closed.TIMED_OUT)
    assert warning.endswith("It was cancelled, because nobody answered within 0.05 seconds.")


async def _never(request):
    await asyncio.Event().wait()


# Calls


def server(tmp_path, **settings):
    """Return the configuration of a scripted server, which logs what it receives."""
    arguments = json.dumps(
        [str(SERVER), json.dumps({"tools": [{"name": "ask"}], "log": str(tmp_path / "log"), **settings})]
    )
    table = f'command={json.dumps(sys.executable)}, args={arguments}, default_tools_approval_mode="approve"'
    return [*ASK, f"mcp_servers.srv={{{table}, tool_timeout_sec=1.0}}"]


def messages(tmp_path):
    return [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]


def ask(method, params=None):
    return call("mcp__srv__ask", method=method, params=params or {})


def test_a_form_of_a_real_server_is_answered_while_its_call_waits_without_limit(make_thread, tmp_path):
    async def slow(request):
        await asyncio.sleep(1.2)
        return accepted(name="Ann")

    async def story(thread):
        await thread.turn("go", ask("elicitation/create", FORM), say("done"))
        return str(thread.outputs[0]), thread.seen

    output, (request,) = run(make_thread, story, answer(ElicitationRequest, slow), config=server(tmp_path))
    assert '{\\"name\\": \\"Ann\\", \\"age\\": 7}' in output or '{"name": "Ann", "age": 7}' in output
    assert request.turn_id
    started = next(message for message in messages(tmp_path) if message.get("method") == "initialize")
    assert started["params"]["capabilities"] == {"elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": True}}


def test_an_interrupt_closes_the_question_and_answers_the_server(make_thread, tmp_path):
    async def story(thread):
        thread.start("go", ask("elicitation/create", FORM))
        await thread.until(ElicitationRequest)
        await thread.client.submit(Interrupt())
        await thread.client.settled()
        resolved = await thread.until(RequestResolvedEvent)
        while not any(message.get("id") == "ours" for message in messages(tmp_path)):
            await asyncio.sleep(0.01)
        return resolved.how

    assert run(make_thread, story, answer(ElicitationRequest, _never), config=server(tmp_path)) is Closed.ABORTED
    (given,) = [message for message in messages(tmp_path) if message.get("id") == "ours"]
    assert given["result"] == {"action": "cancel"}


def test_a_server_learns_the_folder_of_the_thread(make_thread, tmp_path, workspace):
    async def story(thread):
        await thread.turn("go", ask("roots/list"), say("done"))
        other = tmp_path / "other folder"
        other.mkdir()
        await thread.client.submit(ThreadSettings(ThreadSettingsOverrides(cwd=str(other))))
        await thread.turn("go", ask("roots/list"), say("done"))
        return [str(output) for output in thread.outputs], other

    outputs, other = run(make_thread, story, config=server(tmp_path))
    assert workspace.as_uri() in outputs[0]
    assert other.as_uri() in outputs[1]
    changed = [message for message in messages(tmp_path) if message.get("method") == "notifications/roots/list_changed"]
    assert len(changed) == 1


def test_roots_can_be_kept_secret(make_thread, tmp_path):
    async def story(thread):
        await thread.turn("go", ask("roots/list"), say("done"))
        return str(thread.outputs[0])

    config = [*server(tmp_path), "framework.plugins.mcp.roots=false"]
    assert "-32601" in run(make_thread, story, config=config)
    started = next(message for message in messages(tmp_path) if message.get("method") == "initialize")
    assert "roots" not in started["params"]["capabilities"]


def test_questions_are_asked_one_after_the_other_and_not_without_end(make_thread):
    open_at_once = []

    async def story(thread):
        open_at_once.append(lambda: len(thread.client.open_requests))
        elicitations = asking(thread)
        asked = [asyncio.ensure_future(elicitations.create(FORM)) for _ in range(9)]
        results = await asyncio.gather(*asked, return_exceptions=True)
        return results, [request.id for request in thread.seen]

    async def slow(request):
        open_at_once.append(open_at_once[0]())
        return accepted(name="Ann")

    results, ids = run(make_thread, story, answer(ElicitationRequest, slow))
    assert [type(result).__name__ for result in results] == ["dict"] * 8 + ["ServerError"]
    assert (ids, open_at_once[1:]) == ([f"srv:{number}" for number in range(1, 9)], [1] * 8)


def test_an_unknown_decision_of_a_program_is_a_cancellation(make_thread):
    async def story(thread):
        result = await asking(thread).create(FORM)
        await asyncio.sleep(0)
        return result, thread.warnings[-1]

    result, warning = run(make_thread, story, answer(ElicitationRequest, ElicitationAnswer("yes")))
    assert result == {"action": "cancel"}
    assert warning.endswith("a client answered with the unknown decision 'yes'.")


def test_a_server_that_asks_without_end_gets_errors(make_thread):
    async def story(thread):
        elicitations = asking(thread)
        results = []
        for _ in range(25):
            try:
                results.append((await elicitations.create(FORM))["action"])
            except ServerError as error:
                results.append(str(error))
        return results

    results = run(make_thread, story, answer(ElicitationRequest, ElicitationAnswer("decline")))
    assert results == ["decline"] * 20 + ["20 questions of this turn were refused already"] * 5
    results = run(make_thread, story, config=['approval_policy="never"'])
    assert results == ["decline"] * 20 + ["20 questions of this turn were refused already"] * 5


def test_an_answer_allows_further_questions(make_thread):
    async def story(thread):
        elicitations = asking(thread)
        return [(await elicitations.create(FORM))["action"] for _ in range(45)]

    def given(request):
        return accepted(name="Ann") if int(request.id.partition(":")[2]) % 15 == 0 else ElicitationAnswer("decline")

    assert run(make_thread, story, answer(ElicitationRequest, given)).count("accept") == 3


def test_a_server_cannot_dress_a_question_up_as_an_approval():
    meta = {"codex_approval_kind": "mcp_tool_call", "codex": 1, "mine": 2}
    assert read_elicitation({**FORM, "_meta": meta}).meta == {"mine": 2}


# Pages that a call requires


def required(make_thread, decision, *, complete=True, data=None):
    async def story(thread):
        elicitations = asking(thread)
        work = asyncio.ensure_future(elicitations.open_required({"elicitations": [PAGE]} if data is None else data))
        if complete:
            await thread.until(ElicitationRequest)
            while not work.done() and not elicitations._opened:
                await asyncio.sleep(0)
            await elicitations.completed({"elicitationId": "e1"})
        return await work

    return run(make_thread, story, answer(ElicitationRequest, ElicitationAnswer(decision)))


def test_a_call_that_requires_a_page_goes_on_once_it_is_done(make_thread):
    assert required(make_thread, "accept") is True
    assert required(make_thread, "decline", complete=False) is False
    for data in (
        {},
        None,
        [],
        {"elicitations": []},
        {"elicitations": 7},
        {"elicitations": [{**PAGE, "url": "file:///x"}]},
    ):
        assert required(make_thread, "accept", complete=False, data=data or {}) is False


def required_by_a_call(make_thread, tmp_path, decision):
    needed = {"code": -32042, "message": "log in first", "data": {"elicitations": [PAGE]}}
    config = server(tmp_path, tools=[{"name": "ask"}, {"name": "guarded"}], answers={"guarded": needed})

    async def story(thread):
        thread.start("go", call("mcp__srv__guarded"), say("done"))
        await thread.until(ElicitationRequest)
        if decision == "accept":
            await asyncio.sleep(0.05)
            found = thread.inside("mcp").component(Connections).pool
            (connection,) = found.connections.values()
            await found.features.elicitations(connection).completed({"elicitationId": "e1"})
        await thread.client.settled()
        return str(thread.outputs[0])

    output = run(make_thread, story, answer(ElicitationRequest, ElicitationAnswer(decision)), config=config)
    calls = [message for message in messages(tmp_path) if message.get("method") == "tools/call"]
    return len(calls), output


def test_a_call_is_tried_once_more_after_its_page_was_opened(make_thread, tmp_path):
    count, output = required_by_a_call(make_thread, tmp_path, "accept")
    assert (count, "log in first" in output) == (2, True)


def test_a_call_whose_page_is_not_opened_fails_with_the_servers_words(make_thread, tmp_path):
    count, output = required_by_a_call(make_thread, tmp_path, "decline")
    assert (count, "log in first" in output) == (1, True)


# The op


def resolved(make_thread, *ops):
    """Ask, submit the ops, and return the server's result and the errors."""

    async def story(thread):
        work = asyncio.ensure_future(asking(thread).create(FORM))
        await thread.until(ElicitationRequest)
        for op in ops:
            await thread.client.submit(
                read_op({"type": "resolve_elicitation", **op}, {"resolve_elicitation": ResolveElicitation})
            )
        return await work, [event.message for event in thread.events if isinstance(event, ErrorEvent)]

    return run(make_thread, story, answer(ElicitationRequest, _never))


def test_the_op_answers(make_thread):
    op = {
        "server_name": "srv",
        "request_id": "srv:1",
        "decision": "accept",
        "content": {"name": "Ann"},
        "meta": {"a": 1},
    }
    result, errors = resolved(make_thread, op)
    assert result == {"action": "accept", "content": {"name": "Ann", "age": 7}, "_meta": {"a": 1}}
    assert errors == []


def test_an_op_that_does_not_fit_is_refused_and_the_question_stays_open(make_thread):
    base = {"server_name": "srv", "request_id": "srv:1"}
    result, errors = resolved(
        make_thread,
        {**base, "decision": "accept"},
        {**base, "decision": "accept", "content": {"name": 7}},
        {**base, "server_name": "other", "decision": "accept", "content": {"name": "Eve"}},
        {**base, "request_id": "9", "decision": "decline"},
        {**base, "decision": "decline"},
    )
    assert result == {"action": "decline"}
    assert errors[0].startswith("the answer does not fit: name is required")
    assert errors[1].startswith("the answer does not fit: name must be a string")
    assert errors[2].startswith("no question 'srv:1' of the MCP server 'other' is waiting")
    assert errors[3].startswith("no question '9' of the MCP server 'srv' is waiting")
