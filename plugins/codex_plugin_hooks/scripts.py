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
_READERS = frozenset(("cat", "head", "tail", "tac", "sed", "awk", "envsubst", "echo", "printf", "ls", "find"))
"""Programs that hand on what files contain, or their names, to a program that runs it."""

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
        commands = list(_simple_commands(_ROOT_OF_PROJECT.sub(f"${_PROJECT}", command)))
        runs_input = any(map(_runs_input, commands))
        for given in commands:
            redirected = [place for place, word in enumerate(given) if word == "<"]
            words = [word for place, word in enumerate(given) if not {place, place - 1} & {*redirected}]
            self._command(words)
            files = [given[place + 1] for place in redirected if runs_input and place + 1 < len(given)]
            for file in files + _code_files(words, runs_input=runs_input):
                self._add(file)

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


def _runs_input(words: list[str]) -> bool:
    """Return whether a command runs what it reads: an interpreter without a script, or ``xargs``."""
    names = [os.path.basename(word) for word in words]  # noqa: PTH119
    if "xargs" in names or "parallel" in names:
        return True
    before = names[: names.index("<")] if "<" in names else names
    operands = [name for name in before if not name.startswith("-")]
    last = operands[-1:]
    return bool(last) and bool(_INTERPRETERS.fullmatch(last[0])) and last[0] != "awk" and not _CODE_OPTIONS & {*before}


def _code_files(words: list[str], *, runs_input: bool) -> list[str]:
    """Return the files with code that a command names otherwise than as its script."""
    if not words:
        return []
    name, rest = os.path.basename(words[0]), words[1:]  # noqa: PTH119
    if name in ("sed", "awk", "gawk", "mawk", "make"):
        found = [word for place, word in enumerate(rest) if rest[place - 1 : place] in (["-f"], ["--file"])]
        found += [word.partition("=")[2] for word in rest if word.startswith("--file=")]
    elif name == "find" and "-exec" in rest:
        found = [word for word in rest[rest.index("-exec") + 2 :] if word not in ("{}", "+") and "/" in word]
    elif name == "run-parts":
        found = [word for word in rest if not word.startswith("-")]
    else:
        found = []
    if runs_input and name in _READERS:
        found += [word for word in rest if "/" in word or _SUFFIX.search(word)]
    return found


def _simple_commands(command: str) -> Iterator[list[str]]:
    """Yield the words of the simple commands of a command, without redirections."""
    words: list[str] = []
    skip = False
    for word in _words(command):
        if word == "<":
            words.append(word)
        elif word and not set(word) - (_END | _REDIRECTION):
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
