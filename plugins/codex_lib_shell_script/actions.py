"""Describes a command for clients: the file that it reads, the folder that it lists, or the text that it searches for.

The description is for display, in the form of ``parsed_cmd`` of Codex. No decision depends on it. It covers commands for
exploring; all others are unknown, and a script with an unknown part is unknown too.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from codex_lib_shell_script.parsing import shell_commands

__all__ = ["command_actions"]

_LONGEST = 10_000
"""Characters of a script that is described. Clients show one line."""

Words = Sequence[str]
Action = Mapping[str, Any]

_LISTS = {
    "ls": "-I -w --block-size --format --time-style --color --quoting-style",
    "eza": "-I --ignore-glob --color --sort --time-style --time",
    "exa": "-I --ignore-glob --color --sort --time-style --time",
    "tree": "-L -P -I --charset --filelimit --sort",
    "du": "-d --max-depth -B --block-size --exclude --time-style",
}
"""Programs that list a folder, with their options that take a value."""

_READS = {
    "cat": "",
    "more": "",
    "bat": "--theme --language --style --terminal-width --tabs --line-range --map-syntax",
    "batcat": "--theme --language --style --terminal-width --tabs --line-range --map-syntax",
    "less": "-p -P -x -y -z -j --pattern --prompt --tabs --shift --jump-target",
}
"""Programs that read a file if there is just one, with their options that take a value."""

_RG = "-g --glob --iglob -t --type --type-add --type-not -m --max-count -A -B -C --context --max-depth"
_SEARCHES = {
    "rg": _RG,
    "rga": _RG,
    "ripgrep-all": _RG,
    **dict.fromkeys(("ag", "ack", "pt"), "-G -g --file-search-regex --ignore-dir --ignore-file --path-to-ignore"),
}
"""Programs that search for their first word in the second, with their options that take a value."""

_GREP = "-m --max-count -C --context -A --after-context -B --before-context"
_GREP_PATTERNS = ("-e", "--regexp", "-f", "--file")
_GIT_LS_FILES = "--exclude --exclude-from --pathspec-from-file"
_FD = "-t --type -e --extension -E --exclude --search-path"
_AWK = "-F -v -f --field-separator --assign --file"
_NL = "-s -w -v -i -b"
_SED = "-e -f --expression --file"

_FORMATTERS = frozenset({"wc", "tr", "cut", "sort", "uniq", "column", "yes", "printf"})
"""Programs that change how the output of others looks. They are left out."""

_LOOKERS = frozenset(
    {*_LISTS, *_READS, *_SEARCHES, *_FORMATTERS, "grep", "egrep", "fgrep", "head", "tail", "nl", "echo", "file", "stat"}
)
"""Programs that xargs may run without changing the description, because they only print."""

_XARGS_WITH_VALUE = frozenset({"-E", "-I", "-L", "-P", "-d", "-e", "-n", "-s"})
_FIND_ACTS = ("-exec", "-ok", "-delete", "-fprint", "-fls")
"""How the options of ``find`` begin that do more than search."""

_UNNAMED_FOLDERS = frozenset({"", "build", "dist", "node_modules", "src"})
"""Folders that say little about a path. The folder in which they are is shown."""

_LINES = r"[0-9]+(,[0-9]+)?p"
_HEAD_COUNT = r"[0-9]+"
_TAIL_COUNT = r"\+?[0-9]+"
_WALKS = r"os\.walk|os\.listdir|os\.scandir|glob\.i?glob|pathlib\.Path|\.rglob\("
_UNQUOTED = r"[A-Za-z0-9+./:@\]_-]+"


def command_actions(argv: Words, script: str | None = None) -> tuple[Action, ...] | None:
    """Return a command's actions, each with a ``type``, or None if they are unknown.

    ======================================== ===========================================================================
    ``{"type": "read", cmd, name, path}``     reads the file ``path``, relative to the folder of the command
    ``{"type": "list_files", cmd, path}``     lists a folder, of which ``path`` is a short name. None if none was named
    ``{"type": "search", cmd, query, path}``  searches in a folder or file, of which ``path`` is a short name, or for a file
    ======================================== ===========================================================================

    Args:
        script: The shell script in ``argv``, if there is one.
    """
    if script is None:
        return _actions([argv]) if argv else None
    found = shell_commands(script) if len(script) <= _LONGEST else None
    if found is None or found.expands or found.partial:
        return None
    commands = [command for command in found.commands if not _only_formats(command)]
    actions = _actions(commands) if commands else None
    if actions and len(actions) == 1 and actions[0]["type"] == "read" and _prints_lines(found.commands, script):
        return ({**actions[0], "cmd": script},)
    return actions


def _prints_lines(commands: Sequence[Words], script: str) -> bool:
    """Return whether a command selects lines from another command's output, so that the script does more than that command."""
    return "|" in script and len(commands) > 1 and any(command[:2] == ("sed", "-n") for command in commands)


