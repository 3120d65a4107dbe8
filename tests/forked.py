"""Runs command lines, most of them in a fork of a process that has imported what they need.

A process of its own costs several times as much, nearly all of it for imports. ``--installed-program`` starts one for each command
line nevertheless, as CI does with one Python. The process that is forked does nothing else, because forking the test's process takes
as long as starting another: it has the memory of thousands of tests.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn, TextIO

import codex_framework
from codex_framework.cli.commands import BUILT_IN
from codex_framework.cli.main import main
from codex_framework.loader.registry import load_registry
from codex_framework.toolkit.lazy_command import LazyCommand

__all__ = ["RunProgram", "run_forked", "run_program", "run_source"]

_OF_THE_START = ("PYTHON", "LC_", "LANG", "TZ", "COVERAGE")
"""How variables begin that a process reads only when it starts."""

_OF_A_FORK = ("PYTHONIOENCODING", "PYTHONPATH")
"""Those of them that a fork reads too."""


_OURS = str(Path(codex_framework.__file__).parents[1])

RunProgram = Callable[..., subprocess.CompletedProcess[str]]
"""Runs ``codex-framework`` to the end: ``run(*argv, cwd=..., env=..., stdin=None, timeout=60)``. Further options are Popen's."""


class Job(NamedTuple):
    """What a fork does.

    Attributes:
        source: The source of a program. None stands for ``codex-framework``.
        path: What comes first on the path of the program's modules.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    limit_s: int = 60
    source: str | None = None
    path: Sequence[str] = ()

    def __call__(self) -> int:
        if self.source is None:
            return main()
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "codex_(requires|roles) is deprecated", DeprecationWarning)
        for module in [*sys.modules]:
            if getattr(sys.modules[module], "__file__", None) and not _is_installed(module):
                del sys.modules[module]  # a test's own; the program may have one of the same name
        sys.path[:0] = self.path
        module = ModuleType("__main__")
        sys.modules["__main__"] = module
        exec(compile(self.source, self.argv[0], "exec", dont_inherit=True), module.__dict__)
        return 0


class Server:
    """The process that is forked, from the side of the tests. It ends with theirs."""

    def __init__(self) -> None:
        self.variables = _of_the_start(os.environ)
        self.free = threading.Lock()
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, "-P", __file__, str(theirs.fileno())]
        with theirs:
            subprocess.run(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, check=True)

    def run(self, job: Job, files: Sequence[int]) -> int:
        """Return the status of a job whose input, output, errors and used modules are these files."""
        text = pickle.dumps(tuple(job))
        socket.send_fds(self._socket, [len(text).to_bytes(8)], files)
        self._socket.sendall(text)
        answer = self._socket.recv(4)
        if not answer:
            raise RuntimeError("the process that is forked for command lines has ended")
        return int.from_bytes(answer, signed=True)


@cache
def server() -> Server:
    """Return the process that this one has for forks."""
    return Server()


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
    if fork and not options and _of_the_start(env).items() <= server().variables.items():
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
    done = _forked(Job(["codex-framework", *argv], str(cwd), dict(env), limit_s), stdin)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def run_source(
    source: str, *argv: str, cwd: Path, env: Mapping[str, str], path: Sequence[str] = (), name: str = "-c"
) -> subprocess.CompletedProcess[str]:
    """Run the source of a program with arguments, to the end. Warnings are errors.

    Args:
        path: What comes first on the path of modules.
    """
    return _forked(Job([name, *argv], str(cwd), dict(env), source=source, path=path))


def _forked(job: Job, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
    files = [tempfile.TemporaryFile() for _ in range(4)]  # noqa: SIM115
    with files[0] as given, files[1] as out, files[2] as err, files[3] as used, Path(os.devnull).open("rb") as nothing:
        given.write(stdin or b"")
        given.seek(0)
        numbers = [file.fileno() for file in (nothing if stdin is None else given, out, err, used)]
        if server().free.acquire(blocking=False):
            try:
                status = server().run(job, numbers)
            finally:
                server().free.release()
        else:  # another thread's is running
            _import()
            status = _ended(_started(job, numbers))
        texts = [(file.seek(0), file.read().decode())[1] for file in (out, err)]
    if status == -signal.SIGALRM:
        raise subprocess.TimeoutExpired([*job.argv], job.limit_s, *texts)
    return subprocess.CompletedProcess([*job.argv], status, *texts)


def serve(connection: socket.socket) -> None:
    """Do jobs, one after the other, until the tests have ended."""
    os.chdir("/")
    _import()
    _import_for_a_turn()
    while True:
        gc.collect()
        gc.freeze()
        size, files, _, _ = socket.recv_fds(connection, 8, 4)
        if not size:
            return
        text = b""
        while len(text) < int.from_bytes(size):
            text += connection.recv(1 << 16)
        child = _started(Job(*pickle.loads(text)), files, connection)
        for number in files[:3]:
            os.close(number)
        status = _ended(child)
        connection.sendall(status.to_bytes(4, signed=True))
        with os.fdopen(files[3], encoding="utf-8") as used:
            _import_used(used)


def _import_used(used: TextIO) -> None:
    """Import the modules that a fork has imported, for the next ones."""
    used.seek(0)
    for module in used.read().split():
        import_module(module)


def _import_for_a_turn() -> None:
    """Import what ``exec`` needs. In a turn that imports it, plugins would be slow, which is a warning."""
    nothing = os.open(os.devnull, os.O_RDWR)
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryFile("w+") as used:
        Path(home, "script.toml").write_text('[[responses]]\nsay = "Hello."\n')
        Path(home, "config.toml").write_text(
            f'model = "any"\nmodel_provider = "p"\n[model_providers.p]\nwire_api = "replay"\nscript = "{home}/script.toml"\n'
        )
        job = Job(["codex-framework", "exec", "--skip-git-repo-check", "Hi!"], home, {"CODEX_HOME": home, "HOME": home})
        status = _ended(_started(job, (nothing, nothing, nothing, used.fileno())))
        assert status == 0, f"exec ended with status {status}"
        _import_used(used)
    os.close(nothing)


def _ended(pid: int) -> int:
    """Wait for a process, and return its status."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _is_installed(module: str) -> bool:
    """Return whether a module is not a test's own."""
    file = getattr(sys.modules[module], "__file__", None)
    return file is not None and file.startswith((sys.prefix, sys.base_prefix, _OURS))


