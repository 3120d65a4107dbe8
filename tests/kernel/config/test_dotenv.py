from __future__ import annotations

import os

import pytest

from codex_framework.config.dotenv import load_dotenv
from codex_framework.contract.errors import ConfigError


def load(folder, text, **environ):
    (folder / ".env").write_text(text, encoding="utf-8")
    return load_dotenv(folder, environ)


def test_without_a_file_the_environment_stays_as_it_is(tmp_path):
    assert load_dotenv(tmp_path, {"A": "1"}) == {}
    assert load_dotenv(tmp_path / "nowhere", {"A": "1"}) == {}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("KEY=plain", "plain"),
        ("  export KEY = spaced out  ", "spaced out"),
        ("KEY=", ""),
        ("KEY=a # comment", "a"),
        ("KEY=a#b", "a#b"),
        ("KEY='single # $x \\n'", "single # $x \\n"),
        ('KEY="double # \\"x\\" \\n\\t\\\\" # comment', 'double # "x" \n\t\\'),
        ("KEY=a=b", "a=b"),
        ("KEY=a\"b\"'c'd", "abcd"),
        ("KEY='a' b # c", "a b"),
        ("KEY=a\\ b\\$FIRST", "a b$FIRST"),
        ("KEY=$FIRST.${FIRST}$NONE", "1.1"),
        ('KEY="$FIRST \\$FIRST"', "1 $FIRST"),
        ("KEY='$FIRST'", "$FIRST"),
        ("KEY=cash$", "cash$"),
        ('KEY="two\nlines"', "two\nlines"),
        ("KEY='two\n#lines'", "two\n#lines"),
        ("KEY=ü", "ü"),
    ],
)
def test_a_line_sets_a_variable(tmp_path, line, value):
    assert load(tmp_path, f"# comment\n\nFIRST=1\n{line}\nLAST=1") == {"FIRST": "1", "KEY": value, "LAST": "1"}


def test_the_file_counts_before_the_environment(tmp_path):
    assert load(tmp_path, "C=$A\nA=file\nB=$A", A="real") == {"C": "real", "A": "file", "B": "file"}


def test_the_lines_of_windows_have_no_carriage_return_in_their_values(tmp_path):
    (tmp_path / ".env").write_bytes(b"A=1\r\nB='2'\r\n")
    assert load_dotenv(tmp_path, {}) == {"A": "1", "B": "2"}


def test_variables_that_steer_the_program_are_left_out(tmp_path):
    assert load(tmp_path, "CODEX_HOME=/evil\ncodex_x=1\nOPENAI_API_KEY=k\n") == {"OPENAI_API_KEY": "k"}


@pytest.mark.parametrize("line", ["secret", "1A=x", "KEY='open", 'KEY="open', "KEY=a'b", "=x", "KEY=a\0b", "KEY=a\\"])
def test_any_other_line_is_an_error_that_does_not_repeat_it(tmp_path, line):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"A=1\n{line}\n")
    assert str(caught.value) == f"{tmp_path}/.env:2: this line is not NAME=value"
    assert caught.value.line == 2


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    (tmp_path / ".env").write_bytes(b"A=\xff\n")
    with pytest.raises(ConfigError, match=r"/\.env cannot be read: it is not UTF-8"):
        load_dotenv(tmp_path, {})
    (tmp_path / ".env").unlink()
    (tmp_path / ".env").mkdir()
    with pytest.raises(ConfigError, match=r"/\.env cannot be read: Is a directory"):
        load_dotenv(tmp_path, {})


def test_nothing_waits_for_a_pipe_in_place_of_the_file(tmp_path):
    os.mkfifo(tmp_path / ".env")
    with pytest.raises(ConfigError, match=r"/\.env cannot be read: it is not a regular file"):
        load_dotenv(tmp_path, {})
