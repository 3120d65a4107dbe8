"""Clients over WebSockets: who gets in, and what one client does to the others."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd
from websockets.asyncio.client import connect, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from codex_framework import CodexError
from codex_framework.testing import say
from codex_plugin_app_server import sockets
from codex_plugin_app_server.addresses import (
    Access,
    AddressError,
    Stdio,
    TcpAddress,
    UnixAddress,
    parse_address,
    read_access,
)
from codex_plugin_app_server.compression import CompressedMessages
from codex_plugin_app_server.sockets import SocketTransport, listen
from tests.forked import RunProgram

LIMIT_S = float(os.environ.get("APP_SERVER_LIMIT_S", "60"))
TOKEN = "a-token-that-nobody-guesses"
HELLO = {"id": "hello", "method": "initialize", "params": {"clientInfo": {"name": "probe", "version": "1"}}}


@contextmanager
def started(
    home: Any, *options: str, program: Sequence[str] = (sys.executable, "-m", "codex_framework")
) -> Iterator[str]:
    """Run the command, and yield the URL that it prints."""
    words = [*program, "app-server", *options]
    process = subprocess.Popen(
        words, cwd=home.work, env=home.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    with process.stderr:
        try:
            for line in process.stderr:
                if found := re.search(r"listening on: (\S+)", line):
                    yield found[1]
                    break
            else:
                raise AssertionError("it does not listen")
        finally:
            process.send_signal(signal.SIGTERM)
            rest = process.stderr.read()
            assert process.wait() == 0
            assert "Traceback" not in rest, rest


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, make_home: Callable[[Path], Any]) -> Iterator[str]:
    """A server for tests that change nothing."""
    home = make_home(tmp_path_factory.mktemp("sockets"))
    home.serve()
    with started(home, "--listen", "ws://127.0.0.1:0") as url:
        yield url


@contextmanager
def requested(url: str, path: str, headers: dict[str, str]) -> Iterator[tuple[int, Any]]:
    """Send a request, and yield the status of the response and the connection after its headers."""
    host, _, port = url.removeprefix("ws://").rpartition(":")
    lines = [
        f"GET {path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in {"Host": f"{host}:{port}", **headers}.items()),
    ]
    with (
        socket.create_connection((host, int(port)), timeout=LIMIT_S) as connection,
        connection.makefile("rwb") as stream,
    ):
        stream.write("\r\n".join([*lines, "", ""]).encode())
        stream.flush()
        status = int(stream.readline().split()[1])
        while stream.readline().strip():
            pass
        yield status, stream


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/readyz", {}, 200),
        ("/healthz", {}, 200),
        ("/healthz", {"Origin": "http://127.0.0.1"}, 403),
        ("/", UPGRADE, 101),
        ("/", {**UPGRADE, "Origin": "http://localhost:3000"}, 403),
        ("/", {**UPGRADE, "Origin": "null"}, 403),
        ("/", {**UPGRADE, "Host": "localhost:99"}, 101),
        ("/", {**UPGRADE, "Host": "[::1]:99"}, 101),
        ("/", {**UPGRADE, "Host": "rebound.example"}, 403),
        ("/readyz", {"Host": "127.0.0.1.example:80"}, 403),
        ("/", {**UPGRADE, "Host": "192.0.2.1"}, 403),
        ("/", {}, 426),
    ],
)
def test_pages_and_other_names_get_nothing(shared: str, path: str, headers: dict[str, str], status: int) -> None:
    with requested(shared, path, headers) as (answered, _):
        assert answered == status


async def receive(client: Any, number: object) -> Any:
    async with asyncio.timeout(LIMIT_S):
        while True:
            message = json.loads(await client.recv())
            if message.get("id") == number and "method" not in message:
                return message


async def call(client: Any, number: int, method: str, **params: Any) -> Any:
    await client.send(json.dumps({"id": number, "method": method, "params": params}))
    return (await receive(client, number))["result"]


async def hello(client: Any) -> None:
    await client.send(json.dumps(HELLO))
    assert (await receive(client, "hello"))["result"]["userAgent"].startswith("probe/")


def test_a_client_leaves_and_finds_its_thread_again(home: Any) -> None:
    model = home.serve(say("One."), say("Two."))

    async def run(url: str) -> None:
        async with connect(url) as client:
            await hello(client)
            thread = (await call(client, 1, "thread/start", cwd=str(home.work)))["thread"]
        async with connect(url) as client, connect(url) as other:
            await hello(client)
            await hello(other)
            assert (await call(client, 1, "thread/loaded/list"))["data"] == [thread["id"]]
            await call(client, 2, "thread/resume", threadId=thread["id"])
            await call(client, 3, "turn/start", threadId=thread["id"], input=[{"type": "text", "text": "Go."}])
            async with asyncio.timeout(LIMIT_S):
                while json.loads(await client.recv()).get("method") != "turn/completed":
                    pass

    with started(home, "--listen", "ws://127.0.0.1:0") as url:
        asyncio.run(run(url))
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    "broken",
    [
        b"\xff\xfe",
        "{",
        "[]",
        '{"id":1,"method":"no/such","params":{}}',
        '{"id":{},"method":"model/list"}',
        "\x00" * 9,
        b'{"id":1}',
    ],
)
def test_a_broken_message_ends_nobody_else(shared: str, broken: str | bytes) -> None:
    async def run() -> None:
        async with connect(shared) as client, connect(shared) as other:
            await hello(other)
            await client.send(broken)
            assert "data" in await call(other, 1, "model/list")
            await hello(client)

    asyncio.run(run())


def test_a_message_that_is_too_long_ends_its_connection_only(shared: str) -> None:
    async def run() -> None:
        async with connect(shared) as other:
            await hello(other)
            with requested(shared, "/", UPGRADE) as (_, stream):
                stream.write(b"\x81\xff" + struct.pack(">Q", (64 << 20) + 1) + b"mask")
                stream.flush()
                kind, _length, *code = stream.read(4)
                assert (kind, bytes(code)) == (0x88, struct.pack(">H", 1009))
            assert "data" in await call(other, 1, "model/list")

    asyncio.run(run())


def test_a_token_is_needed_where_one_is_demanded(home: Any, tmp_path: Path) -> None:
    home.serve()
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")

    async def run(url: str) -> None:
        async with connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as client:
            await hello(client)
        for headers, text in (
            ({}, "missing websocket bearer token"),
            ({"Authorization": f"Basic {TOKEN}"}, "missing websocket bearer token"),
            ({"Authorization": f"Bearer {TOKEN}x"}, "invalid websocket bearer token"),
            ([("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer x")], "missing websocket bearer token"),
            ({"Authorization": f"Bearer {TOKEN}", "Origin": "null"}, ""),
        ):
            with pytest.raises(InvalidStatus) as refused:
                await connect(url, additional_headers=headers)
            assert refused.value.response.status_code == (401 if text else 403)
            assert (refused.value.response.body or b"").decode() == text

    with started(
        home, "--listen", "ws://127.0.0.1:0", "--ws-auth", "capability-token", "--ws-token-file", str(file)
    ) as url:
        asyncio.run(run(url))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a connection is")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
def test_another_user_of_the_machine_gets_nothing(shared: str) -> None:
    client = (
        "import http.client, sys\n"
        "connection = http.client.HTTPConnection(sys.argv[1])\n"
        f"connection.request('GET', '/', headers={UPGRADE!r})\n"
        "print(connection.getresponse().status)"
    )
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("there is no Python that other users can run")
    words = [python, "-c", client, shared.removeprefix("ws://")]
    for user, status in ((0, "101\n"), (65534, "403\n")):
        tried = subprocess.run(words, capture_output=True, text=True, user=user, cwd="/", check=True)
        assert tried.stdout == status


def test_a_unix_socket_is_for_this_user_only(make_home: Callable[[Path], Any], run_program: RunProgram) -> None:
    with tempfile.TemporaryDirectory(prefix="cx") as folder:  # a path of pytest may be too long for a socket
        home = make_home(Path(folder))
        model = home.serve()
        try:
            check_unix_socket(home, run_program)
        finally:
            model.stop()


def check_unix_socket(home: Any, run_program: RunProgram) -> None:
    path = home.path / "app-server-control" / "app-server-control.sock"

    async def run() -> None:
        async with unix_connect(str(path), uri="ws://localhost/") as client:
            await hello(client)

    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with started(home, "--listen", "unix://") as url:
        assert url == f"unix://{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        asyncio.run(run())
        second = run_program("app-server", "--listen", url, cwd=home.work, env=home.env)
        assert second.returncode == 1
        assert "another server listens there" in second.stderr
        asyncio.run(run())
    assert not path.exists()


async def _listen(path: Path) -> None:
    """Listen at a path, connect once, and end."""

    async def serve(transport: SocketTransport) -> None:
        await transport.receive()

    async with listen(path, Access(), serve):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        async with unix_connect(str(path), uri="ws://localhost/"):
            pass


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a path that leaves room for the name of a socket."""
    with tempfile.TemporaryDirectory(prefix="cx") as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("mode", "owner", "is_safe"),
    [
        (0o700, 0, True),
        (0o755, 0, True),
        (0o1777, 0, True),
        (0o775, 0, False),
        (0o702, 0, False),
        pytest.param(
            0o700, 65534, False, marks=pytest.mark.skipif(os.getuid() != 0, reason="only root can give folders away")
        ),
    ],
)
def test_folder_of_a_socket_must_belong_to_its_user(short: Path, mode: int, owner: int, *, is_safe: bool) -> None:
    folder = short / "folder"
    folder.mkdir()
    if owner:
        os.chown(folder, owner, owner)
    folder.chmod(mode)
    if is_safe:
        asyncio.run(_listen(folder / "s"))
        return
    with pytest.raises(CodexError, match="other users can replace files in the folder of the socket"):
        asyncio.run(_listen(folder / "s"))
    assert list(folder.iterdir()) == []


