from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.protocol.events.command import (
    AddFile,
    ApplyPatchApprovalRequestEvent,
    DeleteFile,
    PatchApplyBeginEvent,
    PatchApplyEndEvent,
    UpdateFile,
)
from codex_framework.contract.protocol.policies import ApprovalPolicy, Decision
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.tool_specs import FreeformSpec, FunctionSpec
from codex_framework.testing import turn_facts
from codex_plugin_apply_patch.tool import ApplyPatch

OUTSIDE = "patch rejected: writing outside of the project; rejected by user approval settings"
READ_ONLY = "patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings"


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def done(*lines: str) -> str:
    return "\n".join(
        ("Exit code: 0", "Wall time: 0 seconds", "Output:", "Success. Updated the following files:", *lines, "")
    )


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (("*** Update File: a.txt", "@@", "-x"), "Failed to find expected lines in {0}/a.txt:\nx"),
        (("*** Update File: a.txt", "@@ x", "-a"), "Failed to find context 'x' in {0}/a.txt"),
        (
            ("*** Update File: no", "@@", "-x"),
            "Failed to read file to update {0}/no: No such file or directory (os error 2)",
        ),
        (("*** Delete File: no",), "Failed to read {0}/no: No such file or directory (os error 2)"),
        (("*** Delete File: sub",), "Failed to read {0}/sub: path `{0}/sub` is not a file"),
        (("*** Update File: sub", "@@", "-x"), "Failed to read file to update {0}/sub: path `{0}/sub` is not a file"),
        (("*** Add File: sub", "+x"), "Failed to write file {0}/sub: path `{0}/sub` is not a file"),
        (("*** Add File: a.txt/x", "+x"), "Failed to write file {0}/a.txt/x: Not a directory (os error 20)"),
        (("*** Add File: .", "+x"), "Failed to write file {0}: path `{0}` is not a file"),
        (("*** Add File: a\0b", "+x"), "Failed to write file {0}/a\0b: the path contains a NUL character"),
    ],
)
def test_a_patch_that_does_not_fit_writes_nothing(desk: Any, lines: tuple[str, ...], fault: str) -> None:
    desk.files(a_txt="a\n", sub__b_txt="b\n")
    before = desk.tree()
    output = desk.apply(patch("*** Add File: first.txt", "+x", *lines))
    assert output == f"apply_patch verification failed: {fault.format(desk.folder)}"
    assert desk.tree() == before
    assert desk.events == []


UPDATE = ("*** Update File: {}", "@@", "-a", "+b")
ADD = ("*** Add File: {}", "+new")
DELETE = ("*** Delete File: {}",)
MOVE = ("*** Update File: {}", "*** Move to: moved.txt", "@@", "-a", "+b")


# What Codex 0.169 answers for each of these pairs, but for the links: it applies the first and then fails.
@pytest.mark.parametrize("first", [ADD, UPDATE, DELETE, MOVE])
@pytest.mark.parametrize("second", [ADD, UPDATE, DELETE, MOVE])
@pytest.mark.parametrize(
    "name", ["a.txt", "./a.txt", "sub/../a.txt", "no/../a.txt", "{0}/a.txt", "/{0}/a.txt", "sub//../a.txt", "a.txt/"]
)
def test_two_operations_on_one_file_are_refused_before_anything_happens(
    desk: Any, first: tuple[str, ...], second: tuple[str, ...], name: str
) -> None:
    desk.files(a_txt="a\n", sub__b_txt="b\n")
    before = desk.tree()
    lines = [*(line.format("a.txt") for line in first), *(line.format(name.format(desk.folder)) for line in second)]
    fault = f"invalid patch: multiple operations target {desk.folder}/a.txt"
    assert desk.apply(patch("*** Add File: first.txt", "+x", *lines)) == f"apply_patch verification failed: {fault}"
    assert desk.tree() == before
    assert desk.events == []


@pytest.mark.parametrize("name", ["link.txt", "folder/a.txt", "hard.txt"])
def test_two_operations_on_one_file_through_a_link_are_refused(desk: Any, name: str) -> None:
    desk.files(a_txt="a\n")
    (desk.folder / "link.txt").symlink_to("a.txt")
    (desk.folder / "folder").symlink_to(".")
    os.link(desk.folder / "a.txt", desk.folder / "hard.txt")
    lines = [line.format(path) for path in ("a.txt", name) for line in UPDATE]
    fault = f"invalid patch: multiple operations target {desk.folder}/{name}"
    assert desk.apply(patch(*lines)) == f"apply_patch verification failed: {fault}"
    assert (desk.folder / "a.txt").read_text() == "a\n"