def _actions(commands: Sequence[Words]) -> tuple[Action, ...] | None:
    """Return the actions of commands that run one after another, without repetitions. None if one is unknown."""
    folder = ""
    placed: list[tuple[str, Words]] = []
    for command in commands:
        if command[0] == "cd":
            folder = posixpath.join(folder, _cd_target(command[1:]) or "")
        else:
            placed.append((folder, command))
    if len(placed) > 1:
        placed = _without_noise(placed)
    actions: list[Action] = []
    for folder, command in placed:
        action = _action(command)
        if action is None:
            return None
        if action["type"] == "read":
            action = {**action, "path": posixpath.join(folder, action["path"])}
        if action != (actions[-1] if actions else None):
            actions.append(action)
    return tuple(actions) or None


def _without_noise(placed: Sequence[tuple[str, Words]]) -> list[tuple[str, Words]]:
    """Leave out commands that do not describe the script beside others: ``true``, a leading ``echo``, ``nl`` in a pipe."""
    kept = [(folder, command) for folder, command in placed if tuple(command) != ("true",)]
    rest = [(folder, command) for folder, command in kept if command[0] != "nl" or _operands(command[1:], "")]
    rest = rest or kept[:1]
    while len(rest) > 1 and rest[0][1][0] == "echo":
        del rest[0]
    return rest


def _only_formats(command: Words) -> bool:
    """Return whether a command only changes how the output of another one looks: it names no file."""
    match command:
        case ["xargs", *arguments]:
            return _only_looks(arguments)
        case ["head" | "tail"]:
            return True
        case ["head" | "tail", option]:
            return option.startswith("-")
        case ["head", "-n" | "-c", count]:
            return bool(re.fullmatch(_HEAD_COUNT, count))
        case ["tail", "-n" | "-c", count]:
            return bool(re.fullmatch(_TAIL_COUNT, count))
        case ["awk", *arguments]:
            return _awk_file(arguments) is None
        case ["sed", *arguments]:
            return _sed_file(arguments) is None
        case _:
            return command[0] in _FORMATTERS


def _only_looks(arguments: Words) -> bool:
    """Return whether the command that xargs runs only prints something of the files that it is given."""
    place = 0
    while place < len(arguments) and arguments[place].startswith("-"):
        place += 2 if arguments[place] in _XARGS_WITH_VALUE else 1
    match arguments[place:]:
        case []:
            return True
        case ["sed", *options]:
            return not any(option.startswith(("-i", "--in-place")) for option in options)
        case [name, *_]:
            return name in _LOOKERS
        case _:
            return False


def _action(command: Words) -> Action | None:
    name, arguments = command[0], command[1:]
    if name in _LISTS:
        return _list_action(command, _first(_operands(arguments, _LISTS[name])))
    if name in _SEARCHES:
        words = _plain(_without_values(arguments, _SEARCHES[name]))
        if "--files" in arguments and _SEARCHES[name] is _RG:
            return _list_action(command, _first(words))
        return _search_action(command, words)
    if name in _READS:
        files = _operands(arguments, _READS[name])
        return _read(command, files[0]) if len(files) == 1 else None
    if name.startswith("python"):
        code = arguments[arguments.index("-c") + 1 :][:1] if "-c" in arguments else ()
        return _list_action(command, None) if code and re.search(_WALKS, code[0]) else None
    describe = _OTHERS.get(name)
    return None if describe is None else describe(command)


def _git(command: Words) -> Action | None:
    match command[1:]:
        case ["grep", *arguments]:
            return _search_action(command, _grep_words(arguments))
        case ["ls-files", *arguments]:
            return _list_action(command, _first(_operands(arguments, _GIT_LS_FILES)))
        case _:
            return None


def _grep(command: Words) -> Action:
    return _search_action(command, _grep_words(command[1:]))


def _grep_words(arguments: Words) -> Words:
    """Return the pattern, and then the files."""
    patterns = [value for option, value in pairwise(arguments) if option in _GREP_PATTERNS]
    return [*patterns[:1], *_operands(arguments, " ".join((_GREP, *_GREP_PATTERNS)))]


def _fd(command: Words) -> Action:
    words = _plain(_without_values(command[1:], _FD))
    is_folder = len(words) == 1 and (words[0] in (".", "..") or "/" in words[0] or "\\" in words[0])
    return _search_action(command, words) if words and not is_folder else _list_action(command, _first(words))


