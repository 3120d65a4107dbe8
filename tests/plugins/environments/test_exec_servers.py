"""Turns that work on another machine, through the real exec-server of Codex."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ApprovalPolicy, Decision, ReviewDecision, Status
from codex_framework.contract.permissions.profile import Permissions, permissions_of
from codex_framework.contract.protocol.environments import EnvironmentSelection
from codex_framework.contract.protocol.events import (
    ApplyPatchApprovalRequestEvent,
    ExecApprovalRequestEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    AdditionalPermissions,
    FileEntry,
    GlobPattern,
)
from codex_framework.contract.protocol.policies import DangerFullAccess, ReadOnly, WorkspaceWrite
from codex_framework.testing import call, custom_call, say
from tests.plugins.environments.conftest import Machine, alive

pytestmark = pytest.mark.slow

TOOLS = """
features.exec_permission_approvals = true
features.request_permissions_tool = true
framework.plugins.read_file.offer = true
"""
WORKSPACE = WorkspaceWrite(exclude_slash_tmp=True, exclude_tmpdir_env_var=True)


def patch(body: str) -> Any:
    return custom_call("apply_patch", f"*** Begin Patch\n*** Environment ID: box\n{body}\n*** End Patch\n")


def run(cmd: str, **arguments: Any) -> Any:
    return call("exec_command", cmd=cmd, login=False, environment_id="box", **arguments)


def outputs(thread: Any) -> list[Any]:
    return [getattr(item, "output", None) for item in thread.history.items if item.type.endswith("_output")]


@contextlib.asynccontextmanager
async def opened(make_kernel: Any, folder: Path, box: Machine, **settings: Any) -> AsyncIterator[tuple[Any, Any]]:
    """Open a thread that works here and in the box, which is not the primary environment."""
    places = (EnvironmentSelection("local", str(folder)), EnvironmentSelection("box", str(box.work)))
    settings = {
        "approval_policy": ApprovalPolicy.NEVER,
        **({} if "permissions" in settings else {"sandbox_policy": WORKSPACE}),
        **settings,
    }
    async with make_kernel([], config=TOOLS) as kernel, asyncio.timeout(60):
        yield kernel, await kernel.start_thread(cwd=folder, environments=places, **settings)


@pytest.fixture
def folder(tmp_path: Path, box: Machine, configure: Any) -> Path:
    configure(box.entry())
    made = tmp_path / "work"
    made.mkdir()
    return made


def test_files_and_commands_of_both_places(make_kernel: Any, folder: Path, box: Machine) -> None:
    (box.work / "sub").mkdir()
    (box.work / "sub" / "text").write_text("one\ntwo\n")
    (box.work / "dot.png").write_bytes(PNG)
    outside = box.home / "outside"

    async def main() -> Any:
        async with opened(make_kernel, folder, box) as (kernel, thread):
            calls = [
                run("pwd; echo $OF_THE_BOX; echo made > made; mkdir .git; echo x > .git/config"),
                run(f"echo no > {outside}"),
                run("head -c 5000000 /dev/zero | tr '\\0' x"),
                call("read_file", file_path=str(box.work / "sub/text"), environment_id="box"),
                call("list_dir", dir_path=str(box.work), environment_id="box"),
                call("view_image", path="dot.png", environment_id="box"),
                patch("*** Update File: sub/text\n@@\n-one\n+1\n*** Add File: new/deep\n+x"),
                patch(f"*** Add File: {outside}\n+x"),
                patch("*** Add File: .codex/config.toml\n+x"),
                call("exec_command", cmd="pwd; ls", login=False),
            ]
            kernel.model.add(*calls, say("done"))
            await thread.run("Go!")
            return outputs(thread)

    found = asyncio.run(main())
    assert f"{box.work}\nyes\n" in found[0]
    assert (box.work / "made").read_text() == "made\n"
    assert not (box.work / ".git").exists()
    assert "Read-only file system" in found[1]
    assert len(found[2]) < 100_000
    assert "tokens truncated" in found[2]
    assert "L1: one" in found[3]
    assert "made" in found[4]
    assert "sub/" in found[4]
    assert found[5][0].image_url.startswith("data:image/png")
    assert found[6].endswith("A new/deep\nM sub/text\n") or "M sub/text" in found[6]
    assert (box.work / "sub/text").read_text() == "1\ntwo\n"
    assert (box.work / "new/deep").read_text() == "x\n"
    assert "patch rejected" in found[7]
    assert "patch rejected" in found[8]
    assert not outside.exists()
    assert "made" not in found[9]


def test_approvals_name_the_place_and_count_there_only(make_kernel: Any, folder: Path, box: Machine) -> None:
    outside = box.home / "outside"
    escalated: Any = {"sandbox_permissions": "require_escalated", "justification": "?"}
    asked: list[Any] = []

    async def answer(request: Any) -> ReviewDecision:
        asked.append(request)
        return ReviewDecision(Decision.APPROVED_FOR_SESSION)

    async def main() -> Any:
        async with opened(make_kernel, folder, box, approval_policy=ApprovalPolicy.ON_REQUEST) as (kernel, thread):
            calls = [
                run(f"echo yes > {outside}", **escalated),
                run(f"echo yes > {outside}", **escalated),
                call("exec_command", cmd=f"echo yes > {outside}", login=False, **escalated),
                patch(f"*** Add File: {box.home}/deep/er\n+x"),
                patch(f"*** Update File: {box.home}/deep/er\n@@\n-x\n+y"),
                patch(f"*** Delete File: {outside}"),
            ]
            kernel.model.add(*calls, say("done"))
            await thread.run("Go!", on_request=answer)
            return outputs(thread)

    found = asyncio.run(main())
    commands = [request for request in asked if isinstance(request, ExecApprovalRequestEvent)]
    assert [request.environment_id for request in commands] == ["box", None]
    patches = [request for request in asked if isinstance(request, ApplyPatchApprovalRequestEvent)]
    assert [request.environment_id for request in patches] == ["box"] * 2, found
    assert (box.home / "deep/er").read_text() == "y\n"
    assert not outside.exists()


def test_what_is_granted_there_is_not_granted_here(
    make_kernel: Any, folder: Path, box: Machine, tmp_path: Path
) -> None:
    more = tmp_path / "more"
    more.mkdir()
    asked: list[Any] = []

    async def answer(request: Any) -> ReviewDecision:
        asked.append(request)
        granted = AdditionalPermissions((FileEntry(AbsolutePath(str(more)), AccessMode.WRITE),))
        return ReviewDecision(Decision.APPROVED_FOR_SESSION, granted=granted)

    async def main() -> Any:
        async with opened(make_kernel, folder, box, approval_policy=ApprovalPolicy.ON_REQUEST) as (kernel, thread):
            permissions = {"file_system": {"write": [str(more)]}}
            kernel.model.add(
                call("request_permissions", permissions=permissions, environment_id="box"),
                run(f"touch {more}/there"),
                call("exec_command", cmd=f"touch {more}/here", login=False),
                say("done"),
            )
            await thread.run("Go!", on_request=answer)
            return outputs(thread)

    found = asyncio.run(main())
    assert [request.environment_id for request in asked][:1] == ["box"], found
    assert [path.name for path in more.iterdir()] == ["there"], found


def test_what_the_profile_denies_stays_denied(make_kernel: Any, folder: Path, box: Machine) -> None:
    (box.work / "secret").write_text("SECRET")
    (box.work / "key.env").write_text("SECRET")
    (box.work / "link").symlink_to(box.work / "secret")
    denied = permissions_of(WORKSPACE)
    denied = denied.with_entries(
        (
            FileEntry(AbsolutePath(str(box.work / "secret")), AccessMode.DENY),
            FileEntry(GlobPattern(f"{box.work}/**/*.env"), AccessMode.DENY),
        )
    )

    async def main() -> Any:
        async with opened(make_kernel, folder, box, permissions=denied) as (kernel, thread):
            read = [box.work / name for name in ("secret", "key.env", "link")]
            calls = [
                run("cat secret; cat key.env; cat link"),
                *(call("read_file", file_path=str(path), environment_id="box") for path in read),
                patch("*** Update File: secret\n@@\n-SECRET\n+x"),
                call("view_image", path="secret", environment_id="box"),
            ]
            kernel.model.add(*calls, say("done"))
            await thread.run("Go!")
            return outputs(thread)

    found = asyncio.run(main())
    assert not any("SECRET" in str(output) for output in found), found
    assert (box.work / "secret").read_text() == "SECRET"


def test_an_interrupt_and_the_end_of_the_program_end_the_processes(
    make_kernel: Any, folder: Path, box: Machine
) -> None:
    async def main() -> Any:
        async with opened(make_kernel, folder, box, sandbox_policy=DangerFullAccess()) as (kernel, thread):
            kernel.model.add(run("echo $$ > pid; sleep 300", yield_time_ms=20000))
            running = asyncio.ensure_future(thread.run("Go!"))
            first = await _pid(box.work / "pid")
            await thread.interrupt()
            await running
            async with asyncio.timeout(60):
                while alive(first):
                    await asyncio.sleep(0.01)
            kernel.model.add(run("echo $$ > pid2; sleep 300", yield_time_ms=300), say("done"))
            await thread.run("Go on!")
            return await _pid(box.work / "pid2")

    assert not alive(asyncio.run(main()))


async def _pid(path: Path) -> int:
    async with asyncio.timeout(20):
        while not path.exists() or not path.read_text().strip():
            await asyncio.sleep(0.01)
    return int(path.read_text())


def test_a_lost_server_ends_its_commands_and_is_reached_again(make_kernel: Any, folder: Path, box: Machine) -> None:
    async def main() -> Any:
        async with opened(make_kernel, folder, box, sandbox_policy=DangerFullAccess()) as (kernel, thread):
            kernel.model.add(
                run(
                    "echo before; sleep 1; kill -9 $(cat /proc/$PPID/stat | cut -d' ' -f1); sleep 300",
                    yield_time_ms=20000,
                ),
                run("echo again"),
                say("done"),
            )
            await thread.run("Go!")
            return outputs(thread)

    found = asyncio.run(main())
    assert "before" in found[0]
    assert "The end of the command is not known" in found[0]
    assert "exited with code 255" in found[0]
    assert "again" in found[1]


def test_a_socket_that_closes_leaves_no_process(make_kernel: Any, folder: Path, box: Machine, configure: Any) -> None:
    async def main() -> Any:
        async with box.listening() as url, box.relay(url) as (address, cut):
            configure(f'[[environments]]\nid = "box"\nurl = "{address}"\n')
            async with opened(make_kernel, folder, box, sandbox_policy=DangerFullAccess()) as (kernel, thread):
                kernel.model.add(run("echo $$ > pid; sleep 300", yield_time_ms=20000), run("echo again"), say("done"))
                running = asyncio.ensure_future(thread.run("Go!"))
                process = await _pid(box.work / "pid")
                cut()
                await running
                async with asyncio.timeout(60):
                    while alive(process):
                        await asyncio.sleep(0.01)
                return outputs(thread)

    found = asyncio.run(main())
    assert "has closed the connection" in found[0]
    assert "again" in found[1]


def test_of_a_server_that_works_nothing_is_told(make_kernel: Any, folder: Path, box: Machine) -> None:
    async def main() -> Any:
        async with opened(make_kernel, folder, box) as (kernel, thread):
            heard = thread.events(answers=False)
            kernel.model.add(run("echo yes"), say("done"))
            await thread.run("Go!")
            heard.end()
            return [event.msg.message async for event in heard if isinstance(event.msg, WarningEvent)]

    assert not [text for text in asyncio.run(main()) if "cannot be used" in text]


def test_a_server_that_is_not_there_is_told(make_kernel: Any, folder: Path, box: Machine, configure: Any) -> None:
    configure('[[environments]]\nid = "box"\nprogram = "/no/such/program"\n')

    async def main() -> Any:
        async with opened(make_kernel, folder, box) as (kernel, thread):
            heard = thread.events(answers=False)
            kernel.model.add(run("echo no"), call("read_file", file_path="/x", environment_id="box"), say("done"))
            result = await thread.run("Go!")
            heard.end()
            warnings = [event.msg.message async for event in heard if isinstance(event.msg, WarningEvent)]
            return result, warnings, outputs(thread)

    result, warnings, found = asyncio.run(main())
    assert result.status is Status.COMPLETED
    assert any("`box`: /no/such/program cannot be started" in text for text in warnings)
    assert all("the environment `box` cannot be used: /no/such/program cannot be started" in text for text in found)


def test_limits_that_it_cannot_enforce_are_refused(make_kernel: Any, folder: Path, box: Machine) -> None:
    limited: Permissions = permissions_of(ReadOnly())
    limits = limited.options.limits.evolve(memory_bytes=1 << 30)

    async def main() -> Any:
        permissions = limited.evolve(options=limited.options.evolve(limits=limits))
        async with opened(make_kernel, folder, box, permissions=permissions) as (kernel, thread):
            kernel.model.add(
                run("touch made"), call("read_file", file_path=f"{box.work}/x", environment_id="box"), say("done")
            )
            await thread.run("Go!")
            return outputs(thread)

    assert all("the environment cannot enforce a limit on memory" in text for text in asyncio.run(main()))


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc0000003010100"
    "18dd8db00000000049454e44ae426082"
)
