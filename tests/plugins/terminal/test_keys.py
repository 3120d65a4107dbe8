"""Keys of the bytes that terminals send."""

from __future__ import annotations

import pytest

from codex_client_terminal.keys import Keys, Paste


def _read(data: bytes, size: int) -> list[str]:
    keys = Keys()
    found = [key for place in range(0, len(data), size) for key in keys.feed(data[place : place + size])]
    return [*found, *keys.flush()]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"ab", ["a", "b"]),
        ("é日👍".encode(), ["é", "日", "👍"]),
        (b"\r\n\t\x7f", ["enter", "c-j", "tab", "backspace"]),
        (b"\x01\x03\x1a", ["c-a", "c-c", "c-z"]),
        (b"\x1b[A\x1bOB\x1b[1;5C\x1b[3~\x1b[Z", ["up", "down", "c-right", "delete", "s-tab"]),
        (b"\x1bb\x1b\x7f\x1b\r", ["m-b", "m-backspace", "m-enter"]),
        (b"\x1b[13;2u\x1b[97;5u", ["s-enter", "c-a"]),
        (b"\x1b[200~a\rb\x1b[A\x1b[201~c", ["a\nb\x1b[A", "c"]),
        (b"\x1b", ["esc"]),
        (b"\x1b\x1b[A", ["esc", "up"]),
        (b"\x1b[<64;10;5M\x1b[<65;10;5M\x1b[<0;10;5M\x1b[<0;10;5m\x1b[<", ["wheel-up", "wheel-down", "esc", "[", "<"]),
        (b"\x1b[?62;c", []),
        (b"\x1b]0;x", ["m-]", "0", ";", "x"]),
        (b"\xff", ["\N{REPLACEMENT CHARACTER}"]),
    ],
)
def test_keys_are_the_same_however_they_arrive(data: bytes, keys: list[str], size: int) -> None:
    assert _read(data, size) == keys


def test_a_large_paste_is_one_key() -> None:
    text = "line\n" * 200_000
    [paste] = _read(b"\x1b[200~" + text.encode() + b"\x1b[201~", 65_536)
    assert isinstance(paste, Paste)
    assert paste == text
