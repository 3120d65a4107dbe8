"""Fuzzy search for files: scores and order as in Codex, what is searched, sessions, and cancelling."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_lib_file_search.fuzzy import Pattern
from codex_lib_file_search.search import FileSearch
from codex_plugin_app_server.methods import file_search

MATCHES = [  # what Codex 0.171 returns
    ("app", "docs/app", 84, (5, 6, 7)),
    ("FB", "a/b/c/foo_bar.txt", 53, (6, 10)),
    ("oo.bar", "f/o/o.bar", 156, (2, 4, 5, 6, 7, 8)),
    ("keep", "link/app_server.py", 56, (3, 10, 13, 16)),
    ("toolpy", "x/tool/in.py", 151, (2, 3, 4, 5, 10, 11)),
    ("serv", "src/appServer.rs", 89, (7, 8, 9, 10)),
    ("serv", ".git/hooks/pre-receive.sample", 58, (9, 13, 15, 20)),
    ("env", "été/naïve.md", 66, (0, 4, 7)),
    ("unicode", "ünïcode.txt", 184, (0, 1, 2, 3, 4, 5, 6)),
    ("x/tool.py", "x/tool/in.py", 226, (0, 1, 2, 3, 4, 5, 9, 10, 11)),
    ("src app", "src/appServer.rs", 168, (0, 1, 2, 4, 5, 6)),
    ("a\\ b", "a bA", 84, (0, 1, 2)),
    ("p", "dist-packages/pip", 32, (5,)),
    ("!foo bar", "f/o/o.bar", 80, (6, 7, 8)),
    ("^src", "src/Main.rs", 84, (0, 1, 2)),
    ("rs$", "link/Main.rs", 56, (10, 11)),
    ("^foo$", "foo", 84, (0, 1, 2)),
    ("'lib", "a_lib/lib", 80, (2, 3, 4)),
    ("!rs$ main", "src/main.py", 109, (4, 5, 6, 7)),
]


@pytest.mark.parametrize(("query", "path", "score", "indices"), MATCHES)
def test_paths_are_scored_as_in_codex(query: str, path: str, score: int, indices: tuple[int, ...]) -> None:
    found = Pattern(query).match(path)
    assert found is not None
    assert (found.score, found.indices) == (score, indices)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("ab", "ba"),
        ("é", "e"),
        ("^b", "ab"),
        ("a$", "ab"),
        ("^a$", "ab"),
        ("'ac", "abc"),
        ("!b", "abc"),
        ("a !c$", "abc"),
    ],
)
def test_paths_that_do_not_match(query: str, path: str) -> None:
    assert Pattern(query).match(path) is None


@given(st.text("aAbB_/1 é", max_size=4), st.text("aAbB_/1 é", max_size=12))
def test_the_indices_are_those_of_the_query_in_order(query: str, path: str) -> None:
    pattern = Pattern(query)
    found = pattern.match(path)
    if pattern.is_plain and found is not None:
        letters = [path[index] for index in found.indices]
        assert [each.lower().replace("é", "e") for each in letters] == list(query.strip().lower().replace("é", "e"))
        assert sorted(set(found.indices)) == list(found.indices)
        assert found.score <= pattern.most_points


@pytest.fixture
def tree(home: Any) -> Path:
    home.serve()
    work: Path = home.work
    for name in (
        "src/tool.py",
        "src/tool/in.py",
        "tool.py.bak",
        "my tool.py",
        ".hid/tool",
        "out/tool.py",
        "sub/x.log",
        "sub/keep.log",
    ):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("")
    (work / ".gitignore").write_text("out\n*.log\n!keep.log\n")
    (work / ".git" / "info").mkdir(parents=True)
    (work / "link").symlink_to("src")
    (work / "src" / "up").symlink_to("..")
    (work / "dead").symlink_to("nothing")
    (work / os.fsdecode(b"bad\xff.txt")).write_text("")
    return work


def paths(result: Any) -> list[str]:
    return [each["path"] for each in result["files"]]


def test_names_count_more_than_folders_and_whole_names_most(tree: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            result = await client.call("fuzzyFileSearch", query="tool.py", roots=[str(tree)])
            assert paths(result) == [
                "link/tool.py",
                "src/tool.py",
                "tool.py.bak",
                "my tool.py",
                "link/tool/in.py",
                "src/tool/in.py",
            ]
            assert result["files"][0] == {
                "root": str(tree),
                "path": "link/tool.py",
                "match_type": "file",
                "file_name": "tool.py",
                "score": 3 * 65536 + 184,
                "indices": [5, 6, 7, 8, 9, 10, 11],
            }
            folder = (await client.call("fuzzyFileSearch", query="TOOL", roots=[str(tree)]))["files"][1]
            assert (folder["path"], folder["match_type"], folder["score"]) == (
                "link/tool",
                "directory",
                2 * 65536 + 109,
            )
            both = await client.call("fuzzyFileSearch", query="tool", roots=[str(tree), str(tree / ".hid")])
            assert paths(both)[:3] == ["tool", "link/tool", "src/tool"]
            assert [each["root"] for each in both["files"][:2]] == [str(tree / ".hid"), str(tree)]
            for roots in ([], ["/nowhere"], [str(tree / "tool.py.bak")], ["a\0b"]):
                assert paths(await client.call("fuzzyFileSearch", query="tool", roots=roots)) == []
            assert paths(await client.call("fuzzyFileSearch", query="", roots=[str(tree)])) == []

    asyncio.run(run())


def test_what_git_ignores_is_left_out_in_a_checkout(tree: Path) -> None:
    def found(query: str, environ: dict[str, str] | None = None) -> list[str]:
        search = FileSearch([str(tree)], environ or {"HOME": str(tree.parent / "nobody")})
        search.start(query)
        assert search.step(60)
        return [each.path for each in search.best()]

    assert found(".log$") == ["sub/keep.log"]
    assert found("dead") == found("bad") == []
    assert found("^out") == []
    (tree / ".git" / "info" / "exclude").write_text("/sub\n")
    assert found(".log$") == []
    user = tree.parent / "user"
    (user / ".config" / "git").mkdir(parents=True)
    (user / ".config" / "git" / "ignore").write_text("*.bak\n")
    assert found("bak$", {"HOME": str(user)}) == []
    (user / ".gitconfig").write_text("[core]\n\texcludesFile = ~/mine\n")
    assert found("bak$", {"HOME": str(user)}) == ["tool.py.bak"]
    (user / "mine").write_text("tool.py.bak\n")
    assert found("bak$", {"HOME": str(user)}) == []
    if not any((folder / ".git").exists() for folder in tree.parents):
        (tree / ".git").rename(tree / "git")
        assert found(".log$") == ["sub/keep.log", "sub/x.log"]


def test_a_pipe_among_the_rules_stops_nobody(tree: Path) -> None:
    (tree / ".gitignore").unlink()
    os.mkfifo(tree / ".gitignore")
    search = FileSearch([str(tree)], {})
    search.start("keep")
    assert search.step(60)
    assert [each.path for each in search.best()] == ["sub/keep.log"]


def test_only_the_best_fifty_are_returned(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / "a" / f"{number:02}").mkdir(parents=True)
    (tmp_path / "xaxx").write_text("")
    search = FileSearch([str(tmp_path)], {})
    search.start("a")
    assert not search.step(0)  # in steps as small as that, it goes on
    while not search.step(0):
        pass
    found = search.best()
    assert [each.path for each in found[:3]] == ["a", "xaxx", "a/00"]
    assert len(found) == 50


def test_a_later_request_with_the_same_token_ends_a_search(
    tree: Path, connected: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_search, "_STEP_S", 0.0)  # so that it needs several steps
    for number in range(500):
        (tree / f"file{number}").write_text("")

    async def run() -> None:
        async with connected() as client:
            first = client.start("fuzzyFileSearch", query="file", roots=[str(tree)], cancellationToken="t")
            second = client.start("fuzzyFileSearch", query="keep", roots=[str(tree)], cancellationToken="t")
            other = client.start("fuzzyFileSearch", query="keep", roots=[str(tree)], cancellationToken="u")
            assert paths((await client.response(first))["result"]) == []
            assert paths((await client.response(second))["result"]) == ["sub/keep.log"]
            assert paths((await client.response(other))["result"]) == ["sub/keep.log"]
            earlier = client.start("fuzzyFileSearch", query="file", roots=[str(tree)], cancellationToken="t")
            ended_at_once = client.start("fuzzyFileSearch", query="", roots=[str(tree)], cancellationToken="t")
            assert paths((await client.response(ended_at_once))["result"]) == []
            assert paths((await client.response(earlier))["result"]) == []
            assert file_search._tokens == {}

    asyncio.run(run())


def test_a_session_follows_the_query(tree: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected(experimentalApi=True) as client:

            async def shown(query: str) -> list[str]:
                await client.call("fuzzyFileSearch/sessionUpdate", sessionId="s", query=query)
                update = await client.notification("fuzzyFileSearch/sessionUpdated")
                assert (update["sessionId"], update["query"]) == ("s", query)
                assert await client.notification("fuzzyFileSearch/sessionCompleted") == {"sessionId": "s"}
                return paths(update)

            await client.call("fuzzyFileSearch/sessionStart", sessionId="s", roots=[str(tree)])
            assert (await client.notification("fuzzyFileSearch/sessionUpdated"))["files"] == []
            await client.notification("fuzzyFileSearch/sessionCompleted")
            assert await shown("keep") == ["sub/keep.log"]
            assert await shown("keepx") == []
            assert await shown("keep") == ["sub/keep.log"]
            (tree / "keep2").write_text("")
            assert await shown("keep") == ["sub/keep.log"]  # the folders are read once
            await client.call("fuzzyFileSearch/sessionStart", sessionId="s", roots=[str(tree)])
            await client.notification("fuzzyFileSearch/sessionCompleted")
            assert await shown("keep") == ["keep2", "sub/keep.log"]
            assert await client.call("fuzzyFileSearch/sessionStop", sessionId="s") == {}
            assert await client.call("fuzzyFileSearch/sessionStop", sessionId="s") == {}
            error = await client.fail("fuzzyFileSearch/sessionUpdate", sessionId="s", query="k")
            assert error == {"code": -32600, "message": "fuzzy file search session not found: s"}
            error = await client.fail("fuzzyFileSearch/sessionStart", sessionId="", roots=[str(tree)])
            assert error == {"code": -32600, "message": "sessionId must not be empty"}
            error = await client.fail("fuzzyFileSearch/sessionStart", sessionId="s", roots=[])
            assert error["code"] == -32603
            assert re.search("at least one search directory is required", error["message"])

    asyncio.run(run())


def test_sessions_belong_to_one_client_and_end_with_it(tree: Path, serving: Callable[..., Any]) -> None:
    async def run() -> None:
        async with serving() as running:
            client, other = running.connect(), running.connect()
            await client.hello(experimentalApi=True)
            await other.hello(experimentalApi=True)
            for number in range(32):
                await client.call("fuzzyFileSearch/sessionStart", sessionId=f"s{number}", roots=[str(tree)])
            assert (await client.fail("fuzzyFileSearch/sessionStart", sessionId="s32", roots=["/"]))["code"] == -32001
            await other.call("fuzzyFileSearch/sessionStart", sessionId="s0", roots=[str(tree)])
            error = await other.fail("fuzzyFileSearch/sessionUpdate", sessionId="s1", query="keep")
            assert error["message"] == "fuzzy file search session not found: s1"
            client.leave()
            await client.until_closed()
            assert [session for _, session in file_search._sessions] == ["s0"]
            await other.call("fuzzyFileSearch/sessionUpdate", sessionId="s0", query="keep")
            assert "fuzzyFileSearch/sessionUpdated" in other.methods() or await other.notification(
                "fuzzyFileSearch/sessionUpdated"
            )

    asyncio.run(run())
