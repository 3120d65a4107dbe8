"""Which certificates verified a server last: what is kept of it never decides who is trusted."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codex_lib_model_client import https, known_roots, preconnect
from codex_lib_model_client.https import tls_context
from codex_lib_model_client.known_roots import KnownRoots, keep_roots
from codex_lib_model_client.opening import open_transport
from codex_lib_model_client.transport_errors import SendError
from tests.tls import Authority, TlsServer

SERVER = "127.0.0.1:443"


class World:
    """A trust store with two authorities, and a third one that is in no store."""

    def __init__(self, folder: Path) -> None:
        self.one, self.two, self.wrong = (Authority(folder, name) for name in ("one", "two", "wrong"))
        self.store = folder / "store.pem"
        self.store.write_text("# text between\n" + self.one.pem + self.two.pem)
        self.file = folder / "home" / "servers_cache.json"
        self.file.parent.mkdir()
        self.env = {"SSL_CERT_FILE": str(self.store)}

    @property
    def kept(self) -> Any:
        return json.loads(self.file.read_text())

    def note(self, *chain: bytes, server: str = SERVER, failed: bool = False) -> None:
        KnownRoots(self.file).note(server, self.env, chain, failed=failed)

    def context(self, server: str = SERVER) -> ssl.SSLContext | None:
        return KnownRoots(self.file).context(server, self.env)

    def write(self, content: Any) -> None:
        self.file.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(known_roots, "_kept", [])
    monkeypatch.setattr(preconnect, "_opened", [])
    yield World(tmp_path)
    _wait()


def _wait() -> None:
    """Wait until what was noted is kept."""
    for thread in threading.enumerate():
        if thread.name == "known roots":
            thread.join(60)


def trusted(context: ssl.SSLContext | None) -> list[bytes]:
    assert context is not None
    return context.get_ca_certs(binary_form=True)


def post(server: TlsServer, world: World) -> str:
    """Post as a process does that keeps what verified servers, and return what came of it."""

    async def posted() -> str:
        keep_roots(world.file)
        transport = open_transport(server.url, world.env)
        try:
            answer = await transport.post(f"{server.url}/x", {}, b"secret", head_s=10, on_sent=lambda: None)
            return (await answer.read(10)).decode()
        except SendError as error:
            return str(error)
        finally:
            await transport.aclose()

    https._loaded_context.cache_clear()  # each call stands for a process
    told = asyncio.run(posted())
    _wait()
    return told


def test_only_what_verified_a_server_is_trusted_for_it(world: World) -> None:
    world.note(b"leaf", world.two.der)
    context = world.context()
    assert trusted(context) == [world.two.der]
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert world.context("localhost:443") is None
    assert world.context("127.0.0.1:444") is None


def test_the_file_is_private_and_contains_no_certificate(world: World) -> None:
    world.note(world.one.der)
    assert stat.S_IMODE(world.file.stat().st_mode) == 0o600
    (entry,) = world.kept["servers"].values()
    ((number, start, length),) = entry["places"]
    assert (number, world.store.read_text()[start : start + length]) == (0, world.one.pem.strip())
    assert "CERTIFICATE" not in world.file.read_text()
    assert [path.name for path in world.file.parent.iterdir()] == [world.file.name]


def test_a_changed_trust_store_is_read_whole(world: World) -> None:
    world.note(world.one.der)
    world.store.write_text(world.store.read_text() + world.wrong.pem)
    assert world.context() is None


@pytest.mark.parametrize("longer", [True, False], ids=["size", "time"])
def test_a_trust_store_whose_size_or_time_differs_is_a_changed_one(world: World, *, longer: bool) -> None:
    world.note(world.one.der)
    before = world.store.stat()
    if longer:
        world.store.write_text(world.store.read_text() + "\n")
    os.utime(world.store, ns=(before.st_atime_ns, before.st_mtime_ns + (0 if longer else 1_000_000_000)))
    assert world.context() is None


def test_a_trust_store_that_changes_while_it_is_read_is_not_noted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = known_roots._store

    def changing(path: str) -> bytes | None:
        data = read(path)
        os.utime(path, ns=(1, 1))
        return data

    monkeypatch.setattr(known_roots, "_store", changing)
    world.note(world.one.der)
    assert not world.file.exists()


@pytest.mark.parametrize("room", [0, -1])
def test_a_huge_trust_store_is_read_whole(world: World, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(known_roots, "_STORE_LIMIT", world.store.stat().st_size + room)
    world.note(world.one.der)
    assert world.file.exists() is (room == 0)


def test_one_reader_keeps_trust_stores_apart(world: World, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(world.store.read_bytes())
    world.note(world.one.der)
    roots = KnownRoots(world.file)
    assert roots.context(SERVER, {"SSL_CERT_FILE": str(other)}) is None
    assert trusted(roots.context(SERVER, world.env)) == [world.one.der]
    assert roots.context(SERVER, world.env) is roots.context(SERVER, world.env)


def test_one_odd_file_of_two_says_that_neither_is_read_in_part(world: World) -> None:
    import certifi

    env = {"CODEX_CA_CERTIFICATE": str(world.store)}
    public = Path(certifi.where()).read_text()
    last = ssl.PEM_cert_to_DER_cert(public[public.rindex("-----BEGIN CERTIFICATE-----") :].strip())
    KnownRoots(world.file).note(SERVER, env, [last])
    assert trusted(KnownRoots(world.file).context(SERVER, env)) == [last]
    before, content = world.store.stat(), world.store.read_text()
    world.store.write_text(content.replace("# text between", "-----BEGIN X--")[: len(content)])
    assert world.store.stat().st_size == before.st_size
    os.utime(world.store, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert KnownRoots(world.file).context(SERVER, env) is None


def test_a_place_of_two_certificates_is_none(world: World) -> None:
    world.note(world.one.der)
    content, store = world.kept, world.store.read_text()
    start, end = store.index(world.one.pem.strip()), store.rindex("-----END CERTIFICATE-----") + 25
    content["servers"][SERVER]["places"] = [[0, start, end - start]]
    world.write(content)
    assert world.context() is None


@pytest.mark.parametrize("rest", ["", "another"])
def test_a_removed_certificate_is_not_trusted_even_if_the_store_looks_unchanged(world: World, rest: str) -> None:
    world.note(world.one.der)
    before, content = world.store.stat(), world.store.read_text()
    put = world.two.pem[: len(world.one.pem)] if rest else "-" * len(world.one.pem)
    world.store.write_text(content.replace(world.one.pem, put.ljust(len(world.one.pem), "\n")))
    os.utime(world.store, ns=(before.st_atime_ns, before.st_mtime_ns))
    context = world.context()
    assert context is None or world.one.der not in trusted(context)


def test_a_removed_trust_store_is_an_error_as_before(world: World) -> None:
    world.note(world.one.der)
    world.store.unlink()
    assert world.context() is None
    with pytest.raises(OSError):  # noqa: PT011
        tls_context(world.env)


def test_another_trust_store_needs_places_of_its_own(world: World, tmp_path: Path) -> None:
    world.note(world.one.der)
    other = tmp_path / "other.pem"
    other.write_bytes(world.store.read_bytes())
    assert KnownRoots(world.file).context(SERVER, {"SSL_CERT_FILE": str(other)}) is None
    assert KnownRoots(world.file).context(SERVER, {"CODEX_CA_CERTIFICATE": str(world.store)}) is None
    assert KnownRoots(world.file).context(SERVER, {"SSL_CERT_DIR": str(tmp_path)}) is None
    assert KnownRoots(world.file).context(SERVER, {}) is None


def test_a_certificate_beside_those_of_certifi_is_found_in_either_file(world: World) -> None:
    import certifi

    env = {"CODEX_CA_CERTIFICATE": str(world.store)}
    public = Path(certifi.where()).read_text()
    last = public[public.rindex("-----BEGIN CERTIFICATE-----") :].strip()
    roots = KnownRoots(world.file)
    roots.note("a:1", env, [world.two.der])
    roots.note("b:1", env, [ssl.PEM_cert_to_DER_cert(last)])
    again = KnownRoots(world.file)
    assert trusted(again.context("a:1", env)) == [world.two.der]
    assert trusted(again.context("b:1", env)) == [ssl.PEM_cert_to_DER_cert(last)]


@pytest.mark.parametrize("kind", ["TRUSTED CERTIFICATE", "X509 CRL", "X509 CERTIFICATE"])
def test_a_trust_store_that_says_more_than_certificates_is_read_whole(world: World, kind: str) -> None:
    more = world.wrong.pem.replace(" CERTIFICATE", f" {kind}")
    world.store.write_text(world.store.read_text() + more)
    world.note(world.one.der)
    assert world.context() is None
    assert not world.file.exists()


def test_a_trust_store_from_a_pipe_is_left_to_who_reads_it_once(world: World) -> None:
    """To open and close it would break the connection of who writes."""
    opened = threading.Event()

    def write() -> None:
        with world.store.open("wb"):
            opened.set()

    world.store.unlink()
    os.mkfifo(world.store)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            world.note(world.one.der)
            assert world.context() is None
        assert not opened.wait(0.05)
        assert not world.file.exists()
    finally:
        world.store.open("rb").close()
        writer.join(60)


POISON = [
    "",
    "{",
    "[" * 50_000,
    '"\ud800"',
    "[]",
    "null",
    "1e999",
    {"version": 2},
    {"version": 1, "servers": [1], "providers": 7},
    {"version": 1, "servers": {SERVER: "x"}},
    {"version": 1, "servers": {SERVER: {"files": None, "places": [[0, 0, 1]]}}, "padding": "x" * 70_000},
]
PLACES = [
    5,
    "abc",
    [[0, 0]],
    [[0, 0, 10]],
    [[-1, 15, 600]],
    [[0, -600, 600]],
    [[9, 0, 10]],
    [[0, 0, 10**9]],
    [[0, 0.5, 10]],
    [[True, 0, 10]],
    [[0, 10**30, 10**30]],
    [{"a": 1}],
    [None],
]


@pytest.mark.parametrize("content", POISON, ids=range(len(POISON)))
def test_a_damaged_file_says_nothing_and_is_replaced(world: World, content: Any) -> None:
    if isinstance(content, str):
        world.file.write_bytes(content.encode("utf-8", "surrogatepass"))
    else:
        world.write(content)
    assert world.context() is None
    assert KnownRoots(world.file).server("openai") is None
    world.note(world.one.der)
    assert trusted(world.context()) == [world.one.der]


@pytest.mark.parametrize("change", [{"version": 2}, {"padding": "x" * 70_000}])
def test_a_file_of_another_version_or_a_huge_one_says_nothing(world: World, change: dict[str, Any]) -> None:
    world.note(world.one.der)
    world.write({**world.kept, **change})
    assert world.context() is None


@pytest.mark.parametrize("places", PLACES, ids=range(len(PLACES)))
def test_a_damaged_entry_says_nothing(world: World, places: Any) -> None:
    world.note(world.one.der)
    content = world.kept
    content["servers"][SERVER]["places"] = places
    world.write(content)
    assert world.context() is None


def test_an_entry_cannot_name_another_trust_store(world: World, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.pem"
    theirs.write_text(world.wrong.pem)
    KnownRoots(world.file).note(SERVER, {"SSL_CERT_FILE": str(theirs)}, [world.wrong.der])
    assert trusted(KnownRoots(world.file).context(SERVER, {"SSL_CERT_FILE": str(theirs)})) == [world.wrong.der]
    assert world.context() is None
    content = world.kept
    status = world.store.stat()
    content["servers"][SERVER]["files"] = [[str(world.store), status.st_size, status.st_mtime_ns]]
    content["servers"][SERVER]["places"].append([1, 0, theirs.stat().st_size])
    content["servers"][SERVER]["certificates"] = [world.wrong.pem]
    world.write(content)
    context = world.context()
    assert context is None or world.wrong.der not in trusted(context)


def test_a_link_in_place_of_the_file_is_not_followed(world: World, tmp_path: Path) -> None:
    world.note(world.one.der)
    target = tmp_path / "target"
    world.file.rename(target)
    content = target.read_bytes()
    world.file.symlink_to(target)
    assert world.context() is None
    world.note(world.two.der)
    assert target.read_bytes() == content
    assert not world.file.is_symlink()
    assert trusted(world.context()) == [world.two.der]


def test_a_pipe_in_place_of_the_file_is_not_waited_for(world: World) -> None:
    os.mkfifo(world.file)
    assert world.context() is None
    world.note(world.two.der)
    assert trusted(world.context()) == [world.two.der]


def test_a_folder_in_place_of_the_file_costs_only_time(world: World) -> None:
    world.file.mkdir()
    world.note(world.two.der)
    assert world.context() is None
    assert [path.name for path in world.file.parent.iterdir()] == [world.file.name]


def test_a_missing_home_is_not_made(world: World) -> None:
    world.file.parent.rmdir()
    world.note(world.two.der)
    assert not world.file.parent.exists()


def test_a_server_that_changed_is_one_of_the_latest(world: World) -> None:
    for number in range(32):
        world.note(world.one.der, server=f"s{number}:1")
        KnownRoots(world.file).note(f"s{number}:1", world.env, None, provider=f"p{number}")
    world.note(world.two.der, server="s0:1")
    KnownRoots(world.file).note("other:1", world.env, None, provider="p0")
    for number in range(32, 40):
        world.note(world.one.der, server=f"s{number}:1")
        KnownRoots(world.file).note(f"s{number}:1", world.env, None, provider=f"p{number}")
    kept = world.kept
    assert list(kept["servers"]) == [f"s{number}:1" for number in (*range(9, 32), 0, *range(32, 40))]
    assert list(kept["providers"]) == [f"p{number}" for number in (*range(9, 32), 0, *range(32, 40))]
    assert kept["providers"]["p0"] == "other:1"


def test_what_is_known_already_is_not_written_again(world: World) -> None:
    world.note(world.one.der)
    before = world.file.stat().st_ino
    world.note(world.one.der)
    assert world.file.stat().st_ino == before


def test_an_address_that_is_no_text_is_none(world: World) -> None:
    world.write({"version": 1, "providers": {"openai": 7, "other": "host:1"}})
    assert KnownRoots(world.file).server("openai") is None
    assert KnownRoots(world.file).server("other") == "host:1"


def test_only_the_latest_servers_are_kept(world: World) -> None:
    for number in range(40):
        world.note(world.one.der, server=f"s{number}:1")
    assert list(world.kept["servers"]) == [f"s{number}:1" for number in range(8, 40)]


def test_a_server_with_another_certificate_of_the_store_is_verified_by_the_whole_store(world: World) -> None:
    with TlsServer(world.one.server()) as server:
        assert post(server, world) == "ok"
        assert (server.connections, server.failures) == (1, [])
        first = world.kept
        assert post(server, world) == "ok"
        assert (server.connections, world.kept) == (2, first)
        server.context = world.two.server()
        assert post(server, world) == "ok"
        assert (server.connections, len(server.failures)) == (4, 1)  # what verified it last did not
        assert post(server, world) == "ok"
        assert (server.connections, len(server.failures)) == (5, 1)
    assert trusted(KnownRoots(world.file).context(f"127.0.0.1:{server.port}", world.env)) == [world.two.der]


def test_a_poisoned_entry_costs_a_connection_and_is_put_right(world: World) -> None:
    with TlsServer(world.one.server()) as server:
        place = f"127.0.0.1:{server.port}"
        world.note(world.two.der, server=place)
        assert post(server, world) == "ok"
        assert (server.connections, len(server.failures)) == (2, 1)
    assert trusted(KnownRoots(world.file).context(place, world.env)) == [world.one.der]


@pytest.mark.parametrize("known", ["one", "wrong"])
def test_a_server_that_the_store_does_not_trust_gets_nothing(world: World, known: str) -> None:
    with TlsServer(world.wrong.server()) as server:
        world.note(getattr(world, known).der, server=f"127.0.0.1:{server.port}")
        assert "CERTIFICATE_VERIFY_FAILED" in post(server, world)
        assert server.requests == []


def test_a_server_with_another_name_gets_nothing(world: World) -> None:
    with TlsServer(world.one.server("other.invalid")) as server:
        world.note(world.one.der, server=f"127.0.0.1:{server.port}")
        assert "IP address mismatch" in post(server, world)
        assert server.requests == []


def test_a_chain_that_needs_more_of_the_store_is_verified_by_all_of_it(world: World, tmp_path: Path) -> None:
    """The authority between is in the store and not sent. It is found there, and kept as well."""
    between = Authority(tmp_path, "between", world.one)
    context = between.server()
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pem = next(tmp_path.glob("between-*.pem"))
    pem.write_text(pem.read_text().replace(between.pem, ""))
    bare.load_cert_chain(pem)
    assert context is not bare
    world.store.write_text(world.store.read_text() + between.pem)
    with TlsServer(bare) as server:
        assert [post(server, world), post(server, world)] == ["ok", "ok"]
        assert (server.connections, server.failures) == (2, [])
    narrow = KnownRoots(world.file).context(f"127.0.0.1:{server.port}", world.env)
    assert set(trusted(narrow)) >= {between.der}


def test_what_does_not_verify_a_server_although_it_did_is_not_tried_again(world: World) -> None:
    world.note(world.one.der)
    world.note(world.one.der, failed=True)
    assert world.context() is None
    world.note(world.one.der)
    assert world.context() is None
    world.store.write_text(world.store.read_text() + world.wrong.pem)
    world.note(world.one.der)
    assert trusted(world.context()) == [world.one.der]


def test_processes_that_learn_the_same_at_once_keep_it(world: World) -> None:
    world.note(world.one.der)
    world.note(world.one.der)
    assert trusted(world.context()) == [world.one.der]


def test_without_the_file_nothing_is_kept_and_all_is_trusted(world: World) -> None:
    async def posted() -> bytes:
        transport = open_transport(server.url, world.env)
        answer = await transport.post(f"{server.url}/x", {}, b"", head_s=10, on_sent=lambda: None)
        body = await answer.read(10)
        await transport.aclose()
        return body

    with TlsServer(world.two.server()) as server:
        assert asyncio.run(posted()) == b"ok"
    assert not world.file.exists()
