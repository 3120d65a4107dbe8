"""Clients of this machine: by the name that they use for it, and by the user who runs them."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from codex_framework.toolkit.local_clients import connection_owner, is_local_name


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.8.8.8:1", "[::1]", "[::1]:8000"])
def test_names_of_this_machine(host: str) -> None:
    assert is_local_name(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "example.com",
        "localhost.example.com",
        "127.0.0.1.example.com:80",
        "192.168.0.1",
        "[2001:db8::1]:80",
        "0x7f.1",
    ],
)
def test_names_that_somebody_else_may_have_pointed_here(host: str) -> None:
    assert not is_local_name(host)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who is at the other end")
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_owner_of_a_connection(family: socket.AddressFamily, host: str) -> None:
    with socket.create_server((host, 0), family=family) as listener:
        with socket.create_connection(listener.getsockname()[:2]) as client:
            server, there = listener.accept()
            with server:
                assert connection_owner(server.getsockname(), there) == os.getuid()
                assert connection_owner(server.getsockname(), (host, 1)) is None
        assert client.fileno() == -1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who is at the other end")
def test_the_owner_of_a_connection_from_a_socket_of_ipv6_to_an_address_of_ipv4() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_INET6) as client:
        client.connect(("::ffff:127.0.0.1", listener.getsockname()[1]))
        server, there = listener.accept()
        with server:
            assert connection_owner(server.getsockname(), there) == os.getuid()


@pytest.mark.parametrize("name", [("a name", 1), ("127.0.0.1", 0)])
def test_an_end_that_is_no_connection_has_no_owner(name: tuple[str, int]) -> None:
    assert connection_owner(("127.0.0.1", 9), name) is None
