"""The modes of the network between off and on: a loopback address of its own, and a proxy as the only way out."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401  # an ordinary user may not be able to read it later
import contextlib
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Mapping

import pytest

from codex_framework.contract.errors import SandboxError
from codex_framework.contract.permissions.file_access import NetworkMode, Protection, ResourceLimits
from codex_framework.contract.permissions.network_rules import NetworkRules
from codex_framework.contract.roles.networks import BlockedRequest, ProxyPorts
from codex_framework.testing import run_confined
from codex_plugin_landlock.jail.landlock import abi_version
from codex_plugin_landlock.sandbox import LandlockSandbox

pytestmark = pytest.mark.slow

ENV = {"PATH": os.defpath + ":/usr/local/bin", "LANG": "C.UTF-8"}
LEVELS = ["namespaces", "landlock"]


@pytest.fixture(params=LEVELS)
def level(request, harness):
    return usable(harness, request.param)


@pytest.fixture
def own(harness):
    """The level with a network of its own."""
    return usable(harness, "namespaces")


def usable(harness, level):
    reason = harness.reason_to_skip(level, "root" if os.geteuid() == 0 else "ordinary")
    if reason:
        pytest.skip(reason)
    if level == "landlock" and abi_version() < 4:
        pytest.skip("Landlock does not know TCP here")
    return level


class Gate:
    """Answers each connection with its own word and what it was sent: enough to see who serves whom."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.heard: list[str] = []
        self.served: list[tuple[int, int]] = []
        self.blocked: tuple[BlockedRequest, ...] = ()
        self._servers: list[asyncio.Server] = []
        self._ports: ProxyPorts | None = None

    def environment(self, ports: ProxyPorts) -> Mapping[str, str]:
        return {"HTTP_PROXY": f"http://127.0.0.1:{ports.http}", "http_proxy": f"http://127.0.0.1:{ports.http}"}

    async def serve(self, http: socket.socket, socks: socket.socket | None) -> None:
        assert socks is not None
        self.served.append((http.getsockname()[1], socks.getsockname()[1]))
        for one in (http, socks):
            self._servers.append(await asyncio.start_server(self._answer, sock=one.dup()))

    async def listen(self) -> ProxyPorts:
        if self._ports is None:
            for _ in range(2):
                self._servers.append(await asyncio.start_server(self._answer, "127.0.0.1", 0))
            self._ports = ProxyPorts(*(server.sockets[0].getsockname()[1] for server in self._servers))
        return self._ports

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            line = (await reader.readline()).decode().strip()
            self.heard.append(line)
            body = f"{self.word}\n"
            writer.write(f"HTTP/1.0 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def aclose(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
            await server.wait_closed()


@contextlib.asynccontextmanager
async def gates(*words: str) -> AsyncIterator[list[Gate]]:
    made = [Gate(word) for word in words]
    try:
        yield made
    finally:
        for gate in made:
            await gate.aclose()


async def run(confinement, place, argv, gate=None, env=ENV):
    """What a command printed."""
    return (await run_confined(confinement, argv, place.work, env={**env, **confinement.env}, gate=gate)).output


def with_network(level, place, network, work, *, interpreter=None, hosts_by_port=True, **access):
    """``work(sandbox, run)`` with a sandbox whose commands have that network."""

    async def main():
        sandbox = LandlockSandbox(level, python=interpreter, hosts_by_port=hosts_by_port)
        try:
            confinement = sandbox.confine(place.access().evolve(network=network, **access), place.work)
            return await work(sandbox, lambda *args, **options: run(confinement, place, *args, **options))
        finally:
            await sandbox.aclose()

    return asyncio.run(main())


def python(code):
    return [sys.executable, "-S", "-c", code]


FETCH = python(
    "import os, urllib.request; print(urllib.request.urlopen('http://never.invalid/x').read().decode().strip())"
)


def test_a_proxy_is_the_way_out(level, place):
    async def work(sandbox, run):
        async with gates("here") as (gate,):
            said = await run(FETCH, gate)
            told = await run(["sh", "-c", "echo $CODEX_NETWORK_PROXY_ACTIVE,$CODEX_SANDBOX_NETWORK_DISABLED"], gate)
            return said, told, gate.heard

    said, told, heard = with_network(level, place, NetworkMode.PROXY, work)
    assert (said, told, heard) == ("here\n", "1,\n", ["GET http://never.invalid/x HTTP/1.1"])


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_curl_goes_by_the_proxy(level, place):
    async def work(sandbox, run):
        async with gates("here") as (gate,):
            return await run(["curl", "-s", "http://never.invalid/x"], gate), gate.heard

    said, heard = with_network(level, place, NetworkMode.PROXY, work)
    assert (said, heard) == ("here\n", ["GET http://never.invalid/x HTTP/1.1"])


def test_the_variables_of_the_proxy_count_over_the_commands_own(level, place):
    async def work(sandbox, run):
        async with gates("here") as (gate,):
            return await run(["sh", "-c", "echo $HTTP_PROXY"], gate, env={**ENV, "HTTP_PROXY": "http://other:1"})

    assert with_network(level, place, NetworkMode.PROXY, work).startswith("http://127.0.0.1:")


def test_both_ports_are_the_usual_ones_in_a_network_of_its_own(own, place):
    async def work(sandbox, run):
        async with gates("here") as (gate,):
            code = (
                "import socket\nfor port in (3128, 8081):\n"
                " s = socket.create_connection(('127.0.0.1', port)); s.send(b'x\\n'); print(len(s.recv(99)) > 5)"
            )
            return await run(python(code), gate), gate.served

    assert with_network(own, place, NetworkMode.PROXY, work) == ("True\nTrue\n", [(3128, 8081)])


def test_a_gate_serves_its_own_command_only(level, place):
    """The sandbox is used again for the second command, while the first gate is still open."""

    async def work(sandbox, run):
        async with gates("first", "second") as (first, second):
            said = [await run(FETCH, gate) for gate in (first, second, second, first)]
            return said, len(first.heard), len(second.heard)

    said, *heard = with_network(level, place, NetworkMode.PROXY, work)
    assert (said, heard) == (["first\n", "second\n", "second\n", "first\n"], [2, 2])


def test_what_the_last_command_left_waiting_is_never_served(own, place):
    """Requests that nobody had accepted when their command ended do not go out by the next one's gate."""
    flood = python(
        "import socket\nkept = []\nfor _ in range(40):\n"
        " s = socket.socket(); s.setblocking(False)\n s.connect_ex(('127.0.0.1', 3128)); kept.append(s)\n"
        "import time; time.sleep(0.1)\nfor s in kept:\n"
        "  try: s.send(b'left over\\n')\n  except OSError: pass\nprint('left')"
    )

    async def work(sandbox, run):
        async with gates("second") as (second,):
            first = Deaf("first")
            said = [await run(flood, first), await run(FETCH, second)]
            return said, second.heard

    said, heard = with_network(own, place, NetworkMode.PROXY, work)
    assert (said, heard) == (["left\n", "second\n"], ["GET http://never.invalid/x HTTP/1.1"])


class Deaf(Gate):
    """Accepts nothing."""

    async def serve(self, http: socket.socket, socks: socket.socket | None) -> None:
        return


def test_many_commands_by_their_own_gates_at_once(level, place):
    async def work(sandbox, run):
        words = [f"word{number}" for number in range(8)]
        async with gates(*words) as made:
            return await asyncio.gather(*(run(FETCH, gate) for gate in made))

    assert with_network(level, place, NetworkMode.PROXY, work) == [f"word{number}\n" for number in range(8)]


def test_without_a_gate_nothing_runs(level, place):
    async def work(sandbox, run):
        with pytest.raises(SandboxError, match="only through a proxy") as caught:
            await run(["touch", "ran"])
        return caught.value.hint

    assert "network proxy" in with_network(level, place, NetworkMode.PROXY, work)
    assert not (place.work / "ran").exists()


def test_a_gate_that_fails_fails_the_command(level, place):
    class Broken(Gate):
        async def serve(self, http, socks):
            raise SandboxError("no way out")

        listen = serve

        async def listen(self):  # noqa: F811
            raise SandboxError("no way out")

    async def work(sandbox, run):
        with pytest.raises(SandboxError, match="no way out"):
            await run(["touch", "ran"], Broken("x"))
        async with gates("next") as (gate,):
            return await run(FETCH, gate)

    assert with_network(level, place, NetworkMode.PROXY, work) == "next\n"
    assert not (place.work / "ran").exists()


SERVE = python(
    "import socket, threading\n"
    "for family, host in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):\n"
    " s = socket.create_server((host, 0), family=family)\n"
    " threading.Thread(target=lambda: s.accept()[0].send(b'served')).start()\n"
    " print(socket.create_connection(s.getsockname()[:2]).recv(9).decode())\n"
    "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 0))\n"
    "v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); v.sendto(b'datagram', u.getsockname())\n"
    "print(u.recv(99).decode())"
)


@pytest.mark.parametrize("network", [NetworkMode.LOOPBACK, NetworkMode.PROXY])
def test_servers_of_its_own_can_be_reached(own, place, network):
    async def work(sandbox, run):
        async with gates("x") as (gate,):
            return await run(SERVE, gate if network is NetworkMode.PROXY else None)

    assert with_network(own, place, network, work) == "served\nserved\ndatagram\n"


def test_loopback_is_told_as_no_network(own, place):
    async def work(sandbox, run):
        return await run(["sh", "-c", "echo $CODEX_SANDBOX_NETWORK_DISABLED"])

    assert with_network(own, place, NetworkMode.LOOPBACK, work) == "1\n"


def test_loopback_without_a_network_of_its_own_is_refused(harness, place):
    usable(harness, "landlock")

    async def work(sandbox, run):
        raise AssertionError

    with pytest.raises(SandboxError, match="their own loopback network") as caught:
        with_network("landlock", place, NetworkMode.LOOPBACK, work)
    assert caught.value.hint


ATTACKS = {
    "a server of the machine": "socket.create_connection(('127.0.0.1', PORT), 1)",
    "a server of the machine by IPv6": "socket.create_connection(('::1', PORT), 1)",
    "the outside": "socket.create_connection(('192.0.2.1', 80), 1)",
    "the outside by IPv6": "socket.create_connection(('2001:db8::1', 80), 1)",
    "a datagram to the outside": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
    "a name server": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('8.8.8.8', 53))",
    "raw packets": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "raw packets by IPv6": "socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)",
    "packets": "socket.socket(17, socket.SOCK_DGRAM)",
    "a machine around": "socket.socket(40, socket.SOCK_STREAM)",
    "the kernel by netlink": "socket.socket(16, socket.SOCK_RAW, 0)",
    "kernel crypto": "socket.socket(38, socket.SOCK_SEQPACKET)",
    "a unix socket": "socket.socket(socket.AF_UNIX).connect(SERVER)",
    "an abstract unix socket": "socket.socket(socket.AF_UNIX).connect('\\0' + NAME)",
    "a unix datagram": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', SERVER)",
    "a unix datagram from a pair": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "a pair with an address": "socket.socketpair()[0].connect(SERVER)",
    "data in the first packet": "socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', PORT))",
    "a message in the first packet": "socket.socket().sendmsg([b'x'], [], 0x20000000, ('127.0.0.1', PORT))",
    "several paths": "other_stream(262)",
    "streams of another kind": "other_stream(132)",
    "an interface of its own": "fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sH22x', b'eth0', 1))",
    "another network namespace": "os.setns(os.open('/proc/self/ns/net', os.O_RDONLY), 0)"
    if hasattr(os, "setns")
    else "libc(308, os.open('/proc/self/ns/net', os.O_RDONLY), 0)",
}
"""Each has failed if it ends in an ``OSError``."""

