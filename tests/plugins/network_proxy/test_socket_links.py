"""Rules for unix sockets: no command chooses where an allowed path leads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codex_framework import FileAccess, NetworkRules, SandboxError
from codex_framework.commands.gates import make_gate
from codex_framework.contract.permissions.file_access import NetworkMode
from codex_plugin_network_proxy.proxy import RuledProxy


@pytest.mark.parametrize(("place", "is_refused"), [("work", True), ("elsewhere", False)])
@pytest.mark.parametrize("on_the_way", [True, False])
def test_an_allowed_path_must_not_lead_through_links_where_commands_write(
    tmp_path: Path, place: str, is_refused: bool, on_the_way: bool
) -> None:
    work, other = tmp_path / "work", tmp_path / "elsewhere"
    work.mkdir()
    other.mkdir()
    (tmp_path / place / "link").symlink_to(other if on_the_way else other / "s")
    path = tmp_path / place / "link" / "s" if on_the_way else tmp_path / place / "link"
    access: Any = FileAccess.writing(work).evolve(
        network=NetworkMode.PROXY, network_rules=NetworkRules(unix_sockets={str(path): "allow"})
    )
    if is_refused:
        with pytest.raises(
            SandboxError, match=r"unix_sockets allows .* and the symlink .*/link on the way is where commands can write"
        ):
            make_gate(access, RuledProxy())
    else:
        assert make_gate(access, RuledProxy()) is not None
    denied = access.evolve(network_rules=NetworkRules(unix_sockets={str(path): "none", "*": "allow"}))
    assert make_gate(denied, RuledProxy()) is not None


def test_a_socket_itself_can_be_where_commands_write(tmp_path: Path) -> None:
    rules = NetworkRules(unix_sockets={str(tmp_path / "s"): "allow"})
    access = FileAccess.writing(tmp_path).evolve(network=NetworkMode.PROXY, network_rules=rules)
    assert make_gate(access, RuledProxy()) is not None