def _find(command: Words) -> Action | None:
    arguments = command[1:]
    if any(word.startswith(_FIND_ACTS) for word in arguments):
        return None
    folder = next((word for word in arguments if not word.startswith("-") and word not in ("!", "(", ")")), None)
    for option, value in pairwise(arguments):
        if option in ("-name", "-iname", "-path", "-regex"):
            return _search_action(command, [value] if folder is None else [value, folder])
    return _list_action(command, folder)


def _head(command: Words, count: str = _HEAD_COUNT) -> Action | None:
    match command[1:]:
        case ["-n", number, *rest] if re.fullmatch(count, number):
            pass
        case [option, *rest] if option.startswith("-n") and re.fullmatch(f"-n{count}", option):
            pass
        case [file] if not file.startswith("-"):
            rest = [file]
        case _:
            return None
    return _read(command, _first(_plain(rest)))


def _tail(command: Words) -> Action | None:
    return _head(command, _TAIL_COUNT)


def _nl(command: Words) -> Action | None:
    return _read(command, _first(_plain(_without_values(command[1:], _NL))))


def _awk(command: Words) -> Action | None:
    return _read(command, _awk_file(command[1:]))


def _awk_file(arguments: Words) -> str | None:
    words = _plain(_without_values(arguments, _AWK))
    return _first(words if "-f" in arguments or "--file" in arguments else words[1:])


def _sed(command: Words) -> Action | None:
    return _read(command, _sed_file(command[1:]))


def _sed_file(arguments: Words) -> str | None:
    """Return the file of which ``sed -n 10,20p`` prints lines. None if it does anything else."""
    scripts = [value for option, value in pairwise(arguments) if option in ("-e", "--expression")]
    words = _plain(_without_values(arguments, _SED))
    if "-n" not in arguments or not any(re.fullmatch(_LINES, word) for word in (*scripts, *words)):
        return None
    return _first(words[1:] if words and re.fullmatch(_LINES, words[0]) else words)


_OTHERS: Mapping[str, Callable[[Words], Action | None]] = {
    "git": _git,
    "grep": _grep,
    "egrep": _grep,
    "fgrep": _grep,
    "fd": _fd,
    "find": _find,
    "head": _head,
    "tail": _tail,
    "nl": _nl,
    "awk": _awk,
    "sed": _sed,
}


def _cd_target(arguments: Words) -> str | None:
    if "--" in arguments:
        return _first(arguments[arguments.index("--") + 1 :])
    return next((word for word in reversed(arguments) if not word.startswith("-")), None)


def _without_values(arguments: Words, with_value: str) -> list[str]:
    """Return the arguments without the options that take a value, their values, and ``--option=value``."""
    options = with_value.split()
    kept: list[str] = []
    remaining = iter(arguments)
    for word in remaining:
        if word == "--":
            kept.extend(remaining)
        elif word in options:
            next(remaining, None)
        elif not (word.startswith("--") and "=" in word):
            kept.append(word)
    return kept


def _plain(words: Words) -> list[str]:
    return [word for word in words if not word.startswith("-")]


def _operands(arguments: Words, with_value: str) -> list[str]:
    """Return the arguments that are no options, with everything after ``--``."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return [*_plain(_without_values(arguments[:at], with_value)), *arguments[at + 1 :]]


def _first(words: Words) -> str | None:
    return words[0] if words else None


def _read(command: Words, path: str | None) -> Action | None:
    if path is None:
        return None
    return {"type": "read", "cmd": _join_words(command), "name": _short(path), "path": path}


def _list_action(command: Words, path: str | None) -> Action:
    return {"type": "list_files", "cmd": _join_words(command), "path": _short(path)}


def _search_action(command: Words, words: Words) -> Action:
    path = _first(words[1:])
    return {"type": "search", "cmd": _join_words(command), "query": _first(words), "path": _short(path)}


def _short(path: str | None) -> str | None:
    """Return the last name of a path that says something."""
    if path is None:
        return None
    whole = path.replace("\\", "/").rstrip("/")
    return next((name for name in reversed(whole.split("/")) if name not in _UNNAMED_FOLDERS), whole)


def _join_words(command: Words) -> str:
    return " ".join(_quote_word(word) for word in command)


def _quote_word(word: str) -> str:
    """Return a word in quotes if it needs them: in double ones if it contains a single one or a backslash, as Codex does."""
    if re.fullmatch(_UNQUOTED, word):
        return word
    if re.search(r"['\\]", word) is None:
        return f"'{word}'"
    return shlex.quote(word) if re.search(r"[`$!^]", word) else '"' + re.sub(r'(["\\])', r"\\\1", word) + '"'