def test_a_link_may_go_while_its_file_is_changed(desk: Any) -> None:
    desk.files(a_txt="a\n")
    (desk.folder / "link.txt").symlink_to("a.txt")
    lines = [*(line.format("a.txt") for line in UPDATE), "*** Delete File: link.txt"]
    assert desk.apply(patch(*lines)) == done("M a.txt", "D link.txt")
    assert desk.tree() == {"a.txt": b"b\n"}


def test_what_does_not_fit_is_told_in_the_order_of_the_patch(desk: Any) -> None:
    missing = "*** Delete File: no"
    twice = ("*** Add File: n", "+x", "*** Add File: n", "+x")
    assert "Failed to read" in desk.apply(patch(missing, *twice))
    assert "multiple operations target" in desk.apply(patch(*twice, missing))


def test_text_that_is_no_patch_is_told_so(desk: Any) -> None:
    assert desk.apply("hello") == (
        "apply_patch verification failed: invalid patch: The first line of the patch must be '*** Begin Patch'"
    )


def test_an_empty_patch_is_rejected(desk: Any) -> None:
    assert desk.apply(patch()) == "patch rejected: empty patch"


def test_a_function_call_is_understood(desk: Any) -> None:
    assert desk.call(input=patch("*** Add File: a", "+x")) == done("A a")
    assert desk.tree() == {"a": b"x\n"}


def test_wrong_arguments_are_told(desk: Any) -> None:
    assert desk.apply("{}", kind="function") == (
        "failed to parse function arguments: missing field `input` at line 1 column 2"
    )


def test_a_working_folder_moves_relative_paths(desk: Any) -> None:
    desk.files(sub__a_txt="a\n")
    assert desk.call(input=patch("*** Update File: a.txt", "@@", "-a", "+b"), workdir="sub") == done("M a.txt")
    assert desk.tree() == {"sub/a.txt": b"b\n"}


@pytest.mark.parametrize(("form", "kind"), [("freeform", FreeformSpec), ("function", FunctionSpec), (None, type(None))])
def test_the_form_suits_the_model(form: str | None, kind: type) -> None:
    facts = turn_facts(model=ModelInfo(slug="m", apply_patch=form), config={})
    tool = ApplyPatch()
    assert isinstance(tool.spec_for(facts) if tool.offered(facts) else None, kind)


def test_events_and_the_turns_diff_show_what_changed(desk: Any) -> None:
    desk.files(u_txt="a\nb\nc\n", d_txt="gone\n", m_txt="old\n")
    desk.apply(
        patch(
            "*** Add File: n.txt",
            "+new",
            "*** Update File: u.txt",
            "@@",
            "-b",
            "+B",
            "*** Delete File: d.txt",
            "*** Update File: m.txt",
            "*** Move to: moved.txt",
            "@@",
            "-old",
            "+young",
        )
    )
    folder = str(desk.folder)
    changes = {
        f"{folder}/n.txt": AddFile("new\n"),
        f"{folder}/u.txt": UpdateFile("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"),
        f"{folder}/d.txt": DeleteFile("gone\n"),
        f"{folder}/m.txt": UpdateFile("@@ -1 +1 @@\n-old\n+young\n", f"{folder}/moved.txt"),
    }
    summary = "Success. Updated the following files:\nA n.txt\nM u.txt\nM moved.txt\nD d.txt\n"
    assert desk.events == [
        PatchApplyBeginEvent(call_id="call", turn_id="turn-1", auto_approved=True, changes=changes),
        PatchApplyEndEvent(
            call_id="call",
            turn_id="turn-1",
            stdout=summary,
            stderr="",
            success=True,
            changes=changes,
            status="completed",
        ),
    ]
    assert {word for line in desk.diff.splitlines() if line.startswith("diff") for word in line.split()[2:3]} == {
        "a/work/d.txt",
        "a/work/m.txt",
        "a/work/moved.txt",
        "a/work/n.txt",
        "a/work/u.txt",
    }


def test_bytes_that_are_no_text_survive(desk: Any) -> None:
    desk.files(a_txt=b"caf\xe9\nold\n")
    assert desk.apply(patch("*** Update File: a.txt", "@@", "-old", "+new")) == done("M a.txt")
    assert desk.tree() == {"a.txt": b"caf\xe9\nnew\n"}
    assert desk.events[0].changes[f"{desk.folder}/a.txt"] == UpdateFile("@@ -1,2 +1,2 @@\n caf\ufffd\n-old\n+new\n")


def test_half_a_surrogate_pair_becomes_a_replacement_character(desk: Any) -> None:
    assert desk.apply(patch("*** Add File: a", "+x\ud800y")) == done("A a")
    assert desk.tree() == {"a": "x\ufffdy\n".encode()}


