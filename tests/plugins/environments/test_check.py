"""The check of environments passes for a real one, and finds those that do not keep to the role."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from codex_framework import CommandFailed, EnvironmentInfo, FileAccess, SandboxError
from codex_framework.contract.permissions.file_access import NetworkMode
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.contract.roles.sandboxes import Confinement, Launch
from codex_framework.testing import ContractViolation, check_environment
from codex_plugin_environments.configuration import Place
from codex_plugin_environments.environment import RemoteEnvironment
from codex_plugin_environments.files import RemoteFiles
from tests.plugins.environments.conftest import Machine

pytestmark = pytest.mark.slow

FULL = FileAccess(full=True, network=NetworkMode.ON, elsewhere=True)
NOTHING = FileAccess(otherwise=AccessMode.READ, elsewhere=True)


def place(box: Machine) -> Place:
    env = {"HOME": str(box.home), "CODEX_HOME": str(box.home)}
    return Place(id="box", program=box.binary, args=("exec-server", "--listen", "stdio"), env=env)


def test_an_exec_server_fulfils_the_role(box: Machine) -> None:
    environment = RemoteEnvironment(place(box), {"PATH": os.environ["PATH"]})
    check_environment(environment, str(box.work), close=environment.aclose)


class Changed(RemoteEnvironment):
    """The bundled environment, with parts that are not as they should be."""

    def __init__(self, box: Machine) -> None:
        super().__init__(place(box), {"PATH": os.environ["PATH"]})


def violations(environment: Any, box: Machine) -> str:
    with pytest.raises(ContractViolation) as caught:
        check_environment(environment, str(box.work), close=environment.aclose)
    return "\n".join(caught.value.violations)


def missing(found: str, *texts: str) -> list[str]:
    return [text for text in texts if text not in found]


def test_an_environment_without_limits_is_found(box: Machine) -> None:
    class Open(Changed):
        def confine(self, access: FileAccess, cwd: str, variables: Any) -> Any:
            return super().confine(FULL, cwd, {})

        def files(self, access: FileAccess, cwd: str) -> Any:
            return super().files(FULL, cwd)

    found = violations(Open(box), box)
    assert not missing(
        found,
        "a command can write outside of its folders",
        "a command can write through a symlink that leads out",
        "a command can write into a protected folder",
        "a command can write where nothing may be written",
        "a command can read what it may not (private)",
        "a command can read what it may not (link)",
        "folder and variables come as",
        "confine() takes a network through a proxy and does not enforce it; it must raise SandboxError",
        "confine() takes a limit on memory and does not enforce it; it must raise SandboxError",
        "write() outside of the folders returns None; it must raise PermissionError",
        "write() or remove() outside of the folders has an effect",
        "write() or remove() through a symlink that leads out has an effect",
        "write() or remove() in a protected folder has an effect",
        "write() or remove() where nothing may be written has an effect",
        "read() of what must not be read (private) returns b'kept\\n'; it must raise PermissionError",
        "read() of what must not be read (link) returns b'kept\\n'; it must raise PermissionError",
        "write() of what was approved for others returns None; it must raise PermissionError",
        "write() beside what was approved returns None; it must raise PermissionError",
    )


def test_an_environment_that_permits_nothing_is_found(box: Machine) -> None:
    class Shut(Changed):
        def confine(self, access: FileAccess, cwd: str, variables: Any) -> Any:
            return super().confine(access if access.full else NOTHING, cwd, variables)

        def files(self, access: FileAccess, cwd: str) -> Any:
            found = super().files(access, cwd)
            return found if access.full else Refusing(found)

    class Refusing(RemoteFiles):
        def __init__(self, files: RemoteFiles) -> None:
            super().__init__(files._call_server, NOTHING, files._cwd)

        def with_writable(self, paths: Any) -> Any:
            return self

    found = violations(Shut(box), box)
    assert not missing(
        found,
        "a command cannot write where it may",
        "write() below folders that do not exist raises PermissionError",
        "write() of what was approved raises PermissionError",
    )


def test_wrong_words_about_itself_are_found(box: Machine) -> None:
    class Odd(Changed):
        def __init__(self, box: Machine) -> None:
            super().__init__(box)
            self.id = "local"

        info: Any = 7
        fault: Any = "unwell"

        async def connect(self) -> Any:
            info = await super().connect()
            return info.evolve(shell=f"sh{id(asyncio.current_task())}")

    found = violations(Odd(box), box)
    assert not missing(
        found,
        "its id is 'local'",
        "its info is 7, neither None nor EnvironmentInfo",
        "three calls of connect() return [",
        "), its info is 7\n",
        "its fault is 'unwell', not an empty text",
    )


def test_a_shell_without_a_whole_path_and_plans_that_are_none_are_found(box: Machine) -> None:
    class Odd(Changed):
        @property
        def info(self) -> Any:
            return EnvironmentInfo(shell="sh", home="~", temporary="tmp")

        async def connect(self) -> Any:
            return self.info

        def confine(self, access: FileAccess, cwd: str, variables: Any) -> Any:
            return None

    class None_(Odd):
        def files(self, access: FileAccess, cwd: str) -> Any:
            return None

    found = violations(Odd(box), box)
    assert not missing(
        found, "the shell of its info is 'sh'", "the home of its info is '~'", "the temporary of its info"
    )
    assert "it has no async def start(self, launch)" in found
    assert "it has no async def read(self, path, limit)" in violations(None_(box), box)


def test_an_environment_that_cannot_be_reached_is_found(box: Machine) -> None:
    environment = RemoteEnvironment(Place(id="box", program="/no/such/program"), {})
    assert "connect() raises ConnectionError: the environment `box` cannot be used" in violations(environment, box)


def test_wrong_processes_are_found(box: Machine) -> None:
    class Process:
        def __init__(self, child: Any) -> None:
            self._child = child
            self.waits = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._child, name)

        pid = 4711

        def signal(self, number: int) -> None:
            if self._child._status is not None:
                raise ProcessLookupError
            self._child.lost("not ended at all")

        async def wait(self) -> int:
            self.waits += 1
            return int(await self._child.wait()) + self.waits

        def take_terminal(self) -> None:
            return None

    class Plan(Confinement):
        def __init__(self, plan: Any) -> None:
            self._plan = plan

        async def start(self, launch: Launch) -> Any:
            if launch.argv[0] == "/no/such/program-4711":
                raise CommandFailed("")
            if launch.cwd.endswith("folder"):
                raise SandboxError("?")
            env = {} if "GIVEN" in launch.env else launch.env
            return Process(await self._plan.start(launch.evolve(stderr=launch.stdout, cwd="/", env=env)))

    class Wrong(Changed):
        def confine(self, access: FileAccess, cwd: str, variables: Any) -> Any:
            return Plan(super().confine(access, cwd, variables))

    found = violations(Wrong(box), box)
    assert not missing(
        found,
        "a command that exits with 7 gives status 8",
        "what a command writes to stderr comes as ''",
        "folder and variables come as '",
        "six commands at once give [(1, '0\\n')",
        "starting with a program that does not exist raises a CommandFailed without text",
        "starting with a folder that does not exist raises SandboxError (?), not CommandFailed",
        "the pid of a process there is 4711, not 0",
        "two waits for a killed child give 256 and 257",
        "signal() after the end raises ProcessLookupError",
        "a signal does not reach the whole group: a background child lives on",
        "take_terminal() returns None",
    )


def test_wrong_files_are_found(box: Machine) -> None:
    class Files(RemoteFiles):
        async def read(self, path: str, limit: int) -> bytes:
            try:
                data = await super().read(path, 10_000_000)
            except FileNotFoundError:
                raise OSError("gone") from None
            return data.replace(b"\xff", b"?")

        async def write(self, path: str, data: bytes) -> None:
            if path.endswith("/approved"):
                self._access = FULL
            await super().write(path, data)

        async def list(self, path: str) -> Any:
            return [] if path.endswith("none") else list(reversed(await super().list(path)))

        async def real_path(self, path: str) -> str:
            return path

        async def remove(self, path: str) -> None:
            if "alias" in path or "data" in path:
                return
            await super().remove(path)

    class Wrong(Changed):
        def files(self, access: FileAccess, cwd: str) -> Any:
            return super().files(access, cwd) if access.full else Files(self.call, access, cwd)

    found = violations(Wrong(box), box)
    assert not missing(
        found,
        "a file is not read as it was written",
        "read() of more bytes than its limit returns",
        "read() of a file that does not exist raises OSError (gone), not FileNotFoundError",
        "list() of a folder that does not exist returns []; it must raise FileNotFoundError",
        "list() returns [('private', ",
        "real_path() of a path through a symlink returns",
        "remove() of a symlink does not remove the symlink alone",
        "remove() leaves a file",
        "remove() of a file that does not exist returns None; it must raise FileNotFoundError",
        "write() of what was approved for others returns None; it must raise PermissionError",
    )


def test_output_that_is_lost_and_terminals_that_are_none_are_found(box: Machine) -> None:
    class Plan(Confinement):
        def __init__(self, plan: Any) -> None:
            self._plan = plan

        async def start(self, launch: Launch) -> Any:
            argv = launch.argv
            if "head" in argv[-1]:
                argv = (*argv[:-1], f"{argv[-1]} | tail -c +2")
            if launch.tty:
                argv = (*argv[:-1], "cat < /dev/null")
            if argv[0] == "/no/such/program-4711":
                argv = ("/bin/sh", "-c", "exit 0")
            return await self._plan.start(launch.evolve(argv=argv))

    class Wrong(Changed):
        def confine(self, access: FileAccess, cwd: str, variables: Any) -> Any:
            return Plan(super().confine(access, cwd, variables))

    found = violations(Wrong(box), box)
    assert not missing(
        found,
        "of 3000000 bytes of output 2999999 come",
        "a command with a program that does not exist ends with status 0",
        "with tty, the command's input and output are no terminals",
        "with tty, what is typed does not reach the command",
    )
