"""The attacks of ``codex-framework sandbox prove``, in every level, as root and as an ordinary user."""

from __future__ import annotations

import asyncio
import sys

import pytest

import codex_framework.testing.conformance.attacks  # noqa: F401  # an ordinary user may not be able to read it later
from codex_client_sandbox.report import run_attacks
from codex_plugin_landlock.sandbox import LandlockSandbox

pytestmark = pytest.mark.slow

GAPS = {
    # no read-only mounts
    "change the mode of a file outside",
    "change the time of a file outside",
    "change the time of a device",
    # names that do not exist yet
    "make the settings of a trusted project",
    "make a symlink to the settings of a trusted project",
    # no /dev of its own
    "leave a file in shared memory to the next command",
    # the system does not count root's processes
    "make processes without end",
}
"""What is not claimed without namespaces, and may succeed."""


@pytest.mark.parametrize(
    ("level", "user"),
    [
        pytest.param("namespaces", "root", marks=pytest.mark.thorough),  # as the test of the command does
        ("namespaces", "ordinary"),
        ("landlock", "root"),
        pytest.param("landlock", "ordinary", marks=pytest.mark.thorough),
    ],
)
def test_what_is_claimed_is_stopped(harness, monkeypatch, level, user):
    if reason := harness.reason_to_skip(level, user):
        pytest.skip(reason)
    if user == "ordinary":
        monkeypatch.setattr(sys, "executable", harness.PYTHON)  # for the attackers' programs

    async def prove():
        sandbox = LandlockSandbox(level, python=harness.PYTHON if user == "ordinary" else sys.executable)
        try:
            return await run_attacks({"landlock": sandbox}, None)
        finally:
            await sandbox.aclose()

    found = harness.as_user(user, lambda: asyncio.run(prove()))
    results = {one["attack"]: one["result"] for one in found["attacks"]}
    assert len(results) >= 110
    assert found["level"] == ("namespaces+landlock+seccomp" if level == "namespaces" else "landlock+seccomp")
    open_ = {attack for attack, result in results.items() if result not in ("stopped", "refused")}
    assert open_ <= (GAPS if level == "landlock" else set())
    assert "escaped" not in results.values()
    if level == "namespaces":
        assert [attack for attack, result in results.items() if result == "refused"] == []