def test_modes_links_and_symlinks_are_kept(desk: Any, tmp_path: Path) -> None:
    desk.files(run_sh="old\n", hard_txt="old\n", target_txt="old\n")
    (desk.folder / "run.sh").chmod(0o751)
    os.link(desk.folder / "hard.txt", tmp_path / "other name")
    (desk.folder / "link.txt").symlink_to("target.txt")
    names = ("run.sh", "hard.txt", "link.txt")
    desk.apply(patch(*(line for name in names for line in (f"*** Update File: {name}", "@@", "-old", "+new"))))
    assert (desk.folder / "run.sh").stat().st_mode & 0o777 == 0o751
    assert (tmp_path / "other name").read_text() == "new\n"
    assert (desk.folder / "link.txt").is_symlink()
    assert (desk.folder / "target.txt").read_text() == "new\n"


# What may be written


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/outside.txt", ".git/config", "link/outside.txt"])
def test_a_patch_outside_the_workspace_is_refused(desk: Any, tmp_path: Path, name: str) -> None:
    (desk.folder / "link").symlink_to(tmp_path)
    desk.confine()
    assert desk.apply(patch("*** Add File: ok.txt", "+x", f"*** Add File: {name}", "+x")) == OUTSIDE
    assert desk.tree() == {}
    assert [event.status for event in desk.events if isinstance(event, PatchApplyEndEvent)] == ["declined"]


def test_a_move_out_of_the_workspace_is_refused(desk: Any) -> None:
    desk.files(a_txt="a\n")
    desk.confine()
    assert desk.apply(patch("*** Update File: a.txt", "*** Move to: ../b.txt", "@@", "-a", "+b")) == OUTSIDE
    assert desk.tree() == {"a.txt": b"a\n"}


def test_nothing_is_written_where_everything_is_read_only(desk: Any) -> None:
    desk.confine(write=False)
    assert desk.apply(patch("*** Add File: a", "+x")) == READ_ONLY


def test_a_symlink_outside_is_not_deleted(desk: Any, tmp_path: Path) -> None:
    desk.files(a_txt="a\n")
    (tmp_path / "link").symlink_to(desk.folder / "a.txt")
    desk.confine()
    output = desk.apply(patch("*** Delete File: ../link"))
    assert output == f"patch rejected: {tmp_path}/link is a symlink in a folder that must not be written"
    assert (tmp_path / "link").is_symlink()


def test_what_may_not_be_read_is_not_shown(desk: Any) -> None:
    desk.files(secret="s\n")
    desk.access = FileAccess.writing(desk.folder, deny=[desk.folder / "secret"])
    output = desk.apply(patch("*** Update File: secret", "@@", "-guess", "+x"))
    assert output == (
        f"apply_patch verification failed: Failed to read file to update {desk.folder}/secret: "
        "Permission denied (os error 13)"
    )


def test_a_person_may_allow_a_patch_outside(desk: Any, tmp_path: Path) -> None:
    desk.confine()
    desk.approval = ApprovalPolicy.ON_REQUEST
    assert desk.apply(patch("*** Add File: ../out.txt", "+x")) == done("A ../out.txt")
    assert (tmp_path / "out.txt").read_text() == "x\n"
    (asked,) = desk.asked
    assert isinstance(asked, ApplyPatchApprovalRequestEvent)
    assert asked.changes == {f"{tmp_path}/out.txt": AddFile("x\n")}
    assert desk.events[0].auto_approved is False


