"""Permanent decisions of the user: which prefixes may be proposed, and how prefixes and hosts are saved."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from codex_framework.contract.errors import CodexError, ConfigError
from codex_framework.toolkit.appending import append_whole
from codex_framework.toolkit.file_locks import try_lock
from codex_framework.toolkit.regular_files import open_regular
from codex_plugin_execpolicy.safe import GIT_GLOBAL
from codex_plugin_execpolicy.wrappers import ANY_PROGRAM, WRAPPERS, is_interpreter, name_of, possible_commands

__all__ = ["RULES_FILE", "RUNNERS", "allow_prefix", "decide_host", "is_banned"]

_LOCK_WAIT_S = 3.0

_ENDS_OPTIONS = re.compile(r"(?:python|pypy)[0-9.]*\s+-[cm]|(?:ba|da|z|k|a)?sh\s+-l?c")
"""Programs with an option after whose value nothing is an option any more, so that the script is certain."""

_USES_ARGUMENTS = re.compile(r"\$\{?[\d@*!]|\$#|\bshift\b|\bread\b|\bargv\b|\binput\b|\bstdin\b")
"""Code that may run what further arguments or the input contain."""

RUNNERS = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), frozenset(["exec", "x", "dlx", "explore", "create", "init"])),
    **dict.fromkeys(("uv", "poetry", "pdm", "pipenv", "pipx", "hatch"), frozenset(["run", "tool", "exec", "shell"])),
    **dict.fromkeys(("docker", "podman"), frozenset(["run", "exec", "create", "compose", "build", "container"])),
    "kubectl": frozenset(["exec", "run", "debug", "cp", "config"]),
    "go": frozenset(["run", "generate", "tool", "env"]),
    "dotnet": frozenset(["exec", "run"]),
    "git": frozenset(
        (
            *(
                "archive",
                "bisect",
                "clone",
                "config",
                "daemon",
                "difftool",
                "filter-branch",
                "grep",
                "help",
                "ls-remote",
            ),
            *("mergetool", "rebase", "send-email", "submodule", "upload-pack", "worktree"),
        )
    ),
}
"""Programs and their subcommands that run a program which further arguments name."""

RULES_FILE = "rules/default.rules"
"""The file for accepted prefixes, in ``$CODEX_HOME``."""


def is_banned(prefix: tuple[str, ...]) -> bool:
    """Return whether a prefix is too broad to be allowed, because further arguments can make it run any program or script."""
    waiting, known = [prefix], {prefix}
    while waiting:
        words = waiting.pop()
        if not words or not words[0] or words[0].startswith("-"):
            return True
        name = name_of(words[0])
        if name not in WRAPPERS or name in ANY_PROGRAM:
            if _is_broad(name, words[1:]):
                return True
            continue
        waiting += [inner for inner in possible_commands(words) if inner not in known]
        known.update(waiting)
    return False


def _is_broad(name: str, arguments: tuple[str, ...]) -> bool:
    if name in ANY_PROGRAM:
        return True
    if is_interpreter(name):
        return not arguments or (arguments[0].startswith("-") and not _has_certain_script(name, arguments))
    if name == "git":
        arguments = _without_harmless(arguments)
    if name in RUNNERS:
        broad = name in ("git", "docker", "podman", "kubectl", "uv")
        return arguments[0] in RUNNERS[name] or arguments[0].startswith("-") if arguments else broad
    return False


def _without_harmless(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments of git without options before the subcommand that only choose a folder or change the output."""
    start = 0
    while start < len(arguments) and (arguments[start] == "-C" or arguments[start] in GIT_GLOBAL):
        start += 2 if arguments[start] == "-C" else 1
    return arguments[start:]


def _has_certain_script(name: str, arguments: tuple[str, ...]) -> bool:
    """Return whether an interpreter's arguments contain a script to which further arguments add nothing."""
    if len(arguments) < 2 or not _ENDS_OPTIONS.fullmatch(f"{name} {arguments[0]}"):
        return False
    return not arguments[1].startswith(("-", "+")) and not _USES_ARGUMENTS.search(arguments[1])


