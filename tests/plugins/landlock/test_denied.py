"""Machines that deny a layer: each is made for real, around a process that then tries to confine commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from codex_framework.contract.permissions.file_access import Protection
from codex_plugin_landlock.probe import FULL_LEVEL, REDUCED_LEVEL

pytestmark = pytest.mark.slow

INSIDE = """
import asyncio, errno, json, os, sys
from pathlib import Path
from codex_framework.contract.errors import SandboxError
from codex_framework.commands.process.running import start_command
from codex_framework.contract.permissions.file_access import FileAccess, Protection
from codex_plugin_landlock.jail import namespaces
from codex_lib_confinement.seccomp import Check, Rule, assemble
from codex_plugin_landlock.jail.seccomp import install
from codex_plugin_landlock.jail.syscalls import NEW_NS, NEW_USER, call, mount
from codex_plugin_landlock.sandbox import LandlockSandbox

NUMBERS = {"mount": (165, 40), "unshare": (272, 97), "clone": (56, 220), "prctl": (157, 167)}
NUMBERS = {name: both[os.uname().machine != "x86_64"] for name, both in NUMBERS.items()}
NUMBERS |= {"open_tree": 428, "move_mount": 429, "mount_setattr": 442, "landlock_create_ruleset": 444}


def deny(code, *names, when=()):
    install(assemble({name: (Rule(code, when),) for name in names}, NUMBERS))


def in_a_namespace(flags=NEW_USER):
    uid, gid = os.geteuid(), os.getegid()
    call("unshare", NUMBERS["unshare"], flags)
    namespaces.map_identity(uid, gid)
    namespaces.set_dumpable(dumpable=True)


def no_user_namespaces():
    deny(errno.EPERM, "unshare", "clone", when=(Check(0, NEW_USER, (NEW_USER,)),))


def no_room_for_namespaces():
    in_a_namespace()
    Path("/proc/sys/user/max_user_namespaces").write_text("0")


def no_room_for_networks():
    in_a_namespace()
    Path("/proc/sys/user/max_net_namespaces").write_text("0")


def no_mounts():
    deny(errno.EPERM, "mount", "open_tree", "move_mount", "mount_setattr")




def masked_proc():
    in_a_namespace(NEW_USER | NEW_NS)
    mount("", "/", "", 16384 | 1 << 18)
    mount("tmpfs", "/proc/sys", "tmpfs", 0, "mode=0")


def no_landlock():
    deny(errno.ENOSYS, "landlock_create_ruleset")


def old_landlock():
    deny(errno.EOPNOTSUPP, "landlock_create_ruleset")


def no_seccomp():
    deny(errno.EINVAL, "prctl", when=(Check(0, 0xFFFFFFFF, (21, 22)),))


async def main():
    level, floor = sys.argv[2] or None, frozenset(map(Protection, filter(None, sys.argv[3].split(","))))
    work, outside = Path(sys.argv[4]), sys.argv[5]
    sandbox = LandlockSandbox(level)
    said = {"before": sandbox.probe().level, "ran": "", "error": "", "slug": "", "error_hint": ""}
    try:
        confinement = sandbox.confine(FileAccess.writing(work).evolve(floor=floor), work)
        argv = ["sh", "-c", "touch ran; echo ran; touch $0/no", outside]
        command = await start_command(confinement, argv=argv, cwd=str(work), env={"PATH": os.defpath})
        said["ran"] = (await command.wait()).stdout.strip()
    except SandboxError as error:
        said |= {"error": str(error), "slug": error.slug, "error_hint": error.hint}
    report = sandbox.probe()
    said |= {"available": report.available, "level": report.level, "reason": report.reason, "hint": report.hint}
    said["protections"] = dict(report.protections)
    said["layers"] = {layer.name: (layer.fault, layer.hint) for layer in await sandbox.examine()}
    await sandbox.aclose()
    print(json.dumps(said))


if sys.argv[1]:
    globals()[sys.argv[1]]()
