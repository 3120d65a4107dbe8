"""The sandbox with an engine that stands in: containers come and go, commands run, and what goes wrong is told."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tries import Streams

from codex_contrib_docker.engine import find
from codex_contrib_docker.sandbox import DockerSandbox
from codex_contrib_docker.settings import DockerSettings
from codex_framework import CommandFailed, ConfigError, FileAccess, Launch, NetworkMode, Protection, SandboxError
from codex_framework.contract.permissions.file_access import ResourceLimits
from codex_framework.loader import PluginStatus
from codex_framework.loader.registry import load_registry
from codex_framework.testing import access_of, call, check_sandbox, run_confined, say


def used(sandbox: DockerSandbox, access: FileAccess, work: Path, use: Callable[[Any], Awaitable[Any]]) -> Any:
    """What ``use`` makes of a plan; afterwards everything is closed."""

    async def do() -> Any:
        try:
            return await use(sandbox.confine(access, work))
        finally:
            await sandbox.aclose()

    return asyncio.run(do())


def sh(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script)


def test_the_plugin_is_installed_and_all_of_it_is_in_use():
    (report,) = [report for report in load_registry({}).reports if report.name == "docker"]
    assert (report.distribution, report.status, report.problems) == ("codex-contrib-docker", PluginStatus.LOADED, ())
    assert report.contributes == {"sandboxes": ("docker",)}


def test_without_an_image_it_says_what_to_set():
    sandbox = DockerSandbox()
    check_sandbox(sandbox)
    assert (sandbox.probe().available, sandbox.probe().reason) == (False, "no image is configured")
    assert "[framework.plugins.docker] image" in sandbox.probe().hint


def test_without_an_engine_it_says_what_to_install(tmp_path):
    report = DockerSandbox(DockerSettings(image="work"), search=str(tmp_path)).probe()
    assert (report.available, report.reason) == (False, "there is no docker or podman here")


def test_an_engine_that_everybody_could_have_put_there_is_not_asked(engine, work):
    assert list(find(None, str(engine.program.parent))) == []
    bin_folder = work / "bin"
    bin_folder.mkdir()
    (bin_folder / "docker").symlink_to(engine.program)
    sandbox = engine.sandbox(engine=str(bin_folder / "docker"))
    with pytest.raises(SandboxError, match="is in a place that commands can write to"):
        sandbox.confine(access_of({engine.program.parent: "write"}), work)


@pytest.mark.parametrize(
    ("fault", "image", "reason", "hint"),
    [
        ("down", "work", "Cannot connect to the Docker daemon", "start the engine"),
        ("hangs", "work", "it did not answer within 3 s", ""),
        ("", "other", "No such image: other", "build or pull the image"),
    ],
)
def test_an_engine_that_cannot_be_used_is_reported_with_a_hint(engine, fault, image, reason, hint):
    engine.break_(fault)
    report = engine.sandbox(image=image).probe()
    assert not report.available
    assert reason in report.reason
    assert hint in report.hint


def test_commands_of_a_plan_share_a_container(engine, work):
    async def use(plan: Any) -> list[tuple[int, str]]:
        first = await run_confined(
            plan, sh("pwd; echo $GIVEN; cat; exit 3"), work, env={"GIVEN": "a b", "LINES": "x\ny"}
        )
        second = await run_confined(
            plan, sh('echo "$CODEX_SANDBOX_NETWORK_DISABLED"; kill -9 $$'), work, env=dict(plan.env)
        )
        return [first, second]

    access = access_of({work: "write"})
    ended = used(engine.sandbox(), access, work, use)
    assert ended == [(3, f"{work}\na b\n"), (-9, "1\n")]
    assert [words[0] for words in engine.calls].count("run") == 1


def test_eight_commands_at_once_need_one_container(engine, work):
    async def use(plan: Any) -> list[int]:
        ended = await asyncio.gather(*(run_confined(plan, sh(f"exit {number}"), work) for number in range(8)))
        return [one.status for one in ended]

    assert used(engine.sandbox(), access_of({}), work, use) == list(range(8))
    assert [words[0] for words in engine.calls].count("run") == 1


def test_placeholders_are_there_while_the_container_is(engine, work):
    async def use(plan: Any) -> str:
        return (await run_confined(plan, sh("ls -A"), work)).output

    assert used(engine.sandbox(), access_of({work: "write", work / ".git": "read"}), work, use) == ".git\n"
    assert os.listdir(work) == []


def test_another_container_is_made_when_files_have_come_that_are_denied(engine, work):
    async def use(plan: Any) -> None:
        await run_confined(plan, ("true",), work)
        (work / "new.pem").touch()
        await run_confined(plan, ("true",), work)

    used(engine.sandbox(), access_of({work: "write"}, denied_globs=(f"{work}/*.pem",)), work, use)
    first, second = (" ".join(words) for words in engine.calls if words[0] == "run")
    hidden = f"type=bind,source=/dev/null,target={work}/new.pem,readonly"
    assert (hidden in first, hidden in second) == (False, True)


@pytest.mark.parametrize(
    ("argv", "cwd", "text"),
    [
        (("no-such-program-4711",), ".", "No such file or directory (os error 2)"),
        (("./missing",), ".", "No such file or directory (os error 2)"),
        (("./plain",), ".", "Permission denied (os error 13)"),
        (("true",), "no such folder", "No such file or directory (os error 2)"),
        (("true\0",), ".", "nul byte found in provided data"),
    ],
)
def test_what_cannot_be_started_is_a_command_that_failed(engine, work, argv, cwd, text):
    (work / "plain").write_text("not a program\n")

    async def use(plan: Any) -> None:
        with pytest.raises(CommandFailed) as failed:
            await run_confined(plan, argv, work / cwd)
        assert str(failed.value) == text

    used(engine.sandbox(), access_of({work: "write"}), work, use)


def test_signals_reach_the_whole_group_of_a_command(engine, work):
    async def use(plan: Any) -> tuple[int, str]:
        streams = Streams()
        script = "trap 'echo caught; wait; exit 5' TERM; (trap 'echo child; exit' TERM; echo ready; while :; do sleep .1; done) & wait"
        child = await plan.start(streams.launch(sh(script), work))
        streams.started()
        await asyncio.sleep(0.5)
        child.signal(signal.SIGTERM)
        said = await streams.output()
        status = await child.wait()
        child.signal(signal.SIGTERM)
        return status, said

    status, said = used(engine.sandbox(), access_of({work: "write"}), work, use)
    assert status == 5
    assert {"caught", "child", "ready"} <= set(said.split())


def test_what_a_command_leaves_in_its_group_ends_after_it(engine, work):
    async def use(plan: Any) -> str:
        streams = Streams()
        child = await plan.start(streams.launch(sh("(echo ready; sleep 60) & sleep 0.2; exit 0"), work))
        streams.started()
        assert await child.wait() == 0
        async with asyncio.timeout(20):
            return await streams.output()  # ends when nobody can write any more

    assert used(engine.sandbox(), access_of({work: "write"}), work, use) == "ready\n"


def test_a_terminal_is_the_command_s_own(engine, work):
    async def use(plan: Any) -> bytes:
        outer, inner = os.openpty()
        env = {"PATH": os.environ["PATH"]}
        argv = sh("test -t 0 && echo on a terminal; echo controlled > /dev/tty")
        try:
            launch = Launch(argv=argv, cwd=str(work), env=env, stdin=inner, stdout=inner, stderr=inner, tty=True)
            child = await plan.start(launch)
            assert await child.wait() == 0
            os.write(inner, b"\n")
            return os.read(outer, 4096)
        finally:
            os.close(inner)
            os.close(outer)

    said = used(engine.sandbox(), access_of({work: "write"}), work, use)
    assert b"on a terminal" in said
    assert b"controlled" in said


def test_closing_ends_what_runs(engine, work):
    async def use(plan: Any) -> tuple[Any, Streams]:
        streams = Streams()
        child = await plan.start(streams.launch(sh("echo $$; exec sleep 60"), work))
        streams.started()
        return child, streams

    async def do() -> int:
        sandbox = engine.sandbox()
        child, streams = await use(sandbox.confine(access_of({}), work))
        await sandbox.aclose()
        await sandbox.aclose()
        await streams.output()
        return int(await child.wait())

    assert asyncio.run(do()) == -9


def test_a_container_that_was_killed_is_made_anew(engine, work):
    async def use(plan: Any) -> str:
        await run_confined(plan, ("true",), work)
        (name,) = engine.containers
        os.kill(json.loads((engine.state / "containers" / name).read_text())["pid"], signal.SIGKILL)
        return (await run_confined(plan, sh("echo again"), work)).output

    assert used(engine.sandbox(), access_of({}), work, use).endswith("again\n")
    assert [words[0] for words in engine.calls].count("run") == 2


def test_an_engine_that_goes_away_is_told_and_nothing_has_run(engine, work):
    async def use(plan: Any) -> None:
        await run_confined(plan, ("true",), work)
        engine.break_("down")
        with pytest.raises(SandboxError, match="Cannot connect to the Docker daemon") as refused:
            await run_confined(plan, sh(f"touch {work}/ran"), work)
        assert "start the engine" in refused.value.hint
        engine.break_("")

    used(engine.sandbox(), access_of({work: "write"}), work, use)
    assert os.listdir(work) == []


def test_an_engine_that_hangs_is_given_up(engine, work):
    async def use(plan: Any) -> None:
        await run_confined(plan, ("true",), work)
        engine.break_("hangs")
        with pytest.raises(SandboxError, match="did not start the command within 3 s"):
            await run_confined(plan, ("true",), work)
        engine.break_("")

    used(engine.sandbox(timeout_s=3.0), access_of({}), work, use)

    async def fresh(plan: Any) -> None:
        engine.break_("hangs")
        with pytest.raises(SandboxError, match="did not start a container within 3 s"):
            await run_confined(plan, ("true",), work)
        engine.break_("")

    used(engine.sandbox(timeout_s=3.0), access_of({}), work, fresh)


def test_an_image_that_has_gone_is_told(engine, work):
    async def use(plan: Any) -> None:
        (engine.state / "images" / "work").unlink()
        with pytest.raises(SandboxError, match="No such image: work") as refused:
            await run_confined(plan, ("true",), work)
        assert "build or pull" in refused.value.hint

    used(engine.sandbox(), access_of({}), work, use)


def test_what_is_not_held_is_refused(engine, work):
    sandbox = engine.sandbox()
    assert sandbox.probe().protections.get(Protection.KERNEL) is None
    with pytest.raises(SandboxError, match="missing: kernel") as refused:
        sandbox.confine(FileAccess(floor=frozenset({Protection.KERNEL, Protection.WRITING})), work)
    assert refused.value.slug == "sandbox-floor"
    with pytest.raises(SandboxError, match="missing: resources"):
        sandbox.confine(FileAccess(floor=frozenset({Protection.RESOURCES})), work)
    limits = ResourceLimits(memory_bytes=1 << 30, file_bytes=1 << 20)
    sandbox.confine(FileAccess(floor=frozenset({Protection.RESOURCES}), limits=limits), work)
    with pytest.raises(SandboxError, match="cannot be restricted to a proxy"):
        sandbox.confine(FileAccess(network=NetworkMode.PROXY), work)
    with pytest.raises(SandboxError, match="all files of this machine"):
        sandbox.confine(FileAccess(full=True), work)


def test_settings_come_from_the_configuration(run_turn, engine):
    config = (
        'sandbox_mode = "workspace-write"\n[framework]\nsandbox = "docker"\n[framework.plugins.docker]\nimage = "work"\n'
        f'engine = "{engine.program}"\n[sandbox_workspace_write]\nexclude_slash_tmp = true\nexclude_tmpdir_env_var = true\n'
    )
    run = run_turn(
        "Go.",
        [call("exec_command", cmd="echo in a container", shell="/bin/sh", login=False), say("Done.")],
        config=config,
    )
    assert "in a container" in run.outputs[0]
    assert "exec" in [words[0] for words in engine.calls]


def test_a_wrong_setting_is_refused(make_kernel):
    async def start() -> None:
        async with make_kernel([say("Hi.")], config='[framework.plugins.docker]\nimages = "work"\n'):
            raise AssertionError("it was accepted")

    with pytest.raises(ConfigError, match="the plugin 'docker' has no setting 'images'"):
        asyncio.run(start())
