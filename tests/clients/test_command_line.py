from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.toolkit.command_line import command_line


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("", "''"),
        ("/bin/bash", "/bin/bash"),
        ("echo hi", "'echo hi'"),
        ('echo "it\'s"', '"echo \\"it\'s\\""'),
        ("it's $HOME", "\"it's \"'$HOME'"),
        ("a\\b c", '"a\\\\b c"'),
        ("grüß", "'grüß'"),
        ("^x", "'^x'"),
    ],
)
def test_arguments_are_shown_as_codex_shows_them(argument: str, shown: str) -> None:
    assert command_line([argument]) == shown


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_a_shell_reads_the_same_arguments(argv: list[str]) -> None:
    assert shlex.split(command_line(argv)) == argv