asyncio.run(main())
"""


@pytest.fixture
def on_a_machine(harness, place):
    """``on_a_machine("no_mounts")``: what a sandbox says and does there."""
    user = "root" if os.geteuid() == 0 else "ordinary"
    if reason := harness.reason_to_skip("namespaces", user):
        pytest.skip(reason)

    def run(how="", level="", floor=()):
        argv = [sys.executable, "-c", INSIDE, how, level, ",".join(floor), str(place.work), str(place.outside)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert not (place.outside / "no").exists()
        said = json.loads(done.stdout)
        assert (place.work / "ran").exists() == bool(said["ran"])
        return said

    return run


def faults(said):
    return {name: fault for name, (fault, _) in said["layers"].items() if fault}


def test_where_nothing_is_denied_every_layer_works(on_a_machine):
    said = on_a_machine()
    assert (said["ran"], said["level"], faults(said)) == ("ran", FULL_LEVEL, {})
    assert len(said["layers"]) == 10
    assert {word for word, means in said["protections"].items() if not means} <= {"process-count"}
    assert set(said["protections"]) == set(Protection)


MOUNTED = {"read-only mounts", "process namespace", "own devices", "own terminals"}
WITH_LIMIT = {*MOUNTED, "limit on processes"}
IN_NAMESPACES = {*WITH_LIMIT, "user namespace", "network namespace", "IPC namespace"}


@pytest.mark.parametrize(
    ("how", "denied", "reason", "hint"),
    [
        ("no_user_namespaces", IN_NAMESPACES, "Operation not permitted", "allow user namespaces"),
        ("no_room_for_namespaces", IN_NAMESPACES, "max_user_namespaces is 0", "sysctl -w user.max_user_namespaces"),
        ("no_room_for_networks", {"network namespace"}, "No space left on device", "allow user namespaces"),
        ("no_mounts", WITH_LIMIT, "Operation not permitted (mount", "allow user namespaces"),
        (
            "masked_proc",
            {"process namespace", "limit on processes"},
            "Operation not permitted (mount proc",
            "allow user",
        ),
    ],
)
def test_without_a_layer_the_weaker_level_is_used_and_told(on_a_machine, how, denied, reason, hint):
    said = on_a_machine(how)
    assert (said["ran"], said["level"]) == ("ran", REDUCED_LEVEL)
    assert reason in said["reason"]
    assert hint in said["hint"]
    assert set(faults(said)) == denied
    assert all(hint for _, hint in said["layers"].values() if _)
    assert said["protections"]["metadata"] == said["protections"]["reading"] == ""


@pytest.mark.parametrize("how", ["no_user_namespaces", "no_room_for_namespaces", "no_mounts", "masked_proc"])
def test_where_all_layers_are_demanded_nothing_runs(on_a_machine, how):
    said = on_a_machine(how, level="namespaces")
    assert (said["ran"], said["slug"]) == ("", "sandbox")
    assert said["error_hint"]


@pytest.mark.parametrize("how", ["no_user_namespaces", "no_room_for_namespaces", "no_mounts", "masked_proc"])
def test_a_floor_is_not_gone_below(on_a_machine, how):
    said = on_a_machine(how, floor=["metadata", "writing"])
    assert (said["ran"], said["slug"]) == ("", "sandbox-floor")
    assert said["error"].endswith(": metadata")
    assert said["error_hint"] == said["hint"]


@pytest.mark.parametrize("how", ["no_user_namespaces", "no_mounts"])
def test_a_floor_that_the_weaker_level_holds_lets_commands_run(on_a_machine, how):
    said = on_a_machine(how, floor=["writing", "network", "unix-sockets", "kernel", "lifetime"])
    assert (said["ran"], said["level"]) == ("ran", REDUCED_LEVEL)


def test_a_floor_of_everything_stands_where_nothing_is_denied(on_a_machine):
    floor = [one for one in Protection if one is not Protection.RESOURCES]
    said = on_a_machine(floor=floor)
    if not said["protections"]["process-count"]:
        pytest.skip("nothing bounds the number of processes here")
    assert (said["ran"], said["error"]) == ("ran", "")


@pytest.mark.parametrize(
    ("how", "layer", "reason", "hint"),
    [
        ("no_landlock", "Landlock", "Landlock is not enabled", "`landlock` in the `lsm=` boot parameter"),
        ("old_landlock", "Landlock", "Landlock is not enabled", "`landlock` in the `lsm=` boot parameter"),
        ("no_seccomp", "seccomp", "no seccomp filters", "CONFIG_SECCOMP_FILTER"),
    ],
)
def test_without_landlock_or_seccomp_nothing_runs(on_a_machine, how, layer, reason, hint):
    said = on_a_machine(how)
    assert (said["ran"], said["available"]) == ("", False)
    assert reason in said["reason"]
    assert hint in said["hint"]
    assert set(faults(said)) == {layer}
    assert hint in said["layers"][layer][1]
