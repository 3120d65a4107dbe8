"""The attacks of ``codex-framework sandbox prove``: the attacks of ``check_sandbox``, and others that sandboxes can stop.

Each runs with the permissions of an ordinary workspace, or with special ones for its subject: its own network, a proxy as the
only access to the network, unreadable files, limits.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from codex_framework.contract.permissions.file_access import NetworkMode, Protection, ResourceLimits
from codex_framework.contract.roles.networks import BlockedRequest, ProxyPorts
from codex_framework.testing.conformance.attempts import UNREAD, Attack, Attempt, Scene, escapes, network_attempts
from codex_framework.testing.conformance.remains import PARENT, remaining_attacks

__all__ = ["NoWayOut", "attacks"]

_MODES = Protection.METADATA
_KERNEL = Protection.KERNEL
_REMAINS = Protection.LIFETIME

_CALL = "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); print('DONE' if {} == 0 else 'refused')"
OTHER_ADDRESS = "127.0.0.2"
"""An address of this machine that no proxy uses."""

_NOWHERE = "192.0.2.1"
"""An address that is never assigned (RFC 5737)."""


class NoWayOut:
    """A gate that lets nothing through: connections to it are neither accepted nor answered."""

    blocked: tuple[BlockedRequest, ...] = ()

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def environment(self, ports: ProxyPorts) -> dict[str, str]:
        """Return nothing, because attackers know the ports."""
        return {"PROXY_PORT": str(ports.http)}

    async def serve(self, http: socket.socket, socks: socket.socket | None) -> None:
        """Do nothing with the sockets."""

    async def listen(self) -> ProxyPorts:
        """Return two ports, always the same ones. Other programs may listen on the same ports at other addresses."""
        while len(self._sockets) < 2:
            self._sockets.append(socket.create_server(("127.0.0.1", 0)))
        ports = [listener.getsockname()[1] for listener in self._sockets[:2]]
        for port in ports if len(self._sockets) == 2 else ():
            with contextlib.suppress(OSError):  # a system with a single loopback address, or the port is used
                self._sockets.append(socket.create_server((OTHER_ADDRESS, port)))
        return ProxyPorts(*ports)

    async def aclose(self) -> None:
        """Close the ports."""
        while self._sockets:
            self._sockets.pop().close()


@contextlib.contextmanager
def attacks(scene: Scene) -> Iterator[list[Attack]]:
    """Yield all attacks on a scene, while their targets exist."""
    shared = [Attack(attempt) for attempt in (*escapes(scene), *network_attempts(scene))]
    own = [
        *_attacks_on_missing_paths(scene),
        *_metadata(scene),
        *_kernel(),
        *_attacks_that_remain(scene),
        *_read_attacks(scene),
        *_resource_attacks(scene),
    ]
    with _services(scene) as (path, name):
        yield [*shared, *own, *remaining_attacks(scene), *_sockets(path, name), *_networks(scene, path, name)]


def _attacks_on_missing_paths(scene: Scene) -> Iterator[Attack]:
    """Return the deciding paths of later sessions that do not exist yet."""
    settings = scene.project / ".codex" / "config.toml"
    folder = shlex.quote(str(settings.parent))
    scripts = {
        "make the settings of a trusted project": f"mkdir {folder} && echo x > {folder}/config.toml",
        "make a symlink to the settings of a trusted project": (
            f"mkdir -p {folder}.d && echo x > {folder}.d/config.toml && ln -s {folder}.d {folder}"
        ),
    }
    for what, script in scripts.items():
        yield _shell_attack(what, script, lambda _: settings.exists(), Protection.PROTECTED_NAMES)


def _metadata(scene: Scene) -> Iterator[Attack]:
    before = scene.victim.stat()
    name = shlex.quote(str(scene.victim))

    def other_mode(_: str) -> bool:
        return scene.victim.stat().st_mode != before.st_mode

    def other_time(_: str) -> bool:
        return scene.victim.stat().st_mtime < 1e6

    yield _shell_attack("change the mode of a file outside", f"chmod 777 {name}", other_mode, _MODES)
    yield _shell_attack("change the time of a file outside", f"touch -d @1 {name}", other_time, _MODES)
    if sys.platform.startswith("linux"):
        code = "import os; os.utime('/dev/full'); print('DONE')"
        yield _python_attack("change the time of a device", code, lambda said: "DONE" in said, _MODES)
    yield from _set_id(scene)


def _set_id(scene: Scene) -> Iterator[Attack]:
    """Programs that would run as their owner or with its group, whoever starts them."""
    path = scene.work / "folder" / "program"

    def set_id(_: str) -> bool:
        return path.exists() and bool(path.stat().st_mode & 0o6000)

    ways = {
        "changing its mode": "open(PATH, 'w'); os.chmod(PATH, MODE)",
        "changing it by its descriptor": "os.fchmod(os.open(PATH, os.O_CREAT | os.O_WRONLY, 0o755), MODE)",
        "the mode of a new file": "os.umask(0); os.open(PATH, os.O_CREAT | os.O_WRONLY, MODE)",
        "making a node": "os.umask(0); os.mknod(PATH, MODE)",
    }
    for bit, mode in (("set-uid", 0o4755), ("set-gid", 0o2755)):
        for way, code in ways.items():
            script = f"import os; PATH = {str(path)!r}; MODE = {mode}; {code}"
            yield _python_attack(f"leave a {bit} program by {way}", script, set_id, _KERNEL)


def _kernel() -> Iterator[Attack]:
    calls = {
        "make a user namespace": "libc.unshare(0x10000000)",
        "make a mount namespace": "libc.unshare(0x00020000)",
        "change the host's name": "libc.sethostname(os.uname().nodename.encode(), len(os.uname().nodename))",
    }
    for what, call in calls.items():
        yield _python_attack(what, _CALL.format(call), lambda said: "DONE" in said, _KERNEL)
    mount = (
        "import ctypes, errno; libc = ctypes.CDLL(None, use_errno=True);"
        " libc.mount(b'none', b'/no-such-folder-4711', b'tmpfs', 0, None);"
        " print('DONE' if ctypes.get_errno() == errno.ENOENT else 'refused')"
    )  # if it is allowed, it fails because the folder is missing, so nothing is ever mounted
    yield _python_attack("mount something", mount, lambda said: "DONE" in said, _KERNEL)
    socket = "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); print('DONE')"
    yield _python_attack("open a netlink socket", socket, lambda said: "DONE" in said, _KERNEL)
    yield from _calls()
    terminal = "import fcntl, os; fcntl.ioctl(os.openpty()[1], 0x5412, b'x'); print('DONE')"
    yield _python_attack("type into a terminal", terminal, lambda said: "DONE" in said, Protection.TERMINALS)


def _calls() -> Iterator[Attack]:
    """Attacks with system calls by number, because no library offers them."""
    if not sys.platform.startswith("linux"):
        return
    arm = os.uname().machine == "aarch64"
    calls = {
        "start asynchronous input and output (io_uring)": "425, 4, bytes(120)",
        "look into the session's keyring": f"{219 if arm else 250}, 0, -3, 0",
        "load a program into the kernel (bpf)": f"{280 if arm else 321}, 0, bytes(128), 128",
        "be traced": f"{117 if arm else 101}, 0, 0, 0, 0",
        "handle page faults (userfaultfd)": f"{282 if arm else 323}, 1",
    }
    for what, call in calls.items():
        # A call that fails only because of an invalid argument was not refused.
        code = (
            f"import ctypes, errno; libc = ctypes.CDLL(None, use_errno=True); done = libc.syscall({call}) >= 0;"
            " print('DONE' if done or ctypes.get_errno() in (errno.EINVAL, errno.EFAULT, errno.ENOKEY) else 'refused')"
        )
        yield _python_attack(what, code, lambda said: "DONE" in said, _KERNEL)


def _attacks_that_remain(scene: Scene) -> Iterator[Attack]:
    late = scene.work / "late"
    script = f"setsid sh -c 'sleep 0.5; echo x > {late}' >/dev/null 2>&1 </dev/null & sleep 0.1"

    def is_left(_: str) -> bool:
        import time

        time.sleep(0.7)
        return os.path.lexists(late)

    yield _shell_attack("leave a process behind", script, is_left, _REMAINS)


def _read_attacks(scene: Scene) -> Iterator[Attack]:
    """Attempts to read a denied file: one outside, and one in the workspace, whose folder is writable."""
    outside, inside = scene.outside / "unread" / "secret", scene.work / "folder" / "secret"
    work, path, own = (shlex.quote(str(one)) for one in (scene.work, outside, inside))
    folder = shlex.quote(str(inside.parent))
    scripts = {
        "read a denied file": f"cat {path}",
        "read a denied file in the workspace": f"cat {own}",
        "read a denied file by way of /proc/self/root": f"cat /proc/self/root{path}",
        "read a denied file by way of /proc/1/root": f"cat /proc/1/root{path}",
        "read a denied file through a symlink": f"ln -s {path} {work}/read1; cat {work}/read1",
        "read a denied file through a hard link": f"ln {own} {work}/read2; cat {work}/read2",
        "read a denied file after moving it": f"mv {own} {work}/read3; cat {work}/read3",
        "read a denied file after moving its folder": f"mv {folder} {work}/read4; cat {work}/read4/secret",
        "read a denied file through a folder's descriptor": f"cd {folder} && exec 9< . && cat /proc/self/fd/9/secret",
        "copy a denied file": f"cp -a {folder} {work}/read5; cat {work}/read5/secret",
    }
    codes = {
        "read a denied file by a descriptor for its path": "os.open('/proc/self/fd/%d' % os.open(PATH, os.O_PATH), 0)",
        "map a denied file": "(lambda f: (mmap.mmap(f, 0, prot=1), f)[1])(os.open(PATH, 0))",
    }
    if sys.platform.startswith("linux"):
        codes["read a denied file through a mount of its folder"] = (
            "libc.unshare(0x20000) or libc.mount(b'none', b'/', None, 0x44000, None)"  # in a private namespace
            " or libc.mount(os.path.dirname(PATH).encode(), WORK, None, 4096, None) or os.open(WORK + b'/secret', 0)"
        )
        codes["read a denied file by its handle"] = _BY_HANDLE

    def shows_content(said: str) -> bool:
        return UNREAD.strip() in said

    for what, script in scripts.items():
        yield _shell_attack(what, script, shows_content, Protection.READING).evolve(denied=(outside, inside))
    for what, code in codes.items():
        opened = (
            "import ctypes, mmap, os; libc = ctypes.CDLL(None);"
            f" PATH = {str(outside)!r}; WORK = {str(scene.work)!r}.encode(); print(os.read({code}, 99))"
        )
        yield _python_attack(what, opened, shows_content, Protection.READING).evolve(denied=(outside, inside))


_BY_HANDLE = (
    "(lambda h, m: libc.name_to_handle_at(-100, PATH.encode(), h, m, 0)"
    " or libc.open_by_handle_at(os.open('/', 0), h, 0))"
    "((ctypes.c_uint32 * 40)(128), (ctypes.c_int * 1)())"
)


def _resource_attacks(scene: Scene) -> Iterator[Attack]:
    """Attempts to use more than allowed, within amounts that do not endanger the machine."""
    big = scene.work / "file"
    running = os.cpu_count() or 1
    with contextlib.suppress(OSError):
        running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    most = running + 500
    forks = (
        f"import os, signal, time\nmade = 0\nwhile made < {most}:\n"
        "    try: child = os.fork()\n    except OSError: break\n"
        "    if child == 0: time.sleep(60); os._exit(0)\n    made += 1\n"
        f"print('WITHOUT END' if made == {most} else 'bounded')"
    )
    yield _python_attack(
        "make processes without end", forks, lambda said: "WITHOUT END" in said, Protection.PROCESS_COUNT
    ).evolve(limits=ResourceLimits(processes=100))
    memory = "x = bytearray(1 << 30); print('TAKEN')"
    yield _python_attack(
        "take more memory than allowed", memory, lambda said: "TAKEN" in said, Protection.RESOURCES
    ).evolve(limits=ResourceLimits(memory_bytes=256 << 20))
    yield _shell_attack(
        "write a bigger file than allowed",
        f"head -c 3000000 /dev/zero > {shlex.quote(str(big))}",
        lambda _: big.stat().st_size > 1 << 20,
        Protection.RESOURCES,
    ).evolve(limits=ResourceLimits(file_bytes=1 << 20))


@contextlib.contextmanager
def _services(scene: Scene) -> Iterator[tuple[str, str]]:
    """Provide listening Unix sockets: one with a path, and one with an abstract name."""
    path = str(scene.outside.parent / "service")
    name = f"\0check-sandbox-{os.getpid()}"
    with contextlib.ExitStack() as opened:
        for address in (path, name) if sys.platform.startswith("linux") else (path,):
            made = opened.enter_context(socket.socket(socket.AF_UNIX))
            made.bind(address)
            made.listen()
        yield path, name


def _sockets(path: str, name: str) -> Iterator[Attack]:
    """Attempts to reach services on this machine and its host."""
    codes = {
        "reach a service by its unix socket": f"socket.socket(socket.AF_UNIX).connect({path!r})",
        "reach a service by its abstract unix socket": f"socket.socket(socket.AF_UNIX).connect({name!r})",
        "reach a service from a pair of sockets": f"socket.socketpair()[0].connect({path!r})",
        "reach the machine around (vsock)": "socket.socket(40, socket.SOCK_STREAM)",
        "send packets past the network's layers": "socket.socket(17, socket.SOCK_RAW)",
    }
    for what, code in codes.items():
        yield _connect_attack(what, code, NetworkMode.OFF, Protection.UNIX_SOCKETS)


def _networks(scene: Scene, path: str, name: str) -> Iterator[Attack]:
    """Attempts to get around a restricted network."""
    port = scene.listener.getsockname()[1]

    here, there = ("127.0.0.1", port), (_NOWHERE, 443)
    to_here = {
        "connect to a server of this machine": f"socket.create_connection({here}, 2)",
        "connect in a first packet with data": f"socket.socket().sendto(b'x', 0x20000000, {here})",
        "connect in a first message": f"socket.socket().sendmsg([b'x'], [], 0x20000000, {here})",
        "connect by several paths": f"socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect({here})",
    }
    to_there = {
        "connect to the outside": f"socket.create_connection({there}, 1)",
        "ask a name server": f"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ({_NOWHERE!r}, 53))",
        "send raw packets": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
        "send packets past the network's layers": "socket.socket(17, socket.SOCK_DGRAM)",
        "configure the network (netlink)": "socket.socket(16, socket.SOCK_RAW, 0)",
        "reach the machine around (vsock)": "socket.socket(40, socket.SOCK_STREAM)",
        "reach a service by its unix socket": f"socket.socket(socket.AF_UNIX).connect({path!r})",
        "reach a service by its abstract unix socket": f"socket.socket(socket.AF_UNIX).connect({name!r})",
    }
    for mode, words in (
        (NetworkMode.LOOPBACK, "where only the loopback address works"),
        (NetworkMode.PROXY, "past the proxy"),
    ):
        for what, code in to_here.items():
            attack = _connect_attack(f"{what}, {words}", code, mode, Protection.NETWORK)
            yield attack.evolve(attempt=attack.attempt.evolve(succeeded=scene.has_connected))
        for what, code in to_there.items():
            yield _connect_attack(f"{what}, {words}", code, mode, Protection.NETWORK)
    code = f"import os; socket.create_connection(({OTHER_ADDRESS!r}, int(os.environ['PROXY_PORT'])), 1)"
    what = "connect to another host at the number of the proxy's port"
    yield _connect_attack(what, code, NetworkMode.PROXY, Protection.NETWORK)
    trace = f"{PARENT}; import ctypes; assert ctypes.CDLL(None).ptrace(0x4206, PARENT, 0, 0) == 0"
    if sys.platform.startswith("linux"):  # PTRACE_SEIZE does not stop the process
        what = "trace the process that starts commands, with the network on"
        yield _connect_attack(what, trace, NetworkMode.ON, Protection.PROCESSES)


def _connect_attack(what: str, code: str, network: NetworkMode, danger: Protection) -> Attack:
    attack = _python_attack(what, f"import socket; {code}; print('REACHED')", lambda said: "REACHED" in said, danger)
    return attack.evolve(network=network)


def _shell_attack(what: str, script: str, succeeded: Callable[[str], bool], danger: Protection) -> Attack:
    return Attack(Attempt(what=what, argv=("/bin/sh", "-c", script), succeeded=succeeded), danger)


def _python_attack(what: str, code: str, succeeded: Callable[[str], bool], danger: Protection) -> Attack:
    return Attack(Attempt(what=what, argv=(sys.executable, "-S", "-c", code), succeeded=succeeded), danger)
