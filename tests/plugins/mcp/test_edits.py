"""Edits of the servers in ``config.toml``: what changes, what stays, and what is refused without a loss."""

from __future__ import annotations

import errno
import os
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ConfigError
from codex_plugin_mcp.edits import add_server, own_server, remember_approval, remove_server

TEXT = """\
# my settings
model = "m"   # the good one

[mcp_servers.docs]  # the docs
command = "docs"
args = [
    "-v",  # loud
]

# over the net
[mcp_servers.web]
url = "https://host/mcp"

[tui]
theme = "x"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(TEXT)
    return tmp_path


def text_of(home: Path) -> str:
    return (home / "config.toml").read_text()


def servers_of(home: Path) -> Any:
    return tomllib.loads(text_of(home)).get("mcp_servers")


def test_an_approval_is_saved_beside_the_rest(home: Path) -> None:
    assert remember_approval(home, "docs", "read")
    assert remember_approval(home, "web", "search")
    assert servers_of(home)["docs"]["tools"] == {"read": {"approval_mode": "approve"}}
    assert servers_of(home)["web"]["tools"] == {"search": {"approval_mode": "approve"}}
    kept = [line for line in text_of(home).splitlines() if line in TEXT.splitlines()]
    assert [line for line in kept if line] == [line for line in TEXT.splitlines() if line]
    assert not remember_approval(home, "docs", "read")


def test_an_approval_replaces_the_mode_of_that_tool_alone(home: Path) -> None:
    with (home / "config.toml").open("a") as file:
        file.write('[mcp_servers.docs.tools.read]\napproval_mode = "prompt"  # careful\n')
        file.write('[mcp_servers.docs.tools.write]\napproval_mode = "prompt"\n')
    assert remember_approval(home, "docs", "read")
    assert servers_of(home)["docs"]["tools"] == {
        "read": {"approval_mode": "approve"},
        "write": {"approval_mode": "prompt"},
    }
    assert "# careful" in text_of(home)


@pytest.mark.parametrize(
    "tool",
    ["a.b", "", "with space", 'x"]\n[mcp_servers.evil]\ncommand = "sh"\n[a."', "ä\t\x1b", "a\\b", "approval_mode"],
)
def test_the_name_of_a_tool_stays_a_name(home: Path, tool: str) -> None:
    assert remember_approval(home, "docs", tool)
    assert servers_of(home)["docs"]["tools"] == {tool: {"approval_mode": "approve"}}
    assert set(servers_of(home)) == {"docs", "web"}


@pytest.mark.parametrize("text", [TEXT, "", "[mcp_servers.other]\nenabled = true\ncommand='x'\n"])
def test_an_approval_for_a_server_of_another_file_is_refused(home: Path, text: str) -> None:
    (home / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        remember_approval(home, "project", "read")
    assert caught.value.slug == "mcp-elsewhere"
    assert 'approval_mode = "approve"' in caught.value.hint
    assert text_of(home) == text


def test_a_server_is_added_replaced_and_removed(home: Path) -> None:
    assert add_server(home, "new", {"command": "run", "args": ["-x"], "env": {"A": "b"}})
    assert servers_of(home)["new"] == {"command": "run", "args": ["-x"], "env": {"A": "b"}}
    assert add_server(home, "new", {"url": "https://host"})
    assert servers_of(home)["new"] == {"url": "https://host"}
    assert remove_server(home, "new")
    assert not remove_server(home, "new")
    assert [line for line in text_of(home).splitlines() if line] == [line for line in TEXT.splitlines() if line]


def test_a_removed_server_takes_its_tables_along_and_leaves_the_comments(home: Path) -> None:
    remember_approval(home, "docs", "read")
    assert remove_server(home, "docs")
    assert set(servers_of(home)) == {"web"}
    assert all(comment in text_of(home) for comment in ("# my settings", "# the good one", "# over the net"))


def test_a_wrong_server_is_not_written(home: Path) -> None:
    for table in ({"command": "a", "url": "https://b"}, {"url": "nothing"}, {"command": "a", "sandbox": "none"}):
        with pytest.raises(ConfigError):
            add_server(home, "new", table)
    with pytest.raises(ConfigError):
        add_server(home, "a b", {"command": "a"})
    assert text_of(home) == TEXT


def test_the_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    assert add_server(home, "s", {"command": "run", "env": {"TOKEN": "secret"}})
    assert (home / "config.toml").stat().st_mode & 0o777 == 0o600


def _edits(home: Path) -> list[Callable[[], object]]:
    return [
        lambda: remember_approval(home, "docs", "read"),
        lambda: add_server(home, "new", {"command": "run"}),
        lambda: remove_server(home, "docs"),
    ]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize(
    "text",
    [
        "[mcp_servers.docs\n",
        TEXT + "\n[framework]\nnope = 3\n",
        TEXT + "\n[mcp_servers.bad]\nenabled = true\n",
        "model = 1\n" + TEXT.replace('model = "m"', ""),
    ],
)
def test_a_malformed_file_is_named_and_stays(home: Path, number: int, text: str) -> None:
    (home / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        _edits(home)[number]()
    assert str(home / "config.toml") in caught.value.fact
    assert text_of(home) == text


@pytest.mark.parametrize("number", range(3))
def test_a_read_only_file_is_named_and_stays(home: Path, number: int) -> None:
    (home / "config.toml").chmod(0o400)
    with pytest.raises(ConfigError) as caught:
        _edits(home)[number]()
    assert caught.value.slug == "config-unwritable"
    assert text_of(home) == TEXT


def test_a_full_disk_loses_nothing(home: Path) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
    try:
        with pytest.raises(ConfigError) as caught:
            add_server(home, "new", {"command": "run"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.slug == "config-unwritable"
    assert text_of(home) == TEXT
    assert [file.name for file in home.iterdir()] == ["config.toml"]


def test_a_linked_file_is_changed_where_it_is(home: Path, tmp_path: Path) -> None:
    (home / "config.toml").rename(home / "real.toml")
    (home / "config.toml").symlink_to(home / "real.toml")
    assert remember_approval(home, "docs", "read")
    assert (home / "config.toml").is_symlink()
    assert "approve" in (home / "real.toml").read_text()


def test_edits_at_the_same_time_are_all_kept(home: Path) -> None:
    edits = [threading.Thread(target=remember_approval, args=(home, "docs", f"tool{number}")) for number in range(8)]
    for edit in edits:
        edit.start()
    for edit in edits:
        edit.join()
    assert set(servers_of(home)["docs"]["tools"]) == {f"tool{number}" for number in range(8)}


def test_the_servers_of_the_file_itself(home: Path) -> None:
    assert own_server(home, "web") == {"url": "https://host/mcp"}
    assert own_server(home, "none") is None
    (home / "config.toml").write_text("[mcp_servers.web]\nenabled = false\n")
    assert own_server(home, "web") is None


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP])
def test_a_server_is_added_and_removed_where_files_cannot_be_locked(tmp_path, monkeypatch, code):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", refuse)
    assert add_server(tmp_path, "docs", {"command": "docs"})
    assert own_server(tmp_path, "docs") == {"command": "docs"}
    assert remove_server(tmp_path, "docs")
    assert list(tmp_path.glob("*.lock")) == []
