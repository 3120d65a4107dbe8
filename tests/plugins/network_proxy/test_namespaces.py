"""A command with a network namespace of its own goes out by listening sockets that it hands over."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys

import pytest

from codex_framework import NetworkRules, ProxyPorts
from codex_plugin_network_proxy.proxy import RuledProxy

INSIDE = """
import fcntl, json, os, socket, struct, sys, urllib.request
with socket.socket() as any_socket:  # bring loopback up
    flags = struct.pack("16sh14x", b"lo", 1)
    fcntl.ioctl(any_socket, 0x8914, flags)
hand_over = socket.socket(fileno=int(sys.argv[1]))
http, socks = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
ports = json.dumps([http.getsockname()[1], socks.getsockname()[1]]).encode()
socket.send_fds(hand_over, [ports], [http.fileno(), socks.fileno()])
os.environ.update(json.loads(hand_over.recv(100_000)))
for url in sys.argv[2:]:
    try:
        print(urllib.request.urlopen(url, timeout=20).read().decode(), end="")
    except OSError as error:
        print(type(error).__name__, error)
try:
    socket.create_connection((sys.argv[2].split("/")[2].split(":")[0], int(sys.argv[2].split("/")[2].split(":")[1])), 5)
    print("reached directly")
except OSError:
    print("not reached directly")
"""

UNSHARE = ["unshare", "--user", "--map-root-user", "--net"]


def can_unshare() -> bool:
    return (
        shutil.which("unshare") is not None and not subprocess.run([*UNSHARE, "true"], capture_output=True).returncode
    )


@pytest.mark.skipif(not can_unshare(), reason="no network namespaces here")
async def test_a_command_in_a_namespace_goes_out_by_its_gate_alone(net, host):
    origin = await net.origin()
    proxy = RuledProxy()
    gate = proxy.gate(NetworkRules(domains={host: "allow"}))
    mine, theirs = socket.socketpair()
    with mine, theirs:
        url = f"http://{host}:{origin.port}/inside"
        process = await asyncio.create_subprocess_exec(
            *UNSHARE, sys.executable, "-c", INSIDE, str(theirs.fileno()), url, "http://example.com/",
            pass_fds=[theirs.fileno()], stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        loop = asyncio.get_running_loop()
        ports, descriptors, _, _ = await loop.run_in_executor(None, socket.recv_fds, mine, 1000, 2)
        http, socks = (socket.socket(fileno=descriptor) for descriptor in descriptors)
        with http, socks:
            await gate.serve(http, socks)
        mine.sendall(json.dumps(dict(gate.environment(ProxyPorts(*json.loads(ports))))).encode())
        out, _ = await process.communicate()
    assert out.decode().splitlines() == [
        "GET /inside",
        "HTTPError HTTP Error 403: Forbidden (blocked-by-allowlist)",
        "not reached directly",
    ]
    await proxy.aclose()
