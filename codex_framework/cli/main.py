"""The command ``codex-framework`` (and ``cxf``): finds the subcommand, and prints what goes wrong.

``--version`` and ``exec`` are found by hand: what the other subcommands need is not imported for them.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from collections.abc import Sequence

__all__ = ["main"]

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_TRACEBACK = "CODEX_FRAMEWORK_TRACEBACK"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit status."""
    _mend_streams()
    gc.disable()  # start-up makes many objects that live to the end: looking for cycles among them only costs time
    try:
        return _guarded(list(sys.argv[1:] if argv is None else argv))
    finally:
        gc.enable()


def _guarded(argv: list[str]) -> int:
    from codex_framework.errors import CodexError

    try:
        status = _dispatch(argv)
        sys.stdout.flush()
    except CodexError as error:
        _print_error(error)
        return 1
    except BrokenPipeError:
        _forget_stdout()
        return 1
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.errno not in _NO_ROOM or error.filename is not None:
            return _bug(error)
        _forget_stdout()
        print(f"Error: cannot write the output: {error.strerror}\nMake room, or write it elsewhere.", file=sys.stderr)
        return 1
    except Exception as error:
        return _bug(error)
    return status


def _bug(error: Exception) -> int:
    if os.environ.get(_TRACEBACK):
        raise error
    print(
        f"Error: a bug in codex-framework: {type(error).__name__}: {error}\n"
        f"Run it again with {_TRACEBACK}=1 and report what it prints.",
        file=sys.stderr,
    )
    return 1


def _mend_streams() -> None:
    """Let closed streams go nowhere, and characters that the terminal's encoding lacks not end a run.

    A closed one has to be filled: else the next socket or file that is opened takes its number, and output lands in it.
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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _check_folder() -> None:
    """Everything but ``--version`` needs to know where it is.

    Raises:
        CodexError: The current folder is not there any more.
    """
    from codex_framework.errors import CodexError

    try:
        os.getcwd()  # noqa: PTH109  # pathlib costs more than all the rest of --version
    except OSError as error:
        raise CodexError(
            f"the current folder cannot be used: {error.strerror}", slug="cwd", hint="Change to a folder that exists."
        ) from error


def _dispatch(argv: list[str]) -> int:
    from codex_framework.cli.argv import UsageError, index, read_argv

    if argv and argv[0] in ("--version", "-V"):
        from codex_framework import __version__

        print(f"codex-framework {__version__}")
        return 0
    _check_folder()
    if argv and argv[0] in ("exec", "e"):
        return _exec(argv[1:], {})
    if argv and argv[0].startswith("-") and argv[0] not in ("--help", "-h"):
        from codex_framework.cli.exec_options import SHARED_OPTIONS

        try:
            root, _, rest = read_argv(argv, index(SHARED_OPTIONS), stop_at_positional=True)
        except UsageError as error:
            print(f"error: {error}\n\nFor more information, try '--help'.", file=sys.stderr)
            return 2
        if rest and rest[0] in ("exec", "e"):
            return _exec(rest[1:], root)
        if rest and rest[0] == "resume":
            return _exec(rest, root)
        if root:
            fact = f"these options go with `exec`, not with `{rest[0]}`" if rest else "there is no subcommand"
            print(f"error: {fact}\n\nFor more information, try '--help'.", file=sys.stderr)
            return 2
        argv = rest
    if argv and argv[0] == "resume":
        return _exec(argv, {})
    from codex_framework.cli.commands import run_command

    return run_command(argv)


def _exec(argv: list[str], root: dict[str, object]) -> int:
    from codex_framework.cli.exec import exec_main

    return exec_main(argv, root)


def _print_error(error: Exception) -> None:
    if os.environ.get(_TRACEBACK):
        import traceback

        traceback.print_exception(error)
        return
    hint = getattr(error, "hint", "")
    print(f"Error: {error}" + (f"\n{hint}" if hint else ""), file=sys.stderr)


def _forget_stdout() -> None:
    """Nobody reads stdout any more: let the interpreter's last flush go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


if __name__ == "__main__":
    raise SystemExit(main())
