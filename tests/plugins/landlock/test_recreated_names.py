"""A protected folder that is removed and made again between two commands is protected in its new form too.

File systems give a new folder the inode number of the one that was just removed, so the number alone does not tell them apart, and
the kernel takes the mount away with the old folder.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from codex_framework.contract.roles.sandboxes import Launch
from codex_plugin_landlock.sandbox import LandlockSandbox


async def attempt(confinement: object, work: Path) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    try:
        script = "echo changed > .git/config"
        env = {"PATH": os.defpath}
        launch = Launch(argv=("/bin/sh", "-c", script), cwd=str(work), env=env, stdin=null, stdout=null, stderr=null)
        child = await confinement.start(launch)  # type: ignore[attr-defined]
        await child.wait()
    finally:
        os.close(null)


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_a_folder_with_the_inode_number_of_the_old_one_is_protected(level, place):
    if not LandlockSandbox(level).probe().available:
        pytest.skip(f"no {level} sandbox here")
    git = place.work / ".git"

    async def run() -> tuple[list[str], bool]:
        sandbox = LandlockSandbox(level)
        found, reused = [], False
        try:
            confinement = sandbox.confine(place.access(), place.work)
            for _ in range(8):
                await attempt(confinement, place.work)
                found.append((git / "config").read_text())
                before = git.stat().st_ino
                shutil.rmtree(git)
                git.mkdir()
                (git / "config").write_text("kept\n")
                reused = reused or git.stat().st_ino == before
        finally:
            await sandbox.aclose()
        return found, reused

    found, reused = asyncio.run(run())
    assert found == ["kept\n"] * 8
    if not reused:
        pytest.skip("this file system gives every folder a new inode number")


def test_a_placeholder_that_somebody_removes_is_put_back(place):
    if not LandlockSandbox("namespaces").probe().available:
        pytest.skip("no namespaces sandbox here")

    async def run() -> list[bool]:
        sandbox = LandlockSandbox("namespaces")
        found = []
        null = os.open(os.devnull, os.O_RDWR)
        try:
            confinement = sandbox.confine(place.access(), place.work)
            for script in ("true", "mkdir .codex; touch .codex/planted", "touch .codex/planted; test -d .codex"):
                launch = Launch(
                    argv=("/bin/sh", "-c", script),
                    cwd=str(place.work),
                    env={"PATH": os.defpath},
                    stdin=null,
                    stdout=null,
                    stderr=null,
                )
                child = await confinement.start(launch)
                status = await child.wait()
                found.append(
                    (place.work / ".codex" / "planted").exists() or (script.endswith(".codex") and status != 0)
                )
                (place.work / ".codex").rmdir()
        finally:
            os.close(null)
            await sandbox.aclose()
        return found

    assert asyncio.run(run()) == [False, False, False]
