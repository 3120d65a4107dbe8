from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.errors import ToolError
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.tools import ToolCall, ToolOutput
from codex_framework.testing import turn_facts
from codex_plugin_read_file.grep_files import GrepFiles
from codex_plugin_read_file.list_dir import ListDir
from codex_plugin_read_file.read_file import ReadFile
from codex_plugin_read_file.settings import Settings

Use = Callable[..., str]


@pytest.fixture
def use(open_thread: Callable[..., Any]) -> Use:
    """Call a tool; returns what the model reads."""

    def used(tool: Any, access: FileAccess | None = None, **arguments: Any) -> str:
        async def call() -> str:
            async with open_thread() as thread:
                context = thread.context
                if access is not None:
                    caller = context.caller
                    context = context.evolve(caller=caller.evolve(turn=caller.turn.evolve(access=access)))
                output = await tool.run(ToolCall("call", tool.spec.name, json.dumps(arguments)), context)
                assert isinstance(output, ToolOutput)
                return str(output.content)

        try:
            return asyncio.run(call())
        except ToolError as error:
            return str(error)

    return used


@pytest.mark.parametrize("kind", [ReadFile, ListDir, GrepFiles])
@pytest.mark.parametrize(
    ("shell_type", "settings", "offered"),
    [
        ("unified_exec", {}, False),
        ("shell", {}, True),
        ("unified_exec", {"offer": True}, True),
        ("shell", {"offer": False}, False),
    ],
)
def test_the_tools_are_offered_as_model_and_config_say(
    kind: Any, shell_type: str, settings: dict[str, Any], *, offered: bool
) -> None:
    tool = kind(Settings(**settings))
    facts = turn_facts(model=ModelInfo(slug="m", shell_type=shell_type))
    assert tool.offered(facts) is offered
    thread = facts.evolve(config={"framework": {"plugins": {"read_file": {"offer": not offered}}}})
    assert tool.offered(thread) is not offered
    assert tool.parallel_safe


@pytest.mark.parametrize("kind", [ReadFile, ListDir, GrepFiles])
def test_a_tool_is_offered_to_a_model_that_knows_it(kind: Any) -> None:
    name = kind().spec.name
    model = ModelInfo(slug="m", shell_type="unified_exec", extra_tools=(name, "other"))
    assert kind().offered(turn_facts(model=model))
    assert not kind().offered(turn_facts(model=model.evolve(extra_tools=("other",))))
    assert not kind(Settings(offer=False)).offered(turn_facts(model=model))


# read_file: slices


def test_lines_are_shown_with_their_numbers(use: Use, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"one\r\ntwo\n\nfour \xff\nfive")
    path = str(tmp_path / "f")
    assert use(ReadFile(), file_path=path) == "L1: one\nL2: two\nL3: \nL4: four \ufffd\nL5: five"
    assert use(ReadFile(), file_path=path, offset=2, limit=2) == "L2: two\nL3: "
    assert use(ReadFile(), file_path=path, offset=5, limit=9, mode="slice") == "L5: five"


