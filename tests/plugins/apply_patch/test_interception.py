from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from codex_framework.contract.errors import ToolRefused
from codex_framework.contract.roles.tools import ToolCall
from codex_framework.testing.turns import LoneTurn
from codex_plugin_apply_patch.interception import PatchInterceptor

PATCH = "*** Begin Patch\n*** Add File: new.txt\n+costs $5 `now` \u2013 {\U000e0100\n*** End Patch\n"
HEAD = "Wall time: 0.0000 seconds\nOutput:\n"


def before(name: str, arguments: dict[str, Any] | str, kind: str = "function") -> ToolCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return asyncio.run(PatchInterceptor().before_tool(ToolCall("call", name, text, kind), LoneTurn()))


def heredoc(start: str = "apply_patch", word: str = "'EOF'") -> str:
    return f"{start} <<{word}\n{PATCH}EOF\n"


def rewritten(call: ToolCall) -> dict[str, Any]:
    assert (call.call_id, call.name, call.kind) == ("call", "apply_patch", "function")
    found: dict[str, Any] = json.loads(call.arguments)
    return found


@pytest.mark.parametrize(
    ("name", "arguments", "workdir"),
    [
        ("exec_command", {"cmd": heredoc()}, None),
        ("exec_command", {"cmd": heredoc(word="EOF")}, None),
        ("exec_command", {"cmd": heredoc(word='"EOF"')}, None),
        ("exec_command", {"cmd": heredoc("applypatch")}, None),
        ("exec_command", {"cmd": f"\n{heredoc()}\n"}, None),
        ("exec_command", {"cmd": heredoc(), "workdir": "sub"}, "sub"),
        ("exec_command", {"cmd": heredoc("cd sub && apply_patch")}, "sub"),
        ("exec_command", {"cmd": heredoc("cd 'a b' && apply_patch")}, "a b"),
        ("exec_command", {"cmd": heredoc('cd "a b" && apply_patch')}, "a b"),
        ("exec_command", {"cmd": heredoc("cd sub && apply_patch"), "workdir": "/top"}, "/top/sub"),
        ("exec_command", {"cmd": heredoc("cd /abs && apply_patch"), "workdir": "/top"}, "/abs"),
        ("exec_command", {"cmd": heredoc("cd 'gr\u00fcn \U0001f600' && apply_patch")}, "gr\u00fcn \U0001f600"),
        ("exec_command", {"cmd": heredoc("cd gr\u00fcn && apply_patch")}, "gr\u00fcn"),
        ("shell_command", {"command": heredoc()}, None),
        ("shell", {"command": ["bash", "-lc", heredoc()]}, None),
        ("shell", {"command": ["/bin/sh", "-c", heredoc("cd sub && apply_patch")]}, "sub"),
        ("shell", {"command": ["apply_patch", PATCH], "workdir": "sub"}, "sub"),
        ("container.exec", {"command": ["applypatch", PATCH]}, None),
        ("local_shell", {"type": "exec", "command": ["apply_patch", PATCH], "working_directory": "sub"}, "sub"),
    ],
)
def test_a_shell_call_that_only_patches_becomes_a_call_of_the_tool(
    name: str, arguments: dict[str, Any], workdir: str | None
) -> None:
    found = rewritten(before(name, arguments, "local_shell" if name == "local_shell" else "function"))
    assert found.pop("input").strip() == PATCH.strip()
    assert found.pop("prefix", "") == (HEAD if name == "exec_command" else "")
    assert found == ({} if workdir is None else {"workdir": workdir})


