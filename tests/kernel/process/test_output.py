from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.commands.process.output import CappedOutput, split_incomplete


def fill(chunks: list[bytes], cap: int) -> CappedOutput:
    output = CappedOutput(cap)
    for chunk in chunks:
        output.append(chunk)
    return output


@given(st.lists(st.binary(max_size=40)), st.integers(1, 30))
def test_head_and_tail_are_kept_however_the_bytes_arrive(chunks: list[bytes], half: int) -> None:
    data = b"".join(chunks).translate(
        bytes(index & 0x7F for index in range(256))
    )  # ASCII: cuts fall between characters
    whole = fill([data[at : at + 7] for at in range(0, len(data), 7)], 2 * half)
    assert whole.total == len(data)
    assert whole.omitted == max(0, len(data) - 2 * half)
    expected = data if len(data) <= 2 * half else data[:half] + data[len(data) - half :]
    assert whole.text() == expected.decode()


@given(st.text(), st.integers(1, 12))
def test_a_cut_never_falls_within_a_character(text: str, half: int) -> None:
    data = text.encode("utf-8", "replace")
    kept = fill([data], 2 * half).text()
    if len(data) <= 2 * half:
        assert kept == data.decode()
        return
    head, tail = data[:half].decode("utf-8", "ignore"), data[-half:].decode("utf-8", "ignore")
    assert kept == head + tail


@given(st.text(), st.data())
def test_windows_taken_at_any_moment_join_to_the_whole(text: str, data: st.DataObject) -> None:
    encoded = text.encode("utf-8", "replace")
    window, pieces, at = CappedOutput(), [], 0
    while at < len(encoded):
        step = data.draw(st.integers(1, 5))
        window.append(encoded[at : at + step])
        at += step
        rest = window.take_incomplete()
        pieces.append(window.text())
        window = CappedOutput()
        window.append(rest)
    assert "".join([*pieces, window.text()]) == encoded.decode()


@pytest.mark.parametrize(
    ("data", "cut"),
    [
        (b"", 0),
        (b"abc", 3),
        ("aé".encode(), 3),
        ("aé".encode()[:2], 1),
        ("a€".encode()[:3], 1),
        ("a😀".encode()[:4], 1),
        ("a😀".encode(), 5),
        (b"a\xff", 2),
        (b"a\x80\x80\x80\x80", 5),
    ],
)
def test_only_a_character_that_can_still_become_whole_is_held_back(data: bytes, cut: int) -> None:
    assert split_incomplete(data) == cut


def test_the_gap_is_marked_on_demand() -> None:
    output = fill([b"abcdefghij"], 4)
    assert (output.text(), output.marked_text()) == ("abij", "ab\n... 6 bytes omitted ...\nij")


def test_undecodable_bytes_become_replacement_characters() -> None:
    assert fill([b"\xff\xfebad\x00utf8 \xc3", b"\xa9"], 100).text() == "\ufffd\ufffdbad\0utf8 é"


@pytest.mark.parametrize(("size", "cap"), [(65_536, 1 << 20), (1, 1 << 12)])
def test_memory_is_bounded_for_any_amount_of_output(size: int, cap: int) -> None:
    output, chunk = CappedOutput(cap), b"x" * size
    rounds = 32 * cap // size
    tracemalloc.start()
    try:
        for _ in range(rounds):
            output.append(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert output.total == 32 * cap
    assert peak < 3 * cap + 4096


@given(count=st.integers(1, 400), size=st.integers(1, 30), half=st.integers(20, 300), step=st.integers(1, 50))
def test_no_word_is_cut_at_the_gap_if_words_are_kept_whole(count: int, size: int, half: int, step: int) -> None:
    word = b"S" * size
    kept = CappedOutput(2 * half, whole_words=True)
    data = b" ".join([word] * count) + b"\n"
    for start in range(0, len(data), step):
        kept.append(data[start : start + step])
    assert set(kept.text().split()) <= {word.decode()}
    assert set(kept.marked_text().split()) - set(f"... {kept.omitted} bytes omitted ...".split()) <= {word.decode()}


def test_a_word_without_end_is_cut_in_the_end() -> None:
    kept = CappedOutput(20_000, whole_words=True)
    kept.append(b"x" * 50_000)
    assert kept.text() == "x" * (20_000 - 2 * 4096)