def test_symlink_is_not_replaced_by_a_socket_and_not_followed(short: Path) -> None:
    (short / "s").symlink_to(short / "elsewhere")
    with pytest.raises(CodexError, match="something else is there, which is not a socket"):
        asyncio.run(_listen(short / "s"))
    assert [each.name for each in short.iterdir()] == ["s"]


def test_socket_of_a_server_that_accepts_nobody_at_once_stays(short: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy, contextlib.ExitStack() as stack:
        busy.bind(str(short / "s"))
        busy.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(str(short / "s"))
        with pytest.raises(CodexError, match="another server listens there"):
            asyncio.run(_listen(short / "s"))
        assert stat.S_ISSOCK((short / "s").lstat().st_mode)


def test_socket_that_does_not_listen_yet_is_not_taken_for_a_dead_one(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "_START_S", 0.0)
    with sockets._locked(short), socket.socket(socket.AF_UNIX) as starting:
        starting.bind(str(short / "s"))
        with pytest.raises(CodexError, match="another server is starting"):
            asyncio.run(_listen(short / "s"))
    asyncio.run(_listen(short / "s"))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
def test_another_user_cannot_connect_to_a_unix_socket(short: Path) -> None:
    short.chmod(0o755)
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("there is no Python that other users can run")
    client = "import socket, sys\ntry: socket.socket(socket.AF_UNIX).connect(sys.argv[1])\nexcept PermissionError: print('refused')"

    async def serve(transport: SocketTransport) -> None:
        await transport.receive()

    async def run() -> None:
        async with listen(short / "s", Access(), serve):
            words = (python, "-c", client, str(short / "s"))
            tried = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE, user=65534, cwd="/")
            assert (await tried.communicate())[0] == b"refused\n"

    asyncio.run(run())