RUNNER = """
import ctypes, fcntl, os, socket, struct, sys
PORT, SERVER, NAME = int(sys.argv[1]), sys.argv[2], sys.argv[3]
_libc = ctypes.CDLL(None, use_errno=True)
def libc(number, *rest):
    if _libc.syscall(number, *rest) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def other_stream(protocol):
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    made.settimeout(1)
    made.connect(("127.0.0.1", PORT))
for name, code in ATTACKS.items():
    try:
        exec(code)
        print("escaped:", name)
    except OSError:
        pass
print("tried", len(ATTACKS))
"""


@pytest.mark.parametrize("network", [NetworkMode.OFF, NetworkMode.LOOPBACK, NetworkMode.PROXY])
def test_nothing_goes_round_it(level, place, network):
    if level == "landlock" and network is NetworkMode.LOOPBACK:
        pytest.skip("refused at this level")
    name = f"name-{os.getpid()}"

    async def work(sandbox, run):
        with contextlib.ExitStack() as opened:
            tcp = opened.enter_context(socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True))
            unix = opened.enter_context(socket.socket(socket.AF_UNIX))
            unix.bind(str(place.outside / "server"))
            abstract = opened.enter_context(socket.socket(socket.AF_UNIX))
            abstract.bind("\0" + name)
            for server in (unix, abstract):
                server.listen()
            tcp.settimeout(0.1)
            async with gates("x") as (gate,):
                script = f"ATTACKS = {ATTACKS!r}\n{RUNNER}"
                argv = [*python(script), str(tcp.getsockname()[1]), str(place.outside / "server"), name]
                said = await run(argv, gate if network is NetworkMode.PROXY else None)
            with contextlib.suppress(TimeoutError):
                tcp.accept()[0].close()
                said += "reached the server"
        return said

    assert with_network(level, place, network, work) == f"tried {len(ATTACKS)}\n"


