"""The sandbox ``docker``: commands run in a container, one for each plan."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from codex_contrib_docker.settings import DockerSettings
from codex_framework import (
    CommandFailed,
    Confinement,
    FileAccess,
    Launch,
    NetworkMode,
    Protection,
    Sandbox,
    SandboxError,
    SandboxReport,
)
from codex_lib_confinement.launching import check_floor, check_text, start_error, within_reach

if TYPE_CHECKING:
    from codex_contrib_docker.container import RunningContainer
    from codex_contrib_docker.engine import Engine
    from codex_contrib_docker.process import DockerProcess

__all__ = ["DockerConfinement", "DockerSandbox"]

_PROBE_S = 3.0
"""Time limit in seconds. An engine usually responds in 50 ms, but the result is kept for the kernel's life, so busy ones get more
time."""
_NO_IMAGE = (
    'set `[framework.plugins.docker] image = "..."` to an available image that has the programs that commands need'
)
_NO_ENGINE = "install Docker or Podman, or set `[framework.plugins.docker] engine`"
_ERRORS = {"missing": errno.ENOENT, "refused": errno.EACCES, "folder": errno.ENOENT}


class DockerSandbox(Sandbox):
    """Confines commands in containers of Docker or Podman.

    Args:
        settings: The settings of the plugin.
        search: The search path for the engine's program, instead of ``PATH``.
    """

    name = "docker"
    close_timeout_s = 30.0  # an engine under load takes several seconds to remove a container

    def __init__(self, settings: DockerSettings | None = None, *, search: str | None = None) -> None:
        self.settings = settings or DockerSettings()
        self._search = search
        self._report: SandboxReport | None = None
        self._engine: Engine | None = None
        self._folder: Path | None = None
        self._plans: list[DockerConfinement] = []

    def probe(self) -> SandboxReport:
        """Report whether there is an engine with the image. The engine is called once."""
        if self._report is None:
            self._report = self._probed()
        return self._report

    def confine(self, access: FileAccess, cwd: Path) -> DockerConfinement:
        """Return the plan for an access.

        Raises:
            SandboxError: A container cannot enforce it.
        """
        from codex_contrib_docker.layout import layout_of

        report = self.probe()
        if not report.available:
            raise SandboxError(f"containers do not work here: {report.reason}", slug="no-sandbox", hint=report.hint)
        check_floor("a container", report, access, bounds_memory=self.settings.memory_mb is not None)
        if access.network is NetworkMode.PROXY:
            raise SandboxError(
                "a container has the whole network or none; it cannot be restricted to a proxy",
                hint="use another sandbox (`[framework] sandbox`), or choose a profile without allowed hosts",
            )
        layout_of(access, os.path.realpath(cwd), self.settings.folders)  # raises an error for an impossible access
        engine = self.engine
        if within_reach(engine.program, access, cwd):
            raise SandboxError(
                f"{engine.program} is in a place that commands can write to, so it cannot be trusted to confine them",
                hint="set `[framework.plugins.docker] engine` to a program outside of the writable folders",
            )
        plan = DockerConfinement(self, access, os.path.realpath(cwd))
        self._plans.append(plan)
        return plan

    @property
    def engine(self) -> Engine:
        """Return the engine.

        Raises:
            SandboxError: No engine was found.
        """
        if self._engine is None:
            raise SandboxError("there is no container engine", slug="no-sandbox", hint=_NO_ENGINE)
        return self._engine

    def folder(self) -> Path:
        """Return the folder for files exchanged with containers, created at first use."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="codex-docker-")).resolve()
        return self._folder

    async def aclose(self) -> None:
        """End all containers and their commands. Safe to call twice."""
        plans, self._plans = self._plans, []
        await asyncio.gather(*(plan.aclose() for plan in plans))
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _probed(self) -> SandboxReport:
        from codex_contrib_docker.engine import Engine, find, refusal

        search = os.environ.get("PATH", os.defpath) if self._search is None else self._search
        if sys.platform == "win32":
            return SandboxReport(available=False, reason="containers on Windows are not supported", hint="use WSL")
        if self.settings.image is None:
            return SandboxReport(available=False, reason="no image is configured", hint=_NO_IMAGE)
        program = next(find(self.settings.engine, search), None)
        if program is None:
            what = self.settings.engine or "docker or podman"
            return SandboxReport(available=False, reason=f"there is no {what} here", hint=_NO_ENGINE)
        self._engine = Engine(program, self.settings.timeout_s)
        status, said = self._engine.ask(
            "image", "inspect", "--format", "{{.Id}}", self.settings.image, within_s=_PROBE_S
        )
        if status != 0:
            fault = refusal(Path(program).name, said)
            return SandboxReport(available=False, reason=str(fault), hint=fault.hint)
        return _report(Path(program).name, self.settings)


