"""The programs and scripts that the commands of hooks name, so that commands of the model cannot change them.

A hook's hash covers its command, not the files that the command runs. These are found without running anything: the words of
the command that a shell would run, the first file after an interpreter, and files whose content reaches one through a pipeline.
Protecting other files that a script reads is up to its author.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from codex_framework import Value

__all__ = ["Scripts", "scripts"]

_PROJECT = "CLAUDE_PROJECT_DIR"
_ROOT_OF_PROJECT = re.compile(r"\$\(git rev-parse --show-toplevel\)|`git rev-parse --show-toplevel`")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?[-=][^}]*)?\})")
_UNKNOWN = re.compile(r"[$`*?\[]")
"""The placeholder in a word for a value that only a shell can compute."""

_OPERATOR = re.compile(r"<<<|<<-?|<>|<&|<\(|>\(|&?>>|&>|>&|>\||[<>]|\|\||&&|\|&|;;|[;&|()\n]")
_ASSIGNMENT = re.compile(r"\w+\+?=")
_FILE_VARIABLE = re.compile(r"(?:BASH_ENV|ENV|PYTHONSTARTUP)=(.+)", re.DOTALL)
_OPENING = frozenset(("if", "while", "until", "for", "select", "case", "{"))
_CLOSING = frozenset(("fi", "done", "esac", "}"))
_BETWEEN = frozenset(("then", "else", "elif", "do"))
_PREFIXES = frozenset(("!", "time", "exec", "command", "builtin"))
_WITH_OPTION = (("time", "-p"), ("exec", "-c"), ("exec", "-l"), ("command", "-p"))
_SHELLS = re.compile(r"(?:ba|da|z|k|fi)?sh|source|\.")
_INTERPRETERS = re.compile(
    r"(?:ba|da|z|k|fi)?sh|source|\.|(?:python|pypy|perl|ruby|php|lua|node)[\d.]*|bun|deno|tsx|ts-node|Rscript|pwsh|awk"
)
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_WRAPPERS = frozenset(
    (
        *("env", "timeout", "nice", "nohup", "sudo", "xargs", "uv", "uvx", "poetry", "pdm", "npx", "setsid", "stdbuf"),
        *("parallel", "bunx", "busybox", "caffeinate", "chronic", "chrt", "conda", "doas", "eatmydata", "fakeroot"),
        *("hatch", "ionice", "ltrace", "pipenv", "pkexec", "pnpx", "rye", "strace", "systemd-run", "taskset"),
        *("unbuffer", "valgrind", "xvfb-run"),
    )
)
_OF_OTHER_LANGUAGES = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".rb", ".pl", ".php", ".lua")
_SUBCOMMANDS = frozenset(("run", "exec", "tool"))
_CODE_OPTIONS = frozenset(("-c", "-e", "--eval", "-lc", "-ic", "-m", "-p", "--print"))
_CODE_OF_SHELL = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_FILE_OPTION = re.compile(r"-[A-Za-z]*f|--file|--makefile")
_ATTACHED_FILE = re.compile(r"(?:-[A-Za-z]*?f|--file=|--makefile=)(.+)", re.DOTALL)
_SET_OPTION = re.compile(r"[-+][A-Za-z]*[oO]")
_VALUE_OPTIONS = frozenset(
    ("-o", "-O", "+o", "+O", "-W", "-X", "-I", "-r", "--rcfile", "--init-file", "--require", "--import")
)
"""Options of interpreters that take the next word."""

_FILE_OPTIONS = frozenset(("-r", "--require", "--import", "--rcfile", "--init-file"))
"""Options followed by a file with code."""

_STDIN = frozenset(("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))
_READERS = frozenset(("cat", "head", "tail", "tac", "envsubst", "ls"))
"""Programs of which every argument is a file or folder."""

_TAKES_TEXT = frozenset(("sed", "awk", "gawk", "mawk", "grep", "egrep", "rg", "jq"))
"""Programs whose first argument is no file."""

_CODE_WITH_ARGUMENTS = re.compile(r"[{}$%@]")
_SUBSTITUTION = re.compile(r"\$\((.*)\)|`([^`]*)`", re.DOTALL)
_NUMBER = re.compile(r"[\d.]+[smhd]?")
_SUFFIX = re.compile(r"\.[A-Za-z]\w*")
_DEEPEST = 3
_MOST_POSSIBLE = 20


class Scripts(Value, kw_only=True):
    """The scripts of a command.

    Attributes:
        paths: Absolute paths, and paths that are relative to the working folder or the project.
        unknown: Words that cannot be understood without running the command.
        python: The paths among them that are scripts of Python.
        others: The paths among them that may be scripts of other languages, which load modules, too.
        working: Folders from which Python loads modules when it runs code without a script.
    """

    paths: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    working: tuple[str, ...] = ()


def scripts(command: str, environ: Mapping[str, str]) -> Scripts:
    """Return the programs and scripts that a command names.

    Args:
        environ: The variables, for ``~``, ``$NAME`` and ``PATH``.
    """
    reader = _Reader(environ)
    reader.read(command)
    return Scripts(**{name: tuple(found) for name, found in reader.found.items()})


class _Reader:
    """Reads commands word by word."""

    def __init__(self, environ: Mapping[str, str], depth: int = 0) -> None:
        self._environ = environ
        self._depth = depth
        self._base = ""
        self.found: dict[str, dict[str, None]] = {
            name: {} for name in ("paths", "unknown", "python", "others", "working")
        }

    def read(self, script: str, *, feeds: bool = False) -> None:
        """Record the programs that a script runs.

        Args:
            feeds: Whether a program runs the script's output.
        """
        for command in _Pipelines(_words(_ROOT_OF_PROJECT.sub(f"${_PROJECT}", script))).commands:
            self._command(command.words)
            feeding = feeds or command.feeds
            files = command.inputs if feeding or command.runs_input else []
            for file in (*files, *_code_files(command.words), *(_printed_files(command.words) if feeding else ())):
                self._add(file)
            for match in _SUBSTITUTION.finditer(" ".join(command.words)):
                self._inner(match[1] or match[2] or "", feeds=_runs_text(command.words))

    def _inner(self, script: str, *, feeds: bool = False) -> None:
        if self._depth < _DEEPEST:
            inner = _Reader(self._environ, self._depth + 1)
            inner._base = self._base
            inner.read(script, feeds=feeds)
            for name, found in inner.found.items():
                self.found[name] |= found

    def _command(self, words: Sequence[str]) -> None:
        for word in words:
            if not _ASSIGNMENT.match(word):
                break
            if "`" in word:
                self.found["unknown"][word] = None
            if variable := _FILE_VARIABLE.match(word):
                self._add(variable[1])
        for place, (word, *rest) in enumerate(_possible_commands(words)):
            if word == "cd" and not place:
                self._change(rest)
                return
            program = self._program(word, wrapped=place > 0)
            if _INTERPRETERS.fullmatch(program) and program != "awk":
                self._interpreter(program, rest)

    def _interpreter(self, program: str, arguments: Sequence[str]) -> None:
        for place, word in enumerate(arguments):
            before = arguments[place - 1] if place else ""
            if _is_code_option(program, word):
                self._code(program, word, arguments[place + 1 :])
                return
            if before in _FILE_OPTIONS and ("/" in word or _SUFFIX.search(word)):
                self._add(word)
            elif not word.startswith(("-", "+")) and not _takes_value(program, before) and word not in _SUBCOMMANDS:
                self._loads_modules(program, self._add(word) or "")
                return
        if _PYTHON.fullmatch(program):
            self.found["working"][self._base] = None

    def _change(self, words: Sequence[str]) -> None:
        """Follow ``cd``, for relative paths after it."""
        folder = self._expand(words[0]) if words else self._environ.get("HOME", "")
        if folder is not None:
            self._base = os.path.join(self._base, folder)  # noqa: PTH118

    def _program(self, word: str, *, wrapped: bool = False) -> str:
        """Take note of the program that a word names, and return its name."""
        if "/" in word or (not wrapped and _UNKNOWN.search(word)) or (wrapped and _SUFFIX.search(word)):
            path = self._add(word) or ""
            self._loads_modules("", path)
            return os.path.basename(path)  # noqa: PTH119
        found = shutil.which(word, path=self._environ.get("PATH", os.defpath))
        if found is not None:
            self.found["paths"][found] = None
        return word

    def _loads_modules(self, program: str, path: str) -> None:
        """Take note of a script that may load modules beside it."""
        place = os.path.normpath(os.path.join(self._base, path))  # noqa: PTH118
        if path and place in self.found["paths"]:
            suffix = os.path.splitext(path)[1]  # noqa: PTH122
            if _PYTHON.fullmatch(program) or suffix in (".py", ".pyw"):
                self.found["python"][place] = None
            elif not _SHELLS.fullmatch(program) if program else suffix in ("", *_OF_OTHER_LANGUAGES):
                self.found["others"][place] = None

    def _code(self, program: str, option: str, rest: Sequence[str]) -> None:
        """Read the code of ``sh -c CODE``. Modules and other code are unknown."""
        if _PYTHON.fullmatch(program):
            self.found["working"][self._base] = None
        if option == "-m" or not rest:
            self.found["unknown"][" ".join((program, option, *rest[:1]))] = None
        elif _SHELLS.fullmatch(program):
            self._inner(rest[0])

    def _add(self, word: str) -> str | None:
        """Take note of a file. None if its path cannot be known."""
        path = self._expand(word)
        if path is None:
            self.found["unknown"][word] = None
            return None
        joined = os.path.normpath(os.path.join(self._base, path))  # noqa: PTH118
        if os.path.basename(joined) in ("", ".", ".."):  # noqa: PTH119  # the workspace, or a folder around it
            self.found["unknown"][word] = None
            return None
        self.found["paths"][joined] = None
        return path

    def _expand(self, word: str) -> str | None:
        """Return a word with its variables expanded. Paths below the project are relative. None if it is unknown."""
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


class _Command:
    """A simple command.

    Attributes:
        inputs: The files that it reads as its input.
        runs_input: Whether it runs its input.
        feeds: Whether a program runs its output.
    """

    def __init__(self, words: list[str], inputs: list[str], *, runs_input: bool) -> None:
        self.words = words
        self.inputs = inputs
        self.runs_input = runs_input
        self.feeds = False


class _Group:
    """Commands between two words, such as ``(`` and ``)`` or ``while`` and ``done``.

    Attributes:
        is_head: Whether the following words are not commands: words of ``for NAME in ...`` and patterns of ``case``.
        feeds: Whether a program runs the output of all of them.
        stages: The commands of the current pipeline, before and after each ``|``.
    """

    def __init__(self, opener: str, *, feeds: bool = False) -> None:
        self.opener = opener
        self.is_head = opener in ("for", "select", "case")
        self.feeds = feeds
        self.commands: list[_Command] = []
        self.stages: list[list[_Command]] = [[]]


class _Pipelines:
    """Splits a script into simple commands, and finds in each pipeline the commands whose output is run."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self.commands: list[_Command] = []
        self._groups = [_Group("")]
        self._words: list[str] = []
        self._inputs: list[str] = []
        self._redirection = ""
        for token in tokens:
            if token and not set(token) - set(";&|()<>\n"):
                for operator in _OPERATOR.findall(token):
                    self._operator(operator)
            else:
                self._word(token)
        while len(self._groups) > 1:
            self._close()
        self._end_pipeline()

    def _word(self, word: str) -> None:
        if self._redirection:
            if self._redirection == "<":
                self._inputs.append(word)
            self._redirection = ""
        elif self._words:
            self._words.append(word)
        elif word in _CLOSING:
            self._close()
        elif word in _BETWEEN:
            self._end_pipeline()
            self._groups[-1].is_head = False
        elif word in _OPENING and not self._groups[-1].is_head:
            self._groups.append(_Group(word))
        else:
            self._words.append(word)

    def _operator(self, operator: str) -> None:
        group = self._groups[-1]
        if group.is_head:
            self._words = []
            group.is_head = operator != ")" if group.opener == "case" else operator not in (";", "\n")
        elif operator in ("<(", ">(", "("):
            self._open(operator)
        elif operator[0] in "<>" or operator in ("&>", "&>>"):
            if self._words and self._words[-1].isdigit():  # a descriptor, as in 2> FILE
                self._words.pop()
            self._redirection = operator
        elif operator in ("|", "|&"):
            self._end_command()
            group.stages.append([])
        elif operator == ")" and group.opener in ("(", "<(", ">("):
            self._close()
        else:
            self._end_pipeline()
            group.is_head = operator == ";;" and group.opener == "case"

    def _open(self, operator: str) -> None:
        """Begin a subshell, or a substitution whose output the command before it may run: ``source <(...)``, ``eval $(...)``."""
        words = self._words
        is_value = bool(words) and words[-1].endswith(("$", "="))
        feeds = _runs_input(words) if operator == "<(" else is_value and _runs_text(words)
        self._end_command()
        self._groups.append(_Group(operator, feeds=feeds))

    def _close(self) -> None:
        self._end_pipeline()
        if len(self._groups) > 1:
            group = self._groups.pop()
            for command in group.commands:
                command.feeds = command.feeds or group.feeds
            self._groups[-1].commands += group.commands
            self._groups[-1].stages[-1] += group.commands

    def _end_command(self) -> None:
        if self._words or self._inputs:
            group = self._groups[-1]
            stage = group.stages[-1]
            # A redirection alone is that of the group before it.
            runs_input = _runs_input(self._words) if self._words else _stage_runs_input(stage)
            command = _Command(self._words, self._inputs, runs_input=runs_input)
            for commands in (self.commands, group.commands, stage):
                commands.append(command)
        self._words, self._inputs, self._redirection = [], [], ""

    def _end_pipeline(self) -> None:
        self._end_command()
        group = self._groups[-1]
        for place, stage in enumerate(group.stages):
            if _stage_runs_input(stage):
                for command in (command for before in group.stages[:place] for command in before):
                    command.feeds = True
        group.stages = [[]]


