"""What sandboxes check before they start a command by another program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codex_framework import CommandFailed, FileAccess, Launch, Protection, SandboxError, SandboxReport
from codex_framework.contract.permissions.file_access import ResourceLimits
from codex_lib_confinement.launching import (
    check_floor,
    check_start,
    check_text,
    trusted_programs,
    within_reach,
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "plain").write_text("not a program\n")
    (tmp_path / "bin" / "folder").mkdir(parents=True)
    for name in ("bin/tool", "run"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("program", "cwd", "fault"),
    [
        ("tool", "", ""),
        ("./run", "", ""),
        ("../run", "bin", ""),
        ("missing", "", "No such file or directory (os error 2)"),
        ("./missing", "", "No such file or directory (os error 2)"),
        ("", "", "No such file or directory (os error 2)"),
        ("./plain", "", "Permission denied (os error 13)"),
        ("folder", "", "Permission denied (os error 13)"),
        ("./bin", "", "Permission denied (os error 13)"),
        ("tool", "missing", "No such file or directory (os error 2)"),
        ("tool", "plain", "Not a directory (os error 20)"),
        ("tool", "n" * 300, "File name too long (os error 36)"),
    ],
)
def test_a_command_that_cannot_be_started_fails_as_it_would_without_a_sandbox(
    place: Path, program: str, cwd: str, fault: str
) -> None:
    launch = Launch(argv=(program,), cwd=str(place / cwd), env={"PATH": f"{place}/bin"}, stdin=0, stdout=1, stderr=2)
    if not fault:
        check_start(launch)
        return
    if os.uname().sysname != "Linux" and "too long" in fault:
        fault = "File name too long (os error 63)"
    with pytest.raises(CommandFailed) as failed:
        check_start(launch)
    assert str(failed.value) == fault
    assert failed.value.hint


@pytest.mark.parametrize(
    ("argv", "env", "fault"),
    [
        (("a\0b",), {}, "nul byte"),
        (("a",), {"A": "\0"}, "nul byte"),
        (("\ud800",), {}, "encoded"),
        (("a",), {"": "x"}, "a variable cannot have the name ''"),
        (("a",), {"A=B": "x"}, "a variable cannot have the name 'A=B'"),
    ],
)
def test_words_that_the_system_does_not_accept_are_refused(
    argv: tuple[str, ...], env: dict[str, str], fault: str
) -> None:
    check_text(("a", "é", "\udce9"), {"A": "b\n"})
    with pytest.raises(CommandFailed, match=fault):
        check_text(argv, env)


def test_programs_that_anybody_may_have_put_there_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "bin"
    own.mkdir()
    (own / "sh").symlink_to(tmp_path / "real")
    (tmp_path / "real").write_text("#!/bin/sh\n")
    (tmp_path / "real").chmod(0o755)
    monkeypatch.setattr("tempfile.tempdir", "/var/tmp")
    assert list(trusted_programs(("sh",), f"{own}:bin:/bin")) in (["/bin/sh"], [f"{own}/sh", "/bin/sh"])
    monkeypatch.chdir(tmp_path)
    assert list(trusted_programs(("missing", "sh"), f"{own}:bin:/bin")) == ["/bin/sh"]


def test_a_program_within_reach_of_commands_is_known(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to("work/tool")
    access = FileAccess.writing(tmp_path / "work")
    assert within_reach(str(tmp_path / "link"), access, Path("/"))
    assert within_reach(str(tmp_path / "link"), FileAccess(), tmp_path / "work")
    assert not within_reach("/bin/sh", access, tmp_path / "work")
    assert not within_reach("/bin/sh", FileAccess(full=True), Path("/"))


def test_a_floor_names_what_is_missing_and_what_would_help() -> None:
    report = SandboxReport(
        available=True, level="x", protections={Protection.WRITING: "x", Protection.RESOURCES: "where configured"}
    )
    check_floor("it", report, FileAccess(floor=frozenset({Protection.WRITING})))
    both = FileAccess(floor=frozenset({Protection.KERNEL, Protection.RESOURCES, Protection.WRITING}))
    with pytest.raises(SandboxError, match=r"it cannot enforce all of .*: kernel, resources$") as refused:
        check_floor("it", report, both)
    assert (refused.value.slug, "choose another" in refused.value.hint) == ("sandbox-floor", True)
    limited = FileAccess(floor=frozenset({Protection.RESOURCES}), limits=ResourceLimits(file_bytes=1))
    with pytest.raises(SandboxError) as refused:
        check_floor("it", report, limited)
    assert "sandbox_limits" in refused.value.hint
    check_floor("it", report, limited, bounds_memory=True)