def test_a_large_slice_ends_with_the_offset_to_go_on_with(use: Use, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(("y" * 7999 + "\n") * 2000)
    lines = use(ReadFile(), file_path=str(tmp_path / "f"), limit=10**12).splitlines()
    assert lines[-1] == f"L{len(lines)}: not shown; continue with offset {len(lines)}"
    assert len(lines) < 600


@pytest.mark.parametrize("arguments", [{}, {"offset": 5}])
def test_an_interrupted_call_reads_no_further(
    open_thread: Callable[..., Any], tmp_path: Path, arguments: dict[str, Any]
) -> None:
    (tmp_path / "f").touch()
    os.truncate(tmp_path / "f", 1 << 40)  # reading it would take minutes

    async def story() -> None:
        async with open_thread() as thread:
            given = json.dumps({"file_path": str(tmp_path / "f"), **arguments})
            running = asyncio.create_task(ReadFile().run(ToolCall("call", "read_file", given), thread.context))
            _, unfinished = await asyncio.wait([running], timeout=0.05)
            running.cancel()
            await asyncio.wait([running])
            assert unfinished
            assert running.cancelled()
            await asyncio.wait_for(asyncio.get_running_loop().shutdown_default_executor(), 60)

    asyncio.run(story())


def test_long_lines_are_cut(use: Use, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x" * 100_000 + "\n" + "é" * 501 + "\n" + "y" * 500 + "\n")
    expected = f"L1: {'x' * 500}\nL2: {'é' * 500}\nL3: {'y' * 500}"
    assert use(ReadFile(), file_path=str(tmp_path / "f")) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"file_path": "f"}, "file_path must be an absolute path"),
        ({"file_path": "{0}/f", "offset": 4}, "offset exceeds file length"),
        ({"file_path": "{0}/f", "offset": 0}, "offset must be a 1-indexed line number"),
        ({"file_path": "{0}/f", "limit": 0}, "limit must be greater than zero"),
        ({"file_path": "{0}/no"}, "failed to read file: No such file or directory (os error 2)"),
        ({"file_path": "{0}"}, "failed to read file: `{0}` is not a file"),
        ({"file_path": "/a\0b"}, "file_path must not contain a NUL character"),
        (
            {"file_path": "{0}/f", "mode": "fast"},
            "failed to parse function arguments: unknown variant `fast`, expected `slice` or `indentation` at line 1 column {1}",
        ),
        (
            {"file_path": "{0}/f", "mode": "indentation", "indentation": {"anchor_line": 9}},
            "anchor_line exceeds file length",
        ),
        (
            {"file_path": "{0}/f", "mode": "indentation", "indentation": {"anchor_line": 0}},
            "anchor_line must be a 1-indexed line number",
        ),
        (
            {"file_path": "{0}/f", "mode": "indentation", "indentation": {"max_lines": 0}},
            "max_lines must be greater than zero",
        ),
    ],
)
def test_wrong_arguments_are_told(use: Use, tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    (tmp_path / "f").write_text("a\nb\nc\n")
    arguments["file_path"] = arguments["file_path"].replace("{0}", str(tmp_path))
    column = len(json.dumps(arguments)) - 1
    assert use(ReadFile(), **arguments) == message.replace("{0}", str(tmp_path)).replace("{1}", str(column))


def test_what_may_not_be_read_is_refused(use: Use, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "f").write_text("x\n")
    (tmp_path / "link").symlink_to("secret/f")
    access = FileAccess.writing(deny=[tmp_path / "secret"])
    for name in ("secret/f", "link"):
        assert use(ReadFile(), access, file_path=str(tmp_path / name)) == f"reading {tmp_path / name} is not permitted"
    assert use(ListDir(), access, dir_path=str(tmp_path / "secret")) == f"reading {tmp_path}/secret is not permitted"
    assert use(ListDir(), access, dir_path=str(tmp_path)) == f"Absolute path: {tmp_path}"
    assert use(GrepFiles(), access, pattern="x", path="secret") == f"reading {tmp_path}/secret is not permitted"


def test_files_of_the_system_are_not_read(use: Use, tmp_path: Path) -> None:
    (tmp_path / "environ").symlink_to("/proc/self/environ")
    (tmp_path / "system").symlink_to("/proc/self")
    why = "is not permitted: tools cannot access the system's files under /proc and /sys"
    for access in (FileAccess(full=True), FileAccess()):
        for path in (
            "/proc/self/environ",
            f"{tmp_path}/environ",
            f"{tmp_path}/system/environ",
            "/sys/kernel/uevent_seqnum",
        ):
            assert use(ReadFile(), access, file_path=path) == f"reading {path} {why}"
            assert use(ReadFile(), access, file_path=path, mode="indentation") == f"reading {path} {why}"
            assert use(GrepFiles(), access, pattern="x", path=path) == f"reading {path} {why}"
        for path in ("/proc", "/proc/self", f"{tmp_path}/system"):
            assert use(ListDir(), access, dir_path=path) == f"reading {path} {why}"
    root = use(ListDir(), dir_path="/", depth=2, limit=100_000).splitlines()
    assert root[root.index("proc/") + 1].startswith(" ") is False, "what is in it is not shown"


def test_a_pipe_is_not_waited_for(use: Use, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for mode in ("slice", "indentation"):
        output = use(ReadFile(), file_path=str(tmp_path / "pipe"), mode=mode)
        assert output == f"failed to read file: `{tmp_path}/pipe` is not a file"
    assert (
        use(GrepFiles(), pattern="x", path="pipe")
        == f"unable to access `{tmp_path}/pipe`: path `{tmp_path}/pipe` is not a file"
    )


def test_a_link_is_read_as_its_target(use: Use, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "f").write_text("x\n")
    (tmp_path / "link").symlink_to("folder")
    assert use(ReadFile(), file_path=f"{tmp_path}/link/f") == "L1: x"
    assert use(ListDir(), dir_path=f"{tmp_path}/link") == f"Absolute path: {tmp_path}/link\nf"


# read_file: blocks

SOURCE = """\
import os

# About A.
class A:
    x = 1

    # About f.
    def f(self):
        if self.x:
            return 1

        return 2

    def g(self):
        return 3

class B:
    pass
"""


@pytest.mark.parametrize(
    ("anchor", "wanted", "numbers"),
    [
        pytest.param(10, {"max_levels": 1}, (9, 12), id="the enclosing block"),
        pytest.param(10, {"max_levels": 2}, (7, 14), id="two levels, up to the line that ends the block"),
        pytest.param(10, {"max_levels": 2, "include_header": False}, (8, 14), id="without its comment"),
        pytest.param(10, {"max_levels": 2, "include_siblings": True}, (5, 15), id="with its neighbours"),
        pytest.param(10, {}, (3, 17), id="all levels"),
        pytest.param(10, {"include_siblings": True}, (1, 18), id="the whole file"),
        pytest.param(10, {"max_levels": 1, "max_lines": 2}, (9, 10), id="a share of the lines"),
        pytest.param(2, {"max_lines": 1}, (2, 2), id="an empty line"),
    ],
)
def test_the_block_around_a_line_is_shown(
    use: Use, tmp_path: Path, anchor: int, wanted: dict[str, Any], numbers: tuple[int, int]
) -> None:
    (tmp_path / "f.py").write_text(SOURCE)
    lines = SOURCE.split("\n")
    first, last = numbers
    output = use(
        ReadFile(),
        file_path=str(tmp_path / "f.py"),
        mode="indentation",
        indentation={"anchor_line": anchor, **wanted},
    )
    assert output == "\n".join(f"L{number}: {lines[number - 1]}" for number in range(first, last + 1))


def test_the_anchor_is_the_offset_if_none_is_given(use: Use, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a:\n\tb\n\tc\nd\n")
    output = use(
        ReadFile(), file_path=str(tmp_path / "f"), offset=2, mode="indentation", indentation={"max_levels": None}
    )
    assert output == "L1: a:\nL2: \tb\nL3: \tc\nL4: d"


# list_dir


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "top"
    (top / "b" / "deep" / "deeper").mkdir(parents=True)
    (top / "a.txt").write_text("")
    (top / "b" / "z.txt").write_text("")
    (top / "b" / "deep" / "y.txt").write_text("")
    (top / ".hidden").write_text("")
    (top / "link").symlink_to("b")
    return top


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({}, (".hidden", "a.txt", "b/", "  deep/", "  z.txt", "link@")),
        ({"depth": 1}, (".hidden", "a.txt", "b/", "link@")),
        ({"depth": 9}, (".hidden", "a.txt", "b/", "  deep/", "    deeper/", "    y.txt", "  z.txt", "link@")),
        ({"limit": 2}, (".hidden", "a.txt", "More than 2 entries found")),
        ({"offset": 5}, ("  z.txt", "link@")),
        ({"offset": 6, "limit": 1}, ("link@",)),
    ],
)
def test_a_folder_is_listed(use: Use, tree: Path, arguments: dict[str, Any], lines: tuple[str, ...]) -> None:
    assert use(ListDir(), dir_path=str(tree), **arguments) == "\n".join((f"Absolute path: {tree}", *lines))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dir_path": "top"}, "dir_path must be an absolute path"),
        ({"offset": 0}, "offset must be a 1-indexed entry number"),
        ({"limit": 0}, "limit must be greater than zero"),
        ({"depth": 0}, "depth must be greater than zero"),
        ({"offset": 7}, "offset exceeds directory entry count"),
        ({"dir_path": "/nowhere/at/all"}, "failed to read directory: No such file or directory (os error 2)"),
    ],
)
def test_wrong_listings_are_told(use: Use, tree: Path, arguments: dict[str, Any], message: str) -> None:
    assert use(ListDir(), **{"dir_path": str(tree), **arguments}) == message


def test_a_deep_tree_is_listed_to_a_limit(use: Use, tmp_path: Path) -> None:
    (tmp_path / "/".join("d" * 150)).mkdir(parents=True)
    lines = use(ListDir(), dir_path=str(tmp_path), depth=10**6, limit=1000).splitlines()
    assert len(lines) == 1 + 100
    assert lines[-1] == f"{'  ' * 99}d/"


def test_an_empty_folder_is_listed(use: Use, tmp_path: Path) -> None:
    assert use(ListDir(), dir_path=str(tmp_path)) == f"Absolute path: {tmp_path}"
