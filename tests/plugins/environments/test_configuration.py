"""``environments.toml`` and ``CODEX_EXEC_SERVER_URL``, with good and bad input."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ConfigError
from codex_plugin_environments.configuration import Configuration, Place, configured

CANARY = "SECRET-canary-4711"
URL = f"wss://user:{CANARY}@host/path?token={CANARY}"


def of(text: str, tmp_path: Path, **environ: str) -> Configuration:
    path = tmp_path / "environments.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return configured(path, environ)


def entry(**fields: Any) -> str:
    lines = {"id": '"box"', "url": '"ws://host"', **fields}
    return "[[environments]]\n" + "".join(f"{name} = {value}\n" for name, value in lines.items() if value is not None)


def test_all_fields_are_read(tmp_path: Path) -> None:
    program = entry(
        url=None, id='"tool"', program='"serve"', args='["a"]', env='{ A = "b" }', cwd='"/x"', initialize_timeout_sec=2
    )
    socket = entry(url='"wss://host/x"', auth_bearer_token=f'"{CANARY}"', connect_timeout_sec=0.5)
    found = of(f'default = "tool"\n{socket}{program}', tmp_path)
    box = Place(id="box", url="wss://host/x", token=CANARY, connect_timeout_s=0.5)
    tool = Place(id="tool", program="serve", args=("a",), env={"A": "b"}, cwd="/x", initialize_timeout_s=2.0)
    assert found == Configuration(places=(box, tool), default=("tool", "local", "box"), has_local=True)


@pytest.mark.parametrize(
    ("text", "default", "has_local"),
    [
        ("", ("local",), True),
        ("include_local = false", (), False),
        (f'default = "none"\n{entry()}', (), True),
        (f'default = "box"\ninclude_local = false\n{entry()}', ("box",), False),
        (entry(), ("local", "box"), True),
    ],
)
def test_the_default_selection(text: str, default: Any, has_local: bool, tmp_path: Path) -> None:
    found = of(text, tmp_path, CODEX_EXEC_SERVER_URL="ws://ignored")
    assert (found.default, found.has_local) == (default, has_local)


def test_the_variable_is_used_without_a_file(tmp_path: Path) -> None:
    missing = tmp_path / "environments.toml"
    remote = configured(missing, {"CODEX_EXEC_SERVER_URL": "ws://host:1"})
    assert remote == Configuration(
        places=(Place(id="remote", url="ws://host:1"),), default=("remote",), has_local=False
    )
    assert configured(missing, {"CODEX_EXEC_SERVER_URL": "none"}) == Configuration(has_local=False)
    with pytest.raises(ConfigError, match="CODEX_EXEC_SERVER_URL: environment url `http://host` must use ws://"):
        configured(missing, {"CODEX_EXEC_SERVER_URL": f"http://u:{CANARY}@host?{CANARY}"})


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("\udcff", "cannot be read: "),
        ("x = ", "cannot be read: "),
        ("default = 5", "`default` has a wrong type: int"),
        ('default = "box"', "default environment `box` is not configured"),
        ('default = "local"\ninclude_local = false', "default environment `local` is not configured"),
        ("include_local = 1", "`include_local` has a wrong type: int"),
        ("environments = 5", "`environments` has a wrong type: int"),
        ("environments = [5]", "environment 1 is not a table"),
        ("other = 1", "unknown field `other`, expected one of default"),
        (entry(id=None), "environment 1 has no id"),
        (entry(id='""'), "environment 1 has no id"),
        (entry(id="5"), "`id` has a wrong type: int"),
        (entry(id='"local"'), "environment id `local` is reserved"),
        (entry(id='"none"'), "environment id `none` is reserved"),
        (entry(id='"a b"'), "environment id `a b` must contain only ASCII"),
        (entry(id='"é"'), "must contain only ASCII"),
        (entry() + entry(), "environment id `box` is duplicated"),
        (entry(url=None), "environment `box` must set exactly one of url or program"),
        (entry(program='"x"'), "environment `box` must set exactly one of url or program"),
        (entry(color='"x"'), "unknown field `color` in environment `box`"),
        (entry(args='["x"]'), "environment `box` args, env, and cwd require program"),
        (entry(url=None, program='" "'), "environment `box` program cannot be empty"),
        (entry(url=None, program='"x"', auth_bearer_token='"x"'), "environment `box` auth_bearer_token requires url"),
        (entry(url=None, program='"x"', args="[5]"), "environment `box` args and env must contain only texts"),
        (entry(url=None, program='"x"', env="{ A = 5 }"), "environment `box` args and env must contain only texts"),
        (entry(connect_timeout_sec="true"), "`connect_timeout_sec` has a wrong type: bool"),
        (entry(connect_timeout_sec="0"), "connect_timeout_sec must be more than 0 and at most 3600"),
        (entry(connect_timeout_sec="nan"), "connect_timeout_sec must be more than 0 and at most 3600"),
        (entry(initialize_timeout_sec="inf"), "initialize_timeout_sec must be more than 0 and at most 3600"),
        (entry(url='"http://host"'), "environment url `http://host` must use ws:// or wss://"),
        (entry(url='"ws://"'), "environment url `ws://` has no host"),
        (entry(url='"ws://[x"'), "environment url `ws://[x` is invalid"),
        (entry(url='"ws://host:x"'), "environment url `ws://host:x` is invalid"),
        (entry(auth_bearer_token=f'"{CANARY}"'), "environment url `ws://host` must use wss:// or a loopback address"),
        (
            entry(url=f'"{URL}"', auth_bearer_token='"x"'),
            "url `wss://host/path` has a login, and there is a token as well",
        ),
        (entry(url=f'"ws://u:{CANARY}@host"'), "environment url `ws://host` must use wss:// or a loopback address"),
        (entry(url=f'"ftp{URL}"'), "environment url `ftpwss://host/path` must use"),
        (entry(auth_bearer_token=f'["{CANARY}"]'), "`auth_bearer_token` has a wrong type: list"),
        (entry(env=f'"{CANARY}"'), "`env` has a wrong type: str"),
    ],
)
def test_bad_input_is_an_error_that_names_the_file_and_no_secret(text: str, fact: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        of(text, tmp_path)
    assert fact in str(caught.value)
    assert str(tmp_path / "environments.toml") in str(caught.value)
    assert CANARY not in f"{caught.value} {caught.value.hint}"
    assert caught.value.hint


def test_a_token_may_go_to_loopback_without_tls(tmp_path: Path) -> None:
    for host in ("localhost", "127.0.0.1", "[::1]"):
        assert of(entry(url=f'"ws://{host}:1"', auth_bearer_token='"x"'), tmp_path).places[0].token == "x"
    with pytest.raises(ConfigError, match="must use wss://"):
        of(entry(url='"ws://localhost.example:1"', auth_bearer_token='"x"'), tmp_path)


def test_no_thread_starts_with_a_file_that_cannot_be_used(make_kernel: Any, configure: Any) -> None:
    configure("include_local = 5")  # perhaps nothing was to run on this machine

    async def main() -> None:
        async with make_kernel([]) as kernel:
            await kernel.start_thread()

    with pytest.raises(Exception, match="`include_local` has a wrong type: int") as caught:
        asyncio.run(main())
    assert "environments.toml" in str(caught.value)


def test_the_file_and_its_programs_stay_read_only_for_commands(
    make_kernel: Any, codex_home: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    kept, server = (
        project / "dotfile.toml",
        project / "serve",
    )  # many users keep such a file in a repository, and link it
    kept.write_text(entry(url=None, program=f'"{server}"'))
    (codex_home / "environments.toml").symlink_to(kept)

    async def main() -> Any:
        async with make_kernel([], config='sandbox_mode = "workspace-write"') as kernel:
            from codex_framework.commands.access import file_access

            return file_access(kernel.settings().permissions, project, {}, kernel.deciding)

    access = asyncio.run(main())
    assert access.may_write(project / "other")
    assert not access.may_write(kept)
    assert not access.may_write(codex_home / "environments.toml")
    assert not access.may_write(server)


def test_nothing_is_imported_without_a_configuration(codex_home: Path) -> None:
    code = """
import sys
from collections.abc import Callable
from pathlib import Path
from codex_framework.config import load_config
from codex_framework.loader.registry import load_registry
environ = {"CODEX_HOME": sys.argv[1], "PATH": "/usr/bin:/bin"}
registry = load_registry(load_config(cwd=Path("/"), environ=environ), environ=environ)
assert registry.environment_sources == ()
names = ("codex_plugin_environments.", "codex_framework.commands.remote_permissions", "websockets")
print([name for name in sys.modules if name.startswith(names)])
"""
    done = subprocess.run([sys.executable, "-c", code, str(codex_home)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.write_text("a=" + "[" * 5000)])
def test_what_is_no_file_or_too_deep_is_an_error(make: Callable[[Path], object], tmp_path: Path) -> None:
    file = tmp_path / "environments.toml"
    make(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        configured(file, {"CODEX_EXEC_SERVER_URL": "none"})
