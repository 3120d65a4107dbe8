"""Commands that run another command which their own arguments contain."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import dropwhile, pairwise

from codex_framework.toolkit.programs import is_shell
from codex_lib_shell_script.parsing import words_of_all_commands

__all__ = [
    "ANY_PROGRAM",
    "WRAPPERS",
    "Search",
    "TooManyCommandsError",
    "is_interpreter",
    "name_of",
    "place_of_subcommand",
    "possible_commands",
]

_NO_OPERANDS = (
    *(
        "builtin",
        "busybox",
        "bunx",
        "bwrap",
        "caffeinate",
        "chronic",
        "command",
        "dbus-run-session",
        "doas",
        "eatmydata",
    ),
    *("entr", "env", "exec", "fakeroot", "firejail", "i386", "ionice", "linux32", "linux64", "ltrace", "nice", "nohup"),
    *("npx", "nsenter", "numactl", "parallel", "pkexec", "pnpx", "prlimit", "proxychains", "run0", "setpriv", "setsid"),
    *("ssh-agent", "sshpass", "stdbuf", "strace", "sudo", "systemd-run", "time", "torsocks", "toybox", "unbuffer"),
    *("unshare", "uvx", "valgrind", "watch", "x86_64", "xargs", "xvfb-run"),
)
_ONE_OPERAND = (
    *("chroot", "chrt", "faketime", "flock", "gosu", "runuser", "setarch", "su-exec", "taskset", "timeout"),
)

WRAPPERS = {**dict.fromkeys(_NO_OPERANDS, 0), **dict.fromkeys(_ONE_OPERAND, 1)}
"""Programs that run the command in their arguments, with the number of operands before it."""

ANY_PROGRAM = frozenset(
    (
        *("xargs", "parallel", "find", "fd", "fdfind", "ssh", "scp", "sftp", "rsync", "su", "runuser", "watch", "eval"),
        *("source", ".", "expect", "gdb", "vi", "vim", "nvim", "ex", "view", "emacs", "ed", "screen", "tmux", "entr"),
        *("at", "batch", "crontab", "systemd-run", "run-parts", "socat", "nc", "ncat", "script", "m4", "dc"),
        *("start-stop-daemon", "flock", "unshare", "nsenter", "strace", "ltrace", "bwrap", "chroot", "fzf", "tar"),
    )
)
"""Programs that run any other program which some further argument (or their input) names."""

_INTERPRETER = re.compile(
    r"(python|pypy)[0-9.]*w?|pyw?|(ba|z|da|fi|k|c|tc|a)?sh|pwsh|powershell|cmd"
    r"|node|nodejs|deno|bun|tsx|perl[0-9.]*|ruby[0-9.]*|php[0-9.]*|lua(jit)?[0-9.]*|osascript|tclsh|wish|guile|Rscript|julia"
    r"|[gmn]?awk|original-awk",
    re.IGNORECASE,
)

_SEARCHES = frozenset(("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"))
_TEXTS = frozenset(("eval", "flock", "hyperfine", "parallel", "runuser", "script", "sg", "ssh", "su", "trap", "watch"))
"""Programs of which any argument may be a script."""

_VALUES_OF_GIT = frozenset(("-C", "-c", "--config-env", "--git-dir", "--namespace", "--super-prefix", "--work-tree"))
"""Options before git's subcommand that take the next word."""

_RUN_BY_GIT = frozenset((("bisect", "run"), ("submodule", "foreach")))
_SPLIT_BY_ENV = re.compile(r"-[A-Za-z0]*S(.*)", re.DOTALL)
_BLANK_OF_ENV = re.compile(r"\\[_tnrfv]")
_ASSIGNMENT = re.compile(r"\w+\+?=.*", re.DOTALL)
_AMOUNT = re.compile(r"(0x)?[\d.,]+[smhd]?")
_CODE = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_LETTERS = re.compile(r"-[A-Za-z]+")

_MOST_CHARACTERS = 1_000_000
"""Maximum total length of the commands within one command line."""

_COST_OF_PARSING = 4
"""A character of a script counts as this many, because it takes longer."""


class TooManyCommandsError(Exception):
    """A command line may run more commands than can be checked in a short time."""


def name_of(word: str) -> str:
    """Return the name of a program, without its folder and ``.exe``."""
    return word.rsplit("/", 1)[-1].removesuffix(".exe")


def is_interpreter(name: str) -> bool:
    """Return whether a program runs the script which its arguments contain or name."""
    return _INTERPRETER.fullmatch(name) is not None


def place_of_subcommand(words: tuple[str, ...]) -> int:
    """Return the place of the subcommand in a command of git, after the options that precede it."""
    place = 1
    while place < len(words) and words[place].startswith("-"):
        place += 2 if words[place] in _VALUES_OF_GIT else 1
    return place


