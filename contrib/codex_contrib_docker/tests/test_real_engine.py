"""With a real engine, where there is one, and an image made on the spot of a static busybox."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tries import Streams

from codex_contrib_docker.sandbox import DockerSandbox
from codex_contrib_docker.settings import DockerSettings
from codex_framework import AccessMode, CommandFailed, NetworkMode
from codex_framework.testing import access_of, run_confined

IMAGE = "localhost/codex-contrib-docker-test"


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """The program, with the image in place."""
    found = next((path for path in map(shutil.which, ("docker", "podman")) if path and _works(path)), None)
    if found is None:
        pytest.skip("there is no Docker or Podman that works here")
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("there is no busybox here to make an image of")
    done = subprocess.run([found, "import", "-", IMAGE], input=_image(Path(busybox)), capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"the engine takes no image: {done.stderr.decode().strip()}")
    tried = subprocess.run(
        [found, "run", "--rm", "--network", "none", IMAGE, "/bin/true"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if tried.returncode != 0:
        pytest.skip(f"the engine runs no container of it: {tried.stderr.strip()}")
    yield found
    subprocess.run([found, "rmi", "--force", IMAGE], capture_output=True, check=False)


def _works(program: str) -> bool:
    try:
        return subprocess.run([program, "info"], capture_output=True, check=False, timeout=20).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _image(busybox: Path) -> bytes:
    held = io.BytesIO()
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for folder in ("bin", "tmp", "etc", "proc", "dev", "sys"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        tar.add(busybox.resolve(), "bin/busybox")
        for name in names:
            if name != "busybox":
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
    return held.getvalue()


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="contained-") as folder:
        base = Path(folder).resolve()
        for name in ("work/.git", "work/sub/kept", "outside", "shown", "work/secret/open"):
            (base / name).mkdir(parents=True)
        for name in ("outside/file", "shown/file", "work/secret/file", "work/key.pem", "work/sub/kept/file"):
            (base / name).write_text("content\n")
        yield base


def test_a_real_engine_does_what_the_permissions_say(engine, place):
    work = place / "work"
    access = access_of(
        {
            work: "write",
            work / ".git": "read",
            work / ".codex": "read",
            work / "sub" / "kept": "read",
            work / "secret": "deny",
            work / "secret" / "open": "write",
            place / "shown": "read",
        },
        denied_globs=(f"{work}/**/*.pem",),
    )
    script = f"""
        cat {place}/outside/file {work}/secret/file {work}/key.pem; ls {work}/secret
        echo x > {place}/shown/file; echo x > .git/x; mkdir .codex/x; mv sub moved; echo x > sub/kept/file
        echo x > /new; chmod 777 {place}/shown
        cat {place}/shown/file; echo in > secret/open/file; echo in > new; echo tmp > /tmp/file
        cat /tmp/file; grep CapEff /proc/self/status
    """

    async def use() -> list[Any]:
        sandbox = DockerSandbox(DockerSettings(image=IMAGE, engine=engine, timeout_s=60.0))
        try:
            assert sandbox.probe().available, sandbox.probe()
            plan = sandbox.confine(access, work)
            first = await run_confined(plan, ("/bin/sh", "-c", script), work)
            again = await run_confined(plan, ("cat", "/tmp/file"), work)
            failed = []
            for argv, cwd in ((("no-such-program",), work), (("./key.pem",), work), (("true",), place / "outside")):
                with pytest.raises(CommandFailed) as error:
                    await run_confined(plan, argv, cwd)
                failed.append(str(error.value))
            net = await run_confined(plan, ("/bin/sh", "-c", "ls /sys/class/net; exit 7"), work)
            return [first, again, failed, net]
        finally:
            await sandbox.aclose()

    before = {str(path.relative_to(place)) for path in place.rglob("*")}
    first, again, failed, net = asyncio.run(use())
    assert first.output.count("content\n") == 1, first
    assert "CapEff:\t0000000000000000" in first.output
    assert again.output == "tmp\n"
    assert [text.rpartition(" (")[2] for text in failed] == ["os error 2)", "os error 13)", "os error 2)"]
    assert (net.status, net.output) == (7, "lo\n")
    after = {str(path.relative_to(place)) for path in place.rglob("*")}
    assert after - before == {"work/new", "work/secret/open/file"}
    assert before - after == set()
    assert (place / "work/sub/kept/file").read_text() == (place / "shown/file").read_text() == "content\n"


def test_a_real_engine_hands_on_signals_and_ends_everything(engine, place):
    work = place / "work"

    async def use() -> tuple[int, str, int, bool]:
        sandbox = DockerSandbox(DockerSettings(image=IMAGE, engine=engine, timeout_s=60.0))
        try:
            plan = sandbox.confine(access_of({work: "write"}), work)
            streams = Streams()
            script = "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.1; done"
            child = await plan.start(streams.launch(("/bin/sh", "-c", script), work))
            streams.started()
            await asyncio.sleep(1)
            child.signal(signal.SIGTERM)
            said, status = await streams.output(), await child.wait()
            lasting = Streams()
            other = await plan.start(lasting.launch(("sleep", "600"), work))
            lasting.started()
            other.signal(signal.SIGKILL)
            await lasting.output()
            killed = await other.wait()
        finally:
            await sandbox.aclose()
        left = subprocess.run(
            [engine, "ps", "-aq", "--filter", "label=codex-framework"], capture_output=True, text=True, check=True
        )
        return status, said, killed, left.stdout == ""

    status, said, killed, nothing_left = asyncio.run(use())
    assert (status, killed, nothing_left) == (5, -9, True)
    assert "caught" in said


def test_a_real_engine_gives_a_terminal_and_a_network_where_wanted(engine, place):
    from codex_framework.commands.process.running import start_command

    async def use() -> tuple[int, str]:
        sandbox = DockerSandbox(DockerSettings(image=IMAGE, engine=engine, timeout_s=60.0))
        try:
            access = access_of({place / "work": "write"}, network=NetworkMode.ON, otherwise=AccessMode.DENY)
            plan = sandbox.confine(access, place / "work")
            argv = ("/bin/sh", "-c", "tty; ls /sys/class/net | wc -l; read line; echo got $line; exit 3")
            env = {"PATH": os.environ["PATH"]}
            command = await start_command(plan, argv=argv, cwd=str(place / "work"), env=env, tty=True)
            await command.write(b"typed\n")
            ended = await command.wait()
            return ended.exit_code, ended.output
        finally:
            await sandbox.aclose()

    code, said = asyncio.run(use())
    assert code == 3
    assert "/dev/pts/" in said
    assert "got typed" in said
