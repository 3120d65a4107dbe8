"""Recognition of git operations that change something.

A sandbox protects the repository. This gives the model a clear answer, and covers effects outside of the workspace, such as a
push. A command that hides what it runs is left to the sandbox.
"""

from __future__ import annotations

import re
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
    "remote": frozenset({"show", "get-url"}),
    "stash": frozenset({"list", "show"}),
    "submodule": frozenset({"status", "summary"}),
    "worktree": frozenset({"list"}),
}
"""Operations that change nothing if this is their first word."""

_READS_ALONE = frozenset({"branch", "notes", "reflog", "remote", "submodule", "tag"})
"""Operations that list something if they have no words."""

_SELECTS = frozenset("-l --list --contains --no-contains --merged --no-merged --points-at".split())  # noqa: SIM905
"""Options after which the words are patterns and commits. Without them, a word is the name of something new."""

_SHOWS = frozenset("-i --ignore-case --sort --format --color --no-color --column --no-column".split())  # noqa: SIM905
"""Options that only say how a list looks."""

_LISTS: Mapping[str, frozenset[str]] = {
    "branch": frozenset("-a --all -r --remotes -v -vv -av -avv --verbose --show-current".split()) | _SELECTS | _SHOWS,  # noqa: SIM905
    "remote": frozenset({"-v", "--verbose"}),
    "tag": frozenset({"-n"}) | _SELECTS | _SHOWS,
}
"""Options with which these operations list something, if they have no others."""

_WITH_VALUE = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix"})
"""Options of git itself that take a value."""

_ENDS = frozenset(";|&()\n")
_REDIRECTS = frozenset("<>&|")

_QUOTED = r"""\\.|'[^']*'|"(?:\\.|[^"\\])*["]"""
_TOKEN = re.compile(
    r"(?P<unseen>[^\S\n]+|#[^\n]*|\d+(?=[<>]))|(?P<operator>\n|[;|&()<>]+)"
    rf"""|(?P<word>(?:{_QUOTED}|[^\s;&|()<>'"\\])+)|(?P<open>.)""",
    re.DOTALL,
)
"""A part of a script. ``unseen`` is a blank, a comment or the number of a descriptor. ``open`` is a quotation mark without its end."""


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
    words: list[str] = []
    is_file = False
    for token in _TOKEN.finditer(command.script.replace("\\\n", "")):
        match token.lastgroup:
            case "word" if is_file:
                is_file = False
            case "word":
                words.append(_unquote_word(token[0]).strip("$`{}\"'"))
            case "operator" if set(token[0]) <= _ENDS:
                yield words
                words, is_file = [], False
            case "operator":
                is_file = set(token[0]) <= _REDIRECTS
            case "open":  # an error of the shell, or one in a heredoc, which is left to the sandbox
                return
    yield words


def _unquote_word(word: str) -> str:
    """Return a word as the shell passes it on."""
    return re.sub(_QUOTED, _content, word, flags=re.DOTALL)


def _content(quoted: re.Match[str]) -> str:
    text = quoted[0]
    match text[0]:
        case "\\":
            return text[1:]
        case "'":
            return text[1:-1]
        case _:
            return re.sub(r'\\(["\\])', r"\1", text[1:-1])


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
    options = {word.partition("=")[0] for word in rest if word.startswith("-")}
    if options and operation in _LISTS and options <= _LISTS[operation]:
        return all(word.startswith("-") for word in rest) or not options.isdisjoint(_SELECTS)
    return rest[0] in _READS_WITH.get(operation, ())