def test_a_person_is_asked_for_the_real_place(desk: Any, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (desk.folder / "link").symlink_to(tmp_path / "elsewhere")
    desk.confine()
    desk.approval = ApprovalPolicy.ON_REQUEST
    desk.answer = Decision.DENIED
    assert desk.apply(patch("*** Add File: link/f", "+x")) == "patch rejected by user"
    assert list(desk.asked[0].changes) == [f"{tmp_path}/elsewhere/f"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_that_becomes_a_symlink_is_not_followed(desk: Any, tmp_path: Path) -> None:
    desk.files(sub__a_txt="a\n")
    (tmp_path / "elsewhere").mkdir()
    desk.confine()
    desk.approval = ApprovalPolicy.UNTRUSTED

    class Swap(list[Any]):
        def append(self, request: Any) -> None:  # while the person thinks, a command swaps the folder
            (desk.folder / "sub").rename(desk.folder / "gone")
            (desk.folder / "sub").symlink_to(tmp_path / "elsewhere")

    desk.asked = Swap()
    output = desk.apply(patch("*** Add File: sub/new.txt", "+x"))
    assert output.startswith(
        f"Exit code: 1\nWall time: 0 seconds\nOutput:\nFailed to write file {desk.folder}/sub/new.txt"
    )
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_last_link_cannot_be_turned_while_the_person_thinks(desk: Any, tmp_path: Path) -> None:
    desk.files(a_txt="a\n", b_txt="b\n")
    (tmp_path / "victim.txt").write_text("a\n")
    (desk.folder / "link.txt").symlink_to("a.txt")
    desk.confine()
    desk.approval = ApprovalPolicy.UNTRUSTED

    class Turn(list[Any]):
        def append(self, request: Any) -> None:
            (desk.folder / "link.txt").unlink()
            (desk.folder / "link.txt").symlink_to(tmp_path / "victim.txt")

    desk.asked = Turn()
    output = desk.apply(patch("*** Update File: link.txt", "-a", "+b"))
    assert output.endswith("it was moved while the patch was applied\nNo file was changed.\n")
    assert (tmp_path / "victim.txt").read_text() == "a\n"


FLIP = """
import ctypes, sys
libc = ctypes.CDLL(None)
one, other = (name.encode() for name in sys.argv[1:3])
print(flush=True)
while not libc.renameat2(-100, one, -100, other, 2):
    pass
"""


@pytest.mark.parametrize("count", [40, pytest.param(2000, marks=pytest.mark.thorough)])
def test_no_file_or_folder_is_made_outside_while_a_command_exchanges_folders(
    desk: Any, tmp_path: Path, count: int
) -> None:
    """Each patch makes a file in new folders below a name that is now a folder, now a link out of the workspace."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("old\n")
    desk.files(flip__kept_txt="old\n")
    (desk.folder / "link").symlink_to(outside)
    desk.confine()
    if not hasattr(ctypes.CDLL(None), "renameat2"):
        pytest.skip("there is no renameat2")
    argv = [sys.executable, "-I", "-S", "-c", FLIP, str(desk.folder / "flip"), str(desk.folder / "link")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        child.stdout.readline()  # type: ignore[union-attr]
        try:
            for number in range(count):
                add, change = f"*** Add File: flip/{number}/a/b.txt", "*** Update File: flip/kept.txt"
                desk.apply(patch(add, "+x", change, "-old", "+new"))
                desk.apply(patch(change, "-new", "+old"))
            assert child.poll() is None
        finally:
            child.kill()
    assert [path.name for path in outside.iterdir()] == ["kept.txt"]
    assert (outside / "kept.txt").read_text() == "old\n"


# When writing fails


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Files can grow to this size only: to a program that is a full disk."""
    import signal

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_failure_half_way_tells_what_was_changed(desk: Any) -> None:
    desk.files(big_txt="x\n", last_txt="y\n")
    text = "z" * 5000
    with largest_file(4000):
        output = desk.apply(
            patch(
                "*** Add File: a.txt",
                "+a",
                "*** Update File: big.txt",
                "-x",
                f"+{text}",
                "*** Delete File: last.txt",
            )
        )
    assert output == (
        "Exit code: 1\nWall time: 0 seconds\nOutput:\n"
        f"Failed to write file {desk.folder}/big.txt: File too large (os error 27)\n"
        "These files were changed before that:\nA a.txt\n"
    )
    assert desk.tree() == {"a.txt": b"a\n", "big.txt": b"x\n", "last.txt": b"y\n"}
    end = desk.events[-1]
    assert (end.status, end.success, list(end.changes)) == ("failed", False, [f"{desk.folder}/a.txt"])
    assert "big.txt" not in desk.diff


def test_a_file_that_is_written_in_place_gets_its_old_content_back(desk: Any, tmp_path: Path) -> None:
    desk.files(a_txt="old\n" * 500)
    os.link(desk.folder / "a.txt", tmp_path / "other name")
    with largest_file(4000):
        output = desk.apply(patch("*** Add File: a.txt", *(["+new line"] * 1000)))
    assert "Failed to write file" in output
    assert output.endswith("No file was changed.\n")
    assert desk.tree() == {"a.txt": b"old\n" * 500}


def test_a_write_protected_file_stays(desk: Any) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is write-protected for root")
    desk.files(a_txt="old\n")
    (desk.folder / "a.txt").chmod(0o444)
    assert "Permission denied" in desk.apply(patch("*** Update File: a.txt", "-old", "+new"))
    assert desk.tree() == {"a.txt": b"old\n"}


def test_two_hundred_files_are_patched(desk: Any) -> None:
    for number in range(200):
        (desk.folder / f"f{number}.txt").write_text("a\nb\nc\n")
    lines = [line for number in range(200) for line in (f"*** Update File: f{number}.txt", "@@", "-b", "+B")]
    assert desk.apply(patch(*lines)).count("\nM f") == 200
    assert set(desk.tree().values()) == {b"a\nB\nc\n"}


def test_a_first_patch_does_not_wait_for_attrs() -> None:
    """Importing attrs takes longer than patching 200 files."""
    code = "import codex_plugin_apply_patch.application, codex_plugin_apply_patch.preview, sys; print('attr' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
