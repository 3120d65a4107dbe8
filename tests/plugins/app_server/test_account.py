"""Logins: with a key, in a browser, and with a device code."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.plugins.login.issuer import Issuer

UNKNOWN = "01a1fa0c-f086-7081-ba8f-1814fcb07c0d"
OPENAI = "model_providers.here.requires_openai_auth=true"


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    with Issuer() as made:
        monkeypatch.setenv("CODEX_APP_SERVER_LOGIN_ISSUER", made.url)
        monkeypatch.setenv("CODEX_APP_SERVER_LOGIN_CLIENT_ID", "client-1")
        yield made


@pytest.fixture
def two_clients(home: Any, serving: Callable[..., Any]) -> Callable[..., None]:
    """Run a story with a client that logs in and one that is told. The browser may come back to any port."""
    home.serve()

    def run(story: Callable[[Any, Any], Any], *overrides: str) -> None:
        async def main() -> None:
            async with serving(*overrides) as running:
                running.server.logins.ports = (0,)
                client, other = running.connect(), running.connect()
                await client.hello()
                await other.hello()
                await story(client, other)

        asyncio.run(main())

    return run


def open_page(address: str) -> int:
    try:
        with urllib.request.urlopen(address, timeout=20) as page:
            return int(page.status)
    except urllib.error.HTTPError as error:
        return error.code


async def browse(address: str) -> int:
    return await asyncio.to_thread(open_page, address)


async def ended(client: Any, login_id: str | None) -> Any:
    """Return why a login failed, or None."""
    end = await client.notification("account/login/completed")
    assert (end["loginId"], end["success"]) == (login_id, end["error"] is None)
    return end["error"]


def test_a_login_in_the_browser_is_stored_and_told_to_all(
    home: Any, issuer: Issuer, two_clients: Callable[..., None]
) -> None:
    async def story(client: Any, other: Any) -> None:
        begun = await client.call("account/login/start", type="chatgpt")
        query = parse_qs(urlsplit(begun["authUrl"]).query)
        assert (query["originator"], query["client_id"]) == (["test"], ["client-1"])
        assert await browse(begun["authUrl"]) == 200
        for each in (client, other):
            assert await ended(each, begun["loginId"]) is None
            updated = await each.notification("account/updated")
            assert updated == {"authMode": "chatgpt", "planType": "plus", "reason": None}
        account = {"type": "chatgpt", "email": "a@example.com", "planType": "plus"}
        assert (await other.call("account/read"))["account"] == account
        stored = json.loads((home.path / "auth.json").read_text())["tokens"]
        assert stored["oauth_provenance"] == {"issuer": issuer.url, "client_id": "client-1"}
        assert (await client.call("account/login/cancel", loginId=begun["loginId"])) == {"status": "notFound"}
        assert (await client.call("account/rateLimits/read"))["rateLimits"]["primary"] is None
        status = await client.call("getAuthStatus", includeToken=True)
        assert status == {
            "authMethod": "chatgpt",
            "authToken": stored["access_token"],
            "requiresOpenaiAuth": True,
        }
        await client.call("account/logout")
        assert await other.notification("account/updated") == {"authMode": None, "planType": None, "reason": None}
        assert (await client.call("account/read"))["account"] is None

    two_clients(story, OPENAI)


def test_a_login_with_a_device_code_is_stored(home: Any, issuer: Issuer, two_clients: Callable[..., None]) -> None:
    async def story(client: Any, other: Any) -> None:
        begun = await client.call("account/login/start", type="chatgptDeviceCode")
        assert (begun["verificationUrl"], begun["userCode"]) == (f"{issuer.url}/codex/device", "ABCD-1234")
        assert await ended(other, begun["loginId"]) is None
        assert (await other.notification("account/updated"))["authMode"] == "chatgpt"
        assert (home.path / "auth.json").exists()

    two_clients(story)


def test_a_cancelled_login_is_over(home: Any, issuer: Issuer, two_clients: Callable[..., None]) -> None:
    issuer.pending = 10**9

    async def story(client: Any, other: Any) -> None:
        for kind, error in (
            ("chatgpt", "Login server error: Login was not completed"),
            ("chatgptDeviceCode", "Login was not completed"),
        ):
            begun = await client.call("account/login/start", type=kind)
            assert await other.call("account/login/cancel", loginId=UNKNOWN) == {"status": "notFound"}
            cancelled = await other.call("account/login/cancel", loginId=begun["loginId"].upper())
            assert cancelled == {"status": "canceled"}
            assert await ended(client, begun["loginId"]) == error
            assert await client.call("account/login/cancel", loginId=begun["loginId"]) == {"status": "notFound"}
            if kind == "chatgpt":
                redirect = urlsplit(parse_qs(urlsplit(begun["authUrl"]).query)["redirect_uri"][0])
                with (
                    pytest.raises(ConnectionRefusedError),
                    socket.create_connection((redirect.hostname, redirect.port or 0), 5),
                ):
                    pass
        error = await client.fail("account/login/cancel", loginId="x")
        assert error == {"code": -32600, "message": "invalid login id: x"}

    two_clients(story)
    assert not (home.path / "auth.json").exists()


@pytest.mark.parametrize("following", ["chatgpt", "chatgptDeviceCode", "apiKey", "logout", "end"])
def test_one_login_is_under_way_at_a_time(
    home: Any, issuer: Issuer, two_clients: Callable[..., None], following: str
) -> None:
    issuer.pending = 10**9

    async def story(client: Any, other: Any) -> None:
        begun = await client.call("account/login/start", type="chatgpt")
        if following == "end":
            return
        if following == "logout":
            await other.call("account/logout")
        else:
            more = {"apiKey": "sk-test"} if following == "apiKey" else {}
            await other.call("account/login/start", type=following, **more)
        assert await ended(client, begun["loginId"]) == "Login server error: Login was not completed"

    two_clients(story)


def test_what_is_wrong_is_told(home: Any, issuer: Issuer, two_clients: Callable[..., None]) -> None:
    async def story(client: Any, _: Any) -> None:
        issuer.refused = "access_denied"
        begun = await client.call("account/login/start", type="chatgpt")
        assert await browse(begun["authUrl"]) == 400
        error = await ended(client, begun["loginId"])
        assert error == "Login server error: Sign-in could not be completed: access_denied"
        issuer.answers["/api/accounts/deviceauth/token"] = lambda _: (400, {"error": "no"})
        begun = await client.call("account/login/start", type="chatgptDeviceCode")
        assert "device auth failed" in await ended(client, begun["loginId"])
        issuer.answers["/api/accounts/deviceauth/usercode"] = lambda _: (404, {})
        refused = await client.fail("account/login/start", type="chatgptDeviceCode")
        assert (refused["code"], refused["data"]["slug"]) == (-32600, "login")
        assert "not enabled" in refused["message"]
        for params, text in (
            ({"type": "apiKey", "apiKey": " "}, "the API key is empty"),
            ({"type": "chatgptAuthTokens", "accessToken": "x", "chatgptAccountId": "y"}, "are not supported"),
            ({"type": "amazonBedrock", "apiKey": "x", "region": "y"}, "are not supported"),
            ({"type": "chatGPT"}, "Invalid request: unknown variant `chatGPT`"),
        ):
            assert text in (await client.fail("account/login/start", **params))["message"]

    two_clients(story)
    assert not (home.path / "auth.json").exists()


def test_a_port_that_is_in_use_is_told_and_another_login_can_begin(
    issuer: Issuer, home: Any, serving: Callable[..., Any]
) -> None:
    home.serve()

    async def main() -> None:
        async with serving() as running:
            client = running.connect()
            await client.hello()
            with socket.create_server(("127.0.0.1", 0)) as busy:
                running.server.logins.ports = (busy.getsockname()[1],)
                refused = await client.fail("account/login/start", type="chatgpt")
                assert "in use" in refused["message"]
            running.server.logins.ports = (0,)
            begun = await client.call("account/login/start", type="chatgpt")
            assert await browse(begun["authUrl"]) == 200
            assert await ended(client, begun["loginId"]) is None

    asyncio.run(main())


@pytest.mark.parametrize(
    ("forced", "kinds", "text"),
    [
        ("api", ("chatgpt", "chatgptDeviceCode"), "ChatGPT login is disabled. Use API key login instead."),
        ("chatgpt", ("apiKey",), "API key login is disabled. Use ChatGPT login instead."),
    ],
)
def test_a_login_that_the_configuration_forbids_does_not_begin(
    home: Any, issuer: Issuer, two_clients: Callable[..., None], forced: str, kinds: tuple[str, ...], text: str
) -> None:
    async def story(client: Any, _: Any) -> None:
        for kind in kinds:
            more = {"apiKey": "sk-test"} if kind == "apiKey" else {}
            assert (await client.fail("account/login/start", type=kind, **more))["message"] == text

    two_clients(story, f'forced_login_method="{forced}"')
    assert issuer.seen == []
    assert not (home.path / "auth.json").exists()


def test_a_workspace_that_is_not_permitted_is_not_stored(
    home: Any, issuer: Issuer, two_clients: Callable[..., None]
) -> None:
    async def story(client: Any, _: Any) -> None:
        begun = await client.call("account/login/start", type="chatgptDeviceCode")
        assert "restricted to workspace(s) other" in await ended(client, begun["loginId"])
        begun = await client.call("account/login/start", type="chatgpt")
        assert await browse(begun["authUrl"]) == 400
        assert "restricted to workspace(s) other" in await ended(client, begun["loginId"])

    two_clients(story, 'forced_chatgpt_workspace_id="other"')
    assert not (home.path / "auth.json").exists()


def test_the_issuer_is_neither_foreign_nor_insecure(
    two_clients: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_APP_SERVER_LOGIN_ISSUER", "http://example.com")

    async def story(client: Any, _: Any) -> None:
        for kind in ("chatgpt", "chatgptDeviceCode"):
            assert "example.com" in (await client.fail("account/login/start", type=kind))["message"]

    two_clients(story)


def test_the_status_tells_a_key_only_if_it_is_asked_for(two_clients: Callable[..., None]) -> None:
    async def story(client: Any, _: Any) -> None:
        empty = {"authMethod": None, "authToken": None, "requiresOpenaiAuth": True}
        assert await client.call("getAuthStatus") == empty
        await client.call("account/login/start", type="apiKey", apiKey=" sk-test ")
        assert await ended(client, None) is None
        assert await client.call("getAuthStatus") == {**empty, "authMethod": "apikey"}
        whole = await client.call("getAuthStatus", includeToken=True, refreshToken=True)
        assert whole == {**empty, "authMethod": "apikey", "authToken": "sk-test"}
        refused = await client.fail("account/rateLimits/read")
        assert refused["message"] == "chatgpt authentication required to read rate limits"
        for method in ("gitDiffToRemote", "getConversationSummary"):
            assert (await client.fail(method, cwd="/", rolloutPath="/x"))["code"] == -32601
        assert "unknown variant `getUserAgent`" in (await client.fail("getUserAgent"))["message"]

    two_clients(story, OPENAI)


def test_another_provider_needs_no_login(two_clients: Callable[..., None]) -> None:
    async def story(client: Any, _: Any) -> None:
        await client.call("account/login/start", type="apiKey", apiKey="sk-test")
        status = await client.call("getAuthStatus", includeToken=True)
        assert status == {"authMethod": None, "authToken": None, "requiresOpenaiAuth": False}

    two_clients(story)
