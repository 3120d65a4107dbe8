"""Compressed files: whatever they contain, reading them is bounded."""

from __future__ import annotations

import random
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from codex_framework.toolkit.compressed import ZstandardNeededError, decompressing

MIB = 1 << 20


def packed(path: Path, *frames: bytes) -> Path:
    zstandard: Any = pytest.importorskip("zstandard")
    path.write_bytes(b"".join(map(zstandard.ZstdCompressor().compress, frames)))
    return path


@pytest.mark.parametrize("frames", [(), (b"",), (b"a\nb",), (b"a\n", b"", b"b"), (b"x" * 9 * MIB, b"\ny" * 100_000)])
def test_the_content_of_all_frames_is_read(tmp_path: Path, frames: tuple[bytes, ...]) -> None:
    file = packed(tmp_path / "file", *frames).open("rb")
    with decompressing(file) as content:
        assert b"".join(content) == b"".join(frames)
    assert file.closed


@pytest.mark.parametrize("part", [1, 10, -1])
def test_a_file_that_is_cut_or_is_none_is_an_error(tmp_path: Path, part: int) -> None:
    path = packed(tmp_path / "file", bytes(range(256)) * 20)
    path.write_bytes(path.read_bytes()[:part])
    with decompressing(path.open("rb")) as content, pytest.raises(OSError, match="its end is missing"):
        content.read()
    path.write_bytes(b"no zstd")
    with decompressing(path.open("rb")) as content, pytest.raises(OSError, match="it is not a zstd file"):
        content.readline()


@pytest.mark.parametrize("read", ["read", "readline", "readlines"])
def test_a_short_file_with_a_content_without_end_fills_neither_memory_nor_time(tmp_path: Path, read: str) -> None:
    frame = packed(tmp_path / "file", bytes(32 * MIB)).read_bytes()
    (tmp_path / "file").write_bytes(frame * 1000)
    tracemalloc.start()
    try:
        with (
            decompressing((tmp_path / "file").open("rb")) as content,
            pytest.raises(OSError, match="its content is longer than"),
        ):
            getattr(content, read)()
        assert tracemalloc.get_traced_memory()[1] < 400 * MIB
    finally:
        tracemalloc.stop()


def test_a_single_frame_without_end_is_bounded_too(tmp_path: Path) -> None:
    path = packed(tmp_path / "file", bytes(80 * MIB))
    tracemalloc.start()
    try:
        with decompressing(path.open("rb")) as content, pytest.raises(OSError, match="its content is longer than"):
            sum(map(len, iter(lambda: content.read(MIB), b"")))
        assert tracemalloc.get_traced_memory()[1] < 70 * MIB
    finally:
        tracemalloc.stop()


def test_a_content_in_proportion_to_its_file_has_no_bound(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(2 * MIB)
    path = packed(tmp_path / "file", noise + bytes(80 * MIB))
    with decompressing(path.open("rb")) as content:
        assert sum(map(len, iter(lambda: content.read(MIB), b""))) == 82 * MIB


def test_without_the_package_the_file_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    file = tmp_path.joinpath("file")
    file.touch()
    opened = file.open("rb")
    with pytest.raises(ZstandardNeededError):
        decompressing(opened)
    assert opened.closed
