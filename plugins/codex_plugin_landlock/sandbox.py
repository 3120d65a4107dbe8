"""The ``landlock`` sandbox: plans, and a pool of confined instances for each."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework import FileAccess, Launch, SandboxError, SandboxReport
from codex_plugin_landlock.plan import Plan, check_entries, fits, plan_for, signature

if TYPE_CHECKING:
    from codex_framework.roles.networks import NetworkGate
    from codex_framework.roles.sandboxes import SandboxLayer
    from codex_plugin_landlock.instances import ConfinedProcess, Instance, InstanceRefused
    from codex_plugin_landlock.launcher import Launcher

__all__ = ["LandlockConfinement", "LandlockSandbox"]

_IDLE_S = 5.0
"""How long an unused instance stays, with its placeholders for protected names that do not exist."""

_WARM_IDLE_S = 30.0
"""The same for one that was started ahead: models think for longer than that, but a new one costs little by then."""

_MOST_IDLE = 4
_ATTEMPTS = _MOST_IDLE + 3
"""How many instances are tried for one command: all idle ones may have been killed meanwhile."""

_NAMESPACES, _LANDLOCK = "namespaces", "landlock"

_PATHS = "check the folders and files that the permissions name"
_EXAMINE = "run `codex-framework sandbox doctor`, which tries every layer"
"""What to do about mounts that could not be made, and about other layers."""

_DISABLED = {"CODEX_SANDBOX_NETWORK_DISABLED": "1"}
_TOLD: dict[str, dict[str, str]] = {
    "off": _DISABLED,
    "loopback": _DISABLED,
    "proxy": {"CODEX_NETWORK_PROXY_ACTIVE": "1"},
    "on": {},
}
"""Variables that tell a command about its network (Codex's names)."""


class LandlockSandbox:
    """Confines commands on Linux by namespaces, Landlock and seccomp, or by the last two where namespaces are refused.

    Args:
        level: ``namespaces``: that or nothing. ``landlock``: without namespaces, for tests. None: the best there is.
        python: The interpreter for the launcher (3.11 or newer); None is this process's own.
        set_up_s: How long confining a process may take until it is given up; None: 10 s.
    """

    name = "landlock"

    def __init__(self, level: str | None = None, *, python: str | None = None, set_up_s: float | None = None) -> None:
        self._wanted = level
        self._python = python
        self._set_up_s = set_up_s
        self._report: SandboxReport | None = None
        self._launcher: Launcher | None = None
        self._idle: dict[str, list[Instance]] = {}
        self._busy: set[Instance] = set()

    def probe(self) -> SandboxReport:
        """What works here: first by what the system says of itself, once something has run by what that was confined by."""
        if self._report is None:
            from codex_plugin_landlock.probe import FULL_LEVEL, probe

            report = probe()
            if report.available and self._wanted == _NAMESPACES and report.level != FULL_LEVEL:
                report = SandboxReport(available=False, level=report.level, reason=report.reason, cure=report.cure)
            elif report.available and self._wanted == _LANDLOCK and report.level == FULL_LEVEL:
                report = self._reduced("they are switched off by the caller", "switch them on")
            self._report = report
        return self._report

    def confine(self, access: FileAccess, cwd: Path) -> LandlockConfinement:  # noqa: ARG002  # nothing depends on it
        """The plan for an access.

        Raises:
            SandboxError: It cannot be enforced here.
        """
        report = self.probe()
        if not report.available:
            raise SandboxError(f"the landlock sandbox does not work here: {report.reason}", hint=report.cure)
        plan = plan_for(access)
        self.check(plan)
        return LandlockConfinement(self, plan)

    @property
    def level(self) -> str:
        """``namespaces`` or ``landlock``."""
        from codex_plugin_landlock.probe import FULL_LEVEL

        return _NAMESPACES if self.probe().level == FULL_LEVEL else _LANDLOCK

    def check(self, plan: Plan) -> None:
        """Refuse what the level cannot enforce, or does not hold back though the plan's floor demands it.

        Raises:
            SandboxError: As said.
        """
        from codex_plugin_landlock.jail.landlock import ABI_NETWORK, abi_version
        from codex_plugin_landlock.probe import CURE_OF_NAMESPACES, floor_error

        report = self.probe()
        if self.level == _LANDLOCK:
            wanted, also = "", ""
            if plan.private_tmp:
                wanted, also = "commands cannot have a /tmp of their own here", ", or switch `sandbox_private_tmp` off"
            elif plan.network == "loopback":
                wanted, also = "commands cannot be given a loopback network of their own here", ", or switch it off"
            elif plan.network == "proxy" and abi_version() < ABI_NETWORK:
                wanted, also = "commands cannot be kept to a network proxy here", ", or use Linux 6.7 or newer"
            if wanted:
                raise SandboxError(f"{wanted}: {report.reason}", hint=(report.cure or CURE_OF_NAMESPACES) + also)
        error = floor_error(plan, report) if plan.floor else None
        if error is not None:
            raise error

    async def start(self, plan: Plan, launch: Launch) -> ConfinedProcess:
        """Start a command in an instance of ``plan``. Raises as :meth:`codex_framework.Confinement.start`."""
        from codex_plugin_landlock.instances import InstanceGone, InstanceRefused

        gate = _gate(plan, launch)
        plan = await self._resolved(plan)
        if plan.denies:  # symlinks on the way to the folder may be among what is denied
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
            f"the sandbox ends as soon as it is started{self._last_words()}",
            hint="look for a process that kills others (the system's log names it)",
        )

    async def _resolved(self, plan: Plan) -> Plan:
        """With what its patterns match now; looking for that may take a while."""
        return await asyncio.to_thread(plan.resolved) if plan.globs else plan

    async def _start_by_ports(self, plan: Plan, launch: Launch, gate: NetworkGate) -> ConfinedProcess:
        """Start a command that may connect to the gate's ports and nothing else, in an instance for it alone."""
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
        """Try every layer by itself in a process that is thrown away, whatever :meth:`probe` says.

        Raises:
            SandboxError: The launcher does not start, or it ended over that.
        """
        from codex_plugin_landlock.probe import layers_of

        if sys.platform != "linux":
            return ()
        return layers_of(await self._running().tried())

    async def warm(self, plan: Plan) -> None:
        """Start the launcher and an instance ahead, unless one is there. It gets ready by itself; nobody waits for it.

        Raises:
            SandboxError: It cannot be enforced here, or the launcher does not start.
        """
        plan = await self._resolved(plan)
        self._warm(plan)

    def _warm(self, plan: Plan) -> None:
        if self._busy or self._idle.get(plan.key):
            return
        self.check(plan)
        if plan.network == "proxy" and self.level == _LANDLOCK:
            self._running().ensure()  # an instance needs to know the ports, which are another command's each time
            return
        instance = self._take(plan)
        instance.listen(lambda refused: self._learn(plan, instance, refused))
        self._release(plan, instance, _WARM_IDLE_S)

    def _learn(self, plan: Plan, instance: Instance, refused: InstanceRefused) -> None:
        idle = self._idle.get(plan.key, [])
        if instance in idle:
            idle.remove(instance)
        with contextlib.suppress(SandboxError):  # the first command meets it again, and can tell it
            self._degrade(refused)
            self._warm(plan)

    def _last_words(self) -> str:
        log = self._launcher.log() if self._launcher is not None else ""
        return f" ({log.splitlines()[-1]})" if log else ""

    def _take(self, plan: Plan) -> Instance:
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
            check_entries(data)

        def told(enforced: Mapping[str, str]) -> None:
            self._confirm(level, enforced)

        set_up_s = self._set_up_s or SET_UP_S
        instance = self._running().open_instance(data, level, state, told, set_up_s=set_up_s)
        self._busy.add(instance)
        return instance

    def _running(self) -> Launcher:
        if self._launcher is None:
            from codex_plugin_landlock.launcher import Launcher

            self._launcher = Launcher(self._python or sys.executable)
        return self._launcher

    def _confirm(self, level: str, enforced: Mapping[str, str]) -> None:
        """Take over what an instance says it is confined by."""
        from codex_plugin_landlock.probe import learned

        if level == self.level:
            self._report = learned(self.probe(), enforced)

    def _release(self, plan: Plan, instance: Instance, idle_s: float = _IDLE_S) -> None:
        self._busy.discard(instance)
        idle = self._idle.setdefault(plan.key, [])
        if len(idle) >= _MOST_IDLE:
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
        """Go on without namespaces if it is they that are refused; nothing has run yet.

        Raises:
            SandboxError: It was something else, or namespaces are demanded.
        """
        from codex_plugin_landlock.probe import CURE_OF_FLOOR, CURE_OF_NAMESPACES, below_floor

        if refused.stage == "floor":
            raise below_floor(refused.text, self.probe().cure or CURE_OF_FLOOR)
        if refused.stage != _NAMESPACES or self._wanted == _NAMESPACES:
            raise SandboxError(
                f"the sandbox could not be set up ({refused.stage}): {refused.text}",
                hint={_NAMESPACES: CURE_OF_NAMESPACES, "mounts": _PATHS}.get(refused.stage, _EXAMINE),
            )
        self._report = self._reduced(refused.text, CURE_OF_NAMESPACES)

    def _reduced(self, reason: str, cure: str) -> SandboxReport:
        from codex_plugin_landlock.jail.landlock import abi_version
        from codex_plugin_landlock.probe import reduced_report

        return reduced_report(abi_version(), reason, cure)

    async def aclose(self) -> None:
        """End all instances, with what runs in them, and the launcher. Safe to call twice."""
        idle = not self._busy
        for instance in (*self._busy, *(one for unused in self._idle.values() for one in unused)):
            instance.close()
        self._busy.clear()
        self._idle.clear()
        if self._launcher is not None:
            await self._launcher.aclose(idle=idle)


