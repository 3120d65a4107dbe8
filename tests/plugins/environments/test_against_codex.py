"""The same turns with two environments in Codex 0.169 and here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import call, custom_call, say
from tests.plugins.environment_steps import last_request_of_codex, last_request_of_ours, plain


def of_request(request: Any) -> Any:
    texts = [part["text"] for item in request["input"] if item["type"] == "message" for part in item["content"]]
    contexts = [
        re.sub("<error>.+</error>", "<error>E</error>", text)  # in the words of each program
        for text in texts
        if text.startswith("<environment_context>")
    ]
    outputs = [item["output"] for item in request["input"] if item["type"].endswith("_output")]
    return contexts, [plain(output) if isinstance(output, str) else output for output in outputs]


def properties_of(tools: Any) -> Any:
    return {
        tool["name"]: "environment_id" in (tool.get("parameters") or {}).get("properties", {})
        or "Environment ID" in json.dumps(tool)
        for tool in tools
        if tool.get("name") in ("exec_command", "write_stdin", "view_image", "apply_patch")
    }


def theirs(binary: str, home: Path, folder: Path, steps: Any, replies: Any, toml: str) -> Any:
    home.mkdir(parents=True)
    (home / "environments.toml").write_text(toml)
    last = last_request_of_codex(binary, home, folder, steps, replies)
    return of_request(last), properties_of(last["tools"])


def ours(make_kernel: Any, folder: Path, steps: Any, replies: Any) -> Any:
    last, tools = last_request_of_ours(make_kernel, folder, steps, replies)
    return of_request(last), tools


@pytest.mark.slow
def test_the_model_is_told_the_same(box: Any, make_kernel: Any, configure: Any, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    here, there, both = [("local", folder)], [("box", box.work)], [("box", box.work), ("local", folder)]
    dead = '[[environments]]\nid = "dead"\nurl = "ws://127.0.0.1:9"\n'
    for number, (steps, toml) in enumerate(
        [
            ([None], box.entry()),
            ([None], f'default = "box"\n{box.entry()}'),
            ([None], f'default = "none"\n{box.entry()}'),
            ([None], f"include_local = false\n{box.entry()}"),
            ([here, both, there, here], box.entry()),
            ([[("dead", "/x")]], dead),
            ([[("dead", "/x"), ("local", folder)]], dead),
            ([[("dead", "/x"), ("also", "/y")]], dead + dead.replace("dead", "also")),
        ]
    ):
        configure(toml)
        expected, _ = theirs(box.binary, tmp_path / f"home{number}" / ".codex", folder, steps, [say("done")], toml)
        found, _ = ours(make_kernel, folder, steps, [say("done")] * len(steps))
        assert found == expected, (steps, toml)


def patch(head: str, name: str) -> str:
    return f"*** Begin Patch\n{head}*** Add File: {name}\n+x\n*** End Patch\n"


@pytest.mark.slow
def test_calls_answer_the_same(box: Any, make_kernel: Any, configure: Any, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    replies = [
        call("exec_command", cmd="pwd; echo $OF_THE_BOX $HOME", login=False, environment_id="box"),
        call("exec_command", cmd="pwd; echo x$OF_THE_BOX", login=False, environment_id="local"),
        call("exec_command", cmd="pwd; echo x$OF_THE_BOX", login=False),
        call("exec_command", cmd="pwd", environment_id="nope"),
        call("exec_command", cmd="exit 7", login=False, environment_id="box"),
        call("exec_command", cmd="pwd", login=False, environment_id="box", workdir="/nope"),
        custom_call("apply_patch", patch("*** Environment ID: box\n", "a")),
        custom_call("apply_patch", patch("*** Environment ID: box\n", "sub/b")),
        custom_call("apply_patch", patch("*** Environment ID: nope\n", "a")),
        custom_call("apply_patch", patch("", "c")),
        custom_call(
            "apply_patch", "*** Begin Patch\n*** Environment ID: box\n*** Delete File: nothing\n*** End Patch\n"
        ),
        call("exec_command", cmd="cat a sub/b", login=False, environment_id="box"),
        call("view_image", path="nothing.png", environment_id="box"),
        call("view_image", path="sub", environment_id="box"),
        say("done"),
    ]
    configure(box.entry())
    steps = [[("local", folder), ("box", box.work)]]
    expected = theirs(box.binary, tmp_path / "home" / ".codex", folder, steps, replies, box.entry())
    for path in ("a", "sub/b"):
        (box.work / path).unlink()
    (folder / "c").unlink()
    found = ours(make_kernel, folder, steps, replies)
    assert found[0] == expected[0]
    assert (box.work / "sub/b").read_text() == "x\n"
    assert (folder / "c").read_text() == "x\n"