def _of_the_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_OF_THE_START) and name not in _OF_A_FORK}


@cache
def _import() -> None:
    """Import all commands and plugins, for all forks."""
    for module, _ in BUILT_IN.values():
        import_module(module)
    for offer in load_registry({}).commands.values():
        if isinstance(offer.item, LazyCommand):
            offer.item.command  # noqa: B018


def _status(code: object) -> int:
    """Return the status of a process that ends with ``SystemExit(code)``, after the interpreter's message."""
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    print(code, file=sys.stderr)
    return 1


def _started(job: Job, files: Sequence[int], connection: socket.socket | None = None) -> int:
    """Start a fork that does a job, and return its process id. The last file gets the names of the modules that it imports."""
    pid = os.fork()
    if pid == 0:
        if connection is not None:
            connection.close()
        _run(job, files)
    return pid


def _run(job: Job, files: Sequence[int]) -> NoReturn:
    status = 70
    had = set(sys.modules)
    gc.freeze()  # what was there before is never garbage here, and to look at it copies its memory
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(job.limit_s)
        os.chdir(job.cwd)
        os.environ.clear()
        os.environ.update(job.env)
        tempfile.tempdir = None  # found by the variables of the test's process
        for number, stream in enumerate(files[:3]):
            os.dup2(stream, number)
        _open_streams()
        sys.argv = [*job.argv]
        sys.path[:0] = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        try:
            status = job()
        except SystemExit as end:
            status = _status(end.code)
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(files[3], "\n".join(filter(_is_installed, sys.modules.keys() - had)).encode())
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _open_streams() -> None:
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    how: dict[str, Any] = {"encoding": encoding or None, "errors": errors or None}
    sys.stdin, sys.stdout = open(0, **how), open(1, "w", **how)  # noqa: SIM115
    sys.stderr = open(2, "w", **{**how, "errors": "backslashreplace"})  # noqa: SIM115


if __name__ == "__main__":
    if os.fork():
        os._exit(0)  # so the one that stays is no child of the tests, which look for processes that were left behind
    serve(socket.socket(fileno=int(sys.argv[1])))
