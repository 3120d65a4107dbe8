from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from codex_framework.commands.process.login import LoginEnvironments
from codex_framework.commands.process.running import start_command
from codex_framework.commands.process.spawn import Unconfined
from codex_framework.contract.errors import SandboxError
from codex_framework.contract.roles.sandboxes import ChildProcess, Launch

UNCONFINED = Unconfined()


def environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": os.environ["PATH"], "DROPPED": "1", "KEPT": "é", "PWD": "/elsewhere"}


def find(home: Path, shell: str = "/bin/sh", **options: int) -> dict[str, str] | None:
    async def main() -> dict[str, str] | None:
        environments = LoginEnvironments(**options)
        try:
            return await environments.find(UNCONFINED, shell, environment(home))
        finally:
            await environments.aclose()

    return asyncio.run(main())


def test_commands_get_what_the_profile_exports(tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text(
        'echo noise; echo more >&2\nexport PATH="$HOME/bin:$PATH" LINES2="a\nb=c"\nunset DROPPED\nLOCAL=1\n'
    )
    found = find(tmp_path)
    assert found is not None
    assert found["PATH"].startswith(f"{tmp_path}/bin:")
    assert (found["LINES2"], found["KEPT"], found["PWD"]) == ("a\nb=c", "é", "/elsewhere")
    assert {"DROPPED", "LOCAL", "SHLVL", "_"}.isdisjoint(found)


def test_a_plain_shell_with_it_sees_what_a_login_shell_sees(tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text("export ADDED=1\n")

    async def printed(flag: str, env: dict[str, str]) -> list[str]:
        argv = ("/bin/sh", flag, "env | grep -v -E '^(SHLVL|_|PWD|OLDPWD)=' | sort")
        command = await start_command(Unconfined(), argv=argv, cwd="/", env=env)
        return (await command.wait()).output.splitlines()

    async def main() -> tuple[list[str], list[str]]:
        env = environment(tmp_path)
        found = await LoginEnvironments().find(UNCONFINED, "/bin/sh", env)
        assert found is not None
        return await printed("-c", found), await printed("-lc", env)

    plain, login = asyncio.run(main())
    assert plain == login


def test_the_profile_is_read_once_for_all_who_ask(tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text('echo read >> "$HOME/log"\nexport ADDED=1\n')

    async def main() -> None:
        environments = LoginEnvironments()
        first = asyncio.create_task(environments.find(UNCONFINED, "/bin/sh", environment(tmp_path)))
        await asyncio.sleep(0)
        first.cancel()  # a call that is interrupted does not disturb the others
        found = await asyncio.gather(
            *(environments.find(UNCONFINED, "/bin/sh", environment(tmp_path)) for _ in range(5))
        )
        assert [variables and variables["ADDED"] for variables in found] == ["1"] * 5
        other = await environments.find(UNCONFINED, "/bin/sh", {**environment(tmp_path), "MORE": "1"})
        assert other is not None
        await environments.aclose()

    asyncio.run(main())
    assert (tmp_path / "log").read_text() == "read\nread\n"


@pytest.mark.parametrize(
    "profile", ["exit 3\n", "exit 0\n", "sleep 60\n", "kill -9 $$\n", "export BAD=$(printf '\\377')\n"]
)
def test_a_profile_that_cannot_be_used_is_left_to_the_login_shell(tmp_path: Path, profile: str) -> None:
    (tmp_path / ".profile").write_text(profile)
    assert find(tmp_path, timeout_ms=300) is None


def test_a_shell_that_is_not_there_is_left_to_the_command(tmp_path: Path) -> None:
    assert find(tmp_path, shell="/no/such/shell") is None


def test_closing_ends_a_profile_that_is_still_read(tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text('echo $$ > "$HOME/pid"\nsleep 60\n')

    async def main() -> int:
        environments = LoginEnvironments()
        asking = asyncio.create_task(environments.find(UNCONFINED, "/bin/sh", environment(tmp_path)))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.01)
        await environments.aclose()
        with pytest.raises(asyncio.CancelledError):
            await asking
        return int((tmp_path / "pid").read_text())

    pid = asyncio.run(main())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


class Refusing:
    env: Mapping[str, str] = MappingProxyType({})

    async def start(self, launch: Launch) -> ChildProcess:
        raise SandboxError(f"no {launch.argv[0]} here")


def test_the_profile_is_read_under_the_commands_own_confinement(tmp_path: Path) -> None:
    async def main() -> None:
        environments = LoginEnvironments()
        assert await environments.find(UNCONFINED, "/bin/sh", environment(tmp_path)) is not None
        assert await environments.find(Refusing(), "/bin/sh", environment(tmp_path)) is None

    asyncio.run(main())
