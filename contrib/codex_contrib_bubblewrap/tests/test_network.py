"""Networks and system calls, as a command finds them."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from codex_contrib_bubblewrap import seccomp
from codex_contrib_bubblewrap.sandbox import BubblewrapSandbox
from codex_contrib_bubblewrap.settings import BubblewrapSettings
from codex_framework import FileAccess, NetworkMode, ProxyPorts, SandboxError
from codex_framework.testing import run_confined

SERVE_AND_ASK = """
import socket
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname(), 5)
print('loopback', flush=True)
"""

PAIRS = """
import asyncio, socket
a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1)); a.shutdown(1)
asyncio.run(asyncio.to_thread(print, 'thread'))
"""

REFUSED = """
import ctypes, errno, os, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
def tried(what, result):
    print(what, 'done' if result != -1 else errno.errorcode[ctypes.get_errno()])
tried('ptrace', libc.ptrace(0, 0, 0, 0))
tried('unshare', libc.unshare(0x10000000))
tried('mount', libc.mount(b'a', b'/', b'tmpfs', 0, None))
tried('keyctl', libc.syscall({'x86_64': 250, 'aarch64': 219}[platform.machine()], 0, -3, 0))
tried('io_uring', libc.syscall(425, 1, 0))
tried('clone3', libc.syscall(435, 0, 0))
tried('ioctl', libc.ioctl(os.openpty()[1], 0x5412, b'x'))
for family, kind in ((socket.AF_UNIX, socket.SOCK_DGRAM), (40, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_RAW)):
    try:
        socket.socket(family, kind); print('socket', int(family), 'done')
    except OSError as error:
        print('socket', int(family), errno.errorcode[error.errno])
"""


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-E", "-c", code)


def test_without_a_network_pairs_still_work(run):
    assert run(FileAccess(), python(PAIRS)).output == "b'x'\nthread\n"
    assert "loopback" not in run(FileAccess(), python(SERVE_AND_ASK)).output


def test_loopback_is_the_sandbox_s_own(run):
    with socket.create_server(("127.0.0.1", 0)) as outside:
        port = outside.getsockname()[1]
        ask = f"{SERVE_AND_ASK}\nsocket.create_connection(('127.0.0.1', {port}), 2)"
        ended = run(FileAccess(network=NetworkMode.LOOPBACK), python(ask))
    assert ended.output.startswith("loopback\n")
    assert "ConnectionRefusedError" in ended.output


@pytest.mark.parametrize("network", list(NetworkMode))
def test_what_ordinary_programs_do_not_need_is_refused(run, network):
    if network is NetworkMode.PROXY:
        pytest.skip("the same filter as for the loopback address")
    ended = run(FileAccess(network=network), python(REFUSED))
    lines = ended.output.split("\n")
    # With the network on, debuggers and unix sockets work.
    allowed = (
        ["ptrace done", "clone3 ENOSYS", "socket 1 done", ""] if network is NetworkMode.ON else ["clone3 ENOSYS", ""]
    )
    assert [line for line in lines if "EPERM" not in line] == allowed, ended


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("network", list(NetworkMode))
def test_every_path_through_the_filter_ends(machine, network):
    program = seccomp.instructions(network, machine)
    assert len(program) < 4096
    for at, (code, true, false, constant) in enumerate(program):
        if code in (0x15, 0x35):
            assert max(true, false) < 256
            assert at + 1 + max(true, false) < len(program)
        if code == 0x05:
            assert at + 1 + constant < len(program)
    assert program[-1][0] == 0x06


class Gate:
    """A way out that answers every connection with the port it came in by."""

    blocked = ()

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []

    def environment(self, ports: ProxyPorts) -> Mapping[str, str]:
        return {"HTTP_PROXY": f"http://127.0.0.1:{ports.http}", "ALL_PROXY": f"socks5h://127.0.0.1:{ports.socks}"}

    async def serve(self, http: socket.socket, socks: socket.socket | None) -> None:
        for listener in (http, socks):
            if listener is not None:
                own = listener.dup()
                own.setblocking(False)  # noqa: FBT003
                self._servers.append(await asyncio.start_server(self._answer, sock=own))

    async def listen(self) -> ProxyPorts:
        raise AssertionError("a sandbox with a network of its own has no use for that")

    async def aclose(self) -> None:
        for server in self._servers:
            server.close()
            await server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"port {writer.get_extra_info('sockname')[1]}\n".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()


ASK_THE_GATE = """
import os, socket
for name in ('HTTP_PROXY', 'ALL_PROXY'):
    host, port = os.environ[name].rpartition('/')[2].split(':')
    print(socket.create_connection((host, int(port)), 5).makefile().read().strip())
"""


def test_by_a_gate_only_the_gate_is_reached(program, place):
    async def use() -> str:
        sandbox, gate = BubblewrapSandbox(BubblewrapSettings(path=program)), Gate()
        with socket.create_server(("127.0.0.1", 0)) as outside:
            port = outside.getsockname()[1]
            try:
                plan = sandbox.confine(FileAccess(network=NetworkMode.PROXY), place)
                ask = f"{ASK_THE_GATE}\nsocket.create_connection(('127.0.0.1', {port}), 2)"
                return (await run_confined(plan, python(ask), place, gate=gate)).output
            finally:
                await gate.aclose()
                await sandbox.aclose()

    said = asyncio.run(use())
    assert "port 3128\nport 8081\n" in said
    assert "ConnectionRefusedError" in said


def test_without_a_gate_nothing_runs(run, place):
    with pytest.raises(SandboxError, match="only through a proxy, and this command has none"):
        run(FileAccess(network=NetworkMode.PROXY), f"touch {place}/ran")
    assert not Path(f"{place}/ran").exists()


def test_the_network_is_there_where_it_is_on(run):
    with socket.create_server(("127.0.0.1", 0)) as outside:
        port = outside.getsockname()[1]
        ask = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('reached')"
        assert run(FileAccess(network=NetworkMode.ON), python(ask)).output == "reached\n"
