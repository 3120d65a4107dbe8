"""Files for clients: what works, and Codex's errors for what does not."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MISSING = {"code": -32603, "message": "No such file or directory (os error 2)"}


@pytest.fixture
def folder(home: Any) -> Path:
    """A folder with a file, links, a pipe and a folder."""
    home.serve()
    work: Path = home.work
    (work / "f").write_text("one")
    (work / "f").chmod(0o750)
    (work / "l").symlink_to("f")
    (work / "dead").symlink_to("/no/such/file")
    os.mkfifo(work / "p")
    (work / "d").mkdir()
    (work / "d" / "x").write_text("x")
    os.mkfifo(work / "d" / "p")
    return work


def test_files_are_read_written_copied_and_removed(folder: Path, connected: Callable[..., Any]) -> None:
    def at(name: str) -> str:
        return str(folder / name)

    async def run() -> None:
        async with connected() as client:
            assert await client.call("fs/readFile", path=at("l")) == {"dataBase64": base64.b64encode(b"one").decode()}
            data = bytes(range(256))
            await client.call("fs/writeFile", path=at("n"), dataBase64=base64.b64encode(data).decode())
            assert (folder / "n").read_bytes() == data
            await client.call("fs/writeFile", path=at("n"), dataBase64="")
            assert (folder / "n").read_bytes() == b""
            await client.call("fs/createDirectory", path=at("a/b"))
            await client.call("fs/createDirectory", path=at("a/b"))
            assert (folder / "a" / "b").is_dir()
            found = await client.call("fs/getMetadata", path=at("l"))
            changed = (folder / "f").stat().st_mtime_ns // 1_000_000
            assert (found["isFile"], found["isSymlink"], found["modifiedAtMs"]) == (True, True, changed)
            assert (await client.call("fs/getMetadata", path=at("p")))["isFile"] is False
            await client.call("fs/copy", sourcePath=at("f"), destinationPath=at("g"))
            assert ((folder / "g").read_text(), (folder / "g").stat().st_mode & 0o777) == ("one", 0o750)
            await client.call("fs/copy", sourcePath=at("l"), destinationPath=at("k"))
            assert (folder / "k").readlink() == Path("f")
            await client.call("fs/copy", sourcePath=at("d"), destinationPath=at("e"), recursive=True)
            assert [path.name for path in (folder / "e").iterdir()] == ["x"]
            await client.call("fs/remove", path=at("k"))
            await client.call("fs/remove", path=at("e"))
            await client.call("fs/remove", path=at("e"))
            entries = (await client.call("fs/readDirectory", path=str(folder)))["entries"]
            kinds = {entry["fileName"]: (entry["isDirectory"], entry["isFile"]) for entry in entries}
            is_folder, is_file = (True, False), (False, True)
            assert kinds == {
                **dict.fromkeys(("a", "d"), is_folder),
                **dict.fromkeys(("f", "g", "l", "n"), is_file),
                "p": (False, False),
            }

    asyncio.run(run())
    assert (folder / "f").read_text() == "one", "removing a link removed its target"


@pytest.mark.parametrize(
    ("method", "params", "error"),
    [
        ("readFile", {"path": "none"}, MISSING),
        ("readFile", {"path": "d"}, {"code": -32600, "message": "path `{}/d` is not a file"}),
        ("readFile", {"path": "p"}, {"code": -32600, "message": "path `{}/p` is not a file"}),
        ("readFile", {"path": "/dev/zero"}, {"code": -32600, "message": "path `/dev/zero` is not a file"}),
        ("writeFile", {"path": "n/m", "dataBase64": ""}, MISSING),
        ("writeFile", {"path": "d", "dataBase64": ""}, {"code": -32603, "message": "Is a directory (os error 21)"}),
        ("writeFile", {"path": "p", "dataBase64": ""}, {"code": -32603}),
        ("writeFile", {"path": "n", "dataBase64": "b!"}, {"code": -32600}),
        ("createDirectory", {"path": "c/b", "recursive": False}, MISSING),
        ("createDirectory", {"path": "f"}, {"code": -32603, "message": "File exists (os error 17)"}),
        ("getMetadata", {"path": "dead"}, MISSING),
        ("readDirectory", {"path": "f"}, {"code": -32603, "message": "Not a directory (os error 20)"}),
        (
            "copy",
            {"sourcePath": "d", "destinationPath": "e"},
            {"code": -32600, "message": "fs/copy requires recursive: true when sourcePath is a directory"},
        ),
        (
            "copy",
            {"sourcePath": "d", "destinationPath": "d/in", "recursive": True},
            {"code": -32600, "message": "fs/copy cannot copy a directory to itself or one of its descendants"},
        ),
        (
            "copy",
            {"sourcePath": "p", "destinationPath": "q"},
            {"code": -32600, "message": "fs/copy only supports regular files, directories, and symlinks"},
        ),
        ("copy", {"sourcePath": "f", "destinationPath": "n/m"}, MISSING),
        ("remove", {"path": "none", "force": False}, MISSING),
        ("remove", {"path": "d", "recursive": False}, {"code": -32603, "message": "Directory not empty (os error 39)"}),
        ("readFile", {"path": "f\0x"}, {"code": -32600}),
    ],
)
def test_errors_are_those_of_codex(
    folder: Path, connected: Callable[..., Any], method: str, params: dict[str, Any], error: dict[str, Any]
) -> None:
    def placed(key: str, value: Any) -> Any:
        return str(folder / value) if key.lower().endswith("path") else value

    async def run() -> None:
        async with connected() as client:
            found = await client.fail(f"fs/{method}", **{key: placed(key, value) for key, value in params.items()})
            assert found["code"] == error["code"], found
            if "message" in error:
                assert found["message"] == error["message"].replace("{}", str(folder))

    before = sorted(map(str, folder.rglob("*")))
    asyncio.run(run())
    assert sorted(map(str, folder.rglob("*"))) == before


def test_a_file_larger_than_the_queue_of_a_client_is_read(folder: Path, connected: Callable[..., Any]) -> None:
    with (folder / "large").open("wb") as file:
        file.truncate(40 << 20)

    async def run() -> None:
        async with connected() as client:
            read = await client.call("fs/readFile", path=str(folder / "large"))
            assert len(base64.b64decode(read["dataBase64"])) == 40 << 20
            assert await client.call("fs/getMetadata", path=str(folder / "f"))

    asyncio.run(run())


def test_a_relative_path_is_refused(folder: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            for path in ("f", "", "~/f"):
                error = await client.fail("fs/readFile", path=path)
                message = "Invalid request: AbsolutePathBuf deserialized without a base path"
                assert error == {"code": -32600, "message": message}

    asyncio.run(run())
    assert folder.exists()
