"""What the user agent says of the system."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_lib_model_client import headers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="os-release is a file of Linux")


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    headers._system.cache_clear()
    yield
    headers._system.cache_clear()


def test_it_is_what_the_standard_library_reads_too() -> None:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {"NAME": platform.system(), "VERSION_ID": platform.release()}
    name, version = release["NAME"].split(" ")[0], release.get("VERSION_ID", platform.release())
    assert headers._system() == f"({name} {version}; {platform.machine()})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('# a comment\nNAME="Fedora Linux"\nVERSION_ID=41\n', "Fedora 41"),
        ("NAME='Arch Linux'\n\nBROKEN\n", f"Arch {os.uname().release}"),
        ('NAME="A\\$B"\nVERSION_ID="1\\"2"\n', 'A$B 1"2'),
        ("ID=plain\nVERSION_ID=7\n", "Linux 7"),
        ("", f"Linux {os.uname().release}"),
    ],
)
def test_the_files_quotes_and_gaps_are_understood(
    text: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "os-release"
    file.write_text(text)
    monkeypatch.setattr(headers, "_OS_RELEASE", (tmp_path / "missing", file))
    assert headers._system() == f"({expected}; {os.uname().machine})"


def test_a_name_that_no_header_can_carry_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "os-release"
    file.write_text('NAME="Größe"\n')
    monkeypatch.setattr(headers, "_OS_RELEASE", (file,))
    assert headers._system() == "(unknown)"
