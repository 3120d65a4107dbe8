"""The engine's command line program: finding it, running it, and converting its messages to errors with hints."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from codex_framework import SandboxError
from codex_lib_confinement.launching import trusted_programs

__all__ = ["Engine", "find", "refusal"]

_NAMES = ("docker", "podman")

_HINTS = (
    (
        ("cannot connect", "connection refused", "daemon running", "error during connect"),
        "start the engine (`systemctl start docker`), and check that this user may use it (`docker info`)",
    ),
    (("permission denied",), "let this user use the engine (`docker info` must work), or use Podman without root"),
    (
        ("no such image", "image not known", "unable to find image", "did not resolve", "no such object"),
        "build or pull the image that `[framework.plugins.docker] image` names; it is never pulled automatically",
    ),
    (("executable file not found", "no such file or directory"), "use an image that has `sh`, `cat` and `kill`"),
    (("already in use",), "remove the container of that name"),
)
"""Words in an engine's message, in lower case, and the hint."""


class Engine:
    """A program with the command line of ``docker``.

    Args:
        program: The absolute path.
        timeout_s: Time limit for one operation in seconds.
    """

    def __init__(self, program: str, timeout_s: float) -> None:
        self.program = program
        self.timeout_s = timeout_s

    @property
    def keeps_id(self) -> bool:
        """Whether it is Podman without root, which needs an option to keep the user's id."""
        return Path(self.program).name.startswith("podman") and os.geteuid() != 0

    def ask(self, *words: str, within_s: float) -> tuple[int, str]:
        """Run it to its end. Return its status and whole output; the status is -1 if it does not end or cannot be run."""
        try:
            done = subprocess.run(
                [self.program, *words],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=within_s,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            return -1, f"it did not answer within {within_s:g} s"
        except OSError as error:
            return -1, f"{self.program} cannot be run: {error.strerror}"
        return done.returncode, done.stdout.decode("utf-8", "replace").strip()

    async def call(self, *words: str) -> tuple[int, str]:
        """Run it like :meth:`ask`, without blocking the event loop, within the timeout."""
        return await asyncio.to_thread(lambda: self.ask(*words, within_s=self.timeout_s))


def find(wanted: str | None, search: str) -> Iterator[str]:
    """Return the candidate programs, first choice first.

    Args:
        wanted: A name or an absolute path. The default is Docker, then Podman.
        search: A ``PATH``. Programs in this process's working folder, or in folders that everyone may write, are skipped,
            because they cannot be trusted.
    """
    if wanted is not None and Path(wanted).is_absolute():
        if os.access(wanted, os.X_OK):
            yield wanted
        return
    yield from trusted_programs(_NAMES if wanted is None else (wanted,), search)


def refusal(what: str, said: str) -> SandboxError:
    """Return an error with the engine's last message, and a hint that depends on it."""
    lowered = said.lower()
    hint = next(
        (hint for words, hint in _HINTS if any(word in lowered for word in words)), "check the message of the engine"
    )
    return SandboxError(f"{what}: {_last_line(said) or 'it gave no reason'}", hint=hint)


def _last_line(said: str) -> str:
    """Return the last meaningful line, without the client's closing advice."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("Run 'docker")]
    return lines[-1] if lines else ""
