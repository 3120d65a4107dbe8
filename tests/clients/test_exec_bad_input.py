"""Whatever a person, a model or a server gets wrong: a clear text, the right status, nothing lost, no traceback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import call, custom_call, fault, say

MODEL_ACTS = "the model reads the error and goes on: status 0"


def output_of(server: Any) -> str:
    """What the second request says of the call in the first reply."""
    (output,) = [item for item in server.requests[1].json["input"] if item["type"].endswith("_output")]
    return str(output["output"])


# What a person can get wrong


def test_broken_toml(cli: Any) -> None:
    cli.serve(say("ok"))
    (cli.home / "config.toml").write_text('model = "x"\nmodel_provider = \n')
    ran = cli.exec("hi")
    assert (ran.status, ran.out) == (1, "")
    assert f"{cli.home}/config.toml:2" in ran.err


def test_an_unknown_key(cli: Any) -> None:
    cli.serve(say("ok"))
    ran = cli.exec("-c", "modle=1", "hi")
    assert ran.status == 1
    assert "modle" in ran.err
    assert "model" in ran.err


def test_an_unknown_provider(cli: Any) -> None:
    cli.serve(say("ok"))
    ran = cli.exec("-c", 'model_provider="nobody"', "hi")
    assert ran.status == 1
    assert "nobody" in ran.err
    assert "loopback" in ran.err  # what there is instead


def test_an_unknown_profile(cli: Any) -> None:
    cli.serve(say("ok"))
    ran = cli.exec("-p", "nobody", "hi")
    assert ran.status == 1
    assert "there is no profile 'nobody'" in ran.err


def test_a_missing_key_names_the_variable(cli: Any) -> None:
    server = cli.serve(say("ok"))
    del cli.env["TEST_KEY"]
    ran = cli.json("hi")
    assert ran.status == 1
    assert "TEST_KEY" in ran.events[-1]["error"]["message"]
    assert server.requests == []


def test_a_home_that_cannot_be_created(cli: Any) -> None:
    cli.env["CODEX_HOME"] = "/dev/null/home"
    ran = cli.exec("hi")
    assert ran.status == 1
    assert "CODEX_HOME is '/dev/null/home', a folder that cannot be created: Not a directory" in ran.err


def test_an_image_that_is_none(cli: Any) -> None:
    server = cli.serve(say("ok"))
    (cli.work / "p.png").write_text("text")
    ran = cli.exec("-i", "p.png", "hi", cwd=cli.work)
    assert ran.status == 1
    assert "p.png is not a PNG" in ran.err
    assert server.requests == []


@pytest.mark.parametrize("text", ["{", '{"a": NaN}', '{"a": ' * 100_000 + "1" + "}" * 100_000])
def test_a_schema_that_is_no_json(cli: Any, text: str) -> None:
    cli.serve(say("ok"))
    (cli.work / "s.json").write_text(text)
    ran = cli.exec("--output-schema", "s.json", "hi")
    assert ran.status == 1
    assert "Output schema file s.json is not valid JSON" in ran.err


def test_a_schema_may_begin_with_a_byte_order_mark(cli: Any) -> None:
    cli.serve(say("ok"))
    (cli.work / "s.json").write_bytes(b'\xef\xbb\xbf{"type": "object"}')
    assert cli.exec("--output-schema", "s.json", "hi").status == 0


def test_a_folder_that_has_gone(cli: Any, tmp_path: Path) -> None:
    cli.serve(say("ok"))
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'cd "{gone}" && rmdir "{gone}" && exec "{shutil.which("codex-framework", path=_bin())}" exec hi'
    ran = subprocess.run(["sh", "-c", script], env=cli.env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert "a bug" not in ran.stderr


def _bin() -> str:
    import sys

    return str(Path(sys.executable).parent)


# What a server can get wrong


def test_an_unreachable_server(cli: Any) -> None:
    cli.configure(base_url="http://127.0.0.1:9/v1")
    ran = cli.json("hi")
    assert ran.status == 1
    assert ran.types[-2:] == ["error", "turn.failed"]
    assert "127.0.0.1:9" in ran.events[-1]["error"]["message"]


def test_html_instead_of_events(cli: Any) -> None:
    page = fault(status=200, headers={"content-type": "text/html"}, body="<html>sign in</html>")
    cli.serve(page, repeat_last=True)
    ran = cli.json("hi")
    assert ran.status == 1
    assert ran.types[2:] == ["error", "error", "turn.failed"]


def test_truncated_json_in_the_last_event(cli: Any) -> None:
    cut = 'event: response.completed\ndata: {"type":"response.completed","response":{\n\n'
    cli.serve(say("lost") + fault(no_completed=True, raw_after=cut), say("Recovered."))
    ran = cli.json("hi")
    assert ran.status == 0
    assert ran.items("agent_message")[-1]["text"] == "Recovered."


def test_an_unknown_event_is_passed_over(cli: Any) -> None:
    odd = 'event: bogus\ndata: {"type":"response.bogus"}\n\ndata: ping\n\ngarbage\n\n'
    cli.serve(say("fine") + fault(raw_before=odd))
    ran = cli.json("hi")
    assert (ran.status, ran.types[2:]) == (0, ["item.completed", "turn.completed"])


def test_a_refused_key(cli: Any) -> None:
    cli.serve(fault(status=401, body={"error": {"message": "Incorrect API key provided."}}), repeat_last=True)
    ran = cli.json("hi")
    assert ran.status == 1
    assert "401" in ran.events[-1]["error"]["message"]
    assert "Incorrect API key provided." in ran.events[-1]["error"]["message"]


# What a model can get wrong: it reads the error and goes on


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (call("exec_command", "{not json"), "failed to parse function arguments"),
        (call("exec_command", workdir="/tmp"), "missing field `cmd`"),
        (call("no_such_tool", a=1), "unsupported call: no_such_tool"),
        (custom_call("no_such_custom", "x"), "unsupported custom tool call: no_such_custom"),
        (
            custom_call("apply_patch", "*** Begin Patch\n*** Update File: a.txt\n@@\n-nowhere\n+x\n*** End Patch"),
            "Failed to find expected lines in",
        ),
        (custom_call("apply_patch", "no patch"), "The first line of the patch must be '*** Begin Patch'"),
    ],
    ids=["no-json", "no-field", "no-tool", "no-custom-tool", "no-match", "no-patch"],
)
def test_a_wrong_call(cli: Any, reply: Any, words: str) -> None:
    (cli.work / "a.txt").write_text("text\n")
    server = cli.serve(reply, say("I see."))
    ran = cli.json("-s", "workspace-write", "hi")
    assert ran.status == 0, MODEL_ACTS
    assert words in output_of(server)
    assert (cli.work / "a.txt").read_text() == "text\n"


# What a disk can get wrong


def test_a_conversation_with_a_cut_last_line_goes_on(cli: Any, user_texts: Any) -> None:
    server = cli.serve(say("one"), say("two"))
    thread_id = cli.json("remember me").events[0]["thread_id"]
    (rollout,) = cli.rollouts()
    data = rollout.read_bytes()
    rollout.write_bytes(data + b'{"timestamp":"2026-01-01T00:00:00.000Z","type":"response_item","payl')
    ran = cli.json("resume", thread_id, "go on")
    assert ran.status == 0
    assert user_texts(server.requests[1].json)[-2:] == ["remember me", "go on"]
    for line in rollout.read_text().splitlines():
        json.loads(line)


def test_a_home_that_cannot_be_written(cli: Any, tmp_path: Path) -> None:
    cli.serve(say("the answer"))
    if os.geteuid() == 0:
        ran = _as_nobody_may_write(cli)
    else:
        cli.home.chmod(0o500)
        try:
            ran = cli.exec("hi")
        finally:
            cli.home.chmod(0o700)
    assert (ran.status, ran.out) == (1, "the answer\n")
    assert "Failed to save the conversation transcript" in ran.err


def _as_nobody_may_write(cli: Any) -> Any:
    """Root may write anywhere; so sessions stand where a folder cannot be."""
    (cli.home / "sessions").write_text("a file")
    return cli.exec("hi")


@pytest.fixture
def full_disk(cli: Any) -> list[str]:
    """The front of an argv that runs with a home on a file system without any room."""
    unshare = shutil.which("unshare")
    small = ["-m", "-r", "sh", "-c"]
    mount = f'mount -t tmpfs -o size=16k,nr_inodes=8 none "{cli.home}/sessions"'
    (cli.home / "sessions").mkdir()
    if unshare is None or subprocess.run([unshare, *small, mount], capture_output=True).returncode != 0:
        pytest.skip("no small file system can be mounted here")
    return [unshare, *small, f'{mount} && exec "$0" "$@"']


def test_a_full_disk(cli: Any, full_disk: list[str]) -> None:
    cli.serve(say("the answer"))
    argv = [*full_disk, str(Path(_bin()) / "codex-framework"), "exec", "a long prompt " * 4000]
    ran = subprocess.run(argv, cwd=cli.work, env=cli.env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (ran.returncode, ran.stdout) == (1, "the answer\n"), ran.stderr
    assert "Failed to save the conversation transcript" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("/nope.png", "Error: unable to read the image /nope.png: No such file or directory\n"),
        ("a folder", "Error: unable to read the image {work}/a folder: Is a directory\n"),
        ("text.png", "Error: {work}/text.png is not a PNG, JPEG, GIF, WebP or BMP image\n"),
    ],
)
def test_an_image_that_cannot_be_sent_is_told_before_anything_else(cli: Any, name: str, fact: str) -> None:
    server = cli.serve(say("ok"))
    (cli.work / "a folder").mkdir()
    (cli.work / "text.png").write_text("text")
    ran = cli.exec("-i", name, "hi", stdin=b"more")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith(fact.format(work=cli.work))
    assert server.requests == []
