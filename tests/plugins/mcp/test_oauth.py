"""Logins at a loopback authorization server: discovery, registration, the browser, refresh, scopes, and attacks."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from codex_framework.cli.shutdown import run_loop
from codex_plugin_mcp.errors import ConnectionFailed
from codex_plugin_mcp.oauth.credentials import StoredTokens, now_ms, store_key
from codex_plugin_mcp.oauth.errors import LoginFailed
from codex_plugin_mcp.oauth.flow import auth_status, login, logout
from codex_plugin_mcp.oauth.store import TokenStore
from codex_plugin_mcp.oauth.tokens import OAuthAuth
from codex_plugin_mcp.peer import Peer
from codex_plugin_mcp.remote import remote_transport
from codex_plugin_mcp.servers import ServerConfig
from tests.plugins.mcp.http_server import HttpServer, McpServer, Reply, Request
from tests.plugins.mcp.oauth_server import AuthorizationServer, ProtectedServer, browse

CONFIG = {"mcp_oauth_credentials_store": "file"}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@attrs.define
class Stage:
    """Both servers, a home, and a client that logs in and connects."""

    authorization: AuthorizationServer
    mcp: ProtectedServer
    home: Path
    keys: dict[str, Any] = attrs.field(factory=dict)
    environ: dict[str, str] = attrs.field(factory=dict)
    said: list[str] = attrs.field(factory=list)
    url: str | None = None

    @property
    def server(self) -> ServerConfig:
        return ServerConfig(name="s", url=self.url or self.mcp.url, **self.keys)

    @property
    def store(self) -> TokenStore:
        return TokenStore(self.home, "file")

    @property
    def tokens(self) -> StoredTokens:
        tokens = self.store.load("s", self.url or self.mcp.url)
        assert tokens is not None
        return tokens

    def change(self, **changes: Any) -> None:
        self.store.save(self.tokens.evolve(**changes))

    def login(self, open_browser: Any = browse, **keys: Any) -> None:
        asyncio.run(
            login(
                self.server,
                codex_home=self.home,
                config=CONFIG,
                open_browser=open_browser,
                echo=self.said.append,
                environ=self.environ,
                **{"timeout_s": 20, **keys},
            )
        )

    def refused(self, **keys: Any) -> str:
        """The text of the error of a login."""
        with pytest.raises(LoginFailed) as caught:
            self.login(**keys)
        return str(caught.value)

    def status(self) -> str:
        return asyncio.run(auth_status(self.server, codex_home=self.home, config=CONFIG, environ=self.environ))

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Peer]:
        transport = remote_transport(self.server, codex_home=self.home, config=CONFIG, environ=self.environ)
        peer = Peer(transport, {})
        try:
            await peer.start()
            result = await peer.request("initialize", INITIALIZE, timeout_s=20)
            transport.negotiated(result["protocolVersion"])
            await peer.notify("notifications/initialized")
            yield peer
        finally:
            await peer.aclose()

    def call(self, times: int = 1) -> Any:
        async def run() -> Any:
            async with self.connected() as peer:
                for _ in range(times):
                    result = await peer.request("tools/call", {"name": "work", "arguments": {}}, timeout_s=20)
                return result

        return asyncio.run(run())

    def unconnected(self) -> ConnectionFailed:
        with pytest.raises(ConnectionFailed) as caught:
            self.call()
        return caught.value

    @property
    def authorized(self) -> dict[str, str]:
        """What the browser asked for."""
        return dict(self.authorization.seen("GET")[-1].query)

    @property
    def token_requests(self) -> list[Request]:
        return [r for r in self.authorization.seen("POST") if r.path.endswith("/token")]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with AuthorizationServer() as authorization, ProtectedServer(authorization) as mcp:
        yield Stage(authorization, mcp, tmp_path)


# The whole way


def test_login_use_and_logout(stage: Stage) -> None:
    error = stage.unconnected()
    assert str(error) == "The s MCP server is not logged in. Run `codex-framework mcp login s`."
    assert error.kind == "not_logged_in"
    assert stage.status() == "not_logged_in"
    stage.login()
    assert stage.status() == "o_auth"
    assert stage.call()["content"]
    assert stage.mcp.seen("POST", "tools/call")[0].headers["authorization"] == "Bearer access-0"
    assert asyncio.run(logout(stage.server, codex_home=stage.home, config=CONFIG)) is True
    assert asyncio.run(logout(stage.server, codex_home=stage.home, config=CONFIG)) is False
    assert not (stage.home / ".credentials.json").exists()
    assert stage.unconnected().kind == "not_logged_in"


def test_what_the_client_asks_for(stage: Stage) -> None:
    stage.login()
    registered = next(r for r in stage.authorization.seen("POST") if r.path == "/register").json
    assert registered["grant_types"] == ["authorization_code", "refresh_token"]
    assert registered["application_type"] == "native"
    asked = stage.authorized
    assert asked["code_challenge_method"] == "S256"
    assert asked["resource"] == stage.mcp.url
    assert asked["redirect_uri"].startswith("http://127.0.0.1:")
    assert registered["redirect_uris"] == [asked["redirect_uri"]]
    assert "scope" not in asked
    (request,) = stage.token_requests
    assert request.form["resource"] == stage.mcp.url
    assert request.form["client_id"] == asked["client_id"]
    assert len(request.form["code_verifier"]) >= 43
    (shown,) = stage.said
    assert f"{stage.authorization.base}/authorize?" in shown


def test_a_configured_token_is_used_instead_of_a_login(stage: Stage) -> None:
    stage.login()
    stage.authorization.issued["mine"] = ""
    stage.keys, stage.environ = {"bearer_token_env_var": "TOKEN"}, {"TOKEN": "mine"}
    assert stage.call()
    stage.keys = {"http_headers": {"Authorization": "Bearer mine"}}
    assert stage.call()
    assert {request.headers["authorization"] for request in stage.mcp.seen("POST", "tools/call")} == {"Bearer mine"}


# Discovery


@pytest.mark.parametrize(
    ("prefix", "path"),
    [
        ("", "/.well-known/oauth-authorization-server"),
        ("", "/.well-known/openid-configuration"),
        ("/tenant", "/.well-known/oauth-authorization-server/tenant"),
        ("/tenant", "/.well-known/openid-configuration/tenant"),
        ("/tenant", "/tenant/.well-known/openid-configuration"),
    ],
)
def test_metadata_of_the_authorization_server_are_found(stage: Stage, prefix: str, path: str) -> None:
    stage.authorization.prefix, stage.authorization.metadata_path = prefix, path
    stage.login()
    assert stage.call()


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/.well-known/oauth-protected-resource/mcp", False),
        ("/.well-known/oauth-protected-resource", False),
        ("/elsewhere/metadata.json", True),
    ],
)
def test_metadata_of_the_mcp_server_are_found(stage: Stage, path: str, named: bool) -> None:
    stage.mcp.metadata_path, stage.mcp.names_metadata = path, named
    stage.login()
    assert stage.call()


def test_a_server_of_2025_03_26_is_its_own_authorization_server(tmp_path: Path) -> None:
    class Both(AuthorizationServer):
        def answer(self, request: Request) -> Reply:
            reply = super().answer(request)
            return mcp.answer(request) if reply.status == 404 else reply

    for described in (True, False):
        with Both() as both, ProtectedServer(both) as mcp:
            mcp.metadata = None
            both.metadata_path = both.metadata_path if described else "/nowhere"
            both.metadata = {"code_challenge_methods_supported": None}
            stage = Stage(both, mcp, tmp_path / str(described), url=both.url)
            assert stage.status() == ("not_logged_in" if described else "unsupported")
            stage.login()
            assert "resource" not in stage.authorized
            assert stage.call()


def test_a_server_of_2025_03_26_that_names_another_host_is_refused(tmp_path: Path) -> None:
    class Both(AuthorizationServer):
        def answer(self, request: Request) -> Reply:
            reply = super().answer(request)
            return mcp.answer(request) if reply.status == 404 else reply

    for issuer in ("https://evil.example", "https://evil.example/"):
        with Both() as both, ProtectedServer(both) as mcp:
            mcp.metadata = None
            both.metadata = {"code_challenge_methods_supported": None, "issuer": issuer}
            stage = Stage(both, mcp, tmp_path, url=both.url)
            assert f"are issued by {issuer}" in stage.refused()
            assert not stage.token_requests


@pytest.mark.parametrize("status", [429, 500, 503])
def test_metadata_of_a_busy_server_are_not_taken_for_missing_ones(stage: Stage, status: int) -> None:
    busy = Reply(status)
    stage.authorization.described = lambda: (_ for _ in ()).throw(busy)  # type: ignore[method-assign]
    assert "cannot be read" in stage.refused()


def test_a_server_without_oauth_is_reported_as_such(tmp_path: Path) -> None:
    with McpServer() as server, AuthorizationServer() as authorization, ProtectedServer(authorization) as mcp:
        stage = Stage(authorization, mcp, tmp_path, url=server.url)
        assert stage.status() == "unsupported"
        stage.keys = {"http_headers": {"authorization": "Basic x"}}
        assert stage.status() == "bearer_token"
        assert "a login would not replace" in stage.refused()
        stage.keys = {"bearer_token_env_var": "T"}
        assert stage.status() == "bearer_token"
    stdio = ServerConfig(name="s", command="true")
    assert asyncio.run(auth_status(stdio, codex_home=tmp_path, config=CONFIG)) == "unsupported"


# Clients


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
def test_the_way_to_authenticate_is_the_servers(stage: Stage, method: str) -> None:
    stage.authorization.metadata = {"token_endpoint_auth_methods_supported": [method]}
    stage.authorization.secret = "hush hush/"
    stage.login()
    stage.change(expires_at=now_ms())
    assert stage.call()
    for request in stage.token_requests:  # the second one is the refresh
        basic = f"Basic {base64.b64encode(b'client-1:hush%20hush%2F').decode()}"
        assert request.headers.get("authorization") == (basic if method == "client_secret_basic" else None)
        assert request.form.get("client_secret") == ("hush hush/" if method == "client_secret_post" else None)
    assert [r.form["grant_type"] for r in stage.token_requests] == ["authorization_code", "refresh_token"]


def test_a_configured_client_is_used_without_registration(stage: Stage) -> None:
    stage.authorization.metadata = {"registration_endpoint": None}
    assert "does not register clients" in stage.refused()
    stage.keys = {"oauth": {"client_id": "mine", "client_secret_env_var": "SECRET"}}
    assert "SECRET" in stage.refused()
    stage.environ = {"SECRET": "hush"}
    stage.login()
    assert stage.authorized["client_id"] == "mine"
    assert stage.token_requests[0].headers["authorization"].startswith("Basic ")


@pytest.mark.parametrize("supported", [True, False])
def test_a_client_document_is_used_where_the_server_reads_it(stage: Stage, supported: bool) -> None:
    stage.authorization.metadata = {"client_id_metadata_document_supported": supported}
    stage.keys = {"oauth": {"client_id": "https://client.example/id.json"}}
    stage.login()
    assert stage.authorized["client_id"] == ("https://client.example/id.json" if supported else "client-1")


def test_a_login_can_demand_to_register_a_client_or_to_use_its_document(stage: Stage) -> None:
    stage.authorization.metadata = {"client_id_metadata_document_supported": True}
    assert "reads no document of a client" in stage.refused(registration="cimd")
    stage.keys = {"oauth": {"client_id": "https://client.example/id.json"}}
    stage.login(registration="dcr")
    assert stage.authorized["client_id"] == "client-1"
    stage.login(registration="cimd")
    assert stage.authorized["client_id"] == "https://client.example/id.json"


def test_half_characters_of_an_authorization_server_harm_nothing(stage: Stage) -> None:
    given = {"client_id": "client\ud800", "client_secret": "hush\ud800"}
    stage.authorization.register = lambda _: Reply(201, given)  # type: ignore[method-assign]
    stage.mcp.metadata = {"scopes_supported": ["a\ud800"]}
    stage.login()
    assert (stage.authorized["client_id"], stage.authorized["scope"]) == ("client?", "a?")
    sent = stage.token_requests[0].headers["authorization"].removeprefix("Basic ")
    assert base64.b64decode(sent) == b"client%3F:hush%3F"


def test_client_credentials_need_no_browser(stage: Stage) -> None:
    stage.keys = {
        "oauth": {"client_id": "mine", "client_secret": "hush", "grant": "client_credentials"},
        "scopes": ("a",),
    }
    assert stage.call()
    assert stage.tokens.scopes == ("a",)
    stage.mcp.revoked.add("access-0")
    assert stage.call()
    stage.mcp.demanded = {"tools/call": "b"}
    assert stage.call()
    assert [r.form["scope"] for r in stage.token_requests] == ["a", "a", "a b"]
    assert not stage.said


def test_a_signed_assertion_authenticates_the_client(stage: Stage) -> None:
    pytest.importorskip("cryptography", reason="the package cryptography is not installed")
    from cryptography.hazmat.primitives.asymmetric import ec, utils
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    stage.keys = {"oauth": {"client_id": "mine", "private_key_env_var": "KEY", "grant": "client_credentials"}}
    stage.environ = {"KEY": pem}
    stage.login()
    (request,) = stage.token_requests
    head, claims, signature = request.form["client_assertion"].split(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    encoded = utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    key.public_key().verify(encoded, f"{head}.{claims}".encode(), ec.ECDSA(SHA256()))
    said = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert (said["iss"], said["sub"], said["aud"]) == ("mine", "mine", stage.authorization.issuer)


def test_an_identity_token_is_exchanged_for_an_assertion(stage: Stage) -> None:
    def provider(request: Request) -> Reply:
        assert request.form["subject_token"] == "identity"
        return Reply(200, {"access_token": f"assertion for {request.form['audience']} {request.form['resource']}"})

    forms: list[dict[str, str]] = []

    def token(request: Request) -> Reply:
        forms.append(request.form)
        return stage.authorization.issue("")

    stage.authorization.token = token  # type: ignore[method-assign]
    with HttpServer(provider) as identity:
        stage.environ = {"ID": "identity"}
        stage.keys = {
            "oauth": {
                "grant": "identity_assertion",
                "client_id": "mine",
                "client_secret": "hush",
                "identity_token_env_var": "ID",
                "identity_endpoint": f"{identity.base}/token",
            }
        }
        assert stage.call()
    (form,) = forms
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert form["assertion"] == f"assertion for {stage.authorization.issuer} {stage.mcp.url}"


# Scopes


@pytest.mark.parametrize(
    ("configured", "challenged", "listed", "server_lists", "asked"),
    [
        (("mine",), "challenged", ["listed"], ["offline_access"], "mine"),
        (None, "challenged", ["listed"], [], "challenged"),
        (None, None, ["listed", "more"], ["other"], "listed more"),
        (None, None, ["listed"], ["listed", "offline_access"], "listed offline_access"),
        (None, None, None, ["other"], None),
    ],
)
def test_which_scopes_are_requested(
    stage: Stage, configured: Any, challenged: Any, listed: Any, server_lists: Any, asked: str | None
) -> None:
    stage.keys = {"scopes": configured}
    stage.mcp.challenge = {"scope": challenged} if challenged else {}
    stage.mcp.metadata = {"scopes_supported": listed} if listed else {}
    stage.authorization.metadata = {"scopes_supported": server_lists}
    stage.login()
    assert stage.authorized.get("scope") == asked


def test_a_demand_for_further_scopes_is_met_by_the_next_login(stage: Stage) -> None:
    stage.mcp.challenge = {"scope": "basic"}
    stage.login()
    stage.mcp.demanded = {"tools/call": "basic write"}
    stage.mcp.challenge = {}
    error = stage.unconnected()
    assert str(error).startswith("The s MCP server is not logged in (it demands the further scopes: write).")
    assert stage.tokens.access_token == "access-0"
    stage.login()
    assert stage.authorized["scope"].split() == ["basic", "write"]
    assert stage.call()


def test_a_server_that_is_never_satisfied_is_not_asked_again(stage: Stage) -> None:
    stage.keys = {"scopes": ("admin",)}
    stage.login()

    class Never(ProtectedServer):
        def call(self, request: Request) -> Reply:
            return self.refuse(403, error="insufficient_scope", scope="admin")

    with Never(stage.authorization) as mcp:
        stage.mcp = mcp
        stage.login()
        assert "403" in str(stage.unconnected())
        assert len(mcp.seen("POST", "tools/call")) == 1


def test_scopes_that_the_server_rejects_are_left_out(stage: Stage) -> None:
    class Picky(AuthorizationServer):
        def authorize(self, request: Request) -> Reply:
            self.redirect = {"error": "invalid_scope", "code": ""} if "scope" in request.query else {}
            return super().authorize(request)

    with Picky() as picky:
        stage.authorization = stage.mcp.authorization = picky
        stage.mcp.challenge = {"scope": "unknown"}
        stage.login()
        assert "scope" not in stage.authorized
        assert "without them" in stage.said[1]
        stage.keys = {"scopes": ("unknown",)}
        assert "invalid_scope" in stage.refused()


# Refresh


def test_a_token_is_refreshed_before_it_expires(stage: Stage) -> None:
    stage.login()
    stage.change(expires_at=now_ms() + 31_000)
    stage.call()
    assert stage.tokens.access_token == "access-0"
    stage.change(expires_at=now_ms() + 29_000)
    stage.call()
    assert stage.tokens.access_token == "access-1"
    assert stage.tokens.refresh_token == "refresh-1"
    assert stage.tokens.expires_at is not None
    assert stage.tokens.expires_at > now_ms() + 3_000_000
    assert stage.token_requests[-1].form["resource"] == stage.mcp.url


@pytest.mark.parametrize("seconds", [10**400, "9" * 400, -5, 1e999, "soon", []], ids="ABCDEF")
def test_an_expiry_that_makes_no_sense_is_unknown(stage: Stage, seconds: Any) -> None:
    stage.authorization.expires_in = seconds
    stage.login()
    assert stage.tokens.expires_at is None


def test_a_token_that_the_server_rejects_is_refreshed_once(stage: Stage) -> None:
    stage.login()
    stage.mcp.revoked.add("access-0")
    assert stage.call()
    stage.mcp.revoked |= {"access-1", "access-2", "access-3"}
    assert stage.unconnected().kind == "not_logged_in"
    assert len(stage.token_requests) == 3


def test_a_refresh_token_that_is_rejected_ends_the_login(stage: Stage) -> None:
    stage.login()
    stage.change(expires_at=now_ms(), refresh_token="stolen")
    error = stage.unconnected()
    assert "the login has expired" in str(error)
    assert error.kind == "not_logged_in"
    assert stage.status() == "not_logged_in"


@pytest.mark.parametrize("status", [408, 429, 503])
def test_an_authorization_server_that_is_down_does_not_end_a_login(stage: Stage, status: int) -> None:
    stage.login()

    class Down(AuthorizationServer):
        def token(self, request: Request) -> Reply:
            return Reply(status)

    with Down() as down:
        stage.change(expires_at=now_ms() + 20_000, token_endpoint=f"{down.base}/token")
        assert stage.call()
        stage.change(expires_at=now_ms())
        error = stage.unconnected()
        assert str(status) in str(error)
        assert error.kind != "not_logged_in"
    assert stage.tokens.refresh_token == "refresh-0"


def test_concurrent_requests_refresh_once(stage: Stage) -> None:
    stage.login()

    async def run() -> None:
        async with stage.connected() as peer:
            stage.mcp.revoked.add("access-0")
            calls = (peer.request("tools/call", {"name": "work"}, timeout_s=20) for _ in range(5))
            await asyncio.gather(*calls)

    asyncio.run(run())
    assert len(stage.token_requests) == 2


def test_a_refresh_ends_although_its_request_is_interrupted(stage: Stage) -> None:
    stage.login()
    asked, go = threading.Event(), threading.Event()

    class Slow(AuthorizationServer):
        def token(self, request: Request) -> Reply:
            asked.set()
            go.wait(60)
            return super().token(request)

    async def run(slow: Slow) -> None:
        stage.change(expires_at=now_ms(), token_endpoint=f"{slow.base}/token")
        slow.refreshable["refresh-0"] = ""
        auth = OAuthAuth(stage.server, codex_home=stage.home, config={}, environ={})
        task = asyncio.create_task(auth.header())
        await asyncio.to_thread(asked.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()

    with Slow() as slow:
        run_loop(run(slow))
    assert (stage.tokens.expires_at or 0) > now_ms() + 60_000


@pytest.mark.thorough
def test_two_processes_refresh_once(stage: Stage) -> None:
    stage.login()
    stage.change(expires_at=now_ms())
    program = textwrap.dedent(
        """
        import asyncio, sys
        from pathlib import Path
        from codex_plugin_mcp.oauth.tokens import OAuthAuth
        from codex_plugin_mcp.servers import ServerConfig
        server = ServerConfig(name="s", url=sys.argv[1])
        auth = OAuthAuth(server, codex_home=Path(sys.argv[2]), config={"mcp_oauth_credentials_store": "file"})
        print(asyncio.run(auth.header()))
        """
    )
    slow = stage.authorization.token

    def token(request: Request) -> Reply:
        time.sleep(0.2)  # long enough for the other process to arrive
        return slow(request)

    stage.authorization.token = token  # type: ignore[method-assign]
    argv = [sys.executable, "-c", program, stage.mcp.url, str(stage.home)]
    path = os.pathsep.join(filter(None, sys.path))
    processes = [
        subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert outputs == ["Bearer access-1"] * 2
    assert [r.form["grant_type"] for r in stage.token_requests] == ["authorization_code", "refresh_token"]


def test_a_login_elsewhere_is_noticed(stage: Stage) -> None:
    stage.login()

    async def run() -> None:
        async with stage.connected() as peer:
            await peer.request("ping", timeout_s=20)
            stage.mcp.revoked.add("access-0")
            stage.authorization.issued["other"] = ""
            stage.change(access_token="other", refresh_token=None)
            await peer.request("ping", timeout_s=20)

    asyncio.run(run())
    assert stage.mcp.requests[-1].headers["authorization"] == "Bearer other"
    assert len(stage.token_requests) == 1


def test_codexs_own_tokens_are_refreshed_with_what_discovery_says(stage: Stage) -> None:
    stage.login()
    entry = json.loads(stage.store.path.read_text())[store_key("s", stage.mcp.url)]
    del entry["codex_framework"]
    entry["expires_at"] = now_ms()
    stage.store.path.write_text(json.dumps({"any key": entry}))
    assert stage.call()
    assert stage.tokens.access_token == "access-1"
    for issuer in ("https://another.example", None):
        stage.change(expires_at=now_ms(), token_endpoint=None, issuer=issuer)
        assert "its authorization server is another one" in str(stage.unconnected())
    assert len(stage.token_requests) == 2


def test_a_secret_goes_to_its_authorization_server_alone(stage: Stage) -> None:
    for grant in ("authorization_code", "client_credentials"):
        oauth = {"issuer": "https://mine.example", "client_id": "c", "client_secret": "hush", "grant": grant}
        stage.keys = {"oauth": oauth}
        assert "which oauth.issuer demands" in stage.refused()
        assert "which oauth.issuer demands" in str(stage.unconnected()) or grant == "authorization_code"
    assert not stage.token_requests
    stage.keys = {"oauth": {**oauth, "issuer": f"{stage.authorization.issuer}/"}}
    assert stage.call()


# Attacks and mistakes


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"issuer": "https://evil.example"}, "are issued by https://evil.example"),
        ({"issuer": "https://evil.example/"}, "are issued by https://evil.example/"),
        ({"issuer": None}, "are issued by nobody"),
        ({"issuer": "https://a\x1b[31m\u202e.example/\n\x9b1m"}, "are issued by https://a.example/"),
        ({"issuer": "https://["}, "are issued by https://["),
        ({"token_endpoint": "http://evil.example/token"}, "does not use https"),
        ({"authorization_endpoint": "file:///etc/passwd"}, "does not use https"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "does not use https"),
        ({"registration_endpoint": "https://user:password@evil.example/"}, "contains a login"),
        ({"token_endpoint": "https://auth.example/token#part"}, "contains a login or a fragment"),
        ({"token_endpoint": None}, "no token_endpoint"),
        ({"token_endpoint": 7}, "is not a URL"),
        ({"code_challenge_methods_supported": ["plain"]}, "does not support PKCE"),
        ({"code_challenge_methods_supported": None}, "does not support PKCE"),
        ({"authorization_endpoint": None, "code_challenge_methods_supported": ["S256"]}, "has no page for logging in"),
        ({"junk": "x" * 300_000}, "is larger than"),
    ],
)
def test_wrong_metadata_of_the_authorization_server_are_refused(stage: Stage, metadata: Any, said: str) -> None:
    stage.authorization.metadata = metadata
    error = stage.refused()
    assert said in error
    assert error.isprintable()
    assert "password" not in error
    assert len(error) < 500
    assert not stage.token_requests


@pytest.mark.parametrize("prefix", ["", "/tenant"])
@pytest.mark.parametrize("path", ["/other", "/tenant/deeper", "/tenant2", "/tenant?x=1", "/tenant#x"])
def test_an_issuer_on_another_path_of_the_same_host_is_refused(stage: Stage, prefix: str, path: str) -> None:
    stage.authorization.prefix = prefix
    stage.authorization.metadata_path += prefix
    stage.authorization.metadata = {"issuer": f"{stage.authorization.base}{path}"}
    assert "are issued by" in stage.refused()
    assert not stage.token_requests


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"resource": "https://evil.example/mcp"}, "are about another server: https://evil.example/mcp"),
        ({"resource": "{base}/mcp/deeper"}, "are about another server"),
        ({"resource": "{base}/mc"}, "are about another server"),
        ({"resource": "{base}/mcp#part"}, "are about another server"),
        ({"resource": "{base}#part"}, "are about another server"),
        ({"resource": None}, "do not name the resource"),
        ({"resource": "http://["}, "are about another server"),
        ({"authorization_servers": ["https://["]}, "is not a URL"),
        ({"authorization_servers": []}, "name no authorization server"),
        ({"authorization_servers": ["http://evil.example"]}, "does not use https"),
        ({"authorization_servers": "https://evil.example"}, "name no authorization server"),
    ],
)
def test_wrong_metadata_of_the_mcp_server_are_refused(stage: Stage, metadata: Any, said: str) -> None:
    stage.mcp.metadata = {
        name: value.replace("{base}", stage.mcp.base) if isinstance(value, str) else value
        for name, value in metadata.items()
    }
    assert said in stage.refused()
    assert not stage.authorization.requests


def test_a_challenge_cannot_send_the_client_to_another_scheme(stage: Stage) -> None:
    stage.mcp.metadata = None
    stage.mcp.challenge = {"resource_metadata": "http://192.0.2.1/metadata"}
    assert "does not use https" in stage.refused()


def test_metadata_that_redirect_to_another_server_are_refused(stage: Stage) -> None:
    with AuthorizationServer() as other:
        away = Reply(302, headers={"location": f"http://localhost:{other.port}/.well-known/oauth-authorization-server"})
        stage.authorization.described = lambda: (_ for _ in ()).throw(away)  # type: ignore[method-assign]
        assert "which is not followed" in stage.refused()
        assert not other.requests


def test_a_server_elsewhere_cannot_send_the_client_to_this_machine() -> None:
    from codex_plugin_mcp.oauth.web import Web

    async def run() -> None:
        async with Web("https://mcp.example/mcp") as web:
            assert web.check("https://auth.example/", "x")
            for url in ("http://127.0.0.1:1/", "http://localhost/", "http://[::1]/", "ftp://a/", "https:///x", None):
                with pytest.raises(LoginFailed):
                    web.check(url, "x")
        with pytest.raises(LoginFailed, match="does not use https"):
            async with Web("http://mcp.example/mcp"):
                raise AssertionError

    asyncio.run(run())


@pytest.mark.parametrize(
    ("redirect", "metadata", "said"),
    [
        ({"iss": "https://evil.example"}, {}, "the answer comes from https://evil.example"),
        ({}, {"authorization_response_iss_parameter_supported": True}, "does not name the authorization server"),
        ({"code": "", "error": "access_denied", "error_description": "no\nway"}, {}, "access_denied: no way"),
        ({"code": ""}, {}, "it gave no code"),
    ],
)
def test_wrong_answers_of_the_browser_are_refused(stage: Stage, redirect: Any, metadata: Any, said: str) -> None:
    stage.authorization.redirect, stage.authorization.metadata = redirect, metadata
    assert said in stage.refused()
    assert not stage.token_requests


def test_the_right_issuer_is_accepted(stage: Stage) -> None:
    stage.authorization.metadata = {"authorization_response_iss_parameter_supported": True}
    stage.authorization.redirect = {"iss": stage.authorization.issuer}
    stage.login()


def test_an_answer_with_another_state_does_not_end_the_login(stage: Stage) -> None:
    import urllib.error
    import urllib.request

    statuses: list[int] = []

    def attacked(address: str) -> bool:
        from urllib.parse import parse_qs, urlsplit

        def attack() -> None:
            target = parse_qs(urlsplit(address).query)["redirect_uri"][0]
            for path in (f"{target}?code=evil&state=guess", f"{target}?code=evil", target.replace("callback", "other")):
                try:
                    urllib.request.urlopen(path, timeout=60)
                except urllib.error.HTTPError as error:
                    statuses.append(error.code)
                    error.close()
            browse(address)

        import threading

        threading.Thread(target=attack, daemon=True).start()
        return True

    stage.login(open_browser=attacked)
    assert statuses == [400, 400, 404]
    assert stage.call()


def test_the_page_that_the_browser_sees_last_is_not_stored(stage: Stage) -> None:
    import urllib.request

    heads: list[Any] = []

    def visit(address: str) -> None:
        with urllib.request.urlopen(address, timeout=10) as page:
            heads.append(page.headers)

    def browser(address: str) -> None:
        threading.Thread(target=visit, args=(address,), daemon=True).start()

    stage.login(open_browser=browser)
    assert (heads[0]["cache-control"], heads[0]["referrer-policy"]) == ("no-store", "no-referrer")


def test_a_user_who_does_not_come_is_not_awaited_forever(stage: Stage) -> None:
    assert stage.refused(open_browser=lambda _: False, timeout_s=0.05) == "nobody logged in within 0.05 seconds"
    assert "could not be opened" in stage.said[-1]


def test_the_callback_is_configured(stage: Stage) -> None:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.listen()
        stage.keys = {"oauth": {"callback_port": port}}
        assert f"port {port} for the answer of the browser cannot be opened" in stage.refused()
    stage.keys = {"oauth": {"callback_port": port, "callback_url": f"http://localhost:{port}/mine"}}
    stage.login()
    assert stage.authorized["redirect_uri"] == f"http://localhost:{port}/mine"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            Reply(400, {"error": "invalid_grant", "error_description": "bad\x1b[31m code"}),
            "400 (invalid_grant: bad code)",
        ),
        (Reply(200, b"<html>"), "issued no access token"),
        (Reply(200, {"access_token": "a\nb"}), "issued no access token"),
        (Reply(200, {"access_token": "a", "token_type": "mac"}), "a token of the type 'mac'"),
        (Reply(307, headers={"location": "http://localhost:1/"}), "which is not followed"),
    ],
)
def test_wrong_answers_of_the_token_endpoint_are_refused(stage: Stage, answer: Reply, said: str) -> None:
    stage.authorization.token = lambda _: answer  # type: ignore[method-assign]
    assert said in stage.refused()
    assert not (stage.home / ".credentials.json").exists()


def test_tokens_reach_no_text_and_no_log(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    stage.authorization.secret = "client-hush"
    stage.login()
    stage.call()
    stage.mcp.revoked |= {f"access-{number}" for number in range(9)}
    shown = [*stage.said, repr(stage.tokens), str(stage.unconnected())]
    for text in (*shown, *(record.getMessage() for record in caplog.records if record.name.startswith("codex"))):
        for secret in ("access-", "refresh-", "client-hush"):
            assert secret not in text
