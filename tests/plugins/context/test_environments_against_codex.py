"""The same selections of environments in Codex 0.169 and here: what the model is told, and what calls answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import ResponsesServer, call, custom_call, say
from tests.plugins.environment_steps import last_request_of_codex, last_request_of_ours, plain, selected
from tests.plugins.rollout.conftest import AppServer

_ID = "*** Environment ID: "


def patch(head: str, name: str) -> str:
    return f"*** Begin Patch\n{head}*** Add File: {name}\n+x\n*** End Patch\n"


CALLS = [
    call("exec_command", cmd="echo hello", login=False),
    call("exec_command", cmd="echo hello", environment_id="box"),
    call("exec_command", cmd="echo hello", environment_id=3),
    call("write_stdin", session_id=1),
    call("view_image", path="/nothing", environment_id="box"),
    custom_call("apply_patch", patch("", "a")),
    custom_call("apply_patch", patch(f"{_ID}local\n", "b")),
    custom_call("apply_patch", patch(f"{_ID}\n", "c")),
    custom_call("apply_patch", patch(f"{_ID}local\n{_ID}local\n", "d")),
    custom_call("apply_patch", patch(f"\n{_ID}local\n", "e")),
    call("exec_command", cmd=f"apply_patch <<'EOF'\n{patch(f'{_ID}box' + chr(10), 'f')}EOF\n"),
    call("exec_command", cmd=f"apply_patch <<'EOF'\n{patch('', 'g')}EOF\n", environment_id="box"),
]


def of_request(request: Any) -> tuple[list[str], list[str]]:
    """Return the environment contexts and the outputs of calls in a request."""
    texts = [part["text"] for item in request["input"] if item["type"] == "message" for part in item["content"]]
    contexts = [text for text in texts if text.startswith("<environment_context>")]
    return contexts, [plain(item["output"]) for item in request["input"] if item["type"].endswith("_output")]


def theirs(binary: str, home: Path, folder: Path, steps: Any, replies: Any) -> Any:
    return of_request(last_request_of_codex(binary, home, folder, steps, replies))


def ours(make_kernel: Any, folder: Path, steps: Any, replies: Any) -> Any:
    return of_request(last_request_of_ours(make_kernel, folder, steps, replies)[0])


@pytest.mark.slow
def test_the_model_is_told_the_same(codex_binary: str, make_kernel: Any, tmp_path: Path) -> None:
    folder, other = tmp_path / "work", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    here, there = [("local", folder)], [("local", other)]
    for steps in ([None, here, there, None, [], None, here], [[], None, there], [there, [], [], there]):
        expected = theirs(codex_binary, tmp_path / "home" / ".codex", folder, steps, [say("done")])
        assert ours(make_kernel, folder, steps, [say("done")] * len(steps)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("steps", [[None], [[]]])
def test_calls_answer_the_same(codex_binary: str, make_kernel: Any, tmp_path: Path, steps: Any) -> None:
    folders = [tmp_path / name for name in ("theirs", "ours")]
    for folder in folders:
        folder.mkdir()
    replies = [*CALLS, say("done")]
    expected = theirs(codex_binary, tmp_path / "home" / ".codex", folders[0], steps, replies)
    found = ours(make_kernel, folders[1], steps, replies)
    assert found[1] == expected[1]
    made = [sorted(path.name for path in folder.iterdir()) for folder in folders]
    assert made[0] == made[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "fact"),
    [
        ([("local", "/a"), ("local", "/b")], "duplicate turn environment id `local`"),
        ([("box", "/a")], "unknown turn environment id `box`"),
        ([("local", "a/b")], "path `a/b` does not use absolute POSIX or Windows path syntax"),
    ],
)
def test_the_same_is_refused(codex_binary: str, tmp_path: Path, wanted: Any, fact: str) -> None:
    """The texts are those of ``tests/kernel/test_environments.py``."""
    with (
        ResponsesServer([]) as server,
        AppServer(codex_binary, tmp_path / "home" / ".codex", tmp_path, server.url) as app,
        pytest.raises(AssertionError, match=re.escape(fact)),
    ):
        app.request("thread/start", cwd=str(tmp_path), **selected(wanted))
