"""Instances are shared by equal plans: everything that a plan enforces is in its key, and stays when its patterns are resolved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.permissions.file_access import (
    AccessMode,
    FileAccess,
    NetworkMode,
    PathRule,
    Protection,
    ResourceLimits,
)
from codex_plugin_landlock.plan import plan_for

BASE = FileAccess(rules=(PathRule(Path("/tmp"), AccessMode.WRITE),), denied_globs=("/no-such-folder/*.key",))
OTHERS: dict[str, Any] = {
    "floor": frozenset({Protection.WRITING}),
    "private_tmp": True,
    "limits": ResourceLimits(file_bytes=5),
    "network": NetworkMode.ON,
    "denied_globs": ("/no-such-folder/*.pem",),
    "glob_depth": 7,
    "rules": (PathRule(Path("/tmp"), AccessMode.WRITE), PathRule(Path("/tmp/a"), AccessMode.READ)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_plans_that_differ_in_anything_have_other_keys(name: str) -> None:
    changed = BASE.evolve(**{name: OTHERS[name]})
    assert plan_for(changed).key != plan_for(BASE).key
    assert plan_for(changed).key == plan_for(changed).key


@pytest.mark.parametrize("name", [name for name in OTHERS if name not in ("denied_globs", "glob_depth")])
def test_resolving_the_patterns_changes_nothing_else(name: str) -> None:
    plan = plan_for(BASE.evolve(**{name: OTHERS[name]}))
    assert plan.resolved().data == plan.data


def test_a_private_tmp_needs_a_writable_one() -> None:
    readable = BASE.evolve(rules=(), private_tmp=True)
    assert not plan_for(readable).private_tmp
    assert plan_for(BASE.evolve(private_tmp=True)).private_tmp