def test_a_file_is_not_replaced_by_a_socket(home: Any, run_program: RunProgram) -> None:
    home.serve()
    file = home.work / "notes.txt"
    file.write_text("mine")
    ended = run_program("app-server", "--listen", f"unix://{file}", cwd=home.work, env=home.env)
    assert ended.returncode == 1
    assert "something else is there, which is not a socket" in ended.stderr
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("stdio://", Stdio()),
        ("unix://", UnixAddress(None)),
        ("unix:///run/x.sock", UnixAddress(Path("/run/x.sock"))),
        ("unix://x.sock", UnixAddress(Path.cwd() / "x.sock")),
        ("ws://127.0.0.1:80", TcpAddress("127.0.0.1", 80)),
        ("ws://[::1]:0", TcpAddress("::1", 0)),
        *(
            (bad, None)
            for bad in (
                "",
                "off",
                "tcp://x",
                "ws://",
                "ws://localhost:1",
                "ws://127.0.0.1",
                "ws://127.0.0.1:65536",
                "stdio://x",
            )
        ),
    ],
)
def test_addresses(text: str, address: object) -> None:
    if address is not None:
        assert parse_address(text) == address
        return
    with pytest.raises(AddressError, match="expected `"):
        parse_address(text)


LOOPBACK, WORLD = TcpAddress("127.0.0.1", 0), TcpAddress("0.0.0.0", 0)
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()


