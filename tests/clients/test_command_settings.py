"""``-c``, ``--enable`` and ``--disable`` with the commands that plugins offer."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from codex_framework.cli.main import main

SETTING = 'mcp_servers.z.command="zzz-program"'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("-c", SETTING, "mcp", "list"),
        (f"--config={SETTING}", "mcp", "list"),
        ("mcp", "-c", SETTING, "list"),
        ("mcp", "list", "-c", SETTING),
        ("mcp", "get", "z", f"--config={SETTING}"),
    ],
)
@pytest.mark.usefixtures("home")
def test_a_setting_applies_wherever_it_stands(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert "zzz-program" in capsys.readouterr().out


@pytest.mark.parametrize("end", [("--", "python", "-c", "print(1)"), ("python", "-c", "print(1)")])
@pytest.mark.parametrize("settings", [(), ("--enable", "hooks"), ("-c", SETTING)])
def test_the_command_line_of_a_server_stays_as_it_is(
    end: tuple[str, ...], settings: tuple[str, ...], home: Path
) -> None:
    assert main(("mcp", "add", "x", *settings, *end)) == 0
    servers = tomllib.loads((home / "config.toml").read_text())["mcp_servers"]
    assert servers == {"x": {"command": "python", "args": ["-c", "print(1)"]}}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("login", "status", "-c", "zzz"), "has no `=`"),
        (("mcp", "list", "--enable", "no_such_feature_at_all"), ""),
        (("mcp", "list", "-c", 'sandbox_mode="zzz"'), "sandbox_mode"),
        (("-c", 'sandbox_mode="zzz"', "mcp", "list"), "sandbox_mode"),
        (("mcp", "list", "-c"), "requires an argument"),
        (("-c", "model=x", "config", "path"), "belong to `exec`"),
        (("-c", "model=x", "mcp-server", "--zzz"), "--zzz"),
        (("mcp-server", "-c", "model=x", "--zzz"), "--zzz"),
    ],
)
@pytest.mark.usefixtures("home")
def test_what_is_wrong_with_it_is_said(
    words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (main(words) != 0) is bool(problem)
    assert problem in capsys.readouterr().err
