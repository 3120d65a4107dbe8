"""Watching files and folders: what is told, when paths come and go, and limits."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_plugin_app_server.methods import fs


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fs, "_GATHERING_S", 0.01)


@pytest.fixture
def work(home: Any) -> Path:
    home.serve()
    folder: Path = home.work
    return folder


async def told(client: Any, watch_id: str, path: Path, change: Callable[[], object]) -> None:
    """Change something, and wait until the client has been told about a path."""
    mark = len(client.seen)

    def tells(message: dict[str, Any]) -> bool:
        params = message.get("params", {})
        return (
            message.get("method") == "fs/changed"
            and params["watchId"] == watch_id
            and params["changedPaths"] == sorted(params["changedPaths"])
            and str(path) in params["changedPaths"]
        )

    change()
    while not any(map(tells, client.seen[mark:])):
        await client.until(lambda message: message.get("method") == "fs/changed")


def test_a_file_is_watched_while_it_is_replaced_removed_and_created(work: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            file, deep = work / "f", work / "a" / "b" / "c"
            assert await client.call("fs/watch", watchId="f", path=str(file)) == {"path": str(file)}
            assert await client.call("fs/watch", watchId="deep", path=f"{work}/a/./b/c/") == {"path": str(deep)}
            await told(client, "f", file, lambda: file.write_text("one"))
            (work / "g").write_text("two")
            await told(client, "f", file, lambda: (work / "g").rename(file))
            await told(client, "f", file, lambda: file.chmod(0o600))
            await told(client, "f", file, file.unlink)
            deep.parent.mkdir(parents=True)
            await told(client, "deep", deep, lambda: deep.write_text(""))
            await told(client, "deep", deep, lambda: shutil.rmtree(work / "a"))
            await told(client, "deep", deep, lambda: deep.mkdir(parents=True))
            await told(client, "deep", deep / "d", lambda: (deep / "d").write_text(""))
            await told(client, "f", file, lambda: file.write_text("three"))
            paths = {
                path
                for message in client.seen
                if message.get("method") == "fs/changed"
                for path in message["params"]["changedPaths"]
            }
            assert paths == {str(file), str(deep), str(deep / "d")}

    asyncio.run(run())


def test_a_folder_is_watched_for_what_is_directly_in_it(work: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            folder = work / "d"
            (folder / "sub").mkdir(parents=True)
            (work / "link").symlink_to("d")
            await client.call("fs/watch", watchId="d", path=str(folder))
            await client.call("fs/watch", watchId="l", path=str(work / "link"))
            (folder / "sub" / "deeper").write_text("")
            (folder / os.fsdecode(b"\xff")).write_text("")
            for number in range(500):
                (folder / f"n{number:03}").write_text("")
            await told(client, "d", folder / "last", lambda: (folder / "last").write_text(""))
            await told(client, "l", work / "link" / "last", lambda: (folder / "last").write_text("x"))
            await told(client, "d", folder, lambda: shutil.rmtree(folder))
            await told(client, "d", folder, folder.mkdir)
            await told(client, "d", folder / "again", lambda: (folder / "again").write_text(""))
            changes = [each["params"] for each in client.seen if each.get("method") == "fs/changed"]
            names = {Path(path).name for change in changes for path in change["changedPaths"]}
            expected = {"d", "sub", "last", "again", *(f"n{number:03}" for number in range(500))}
            assert names - {"link"} == expected  # the link leads nowhere for a while, which may be too short to be seen
            assert len(changes) < 900  # of more than 2,000, several at once

    asyncio.run(run())


def test_watches_belong_to_one_client_and_end_with_it(work: Path, serving: Callable[..., Any]) -> None:
    async def run() -> None:
        async with serving() as running:
            client, other = running.connect(), running.connect()
            await client.hello()
            await other.hello()
            await client.call("fs/watch", watchId="w", path=str(work))
            await other.call("fs/watch", watchId="w", path=str(work))
            error = await client.fail("fs/watch", watchId="w", path=str(work / "x"))
            assert error == {"code": -32600, "message": "watchId already exists: w"}
            assert (await client.fail("fs/watch", watchId="r", path="relative"))["code"] == -32600
            for number in range(127):
                await client.call("fs/watch", watchId=f"{number}", path=str(work / f"f{number}"))
            assert (await client.fail("fs/watch", watchId="more", path=str(work)))["code"] == -32001
            client.leave()
            await client.until_closed()
            assert list(running.server.file_watcher._watches) != []
            assert await other.call("fs/unwatch", watchId="nothing") == {}
            await told(other, "w", work / "x", lambda: (work / "x").write_text(""))
            assert await other.call("fs/unwatch", watchId="w") == {}
            assert fs._watches == {}
            assert not running.server.file_watcher._watches
            seen = len(other.seen)
            (work / "y").write_text("")
            await other.call("fs/watch", watchId="again", path=str(work / "z"))
            await told(other, "again", work / "z", lambda: (work / "z").write_text(""))
            assert not [each for each in other.seen[seen:] if each.get("params", {}).get("watchId") == "w"]

    asyncio.run(run())


def test_more_changes_than_a_client_can_take_are_told_as_one(
    work: Path, connected: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_plugin_app_server.file_watching._MOST_CHANGES", 3)
    monkeypatch.setattr(fs, "_GATHERING_S", 0.3)

    async def run() -> None:
        async with connected() as client:
            await client.call("fs/watch", watchId="w", path=str(work))
            await told(client, "w", work, lambda: [(work / f"{number}").touch() for number in range(100)])
            assert max(len(each["params"]["changedPaths"]) for each in client.seen if "method" in each) <= 4

    asyncio.run(run())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
def test_a_watch_without_descriptors_fails_and_works_later(work: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            await client.call("fs/getMetadata", path=str(work))  # the loop has its thread
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            used = sorted(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
            lowest = next(number for number in range(len(used) + 1) if number not in used)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
            try:
                error = await client.fail("fs/watch", watchId="w", path=str(work))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert error["code"] == -32603
            assert error["message"].startswith(f"cannot watch `{work}`")
            await client.call("fs/watch", watchId="w", path=str(work))
            await told(client, "w", work / "x", lambda: (work / "x").write_text(""))

    asyncio.run(run())
