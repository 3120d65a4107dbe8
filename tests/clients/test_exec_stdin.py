from __future__ import annotations

import os
import pty
import subprocess
from typing import Any

import pytest

from codex_framework.testing.replies import say


def prompt_of(request: Any) -> str:
    return str(request.json["input"][-1]["content"][-1]["text"])


def test_stdin_is_the_prompt_where_there_is_no_other(cli: Any) -> None:
    server = cli.serve(say("ok"))
    ran = cli.exec(stdin="grüß\n".encode())
    assert (ran.status, ran.out) == (0, "ok\n")
    assert prompt_of(server.requests[0]) == "grüß\n"
    assert "Reading prompt from stdin..." in ran.err


def test_a_dash_reads_stdin_too(cli: Any) -> None:
    server = cli.serve(say("ok"))
    assert cli.exec("-", stdin=b"from stdin").status == 0
    assert prompt_of(server.requests[0]) == "from stdin"


@pytest.mark.parametrize(("piped", "block"), [(b"data", "data\n"), (b"data\n", "data\n")])
def test_stdin_beside_a_prompt_follows_it_as_a_block(cli: Any, piped: bytes, block: str) -> None:
    server = cli.serve(say("ok"))
    ran = cli.exec("sum up", stdin=piped)
    assert prompt_of(server.requests[0]) == f"sum up\n\n<stdin>\n{block}</stdin>"
    assert "Reading additional input from stdin..." in ran.err


def test_empty_stdin_beside_a_prompt_adds_nothing(cli: Any) -> None:
    server = cli.serve(say("ok"))
    assert cli.exec("sum up", stdin=b" \n").status == 0
    assert prompt_of(server.requests[0]) == "sum up"


@pytest.mark.parametrize("argv", [(), ("-",)])
def test_empty_stdin_alone_is_an_error(cli: Any, argv: tuple[str, ...]) -> None:
    ran = cli.exec(*argv, stdin=b"  \n")
    assert ran.status == 1
    assert "No prompt provided via stdin." in ran.err


def test_a_terminal_without_a_prompt_is_an_error(cli: Any) -> None:
    master, slave = pty.openpty()
    try:
        process = cli.start("exec", stdin=slave)
        _, err = process.communicate(timeout=30)
    finally:
        os.close(master)
        os.close(slave)
    assert process.returncode == 1
    assert "No prompt provided. Either specify one as an argument or pipe the prompt into stdin." in err.decode()


def test_closed_stdin_beside_a_prompt_is_no_matter(cli: Any) -> None:
    cli.serve(say("ok"))
    process = cli.start("exec", "hi", stdin=None, preexec_fn=lambda: os.close(0))
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b"ok\n"), err


def test_stdin_that_is_no_text_is_refused(cli: Any) -> None:
    ran = cli.exec(stdin=b"abc \xff\xfe")
    assert ran.status == 1
    assert "Error: stdin is not valid UTF-8 (byte 4)" in ran.err


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_marked_encodings_are_read(cli: Any, encoding: str) -> None:
    server = cli.serve(say("ok"))
    assert cli.exec(stdin="grüß".encode(encoding)).status == 0
    assert prompt_of(server.requests[0]) == "grüß"


def test_a_long_prompt_comes_whole(cli: Any) -> None:
    server = cli.serve(say("ok"))
    text = "word " * 200_000
    assert cli.exec(stdin=text.encode()).status == 0
    assert prompt_of(server.requests[0]) == text


def test_a_prompt_beyond_the_limit_is_refused_with_the_limit(cli: Any) -> None:
    cli.serve(say("ok"))
    ran = cli.exec(stdin=b"a" * ((1 << 20) + 1))
    assert ran.status == 1
    assert "the input has 1048577 characters; at most 1048576 are accepted" in ran.err
    assert "aaaa" not in ran.err, "what is refused is not printed back"


def test_a_stdin_that_stays_open_is_told_once(cli: Any) -> None:
    """Of several runs at once, because each of them waits for some seconds before it says so."""
    runs = [(("sum up",), b""), (("sum up",), b"data"), ((), b"data"), (("-",), b"data"), (("--json", "hi"), b"")]
    server = cli.serve(say("ok"), repeat_last=True)
    processes = [cli.start("exec", *argv, stdin=subprocess.PIPE) for argv, _ in runs]
    for process, (_, piped) in zip(processes, runs, strict=True):
        process.stdin.write(piped)
        process.stdin.flush()
    for process in processes:
        told = b""
        while b"/dev/null" not in told:
            line = process.stderr.readline()
            assert line
            told += line
    assert server.requests == []
    for process in processes:
        _, rest = process.communicate(timeout=60)
        assert (process.returncode, b"/dev/null" in rest) == (0, False)


def test_a_prompt_that_comes_in_time_is_not_commented(cli: Any) -> None:
    cli.serve(say("ok"))
    assert "/dev/null" not in cli.exec("sum up", stdin=b"data").err
