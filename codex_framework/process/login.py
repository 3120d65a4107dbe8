"""What a login shell makes of an environment, found out once instead of at every command.

Reading the person's profile costs from some milliseconds to a second. So it is done once for each shell and environment: a login
shell prints the variables it ended up with, and later commands run in a plain shell that is given these. What a profile does
besides exporting (aliases, unexported functions, ``umask``) does not reach them; Codex's snapshots share that limit.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from codex_framework.errors import CommandFailed, SandboxError
from codex_framework.process.running import start_command
from codex_framework.roles.sandboxes import Confinement

__all__ = ["LoginEnvironments"]

_TIMEOUT_MS = 10_000
"""How long a profile may take (Codex: 10 s for its snapshot)."""

_OF_THE_SHELL = ("PWD", "OLDPWD", "SHLVL", "_")
"""Variables that describe the shell that printed them."""

_Key = tuple[int, str, frozenset[tuple[str, str]]]


class LoginEnvironments:
    """Environments by confinement, shell and the environment they started from. Shared by all threads of a kernel.

    The profile is read under the same confinement as the command that needs it: it may stand where the agent can write.
    """

    def __init__(self, timeout_ms: int = _TIMEOUT_MS) -> None:
        self._timeout_ms = timeout_ms
        self._found: dict[_Key, tuple[Confinement, asyncio.Task[dict[str, str] | None]]] = {}

    async def find(self, confinement: Confinement, shell: str, env: Mapping[str, str]) -> dict[str, str] | None:
        """The environment of a command in a login shell that was started with ``env``.

        The first call for a confinement, a shell and an environment starts a login shell; calls at the same time share it.

        Args:
            confinement: How the command, and so the login shell, is confined.
            shell: Absolute path of a POSIX shell.
            env: The whole environment.

        Returns:
            The variables; None where the profile fails, hangs or ends the shell: then commands have to run in a login
            shell.
        """
        return await asyncio.shield(self.begin(confinement, shell, env))

    def begin(
        self, confinement: Confinement, shell: str, env: Mapping[str, str]
    ) -> asyncio.Task[dict[str, str] | None]:
        """Start finding it out, unless that was begun before; :meth:`find` waits for it."""
        key = (id(confinement), shell, frozenset(env.items()))
        if key not in self._found:  # the confinement is kept with it, so that its id stays its own
            self._found[key] = (confinement, asyncio.create_task(self._print(confinement, shell, dict(env))))
        return self._found[key][1]

    async def aclose(self) -> None:
        """End login shells that are still running."""
        tasks = [task for _, task in self._found.values()]
        self._found.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _print(self, confinement: Confinement, shell: str, env: dict[str, str]) -> dict[str, str] | None:
        marker = os.urandom(8).hex()
        argv = (shell, "-lc", f"printf '%s\\0' {marker}; exec env -0")
        home = env.get("HOME", "")
        cwd = home if os.path.isdir(home) else "/"  # noqa: PTH112  # one look at a local folder
        try:
            command = await start_command(confinement, argv=argv, cwd=cwd, env=env, timeout_ms=self._timeout_ms)
        except (CommandFailed, SandboxError):
            return None  # the command itself will meet the same fault and can tell it
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
        del noise  # what the profile itself printed
        variables = dict(line.split("=", 1) for line in printed.split("\0") if "=" in line)
        for name in _OF_THE_SHELL:
            variables.pop(name, None)
            if name in env:
                variables[name] = env[name]
        return variables
