from __future__ import annotations

import platform
import sys

import pytest

from codex_framework.toolkit.model_server import headers


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has the file")
def test_the_system_is_what_python_says_it_is() -> None:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    name = release.get("NAME", platform.system()).split(" ")[0]
    version = release.get("VERSION_ID", platform.release())
    text = f"({name} {version}; {platform.machine()})"
    assert headers._system() == (text if text.isascii() else "(unknown)")


@pytest.mark.parametrize(
    ("written", "value"),
    [("12", "12"), ('"12"', "12"), ("'a b'", "a b"), ('"half', '"half'), (r'"a\"b\$"', 'a"b$'), ("", ""), ('"', '"')],
)
def test_a_quoted_value_loses_its_quotes(written: str, value: str) -> None:
    assert headers._unquoted(written) == value