def test_at_the_level_without_namespaces_a_floor_on_the_network_rules_a_proxy_out(harness, place):
    usable(harness, "landlock")

    async def work(sandbox, run):
        raise AssertionError

    with pytest.raises(SandboxError) as caught:
        with_network("landlock", place, NetworkMode.PROXY, work, floor=frozenset({Protection.NETWORK}))
    assert (caught.value.slug, "network" in str(caught.value)) == ("sandbox-floor", True)


def test_without_namespaces_a_list_of_hosts_is_refused_unless_ports_are_accepted(harness, place):
    usable(harness, "landlock")

    async def work(sandbox, run):
        raise AssertionError

    with pytest.raises(SandboxError, match="cannot be restricted to some hosts here") as caught:
        with_network("landlock", place, NetworkMode.PROXY, work, hosts_by_port=False)
    assert "hosts_by_port = true" in caught.value.hint


def test_with_namespaces_a_list_of_hosts_needs_no_setting(own, place):
    async def work(sandbox, run):
        async with gates("here") as (gate,):
            return await run(FETCH, gate)

    assert with_network(own, place, NetworkMode.PROXY, work, hosts_by_port=False) == "here\n"


MANAGER = python(
    "import multiprocessing\n"
    "with multiprocessing.Manager() as manager:\n kept = manager.list([1]); kept.append(2); print(list(kept))"
)
TRACER = python(
    "import ctypes, os, time\nlibc = ctypes.CDLL(None, use_errno=True)\nchild = os.fork()\n"
    "if child == 0: time.sleep(60)\n"
    "print(libc.ptrace(16, child, 0, 0), os.WIFSTOPPED(os.waitpid(child, 0)[1]))\nos.kill(child, 9)"
)
NAMED = python(
    "import socket\ntry: socket.socket(socket.AF_UNIX); print('made')\nexcept PermissionError: print('refused')"
)


