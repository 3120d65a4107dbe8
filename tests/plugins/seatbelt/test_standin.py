"""Commands run through a stand-in that understands the profile and confines by Landlock: what gets through, and what does not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import attrs
import pytest
from seatbelt_language import Profile, read

from codex_framework import AccessMode, FileAccess, PathRule, SandboxError
from codex_framework.testing import check_sandbox
from codex_plugin_seatbelt.sandbox import SeatbeltSandbox

READ, WRITE, DENY = AccessMode.READ, AccessMode.WRITE, AccessMode.DENY


@pytest.mark.thorough
def test_it_keeps_to_the_role_of_a_sandbox(stand_in):
    """It takes 20 seconds: the kit runs seventy commands, and the stand-in starts two interpreters for each."""
    check_sandbox(SeatbeltSandbox(stand_in.path))
    assert len(stand_in.calls) > 50


def ruled(*pairs, **fields):
    return FileAccess(rules=tuple(PathRule(Path(path), mode) for path, mode in sorted(pairs)), **fields)


async def tried(stand_in, runner, access, script):
    sandbox = SeatbeltSandbox(stand_in.path)
    try:
        return await runner.run(sandbox.confine(access, runner.cwd), "/bin/sh", "-c", script)
    finally:
        await sandbox.aclose()


ATTACKS = {
    "read a denied file": ("cat deny/secret", None),
    "read it by a link": ("ln -s deny/secret l; cat l", None),
    "read it by a hard link": ("ln deny/secret h; cat h", None),
    "read what a pattern denies": ("cat sub/.env", None),
    "move it": ("mv sub/.env sub/open; cat sub/open", None),
    "read it below a denied folder": ("cat deny/more/secret", None),
    "write a kept file": ("echo x > kept/file", "kept/file"),
    "remove a kept folder": ("rm -rf kept", "kept/file"),
    "move the folder around a kept one": ("mv around elsewhere; echo x > elsewhere/kept/file", "around/kept/file"),
    "write in a kept folder by another way": ("(cd around/kept; echo x > ./../kept/file)", "around/kept/file"),
    "make a kept name that is not there": ("mkdir .codex && echo x > .codex/config", ".codex/config"),
    "write outside": ("echo x > ../../outside", "../../outside"),
}


def test_attacks_on_files_fail(stand_in, runner, workspace):
    """All in one sandbox, each in a folder of its own below the workspace."""
    folders = {attack: workspace / str(number) for number, attack in enumerate(ATTACKS)}
    rules = [(workspace, WRITE)]
    for folder in folders.values():
        for path in ("deny/secret", "deny/more/secret", "sub/.env"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("the secret\n")
        for path in ("kept/file", "around/kept/file"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("kept\n")
        rules += [(folder / "deny", DENY), *((folder / name, READ) for name in ("kept", "around/kept", ".codex"))]
    access = ruled(*rules, denied_globs=(f"{workspace}/**/.env",))
    scripts = (f"(cd {folders[attack]}; {script}; echo done > reached)" for attack, (script, _) in ATTACKS.items())
    _, said = asyncio.run(tried(stand_in, runner, access, "\n".join(scripts)))
    assert "the secret" not in said
    for attack, (_, target) in ATTACKS.items():
        assert (folders[attack] / "reached").read_text() == "done\n", attack
        if target is not None:
            path = folders[attack] / target
            gone = target in (".codex/config", "../../outside")
            assert not path.exists() if gone else path.read_text() == "kept\n", attack


def test_what_is_opened_again_in_a_kept_folder_can_be_written(stand_in, runner, workspace):
    inner = workspace / "kept" / "open"
    inner.mkdir(parents=True)
    access = ruled((workspace, WRITE), (workspace / "kept", READ), (inner, WRITE), (inner / "kept", READ))
    script = "echo a > kept/open/a; mkdir kept/open/kept; echo b > kept/b; echo c > c"
    asyncio.run(tried(stand_in, runner, access, script))
    assert sorted(path.name for path in workspace.rglob("*") if path.is_file()) == ["a", "c"]
    assert not (inner / "kept").exists()


def test_reading_can_be_refused_but_for_what_is_granted(stand_in, runner, workspace, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("the secret\n")
    (workspace / "file").write_text("open\n")
    access = ruled((workspace, WRITE), otherwise=DENY)
    status, said = asyncio.run(tried(stand_in, runner, access, f"cat file; cat '{secret}'; exit 3"))
    assert status == 3
    assert "open" in said
    assert "the secret" not in said


def test_the_command_line(stand_in, runner, workspace):
    strange = workspace / 'a "b" \n(param "PATH_0")'
    strange.mkdir()
    access = ruled((workspace, READ), (strange, WRITE), (strange / ".git", READ))
    status, _ = asyncio.run(
        tried(stand_in, runner, access, f'echo x > "{strange.name.replace(chr(34), chr(92) + chr(34))}"/file')
    )
    assert status == 0
    assert (strange / "file").exists()
    trial, call = stand_in.calls
    assert trial[:-1] == call[: len(trial) - 1]
    assert trial[-1] == "/usr/bin/true"
    assert call[0] == "-p"
    end = call.index("--")
    assert call[end + 1 : end + 3] == ["/bin/sh", "-c"]
    given = dict(one[2:].split("=", 1) for one in call[2:end])
    assert Profile(call[1], given).used == set(given)
    assert {str(strange), str(strange / ".git")} <= set(given.values())
    assert not [path for path in given.values() if path != "/" and path in call[1]]
    assert read(call[1])[:2] == [["version", 1], ["deny", "default"]]


def test_a_profile_that_is_refused_is_no_failed_command(tmp_path, stand_in, runner, program):
    """The stand-in refuses what it does not know, as the real one would."""
    script = f'#!/bin/sh\nshift 2\nexec "{stand_in.path}" -p "(version 1) (allow teleport)" "$@"\n'
    wrong = attrs.evolve(stand_in, path=program(tmp_path / "wrong", script))
    with pytest.raises(SandboxError, match=r"status 65.*unknown operations"):
        asyncio.run(tried(wrong, runner, FileAccess(), "true"))
    assert [call[-1] for call in stand_in.calls] == ["/usr/bin/true"]


def test_size_of_files(stand_in, runner, workspace):
    access = ruled((workspace, WRITE))
    access = access.evolve(limits=access.limits.evolve(file_bytes=64 * 1024))
    status, _ = asyncio.run(
        tried(stand_in, runner, access, "head -c 60000 /dev/zero > small; head -c 70000 /dev/zero > large")
    )
    assert status != 0
    assert (workspace / "small").stat().st_size == 60000
    assert (workspace / "large").stat().st_size <= 64 * 1024
