"""Recognition of git operations that change something.

A sandbox protects the repository. This gives the model a clear answer, and covers what is not a file of the workspace, such as a push.
A command that hides what it runs is left to the sandbox.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from codex_framework import CommandRequest

__all__ = ["changing_operation"]

_READS = frozenset(
    "annotate archive blame cat-file check-attr check-ignore check-mailmap cherry count-objects describe diff diff-files"  # noqa: SIM905
    " diff-index diff-tree for-each-ref fsck grep help log ls-files ls-remote ls-tree merge-base name-rev range-diff rev-list"
    " rev-parse shortlog show show-branch show-ref status var verify-commit verify-tag version whatchanged".split()
)
"""Operations that change nothing."""

_READS_WITH: Mapping[str, frozenset[str]] = {
    "bisect": frozenset({"log", "view", "visualize"}),
    "config": frozenset({"get", "list", "--get", "--get-all", "--get-regexp", "--list", "-l"}),
    "notes": frozenset({"list", "show"}),
    "reflog": frozenset({"show", "exists"}),
    "remote": frozenset({"-v", "--verbose", "show", "get-url"}),
    "stash": frozenset({"list", "show"}),
    "submodule": frozenset({"status", "summary"}),
    "worktree": frozenset({"list"}),
}
"""Operations that change nothing if this is their first word."""

_READS_ALONE = frozenset({"branch", "notes", "reflog", "remote", "submodule", "tag"})
"""Operations that list something if they have no words."""

_LISTS: Mapping[str, frozenset[str]] = {
    "branch": frozenset(
        {"--list", "-l", "-a", "--all", "-r", "--remotes", "-v", "-vv", "--verbose", "--show-current", "--no-color"}
    ),
    "tag": frozenset({"--list", "-l", "-n", "--no-color"}),
}
"""Options with which these operations list something."""

_WITH_VALUE = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix"})
"""Options of git itself with a value of their own."""

_ENDS = frozenset(";|&()\n")


def changing_operation(command: CommandRequest) -> str | None:
    """Return the first git operation of a command that changes something, such as ``git commit``. None if none is recognised."""
    for words in _commands(command):
        for place, word in enumerate(words):
            if word.rpartition("/")[2] == "git":
                operation, rest = _operation(words[place + 1 :])
                if operation and not _reads(operation, rest):
                    return f"git {operation}"[:80]
    return None


def _commands(command: CommandRequest) -> Iterator[Sequence[str]]:
    if command.script is None:
        yield command.argv
        return
    lexer = shlex.shlex(command.script.replace("\n", " ; "), posix=True, punctuation_chars=";|&()<>")
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for word in lexer:
            if word and set(word) <= _ENDS:
                yield words
                words = []
            else:
                words.append(word.strip("$`{}\"'"))
    except ValueError:  # an open quotation mark, which the shell reports too
        return
    yield words


def _operation(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _WITH_VALUE else 1
    return (words[at], words[at + 1 :]) if at < len(words) else ("", ())


def _reads(operation: str, rest: Sequence[str]) -> bool:
    if operation in _READS:
        return True
    if not rest:
        return operation in _READS_ALONE
    if operation in _LISTS:
        return any(word in _LISTS[operation] for word in rest)
    return rest[0] in _READS_WITH.get(operation, ())
