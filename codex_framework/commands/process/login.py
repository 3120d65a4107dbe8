"""The environment of login shells, computed once instead of for every command.

Reading the user's profile takes from a few milliseconds to a second. So it is done once per shell and environment: a login
shell prints its resulting variables, and later commands run in a plain shell with these variables. Other effects of a
profile (aliases, functions that are not exported, ``umask``) are lost, as in Codex's snapshots.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from codex_framework.contract.errors import CommandFailed, SandboxError
from codex_framework.contract.roles.sandboxes import Confinement

__all__ = ["LoginEnvironments"]

_TIMEOUT_MS = 10_000
"""Time limit for the profile in milliseconds (Codex: 10 s for its snapshot)."""

_OF_THE_SHELL = ("PWD", "OLDPWD", "SHLVL", "_")
"""Variables that describe the shell that printed them."""

_Key = tuple[int, str, frozenset[tuple[str, str]]]


class LoginEnvironments:
    """The environments by confinement, shell and initial environment, shared by all threads of a kernel.

    The profile is read under the same confinement as the command, because the agent may be able to write the profile.
    """

    def __init__(self, timeout_ms: int = _TIMEOUT_MS) -> None:
        self._timeout_ms = timeout_ms
        self._tasks: dict[_Key, tuple[Confinement, asyncio.Task[dict[str, str] | None]]] = {}

    async def find(self, confinement: Confinement, shell: str, env: Mapping[str, str]) -> dict[str, str] | None:
        """Return the environment of a login shell that was started with ``env``.

        The first call for a confinement, shell and environment starts a login shell. Concurrent calls share it.

        Args:
            confinement: The confinement of the command, which also applies to the login shell.
            shell: The absolute path of a POSIX shell.
            env: The complete initial environment.

        Returns:
            The variables. None if the profile fails, hangs or ends the shell, so commands must run in a login shell.
        """
        return await asyncio.shield(self.begin(confinement, shell, env))

    def begin(
        self, confinement: Confinement, shell: str, env: Mapping[str, str]
    ) -> asyncio.Task[dict[str, str] | None]:
        """Start reading the profile, unless this has already started. :meth:`find` waits for the result."""
        key = (id(confinement), shell, frozenset(env.items()))
        if key not in self._tasks:  # keeping the confinement ensures that its id is not reused
            self._tasks[key] = (confinement, asyncio.create_task(self._print(confinement, shell, dict(env))))
        return self._tasks[key][1]

    async def aclose(self) -> None:
        """End login shells that are still running."""
        tasks = [task for _, task in self._tasks.values()]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _print(self, confinement: Confinement, shell: str, env: dict[str, str]) -> dict[str, str] | None:
        marker = os.urandom(8).hex()
        argv = (shell, "-lc", f"printf '%s\\0' {marker}; exec env -0")
        home = env.get("HOME", "")
        cwd = home if os.path.isdir(home) else "/"  # noqa: PTH112  # a quick check of a local folder
        from codex_framework.commands.process.running import start_command

        try:
            command = await start_command(confinement, argv=argv, cwd=cwd, env=env, timeout_ms=self._timeout_ms)
        except (CommandFailed, SandboxError):
            return None  # the command itself will meet and report the same error
        try:
            ended = await command.wait()
        except asyncio.CancelledError:
            await command.kill()
            raise
        if ended.exit_code != 0 or ended.omitted_bytes or "\ufffd" in ended.stdout:
            return None
        noise, found, printed = ended.stdout.partition(f"{marker}\0")
        if not found:
            return None
        del noise  # the output of the profile itself
        variables = dict(line.split("=", 1) for line in printed.split("\0") if "=" in line)
        for name in _OF_THE_SHELL:
            variables.pop(name, None)
            if name in env:
                variables[name] = env[name]
        return variables
