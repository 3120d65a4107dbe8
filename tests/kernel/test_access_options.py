"""The options of enforcement: each is part of the access, is not lost with the sandbox, and counts in comparisons."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_framework.commands.access import file_access
from codex_framework.contract.permissions.file_access import (
    AccessMode,
    FileAccess,
    NetworkMode,
    PathRule,
    Protection,
    ResourceLimits,
)
from codex_framework.contract.permissions.profile import SandboxOptions, permissions_of
from codex_framework.contract.protocol.policies import ReadOnly

FLOOR = frozenset({Protection.WRITING})
OPTIONS = {"floor": FLOOR, "limits": ResourceLimits(file_bytes=5), "private_tmp": True, "fixed": True}
DENIED = FileAccess(rules=(PathRule(Path("/secret"), AccessMode.DENY),))


@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_is_part_of_the_access_even_if_the_rest_is_equal(tmp_path: Path, name: str) -> None:
    permissions = permissions_of(ReadOnly())
    plain = file_access(permissions, tmp_path, {})
    changed = file_access(permissions.evolve(options=SandboxOptions(**{name: OPTIONS[name]})), tmp_path, {})
    assert changed == plain.evolve(**{name: OPTIONS[name]})
    assert file_access(permissions, tmp_path, {}) == plain
    assert changed != plain


def test_fixed_limits_stay_without_the_sandbox() -> None:
    for access in (FileAccess(fixed=True), DENIED.evolve(fixed=True, network=NetworkMode.OFF)):
        assert access.without_sandbox == access
    assert FileAccess().without_sandbox == FileAccess(full=True, network=NetworkMode.ON)


def test_denied_paths_stay_without_the_sandbox_with_what_enforces_them() -> None:
    access = DENIED.evolve(floor=FLOOR, limits=ResourceLimits(file_bytes=5), denied_globs=("/a/*.key",), glob_depth=3)
    left = access.without_sandbox
    assert (left.full, left.network, left.floor, left.limits) == (False, NetworkMode.ON, FLOOR, access.limits)
    assert (left.denied_globs, left.glob_depth) == (("/a/*.key",), 3)
    assert left.mode_of("/secret/x") is AccessMode.DENY
    assert left.mode_of("/other") is AccessMode.WRITE


def test_only_fixed_limits_are_within_fixed_limits() -> None:
    free, fixed = FileAccess(), FileAccess(fixed=True)
    assert [mine.within(other) for mine in (free, fixed) for other in (free, fixed)] == [True, False, True, True]


@pytest.mark.parametrize(
    ("mine", "other", "within"),
    [(5, 5, True), (4, 5, True), (6, 5, False), (None, 5, False), (5, None, True), (None, None, True)],
)
def test_a_limit_is_within_the_same_or_a_higher_one(mine: int | None, other: int | None, within: bool) -> None:
    limited = [FileAccess(limits=ResourceLimits(file_bytes=size)) for size in (mine, other)]
    assert limited[0].within(limited[1]) is within


def test_patterns_that_deny_must_be_kept() -> None:
    one, both = (FileAccess(denied_globs=globs) for globs in (("/a/*",), ("/a/*", "/b/*")))
    assert both.within(one)
    assert not one.within(both)
