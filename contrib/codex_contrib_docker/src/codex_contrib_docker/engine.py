"""The engine's command line program: found, asked, and its complaints turned into errors with a hint."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from codex_framework import SandboxError
from codex_framework.toolkit.confinement.launching import trusted_programs

__all__ = ["Engine", "find", "refusal"]

_NAMES = ("docker", "podman")

_HINTS = (
    (
        ("cannot connect", "connection refused", "daemon running", "error during connect"),
        "start the engine (`systemctl start docker`), and see that this user may use it (`docker info`)",
    ),
    (("permission denied",), "let this user use the engine (`docker info` has to work), or use Podman without root"),
    (
        ("no such image", "image not known", "unable to find image", "did not resolve", "no such object"),
        "build or pull the image that `[framework.plugins.docker] image` names; it is never pulled unasked",
    ),
    (("executable file not found", "no such file or directory"), "use an image that has `sh`, `cat` and `kill`"),
    (("already in use",), "remove the container of that name"),
)
"""Words of an engine's complaint, in lower case, and what helps."""


class Engine:
    """A program that takes the words of ``docker``.

    Args:
        program: Absolute.
        timeout_s: How long it may take for one thing.
    """

    def __init__(self, program: str, timeout_s: float) -> None:
        self.program = program
        self.timeout_s = timeout_s

    @property
    def keeps_id(self) -> bool:
        """Whether it is Podman without root, which has to be told to leave the user's id as it is."""
        return Path(self.program).name.startswith("podman") and os.geteuid() != 0

    def ask(self, *words: str, within_s: float) -> tuple[int, str]:
        """Run it to its end: status and what it said, all of it; -1 where it does not come back or cannot be run."""
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
            return -1, f"it does not answer within {within_s:g} s"
        except OSError as error:
            return -1, f"{self.program} cannot be run: {error.strerror}"
        return done.returncode, done.stdout.decode("utf-8", "replace").strip()

    async def told(self, *words: str) -> tuple[int, str]:
        """The same without holding up others, within the timeout."""
        return await asyncio.to_thread(lambda: self.ask(*words, within_s=self.timeout_s))


def find(wanted: str | None, search: str) -> Iterator[str]:
    """The programs that come into question, first choice first.

    Args:
        wanted: A name, or an absolute path; None: Docker's, then Podman's.
        search: A ``PATH``. What lies in this process's working folder or where everybody may write is passed over, since to ask it
            would be to trust it.
    """
    if wanted is not None and Path(wanted).is_absolute():
        if os.access(wanted, os.X_OK):
            yield wanted
        return
    yield from trusted_programs(_NAMES if wanted is None else (wanted,), search)


def refusal(what: str, said: str) -> SandboxError:
    """An error with the engine's last words, and a hint by what they are."""
    lowered = said.lower()
    hint = next((hint for words, hint in _HINTS if any(word in lowered for word in words)), "see what the engine says")
    return SandboxError(f"{what}: {_last_line(said) or 'it gives no reason'}", hint=hint)


def _last_line(said: str) -> str:
    """The last line that says something; the client's closing advice does not."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("Run 'docker")]
    return lines[-1] if lines else ""
