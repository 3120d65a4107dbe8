"""Whole profiles against golden files, and what is true of all of them. ``UPDATE_GOLDEN=1`` writes the files anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seatbelt_language import Profile, Query, read

from codex_framework import AccessMode, FileAccess, NetworkMode, PathRule
from codex_framework.commands.access import file_access
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import ReadOnly, WorkspaceWrite
from codex_plugin_seatbelt.profile import profile_for

READ, WRITE, DENY = AccessMode.READ, AccessMode.WRITE, AccessMode.DENY
GOLDEN = Path(__file__).parent / "golden"

WORK = "/Users/me/work"


def ruled(modes: dict[str, AccessMode], **fields: object) -> FileAccess:
    rules = tuple(PathRule(Path(path), mode) for path, mode in sorted(modes.items()))
    return FileAccess(rules=rules, **fields)  # type: ignore[arg-type]


WORKSPACE = {WORK: WRITE, f"{WORK}/.agents": READ, f"{WORK}/.codex": READ, f"{WORK}/.git": READ}

ACCESSES = {
    "read_only": FileAccess(),
    "workspace": ruled({**WORKSPACE, "/tmp": WRITE, "/var/folders/xy/T": WRITE}),
    "nested": ruled(
        {
            "/r": WRITE,
            "/r/1": READ,
            "/r/1/2": WRITE,
            "/r/1/2/3": DENY,
            "/r/1/2/3/4": READ,
            "/r/1/2/3/4/5": WRITE,
            "/r/1/2/3/4/5/.git": READ,
        }
    ),
    "patterns": ruled(WORKSPACE, denied_globs=(f"{WORK}/**/.env", f"{WORK}/keys/[a-c]?.pem")),
    "restricted": ruled({**WORKSPACE, "/opt/tools": READ}, otherwise=DENY),
    "strange_names": ruled({'/r/a "b"': WRITE, '/r/a "b"/[c]\n^': READ, "/r/é(1)": DENY}),
    "private_tmp": ruled({**WORKSPACE, "/tmp": WRITE}, private_tmp=True),
    "full": FileAccess(full=True),
    "without_sandbox": ruled({**WORKSPACE, f"{WORK}/keys": DENY}, denied_globs=(f"{WORK}/**/.env",)).without_sandbox,
    "loopback": FileAccess(network=NetworkMode.LOOPBACK),
    "proxy": FileAccess(network=NetworkMode.PROXY),
    "network": FileAccess(network=NetworkMode.ON),
}

COMMANDS = {"proxy": {"ports": (3128, 0)}, "private_tmp": {"tmp": "/private/var/folders/xy/T/codex-tmp-1"}}
"""What belongs to one command, for some of them."""


@pytest.mark.parametrize("name", ACCESSES)
def test_a_profile_is_as_it_was(name, as_on_a_mac):
    text, parameters = profile_for(ACCESSES[name], as_on_a_mac).completed(**COMMANDS.get(name, {}))
    given = "".join(f"-D{parameter}={path}\n" for parameter, path in parameters.items())
    file = GOLDEN / f"{name}.sb"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(f"{text}\n{given}", encoding="utf-8")
    assert file.read_text(encoding="utf-8") == f"{text}\n{given}"


def test_every_golden_file_is_used():
    assert {file.stem for file in GOLDEN.iterdir()} == set(ACCESSES)


def strings(expression: object) -> list[str]:
    if isinstance(expression, list):
        return [one for part in expression for one in strings(part)]
    return [expression] if isinstance(expression, str) else []


@pytest.mark.parametrize("name", ACCESSES)
def test_paths_stand_in_parameters_alone(name, as_on_a_mac):
    text, parameters = profile_for(ACCESSES[name], as_on_a_mac).completed(**COMMANDS.get(name, {}))
    profile = Profile(text, parameters)
    assert profile.used == set(parameters)
    assert len(set(parameters.values())) == len(parameters)
    mine = [path for path in parameters.values() if path.startswith(("/Users", "/r", "/opt", "/private/tmp"))]
    assert not [one for one in strings(read(text)) for path in mine if one.startswith(path)]
    assert not re.search(r"/Users|/opt|secret", text)


@pytest.mark.parametrize("name", ACCESSES)
def test_only_moving_folders_is_ever_denied(name, as_on_a_mac):
    """What is not allowed is refused anyway; whether a ``deny`` takes back an ``allow`` depends on both their filters."""
    text, _ = profile_for(ACCESSES[name], as_on_a_mac).completed()
    denied = [one for one in read(text)[1:] if one[0] == "deny"]
    assert denied[0] == ["deny", "default"]
    assert all(one[1] == "file-write-unlink" and {part[0] for part in one[2:]} == {"literal"} for one in denied[1:])


def asked(name: str, **command: object) -> Profile:
    text, parameters = profile_for(ACCESSES[name], str).completed(**command)  # type: ignore[arg-type]
    return Profile(text, parameters)


NEVER = [
    ("mach-lookup", "com.apple.coreservices.launchservicesd"),
    ("mach-lookup", "com.apple.coreservices.appleevents"),
    ("mach-lookup", "com.apple.pasteboard.1"),
    ("mach-lookup", "com.apple.SecurityServer"),
    ("mach-lookup", "com.apple.securityd.xpc"),
    ("mach-lookup", "com.apple.tccd"),
    ("mach-lookup", "com.apple.windowserver.active"),
    ("sysctl-read", "kern.procargs2"),
    ("sysctl-read", "kern.proc.all"),
    ("sysctl-write", "kern.hostname"),
    ("iokit-open", "IOHIDParamUserClient"),
    ("ipc-posix-shm-read-data", "/somebody-elses"),
]


@pytest.mark.parametrize("name", ACCESSES)
@pytest.mark.parametrize(("operation", "what"), NEVER)
def test_services_that_lead_out_are_never_reached(name, operation, what):
    assert not asked(name, ports=(1,)).allows(operation, Query(name=what))


def test_preferences_are_read_by_their_daemon_only_where_nothing_is_denied():
    daemon = Query(name="com.apple.cfprefsd.daemon")
    assert asked("workspace").allows("mach-lookup", daemon)
    assert not any(asked(name).allows("mach-lookup", daemon) for name in ("patterns", "restricted", "nested"))


def test_terminals_are_opened_by_who_made_them_alone():
    profile = asked("workspace")
    other = Query(path="/dev/ttys003")
    assert not profile.allows("file-read-data", other)
    assert not profile.allows("file-write-data", other)
    assert not profile.allows("file-ioctl", other)
    assert profile.allows("file-read-metadata", other)
    assert profile.allows("file-read-data", other._replace(held=frozenset({"com.apple.sandbox.pty"})))
    own = asked("workspace", terminal="/dev/ttys004")
    assert own.allows("file-read-data", Query(path="/dev/ttys004"))
    assert own.allows("file-ioctl", Query(path="/dev/ttys004"))
    assert not own.allows("file-read-data", other)


def test_devices():
    profile = asked("restricted")
    device, file = Query(path="/dev/null", kind="CHARACTER-DEVICE"), Query(path="/dev/null")
    assert profile.allows("file-write-data", device)
    assert not profile.allows("file-write-data", file)
    assert not profile.allows("file-write-unlink", device)
    assert profile.reads("/dev/urandom")
    assert not profile.writes("/dev/disk0")


ADDRESSES = ["localhost:80", "localhost:3128", "192.0.2.1:443"]


@pytest.mark.parametrize(
    ("name", "command", "reached", "served"),
    [
        ("workspace", {}, [], []),
        ("loopback", {}, ADDRESSES[:2], ADDRESSES[:2]),
        ("proxy", {}, [], []),
        ("proxy", {"ports": (3128, 0)}, ["localhost:3128"], []),
        ("network", {}, ADDRESSES, ADDRESSES),
        ("workspace", {"ports": (3128, 80)}, [], []),
    ],
)
def test_network(name, command, reached, served):
    profile = asked(name, **command)
    assert [one for one in ADDRESSES if profile.allows("network-outbound", Query(address=one))] == reached
    for operation in ("network-bind", "network-inbound"):
        assert [one for one in ADDRESSES if profile.allows(operation, Query(address=one))] == served
    assert not profile.allows("network-outbound", Query(path="/private/var/run/docker.sock"))
    resolved = profile.allows("network-outbound", Query(path="/private/var/run/mDNSResponder"))
    assert resolved == (name == "network")
    assert profile.allows("mach-lookup", Query(name="com.apple.trustd.agent")) == (
        name == "network" or bool(reached[:1] and command)
    )


def test_links_are_resolved_and_a_kept_link_keeps_its_own_rule():
    links = {"/w/.codex": "/w/elsewhere", "/w/.git": "/r/git"}
    access = ruled({"/w": WRITE, "/w/.codex": READ, "/w/.git": READ, "/r/git": DENY})
    text, parameters = profile_for(access, lambda path: links.get(path, path)).completed()
    profile = Profile(text, parameters)
    assert profile.writes("/w/file")
    assert not any(profile.writes(path) for path in ["/w/.codex", "/w/elsewhere/x", "/w/.git", "/r/git/x"])
    assert not profile.reads("/r/git/x")


def test_the_beginning_of_a_pattern_is_resolved_and_it_is_denied_both_ways(as_on_a_mac):
    access = ruled({"/private/tmp/a*": WRITE, "/tmp": WRITE}, denied_globs=("/tmp/a[*]/**/*.pem", "/tmp/**/.env"))
    text, parameters = profile_for(access, as_on_a_mac).completed()
    profile = Profile(text, parameters)
    assert profile.writes("/private/tmp/a*/x")
    denied = ["/private/tmp/a*/b/x.pem", "/tmp/a*/x.pem", "/private/tmp/.env", "/private/tmp/a*/.env/x"]
    assert not any(profile.reads(path) or profile.writes(path) for path in denied)
    assert profile.reads("/private/tmp/ab/x.pem")


@given(st.integers(0, 6))
def test_what_the_kernel_plans_for_a_workspace_can_be_compiled(depth):
    cwd = Path("/no-such-folder", *("deeper",) * depth)
    for policy in (ReadOnly(), WorkspaceWrite(), WorkspaceWrite(network_access=True)):
        access = file_access(permissions_of(policy), cwd, {"TMPDIR": "/no-such-tmp"})
        text, parameters = profile_for(access, str).completed()
        profile = Profile(text, parameters)
        for path in [cwd / "file", cwd / ".git" / "config", Path("/no-such-tmp/x"), Path("/etc/x")]:
            assert profile.writes(str(path)) == (access.mode_of(path) is WRITE)
