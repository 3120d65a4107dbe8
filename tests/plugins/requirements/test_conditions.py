"""Each condition of a requirement alone."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework import ConfigError
from codex_plugin_requirements.demands import demanded
from codex_plugin_requirements.reading import Requirements


def demands(config: Any = None, **required: Any) -> tuple[dict[str, Any], list[str]]:
    told: list[str] = []
    return dict(demanded(Requirements(path="/r", **required), config or {}, told.append)), told


def disabled(*plugins: str) -> dict[str, Any]:
    return {"framework": {"plugins": {"disabled": plugins}}}


def test_rules_need_the_plugin_that_enforces_them() -> None:
    for config in ({}, disabled(), disabled("undo")):
        assert demands(config, has_rules=True) == ({}, [])
    assert demands(disabled("execpolicy")) == ({}, [])
    with pytest.raises(ConfigError, match="'execpolicy' is disabled"):
        demands(disabled("undo", "execpolicy"), has_rules=True)


def test_hooks_that_are_not_run_are_told_if_there_are_any() -> None:
    off = {"features": {"hooks": False, "codex_hooks": False}}
    hooks = {"hooks": {"Stop": []}}
    assert demands({}, managed_hooks_only=True) == (off, [])
    assert demands({**hooks, "features": {"hooks": False}}, managed_hooks_only=True) == (off, [])
    demanded_tables, (line,) = demands(hooks, managed_hooks_only=True)
    assert demanded_tables == off
    assert line.startswith("hooks are not run: ")


@pytest.mark.parametrize(
    ("own", "left"), [(None, ["a", "b"]), ("b", ["b"]), ("x", ["a", "b"]), (["x", "b"], ["b"]), ([], ["a", "b"])]
)
def test_of_the_users_workspaces_the_allowed_ones_are_left(own: Any, left: list[str]) -> None:
    config = {} if own is None else {"forced_chatgpt_workspace_id": own}
    assert demands(config, workspaces=("a", "b")) == ({"forced_chatgpt_workspace_id": left}, [])


@pytest.mark.parametrize(
    ("table", "allowed"),
    [
        ({"command": "x"}, True),
        ({"command": "y"}, False),
        ({"url": "x"}, False),
        ({"url": "x", "command": "x"}, True),
        ({}, False),
    ],
)
def test_a_server_is_allowed_by_its_kind_and_its_value(table: dict[str, str], allowed: bool) -> None:
    tables, told = demands({"mcp_servers": {"s": table}}, mcp_servers={"s": ("command", "x")})
    assert (tables == {}, told == []) == (allowed, allowed)


def test_a_server_allowed_by_its_url_may_run_no_command() -> None:
    allowed = {"s": ("url", "https://s")}
    assert demands({"mcp_servers": {"s": {"url": "https://s"}}}, mcp_servers=allowed) == ({}, [])
    both = {"mcp_servers": {"s": {"url": "https://s", "command": "x"}}}
    assert demands(both, mcp_servers=allowed)[0] == {"mcp_servers": {"s": {"enabled": False}}}
    assert demands({"mcp_servers": {"t": {"url": "https://s"}}}, mcp_servers=allowed)[0] != {}
