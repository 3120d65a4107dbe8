"""Bearer tokens that a program prints, configured with ``auth = { command = "...", args = [...] }`` in a provider's table."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping

import attrs

from codex_framework.contract.errors import ModelError
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.toolkit.programs import found_program

__all__ = ["TokenCommand"]


@attrs.define
class TokenCommand:
    """A program that prints a token. The token is cached.

    Attributes:
        timeout_s: Time limit for the program in seconds.
        refresh_s: Maximum age of a token in seconds. 0 means that a token is kept until a server refuses it.
    """

    provider: str
    command: str
    args: tuple[str, ...]
    timeout_s: float
    refresh_s: float
    cwd: str | None
    env: Mapping[str, str] = attrs.field(repr=False)
    headers: Mapping[str, str] = attrs.field(factory=dict, init=False)
    refused_hint: str = attrs.field(default="", init=False)
    _token: str = attrs.field(default="", init=False, repr=False)
    _made_at: float = attrs.field(default=0.0, init=False)
    _lock: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False, repr=False)

    @classmethod
    def of(cls, info: ProviderInfo, env: Mapping[str, str]) -> TokenCommand:
        """Return the token command of the ``auth`` table.

        Raises:
            ModelError: The table is invalid.
        """
        table = info.options["auth"]
        table = table if isinstance(table, Mapping) else {}
        command, args = table.get("command"), table.get("args", ())
        times = table.get("timeout_ms", 5_000), table.get("refresh_interval_ms", 300_000)
        wrong = ""
        if unknown := set(table) - {"command", "args", "timeout_ms", "refresh_interval_ms", "cwd"}:
            wrong = f"has unknown keys: {', '.join(sorted(unknown))}"
        elif not isinstance(command, str) or not command.strip():
            wrong = "names no command"
        elif isinstance(args, str) or not all(isinstance(value, (int, float)) for value in times):
            wrong = "has args that are not a list, or times that are not numbers"
        if wrong:
            raise ModelError(
                f"model_providers.{info.id}.auth {wrong}",
                info="bad_request",
                slug="provider-option",
                hint='Write auth = { command = "PROGRAM", args = ["..."], timeout_ms = 5000 }.',
            )
        timeout_s, refresh_s = (float(value) / 1000 for value in times)
        words = tuple(str(word) for word in args)
        return cls(info.id, str(command), words, timeout_s, refresh_s, table.get("cwd"), env)

    async def token(self, *, refused: str = "") -> str:
        """Return the cached token, or run the program to get a new one.

        Args:
            refused: The token that a server has just refused. If it is the cached token, the program is run again.

        Raises:
            ModelError: The program did not print a token.
        """
        async with self._lock:  # threads that share a client share one run of the program
            expired = self.refresh_s > 0 and time.monotonic() - self._made_at > self.refresh_s
            if not self._token or expired or self._token == refused:
                self._token = await asyncio.to_thread(self._run)
                self._made_at = time.monotonic()
            return self._token

    def _run(self) -> str:
        import subprocess

        program = found_program(self.command, self.env.get("PATH", os.defpath), cwd=self.cwd)
        if program is None:
            raise self._failure("is not found", hint=self._finding)
        try:
            run = subprocess.run(
                [self.command, *self.args],
                executable=program,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self.timeout_s,
                cwd=self.cwd,
                env=dict(self.env),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise self._failure(f"did not end within {self.timeout_s:g} s") from error
        except (OSError, ValueError) as error:
            raise self._failure(f"cannot be started: {getattr(error, 'strerror', None) or error}") from error
        if run.returncode != 0:
            raise self._failure(
                f"ended with status {run.returncode}: {run.stderr.strip()[:500] or 'it printed no message'}"
            )
        token = run.stdout.removeprefix("\ufeff").strip()
        if not token or not token.isascii() or not token.isprintable():
            raise self._failure("printed no token" if not token else "printed something that is not a token")
        return token

    @property
    def _finding(self) -> str:
        if "/" in self.command and not self.cwd:
            return "Write its absolute path, or set `cwd`: files in the working folder may come from somebody else."
        return "Correct its name, or write its absolute path. Relative folders in PATH are not searched."

    def _failure(self, what: str, hint: str = "") -> ModelError:
        return ModelError(
            f"the token program {self.command!r} of the model provider {self.provider!r} {what}",
            info="unauthorized",
            slug="token-command",
            hint=hint or "Run it by hand to find the cause. It must print only the token.",
        )
