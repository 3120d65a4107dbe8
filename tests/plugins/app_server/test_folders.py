"""Threads in other folders than the server's: each has the configuration of its own folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import call, say


def project(home: Any, name: str, trust: str | None, settings: str = "") -> Path:
    """Make a project with settings, instructions and rules of its own."""
    folder: Path = home.work.parent / name
    (folder / ".git").mkdir(parents=True)
    (folder / ".codex" / "rules").mkdir(parents=True)
    (folder / ".codex" / "config.toml").write_text(settings or f'model = "model-of-{name}"\n')
    (folder / ".codex" / "rules" / "own.rules").write_text('prefix_rule(pattern=["touch"], decision="allow")\n')
    (folder / "AGENTS.md").write_text(f"instructions of {name}")
    if trust is not None:
        with (home.path / "config.toml").open("a") as file:
            file.write(f'[projects."{folder}"]\ntrust_level = "{trust}"\n')
    return folder


async def start(client: Any, folder: Path, **params: Any) -> dict[str, Any]:
    started: dict[str, Any] = await client.call("thread/start", cwd=str(folder), **params)
    return started


def test_thread_gets_the_settings_and_instructions_of_its_own_project(home: Any, serving: Callable[..., Any]) -> None:
    model = home.serve(say("a"), say("b"))
    one, two = project(home, "one", "trusted"), project(home, "two", "trusted")

    async def run() -> None:
        async with serving() as running:
            client = running.connect()
            await client.hello()
            for folder in (one, two):
                started = await start(client, folder)
                assert (started["model"], started["sandbox"]["type"]) == (f"model-of-{folder.name}", "workspaceWrite")
                await client.turn(started["thread"]["id"], "hi")
            assert (await client.call("thread/start"))["model"] == "gpt-5.5"

    asyncio.run(run())
    for request, own, other in zip(model.requests, ("one", "two"), ("two", "one"), strict=True):
        assert f"instructions of {own}" in str(request.json["input"])
        assert f"instructions of {other}" not in str(request.json["input"])


@pytest.mark.parametrize("trust", [None, "untrusted"])
def test_project_that_is_not_trusted_gains_nothing(home: Any, connected: Callable[..., Any], trust: str | None) -> None:
    model = home.serve(call("exec_command", cmd="touch x"), say("done"))
    loose = 'model = "other"\napproval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
    folder = project(home, "foreign", trust, loose)

    async def run() -> None:
        async with connected() as client:
            started = await start(client, folder, sandbox="read-only")
            assert started["model"] == "gpt-5.5"
            assert started["sandbox"]["type"] == "readOnly"
            assert started["approvalPolicy"] == ("untrusted" if trust else "on-request")
            await client.turn(started["thread"]["id"], "hi", approvalPolicy="never")
            warnings = [each["params"]["message"] for each in client.seen if each.get("method") == "warning"]
            assert any("ignored, because this project is not trusted" in text for text in warnings)

    asyncio.run(run())
    assert not (folder / "x").exists()  # the project's rule would have allowed it outside of the sandbox
    assert ("instructions of foreign" in str(model.requests[0].json["input"])) is (trust is None)


def test_project_of_the_server_gives_nothing_to_threads_of_other_folders(
    home: Any, serving: Callable[..., Any]
) -> None:
    home.serve()
    own = project(home, "own", "trusted", 'sandbox_mode = "danger-full-access"\n')
    other = project(home, "other", None)
    home.work = own

    async def run() -> None:
        async with serving() as running:
            client = running.connect()
            await client.hello()
            assert (await start(client, own))["sandbox"]["type"] == "dangerFullAccess"
            assert (await start(client, other))["sandbox"]["type"] == "readOnly"

    asyncio.run(run())


def test_resumed_or_forked_thread_works_in_the_folder_of_its_last_turn(
    home: Any, connected: Callable[..., Any]
) -> None:
    home.serve(say("a"), say("b"))
    one, two = project(home, "one", "trusted"), project(home, "two", "trusted")

    async def begin() -> str:
        async with connected() as client:
            thread_id: str = (await start(client, home.work))["thread"]["id"]
            await client.turn(thread_id, "hi", model="gpt-5.4", effort="high")
            await client.turn(thread_id, "and there", cwd=str(one))
            return thread_id

    async def resume(thread_id: str) -> None:
        async with connected() as client:
            forked = await client.call("thread/fork", threadId=thread_id, excludeTurns=True)
            assert (forked["cwd"], forked["model"]) == (str(one), "model-of-one")
            elsewhere = await client.call("thread/fork", threadId=thread_id, excludeTurns=True, cwd=str(two))
            assert (elsewhere["cwd"], elsewhere["model"]) == (str(two), "model-of-two")
            resumed = await client.call("thread/resume", threadId=thread_id, excludeTurns=True)
            assert (resumed["cwd"], resumed["model"], resumed["reasoningEffort"]) == (str(one), "gpt-5.4", "high")

    asyncio.run(resume(asyncio.run(begin())))


def test_model_that_the_client_names_counts_for_a_resumed_thread(home: Any, connected: Callable[..., Any]) -> None:
    home.serve(say("a"))

    async def begin() -> str:
        async with connected() as client:
            thread_id: str = (await start(client, home.work))["thread"]["id"]
            await client.turn(thread_id, "hi", model="gpt-5.4", effort="high")
            return thread_id

    async def resume(thread_id: str) -> None:
        async with connected() as client:
            resumed = await client.call("thread/resume", threadId=thread_id, excludeTurns=True, model="gpt-5.5")
            assert (resumed["model"], resumed["reasoningEffort"]) == ("gpt-5.5", None)

    asyncio.run(resume(asyncio.run(begin())))


def test_folder_shares_a_kernel_until_its_configuration_changes_or_its_last_thread_ends(
    home: Any, serving: Callable[..., Any]
) -> None:
    home.serve()
    folder = project(home, "one", "trusted")

    async def run() -> None:
        async with serving() as running:
            client, kernels = running.connect(), running.server.kernels
            await client.hello()
            numbers = [client.start("thread/start", cwd=str(folder), ephemeral=True) for _ in range(3)]
            ids = [(await client.response(number))["result"]["thread"]["id"] for number in numbers]
            assert len(kernels.running) == 2
            (folder / ".codex" / "config.toml").write_text('model = "newer"\n')
            newest = await start(client, folder, ephemeral=True)
            assert newest["model"] == "newer"
            assert len(kernels.running) == 3
            for thread_id in ids:
                await running.server.threads[thread_id].close()
            assert len(kernels.running) == 2
            await running.server.threads[newest["thread"]["id"]].close()
            assert kernels.running == (kernels.base,)

    asyncio.run(run())


def test_kernel_stays_while_a_thread_is_being_started_in_it(home: Any, serving: Callable[..., Any]) -> None:
    home.serve()
    folder = project(home, "one", "trusted")

    async def run() -> None:
        async with serving() as running:
            kernels = running.server.kernels
            async with kernels.at(folder) as kernel:
                async with kernels.at(folder) as same:
                    assert same is kernel
                assert kernel in kernels.running
            assert kernels.running == (kernels.base,)

    asyncio.run(run())
