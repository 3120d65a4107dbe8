"""The headers of requests, and what may be in them."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import socket
import sys
import threading
from typing import Any, cast

import pytest

from codex_framework import ModelError, ProviderInfo
from codex_framework.testing.requests import model_request
from codex_lib_model_client import headers
from codex_plugin_openai.provider import ResponsesProvider


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has the file")
def test_the_system_is_what_python_says_it_is() -> None:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    name = release.get("NAME", platform.system()).split(" ")[0]
    version = release.get("VERSION_ID", platform.release())
    text = f"({name} {version}; {platform.machine()})"
    assert headers._system() == (text if text.isascii() else "(unknown)")


@pytest.mark.parametrize(
    ("written", "value"),
    [("12", "12"), ('"12"', "12"), ("'a b'", "a b"), ('"half', '"half'), (r'"a\"b\$"', 'a"b$'), ("", ""), ('"', '"')],
)
def test_a_quoted_value_loses_its_quotes(written: str, value: str) -> None:
    assert headers._unquote(written) == value


def sent_with(websockets: bool, login: str = "", **table: Any) -> list[tuple[str, str]]:
    """Return the raw header lines of a request."""
    lines: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        connected, _ = listener.accept()
        with connected:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connected.recv(65_536)
            lines.extend(head.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:])

    async def run(url: str) -> None:
        info = ProviderInfo(id="mock", base_url=url, request_max_retries=0, **table)
        client = ResponsesProvider().open(info.evolve(options={"supports_websockets": websockets}), {})
        with contextlib.suppress(ModelError):
            async for _ in client.stream(model_request()):
                pass
        await client.aclose()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        asyncio.run(run(f"http://{login}127.0.0.1:{listener.getsockname()[1]}/v1"))
        server.join()
    pairs = (line.decode().partition(": ") for line in lines)
    return [(name.lower(), value) for name, _, value in pairs]


@pytest.mark.parametrize("websockets", [False, True])
@pytest.mark.parametrize(
    ("login", "table", "expected"),
    [
        ("u:p%40s@", {}, "Basic dTpwQHM="),
        ("token@", {}, "Basic dG9rZW46"),
        ("u:p@", {"experimental_bearer_token": "key"}, "Bearer key"),
        ("u:p@", {"http_headers": {"Authorization": "mine"}}, "mine"),
    ],
)
def test_a_login_in_the_url_is_sent_unless_there_is_another(
    websockets: bool, login: str, table: dict[str, Any], expected: str
) -> None:
    found = sent_with(websockets, login, **table)
    assert [value for name, value in found if name == "authorization"] == [expected]
    assert all("@" not in value for name, value in found if name == "host")


@pytest.mark.parametrize("websockets", [False, True])
def test_a_host_of_the_table_replaces_the_usual_one(websockets: bool) -> None:
    found = sent_with(
        websockets, http_headers={"Host": "gateway", "Transfer-Encoding": "chunked", "Content-Length": "1"}
    )
    assert [value for name, value in found if name == "host"] == ["gateway"]
    assert not [name for name, _ in found if name == "transfer-encoding"]
    assert len([name for name, _ in found if name == "content-length"]) == (0 if websockets else 1)


@pytest.mark.parametrize(
    ("token", "more"), [("a\r\nx-more: 1", {}), ("ł", {}), ("a", {"chatgpt-account-id": "1\r\nx-more: 1"})]
)
def test_a_token_adds_no_header_of_its_own(token: str, more: dict[str, str]) -> None:
    class Source:
        headers = more
        refused_hint = ""

    with pytest.raises(ModelError, match="has characters that HTTP does not allow") as caught:
        headers.with_token({}, cast("Any", Source()), token, ProviderInfo(id="mock"))
    assert token not in f"{caught.value} {caught.value.hint}" or token == "a"
