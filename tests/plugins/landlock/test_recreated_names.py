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

from codex_framework.roles.sandboxes import Launch
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
