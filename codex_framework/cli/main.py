"""The command ``codex-framework`` (and ``cxf``): selects the subcommand and prints errors.

``--version`` and ``exec`` are selected here directly, so that the imports of the other subcommands are not needed for them.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from codex_framework.cli.own_modules import find_own_modules

if TYPE_CHECKING:
    from codex_framework.cli.exec_options import ExecOptions
    from codex_framework.contract.errors import CodexError

__all__ = ["main"]

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_TRACEBACK = "CODEX_FRAMEWORK_TRACEBACK"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status."""
    gc.disable()  # objects from start-up live to the end, so searching them for cycles only costs time
    try:
        _repair_streams()
        if argv is None:
            find_own_modules()
        status = _report_errors(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        status = 130
    finally:
        gc.enable()
    shutdown = sys.modules.get("codex_framework.cli.shutdown")
    if argv is None and shutdown is not None:  # a run of `exec`
        shutdown.end_process(status)
    return status


def _report_errors(argv: list[str]) -> int:
    from codex_framework.contract.errors import CodexError

    try:
        status = _dispatch(argv)
        sys.stdout.flush()
    except CodexError as error:
        _print_error(error)
        return 1
    except BrokenPipeError:
        _discard_stdout()
        return 1
    except OSError as error:
        if error.errno not in _DISK_ERRORS or error.filename is not None:
            return _report_bug(error)
        _discard_stdout()
        print(
            f"Error: cannot write the output: {error.strerror}\nFree some disk space, or write the output elsewhere.",
            file=sys.stderr,
        )
        return 1
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # Python 3.11 wraps what ``__set_name__`` raises
            raise error.__cause__ from None
        return _report_bug(error)
    return status


def _report_bug(error: Exception) -> int:
    if os.environ.get(_TRACEBACK):
        raise error
    from codex_framework.contract.errors import described
    from codex_framework.toolkit.terminal_text import clean

    print(
        f"Error: a bug in codex-framework: {clean(described(error))}\n"
        f"Run it again with {_TRACEBACK}=1 and report what it prints.",
        file=sys.stderr,
    )
    return 1


def _repair_streams() -> None:
    """Redirect closed streams to /dev/null, and replace characters that the terminal's encoding lacks.

    A closed stream must be replaced. Otherwise the next opened socket or file gets its number, and output is written to it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  # a stream lives as long as the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    encoding = sys.stderr.encoding
    if sys.stderr is sys.__stderr__:
        raw = io.BufferedWriter(_StandardError(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(raw, encoding=encoding, line_buffering=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
            if stream.encoding not in ("utf-8", "UTF-8"):
                _read_plainly(stream)


class _StandardError(io.FileIO):
    """Standard error that ignores write errors, for example on a full disk, so that the run continues."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


_PLAIN = {
    "…": "...",
    "–": "-",
    "—": "-",
    "→": "->",
    "✓": "+",
    "•": "*",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
    "\u00a0": " ",
}
"""Replacements for our special characters and for characters that models often use, in encodings without them."""


def _read_plainly(stream: io.TextIOWrapper) -> None:
    """Make a stream that is not UTF-8 show plain characters instead of escapes, if there are replacements."""
    import codecs

    def replace(error: UnicodeError) -> tuple[str | bytes, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        part = error.object[error.start : error.start + 1]
        if part in _PLAIN:
            return _PLAIN[part], error.start + 1
        alone = UnicodeEncodeError(error.encoding, error.object, error.start, error.start + 1, error.reason)
        return codecs.backslashreplace_errors(alone)

    codecs.register_error("codex-plain", replace)
    stream.reconfigure(errors="codex-plain")


def _check_folder() -> None:
    """Check the current folder, which every command except ``--version`` needs.

    Raises:
        CodexError: The current folder no longer exists.
    """
    from codex_framework.contract.errors import CodexError

    try:
        os.getcwd()  # noqa: PTH109  # pathlib costs more than the rest of --version
    except OSError as error:
        raise CodexError(
            f"the current folder cannot be used: {error.strerror}", slug="cwd", hint="Change to a folder that exists."
        ) from error


def _set_variables(command: str) -> None:
    """Set the environment variables in ``$CODEX_HOME/.env``, except when a shell completes a command line.

    ``doctor`` reads the file itself, and reports its problems.

    Raises:
        ConfigError: The file cannot be read.
    """
    if command == "doctor":
        return
    home = os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")  # noqa: PTH111  # pathlib costs more than all of this
    if not os.path.lexists(f"{home}/.env") or "_CODEX_FRAMEWORK_COMPLETE" in os.environ:
        return
    from pathlib import Path

    from codex_framework.config.dotenv import load_dotenv

    os.environ.update(load_dotenv(Path(home).absolute(), os.environ))


def _dispatch(argv: list[str]) -> int:
    if argv and argv[0] in ("--version", "-V", "version"):
        return _print_version()
    _check_folder()
    if argv and argv[0] not in ("--help", "-h"):
        if argv[0].startswith("-"):
            return _with_root_options(argv)
        _set_variables(argv[0])
        if argv[0] in ("exec", "e"):
            return _exec(argv[1:])
        if (status := _front_end(argv, argv)) is not None:
            return status
        if argv[0] in ("resume", "fork"):
            return _exec(argv, "codex-framework")
    elif not argv and (status := _front_end(argv, argv)) is not None:
        return status
    elif not argv and _has_piped_prompt():
        _set_variables("")
        return _exec([], "codex-framework")
    return _command(argv)


def _front_end(argv: list[str], words: list[str]) -> int | None:
    """Start the front end if the command line is for one and a person is at a terminal. Otherwise return None.

    Args:
        words: The command line without the options before the command.
    """
    if words and words[0] not in ("resume", "fork") and len(words) > 1 and not _is_sentence(words[0]):
        return None
    if not {"-h", "--help"}.isdisjoint(words) or not os.isatty(0) or (words and not os.isatty(1)):
        return None
    from codex_framework.cli.front_end import find_front_end, is_command, start_front_end

    source = find_front_end()
    if source is None or (words and not _is_sentence(words[0]) and is_command(words[0], argv[:-1])):
        return None
    if not words:
        _set_variables("")
    return start_front_end(source, argv)


def _has_piped_prompt() -> bool:
    """Return whether stdin is a file with content, or a pipe that has some or whose writer is still there."""
    import select
    import stat

    found = os.fstat(0)
    if stat.S_ISREG(found.st_mode):
        return found.st_size > 0
    if not stat.S_ISFIFO(found.st_mode):
        return False
    pipe = select.poll()
    pipe.register(0, select.POLLIN)
    events = [event for _, event in pipe.poll(0)]
    return not events or bool(events[0] & select.POLLIN)


def _is_sentence(word: str) -> bool:
    """Return whether an argument can only be a prompt, because it contains spaces."""
    return any(letter.isspace() for letter in word)


def _print_version() -> int:
    from codex_framework import __version__

    print(f"codex-framework {__version__}")
    return 0


_ONLY_EXEC = {"oss", "local_provider", "worktree"}
"""Options that no other command can ignore, because its output would then differ from a turn."""


def _with_root_options(argv: list[str]) -> int:
    """Run a command line that begins with options: all of them count for ``exec``, and settings for every command."""
    from codex_framework.cli.argv import UsageError
    from codex_framework.cli.exec_options import ExecOptions, split_root_options

    try:
        values, before, rest = split_root_options(argv)
        options = ExecOptions(values, None, ())
    except UsageError as error:
        print(f"error: {error}\n\nFor more information, try '--help'.", file=sys.stderr)
        return 2
    files = options.texts("plugin")
    if options.flag("version"):
        return _print_version()
    if options.flag("help"):
        return _command(["--help"], files)
    _set_variables(rest[0] if rest else "")
    if rest and rest[0] in ("exec", "e"):
        return _exec([*before, *rest[1:]])
    if (status := _front_end(argv, rest)) is not None:
        return status
    if rest and (rest[0] in ("resume", "fork") or _is_of_exec(rest[0], before)):
        return _exec([rest[0], *before, *rest[1:]], "codex-framework")
    if _ONLY_EXEC & {*values} or (not rest and {*values} != {"plugin"}):
        return _report_misplaced_options(before, rest)
    if folder := options.text("cd"):
        files = [os.path.abspath(file) for file in files]  # noqa: PTH100  # pathlib costs more
        _change_folder(folder)
    return _command(rest, files, _root_arguments(options), before)


def _root_arguments(options: ExecOptions) -> list[str]:
    """Return the options before a command as options of the group of all commands."""
    import json

    settings = [*options.overrides, *(f"{key}={json.dumps(value)}" for key, value in options.flags.items())]
    arguments = [part for setting in settings for part in ("-c", setting)]
    arguments += [part for folder in options.texts("add_dir") for part in ("--add-dir", folder)]
    arguments += [part for image in options.images for part in ("-i", image)]
    profile = options.text("profile")
    return arguments if profile is None else [*arguments, "-p", profile]


def _change_folder(folder: str) -> None:
    """Change to the folder of ``-C``, in which the command then runs.

    Raises:
        CodexError: It is no folder, or it may not be entered.
    """
    from codex_framework.contract.errors import CodexError

    try:
        os.chdir(folder)
    except OSError as error:
        fact = f"the folder {folder} cannot be used: {error.strerror}"
        raise CodexError(fact, slug="cd", hint="Name an existing folder with -C.") from error


def _is_of_exec(word: str, before: Sequence[str]) -> bool:
    """Return whether a command is a subcommand of ``exec`` that a plugin also offers alone."""
    from codex_framework.loader.static_commands import BUILT_IN_COMMANDS, static_commands

    if word in BUILT_IN_COMMANDS or word in static_commands():
        return False
    from codex_framework.cli.exec import is_standalone_command

    return is_standalone_command(word, before)


def _report_misplaced_options(before: Sequence[str], rest: Sequence[str]) -> int:
    """Report options of ``exec`` without ``exec``."""
    import shlex

    fact = f"these options belong to `exec`, not to `{rest[0]}`" if rest else "a subcommand is missing"
    task = [*before, " ".join(rest)] if rest else [*before, "PROMPT"]
    tip = f"  tip: to give the model a task, run: codex-framework exec {shlex.join(task)}"
    print(f"error: {fact}\n\n{tip}\n\nFor more information, try '--help'.", file=sys.stderr)
    return 2


def _command(
    argv: list[str], plugin_files: Sequence[str] = (), settings: Sequence[str] = (), before: Sequence[str] = ()
) -> int:
    if argv and not argv[0].startswith("-"):
        from codex_framework.loader.static_commands import is_click_command, load_command, static_commands

        source = static_commands().get(argv[0])
        if source is not None and not is_click_command(function := load_command(source)):  # it starts without click
            gc.enable()
            return function([*(f"--plugin={file}" for file in plugin_files), *settings, *argv[1:]]) or 0
    from codex_framework.cli.commands import run_command

    return run_command([*settings, *argv], plugin_files, before)


def _exec(argv: list[str], program: str = "codex-framework exec") -> int:
    from codex_framework.cli.exec import exec_main

    return exec_main(argv, program)


def _print_error(error: CodexError) -> None:
    if os.environ.get(_TRACEBACK):
        import traceback

        traceback.print_exception(error)
        return
    from codex_framework.toolkit.documentation import printed_error

    print(printed_error(error), file=sys.stderr)


def _discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that the interpreter's last flush cannot fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


if __name__ == "__main__":
    raise SystemExit(main())
