"""Nothing runs that was not judged: scripts that are taken apart are run by bash, and exactly the commands found are run.

The bash has no builtins and an empty ``PATH``; whatever it wants to run is written down instead. No text here has a slash in it,
so that no real program can be named.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codex_lib_shell_script.parsing import shell_commands, shell_script
from codex_plugin_execpolicy.judgement import Line

BASH = shutil.which("bash")

_RECORD = """\
exec 3>>"$LOG"
FUNCNEST=20
command_not_found_handle() { printf '%s\\0' "$#" "$@" >&3; ((ANSWER == 0)); }
for name in $(compgen -b); do case $name in printf | enable) ;; *) enable -n "$name" ;; esac; done
enable -n enable
"""
"""Read by bash before the script. Writes down each command: the number of its words, and the words."""

_TOKENS = [
    *" \n\t;&|<>(){}[]$`\"'\\#!*?~=-+,:@%^.",
    *("&&", "||", ";;", "|&", "<<", "<<-", "<<<", "$(", "${", "$((", "$'", '$"', ">&", "2>", "((", "[[", "]]"),
    *(
        "if ",
        "then ",
        "fi",
        "for ",
        "in ",
        "do ",
        "done",
        "while ",
        "case ",
        "esac",
        "function ",
        "time ",
        "coproc ",
        "select ",
    ),
    *("export ", "declare ", "local ", "unset ", "alias ", "exec ", "eval ", "command ", "source ", "let ", "test "),
    *(
        "ls",
        "rm -rf x",
        "sudo ",
        "git log",
        "EOF",
        "\nEOF\n",
        "a=b",
        "x",
        "-",
        "--",
        "1",
        "2 ",
        "é",
        "日",
        "\u00a0",
        "\u2028",
    ),
    *("\r", "\x0b", "\x0c", "\\\n", "\\\\", "\\'", '\\"', "''", '""', "\x7f", "\x01", "{}", "{a,b}", "{1..3}", "~root"),
]
_SEEDS = [
    "ls -l; git log | head -3 && rm -rf x",
    "cat <<'EOF' -n\ntext\nEOF",
    "rg -g\"*.py\" 'a b' c'd'\"e\" \\*.x",
    "a \\\n b && c\nd ; e || f | g",
    'find . -name \\*.py -o -name "a b" \\; ',
    "x '' \"\" - -- a=b c#d",
]


@st.composite
def _changed(draw: st.DrawFn) -> str:
    """A script that is simple, with some places changed: what comes of it is simple more often than what chance makes."""
    text = draw(st.sampled_from(_SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 3)))
        text = text[:start] + draw(st.sampled_from(_TOKENS) | st.characters(exclude_characters="/\0")) + text[end:]
    return text


_ANY = st.lists(st.sampled_from(_TOKENS) | st.characters(exclude_characters="/\0"), max_size=20).map("".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if BASH is None:
        pytest.skip("there is no bash here")
    made = tmp_path_factory.mktemp("bash")
    (made / "record").write_text(_RECORD)
    (made / "work").mkdir()
    return made


def is_there(group: int) -> bool:
    """Whether a process of this group has not ended."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def run_by_bash(
    script: str, folder: Path, *, answer: int, writes: bool = False, background: bool = False
) -> Counter[tuple[str, ...]]:
    """The commands that bash would run, if every one ended with this status; to the end of those in the background, if asked to."""
    log = folder / "log"
    log.write_bytes(b"")
    with subprocess.Popen(
        [os.fsencode(word) for word in (BASH or "bash", "-c", script)],
        cwd=folder / "work",
        env={
            "PATH": str(folder / "nowhere"),
            "HOME": str(folder / "nowhere"),
            "TMPDIR": str(folder),
            "LC_ALL": "C.UTF-8",
            "LOG": str(log),
            "ANSWER": str(answer),
            "BASH_ENV": str(folder / "record"),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            process.wait(60)
            end = time.monotonic() + 60
            while background and is_there(process.pid) and time.monotonic() < end:
                time.sleep(0.01)
        finally:
            with contextlib.suppress(ProcessLookupError):  # what it has left in the background
                os.killpg(process.pid, signal.SIGKILL)
    assert writes or list((folder / "work").iterdir()) == []  # nothing was redirected
    for made in (folder / "work").iterdir():
        made.unlink()
    words = os.fsdecode(log.read_bytes()).split("\0")[:-1]
    commands: Counter[tuple[str, ...]] = Counter()
    while words:
        count = int(words[0])
        commands[tuple(words[1 : 1 + count])] += 1
        words = words[1 + count :]
    return commands


@pytest.mark.slow
def test_everything_that_bash_runs_is_written_down(folder: Path) -> None:
    script = 'echo a; eval b && true | "c" d || exec e\ncd f; $(g h); i() { j; }; i; : &\nwait'
    ran = run_by_bash(script, folder, answer=0, background=True)
    wanted = ["echo a", "eval b", "true", "c d", "cd f", "g h", "j", ":", "wait"]
    assert ran == Counter(tuple(command.split()) for command in wanted)


@given(_changed() | _ANY)
@example("ls\n")
@example("cat <<'EOF'! -n\ntext\nEOF")
@example("ls \\\n-l")
@example("cat <<E\na\nE\n")
@example("a <<'E' b - c\n$(rm)\nE")
@example("a '' \"\" && b || c | d")
def test_what_bash_runs_is_what_was_judged(folder: Path, script: str) -> None:
    found = None if shell_script(("bash", "-c", script)) is None else shell_commands(script)
    if found is None or "~" in script:  # a tilde gives a path, which is run as it stands
        return
    judged = Counter(found.commands)
    runs = [run_by_bash(script, folder, answer=answer) for answer in (0, 1)]  # on to what follows && and ||
    assert all(ran <= judged for ran in runs), (runs, judged)
    if not any(command[0].startswith("%") for command in judged):  # bash goes on with a job then, and there is none
        assert set(runs[0]) | set(runs[1]) == set(judged)


@given(_changed() | _ANY | st.text() | st.binary(max_size=60).map(os.fsdecode))
def test_no_script_makes_it_fail(script: str) -> None:
    line = Line.read(("bash", "-lc", script))
    assert line.commands
    assert all(line.commands)


_AROUND = [
    *(
        "COMMAND",
        "for a in b; do COMMAND; done",
        "if x; then COMMAND; fi",
        "if COMMAND; then x; fi",
        "(COMMAND)",
        "{ COMMAND; }",
    ),
    *("x=$(COMMAND)", "A=1 COMMAND", "COMMAND > y", "COMMAND 2>&1", "! COMMAND", "! ! COMMAND", "f() { COMMAND; }; f"),
    *(
        "a | COMMAND",
        "COMMAND & x",
        "case x in x) COMMAND;; esac",
        "echo `COMMAND`",
        "[[ a ]] && COMMAND",
        "time COMMAND",
    ),
    *("time -p A=1 COMMAND", "coproc COMMAND", "cat <(COMMAND)", 'echo "$(COMMAND)"', "$(COMMAND)", "((1)) && COMMAND"),
    *(
        "export A=1; COMMAND",
        "echo ${x:-$(COMMAND)}",
        "cat <<E\n$(COMMAND)\nE",
        "x=(1 $(COMMAND))",
        "COMMAND # x",
        "a; COMMAND",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["git push", "g'i't push", "\\git push x", 'git "push"', "git \\\n push"])
def test_nothing_that_stands_around_a_command_hides_it(folder: Path, command: str) -> None:
    for around in _AROUND:
        script = around.replace("COMMAND", command)
        ran = run_by_bash(script, folder, answer=0, writes=True)
        line = Line.read(("bash", "-c", script))
        waited = not any(aside in around for aside in ("COMMAND &", "coproc", "<("))
        assert not waited or any(words[:2] == ("git", "push") for words in ran), script
        assert any(words[:2] == ("git", "push") for words in (*line.commands, *line.suspects)), script
