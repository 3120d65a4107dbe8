"""The programs and scripts that the commands of hooks name, so that commands of the model cannot change them.

A hook's hash covers its command, not the files that the command runs. These are found without running anything: the words of the
command that a shell would run, and the first file after an interpreter. Whatever else a script reads stays its author's concern.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping

from codex_framework import Value

__all__ = ["Scripts", "scripts"]

_PROJECT = "CLAUDE_PROJECT_DIR"
_ROOT_OF_PROJECT = re.compile(r"\$\(git rev-parse --show-toplevel\)|`git rev-parse --show-toplevel`")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?[-=][^}]*)?\})")
_UNKNOWN = re.compile(r"[$`*?\[]")
"""What remains in a word whose value only a shell can know."""

_END = frozenset(";&|()\n{}")
_REDIRECTION = frozenset("<>")
_ASSIGNMENT = re.compile(r"\w+\+?=")
_KEYWORDS = frozenset(
    ("if", "then", "else", "elif", "do", "while", "until", "!", "time", "{", "exec", "command", "builtin")
)
_SHELLS = re.compile(r"(?:ba|da|z|k|fi)?sh|source|\.")
_INTERPRETERS = re.compile(
    r"(?:ba|da|z|k|fi)?sh|source|\.|(?:python|pypy|perl|ruby|php|lua|node)[\d.]*|bun|deno|tsx|ts-node|Rscript|pwsh|awk"
)
_WRAPPERS = frozenset(
    ("env", "timeout", "nice", "nohup", "sudo", "xargs", "uv", "uvx", "poetry", "pdm", "npx", "setsid", "stdbuf")
)
_SUBCOMMANDS = frozenset(("run", "exec", "tool"))
_CODE_OPTIONS = frozenset(("-c", "-e", "--eval", "-lc", "-ic", "-m", "-p", "--print"))
_NUMBER = re.compile(r"[\d.]+[smhd]?")
_SUFFIX = re.compile(r"\.[A-Za-z]\w*")


class Scripts(Value, kw_only=True):
    """What a command runs.

    Attributes:
        paths: Absolute paths, and paths that are relative to the working folder or the project.
        unknown: Words that cannot be understood without running the command.
    """

    paths: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def scripts(command: str, environ: Mapping[str, str]) -> Scripts:
    """Return the programs and scripts that a command names.

    Args:
        environ: The variables, for ``~``, ``$NAME`` and ``PATH``.
    """
    reader = _Reader(environ)
    reader.read(command)
    return Scripts(paths=tuple(reader.paths), unknown=tuple(reader.unknown))


class _Reader:
    """Reads commands word by word."""

    def __init__(self, environ: Mapping[str, str], depth: int = 0) -> None:
        self._environ = environ
        self._depth = depth
        self._base = ""
        self.paths: dict[str, None] = {}
        self.unknown: dict[str, None] = {}

    def read(self, command: str) -> None:
        """Take note of what a command runs."""
        for words in _simple_commands(_ROOT_OF_PROJECT.sub(f"${_PROJECT}", command)):
            self._command(words)

    def _command(self, words: list[str]) -> None:
        while words and (_ASSIGNMENT.match(words[0]) or words[0] in _KEYWORDS):
            if "`" in words[0]:
                self.unknown[words[0]] = None
            words = words[1:]
        if not words:
            return
        if words[0] == "cd":
            self._change(words[1:])
            return
        program = self._program(words[0])
        rest = words[1:]
        while rest and program:
            word, rest = rest[0], rest[1:]
            if word in _CODE_OPTIONS:
                self._code(program, word, rest)
                return
            if word.startswith("-") or _ASSIGNMENT.match(word):
                continue
            if program in _WRAPPERS:
                if word not in _SUBCOMMANDS and not _NUMBER.fullmatch(word):
                    program = self._program(word, wrapped=True)
            elif _INTERPRETERS.fullmatch(program):
                self._add(word)
                return
            else:
                return

    def _change(self, words: list[str]) -> None:
        """Follow ``cd``, for relative paths after it."""
        folder = self._expanded(words[0]) if words else self._environ.get("HOME", "")
        if folder is not None:
            self._base = os.path.join(self._base, folder)  # noqa: PTH118

    def _program(self, word: str, *, wrapped: bool = False) -> str:
        """Take note of the program that a word names, and return its name."""
        if "/" in word or (not wrapped and _UNKNOWN.search(word)) or (wrapped and _SUFFIX.search(word)):
            path = self._add(word)
            return os.path.basename(path or "")  # noqa: PTH119
        found = shutil.which(word, path=self._environ.get("PATH", os.defpath))
        if found is not None:
            self.paths[found] = None
        return word

    def _code(self, program: str, option: str, rest: list[str]) -> None:
        """Read the code of ``sh -c CODE``. Modules and other code are unknown."""
        if option == "-m" or not rest:
            self.unknown[" ".join((program, option, *rest[:1]))] = None
        elif _SHELLS.fullmatch(program) and self._depth < 3:
            inner = _Reader(self._environ, self._depth + 1)
            inner._base = self._base
            inner.read(rest[0])
            self.paths |= inner.paths
            self.unknown |= inner.unknown

    def _add(self, word: str) -> str | None:
        """Take note of a file. None if its path cannot be known."""
        path = self._expanded(word)
        if path is None:
            self.unknown[word] = None
            return None
        joined = os.path.normpath(os.path.join(self._base, path))  # noqa: PTH118
        if os.path.basename(joined) in ("", ".", ".."):  # noqa: PTH119  # the workspace, or a folder around it
            self.unknown[word] = None
            return None
        self.paths[joined] = None
        return path

    def _expanded(self, word: str) -> str | None:
        """Return a word with its variables filled in; what is below the project is relative, or None if it is unknown."""
        if word == "~" or word.startswith("~/"):
            home = self._environ.get("HOME", "")
            word = home + word[1:] if home else f"${word}"
        relative = False

        def value(match: re.Match[str]) -> str:
            nonlocal relative
            name = match[1] or match[2]
            if name in (_PROJECT, "PWD") and match.start() == 0:
                relative = True
                return ""
            return self._environ.get(name, match[0])

        word = _VARIABLE.sub(value, word)
        if _UNKNOWN.search(word) or "\0" in word:
            return None
        return word.lstrip("/") if relative else word


def _simple_commands(command: str) -> Iterator[list[str]]:
    """Yield the words of the simple commands of a command, without redirections."""
    words: list[str] = []
    skip = False
    for word in _words(command):
        if word and not set(word) - (_END | _REDIRECTION):
            skip = not _REDIRECTION.isdisjoint(word)
            if not skip and words:
                yield words
                words = []
        elif skip:
            skip = False
        else:
            words.append(word)
    if words:
        yield words


def _words(command: str) -> Iterable[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed, as in a comment
        split = re.sub(r"([;&|()<>\n])", r" \1 ", command.replace('"', " ").replace("'", " "))
        return [word for word in re.split(r"[ \t\r]+", split) if word]
