"""The command ``codex-framework`` (and ``cxf``): selects the subcommand and prints errors.

``--version`` and ``exec`` are selected here directly, so that the imports of the other subcommands are not needed for them.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework.cli.own_modules import find_own_modules

__all__ = ["main"]

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_TRACEBACK = "CODEX_FRAMEWORK_TRACEBACK"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status."""
    _repair_streams()
    if argv is None:
        find_own_modules()
    gc.disable()  # objects from start-up live to the end, so searching them for cycles only costs time
    try:
        status = _report_errors(list(sys.argv[1:] if argv is None else argv))
    finally:
        gc.enable()
    shutdown = sys.modules.get("codex_framework.cli.shutdown")
    if argv is None and shutdown is not None:  # a run of `exec`, in a process of its own
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
    except KeyboardInterrupt:
        return 130
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
    """Standard error. What cannot be written there, for example to a full disk, is lost instead of the run."""

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
"""Replacements for our own special characters, and for those that models often use, in encodings that lack them."""


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


def _set_variables() -> None:
    """Set the environment variables in ``$CODEX_HOME/.env``, except when a shell completes a command line.

    Raises:
        ConfigError: The file cannot be read.
    """
    home = os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")  # noqa: PTH111  # pathlib costs more than all of this
    if not os.path.lexists(f"{home}/.env") or "_CODEX_FRAMEWORK_COMPLETE" in os.environ:
        return
    from pathlib import Path

    from codex_framework.config.dotenv import load_dotenv

    os.environ.update(load_dotenv(Path(home).absolute(), os.environ))


def _dispatch(argv: list[str]) -> int:
    from codex_framework.cli.argv import UsageError, index, read_argv

    if argv and argv[0] in ("--version", "-V"):
        from codex_framework import __version__

        print(f"codex-framework {__version__}")
        return 0
    _check_folder()
    if argv and argv[0] not in ("--help", "-h"):
        _set_variables()
    if argv and argv[0] in ("exec", "e"):
        return _exec(argv[1:], {})
    if argv and argv[0].startswith("-") and argv[0] not in ("--help", "-h"):
        from codex_framework.cli.exec_options import HELP, SHARED_OPTIONS

        try:
            root, _, rest = read_argv(argv, index((*SHARED_OPTIONS, HELP)), stop_at_positional=True)
        except UsageError as error:
            print(f"error: {error}\n\nFor more information, try '--help'.", file=sys.stderr)
            return 2
        if rest and rest[0] in ("exec", "e"):
            return _exec(rest[1:], root)
        if rest and (rest[0] in ("resume", "fork") or (set(root) - {"plugin", "help"} and _is_of_exec(rest[0], root))):
            return _exec(rest, root)
        files = root.pop("plugin", ())
        if root.pop("help", False):
            return _command(["--help"], files)
        if rest and root and set(root) <= {"config", "enable", "disable"}:
            from codex_framework.cli.commands import is_of_plugin

            if is_of_plugin(rest[0]):
                return _command([*_settings_arguments(root), *rest], files)
        if root:
            return _report_misplaced_options(argv, rest)
        return _command(rest, files)
    if argv and argv[0] in ("resume", "fork"):
        return _exec(argv, {})
    return _command(argv)


def _is_of_exec(word: str, root: Mapping[str, Any]) -> bool:
    """Return whether a command is a subcommand of ``exec`` that a plugin also offers alone."""
    from codex_framework.cli.commands import BUILT_IN

    if word in BUILT_IN:
        return False
    from codex_framework.cli.exec import is_standalone_command

    return is_standalone_command(word, root)


def _settings_arguments(root: Mapping[str, Any]) -> list[str]:
    """Return the settings that stand before a command as options of the group of all commands."""
    from codex_framework.cli.commands import feature_setting

    enabled = [feature_setting(name, enabled=True) for name in root.get("enable", ())]
    disabled = [feature_setting(name, enabled=False) for name in root.get("disable", ())]
    return [part for setting in (*root.get("config", ()), *enabled, *disabled) for part in ("-c", setting)]


def _report_misplaced_options(argv: Sequence[str], rest: Sequence[str]) -> int:
    """Report options of ``exec`` without ``exec``."""
    import shlex

    fact = f"these options belong to `exec`, not to `{rest[0]}`" if rest else "a subcommand is missing"
    task = [*argv[: len(argv) - len(rest)], " ".join(rest)] if rest else [*argv, "PROMPT"]
    tip = f"  tip: to give the model a task, run: codex-framework exec {shlex.join(task)}"
    print(f"error: {fact}\n\n{tip}\n\nFor more information, try '--help'.", file=sys.stderr)
    return 2


def _command(argv: list[str], plugin_files: Sequence[str] = ()) -> int:
    if argv and not argv[0].startswith("-"):
        from codex_framework.loader.static_commands import is_click_command, load_command, static_commands

        source = static_commands().get(argv[0])
        if source is not None and not is_click_command(function := load_command(source)):  # it starts without click
            gc.enable()
            return function([*(f"--plugin={file}" for file in plugin_files), *argv[1:]]) or 0
    from codex_framework.cli.commands import run_command

    return run_command(argv, plugin_files)


def _exec(argv: list[str], root: dict[str, object]) -> int:
    from codex_framework.cli.exec import exec_main

    return exec_main(argv, root)


def _print_error(error: Exception) -> None:
    if os.environ.get(_TRACEBACK):
        import traceback

        traceback.print_exception(error)
        return
    from codex_framework.toolkit.terminal_text import clean

    hint = getattr(error, "hint", "")
    print(clean(f"Error: {error}" + (f"\n{hint}" if hint else "")), file=sys.stderr)


def _discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that the interpreter's last flush cannot fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


if __name__ == "__main__":
    raise SystemExit(main())