def _report(engine: str, settings: DockerSettings) -> SandboxReport:
    return SandboxReport(
        available=True,
        level=f"{engine} container",
        protections={
            Protection.WRITING: "read-only container, read-only mounts",
            Protection.METADATA: "read-only container, read-only mounts",
            Protection.PROTECTED_NAMES: "read-only mounts; missing ones by a placeholder while a container lives",
            Protection.READING: "only mounted paths exist",
            Protection.PROCESSES: "process namespace",
            Protection.SIGNALS: "process namespace",
            Protection.SHARED_MEMORY: "IPC namespace, own /dev/shm",
            Protection.NETWORK: "network namespace",
            Protection.PROCESS_COUNT: "--pids-limit, for all commands of a container together",
            Protection.RESOURCES: "--memory, file size limit, where configured",
        },
        partly={
            Protection.TERMINALS: "own /dev/pts: the user's terminals are not there; typing into the command's own is not prevented",
            Protection.UNIX_SOCKETS: "those in mounted folders can be reached, and abstract ones where the network is on",
            Protection.KERNEL: "no capabilities, no_new_privs, and the engine's own system-call filter, which lets more through",
            Protection.LIFETIME: "a command's process group ends with it; processes that have left the group end with the container",
        },
        reason="commands of one plan share a container" if settings.image else "",
    )


