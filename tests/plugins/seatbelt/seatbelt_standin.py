"""Takes the place of ``sandbox-exec`` on Linux: understands the profile or refuses it, and confines by the ``landlock`` sandbox.

The access is rebuilt from what the profile answers, not from what it was made of; so an attack that succeeds shows a profile that
allows too much, and a job that fails one that allows too little.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from seatbelt_language import BadProfile, Profile, Query

from codex_framework import AccessMode, CommandFailed, FileAccess, Launch, NetworkMode, PathRule, SandboxError

USAGE, BAD_PROFILE, OS_ERROR = 64, 65, 71
"""As ``sandbox-exec`` exits."""

PLATFORM = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/usr")
"""What programs need on Linux where a profile lets them read what they need on a Mac."""

NOWHERE = "/no-such-place-4711/file"


def main(record: str) -> NoReturn:
    """Run ``sys.argv``; each command line is noted in a file."""
    with Path(record).open("a") as file:
        file.write(json.dumps(sys.argv[1:]) + "\n")
    text, parameters, command = parsed(sys.argv[1:])
    try:
        profile = Profile(text, parameters)
        if profile.used != set(parameters):
            raise BadProfile("parameters that nothing uses")
    except BadProfile as error:
        fail(BAD_PROFILE, str(error))
    try:
        status = asyncio.run(run(access_of(profile), command))
    except (CommandFailed, SandboxError) as error:
        fail(OS_ERROR, f"execvp() of '{command[0]}' failed: {error}")
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -status)
    sys.exit(status)


def fail(status: int, text: str) -> NoReturn:
    sys.stderr.write(f"sandbox-exec: {text}\n")
    sys.exit(status)


def parsed(argv: list[str]) -> tuple[str, dict[str, str], list[str]]:
    """``-p PROFILE -DNAME=VALUE... -- COMMAND``, and nothing else."""
    if argv[:1] != ["-p"] or "--" not in argv:
        fail(USAGE, "usage")
    end = argv.index("--", 2)
    given = argv[2:end]
    if not all(one.startswith("-D") and "=" in one for one in given) or not argv[end + 1 :]:
        fail(USAGE, "usage")
    pairs = [one[2:].split("=", 1) for one in given]
    if len({name for name, _ in pairs}) != len(pairs):
        fail(USAGE, "a name is given twice")
    return argv[1], dict(pairs), argv[end + 1 :]


def access_of(profile: Profile) -> FileAccess:
    """The access that a profile amounts to, by asking it."""
    network = network_of(profile)
    if profile.writes(NOWHERE):
        return FileAccess(full=True, network=network)
    otherwise = mode_of(profile, NOWHERE)
    modes = {path: mode_of(profile, path) for path in profile.parameters.values() if not path.startswith("/dev/")}
    modes |= {str(path): AccessMode.DENY for path in matches(profile)}
    modes.pop("/", None)
    if otherwise is AccessMode.DENY and profile.reads("/usr/bin/env"):
        modes |= dict.fromkeys((*PLATFORM, sys.prefix, sys.base_prefix), AccessMode.READ)
    plain = {
        path: mode
        for path, mode in modes.items()
        if mode is not mode_of(profile, str(Path(path).parent)) or path in PLATFORM
    }
    rules = tuple(PathRule(Path(path), mode) for path, mode in sorted(plain.items()))
    return FileAccess(rules=rules, otherwise=otherwise, network=network)


def mode_of(profile: Profile, path: str) -> AccessMode:
    if profile.writes(path):
        return AccessMode.WRITE
    return AccessMode.READ if profile.reads(path) else AccessMode.DENY


def matches(profile: Profile) -> Iterable[Path]:
    """What cannot be read below the folders that can be written: patterns, seen from outside."""
    for root in {path for path in profile.parameters.values() if profile.writes(path)}:
        for folder, folders, files in os.walk(root):
            for name in (*folders, *files):
                path = Path(folder, name)
                if not profile.reads(str(path)):
                    yield path
            folders[:] = [name for name in folders if profile.reads(f"{folder}/{name}")]


def network_of(profile: Profile) -> NetworkMode:
    """Single ports cannot be had here without a gate: whoever gets one gets the network. The evaluator has its own tests."""
    if profile.allows("network-outbound", Query(address="192.0.2.1:443")) or ports_of(profile):
        return NetworkMode.ON
    if profile.allows("network-outbound", Query(address="localhost:1")):
        return NetworkMode.LOOPBACK
    return NetworkMode.OFF


def ports_of(profile: Profile) -> list[str]:
    """The single ports on this machine that may be reached."""
    given = [part[2] for rule in profile.rules for part in rule.filters if part[:2] == ["remote", "ip"]]
    return [one for one in given if one.startswith("localhost:") and one != "localhost:*"]


async def run(access: FileAccess, command: list[str]) -> int:
    from codex_plugin_landlock.sandbox import LandlockSandbox

    tty = os.isatty(0)
    if tty:
        let_go_of_terminal()
    sandbox = LandlockSandbox()
    try:
        confinement = sandbox.confine(access, Path.cwd())
        launch = Launch(
            argv=tuple(command), cwd=str(Path.cwd()), env=dict(os.environ), stdin=0, stdout=1, stderr=2, tty=tty
        )
        child = await confinement.start(launch)
        return await child.wait()
    finally:
        await sandbox.aclose()


def let_go_of_terminal() -> None:
    """A terminal controls one session: it is to be the command's, and this process cannot become the command."""
    import fcntl
    import termios

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    fcntl.ioctl(0, termios.TIOCNOTTY)
