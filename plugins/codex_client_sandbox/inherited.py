"""Runs one command in a sandbox with this process's own streams. Signals are forwarded, and the exit status is passed on."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from codex_framework.commands.confinement import Confinements
from codex_framework.commands.gates import make_gate
from codex_framework.contract.errors import CodexError, CommandFailed, SandboxError
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.roles.networks import NetworkGate, NetworkProxy
from codex_framework.contract.roles.sandboxes import ChildProcess, Launch
from codex_framework.toolkit.documentation import printed_error
from codex_framework.toolkit.roles import add_defaults
from codex_framework.toolkit.terminal_text import printable

__all__ = ["run_inherited"]

NOT_CONFINED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
"""Exit statuses of ``env(1)`` and similar programs: own failure; program not executable; program not found."""

_SIGNALLED = 128
_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH")


async def run_inherited(
    confinements: Confinements,
    access: FileAccess,
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    proxy: NetworkProxy | None = None,
) -> int:
    """Run a command to its end and return its exit status. Hosts that no rule allows are refused, because no user can be asked."""
    with _forwarding() as forward:
        gate: NetworkGate | None = None
        try:
            plan = confinements.plan(access, Path(cwd))
            gate = make_gate(access, proxy)
            launch = Launch(argv=tuple(argv), cwd=cwd, env={**env, **plan.env}, stdin=0, stdout=1, stderr=2, gate=gate)
            child = add_defaults(await plan.start(launch), ChildProcess)
        except CommandFailed as error:
            _print(CommandFailed(f"{argv[0]}: {error}", hint=error.hint))
            return NOT_FOUND if str(error).startswith("No such file") else NOT_EXECUTABLE
        except SandboxError as error:
            _print(error)
            return NOT_CONFINED
        forward(child)
        status = await child.wait()
    if gate is not None:
        for request in gate.blocked:
            print(
                printable(f"Blocked: {request.target.host}:{request.target.port} ({request.reason.replace('_', ' ')})"),
                file=sys.stderr,
            )
        await gate.aclose()
    if note := child.explain():
        print(note, file=sys.stderr)
    return status if status >= 0 else _SIGNALLED - status


def _print(error: CodexError) -> None:
    print(printed_error(error), file=sys.stderr)


@contextlib.contextmanager
def _forwarding() -> Iterator[Callable[[ChildProcess], None]]:
    """Catch signals and forward them to a process. Signals that arrive before it exists are forwarded once it does."""
    loop = asyncio.get_running_loop()
    numbers = [signal.Signals[name] for name in _FORWARDED if name in signal.Signals.__members__]
    early: list[int] = []
    children: list[ChildProcess] = []

    def on_signal(number: int) -> None:
        if children:
            children[0].signal(number)
        else:
            early.append(number)

    def forward(child: ChildProcess) -> None:
        children.append(child)
        for number in early:
            child.signal(number)

    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield forward
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
