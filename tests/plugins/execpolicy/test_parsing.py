"""A script is taken apart only where its words are certain, and then they are those that bash sees."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codex_lib_shell_script.parsing import ShellCommands, _heredoc, _root, _simple, shell_commands, shell_script

BASH = shutil.which("bash") or "bash"


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("ls -la", [["ls", "-la"]]),
        ("  ls  ", [["ls"]]),
        ("ls\npwd;\n", [["ls"], ["pwd"]]),
        ("cd a && ls || pwd; head -3 x | wc", [["cd", "a"], ["ls"], ["pwd"], ["head", "-3", "x"], ["wc"]]),
        ("rg -g\"*.py\" 'a b' c'd'\"e\"", [["rg", "-g*.py", "a b", "cde"]]),
        ('echo "" \'\' " " "  a\n b"', [["echo", "", "", " ", "  a\n b"]]),
        (r"find . -name \*.py -o -name a\ b", [["find", ".", "-name", "*.py", "-o", "-name", "a b"]]),
        (r'rg "\d+" x', [["rg", r"\d+", "x"]]),
        ("git log --format=%s a=b", [["git", "log", "--format=%s", "a=b"]]),
        ("xargs -I{} echo {}", [["xargs", "-I{}", "echo", "{}"]]),
        ("ls \\\n  -l", [["ls", "-l"]]),
        ("echo é '日本'", [["echo", "é", "日本"]]),
        ("echo if then 12", [["echo", "if", "then", "12"]]),
    ],
)
def test_a_script_of_plain_words_gives_its_commands(script: str, commands: list[list[str]]) -> None:
    assert shell_commands(script) == ShellCommands(tuple(map(tuple, commands)))


@pytest.mark.parametrize("script", ["ls *.py", "cat ~/x", "rg a? src/[ab]", "git log =ls"])
def test_words_that_the_shell_replaces_by_names_of_files_are_told_of(script: str) -> None:
    assert shell_commands(script) == ShellCommands((tuple(script.split()),), expands=True)


@pytest.mark.parametrize(
    "script",
    [
        *(
            "",
            " ",
            "#",
            "ls # all",
            "ls &",
            "ls > x",
            "ls 2>&1",
            "cat < x",
            "cat <<< x",
            "(ls)",
            "{ ls; }",
            "! ls",
            "a |& b",
        ),
        *(
            "echo $HOME",
            'echo "$HOME"',
            "echo $(ls)",
            "echo `ls`",
            "echo $((1+1))",
            "echo $'a'",
            'echo $"a"',
            "ls <(ls)",
        ),
        *(
            "A=1",
            "A=1 ls",
            "export A=1",
            "unset A",
            "time ls",
            "coproc ls",
            "[ -f x ]",
            "[[ a ]]",
            "((1))",
            "echo {a,b}",
        ),
        *(
            "if ls; then ls; fi",
            "for a in b; do ls; done",
            "while ls; do ls; done",
            "case a in b) ls;; esac",
            "f() { ls; }",
        ),
        *(
            "ls &&",
            "| ls",
            "'ls",
            '"ls',
            "ls )",
            "echo {1..3}",
            r'echo "\$"',
            r'echo "a\"b"',
            "git lo\\\ng",
            "ls\r-l",
            "ls\x0b-l",
        ),
        *("ls\0-l", "ls\u00a0-l", "echo a\\", "then", "in", "{", "!", "exec 2>&1; ls"),
    ],
)
def test_everything_else_is_not_simple(script: str) -> None:
    assert shell_commands(script) is None


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("python3 - <<'EOF'\nimport os\nEOF", ["python3", "-"]),
        ("cat <<E\na\nE\n", ["cat"]),
        ("cat -n <<-E x\n\ta\n\tE", ["cat", "-n", "x"]),
        ('cat <<"E"\n$(ls) `ls` $HOME\nE', ["cat"]),
    ],
)
def test_of_a_command_with_a_heredoc_the_words_are_known(script: str, words: list[str]) -> None:
    assert shell_commands(script) == ShellCommands((tuple(words),), partial=True)


@pytest.mark.parametrize(
    "script",
    [
        "cat <<E | sh\nls\nE",
        "cat <<E\n$(ls)\nE",
        "cat <<E\n${x@P}\nE",
        "cat <<E\n`ls`\nE",
        "cat <<E; ls\na\nE",
        "cat <<E\\F\na\nEF",
        "cat <<'E'! -n\na\nE",
        "cat <<'E''F' -n\na\nE",
        "cat <<-'E'\n\tE\nrm x\nE",
        "cat <<E 2>&1\na\nE",
        "cat <<'E' <<'F'\na\nE\nb\nF",
        "cat <<E > x\na\nE",
        "cat <<E\na\nE\nls",
        "A=1 cat <<E\na\nE",
        "(cat <<E\na\nE\n)",
        "cat $X <<E\na\nE",
        "cat <<E &\na\nE",
    ],
)
def test_a_heredoc_with_anything_else_is_not_known(script: str) -> None:
    assert shell_commands(script) is None


@pytest.mark.parametrize(
    ("argv", "script"),
    [
        (("bash", "-lc", "ls"), "ls"),
        (("/usr/bin/zsh", "-c", "ls"), "ls"),
        (("sh", "-x", "ls"), None),
        (("bash", "-c", "-s"), None),
        (("bash", "-lc", "+x"), None),
        (("bash", "-lc", " -x"), " -x"),
        (("bash", "-lc", "ls", "x"), None),
        (("python3", "-c", "ls"), None),
        (("./bash", "-lc", "ls"), None),
        (("/tmp/bash", "-lc", "ls"), None),
        ((), None),
    ],
)
def test_the_script_of_a_shell_is_found(argv: tuple[str, ...], script: str | None) -> None:
    assert shell_script(argv) == script


_PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [*" \n\t;&|<>(){}[]$`\"'\\#!*?~=-+,:@%^/", "&&", "||", "<<", "$(", "${", "if ", "ls", "E\n", "é", "\r"]
        ),
        st.characters(),
    ),
    max_size=25,
).map("".join)


@given(_PIECES)
def test_no_text_makes_it_fail(script: str) -> None:
    found = shell_commands(script)
    assert found is None or all(found.commands)


_QUOTED = st.one_of(
    st.text('ab1-./=é:\\ \t*$"#;&|~{}[]?!\n', max_size=6).map(lambda text: "'" + text + "'"),
    st.text("ab1-./=é:\\ \t*'#;&|~{}[]?!n$\n", max_size=6).map(lambda text: '"' + text + '"'),
    st.text("ab1-./=:%@+,é", min_size=1, max_size=6),
    st.text("ab \\*'\"$;{}~#=\n-", max_size=4).map(lambda text: "".join("\\" + char for char in text)),
    st.text("ab1\\*'\"$;{}~#= \n-()<>&|!", max_size=5),
)
_SCRIPTS = st.lists(st.lists(_QUOTED, min_size=1, max_size=3).map("".join), min_size=1, max_size=4).map(" ".join)


def bash_commands(script: str, folder: Path) -> list[list[str]] | None:
    """What bash hands to ``show``, at each call of it; None if it finds a mistake in the script."""
    told = subprocess.run(
        [BASH, "--norc", "-c", "show() { printf '\\1'; for word; do printf '%s\\0' \"$word\"; done; }; " + script],
        capture_output=True,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        env={"PATH": "/nonexistent", "LC_ALL": "C.UTF-8"},
        check=False,
    )
    if told.returncode != 0:
        return None
    return [call.split("\0")[:-1] for call in told.stdout.decode().split("\1")[1:]]


@settings(max_examples=settings().max_examples * 3 // 4)
@given(st.lists(_SCRIPTS, min_size=1, max_size=3), st.sampled_from([";", " && ", "\n", ";\n", " &&\n"]))
def test_the_words_of_simple_commands_are_those_that_bash_sees(
    tmp_path_factory: pytest.TempPathFactory, arguments: list[str], between: str
) -> None:
    script = between.join(f"show {words}" for words in arguments)
    found = shell_commands(script)
    if found is None or found.expands or found.partial or any(command[0] != "show" for command in found.commands):
        return
    assert bash_commands(script, tmp_path_factory.getbasetemp()) == [list(command[1:]) for command in found.commands]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), max_size=8), min_size=1, max_size=5))
def test_quoted_words_come_back_as_they_were(words: list[str]) -> None:
    found = shell_commands(shlex.join(["x", *words]))
    assert found is None or found.commands == (("x", *words),)


@given(st.text("abif-./=:@%+, 12", max_size=20))
def test_splitting_at_spaces_gives_what_parsing_gives(script: str) -> None:
    root = _root(script)
    parsed = None if root.has_error else _simple(root, script) or _heredoc(root, script)
    assert parsed is None or shell_commands(script) == parsed
