"""Commands that only look: they may run without asking even where nothing else may."""

from __future__ import annotations

import re
import sys

__all__ = ["is_known_safe", "program_name"]

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
        "uniq",
        "wc",
        "which",
        "whoami",
    ]
) | (frozenset({"numfmt", "tac"}) if sys.platform == "linux" else frozenset())

_FOLDERS = frozenset(
    {"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"}
)
"""Where a program named by its path is the one its name says. ``./ls`` can be anything."""

_FIND_ACTS = frozenset(["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf"])

_GIT_READS = frozenset({"status", "log", "diff", "show", "branch"})
_GIT_GLOBAL = ("--config-env", "--exec-path", "--git-dir", "--namespace", "--paginate", "--super-prefix", "--work-tree")
_GIT_ARGUMENTS = frozenset({"--output", "--ext-diff", "--textconv", "--exec"})
_GIT_BRANCH = frozenset(["--list", "-l", "--show-current", "-a", "--all", "-r", "--remotes", "-v", "-vv", "--verbose"])

_SED_RANGE = re.compile(r"[0-9]+(,[0-9]+)?p")


def program_name(word: str) -> str | None:
    """The name of a program, given by name or by its path in a folder of the system; None for other paths."""
    folder, slash, name = word.rpartition("/")
    return name if not slash or folder in _FOLDERS else None


def is_known_safe(command: tuple[str, ...], *, expands: bool = False) -> bool:
    """Whether a command only looks.

    Args:
        expands: The shell may put further words in place of some: then only programs count that are harmless with any.
    """
    program = program_name(command[0]) if command else None
    arguments = command[1:]
    if program in _ANY_ARGUMENTS:
        return True
    if expands:
        return False
    match program:
        case "base64":
            return not any(word.startswith(("-o", "--o")) for word in arguments)
        case "find":
            return _FIND_ACTS.isdisjoint(arguments)
        case "rg":
            return not any(_rg_runs(word) for word in arguments)
        case "git":
            return _git_reads(arguments)
        case "sed":
            return _sed_prints(arguments)
        case _:
            return False


def _rg_runs(word: str) -> bool:
    if word.startswith("--"):
        return word.split("=", 1)[0] in ("--pre", "--hostname-bin", "--search-zip")
    return word == "-z" or bool(re.fullmatch(r"-[A-Za-z.0]*z[A-Za-z.0]*", word))


def _sed_prints(arguments: tuple[str, ...]) -> bool:
    """``-n N,Mp [FILE]``."""
    if len(arguments) not in (2, 3) or arguments[0] != "-n" or not _SED_RANGE.fullmatch(arguments[1]):
        return False
    return not arguments[-1].startswith("-")


def _git_reads(arguments: tuple[str, ...]) -> bool:
    for place, word in enumerate(arguments):
        if not word.startswith("-"):
            return word in _GIT_READS and _git_arguments(word, arguments[place + 1 :])
        if word.startswith(("-C", "-c")) or word == "-p" or word.split("=", 1)[0] in _GIT_GLOBAL:
            return False
    return False


def _git_arguments(subcommand: str, arguments: tuple[str, ...]) -> bool:
    if any(_abbreviates(word, _GIT_ARGUMENTS) for word in arguments):
        return False
    if subcommand != "branch":
        return True
    return all(word in _GIT_BRANCH or word.startswith("--format=") for word in arguments)


def _abbreviates(word: str, options: frozenset[str]) -> bool:
    """Whether a word is one of the options, or one of the shorter forms of it that git takes as well."""
    name = word.split("=", 1)[0]
    return len(name) > len("--e") and any(option.startswith(name) for option in options)