class DockerConfinement(Confinement):
    """A plan that is ready to start processes, all in one container."""

    def __init__(self, sandbox: DockerSandbox, access: FileAccess, cwd: str) -> None:
        self._sandbox = sandbox
        self._access = access
        self._cwd = cwd
        self._containers: list[RunningContainer] = []
        self._processes: set[DockerProcess] = set()
        self._making = asyncio.Lock()

    @property
    def env(self) -> Mapping[str, str]:
        """``CODEX_SANDBOX_NETWORK_DISABLED=1`` if there is no network."""
        return {} if self._access.network is NetworkMode.ON else {"CODEX_SANDBOX_NETWORK_DISABLED": "1"}

    async def start(self, launch: Launch) -> DockerProcess:
        """Start a process under the plan.

        Raises:
            SandboxError: It cannot be confined. It was not started.
            CommandFailed: The program or folder does not exist in the container or cannot be executed.
        """
        check_text(launch.argv, launch.env)
        _check_names(launch.env)
        for last in (False, True):
            container = await self._container()
            process = await self._exec(container, launch)
            try:
                word = await process.started(self._sandbox.settings.timeout_s)
            except BaseException:
                await process.abandon()
                raise
            if not word:
                return process
            if word in _ERRORS:
                raise _start_failure(word, launch)
            await process.abandon()
            if word == "late":
                raise SandboxError(
                    f"the engine did not start the command within {self._sandbox.settings.timeout_s:g} s",
                    hint="check whether the engine works, or raise `[framework.plugins.docker] timeout_s`",
                )
            status, said = await self._sandbox.engine.call("exec", container.name, "sh", "-c", ":")
            if status == 0 or last:
                from codex_contrib_docker.engine import refusal

                raise refusal("the engine has ended without starting the command", said or container.last_words())
            await self._drop(container)  # the container was killed from outside, and nothing has run, so use a new one
        raise AssertionError("unreachable")

    async def warm(self) -> None:
        """Create the container. Errors are ignored here, because the first command reports them."""
        import contextlib

        with contextlib.suppress(SandboxError):
            await self._container()

    async def aclose(self) -> None:
        """End the containers. Safe to call twice."""
        async with self._making:
            await asyncio.gather(*(container.aclose() for container in self._containers))
            self._containers.clear()
        await asyncio.gather(*(process.aclose() for process in list(self._processes)))

    async def _container(self) -> RunningContainer:
        """Return the running container.

        Start a new one if it is missing, or if files that mounts depend on were created or removed.
        """
        from codex_contrib_docker.arguments import Container
        from codex_contrib_docker.container import RunningContainer
        from codex_contrib_docker.layout import covers, layout_of

        async with self._making:
            settings = self._sandbox.settings
            own = (str(self._sandbox.folder()),)
            layout = await asyncio.to_thread(layout_of, self._access, self._cwd, settings.folders, own)
            for running in self._containers:
                if running.alive and running.container.layout.mounts == layout.mounts:
                    return running
            assert settings.image is not None
            name = f"codex-{os.getpid()}-{secrets.token_hex(6)}"
            status = self._sandbox.folder() / name
            status.mkdir(mode=0o700)
            hiding = self._sandbox.folder() / f"{name}-covers"
            hiding.mkdir(mode=0o755)
            made = RunningContainer(
                self._sandbox.engine,
                Container(
                    image=settings.image,
                    name=name,
                    layout=layout,
                    network=self._access.network,
                    limits=self._access.limits,
                    owner=(os.getuid(), os.getgid()),
                    keep_id=self._sandbox.engine.keeps_id,
                    memory_mb=settings.memory_mb,
                    status=str(status),
                    covers=covers(layout, hiding),
                ),
            )
            await made.start()
            self._containers.append(made)
            return made

    async def _drop(self, container: RunningContainer) -> None:
        async with self._making:
            if container in self._containers:
                self._containers.remove(container)
            await container.aclose()

    async def _exec(self, container: RunningContainer, launch: Launch) -> DockerProcess:
        from codex_contrib_docker.arguments import exec_words
        from codex_contrib_docker.process import DockerProcess

        engine = self._sandbox.engine
        token = secrets.token_hex(8)
        listed = self._sandbox.folder() / f"env-{token}"
        listed.touch(mode=0o600)
        plain = (f"{name}={value}\n" for name, value in launch.env.items() if "\n" not in value)
        listed.write_bytes(b"".join(map(os.fsencode, plain)))
        words = exec_words(
            container.name,
            token=token,
            argv=launch.argv,
            cwd=launch.cwd,
            env=launch.env,
            env_file=str(listed),
            tty=launch.tty,
        )
        try:
            client = await asyncio.create_subprocess_exec(
                engine.program,
                *words,
                stdin=launch.stdin,
                stdout=launch.stdout,
                stderr=launch.stderr,
                start_new_session=True,
            )
        except OSError as error:
            listed.unlink()
            if error.errno == errno.E2BIG:
                raise start_error(errno.E2BIG, hint="Shorten the command line.") from error
            raise SandboxError(f"{engine.program} cannot be run: {error.strerror}", hint=_NO_ENGINE) from error

        def ended() -> None:
            self._processes.discard(process)
            listed.unlink(missing_ok=True)
            status.unlink(missing_ok=True)

        status = Path(container.container.status) / token
        process = DockerProcess(engine, client, container.name, str(status), ended)
        self._processes.add(process)
        return process


def _start_failure(word: str, launch: Launch) -> CommandFailed:
    what = launch.cwd if word == "folder" else launch.argv[0] if launch.argv else ""
    hint = f"Check that {what!r} is in the image or in a folder that is mounted (`[framework.plugins.docker] folders`)."
    return start_error(_ERRORS[word], hint=hint)


def _check_names(env: Mapping[str, str]) -> None:
    """Refuse variables whose names a file of variables cannot contain."""
    wrong = next((name for name in env if "\n" in name or name.startswith("#")), None)
    if wrong is not None:
        raise CommandFailed(f"a variable cannot have the name {wrong!r}", hint="Rename the variable.")
