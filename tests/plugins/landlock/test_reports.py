"""What the sandbox says of itself: before anything has run, and once something has."""

from __future__ import annotations

import asyncio
import os

import pytest

from codex_framework.commands.process.running import start_command
from codex_framework.contract.errors import SandboxError
from codex_framework.contract.permissions.file_access import NetworkMode, Protection, ResourceLimits
from codex_plugin_landlock.jail import system
from codex_plugin_landlock.sandbox import LandlockSandbox


@pytest.fixture(params=["namespaces", "landlock"])
def level(request, harness):
    reason = harness.reason_to_skip(request.param, "root" if os.geteuid() == 0 else "ordinary")
    if reason:
        pytest.skip(reason)
    return request.param


def reports(level, place, script="true", **access):
    """The report before and after a command."""

    async def main():
        sandbox = LandlockSandbox(level)
        try:
            before = sandbox.probe()
            confinement = sandbox.confine(place.access().evolve(**access), place.work)
            argv = ["sh", "-c", script]
            await (await start_command(confinement, argv=argv, cwd=str(place.work), env={"PATH": os.defpath})).wait()
            return before, sandbox.probe()
        finally:
            await sandbox.aclose()

    return asyncio.run(main())


def test_what_is_said_in_advance_is_what_holds(level, place):
    before, after = reports(level, place)
    assert before == after
    assert set(after.protections) == set(Protection)
    assert not {word for word in after.partly if after.protections[word]}


def test_what_a_sandbox_says_of_itself_counts(level, place, monkeypatch):
    """The version of the kernel may say less, or more, than it does."""
    true = LandlockSandbox(level).probe().protections[Protection.PROCESS_COUNT]
    monkeypatch.setattr(system, "namespaces_can_be_bounded", lambda: "process namespace" not in true)
    monkeypatch.setattr(system, "counts_processes", lambda: "resource limit" not in true)
    before, after = reports(level, place)
    assert before.protections[Protection.PROCESS_COUNT] != true
    assert after.protections[Protection.PROCESS_COUNT] == true
    assert before.evolve(protections={}) == after.evolve(protections={})


def test_a_plan_without_a_limit_says_nothing_of_it(level, place):
    before, after = reports(level, place, limits=ResourceLimits(processes=None))
    assert before == after


@pytest.mark.parametrize("network", [NetworkMode.ON, NetworkMode.OFF])
def test_the_report_is_the_machines_and_not_a_plans(level, place, network):
    before, after = reports(level, place, network=network)
    assert before == after


def test_the_sandbox_itself_holds_to_the_floor(level, place, monkeypatch):
    """Also where what was said in advance promised more than it has."""
    monkeypatch.setattr("codex_plugin_landlock.probe.floor_error", lambda plan, report: None)
    unlimited = ResourceLimits(processes=None)
    with pytest.raises(SandboxError) as caught:
        reports(level, place, "touch ran", floor=frozenset({Protection.PROCESS_COUNT}), limits=unlimited)
    assert (caught.value.slug, "process-count" in str(caught.value), bool(caught.value.hint)) == (
        "sandbox-floor",
        True,
        True,
    )
    assert not (place.work / "ran").exists()


def test_what_is_held_back_in_part_does_not_make_a_floor(place, harness):
    if reason := harness.reason_to_skip("landlock", "root" if os.geteuid() == 0 else "ordinary"):
        pytest.skip(reason)
    sandbox = LandlockSandbox("landlock")
    for word in sandbox.probe().partly:
        with pytest.raises(SandboxError, match=f": {word}$"):
            sandbox.confine(place.access().evolve(floor=frozenset({word})), place.work)


def test_it_can_be_examined(level):
    sandbox = LandlockSandbox(level)

    async def main():
        try:
            return await sandbox.examine()
        finally:
            await sandbox.aclose()

    found = {layer.name: layer for layer in asyncio.run(main())}
    assert {"user namespace", "Landlock", "seccomp", "network namespace"} <= set(found)
    assert all(bool(layer.fault) == bool(layer.hint) for layer in found.values())


def test_a_launcher_that_cannot_run_cannot_examine(level):
    sandbox = LandlockSandbox(level, python="/bin/false")

    async def main():
        try:
            await sandbox.examine()
        finally:
            await sandbox.aclose()

    with pytest.raises(SandboxError, match="launcher does not run"):
        asyncio.run(main())
