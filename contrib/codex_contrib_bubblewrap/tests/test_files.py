"""What a command can do with files, for real."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codex_framework import AccessMode, CommandFailed, FileAccess, SandboxError
from codex_framework.testing import access_of


def test_rules_hold_at_every_depth(run, place):
    for name in ("secret/open/closed", "secret/other", "work/sub"):
        (place / name).mkdir(parents=True)
    for name in ("secret/file", "secret/open/closed/file", "secret/other/file"):
        (place / name).write_text("hidden")
    access = access_of(
        {
            place / "work": "write",
            place / "work" / "sub": "read",
            place / "secret": "deny",
            place / "secret" / "open": "write",
            place / "secret" / "open" / "closed": "deny",
        }
    )
    script = f"""
        cat {place}/secret/file {place}/secret/other/file {place}/secret/open/closed/file; ls {place}/secret
        chmod 777 {place}/secret; rm -r {place}/secret/open/closed; mkdir {place}/secret/new
        echo x > sub/new; mv sub moved; echo x > {place}/outside/file
        echo yes > {place}/secret/open/new; echo yes > new; cat {place}/secret/open/new
    """
    ended = run(access, script)
    assert "hidden" not in ended.output
    assert ended.output.endswith("yes\n"), ended
    assert (place / "secret/open/new").read_text() == (place / "work/new").read_text() == "yes\n"
    assert sorted(path.name for path in (place / "secret").iterdir()) == ["file", "open", "other"]
    assert (list((place / "work/sub").iterdir()), (place / "outside/file").read_text()) == ([], "outside\n")


def test_hidden_files_cannot_be_opened_nor_uncovered(run, place):
    (place / "work" / "sub").mkdir()
    for name in ("key.pem", "sub/other.pem", "plain"):
        (place / "work" / name).write_text("content")
    access = access_of({place / "work": "write"}, denied_globs=(f"{place}/**/*.pem",))
    ended = run(access, "cat plain; cat key.pem sub/other.pem; rm -f key.pem; mv sub away; cp key.pem copy; cat copy")
    assert ended.output.startswith("content")
    assert ended.output.count("content") == 1
    assert (place / "work/key.pem").read_text() == (place / "work/sub/other.pem").read_text() == "content"


def test_missing_protected_names_cannot_be_made_and_leave_nothing(run, place):
    access = access_of({place / "work": "write", place / "work" / ".git": "read", place / "work" / "a" / "b": "deny"})
    ended = run(
        access,
        "mkdir -p .git/hooks; echo x > .git/config; mkdir -p a/b; rmdir .git; mv .git moved; ls -A .git; echo x > other; ls",
    )
    assert ended.output.endswith("a\nother\n"), ended
    assert os.listdir(place / "work") == ["other"]


def test_a_name_that_somebody_else_makes_meanwhile_stays(run, place):
    access = access_of({place / "work": "write", place / "work" / ".git": "read"})
    (place / "work" / ".git").mkdir(mode=0o755)
    run(access, "true")
    assert os.listdir(place / "work") == [".git"]


def test_only_what_is_granted_is_there(run, place):
    granted = {Path(path): "read" for path in ("/usr", "/etc") if Path(path).is_dir()}
    access = access_of({**granted, place / "work": "write"}, otherwise=AccessMode.DENY)
    ended = run(access, f"cat {place}/outside/file; ls /; echo x > /new; echo in > file; cat file")
    assert "outside\n" not in ended.output
    assert ended.output.endswith("in\n"), ended
    assert "root" not in ended.output.split("\n")
    assert not Path("/new").exists()


def test_a_program_that_is_hidden_is_a_command_that_failed(run, place):
    tool = place / "outside" / "tool"
    tool.write_text("#!/bin/sh\necho ran\n")
    tool.chmod(0o755)
    assert run(access_of({}), (str(tool),)).output == "ran\n"
    with pytest.raises(CommandFailed, match="cannot be executed in the sandbox"):
        run(access_of({place / "outside": "deny"}), (str(tool),))


def test_a_folder_that_is_hidden_is_a_command_that_failed(run, place):
    access = access_of({Path("/usr"): "read"}, otherwise=AccessMode.DENY)
    with pytest.raises(CommandFailed, match="No such file or directory"):
        run(access, ("true",))


def test_what_cannot_be_mounted_is_told_with_the_reason(run, place):
    many = "".join(f"V{number}=x " for number in range(10))
    access = access_of({place / "work": "write"})
    with pytest.raises(SandboxError, match="bubblewrap accepts at most 9000 words"):
        run(access, "true", env={f"VARIABLE_{number}": many for number in range(3100)})


def test_a_private_tmp_is_not_that_of_others_and_lives_on(program, place):
    import asyncio

    from codex_contrib_bubblewrap.sandbox import BubblewrapSandbox
    from codex_contrib_bubblewrap.settings import BubblewrapSettings
    from codex_framework.testing import run_confined

    async def twice() -> list[str]:
        sandbox = BubblewrapSandbox(BubblewrapSettings(path=program))
        try:
            plan = sandbox.confine(access_of({Path("/tmp"): "write"}, private_tmp=True), place / "work")
            first = await run_confined(plan, ("/bin/sh", "-c", "ls -A /tmp; echo kept > /tmp/file"), place / "work")
            second = await run_confined(plan, ("cat", "/tmp/file"), place / "work")
        finally:
            await sandbox.aclose()
        return [first.output, second.output]

    before = set(os.listdir("/tmp"))
    assert asyncio.run(twice()) == ["", "kept\n"]
    assert not [name for name in set(os.listdir("/tmp")) - before if name.startswith("codex-bubblewrap-")]


def test_files_as_standard_streams_cannot_be_opened_anew(program, place):
    import asyncio

    from codex_contrib_bubblewrap.sandbox import BubblewrapSandbox
    from codex_contrib_bubblewrap.settings import BubblewrapSettings
    from codex_framework import Launch

    source, target = place / "outside" / "file", place / "outside" / "out"

    async def streamed() -> int:
        sandbox = BubblewrapSandbox(BubblewrapSettings(path=program))
        stdin, stdout = os.open(source, os.O_RDONLY), os.open(target, os.O_CREAT | os.O_WRONLY)
        try:
            argv = ("/bin/sh", "-c", "echo x > /proc/self/fd/0; cat; echo err >&2")
            env = {"PATH": os.environ["PATH"]}
            launch = Launch(argv=argv, cwd="/", env=env, stdin=stdin, stdout=stdout, stderr=stdout)
            child = await sandbox.confine(FileAccess(), place).start(launch)
            return await child.wait()
        finally:
            os.close(stdin)
            os.close(stdout)
            await sandbox.aclose()

    assert asyncio.run(streamed()) == 0
    assert source.read_text() == "outside\n"
    assert "outside\n" in target.read_text()
    assert target.read_text().endswith("err\n")
