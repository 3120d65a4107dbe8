"""Files that are not plain UTF-8: those with byte order marks, and those in other encodings."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from codex_framework.contract.protocol.events.command import UpdateFile
from codex_plugin_apply_patch.tool import ApplyPatch

BOM = b"\xef\xbb\xbf"
MARKS = {
    "utf-8": BOM,
    "utf-16-le": b"\xff\xfe",
    "utf-16-be": b"\xfe\xff",
    "utf-32-le": b"\xff\xfe\0\0",
    "utf-32-be": b"\0\0\xfe\xff",
}
OLD = "const é = 1;\r\nlast\r\n"


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def done(*lines: str) -> str:
    changed = "\n".join(lines)
    return f"Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\n{changed}\n"


def update(*lines: str) -> str:
    return patch("*** Update File: f", "@@", *lines)


@pytest.mark.parametrize("codec", MARKS)
@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["-const é = 1;", "+const è = 3;"], "const è = 3;\r\nlast\r\n"),
        (["-\ufeffconst é = 1;", "+\ufeffconst è = 3;"], "const è = 3;\r\nlast\r\n"),
        (["+first", " const é = 1;"], f"first\r\n{OLD}"),
        (["-const é = 1;"], "last\r\n"),
        (["-const é = 1;", "-last"], ""),
        (["+日本"], f"{OLD}日本\r\n"),
    ],
)
def test_an_updated_file_keeps_its_encoding_and_its_mark(desk: Any, codec: str, lines: list[str], text: str) -> None:
    desk.files(f=MARKS[codec] + OLD.encode(codec))
    assert desk.apply(update(*lines)) == done("M f")
    assert desk.tree() == {"f": MARKS[codec] + text.encode(codec)}


@pytest.mark.parametrize("codec", MARKS)
def test_a_moved_or_replaced_file_keeps_its_encoding_and_its_mark(desk: Any, codec: str) -> None:
    desk.files(f=MARKS[codec] + OLD.encode(codec), g=MARKS[codec] + OLD.encode(codec))
    text = patch("*** Update File: f", "*** Move to: moved", "@@", "-last", "+è", "*** Add File: g", "+hé")
    assert desk.apply(text) == done("A g", "M moved")
    assert desk.tree() == {
        "g": MARKS[codec] + "hé\n".encode(codec),
        "moved": MARKS[codec] + "const é = 1;\r\nè\r\n".encode(codec),
    }


def test_the_command_writes_a_mark_back(desk: Any) -> None:
    desk.files(f=BOM + b"old\n")
    argv = ApplyPatch().programs["apply_patch"]
    given = BOM + update("-old", "+new").encode()
    assert subprocess.run(argv, cwd=desk.folder, input=given, capture_output=True, check=False).returncode == 0
    assert desk.tree() == {"f": BOM + b"new\n"}


def test_a_new_file_may_begin_with_a_mark(desk: Any) -> None:
    assert desk.apply(patch("*** Add File: f", "+\ufeffx")) == done("A f")
    assert desk.tree() == {"f": BOM + b"x\n"}


@pytest.mark.parametrize(
    "content",
    [
        "café\nline\n".encode("latin-1"),
        "日本\nline\n".encode("shift_jis"),
        "日本\nline\n".encode("euc_jp"),
        "日本\nline\n".encode("iso2022_jp"),
        "한국\nline\n".encode("iso2022_kr"),
        "中文\nline\n".encode("gb18030"),
        "Жук\nline\n".encode("cp1251"),
        BOM + b"caf\xe9\nline\n",
    ],
)
def test_lines_that_are_not_ascii_are_not_written_into_an_unknown_encoding(desk: Any, content: bytes) -> None:
    desk.files(f=content)
    output = desk.apply(update("-line", "+hé"))
    assert output.startswith(f"apply_patch verification failed: Failed to update file {desk.folder}/f: it is not UTF-8")
    assert desk.tree() == {"f": content}
    assert desk.apply(update("-line", "+ascii")) == done("M f")
    assert desk.tree() == {"f": content.replace(b"line", b"ascii")}


@pytest.mark.parametrize("text", ["hello\nworld\n", "hello", "日本\n世界\n", "Жук\nЖук\n"])
@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_file_of_wide_characters_without_a_mark_is_not_changed(desk: Any, codec: str, text: str) -> None:
    desk.files(f=text.encode(codec))
    assert desk.apply(update("+appended")).startswith(
        f"apply_patch verification failed: Failed to update file {desk.folder}/f: it seems to be UTF-16"
    )
    assert desk.tree() == {"f": text.encode(codec)}


@pytest.mark.parametrize("content", [b"\xff\xfeh\0i", b"\xff\xfe\0\xd8\n\0", b"\xfe\xff\0h\0"])
def test_a_damaged_file_of_wide_characters_is_not_changed_but_may_be_deleted(desk: Any, content: bytes) -> None:
    desk.files(f=content)
    assert "it seems to be UTF-16" in desk.apply(update("+x"))
    assert desk.tree() == {"f": content}
    assert desk.apply(patch("*** Delete File: f")) == done("D f")


def test_a_text_with_a_few_nuls_is_changed(desk: Any) -> None:
    desk.files(f=b"head\nseparated\0by NUL\nline\n")
    assert desk.apply(update("-line", "+hé")) == done("M f")
    assert desk.tree() == {"f": "head\nseparated\0by NUL\nhé\n".encode()}


def test_the_command_refuses_bytes_that_are_not_of_the_files_encoding(desk: Any) -> None:
    desk.files(f="é\nline\n")
    argv = [*ApplyPatch().programs["apply_patch"], update("-line", "+h\udce9")]
    ended = subprocess.run(argv, cwd=desk.folder, capture_output=True, check=False)
    assert (ended.returncode, desk.tree()) == (1, {"f": "é\nline\n".encode()})
    desk.files(f=b"\xe9\nline\n")
    ended = subprocess.run(argv, cwd=desk.folder, capture_output=True, check=False)
    assert (ended.returncode, desk.tree()) == (0, {"f": b"\xe9\nh\xe9\n"})


@pytest.mark.parametrize("old", ["old\nsame\n", "old\nsame", ""])
def test_adding_a_file_that_exists_is_an_update_with_the_old_text(desk: Any, old: str) -> None:
    desk.files(f=old)
    assert desk.apply(patch("*** Add File: f", "+new", "+same")) == done("A f")
    change = desk.events[0].changes[f"{desk.folder}/f"]
    assert isinstance(change, UpdateFile)
    assert all(f"-{line}\n" in change.unified_diff for line in old.split("\n")[:1] if line)
    assert "+new\n" in change.unified_diff
    assert desk.tree() == {"f": b"new\nsame\n"}
