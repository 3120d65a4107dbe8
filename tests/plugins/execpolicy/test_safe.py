"""Commands that only look."""

from __future__ import annotations

import pytest

from codex_plugin_execpolicy.safe import is_known_safe


@pytest.mark.parametrize(
    "command",
    [
        *(
            "cat a",
            "cd x",
            "cut -f1",
            "echo hi",
            "expr 1",
            "false",
            "grep -r x .",
            "head -3",
            "id",
            "ls -la",
            "nl",
            "paste",
            "pwd",
        ),
        *("rev", "seq 3", "stat x", "tail -f x", "tr a b", "true", "uname -a", "uniq", "wc -l", "which ls", "whoami"),
        *(
            "/usr/bin/ls",
            "/bin/cat x",
            "base64 x",
            "base64 -w0 x",
            "uniq -c a",
            "uniq -f 1 -s 2 a",
            "uniq -- a",
            "git -P --no-optional-locks status",
            "base64 -d x",
            "find . -name x -type f",
            "rg -n x src",
            "rg --files -g a",
        ),
        *("git status", "git log -p --oneline", "git diff HEAD", "git show HEAD:a", "git --no-pager log", "git branch"),
        *("git branch --list -a", "git branch --format=%s", "sed -n 1,5p x", "sed -n 3p"),
    ],
)
def test_a_command_that_only_looks_is_safe(command: str) -> None:
    assert is_known_safe(tuple(command.split()))


@pytest.mark.parametrize(
    "command",
    [
        *("rm x", "python3 -c 1", "./ls", "/tmp/ls", "bin/cat x", "LS", "make", "cargo check"),
        *("base64 -o x", "base64 -ox", "base64 --output x", "base64 --output=x", "base64 -do x", "base64 -Di x -o y"),
        *("uniq a b", "uniq - b", "uniq -c a b", "uniq -f 1 a b", "uniq -f1 a b", "uniq -- a b", "uniq a -- b"),
        *(
            "git --bare log",
            "git --no-pager --bare log",
            "git --html-path log",
            "git --list-cmds=main log",
            "git --attr-source=x log",
        ),
        *("find . -exec ls", "find . -execdir ls", "find . -ok ls", "find . -okdir ls", "find . -delete"),
        *("find . -fls x", "find . -fprint x", "find . -fprint0 x", "find . -fprintf x y"),
        *(
            "rg --pre x",
            "rg --pre=x",
            "rg --hostname-bin x",
            "rg --hostname-bin=x",
            "rg --search-zip",
            "rg -z x",
            "rg -nz x",
        ),
        *("git", "git push", "git commit -m x", "git -C x status", "git -Cx status", "git -c a=b log", "git -ca=b log"),
        *("git -p log", "git --paginate log", "git --git-dir=x log", "git --git-dir x log", "git --work-tree=x status"),
        *("git --exec-path=x log", "git --config-env=a=b log", "git --namespace=x log", "git --super-prefix=x log"),
        *("git log --output=x", "git log --output x", "git diff --ext-diff", "git show --textconv", "git log --exec=x"),
        *("git log --outp=x", "git branch new", "git branch -d x", "git branch -D x", "git branch --list -m"),
        *(
            "sed -i s/a/b/ x",
            "sed -n 1p x y",
            "sed 1p x",
            "sed -n s/a/b/p x",
            "sed -n 1p -fx",
            "sed -n 1,5d x",
            "sed -n",
        ),
    ],
)
def test_anything_else_is_not(command: str) -> None:
    assert not is_known_safe(tuple(command.split()))


def test_no_command_is_not_safe() -> None:
    assert not is_known_safe(())


@pytest.mark.parametrize(
    ("command", "safe"), [("cat *", True), ("ls ~/x", True), ("git log *", False), ("rg x *", False), ("uniq *", False)]
)
def test_where_names_of_files_become_words_only_programs_without_harmful_options_are_safe(
    command: str, safe: bool
) -> None:
    assert is_known_safe(tuple(command.split()), expands=True) is safe