@pytest.mark.parametrize(
    ("address", "mode", "file", "digest", "problem"),
    [
        (LOOPBACK, None, None, None, None),
        (Stdio(), None, None, None, None),
        (TcpAddress("::1", 0), None, None, None, None),
        (WORLD, None, None, None, "refusing to start non-loopback websocket listener 0.0.0.0:0 without auth"),
        (TcpAddress("::", 0), None, None, None, "refusing to start non-loopback"),
        (WORLD, "capability-token", None, DIGEST, None),
        (LOOPBACK, None, "/x", None, "websocket auth flags require"),
        (LOOPBACK, None, None, DIGEST, "websocket auth flags require"),
        (UnixAddress(None), "capability-token", None, DIGEST, "needs `--listen ws://"),
        (LOOPBACK, "capability-token", None, None, "is required"),
        (LOOPBACK, "capability-token", "/x", DIGEST, "only one of them"),
        (LOOPBACK, "capability-token", None, DIGEST[1:], "64 hexadecimal digits"),
        (LOOPBACK, "capability-token", "token", None, "must be an absolute path"),
        (LOOPBACK, "capability-token", "/no/such/file", None, "No such file"),
        (LOOPBACK, "capability-token", "/dev/null", None, "not a regular file"),
        (LOOPBACK, "capability-token", "EMPTY", None, "is empty"),
    ],
)
def test_access(
    tmp_path: Path, address: Any, mode: str | None, file: str | None, digest: str | None, problem: str | None
) -> None:
    if file == "EMPTY":
        file = str(tmp_path / "empty")
        Path(file).write_text(" \n")
    if problem is None:
        access = read_access(address, mode, file, digest)
        assert access == Access(bytes.fromhex(digest) if digest else None)
        assert access.refusal(f"Bearer {TOKEN}") is None
        return
    with pytest.raises(AddressError, match=re.escape(problem)):
        read_access(address, mode, file, digest)


OFFER = {"x-codex-app-server-compression": "zstd-stream-v1"}


def test_messages_are_compressed_if_the_client_offers_it(shared: str) -> None:
    async def main() -> None:
        async with connect(shared, additional_headers=OFFER, compression=None) as client:
            assert client.response.headers["x-codex-app-server-compression"] == "zstd-stream-v1"
            codex = {zstd.DecompressionParameter.window_log_max: 20}
            writing, reading = zstd.ZstdCompressor(), zstd.ZstdDecompressor(options=codex)
            for number in range(50):
                message = (
                    {**HELLO, "id": number} if number < 1 else {"id": number, "method": "model/list", "params": {}}
                )
                await client.send(writing.compress(json.dumps(message).encode(), writing.FLUSH_BLOCK))
                answer: Any = {}
                while "id" not in answer:
                    frame = await client.recv()
                    assert isinstance(frame, bytes)
                    answer = json.loads(reading.decompress(frame))
                assert answer["id"] == number
            assert len(frame) < 200  # the stream remembers the same list

    asyncio.run(asyncio.wait_for(main(), LIMIT_S))


@pytest.mark.parametrize("offer", [{}, {"x-codex-app-server-compression": "zstd-stream-v2"}])
def test_messages_are_not_compressed_otherwise(shared: str, offer: dict[str, str]) -> None:
    async def main() -> None:
        async with connect(shared, additional_headers=offer) as client:
            assert "x-codex-app-server-compression" not in client.response.headers
            await hello(client)

    asyncio.run(asyncio.wait_for(main(), LIMIT_S))


def flushed(message: bytes) -> bytes:
    """Return the first frame of a stream."""
    writing = zstd.ZstdCompressor()
    return writing.compress(message, writing.FLUSH_BLOCK)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (flushed(b"x" * 100), b"x" * 100),
        (flushed(b"x" * 101), None),
        (flushed(b"x" * 10_000_000), None),
        (zstd.compress(b"x"), None),
        (b"no zstd", None),
    ],
    ids=["longest", "too long", "bomb", "ended", "broken"],
)
def test_compressed_messages_have_a_limit(frame: bytes, message: bytes | None) -> None:
    assert CompressedMessages(100).decompress(frame) == message


@pytest.mark.parametrize("frame", [b"no zstd", zstd.compress(b"{}")], ids=["broken", "ended"])
def test_a_broken_stream_ends_its_connection_only(shared: str, frame: bytes) -> None:
    async def main() -> None:
        async with connect(shared) as other:
            async with connect(shared, additional_headers=OFFER) as client:
                await client.send(frame)
                with pytest.raises(ConnectionClosed):
                    await client.recv()
            await hello(other)

    asyncio.run(asyncio.wait_for(main(), LIMIT_S))
