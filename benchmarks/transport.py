"""What the transport for model servers costs, beside a bare httpx reader in the same rounds.


The server is another process on loopback. Times are CPU times of the reading thread, as medians over interleaved rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import httpx

from codex_lib_model_client.dialing import Dialer
from codex_lib_model_client.http_transport import HttpTransport

EVENT = (
    'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","item_id":"msg_1","output_index":0,'
    '"content_index":0,"delta":"0123456789"}\n\n'
)

SERVER = """
import socket, sys
event = sys.argv[1].encode()
head = b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\n"
chunked = head + b"transfer-encoding: chunked\\r\\n\\r\\n"
chunk = b"%x\\r\\n%b\\r\\n" % (len(event), event)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        kind, count = connection.recv(65_536).split(b" ", 2)[1].decode().strip("/").split("-")
        if kind == "bytes":
            connection.sendall(head + b"content-length: %d\\r\\n\\r\\n" % int(count) + b"x" * int(count))
        elif kind == "together":
            connection.sendall(chunked + chunk * int(count) + b"0\\r\\n\\r\\n")
        else:
            connection.sendall(chunked)
            for _ in range(int(count)):
                connection.sendall(chunk)
            connection.sendall(b"0\\r\\n\\r\\n")
        connection.recv(1)
"""


async def own(port: int, path: str) -> int:
    """Read a response with the transport, and return its length."""
    url = f"http://127.0.0.1:{port}/{path}"
    transport = HttpTransport(Dialer(url, None, None))
    answer = await transport.post(url, {}, b"", head_s=10, on_sent=lambda: None)
    length = 0
    while piece := await answer.read(10):
        length += len(piece)
    await answer.aclose()
    await transport.aclose()
    return length


async def bare(port: int, path: str) -> int:
    """Read a response with httpx, and return its length."""
    length = 0
    async with (
        httpx.AsyncClient(trust_env=False) as client,
        client.stream("POST", f"http://127.0.0.1:{port}/{path}") as response,
    ):
        async for piece in response.aiter_raw():
            length += len(piece)
    return length


def cost(job: Callable[[int, str], Awaitable[int]], port: int, path: str) -> tuple[float, int]:
    """Return the CPU time of reading a response, in milliseconds, and its length."""

    async def timed() -> tuple[float, int]:
        began = time.thread_time()
        length = await job(port, path)
        return (time.thread_time() - began) * 1000, length

    return asyncio.run(timed())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--chunks", type=int, default=20_000)
    options = parser.parse_args()
    server = subprocess.Popen([sys.executable, "-c", SERVER, EVENT], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    port = int(server.stdout.readline())
    jobs = {
        f"{options.chunks:,} chunks, sent together": ("together", options.chunks),
        f"{options.chunks:,} chunks, each by itself": ("separate", options.chunks),
        "50,000,000 bytes": ("bytes", 50_000_000),
    }
    figures: dict[tuple[str, str], list[float]] = {}
    for kind, count in jobs.values():
        own_length = cost(own, port, f"{kind}-{count}")[1]
        assert own_length == cost(bare, port, f"{kind}-{count}")[1] == count * (1 if kind == "bytes" else len(EVENT))
    for _ in range(options.rounds):
        for name, (kind, count) in jobs.items():
            for who, job in (("own", own), ("httpx", bare)):
                figures.setdefault((name, who), []).append(cost(job, port, f"{kind}-{count}")[0])
    server.kill()
    server.wait()
    print(f"{'':36} {'own (ms)':>10} {'httpx (ms)':>10}   own, us a chunk or byte")
    for name, (_, count) in jobs.items():
        ours, theirs = (statistics.median(figures[name, who]) for who in ("own", "httpx"))
        print(f"{name:36} {ours:10.1f} {theirs:10.1f}   {ours / count * 1000:8.4f}   {theirs / ours:6.1f}x")


if __name__ == "__main__":
    main()
