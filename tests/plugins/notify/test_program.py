"""The program of ``notify``: what it gets and how it is run, as in Codex."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Agent, Limits
from codex_framework.testing import ResponsesServer, call, fail, say
from tests.forked import RunProgram

from .conftest import APPROVED


def test_it_gets_the_end_of_a_turn_as_its_last_argument(run: Any, recorder: Any, workspace: Path):
    ran = run(f'notify = ["{recorder.path}", "one", "two words"]', [say("All d\u00e4ne.\nSecond\x07")])
    (about,) = recorder.runs(1)
    *given, last = about["argv"]
    assert given == ["one", "two words"]
    told = json.loads(last)
    assert list(told) == [
        "type", "thread-id", "turn-id", "cwd", "client", "input-messages", "last-assistant-message",
    ]  # fmt: skip
    assert told | {"thread-id": "", "turn-id": ""} == {
        "type": "agent-turn-complete",
        "thread-id": "",
        "turn-id": "",
        "cwd": str(workspace),
        "client": "codex_framework",
        "input-messages": ["Hello!"],
        "last-assistant-message": "All d\u00e4ne.\nSecond\x07",
    }
    assert "All d\u00e4ne.\\nSecond\\u0007" in last, "text is not escaped more than JSON needs"
    assert '","thread-id":"' in last, "no spaces"
    assert ran.said == []


def test_the_form_is_the_one_of_codex(
    responses_server: Any, recorder: Any, codex_home: Path, workspace: Path, run_program: RunProgram
):
    """The line is what Codex 0.169 passes for the same turn (`codex exec`, a model on loopback), but for ids and folder."""
    server: ResponsesServer = responses_server([say("All d\u00e4ne.\nSecond line\x07")])
    (codex_home / "config.toml").write_text(
        f'notify = ["{recorder.path}"]\nmodel = "gpt-5.5"\nmodel_provider = "here"\n'
        f'[model_providers.here]\nname = "here"\nbase_url = "{server.url}"\n'
    )
    argv = ["exec", "--skip-git-repo-check", "-C", str(workspace), "--json"]
    prompt = "hello 'w\u00f6rld'\nsecond"
    env = {"CODEX_HOME": str(codex_home), "PATH": "/usr/bin:/bin", "HOME": str(codex_home)}
    done = run_program(*argv, prompt, env=env, cwd=recorder.path.parent)
    (about,) = recorder.runs(1)
    (last,) = about["argv"]
    thread_id = json.loads(done.stdout.splitlines()[0])["thread_id"]
    turn_id = json.loads(last)["turn-id"]
    assert last == (
        f'{{"type":"agent-turn-complete","thread-id":"{thread_id}","turn-id":"{turn_id}","cwd":"{workspace}",'
        '"client":"codex_exec","input-messages":["hello \'w\u00f6rld\'\\nsecond"],'
        '"last-assistant-message":"All d\u00e4ne.\\nSecond line\\u0007"}'
    )
    assert about["cwd"] == str(recorder.path.parent), "the folder of the process, as in Codex, not that of the turn"


def test_it_is_detached(run: Any, recorder: Any, codex_home: Path):
    run(f'notify = ["{recorder.path}"]')
    (about,) = recorder.runs(1)
    assert set(about["fds"].values()) <= {os.devnull}
    assert about["group"], "Ctrl-C does not reach it"
    assert about["session"] == os.getsid(0), "it can still write to the terminal"


def test_a_turn_without_a_message_has_null(run: Any, recorder: Any):
    from codex_framework.testing import reasoning

    run(f'notify = ["{recorder.path}"]', [reasoning("Hm.")])
    (told,) = recorder.told(1)
    assert told["last-assistant-message"] is None


def test_it_hears_of_ends_only_unless_more_is_asked_for(run: Any, recorder: Any):
    run(f'notify = ["{recorder.path}"]', APPROVED)
    assert [told["type"] for told in recorder.told(1)] == ["agent-turn-complete"]


def test_all_kinds(run: Any, recorder: Any):
    kinds = '["agent-turn-complete", "approval-requested", "turn-failed", "budget-reached"]'
    config = f'notify = ["{recorder.path}"]\n[framework.plugins.notify.program]\nkinds = {kinds}\n'
    agent = Agent(name="a", limits=Limits(requests=3))
    run(config, [*APPROVED, fail("the model is gone"), say("never")], turns=3, agent=agent)
    told = {each["type"]: each for each in recorder.told(4)}
    assert told.keys() == {"agent-turn-complete", "approval-requested", "turn-failed", "budget-reached"}
    assert "risky" in told["approval-requested"]["message"]
    assert told["turn-failed"]["message"] == "the model is gone"
    assert "3" in told["budget-reached"]["message"]
    assert told["turn-failed"]["input-messages"] == ["Hello!"]


def test_the_question_names_the_command(run: Any, recorder: Any):
    table = "[framework.plugins.notify.program]\nkinds = ['approval-requested']\n"
    replies = [call("exec_command", cmd="touch asked-about"), say("Done.")]
    run(f'notify = ["{recorder.path}"]\n{table}', replies, approval_policy="untrusted")
    (told,) = recorder.told(1)
    assert told["message"].startswith("the command ")
    assert "touch asked-about" in told["message"]


def test_short_turns_can_be_left_out(run: Any, recorder: Any):
    kinds = '["agent-turn-complete", "approval-requested"]'
    config = f'notify = ["{recorder.path}"]\n[framework.plugins.notify.program]\nkinds = {kinds}\nmin_turn_s = 1000\n'
    run(config, APPROVED)
    assert [told["type"] for told in recorder.told(1)] == ["approval-requested"], "requests are never left out"
    time.sleep(0.1)
    assert len(recorder.told(1)) == 1


@pytest.mark.parametrize("text", ["\N{GRINNING FACE}" * 60_000, "x" * 1_000_000, '"\\' * 200_000, "\x00" * 90_000])
def test_a_message_that_no_argument_can_hold_is_cut(run: Any, recorder: Any, text: str):
    ran = run(f'notify = ["{recorder.path}"]', [say(text)])
    (about,) = recorder.runs(1)
    last = about["argv"][-1]
    assert 10_000 < len(last.encode()) <= 131_071
    message = json.loads(last)["last-assistant-message"]
    assert message.endswith("\N{HORIZONTAL ELLIPSIS}")
    assert text.startswith(message[:-1])
    assert ran.said == []


def test_an_interrupted_turn_causes_nothing(make_kernel: Any, recorder: Any):
    import asyncio

    kinds = '["agent-turn-complete", "turn-failed", "budget-reached"]'
    config = f'notify = ["{recorder.path}"]\n[framework.plugins.notify.program]\nkinds = {kinds}\n'

    async def main() -> None:
        async with make_kernel([call("exec_command", cmd="sleep 60"), say("two")], config=config) as kernel:
            thread = await kernel.start_thread()
            running = asyncio.ensure_future(thread.run("one"))
            while thread.status != "running":
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            await thread.interrupt()
            assert (await running).status.value == "interrupted"
            await thread.run("two")

    asyncio.run(main())
    assert [told["input-messages"] for told in recorder.told(1)] == [["two"]]