def _stage_runs_input(stage: Sequence[_Command]) -> bool:
    """Return whether commands run their input, or the variables that ``read`` sets from it."""
    if any(command.runs_input for command in stage):
        return True
    programs = [next(_possible_commands(command.words), [""]) for command in stage]
    return any(program[0] == "read" for program in programs) and any(
        "$" in program[0] or program[0] == "eval" or _INTERPRETERS.fullmatch(program[0]) for program in programs
    )


def _possible_commands(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield a command without assignments, and the commands that it may be if its program runs another one, as ``env`` does.

    A word after an option may be its value or the command.
    """
    places = [0]
    for start in places:
        if len(places) > _MOST_POSSIBLE:
            return
        place = start
        while place < len(words) and (_ASSIGNMENT.match(words[place]) or words[place] in _PREFIXES):
            place += 1 + (tuple(words[place : place + 2]) in _WITH_OPTION)
        if place == len(words):
            continue
        yield words[place:]
        if os.path.basename(words[place]) not in _WRAPPERS:  # noqa: PTH119
            continue
        is_value = False
        for inner in range(place + 1, len(words)):
            word = words[inner]
            if word.startswith("-"):
                is_value = True
            elif _ASSIGNMENT.match(word) or _NUMBER.fullmatch(word) or word in _SUBCOMMANDS:
                is_value = False
            else:
                if inner not in places:
                    places.append(inner)
                if not is_value:
                    break
                is_value = False


def _runs_input(words: Sequence[str]) -> bool:
    """Return whether a command runs its input: an interpreter without a script, or one that gets it from ``xargs``."""
    from_input = False
    for program, *arguments in _possible_commands(words):
        name = os.path.basename(program)  # noqa: PTH119
        if name == "parallel" and not arguments:
            return True
        if from_input and not name.strip("{}%@_"):
            return True
        from_input = from_input or name in ("xargs", "parallel")
        if _INTERPRETERS.fullmatch(name) and name != "awk" and _reads_script(name, arguments, from_input=from_input):
            return True
    return False


def _reads_script(program: str, arguments: Sequence[str], *, from_input: bool) -> bool:
    for place, word in enumerate(arguments):
        if word in _STDIN or (word == "-s" and _SHELLS.fullmatch(program)):
            return True
        if _is_code_option(program, word):
            return from_input and any(map(_CODE_WITH_ARGUMENTS.search, arguments[place + 1 : place + 2]))
        is_value = place > 0 and _takes_value(program, arguments[place - 1])
        if not word.startswith(("-", "+")) and not is_value and word not in _SUBCOMMANDS:
            return from_input and not word.strip("{}%@_")
    return True


def _runs_text(words: Sequence[str]) -> bool:
    """Return whether a command runs some of its words as code: ``eval``, and ``sh -c``."""
    return any(
        program == "eval" or any(_is_code_option(os.path.basename(program), word) for word in arguments)  # noqa: PTH119
        for program, *arguments in _possible_commands(words)
        if program == "eval" or _INTERPRETERS.fullmatch(os.path.basename(program))  # noqa: PTH119
    )


def _takes_value(program: str, option: str) -> bool:
    return option in _VALUE_OPTIONS or bool(_SHELLS.fullmatch(program) and _SET_OPTION.fullmatch(option))


def _is_code_option(program: str, word: str) -> bool:
    return word in _CODE_OPTIONS if not _SHELLS.fullmatch(program) else bool(_CODE_OF_SHELL.fullmatch(word))


def _code_files(words: Sequence[str]) -> Iterator[str]:
    """Yield the files with code that a command names other than as its script."""
    for program, *arguments in _possible_commands(words):
        name = os.path.basename(program)  # noqa: PTH119
        if name in ("sed", "awk", "gawk", "mawk", "make", "gmake"):
            for place, word in enumerate(arguments):
                if _FILE_OPTION.fullmatch(word):
                    yield from arguments[place + 1 : place + 2]
                elif attached := _ATTACHED_FILE.fullmatch(word):
                    yield attached[1]
        elif name == "find":
            for place, word in enumerate(arguments):
                if word in ("-exec", "-execdir", "-ok", "-okdir"):
                    yield from (each for each in arguments[place + 2 :] if each not in ("{}", "+") and "/" in each)
                    if _runs_input(["xargs", *arguments[place + 1 :]]):
                        yield from _searched_folders(arguments)
        elif name == "run-parts":
            yield from (word for word in arguments if not word.startswith("-"))


def _printed_files(words: Sequence[str]) -> Iterator[str]:
    """Yield the files whose content or name a command may print."""
    for program, *arguments in _possible_commands(words):
        name = os.path.basename(program)  # noqa: PTH119
        files = [word for word in arguments if not word.startswith("-") and "://" not in word]
        if name == "find":
            yield from _searched_folders(arguments)
        elif name in _READERS:
            yield from (word for word in files if not _NUMBER.fullmatch(word))
        else:
            yield from (word for word in files[name in _TAKES_TEXT :] if "/" in word or _SUFFIX.search(word))


def _searched_folders(arguments: Sequence[str]) -> Iterator[str]:
    """Return the folders in which ``find`` searches."""
    return takewhile(lambda word: not word.startswith(("-", "(", "!")), arguments)


def _words(command: str) -> Iterable[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed, as in a comment
        split = re.sub(r"([;&|()<>\n])", r" \1 ", command.replace('"', " ").replace("'", " "))
        return [word for word in re.split(r"[ \t\r]+", split) if word]