def _gate(plan: Plan, launch: Launch) -> NetworkGate | None:
    """The gate that is to carry a command's traffic.

    Raises:
        SandboxError: The plan demands one, and there is none.
    """
    if plan.network != "proxy":
        return None
    if launch.gate is None:
        raise SandboxError(
            "commands may reach the network by a proxy only, and this one has none",
            hint="enable a plugin that brings a network proxy, or choose permissions without allowed hosts",
        )
    return launch.gate


class LandlockConfinement:
    """A plan that is ready to start processes."""

    def __init__(self, sandbox: LandlockSandbox, plan: Plan) -> None:
        self._sandbox = sandbox
        self.plan = plan

    @property
    def env(self) -> Mapping[str, str]:
        """``CODEX_SANDBOX_NETWORK_DISABLED=1`` where nothing outside can be reached, ``CODEX_NETWORK_PROXY_ACTIVE=1`` by proxy."""
        return dict(_TOLD[self.plan.network])

    async def start(self, launch: Launch) -> ConfinedProcess:
        """Start a process under the plan.

        Raises:
            SandboxError: It cannot be confined; nothing of it has run.
            CommandFailed: The program or folder does not exist or cannot be executed.
        """
        return await self._sandbox.start(self.plan, launch)

    async def warm(self) -> None:
        """Get the launcher and one instance going; does not wait for them. Errors are left to the first start."""
        with contextlib.suppress(SandboxError):
            await self._sandbox.warm(self.plan)
