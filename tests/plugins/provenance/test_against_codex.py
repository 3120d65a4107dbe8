"""Codex 0.169 and sessions with provenance: it reads and continues them, and forks of it are explained."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Interceptor, Kernel
from codex_framework.config import load_config
from codex_framework.testing import Offer, ResponsesServer, call, say
from codex_plugin_provenance.files import Files
from codex_plugin_provenance.reading import session_of
from codex_plugin_provenance.subjects import notes_about, subject_named
from tests.plugins.rollout.conftest import AppServer


class Guard(Interceptor):
    name = "guard"

    async def before_tool(self, call: Any, turn: Any) -> Any:
        return call.evolve(arguments=json.dumps({"cmd": "echo quiet", "login": False}))

    async def input(self, input: Any, turn: Any) -> Any:  # noqa: A002
        return input.evolve(context=["Be quiet."])


@pytest.fixture
def recorded(tmp_path: Path, codex_binary: str) -> Any:
    """Record a turn here, do something with it in Codex, and return the folder of sessions, the thread's id and Codex's answer."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()

    def run(then: Any) -> tuple[Files, str, Any, list[Any]]:
        replies = [call("exec_command", cmd="echo loud", login=False), say("Done."), say("Again."), say("And again.")]
        with ResponsesServer(replies, repeat_last=True) as server:
            thread_id = asyncio.run(_turn(home, work, server.url))
            with AppServer(codex_binary, home, work, server.url) as app:
                answer = then(app, thread_id)
            return Files(home), thread_id, answer, [request.json for request in server.requests if request.body]

    return run


async def _turn(home: Path, work: Path, url: str) -> str:
    environ = {"HOME": str(home.parent), "CODEX_HOME": str(home), "PATH": os.environ["PATH"]}
    provider = f'model_providers.mock={{name="mock",base_url="{url}",wire_api="responses"}}'
    names = ('model_provider="mock"', 'model="gpt-5.5"', 'sandbox_mode="danger-full-access"', 'approval_policy="never"')
    config = load_config(cwd=work, environ=environ, overrides=(provider, *names))
    async with await Kernel.create(
        config, environ=environ, plugins=[Offer(interceptors=[Guard()], name="house")]
    ) as kernel:
        thread = await kernel.start_thread(source="exec")
        await thread.run("hello")
        return thread.id


def explained(files: Files, thread_id: str) -> list[str]:
    """Return what is known about the calls of `exec_command`."""
    session = session_of(files.find(thread_id), files)
    assert session.faults == []
    return [
        f"{note.record.by.name} {note.record.did}"
        for note in notes_about(session, subject_named(session, "exec_command"))
    ]


def test_codex_continues_a_session_and_keeps_its_provenance(recorded: Any) -> None:
    def resume(app: AppServer, thread_id: str) -> Any:
        app.request("thread/resume", threadId=thread_id)
        app.turn(thread_id, "more")
        return app.turns(thread_id)

    files, thread_id, turns, requests = recorded(resume)
    assert len(turns) == 2
    texts = json.dumps(requests[-1])
    assert "echo loud" in texts
    assert "Be quiet." in texts
    assert explained(files, thread_id) == ["guard changed"]
    assert len(session_of(files.find(thread_id), files).turns) == 2


def test_a_fork_by_codex_is_explained_by_what_its_parent_recorded(recorded: Any) -> None:
    def fork(app: AppServer, thread_id: str) -> str:
        forked: str = app.request("thread/fork", threadId=thread_id)["thread"]["id"]
        app.turn(forked, "more")
        return forked

    files, thread_id, forked, _ = recorded(fork)
    assert forked != thread_id
    assert explained(files, forked) == ["guard changed"]