def test_with_the_network_on_unix_sockets_and_tracing_work(level, place):
    async def work(sandbox, run):
        env = {**ENV, "TMPDIR": str(place.work / "tmp")}
        return [await run(MANAGER, env=env), await run(TRACER), await run(NAMED)]

    (place.work / "tmp").mkdir()
    assert with_network(level, place, NetworkMode.ON, work) == ["[1, 2]\n", "0 True\n", "made\n"]


def test_a_floor_on_unix_sockets_refuses_them_with_the_network_on_too(level, place):
    async def work(sandbox, run):
        return [await run(NAMED), await run(python("import socket; print(len(socket.socketpair()))"))]

    floor = frozenset({Protection.UNIX_SOCKETS})
    assert with_network(level, place, NetworkMode.ON, work, floor=floor) == ["refused\n", "2\n"]


def test_limits_and_a_proxy_go_together(own, place):
    async def work(sandbox, run):
        async with gates("here") as (gate,):
            return await run(FETCH, gate)

    limits = ResourceLimits(processes=200, memory_bytes=1 << 30, file_bytes=1 << 20)
    assert with_network(own, place, NetworkMode.PROXY, work, limits=limits) == "here\n"


def test_the_bundled_proxy_lets_through_what_its_rules_say(level, place):
    plugin = pytest.importorskip("codex_plugin_network_proxy")
    code = (
        "import os, urllib.request\nos.environ['no_proxy'] = os.environ['NO_PROXY'] = ''\n"
        "try: print(urllib.request.urlopen('http://localhost:%s/').read().decode().strip())\n"
        "except urllib.error.HTTPError as error: print(error.code)"
    )

    async def work(sandbox, run):
        (proxy,) = plugin.codex_network_proxies()
        server = Gate("outside")
        port = (await server.listen()).http
        said = []
        try:
            for domains in ({"localhost": "allow"}, {}, {"localhost": "allow"}):
                gate = proxy.gate(NetworkRules(domains=domains, allow_local_binding=bool(domains)))
                try:
                    said.append(await run(python(code % port), gate))
                finally:
                    await gate.aclose()
        finally:
            await server.aclose()
            await proxy.aclose()
        return said

    assert with_network(level, place, NetworkMode.PROXY, work) == ["outside\n", "403\n", "outside\n"]


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests are run by an ordinary user")
@pytest.mark.parametrize("level", LEVELS)
def test_an_ordinary_user_has_the_same(harness, level):
    if reason := harness.reason_to_skip(level, "ordinary"):
        pytest.skip(reason)
    place = harness.make_place(harness.ORDINARY_UID)
    fetch = (harness.PYTHON, *FETCH[1:])
    serve = (harness.PYTHON, *SERVE[1:])

    async def by_proxy(sandbox, run):
        async with gates("first", "second") as made:
            return [await run(fetch, gate) for gate in made]

    async def by_loopback(sandbox, run):
        return await run(serve)

    def both():
        options = {"interpreter": harness.PYTHON}
        said = with_network(level, place, NetworkMode.PROXY, by_proxy, **options)
        if level == "namespaces":
            said.append(with_network(level, place, NetworkMode.LOOPBACK, by_loopback, **options))
        return said

    try:
        said = harness.as_user("ordinary", both)
    finally:
        shutil.rmtree(place.base)
    expected = ["first\n", "second\n", "served\nserved\ndatagram\n"]
    assert said == expected[: 3 if level == "namespaces" else 2]