@pytest.mark.parametrize(
    "script",
    [
        heredoc() + "echo done\n",
        heredoc("echo start; apply_patch"),
        heredoc("cd a b && apply_patch"),
        heredoc("cd a || apply_patch"),
        heredoc("cd a; apply_patch"),
        heredoc("cd a && cd b && apply_patch"),
        heredoc("cd && apply_patch"),
        heredoc("cd - && apply_patch"),
        heredoc("cd $HOME && apply_patch"),
        heredoc('cd "$HOME" && apply_patch'),
        heredoc("cd ~/x && apply_patch"),
        heredoc("cd a\\ b && apply_patch"),
        heredoc("sudo apply_patch"),
        heredoc("X=1 apply_patch"),
        heredoc("! apply_patch"),
        heredoc("apply_patch --help"),
        heredoc("cat"),
        heredoc(word="'EOF' | tee log"),
        heredoc(word="'EOF' > log"),
        heredoc(word="'EOF' && echo done"),
        heredoc(word="'EOF' &"),
        heredoc("(apply_patch") + ")",
        f"apply_patch '{PATCH}'",
        "apply_patch",
        "grep apply_patch README.md",
        "echo '*** Begin Patch'",
        "apply_patch <<'EOF'\n*** Begin Patch",
        "apply_patch ${\U0010ffff",
        "apply_patch \0",
    ],
)
def test_anything_else_is_left_to_the_shell(script: str) -> None:
    for name, arguments in (
        ("exec_command", {"cmd": script}),
        ("shell_command", {"command": script}),
        ("shell", {"command": ["bash", "-lc", script]}),
    ):
        call = ToolCall("call", name, json.dumps(arguments))
        assert asyncio.run(PatchInterceptor().before_tool(call, LoneTurn())) is call


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("exec_command", '{"cmd": "apply_patch'),
        ("exec_command", '["apply_patch"]'),
        ("exec_command", '{"cmd": ["apply_patch", "x"]}'),
        ("shell", '{"command": "apply_patch x"}'),
        ("shell", '{"command": ["apply_patch", 5]}'),
        ("shell", '{"command": ["python", "apply_patch"]}'),
        ("other_tool", json.dumps({"cmd": heredoc()})),
    ],
)
def test_what_cannot_be_read_is_left_as_it_is(name: str, arguments: str) -> None:
    assert before(name, arguments) == ToolCall("call", name, arguments)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("exec_command", {"cmd": PATCH}), ("shell", {"command": [PATCH]}), ("shell", {"command": ["bash", "-c", PATCH]})],
)
def test_a_bare_patch_is_told_how_to_be_called(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolRefused) as refused:
        before(name, arguments)
    assert str(refused.value) == (
        "apply_patch verification failed: patch detected without explicit call to apply_patch. "
        'Rerun as ["apply_patch", "<patch>"]'
    )


def test_a_patch_through_a_command_answers_in_the_commands_form(desk: Any) -> None:
    (desk.folder / "sub").mkdir()
    call = before("exec_command", {"cmd": heredoc("cd sub && apply_patch")})
    assert desk.apply(call.arguments, kind=call.kind) == (
        f"{HEAD}Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nA new.txt\n"
    )
    assert desk.tree() == {"sub/new.txt": "costs $5 `now` \u2013 {\U000e0100\n".encode()}


def test_a_fault_in_an_intercepted_patch_is_told_like_any_other(desk: Any) -> None:
    call = before("exec_command", {"cmd": heredoc().replace("*** Add File: new.txt", "*** Update File: no\n@@")})
    assert desk.apply(call.arguments, kind=call.kind) == (
        f"apply_patch verification failed: Failed to read file to update {desk.folder}/no: "
        "No such file or directory (os error 2)"
    )


def test_the_shell_parser_is_loaded_only_when_needed() -> None:
    code = """if True:
        import asyncio, json, sys
        import codex_plugin_apply_patch as plugin
        from codex_framework import ToolCall
        from codex_framework.testing.turns import LoneTurn
        plugin.codex_tools()
        (interceptor,) = plugin.codex_interceptors()
        call = ToolCall("c", "exec_command", json.dumps({"cmd": "ls"}))
        assert asyncio.run(interceptor.before_tool(call, LoneTurn())) is call
        assert not [name for name in sys.modules if name.startswith("tree_sitter")]
    """
    subprocess.run([sys.executable, "-c", code], check=True)
