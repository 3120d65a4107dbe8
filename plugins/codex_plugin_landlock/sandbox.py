"""The ``landlock`` sandbox, which keeps a pool of confined instances for each plan."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework import Confinement, FileAccess, Launch, Sandbox, SandboxError, SandboxReport

if TYPE_CHECKING:
    from codex_framework.contract.roles.networks import NetworkGate
    from codex_framework.contract.roles.sandboxes import SandboxLayer
    from codex_plugin_landlock.instances import ConfinedProcess, Instance, InstanceRefused
    from codex_plugin_landlock.launcher import Launcher
    from codex_plugin_landlock.plan import Plan

__all__ = ["LandlockConfinement", "LandlockSandbox"]

_IDLE_S = 5.0
"""Seconds after which an idle instance is closed. This also removes its placeholders for missing protected names."""

_WARM_IDLE_S = 30.0
"""The same for an instance that was started ahead of time. If the model takes longer to respond, a new one starts cheaply."""

_MAX_IDLE = 4
_ATTEMPTS = _MAX_IDLE + 3
"""Maximum number of instances tried for one command. All idle ones may have been killed in the meantime."""

_NAMESPACES, _LANDLOCK = "namespaces", "landlock"

_SCARCE = frozenset((errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EINTR))
"""Errors that say nothing about what this machine supports. A command can cause them, by using up the processes of the user."""

_PATHS = "check the folders and files in the permissions"
_EXAMINE = "run `codex-framework sandbox doctor`, which tries every layer"
_END_OTHERS = "end other processes, or raise the limits on processes, memory and open files"
"""Hints for failed mounts, for other failed layers, and for errors of ``_SCARCE``."""

_DISABLED = {"CODEX_SANDBOX_NETWORK_DISABLED": "1"}
_NETWORK_VARIABLES: dict[str, dict[str, str]] = {
    "off": _DISABLED,
    "loopback": _DISABLED,
    "proxy": {"CODEX_NETWORK_PROXY_ACTIVE": "1"},
    "on": {},
}
"""Environment variables that describe the network to a command. The names are the same as in Codex."""


class LandlockSandbox(Sandbox):
    """A sandbox for Linux that uses namespaces, Landlock and seccomp, or only Landlock and seccomp if namespaces are refused.

    Args:
        level: ``namespaces`` requires namespaces. ``landlock`` never uses them. None uses the best level.
        hosts_by_port: Whether a list of hosts may be enforced without namespaces, by allowing only the proxy's port numbers.
        python: The interpreter for the launcher (3.11 or newer). The default is the interpreter of this process.
        set_up_s: Time limit in seconds for confining a process. The default is 10 s.
    """

    name = "landlock"

    def __init__(
        self,
        level: str | None = None,
        *,
        hosts_by_port: bool = False,
        python: str | None = None,
        set_up_s: float | None = None,
    ) -> None:
        self._wanted = level
        self._hosts_by_port = hosts_by_port
        self._python = python
        self._set_up_s = set_up_s
        self._report: SandboxReport | None = None
        self._has_namespaces = False
        self._launcher: Launcher | None = None
        self._idle: dict[str, list[Instance]] = {}
        self._busy: set[Instance] = set()

    def probe(self) -> SandboxReport:
        """Return a report. It is based on system information at first, and on the enforced layers after the first command."""
        if self._report is None:
            from codex_plugin_landlock.probe import FULL_LEVEL, probe

            report = probe()
            if report.available and self._wanted == _NAMESPACES and report.level != FULL_LEVEL:
                report = SandboxReport(available=False, level=report.level, reason=report.reason, hint=report.hint)
            elif report.available and self._wanted == _LANDLOCK and report.level == FULL_LEVEL:
                report = self._reduced("`level` of the sandbox is `landlock`", "use the level `namespaces`")
            self._report = report
        return self._report

    def confine(self, access: FileAccess, cwd: Path) -> LandlockConfinement:  # noqa: ARG002  # unused
        """Return a confinement that enforces ``access``.

        Raises:
            SandboxError: The access cannot be enforced on this machine.
        """
        report = self.probe()
        if not report.available:
            raise SandboxError(f"the landlock sandbox does not work here: {report.reason}", hint=report.hint)
        from codex_plugin_landlock.plan import plan_for

        plan = plan_for(access)
        self.check(plan)
        return LandlockConfinement(self, plan)

    @property
    def level(self) -> str:
        """The current level: ``namespaces`` or ``landlock``."""
        from codex_plugin_landlock.probe import FULL_LEVEL

        return _NAMESPACES if self.probe().level == FULL_LEVEL else _LANDLOCK

    def check(self, plan: Plan) -> None:
        """Check that the current level can enforce a plan and satisfies its floor.

        Raises:
            SandboxError: The plan is refused.
        """
        from codex_plugin_landlock.jail.landlock import ABI_NETWORK, abi_version
        from codex_plugin_landlock.probe import HINT_FOR_NAMESPACES, floor_error

        report = self.probe()
        if self.level == _LANDLOCK:
            problem, option = "", ""
            if plan.private_tmp:
                problem, option = "commands cannot have a private /tmp here", ", or set `sandbox_private_tmp` to false"
            elif plan.network == "loopback":
                problem, option = (
                    "commands cannot have their own loopback network here",
                    ", or set `sandbox_loopback` to false",
                )
            elif plan.network == "proxy" and abi_version() < ABI_NETWORK:
                problem, option = "commands cannot be restricted to a network proxy here", ", or use Linux 6.7 or newer"
            elif plan.network == "proxy" and not self._hosts_by_port:
                problem = (
                    "commands cannot be restricted to some hosts here, only to the proxy's port numbers on any host"
                )
                option = ", or accept that: set `hosts_by_port = true` in [framework.plugins.landlock]"
            if problem:
                raise SandboxError(f"{problem}: {report.reason}", hint=(report.hint or HINT_FOR_NAMESPACES) + option)
        error = floor_error(plan, report) if plan.floor else None
        if error is not None:
            raise error

    async def start(self, plan: Plan, launch: Launch) -> ConfinedProcess:
        """Start a command in an instance for ``plan``.

        Raises:
            SandboxError, CommandFailed: As for :meth:`codex_framework.Confinement.start`.
        """
        from codex_plugin_landlock.instances import InstanceGone, InstanceRefused

        gate = _gate(plan, launch)
        plan = await self._resolved(plan)
        if plan.denies:  # symlinks in the path of the working directory may be denied
            launch = launch.evolve(cwd=os.path.realpath(launch.cwd))
        for _ in range(_ATTEMPTS):
            self.check(plan)
            try:
                if gate is not None and self.level == _LANDLOCK:
                    return await self._start_by_ports(plan, launch, gate)
                instance = self._take(plan)
                try:
                    return await instance.run(launch, lambda freed: self._release(plan, freed), gate)
                finally:
                    if not instance.alive:
                        self._busy.discard(instance)
            except InstanceGone:
                continue
            except InstanceRefused as refused:
                self._degrade(refused)
            except SandboxError as error:
                raise SandboxError(f"{error}{self._last_words()}", hint=error.hint, slug=error.slug) from error
        raise SandboxError(
            f"the sandbox ends immediately after its start{self._last_words()}",
            hint="look for a process that kills others (the system log names it)",
        )

    async def _resolved(self, plan: Plan) -> Plan:
        """Return the plan with its patterns resolved. The search runs in a thread, because it may take a while."""
        return await asyncio.to_thread(plan.resolved) if plan.globs else plan

    async def _start_by_ports(self, plan: Plan, launch: Launch, gate: NetworkGate) -> ConfinedProcess:
        """Start a command in a separate instance, where it may connect only to the gate's ports."""
        ports = await gate.listen()
        env = {**launch.env, **gate.environment(ports)}
        instance = self._open({**plan.data, "ports": [port for port in ports if port]}, _LANDLOCK, ())
        try:
            return await instance.run(launch.evolve(env=env), self._end)
        finally:
            if not instance.alive:
                self._busy.discard(instance)

    def _end(self, instance: Instance) -> None:
        self._busy.discard(instance)
        instance.close()

    async def examine(self) -> tuple[SandboxLayer, ...]:
        """Try each layer separately in a disposable process, regardless of the result of :meth:`probe`.

        Raises:
            SandboxError: The launcher does not start, or ended during the trials.
        """
        from codex_plugin_landlock.probe import layers_of

        if sys.platform != "linux":
            return ()
        return layers_of(await self._running().try_layers())

    async def warm(self, plan: Plan) -> None:
        """Start the launcher and an instance ahead of time, unless an instance exists. Does not wait until it is ready.

        Raises:
            SandboxError: The plan cannot be enforced here, or the launcher does not start.
        """
        plan = await self._resolved(plan)
        self._warm(plan)

    def _warm(self, plan: Plan) -> None:
        if self._busy or self._idle.get(plan.key):
            return
        self.check(plan)
        if plan.network == "proxy" and self.level == _LANDLOCK:
            self._running().ensure()  # an instance needs the ports, which differ for each command
            return
        instance = self._take(plan)
        instance.listen(lambda refused: self._on_refused(plan, instance, refused))
        self._release(plan, instance, _WARM_IDLE_S)

    def _on_refused(self, plan: Plan, instance: Instance, refused: InstanceRefused) -> None:
        idle = self._idle.get(plan.key, [])
        if instance in idle:
            idle.remove(instance)
        with contextlib.suppress(SandboxError):  # the first command gets the same error and reports it
            self._degrade(refused)
            self._warm(plan)

    def _last_words(self) -> str:
        log = self._launcher.log() if self._launcher is not None else ""
        return f" ({log.splitlines()[-1]})" if log else ""

    def _take(self, plan: Plan) -> Instance:
        from codex_plugin_landlock.plan import fits, signature

        level = self.level
        state = signature(plan, entries=level == _LANDLOCK)
        idle = self._idle.get(plan.key, [])
        while idle:
            instance = idle.pop()
            if instance.retire is not None:
                instance.retire.cancel()
            placed = level == _NAMESPACES and instance.ready
            if instance.level == level and fits(plan, instance.signature, state, placed=placed) and instance.alive:
                instance.signature = state
                self._busy.add(instance)
                return instance
            instance.close()
        return self._open(plan.data, level, state)

    def _open(self, data: Mapping[str, Any], level: str, state: tuple[object, ...]) -> Instance:
        from codex_plugin_landlock.instances import SET_UP_S

        if level == _LANDLOCK:
            from codex_plugin_landlock.plan import check_entries

            check_entries(data)

        def on_confined(enforced: Mapping[str, str]) -> None:
            self._confirm(level, enforced)

        set_up_s = self._set_up_s or SET_UP_S
        instance = self._running().open_instance(data, level, state, on_confined, set_up_s=set_up_s)
        self._busy.add(instance)
        return instance

    def _running(self) -> Launcher:
        if self._launcher is None:
            from codex_plugin_landlock.launcher import Launcher

            self._launcher = Launcher(self._python or sys.executable)
        return self._launcher

    def _confirm(self, level: str, enforced: Mapping[str, str]) -> None:
        """Store the protections that an instance has reported."""
        from codex_plugin_landlock.probe import with_enforced

        self._has_namespaces = self._has_namespaces or level == _NAMESPACES
        if level == self.level:
            self._report = with_enforced(self.probe(), enforced)

    def _release(self, plan: Plan, instance: Instance, idle_s: float = _IDLE_S) -> None:
        self._busy.discard(instance)
        idle = self._idle.setdefault(plan.key, [])
        if len(idle) >= _MAX_IDLE:
            instance.close()
            return
        idle.append(instance)
        instance.retire = asyncio.get_running_loop().call_later(idle_s, self._retire, plan, instance)

    def _retire(self, plan: Plan, instance: Instance) -> None:
        idle = self._idle.get(plan.key, [])
        if instance in idle:
            idle.remove(instance)
        instance.close()

    def _degrade(self, refused: InstanceRefused) -> None:
        """Switch to the level without namespaces if this machine refuses namespaces. The command was not started yet.

        Namespaces that have worked before are not given up, because an earlier command may be the reason why they fail now.

        Raises:
            SandboxError: Another layer failed, something was scarce, or namespaces are required or have worked before.
        """
        from codex_plugin_landlock.probe import HINT_FOR_FLOOR, HINT_FOR_NAMESPACES, below_floor

        if refused.stage == "floor":
            raise below_floor(refused.text, self.probe().hint or HINT_FOR_FLOOR)
        is_scarce = refused.number in _SCARCE
        if refused.stage != _NAMESPACES or self._wanted == _NAMESPACES or self._has_namespaces or is_scarce:
            hint = {_NAMESPACES: HINT_FOR_NAMESPACES, "mounts": _PATHS}.get(refused.stage, _EXAMINE)
            raise SandboxError(
                f"the sandbox could not be set up ({refused.stage}): {refused.text}",
                hint=_END_OTHERS if is_scarce else hint,
            ) from OSError(refused.number, refused.text)
        self._report = self._reduced(refused.text, HINT_FOR_NAMESPACES)

    def _reduced(self, reason: str, hint: str) -> SandboxReport:
        from codex_plugin_landlock.jail.landlock import abi_version
        from codex_plugin_landlock.probe import reduced_report

        return reduced_report(abi_version(), reason, hint)

    async def aclose(self) -> None:
        """End the launcher and all instances with their commands. May be called more than once."""
        idle = not self._busy
        for instance in (*self._busy, *(instance for unused in self._idle.values() for instance in unused)):
            instance.close()
        self._busy.clear()
        self._idle.clear()
        if self._launcher is not None:
            await self._launcher.aclose(idle=idle)


