"""Images in the conversation."""

from __future__ import annotations

import base64
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_client_terminal.alternate import AlternateScreen
from codex_client_terminal.images import Picture, picture_escape, picture_line
from codex_client_terminal.items import render, user_text
from codex_client_terminal.screen import Screen, ScrollBack
from codex_client_terminal.text import plain_text

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 320, 160) + bytes(9_000)
GIF = b"GIF89a" + struct.pack("<HH", 64, 32)
JPEG = b"\xff\xd8\xff\xe0\x00\x04xx\xff\xc0\x00\x11\x08" + struct.pack(">HH", 32, 64) + bytes(9)
KITTY, ITERM2 = {"TERM": "xterm-kitty"}, {"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}


@pytest.fixture
def screen() -> Iterator[Screen]:
    """A screen of 80 columns, in which a character has 8 times 16 pixels."""
    ends = os.openpty()
    yield Screen(ends[1], ends[1])
    for end in ends:
        os.close(end)


def _line(folder: Path, data: bytes) -> Picture:
    file = folder / "image"
    file.write_bytes(data)
    line = picture_line(str(file))
    assert isinstance(line, Picture)
    return line


@pytest.mark.parametrize(("data", "words"), [(PNG, "320x160, 9.0 kB"), (GIF, "64x32, 10 B"), (JPEG, "64x32, 26 B")])
def test_the_line_of_an_image_has_its_size(tmp_path: Path, data: bytes, words: str) -> None:
    assert plain_text(_line(tmp_path, data)) == f"  └ {tmp_path}/image ({words})"


def test_kitty_gets_a_png_in_pieces_and_is_not_to_answer(tmp_path: Path) -> None:
    escape = picture_escape(_line(tmp_path, PNG), 80, (8, 16), KITTY)
    pieces = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", escape)
    assert pieces[0][0] == "a=T,f=100,q=2,c=40,m=1"
    assert [control for control, _ in pieces[1:]] == ["q=2,m=1", "q=2,m=1", "q=2,m=0"][4 - len(pieces) :]
    assert base64.b64decode("".join(data for _, data in pieces)) == PNG


def test_iterm2_gets_every_kind(tmp_path: Path) -> None:
    for data in (PNG, GIF, JPEG):
        escape = picture_escape(_line(tmp_path, data), 80, (8, 16), ITERM2)
        control, _, encoded = escape.strip().removeprefix("\x1b]1337;File=").removesuffix("\x07").partition(":")
        assert f"inline=1;size={len(data)};width={40 if data is PNG else 8}" in control
        assert base64.b64decode(encoded) == data


@pytest.mark.parametrize(
    "environ",
    [{"TERM": "xterm-256color"}, {**KITTY, "TMUX": "/tmp/x"}, {**ITERM2, "STY": "1"}, {**KITTY, "TERM": "screen"}, {}],
)
def test_other_terminals_get_only_the_line(tmp_path: Path, environ: dict[str, str]) -> None:
    assert picture_escape(_line(tmp_path, PNG), 80, (8, 16), environ) == ""


def test_kitty_does_not_get_what_it_cannot_read(tmp_path: Path) -> None:
    assert picture_escape(_line(tmp_path, GIF), 80, (8, 16), KITTY) == ""


@pytest.mark.parametrize(
    ("width", "height", "columns"), [(10_000, 100, 76), (100, 10_000, 1), (8, 8, 1), (1, 2**31, 1)]
)
def test_an_image_is_not_larger_than_the_screen(tmp_path: Path, width: int, height: int, columns: int) -> None:
    data = PNG[:16] + struct.pack(">II", width, height)
    assert f",c={columns}," in picture_escape(_line(tmp_path, data), 80, (8, 16), KITTY)


@pytest.mark.parametrize(
    "data", [b"", b"\x89PNG\r\n\x1a\n", PNG[:16] + bytes(8), b"GIF89a", b"\xff\xd8\xff\xc0", b"text"]
)
def test_what_is_no_image_is_only_named(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "file.png"
    file.write_bytes(data)
    line = picture_line(str(file))
    assert not isinstance(line, Picture)
    assert plain_text(line) == f"  └ {file} ({len(data)} B)"


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    assert plain_text(picture_line(f"{tmp_path}/gone.png")).endswith("/gone.png (No such file or directory)")
    assert plain_text(picture_line(str(tmp_path))).endswith("(Is a directory)")
    assert plain_text(picture_line("data:image/png;base64,!!x")) == "  └ image (it cannot be read)"


def test_the_images_of_messages_and_of_the_tool_are_displayed(
    tmp_path: Path, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"TMUX": "", "STY": "", **ITERM2}.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "a.gif"
    file.write_bytes(GIF)
    url = f"data:image/gif;base64,{base64.b64encode(GIF).decode()}"
    content = [{"type": "local_image", "path": str(file)}, {"type": "image", "image_url": url}]
    for item in ({"type": "UserMessage", "content": content}, {"type": "ImageView", "path": f"file://{file}"}):
        lines = render(item, {})
        written = ScrollBack(screen).draw(lines, [], (0, 0))
        assert written.count("\x1b]1337;File=inline=1") == len(lines) - 1
        assert "\x1b]1337" not in AlternateScreen(screen).draw(lines, [[("composer", "")]], (0, 0))
    assert user_text({"content": content}) == "[image]"


def test_a_widget_of_a_plugin_cannot_send_escapes(screen: Screen) -> None:
    item = {"type": "McpToolCall", "tool": "evil"}
    lines = render(item, {"evil": lambda _: [Picture([("\x1b]52;c;aGk=\x07", "")], GIF, (1, 1))]})
    assert "\x1b]" not in ScrollBack(screen).draw(lines, [], (0, 0))
