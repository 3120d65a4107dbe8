"""Runs command lines, most of them in a fork of the test's process, which has imported what they need.

A process of its own costs several times as much, nearly all of it for imports. ``--installed-program`` starts one for each command
line nevertheless, as CI does with one Python.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import codex_framework
from codex_framework.cli.commands import BUILT_IN
from codex_framework.cli.main import main
from codex_framework.plugins.registry import load_registry
from codex_framework.toolkit.lazy_command import LazyCommand

__all__ = ["RunProgram", "run_forked", "run_program", "run_source"]

_OF_THE_START = ("PYTHON", "LC_", "LANG", "TZ", "COVERAGE")
"""How variables begin that a process reads only when it starts."""


_OURS = str(Path(codex_framework.__file__).parents[1])

RunProgram = Callable[..., subprocess.CompletedProcess[str]]
"""Runs ``codex-framework`` to the end: ``run(*argv, cwd=..., env=..., stdin=None, timeout=60)``. Further options are Popen's."""


def run_program(
    *argv: str,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes | None = None,
    timeout: float = 60,
    fork: bool = True,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command line to the end, in a fork if that does the same as the installed program."""
    if fork and not options and _of_the_start(env).items() <= os.environ.items():
        return run_forked(argv, cwd=cwd, env=env, stdin=stdin, limit_s=int(timeout))
    command = [str(Path(sys.executable).with_name("codex-framework")), *argv]
    source = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    done = subprocess.run(
        command,
        **{"cwd": cwd, "env": env, "capture_output": True, "timeout": timeout, "check": False, **source, **options},
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in err, err
    return subprocess.CompletedProcess([*argv], done.returncode, out, err)


def run_forked(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: bytes | None = None, limit_s: int = 60
) -> subprocess.CompletedProcess[str]:
    """Run ``codex-framework`` with arguments, to the end. Without ``stdin``, that is the null device."""
    done = _forked(main, ["codex-framework", *argv], cwd, env, stdin=stdin, limit_s=limit_s)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def run_source(
    source: str, *argv: str, cwd: Path, env: Mapping[str, str], path: Sequence[str] = (), name: str = "-c"
) -> subprocess.CompletedProcess[str]:
    """Run the source of a program with arguments, to the end. Warnings are errors.

    Args:
        path: What comes first on the path of modules.
    """

    def work() -> int:
        warnings.simplefilter("error")
        for module in [*sys.modules]:
            if getattr(sys.modules[module], "__file__", None) and not _is_installed(module):
                del sys.modules[module]  # a test's own; the program may have one of the same name
        sys.path[:0] = path
        module = ModuleType("__main__")
        sys.modules["__main__"] = module
        exec(compile(source, name, "exec", dont_inherit=True), module.__dict__)
        return 0

    return _forked(work, [name, *argv], cwd, env)


def _forked(
    work: Callable[[], int],
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    *,
    stdin: bytes | None = None,
    limit_s: int = 60,
) -> subprocess.CompletedProcess[str]:
    _import()
    files = [tempfile.TemporaryFile() for _ in range(4)]  # noqa: SIM115
    with files[0] as given, files[1] as out, files[2] as err, files[3] as used:
        given.write(stdin or b"")
        given.seek(0)
        pid = os.fork()
        if pid == 0:
            source = os.open(os.devnull, os.O_RDONLY) if stdin is None else given.fileno()
            _run(work, argv, cwd, env, (source, out.fileno(), err.fileno()), used.fileno(), limit_s)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        texts = [(file.seek(0), file.read().decode())[1] for file in (out, err, used)]
    if status == -signal.SIGALRM:
        raise subprocess.TimeoutExpired([*argv], limit_s, *texts[:2])
    for module in texts[2].split():
        import_module(module)
    return subprocess.CompletedProcess([*argv], status, *texts[:2])


def _is_installed(module: str) -> bool:
    """Return whether a module is not a test's own."""
    file = getattr(sys.modules[module], "__file__", None)
    return file is not None and file.startswith((sys.prefix, sys.base_prefix, _OURS))


def _of_the_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_OF_THE_START)}


@cache
def _import() -> None:
    """Import all commands and plugins, for all forks."""
    for module, _ in BUILT_IN.values():
        import_module(module)
    for offer in load_registry({}).command_table.commands.values():
        if isinstance(offer.item, LazyCommand):
            offer.item.command  # noqa: B018


def _status(code: object) -> int:
    """Return the status of a process that ends with ``SystemExit(code)``, after the interpreter's message."""
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    print(code, file=sys.stderr)
    return 1


def _run(
    work: Callable[[], int],
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    streams: Sequence[int],
    used: int,
    limit_s: int,
) -> NoReturn:
    status = 70
    had = set(sys.modules)
    gc.freeze()  # what the test's process has is never garbage here, and to look at it copies its memory
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(limit_s)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        tempfile.tempdir = None  # found by the variables of the test's process
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        sys.argv = [*argv]
        try:
            status = work()
        except SystemExit as end:
            status = _status(end.code)
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(used, "\n".join(filter(_is_installed, sys.modules.keys() - had)).encode())
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)