def _gate(plan: Plan, launch: Launch) -> NetworkGate | None:
    """Return the gate for a command's traffic, or None if the plan needs none.

    Raises:
        SandboxError: The plan requires a gate, but the launch has none.
    """
    if plan.network != "proxy":
        return None
    if launch.gate is None:
        raise SandboxError(
            "commands may use the network only through a proxy, and this command has none",
            hint="enable a plugin that offers a network proxy, or choose permissions without allowed hosts",
        )
    return launch.gate


class LandlockConfinement(Confinement):
    """A confinement that starts processes under a plan."""

    def __init__(self, sandbox: LandlockSandbox, plan: Plan) -> None:
        self._sandbox = sandbox
        self.plan = plan

    @property
    def env(self) -> Mapping[str, str]:
        """The environment variables that describe the network.

        ``CODEX_SANDBOX_NETWORK_DISABLED=1`` means that nothing outside can be reached. ``CODEX_NETWORK_PROXY_ACTIVE=1`` means
        that a proxy is used.
        """
        return dict(_NETWORK_VARIABLES[self.plan.network])

    async def start(self, launch: Launch) -> ConfinedProcess:
        """Start a process under the plan.

        Raises:
            SandboxError: The sandbox cannot enforce the plan. The command was not started.
            CommandFailed: The program or folder does not exist, or the program cannot be executed.
        """
        return await self._sandbox.start(self.plan, launch)

    async def warm(self) -> None:
        """Start the launcher and one instance without waiting for them. Errors are ignored; the first command reports them."""
        with contextlib.suppress(SandboxError):
            await self._sandbox.warm(self.plan)
