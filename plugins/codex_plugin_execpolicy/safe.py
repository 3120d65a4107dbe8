"""Read-only commands, which may run without asking even if nothing else may."""

from __future__ import annotations

import re
import sys

from codex_framework.toolkit.programs import program_name

__all__ = ["GIT_GLOBAL", "is_known_safe"]

_ANY_ARGUMENTS = frozenset(
    [
        "cat",
        "cd",
        "cut",
        "echo",
        "expr",
        "false",
        "grep",
        "head",
        "id",
        "ls",
        "nl",
        "paste",
        "pwd",
        "rev",
        "seq",
        "stat",
        "tail",
        "tr",
        "true",
        "uname",
        "wc",
        "which",
        "whoami",
    ]
) | (frozenset({"numfmt", "tac"}) if sys.platform == "linux" else frozenset())

_FIND_ACTS = frozenset(["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf"])

_GIT_READS = frozenset({"status", "log", "diff", "show", "branch"})
GIT_GLOBAL = frozenset(
    [
        *("--no-pager", "-P", "--no-optional-locks", "--no-replace-objects", "--no-lazy-fetch", "--no-advice"),
        *("--literal-pathspecs", "--glob-pathspecs", "--noglob-pathspecs", "--icase-pathspecs"),
    ]
)
"""Options before the subcommand that change neither the repository nor its configuration, and start nothing."""

_GIT_ARGUMENTS = frozenset({"--output", "--ext-diff", "--textconv", "--exec"})
_GIT_BRANCH = frozenset(["--list", "-l", "--show-current", "-a", "--all", "-r", "--remotes", "-v", "-vv", "--verbose"])

_UNIQ_VALUES = frozenset(["-f", "-s", "-w", "--skip-fields", "--skip-chars", "--check-chars"])
"""Options of ``uniq`` that take the next word."""

_SED_RANGE = re.compile(r"[0-9]+(,[0-9]+)?p")


def is_known_safe(command: tuple[str, ...], *, expands: bool = False) -> bool:
    """Return whether a command is read-only.

    Args:
        expands: Whether the shell may replace some words by others. Then only programs without harmful options count.
    """
    program = program_name(command[0]) if command else None
    arguments = command[1:]
    if program in _ANY_ARGUMENTS:
        return True
    if expands:
        return False
    match program:
        case "base64":
            return not any(_base64_writes(word) for word in arguments)
        case "find":
            return _FIND_ACTS.isdisjoint(arguments)
        case "rg":
            return not any(_rg_runs(word) for word in arguments)
        case "git":
            return _git_reads(arguments)
        case "uniq":
            return _uniq_reads(arguments)
        case "sed":
            return _sed_prints(arguments)
        case _:
            return False


def _base64_writes(word: str) -> bool:
    """Return whether a word is ``-o FILE`` or ``--output`` (macOS), also after other letters: ``-do FILE``."""
    return word.startswith("--o") or (word.startswith("-") and not word.startswith("--") and "o" in word)


def _uniq_reads(arguments: tuple[str, ...]) -> bool:
    """Return whether ``uniq`` only reads. ``uniq INPUT OUTPUT`` writes its second operand."""
    operands, place = 0, 0
    while place < len(arguments):
        word = arguments[place]
        if word == "--":
            return operands + len(arguments) - place - 1 < 2
        if not word.startswith("-") or word == "-":
            operands += 1
        place += 2 if word in _UNIQ_VALUES else 1
    return operands < 2


def _rg_runs(word: str) -> bool:
    if word.startswith("--"):
        return word.split("=", 1)[0] in ("--pre", "--hostname-bin", "--search-zip")
    return word == "-z" or bool(re.fullmatch(r"-[A-Za-z.0]*z[A-Za-z.0]*", word))


def _sed_prints(arguments: tuple[str, ...]) -> bool:
    """Return whether the arguments are ``-n N,Mp [FILE]``."""
    if len(arguments) not in (2, 3) or arguments[0] != "-n" or not _SED_RANGE.fullmatch(arguments[1]):
        return False
    return not arguments[-1].startswith("-")


def _git_reads(arguments: tuple[str, ...]) -> bool:
    for place, word in enumerate(arguments):
        if not word.startswith("-"):
            return word in _GIT_READS and _git_arguments(word, arguments[place + 1 :])
        if word not in GIT_GLOBAL:
            return False
    return False


def _git_arguments(subcommand: str, arguments: tuple[str, ...]) -> bool:
    if any(_abbreviates(word, _GIT_ARGUMENTS) for word in arguments):
        return False
    if subcommand != "branch":
        return True
    return all(word in _GIT_BRANCH or word.startswith("--format=") for word in arguments)


def _abbreviates(word: str, options: frozenset[str]) -> bool:
    """Return whether a word is one of the options, or an abbreviation that git accepts."""
    name = word.split("=", 1)[0]
    return len(name) > len("--e") and any(option.startswith(name) for option in options)