def allow_prefix(codex_home: Path, prefix: tuple[str, ...]) -> bool:
    """Add a rule that allows a prefix to ``$CODEX_HOME/rules/default.rules``. Return whether it is new.

    The file is locked during this, so that several programs may do it at the same time.

    Raises:
        CodexError: The prefix is empty or too broad, or the file cannot be written or has an error, with which its allowing rules
            have no effect.
    """
    if not prefix or not prefix[0]:
        raise CodexError("a prefix needs at least one word", slug="exec-prefix", hint="Name the program to allow.")
    if is_banned(prefix):
        hint = "Add the words that make it a specific command, or write the rule into the file yourself."
        words = " ".join(prefix)
        raise CodexError(f"`{words}` can run anything: it cannot be allowed as a prefix", slug="exec-prefix", hint=hint)
    return _add(codex_home, f'prefix_rule(pattern={_literal(list(prefix))}, decision="allow")\n')


def decide_host(codex_home: Path, host: str, protocol: str, *, allow: bool) -> bool:
    """Add a rule about a host for one protocol, like :func:`allow_prefix`. Return whether it is new.

    Raises:
        CodexError: It is not a host, or as above.
    """
    from codex_plugin_execpolicy.hosts import rule_host

    try:
        name = rule_host(host)
    except ValueError as error:
        raise CodexError(str(error), slug="exec-prefix", hint="Name a host without scheme and path.") from error
    decision, reason = ("allow", "allowed when asked") if allow else ("deny", "denied when asked")
    line = (
        f"network_rule(host={_literal(name)}, protocol={_literal(protocol)},"
        f' decision="{decision}", justification="{reason}")\n'
    )
    return _add(codex_home, line)


def _literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _add(codex_home: Path, line: str) -> bool:
    from codex_plugin_execpolicy.rulefile import LARGEST, parse_rules

    path = codex_home / RULES_FILE
    try:
        added = line.encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        with _lock_file(path) as file:
            text = _content(file, LARGEST + 1)
            parse_rules(text, str(path))
            if added.strip() in (known.strip() for known in text.splitlines()):
                return False
            gap = b"\n" if text and not text.endswith(b"\n") else b""
            if len(text) + len(gap) + len(added) > LARGEST:
                hint = "Remove rules from it, or move some to another file in that folder."
                raise CodexError(
                    f"{path} is full: at most {LARGEST:,} bytes are allowed", slug="exec-prefix", hint=hint
                )
            _append_rule(file.fileno(), gap, added, len(text))
            return True
    except ConfigError as error:
        fact = f"nothing was added to {path}, because it has an error: {error}"
        raise CodexError(fact, slug="exec-prefix", hint=error.hint) from error
    except UnicodeEncodeError as error:
        fact = "a rule must be text: this one contains bytes that are not UTF-8"
        raise CodexError(fact, slug="exec-prefix", hint="Allow a shorter prefix.") from error
    except OSError as error:
        hint = "Make the file writable."
        raise CodexError(
            f"{path} cannot be written: {error.strerror or error}", slug="exec-prefix", hint=hint
        ) from error


def _append_rule(descriptor: int, gap: bytes, rule: bytes, size: int) -> None:
    """Append a rule to the file. It is a comment until it is on the disk as a whole.

    The kernel may write a part of a line when it kills the process, and half a rule would make the whole file invalid.
    """
    import fcntl

    append_whole(descriptor, gap + b"#" + rule[1:], size, sync=True)
    appending = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, appending & ~os.O_APPEND)  # Linux ignores the offset of pwrite otherwise
    os.pwrite(descriptor, rule[:1], size + len(gap))
    os.fsync(descriptor)


def _content(file: FileIO, most: int) -> bytes:
    """Return the file's bytes, at most ``most`` of them."""
    content = b""
    while len(content) < most and (more := file.read(most - len(content))):
        content += more
    return content


@contextlib.contextmanager
def _lock_file(path: Path) -> Iterator[FileIO]:
    """Yield the locked file. Codex locks it in the same way, and writes in place."""
    ends = time.monotonic() + _LOCK_WAIT_S
    while True:
        with open(path, "a+b", buffering=0, opener=_open_file) as file:
            if not try_lock(file.fileno()):
                if time.monotonic() > ends:
                    raise TimeoutError(errno.ETIMEDOUT, f"another program has locked it for {_LOCK_WAIT_S:g} s")
            elif _is_still(path, file):
                file.seek(0)
                yield file
                return
        time.sleep(0.01)


def _open_file(path: str, flags: int) -> int:
    return open_regular(path, flags, 0o666)


def _is_still(path: Path, file: FileIO) -> bool:
    """Return whether the path still refers to this file. An editor may have replaced it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