def possible_commands(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the possible commands of a wrapper without options.

    They are the words after assignments and amounts (``A=b``, ``9``), and after operands.
    """
    operands, place = WRAPPERS[name_of(words[0])], 1
    while place < len(words) and (_ASSIGNMENT.fullmatch(words[place]) or _AMOUNT.fullmatch(words[place])):
        operands -= bool(_AMOUNT.fullmatch(words[place]))
        place += 1
    yield from (words[start:] for start in range(place, place + max(operands, 0) + 1))


class Search:
    """The search for commands within the commands of one command line. Its cost is limited."""

    def __init__(self) -> None:
        self._left = _MOST_CHARACTERS

    def within(self, *commands: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """Yield every command that some commands may run by their arguments, at any depth.

        The result may contain too many, but never too few, so it is only for rules that ask or forbid: a word after an option
        may be its value or the command, and both are yielded.

        Raises:
            TooManyCommandsError: The limit is reached.
        """
        waiting, known = list(commands), set(commands)
        while waiting:
            for inner in self._directly_within(waiting.pop()):
                self._spend(len(inner) + sum(map(len, inner)))
                if inner and inner not in known:
                    known.add(inner)
                    waiting.append(inner)
                    yield inner

    def _directly_within(self, command: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for found in _commands_and_scripts(command):
            if isinstance(found, str):
                self._spend(len(found) * _COST_OF_PARSING)
                yield from words_of_all_commands(found)
            else:
                yield found

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise TooManyCommandsError


def _commands_and_scripts(words: tuple[str, ...]) -> Iterator[str | tuple[str, ...]]:
    """Yield the commands and shell scripts that a command runs."""
    if not words:
        return
    name = name_of(words[0])
    if is_shell(name):
        yield from _of_shell(words)
    elif name == "git":
        yield from _of_git(words)
    elif name == "env":
        yield from _of_split_text(words)
    elif name == "eval":
        yield " ".join(words[1:])
    if name in _TEXTS:
        yield from _texts(words)
    if name in ("find", "fd", "fdfind"):
        yield from (words[place + 1 :] for place, word in enumerate(words) if word in _SEARCHES)
    if name in WRAPPERS and not (name == "command" and words[1:2] and words[1] in ("-v", "-V")):
        yield from _of_wrapper(words, WRAPPERS[name])


def _of_shell(words: tuple[str, ...]) -> Iterator[str]:
    """Yield the script of ``sh -c SCRIPT``. Options may come before it, also with values: ``-ceo pipefail``."""
    code = next((place for place, word in enumerate(words) if place and _CODE.fullmatch(word)), len(words))
    options = "".join(filter(_LETTERS.fullmatch, words[code:]))
    values = options.count("o") + options.count("O")
    yield from [word for word in words[code:] if not word.startswith(("-", "+"))][: values + 1]


def _of_git(words: tuple[str, ...]) -> Iterator[str | tuple[str, ...]]:
    """Yield a command of git without the options before its subcommand, and the commands that subcommands run."""
    start = place_of_subcommand(words)
    if start > 1:
        yield (words[0], *words[start:])
        return
    if words[1:3] in _RUN_BY_GIT:
        run = tuple(dropwhile(lambda word: word.startswith("-"), words[3:]))
        yield run
        yield " ".join(run)
    for place, word in enumerate(words):
        option, _, value = word.partition("=")
        if _abbreviates(option, "--exec") or _abbreviates(option, "--extcmd") or option.endswith("-filter"):
            yield value or " ".join(words[place + 1 : place + 2])
        elif word.startswith("-x") and words[1] in ("rebase", "difftool"):
            yield word[2:] or " ".join(words[place + 1 : place + 2])


def _of_split_text(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the command of ``env -S TEXT``, whose text env splits into options and words."""
    for place, word in enumerate(words):
        option, _, text = word.partition("=")
        found = _SPLIT_BY_ENV.fullmatch(word)
        if found is None and not _abbreviates(option, "--split-string"):
            continue
        text, rest = found[1] if found else text, words[place + 1 :]
        if not text and rest:
            text, rest = rest[0], rest[1:]
        yield (words[0], *_split_as_env(text), *rest)


def _split_as_env(text: str) -> list[str]:
    text = _BLANK_OF_ENV.sub(" ", text)
    try:
        return shlex.split(text)
    except ValueError:  # a quote that is not closed
        return text.split()


def _texts(words: tuple[str, ...]) -> Iterator[str]:
    """Yield the arguments that may be scripts: with blanks, or the value of ``-c``, also as ``-cTEXT`` and ``--command=TEXT``."""
    for before, word in pairwise(words):
        if re.search(r"\s", word) or before in ("-c", "--command"):
            yield word
        if word.startswith("--"):
            yield word.partition("=")[2]
        elif letters := _LETTERS.match(word):
            yield from (word[place + 1 :] for place in range(letters.end()) if word[place] == "c")


def _abbreviates(option: str, name: str) -> bool:
    return len(option) > len("--") and name.startswith(option)


def _of_wrapper(words: tuple[str, ...], operands: int) -> Iterator[tuple[str, ...]]:
    option = False
    for place, word in enumerate(words[1:], 1):
        if word.startswith("-"):
            option = True
            continue
        if _ASSIGNMENT.fullmatch(word) or _AMOUNT.fullmatch(word):
            operands -= bool(_AMOUNT.fullmatch(word)) and operands > 0
            continue
        yield words[place:]
        if not option:
            if operands <= 0:
                return
            operands -= 1
        option = False
