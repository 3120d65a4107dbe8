"""What threads, records and models see of servers that fail: the reason, and no secret."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ApprovalPolicy, Status
from codex_framework.contract.protocol.environments import EnvironmentSelection
from codex_framework.contract.protocol.policies import DangerFullAccess, ReadOnly
from codex_framework.testing import call, custom_call, say

SCRIPT = Path(__file__).with_name("hostile.py")
CANARY = "SECRET-canary-4711"


def program(*modes: str, **fields: Any) -> str:
    arguments = ", ".join(f'"{text}"' for text in ("-I", SCRIPT, *modes))
    more = "".join(f"{name} = {value}\n" for name, value in fields.items())
    return (
        f'[[environments]]\nid = "box"\nprogram = "{sys.executable}"\nargs = [{arguments}]\n'
        f'env = {{ BOX_TOKEN = "{CANARY}" }}\n{more}'
    )


def seen(make_kernel: Any, folder: Path, calls: Any, **settings: Any) -> tuple[Any, list[Any], str]:
    """Run a turn that works in the box. Return its result, the outputs, and all that clients and the model get."""

    async def main() -> Any:
        places = (EnvironmentSelection("box", "/box"),)
        settings.setdefault("sandbox_policy", DangerFullAccess())
        replies = [*calls, say("done")]
        async with (
            make_kernel(replies, config="framework.plugins.read_file.offer = true") as kernel,
            asyncio.timeout(30),
        ):
            thread = await kernel.start_thread(
                cwd=folder, environments=places, approval_policy=ApprovalPolicy.NEVER, **settings
            )
            heard = thread.events(answers=False)
            result = await thread.run("Go!")
            heard.end()
            events = [repr(event) async for event in heard]
            prompts = [request.prompt.encoded() for request in kernel.model.requests]
            outputs = [item.output for item in thread.history.items if item.type.endswith("_output")]
            return result, outputs, f"{events} {prompts} {kernel.registry.warnings}"

    result, outputs, told = asyncio.run(main())
    return result, outputs, told


EXEC = call("exec_command", cmd="pwd", login=False)
READ = call("read_file", file_path="/box/file")
PATCH = custom_call("apply_patch", "*** Begin Patch\n*** Delete File: file\n*** End Patch\n")


def test_no_secret_of_a_server_is_told_or_kept(
    make_kernel: Any, configure: Any, codex_home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = ""
    url = f"ws://user:{CANARY}@127.0.0.1:9/path?token={CANARY}"
    for text in (
        program("dies"),
        program("refuses"),
        f'[[environments]]\nid = "box"\nurl = "ws://127.0.0.1:9/x?{CANARY}"\nauth_bearer_token = "{CANARY}"\n',
        f'[[environments]]\nid = "box"\nurl = "{url}#{CANARY}"\n',
    ):
        configure(f'default = "box"\n{text}')
        result, outputs, found = seen(make_kernel, tmp_path, [EXEC, READ, PATCH])
        assert result.status is Status.COMPLETED
        assert len(outputs) == 3
        assert all("the environment `box` cannot be used: " in str(output) for output in outputs), outputs
        told += f"{outputs} {found}"
    kept = b"".join(path.read_bytes() for path in codex_home.rglob("*") if path.is_file() and path.suffix != ".toml")
    assert b"the environment `box` cannot be used" in kept
    assert CANARY not in told
    assert CANARY.encode() not in kept
    assert CANARY not in caplog.text


def test_a_server_that_dies_in_the_middle_ends_only_the_calls(make_kernel: Any, configure: Any, tmp_path: Path) -> None:
    configure(program("gone"))
    result, outputs, _ = seen(make_kernel, tmp_path, [EXEC, READ, EXEC])
    assert result.status is Status.COMPLETED
    assert "before" in outputs[0]
    assert "exited with code 255" in outputs[0]
    assert "The end of the command is not known: " in outputs[0]
    assert "has ended with exit code 4" in outputs[1]
    assert "before" in outputs[2]  # it is reached again


def test_a_command_that_the_server_does_not_confine_is_refused_and_nobody_is_asked(
    make_kernel: Any, configure: Any, tmp_path: Path
) -> None:
    configure(program("no-sandbox", str(tmp_path / "log")))
    _, (output,), _ = seen(make_kernel, tmp_path, [EXEC], sandbox_policy=ReadOnly())
    assert "the server does not confine the command" in output
    assert (tmp_path / "log").exists()


def test_a_lie_about_the_status_is_told(make_kernel: Any, configure: Any, tmp_path: Path) -> None:
    configure(program("status", "true"))
    _, (output,), _ = seen(make_kernel, tmp_path, [EXEC])
    assert "exited with code 255" in output
    assert "The end of the command is not known: the server gave the exit status True." in output


def test_a_read_that_gets_no_answer_is_interrupted_at_once(make_kernel: Any, configure: Any, tmp_path: Path) -> None:
    configure(program("silent-read"))

    async def main() -> Any:
        places = (EnvironmentSelection("box", "/box"),)
        async with (
            make_kernel([READ], config="framework.plugins.read_file.offer = true") as kernel,
            asyncio.timeout(60),
        ):
            thread = await kernel.start_thread(
                cwd=tmp_path,
                environments=places,
                approval_policy=ApprovalPolicy.NEVER,
                sandbox_policy=DangerFullAccess(),
            )
            running = asyncio.ensure_future(thread.run("Go!"))
            while not kernel.model.requests:
                await asyncio.sleep(0.01)
            await thread.interrupt()
            return (await running).status

    assert asyncio.run(main()) is Status.INTERRUPTED


@pytest.mark.parametrize(("name", "path"), [("connect", "bin::/usr/bin:/bin"), ("bin/connect", "/usr/bin:/bin")])
def test_a_program_of_the_working_folder_is_not_run(
    make_kernel: Any, configure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, path: str
) -> None:
    file = tmp_path / "bin" / "connect"
    file.parent.mkdir()
    file.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    file.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    entry = f'[[environments]]\nid = "box"\nprogram = "{name}"\nenv = {{ PATH = "{path}" }}\n'
    configure(entry)
    _, outputs, _ = seen(make_kernel, tmp_path, [EXEC])
    assert f"{name} cannot be started: it is not found" in str(outputs)
    assert not (tmp_path / "ran").exists()
    certain = f'{entry}cwd = "{tmp_path}"\n' if "/" in name else entry.replace("::", f":{tmp_path}/bin:")
    configure(certain)
    seen(make_kernel, tmp_path, [EXEC])
    assert (tmp_path / "ran").exists(), "the same program from a certain place"
