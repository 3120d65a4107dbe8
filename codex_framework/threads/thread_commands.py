"""The commands of a thread, with checked calls of command policies, and the processes that its plugins start for themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from codex_framework.commands.access import file_access
from codex_framework.commands.runner import CommandRunner
from codex_framework.contract.errors import CodexError
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.roles.commands import CommandRequest, RunningCommand
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.networks import NetworkTarget
from codex_framework.contract.roles.policies import CommandPolicy, CommandVerdict, Verdict
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.version import CODEX_VERSION
from codex_framework.loader.registry import Registry
from codex_framework.threads.faults import Label, check_type, error_text
from codex_framework.threads.host import Host
from codex_framework.threads.plugin_calls import Notices
from codex_framework.toolkit.truncation import truncate
from codex_framework.toolkit.validation import validate

if TYPE_CHECKING:
    from codex_framework.config.credentials import Credentials

__all__ = ["GuardedPolicy", "ThreadCommands", "guarded_policies"]

_ANYTHING = FileAccess(full=True, network=NetworkMode.ON)


class ThreadCommands(CommandRunner):
    """The runner for the commands of one thread, and the processes that end with it.

    Args:
        current: Returns the thread's host and current settings.
    """

    def __init__(self, thread_id: str, notices: Notices, current: Callable[[], tuple[Host, Settings]]) -> None:
        host, settings = current()
        super().__init__(
            policies=lambda: guarded_policies(self._current()[0].registry, self._notices),
            confinements=host.confinements,
            environment_policy=settings.shell_environment_policy,
            keep_variables=settings.keep_variables,
            credentials=self._credentials,
            environ=host.environ,
            extra_env={
                "CODEX_HOME": str(host.codex_home),
                "CODEX_SESSION_ID": thread_id,
                "CODEX_THREAD_ID": thread_id,
                "CODEX_VERSION": CODEX_VERSION,
                "CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS": "1",
            },
            search_path=host.programs.path,
            limit_text=_limit_text,
            proxy=next(iter(host.registry.network_proxies.values()), None),
            environments=host.environments.offered,
        )
        self._notices = notices
        self._current = current
        self._earlier_credentials: Credentials | None = None
        self._processes: list[RunningCommand] = []

    def forget_environment(self) -> None:
        """Compute the environment again for the next command, because other variables are secret from now on, too."""
        self._earlier_credentials = self._credentials()
        super().forget_environment()

    async def start_process(
        self,
        argv: Sequence[str],
        permissions: Permissions | str | None,
        env: Mapping[str, str],
        cwd: Path | None,
        **options: Any,
    ) -> RunningCommand:
        """Start a process that ends with the thread. ``options`` are keyword arguments of ``start_plugin_process``.

        Raises:
            ConfigError: No profile has that name.
            CommandFailed: It could not be started.
            SandboxError: The permissions cannot be enforced here.
        """
        host, settings = self._current()
        folder = cwd or settings.cwd
        access = _ANYTHING
        if isinstance(permissions, str):
            permissions = host.named_permissions(permissions).evolve(options=settings.permissions.options)
        if permissions is not None:
            access = file_access(permissions, folder, host.environ, host.deciding)
        process = await self.start_plugin_process(argv, access=access, cwd=folder, env=env, **options)
        self._processes = [other for other in self._processes if other.exit_code is None]
        self._processes.append(process)
        return process

    async def aclose(self) -> None:
        """End the processes, and the gates of all commands."""
        await asyncio.gather(*(process.kill() for process in self._processes), return_exceptions=True)
        await self.wait_for_gates()

    def _credentials(self) -> Credentials:
        """Return the credentials that are kept from commands. Credentials of earlier configurations stay secret."""
        host, settings = self._current()
        found = host.credentials(settings.provider)
        return found if self._earlier_credentials is None else found.and_also(self._earlier_credentials)


def _limit_text(text: str) -> str:
    return truncate(text, ("tokens", 10_000))


T = TypeVar("T")


def guarded_policies(registry: Registry, notices: Notices) -> tuple[CommandPolicy, ...]:
    """Return the command policies of a registry for one thread."""
    owners: Mapping[tuple[str, str], str] = registry.owners
    return tuple(
        GuardedPolicy(policy, owners.get(("command_policies", policy.name), ""), notices)
        for policy in registry.command_policies
    )


class GuardedPolicy(CommandPolicy):
    """One command policy with checked calls.

    Args:
        plugin: The plugin that offers it.
        notices: Receives the warnings about the policy.
    """

    def __init__(self, policy: CommandPolicy, plugin: str, notices: Notices) -> None:
        self.name = policy.name
        self.plugin = plugin
        self._policy = policy
        self._notices = notices
        self._label = Label("command policy", policy.name, plugin)

    def judge(self, command: CommandRequest, facts: TurnFacts) -> CommandVerdict | None:
        """Return the policy's opinion on a command."""
        judge = self._policy.judge
        try:
            verdict = judge(command, facts)
            return None if verdict is None else validate(verdict, CommandVerdict, "it", judge)
        except (Exception, SystemExit) as error:  # a broken policy must not let anything through
            self._tell("judge", error, judge, "The command is forbidden.")
            reason = f"rejected: command policy {self.name!r} failed: {error_text(error)}"
            return CommandVerdict(verdict=Verdict.FORBID, reason=reason)

    def judge_network(self, target: NetworkTarget, facts: TurnFacts) -> Verdict | None:
        """Return the policy's opinion on a host."""
        judge = self._policy.judge_network
        try:
            verdict = judge(target, facts)
            return None if verdict is None else check_type(verdict, Verdict, "it", judge)
        except (Exception, SystemExit) as error:  # as above
            self._tell("judge_network", error, judge, "The host is forbidden.")
            return Verdict.FORBID

    def remember_prefix(self, prefix: tuple[str, ...], facts: TurnFacts) -> str:
        """Let the policy save a rule. Raises any exception of the policy."""
        return self._remember("remember_prefix", lambda: self._policy.remember_prefix(prefix, facts))

    def remember_host(self, target: NetworkTarget, facts: TurnFacts, *, allow: bool) -> str:
        """Let the policy save a rule. Raises any exception of the policy."""
        return self._remember("remember_host", lambda: self._policy.remember_host(target, facts, allow=allow))

    def _remember(self, method: str, save: Callable[[], str]) -> str:
        try:
            return check_type(save(), str, "it", getattr(self._policy, method))
        except CodexError:
            raise
        except Exception as error:  # a plugin may raise anything
            self._tell(method, error, getattr(self._policy, method), "The rule is not saved.")
            raise

    def _tell(self, method: str, error: BaseException, source: object, then: str) -> None:
        self._notices.tell(self._label.describe_failure(method, error, then=then, source=source))
