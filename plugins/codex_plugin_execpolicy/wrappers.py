"""Commands that run another command which their own arguments contain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from codex_framework.toolkit.programs import is_shell
from codex_plugin_execpolicy.parsing import words_of_all_commands

__all__ = ["ANY_PROGRAM", "WRAPPERS", "commands_within", "name_of", "operands_before"]

WRAPPERS = {
    **dict.fromkeys(
        (
            "builtin",
            "busybox",
            "caffeinate",
            "command",
            "doas",
            "dbus-run-session",
            "env",
            "exec",
            "faketime",
            "fakeroot",
        ),
        0,
    ),
    **dict.fromkeys(
        ("ionice", "nice", "nohup", "setarch", "setsid", "stdbuf", "sudo", "time", "toybox", "unbuffer"), 0
    ),
    **dict.fromkeys(("strace", "ltrace", "unshare", "nsenter", "xargs", "parallel", "watch", "npx", "bunx", "pnpx"), 0),
    **dict.fromkeys(("uvx", "prlimit", "eatmydata", "torsocks", "proxychains", "bwrap", "entr"), 0),
    **dict.fromkeys(("chroot", "chrt", "flock", "taskset", "timeout", "runuser"), 1),
}
"""Programs that run the command in their arguments, with the number of operands before it."""

ANY_PROGRAM = frozenset(
    (
        *("xargs", "parallel", "find", "fd", "fdfind", "ssh", "scp", "sftp", "rsync", "su", "runuser", "watch", "eval"),
        *("source", ".", "expect", "gdb", "vi", "vim", "nvim", "ex", "view", "emacs", "ed", "screen", "tmux", "entr"),
        *(
            "at",
            "batch",
            "crontab",
            "systemd-run",
            "run-parts",
            "socat",
            "nc",
            "ncat",
            "script",
            "m4",
            "dc",
            "start-stop-daemon",
        ),
        *("flock", "unshare", "nsenter", "strace", "ltrace", "bwrap", "chroot", "fzf", "tar"),
    )
)
"""Programs that run any other program which some further argument (or their input) names."""

_SEARCHES = frozenset(("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"))
_TEXTS = frozenset(("eval", "watch", "parallel", "su", "runuser", "script", "flock", "ssh", "env"))
"""Programs of which any argument may be a script."""

_ASSIGNMENT = re.compile(r"\w+\+?=.*", re.DOTALL)
_AMOUNT = re.compile(r"(0x)?[\d.,]+[smhd]?")
_CODE = re.compile(r"-[A-Za-z]*c")
_MOST = 4000


def name_of(word: str) -> str:
    """Return the name of a program, without its folder and ``.exe``."""
    return word.rsplit("/", 1)[-1].removesuffix(".exe")


def operands_before(words: Sequence[str]) -> int:
    """Return how many words between a wrapper and its command are assignments and amounts, as ``env A=b`` and ``timeout 9`` have."""
    place = 1
    while place < len(words) and (_ASSIGNMENT.fullmatch(words[place]) or _AMOUNT.fullmatch(words[place])):
        place += 1
    return place


def commands_within(command: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield every command that a command may run by its arguments, at any depth. There may be too many, but not too few.

    Only for rules that ask or forbid: a word after an option may be its value or the command, so that both are yielded.
    """
    waiting, known = [command], {command}
    while waiting and len(known) < _MOST:
        for inner in _directly_within(waiting.pop()):
            if inner and inner not in known:
                known.add(inner)
                waiting.append(inner)
                yield inner


def _directly_within(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not words:
        return
    name = name_of(words[0])
    if is_shell(name):
        yield from _of_script(words)
    if name in _TEXTS:
        texts = [word for word in words[1:] if re.search(r"\s", word)] + [" ".join(words[1:])] * (name == "eval")
        for text in texts:
            yield from words_of_all_commands(text)
    if name in ("find", "fd", "fdfind"):
        yield from (words[place + 1 :] for place, word in enumerate(words) if word in _SEARCHES)
    if name in WRAPPERS and not (name == "command" and words[1:2] and words[1] in ("-v", "-V")):
        yield from _of_wrapper(words, WRAPPERS[name])


def _of_script(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for place, word in enumerate(words):
        if place and _CODE.fullmatch(word):
            for text in words[place + 1 :]:
                if not text.startswith(("-", "+")):
                    yield from words_of_all_commands(text)
                    return


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
