"""Sampling: a server's request to the model, which the settings allow and the user approves."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from codex_framework.testing import answer, call, fail, say
from codex_plugin_mcp.questions import ElicitationAnswer, ElicitationRequest

SERVER = Path(__file__).parent / "answering_server.py"
QUESTION = {
    "messages": [
        {"role": "user", "content": {"type": "text", "text": "What is 1+1?"}},
        {"role": "assistant", "content": {"type": "text", "text": "2"}},
        {"role": "user", "content": {"type": "text", "text": "And \x1b[31m2+2?"}},
    ],
    "systemPrompt": "Be brief.",
    "maxTokens": 100,
}


def config(tmp_path, *more, sampling='["srv"]', policy="on-request"):
    arguments = json.dumps([str(SERVER), json.dumps({"capabilities": {"tools": {}}, "log": str(tmp_path / "log")})])
    table = f'command={json.dumps(sys.executable)}, args={arguments}, default_tools_approval_mode="approve"'
    return [
        f'approval_policy="{policy}"',
        f"mcp_servers.srv={{{table}}}",
        f"framework.plugins.mcp.sampling={sampling}",
        *more,
    ]


def sampled(make_thread, tmp_path, *replies, decision="accept", params=QUESTION, times=1, settings=None):
    """Let the server ask, and return its answers, the thread's requests to the model, and the questions."""

    async def main():
        answers = [answer(ElicitationRequest, ElicitationAnswer(decision))]
        async with make_thread(None, *answers, config=settings or config(tmp_path)) as thread, asyncio.timeout(40):
            script = []
            for number in range(times):
                ask = call("mcp__srv__call", method="sampling/createMessage", params=params, call_id=f"c{number}")
                script += [ask, *replies]
            await thread.turn("go", *script, say("done"))
            outputs = [output[-1].text if isinstance(output, tuple) else output for output in thread.outputs]
            return [json.loads(text) for text in outputs], thread.requests, thread.seen

    return asyncio.run(main())


def test_the_model_answers_without_tools_and_context_once_the_user_agrees(make_thread, tmp_path):
    (result,), requests, (question,) = sampled(make_thread, tmp_path, say("4"))
    assert result["result"] == {
        "role": "assistant",
        "content": {"type": "text", "text": "4"},
        "model": requests[0].model.slug,
        "stopReason": "endTurn",
    }
    inner = requests[1]
    assert (inner.tools, inner.instructions) == ((), "Be brief.")
    said = [(item.role, item.content[0].text) for item in inner.prompt.items]
    assert said == [("user", "What is 1+1?"), ("assistant", "2"), ("user", "And \x1b[31m2+2?")]
    text = "system: Be brief.\nuser: What is 1+1?\nassistant: 2\nuser: And 2+2?"
    assert question.request.message.endswith(f"costs up to 20000 tokens.\n\n{text}")
    assert question.request.meta == {"codex_approval_kind": "mcp_sampling"}


@pytest.mark.parametrize("decision", ["decline", "cancel"])
def test_without_the_users_consent_the_model_is_not_asked(make_thread, tmp_path, decision):
    (result,), requests, _ = sampled(make_thread, tmp_path, decision=decision)
    assert result["error"] == {"code": -1, "message": "the user refused the sampling request"}
    assert len(requests) == 2


def test_approval_policy_never_refuses_sampling(make_thread, tmp_path):
    (result,), requests, seen = sampled(make_thread, tmp_path, settings=config(tmp_path, policy="never"))
    assert (result["error"]["code"], len(requests), seen) == (-1, 2, [])


@pytest.mark.parametrize("sampling", ["[]", '["other"]'])
def test_servers_that_the_settings_do_not_name_cannot_ask(make_thread, tmp_path, sampling):
    settings = config(tmp_path, sampling=sampling)
    (result,), requests, seen = sampled(make_thread, tmp_path, settings=settings)
    assert (result["error"]["code"], len(requests), seen) == (-32601, 2, [])
    started = json.loads((tmp_path / "log").read_text().splitlines()[0])
    assert "sampling" not in started["params"]["capabilities"]


def test_the_number_of_requests_is_limited(make_thread, tmp_path):
    settings = config(tmp_path, "framework.plugins.mcp.sampling_max_requests=1")
    results, _, seen = sampled(make_thread, tmp_path, say("4"), times=1, settings=settings)
    assert "result" in results[0]
    settings = config(tmp_path, "framework.plugins.mcp.sampling_max_requests=0")
    results, requests, seen = sampled(make_thread, tmp_path, settings=settings)
    assert (results[0]["error"]["message"], len(requests), seen) == (
        "the limit of sampling requests in this session is reached",
        2,
        [],
    )


def test_an_answer_is_cut_as_the_server_wants(make_thread, tmp_path):
    (result,), _, _ = sampled(
        make_thread, tmp_path, say("one STOP two"), params={**QUESTION, "stopSequences": ["STOP"]}
    )
    assert (result["result"]["content"]["text"], result["result"]["stopReason"]) == ("one ", "stopSequence")
    (result,), _, _ = sampled(make_thread, tmp_path, say("x" * 50), params={**QUESTION, "maxTokens": 2})
    assert (result["result"]["content"]["text"], result["result"]["stopReason"]) == ("x" * 8, "maxTokens")


def test_a_model_that_fails_is_an_error_for_the_server(make_thread, tmp_path):
    (result,), _, _ = sampled(make_thread, tmp_path, fail("out of order"))
    assert "the model gave no answer: " in result["error"]["message"]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"messages": []},
        {"messages": [7]},
        {"messages": [{"role": "system", "content": {"type": "text", "text": "x"}}]},
        {"messages": [{"role": "user", "content": {"type": "audio"}}]},
        {"messages": [{"role": "user", "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}}]},
        {"messages": [{"role": "assistant", "content": {"type": "text", "text": "x"}}]},
        {"messages": [{"role": "user", "content": {"type": "text", "text": "x" * 200_001}}]},
        {**QUESTION, "tools": [{"name": "x"}]},
    ],
)
def test_an_invalid_request_reaches_neither_the_user_nor_the_model(make_thread, tmp_path, params):
    (result,), requests, seen = sampled(make_thread, tmp_path, params=params)
    assert (result["error"]["code"], len(requests), seen) == (-32602, 2, [])
