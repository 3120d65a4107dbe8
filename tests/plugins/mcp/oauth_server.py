"""An authorization server and a protected MCP server on loopback, and a browser that logs in."""

from __future__ import annotations

import base64
import hashlib
import threading
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlencode

from tests.plugins.mcp.http_server import HttpServer, McpServer, Reply, Request


class AuthorizationServer(HttpServer):
    """Registers clients, authorizes whoever comes, and issues and refreshes tokens.

    Attributes:
        metadata: What its metadata say besides or instead of the usual. None as a value removes a key.
        metadata_path: Where they are.
        issued: The scopes of each valid access token.
        expires_in: The life of access tokens in seconds. None: the server does not say.
        rotate: Whether a refresh token is good for one use.
        secret: The secret of registered clients, if they get one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.metadata: dict[str, Any] = {}
        self.metadata_path = "/.well-known/oauth-authorization-server"
        self.prefix = ""
        self.issued: dict[str, str] = {}
        self.refreshable: dict[str, str] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.expires_in: int | None = 3600
        self.rotate = True
        self.secret: str | None = None
        self.auth_method: str | None = None
        self.redirect: dict[str, str] = {}
        self.issuing = threading.Lock()

    @property
    def issuer(self) -> str:
        return f"{self.base}{self.prefix}"

    def described(self) -> dict[str, Any]:
        data = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            **self.metadata,
        }
        return {name: value for name, value in data.items() if value is not None}

    def answer(self, request: Request) -> Reply:
        if request.path == self.metadata_path:
            return Reply(200, self.described())
        match request.path.removeprefix(self.prefix):
            case "/register":
                return self.register(request)
            case "/authorize":
                return self.authorize(request)
            case "/token":
                with self.issuing:
                    return self.token(request)
            case _:
                return Reply(404)

    def register(self, request: Request) -> Reply:
        data = {"client_id": f"client-{len(self.seen('POST'))}", "redirect_uris": request.json["redirect_uris"]}
        if self.secret is not None:
            data |= {"client_secret": self.secret}
        if self.auth_method is not None:
            data |= {"token_endpoint_auth_method": self.auth_method}
        return Reply(201, data)

    def authorize(self, request: Request) -> Reply:
        code = f"code-{len(self.codes)}"
        self.codes[code] = dict(request.query)
        answer = {"code": code, "state": request.query["state"], **self.redirect}
        answer = {name: value for name, value in answer.items() if value}
        return Reply(302, headers={"location": f"{request.query['redirect_uri']}?{urlencode(answer)}"})

    def token(self, request: Request) -> Reply:
        form = request.form
        match form.get("grant_type"):
            case "authorization_code":
                asked = self.codes.pop(form["code"])
                digest = hashlib.sha256(form["code_verifier"].encode()).digest()
                challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
                if challenge != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
                    return Reply(400, {"error": "invalid_grant"})
                return self.issue(asked.get("scope", ""))
            case "refresh_token":
                scope = self.refreshable.get(form["refresh_token"])
                if scope is None:
                    return Reply(400, {"error": "invalid_grant", "error_description": "the refresh token was used"})
                if self.rotate:
                    del self.refreshable[form["refresh_token"]]
                return self.issue(scope)
            case "client_credentials":
                return self.issue(form.get("scope", ""))
            case other:
                return Reply(400, {"error": "unsupported_grant_type", "error_description": str(other)})

    def issue(self, scope: str) -> Reply:
        number = len(self.issued)
        self.issued[f"access-{number}"] = scope
        self.refreshable[f"refresh-{number}"] = scope
        data: dict[str, Any] = {"access_token": f"access-{number}", "token_type": "Bearer"}
        data |= {"refresh_token": f"refresh-{number}"}
        if self.expires_in is not None:
            data["expires_in"] = self.expires_in
        if scope:
            data["scope"] = scope
        return Reply(200, data)


class ProtectedServer(McpServer):
    """An MCP server that demands a token of an authorization server.

    Attributes:
        metadata: What its metadata say besides or instead of the usual. None: it publishes none.
        challenge: What the challenge says besides ``resource_metadata``.
        demanded: The scopes that each method of JSON-RPC demands.
    """

    def __init__(self, authorization: AuthorizationServer) -> None:
        super().__init__()
        self.authorization = authorization
        self.metadata: dict[str, Any] | None = {}
        self.metadata_path = "/.well-known/oauth-protected-resource/mcp"
        self.names_metadata = True
        self.challenge: dict[str, str] = {}
        self.demanded: dict[str, str] = {}
        self.revoked: set[str] = set()

    def refuse(self, status: int, **parameters: str) -> Reply:
        if self.names_metadata and self.metadata is not None:
            parameters["resource_metadata"] = f"{self.base}{self.metadata_path}"
        said = ", ".join(f'{name}="{value}"' for name, value in {**self.challenge, **parameters}.items())
        return Reply(status, {"error": "refused"}, {"www-authenticate": f"Bearer {said}"})

    def answer(self, request: Request) -> Reply:
        if request.path == self.metadata_path and self.metadata is not None:
            servers = {"resource": self.url, "authorization_servers": [self.authorization.issuer]}
            return Reply(200, {**servers, **self.metadata})
        return super().answer(request)

    def allow(self, request: Request) -> None:
        if request.path != "/mcp":
            return
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        scopes = self.authorization.issued.get(token)
        if scopes is None or token in self.revoked:
            raise self.refuse(401)
        demanded = self.demanded.get(request.rpc_method, "").split()
        if not set(demanded) <= set(scopes.split()):
            raise self.refuse(403, error="insufficient_scope", scope=" ".join(demanded))


def browse(address: str) -> bool:
    """Open an address as a browser does, in the background."""

    def visit() -> None:
        try:
            with urllib.request.urlopen(address, timeout=10) as response:
                response.read()
        except urllib.error.URLError:
            pass

    threading.Thread(target=visit, daemon=True).start()
    return True
