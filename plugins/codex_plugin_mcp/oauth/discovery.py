"""Finds the authorization server that protects an MCP server, and its capabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from codex_framework import Value
from codex_framework.contract.urls import shown_url
from codex_plugin_mcp.oauth.errors import LoginFailed
from codex_plugin_mcp.oauth.web import Answer, Web
from codex_plugin_mcp.transports.http_refusals import Refusal

__all__ = ["AuthorizationServer", "Protection", "discover", "probe"]

_MAX_SERVERS = 3
_PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
_OAUTH = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
_INITIALIZE: Mapping[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "codex-framework", "version": "1"},
    },
}


class AuthorizationServer(Value, kw_only=True):
    """An authorization server, as described by its metadata.

    Attributes:
        issuer: Its identifier.
        authorization_endpoint: The endpoint where users log in, if any.
        token_endpoint: The endpoint that issues tokens.
        registration_endpoint: The endpoint where clients register themselves, if any.
        auth_methods: How clients may authenticate, if the metadata say so.
        scopes: The scopes that it lists.
        client_id_documents: Whether a URL of a document can be a client's id.
        names_issuer: Whether its answer to the browser names it.
        assumed: Whether there are no metadata, so that the paths of the revision 2025-03-26 are assumed.
    """

    issuer: str
    authorization_endpoint: str | None
    token_endpoint: str
    registration_endpoint: str | None
    auth_methods: tuple[str, ...] | None = None
    scopes: tuple[str, ...] = ()
    client_id_documents: bool = False
    names_issuer: bool = False
    assumed: bool = False


class Protection(Value, kw_only=True):
    """How an MCP server is protected.

    Attributes:
        server: The authorization server.
        resource: The identifier of the MCP server for resource indicators, which the revision 2025-03-26 does not have.
        scopes: The scopes that the server names. They are requested if the configuration names no scopes.
    """

    server: AuthorizationServer
    resource: str | None
    scopes: tuple[str, ...] | None


async def probe(web: Web) -> Refusal | None:
    """Send a request without authorization and return the server's refusal, or None if its status is not 401."""
    return await web.challenge(_INITIALIZE)


async def discover(web: Web, server_url: str, challenge: Refusal | None, *, issuer: str | None = None) -> Protection:
    """Find out how an MCP server is protected.

    Args:
        challenge: The server's refusal of a request without authorization.
        issuer: The only authorization server to accept. By default, any that the MCP server names.

    Raises:
        LoginFailed: The metadata cannot be read or are invalid.
    """
    protection = await _protection(web, server_url, challenge)
    if issuer is not None and protection.server.issuer.rstrip("/") != issuer.rstrip("/"):
        raise LoginFailed(
            f"the MCP server names the authorization server {shown_url(protection.server.issuer)[:200]}"
            f" instead of {shown_url(issuer)}, which oauth.issuer demands",
            kind="refused",
        )
    return protection


async def _protection(web: Web, server_url: str, challenge: Refusal | None) -> Protection:
    named = challenge.parameter("scope") if challenge is not None else None
    wanted = tuple(named.split()) if named else None
    metadata = await _protected_resource(web, server_url, challenge)
    if metadata is None:
        return Protection(server=await _legacy_server(web, server_url), resource=None, scopes=wanted)
    resource = _checked_resource(metadata, server_url)
    server = await _first_server(web, metadata)
    return Protection(server=server, resource=resource, scopes=wanted or _texts(metadata.get("scopes_supported")))


# The metadata of the MCP server


async def _protected_resource(web: Web, server_url: str, challenge: Refusal | None) -> Mapping[str, Any] | None:
    """Return the metadata of the MCP server (RFC 9728), or None if it publishes none."""
    what = "the metadata of the MCP server"
    named = challenge.parameter("resource_metadata") if challenge is not None else None
    if named:
        answer = await web.get(web.check(named, "the address of the MCP server's metadata"), what)
        if answer.status == 200 and answer.content is not None:
            return answer.content
    parts = urlsplit(server_url)
    base = f"{parts.scheme}://{parts.netloc}"
    paths = [parts.path.rstrip("/"), ""] if parts.path.rstrip("/") else [""]
    for path in paths:
        answer = await web.get(f"{base}{_PROTECTED_RESOURCE}{path}", what)
        if answer.status == 200 and answer.content is not None:
            return answer.content
        _check_not_down(answer, what)
    return None


def _check_not_down(answer: Answer, what: str) -> None:
    """Raise if a server is down, because its answers then say nothing about its metadata."""
    if answer.status >= 500 or answer.status == 429:
        raise LoginFailed(f"{what} cannot be read: {answer.problem}", kind="other", hint="Try again later.")


def _checked_resource(metadata: Mapping[str, Any], server_url: str) -> str:
    """Return the resource that the metadata are about, which must be the MCP server or a part of the path to it."""
    resource = metadata.get("resource")
    if not isinstance(resource, str):
        raise LoginFailed("the metadata of the MCP server do not name the resource", kind="protocol")
    ours, theirs = urlsplit(server_url), _parts(resource)
    prefix = theirs.path.rstrip("/") + "/"
    same = (ours.scheme.lower(), ours.netloc.lower()) == (theirs.scheme.lower(), theirs.netloc.lower())
    if not same or not (ours.path.rstrip("/") + "/").startswith(prefix) or theirs.fragment:
        raise LoginFailed(
            f"the metadata are about another server: {shown_url(resource)[:200]} instead of {shown_url(server_url)}",
            kind="refused",
        )
    return resource


# The metadata of the authorization server


async def _first_server(web: Web, metadata: Mapping[str, Any]) -> AuthorizationServer:
    """Return the first authorization server that publishes metadata."""
    servers = _texts(metadata.get("authorization_servers"))
    if not servers:
        raise LoginFailed("the metadata of the MCP server name no authorization server", kind="protocol")
    for issuer in servers[:_MAX_SERVERS]:
        web.check(issuer, "the authorization server")
        for url in _metadata_urls(issuer):
            answer = await web.get(url, "the metadata of the authorization server")
            if answer.status == 200 and answer.content is not None:
                return _server(web, answer.content, issuer)
            _check_not_down(answer, "the metadata of the authorization server")
    raise LoginFailed(f"the authorization server {shown_url(servers[0])[:200]} publishes no metadata", kind="protocol")


def _metadata_urls(issuer: str) -> list[str]:
    """Return where the metadata of an issuer may be (RFC 8414, and both variants of OpenID Connect)."""
    parts = _parts(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    if not path:
        return [f"{base}{_OAUTH}", f"{base}{_OPENID}"]
    return [f"{base}{_OAUTH}{path}", f"{base}{_OPENID}{path}", f"{base}{path}{_OPENID}"]


async def _legacy_server(web: Web, server_url: str) -> AuthorizationServer:
    """Return the authorization server of the revision 2025-03-26, which is the MCP server's own host."""
    parts = urlsplit(server_url)
    base = f"{parts.scheme}://{parts.netloc}"
    for url in dict.fromkeys([f"{base}{_OAUTH}", f"{base}{_OAUTH}{parts.path.rstrip('/')}", f"{base}{_OPENID}"]):
        answer = await web.get(url, "the metadata of the authorization server")
        if answer.status == 200 and answer.content is not None:
            return _server(web, answer.content, base, legacy=True)
        _check_not_down(answer, "the metadata of the authorization server")
    return AuthorizationServer(
        issuer=base,
        authorization_endpoint=f"{base}/authorize",
        token_endpoint=f"{base}/token",
        registration_endpoint=f"{base}/register",
        assumed=True,
    )


def _server(web: Web, metadata: Mapping[str, Any], expected: str, *, legacy: bool = False) -> AuthorizationServer:
    """Return the server that metadata describe, after checking them."""
    issuer = metadata.get("issuer")
    if not isinstance(issuer, str) or not _is_expected(issuer, expected, legacy=legacy):
        shown = shown_url(issuer)[:200] if isinstance(issuer, str) else "nobody"
        raise LoginFailed(
            f"the metadata of {shown_url(expected)[:200]} are issued by {shown}, which may be an attack", kind="refused"
        )
    _check_pkce(metadata, issuer, legacy=legacy)
    endpoints = {
        name: None if (url := metadata.get(name)) is None else web.check(url, f"the {name}")
        for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint")
    }
    token_endpoint = endpoints["token_endpoint"]
    if token_endpoint is None:
        raise LoginFailed(f"the metadata of {shown_url(issuer)[:200]} name no token_endpoint", kind="protocol")
    return AuthorizationServer(
        issuer=issuer,
        authorization_endpoint=endpoints["authorization_endpoint"],
        token_endpoint=token_endpoint,
        registration_endpoint=endpoints["registration_endpoint"],
        auth_methods=_texts(metadata.get("token_endpoint_auth_methods_supported")),
        scopes=_texts(metadata.get("scopes_supported")) or (),
        client_id_documents=metadata.get("client_id_metadata_document_supported") is True,
        names_issuer=metadata.get("authorization_response_iss_parameter_supported") is True,
    )


def _is_expected(issuer: str, expected: str, *, legacy: bool) -> bool:
    """Whether metadata belong to the server that they were asked from.

    They must name exactly it (RFC 8414, section 3.3), but for a slash after the host. In the revision 2025-03-26 the server is
    only known by its host.
    """
    if issuer == expected:
        return True
    ours, theirs = urlsplit(expected), _parts(issuer)
    same_host = (ours.scheme, ours.netloc) == (theirs.scheme, theirs.netloc)
    return same_host and (legacy or {ours.path, theirs.path} == {"", "/"})


def _check_pkce(metadata: Mapping[str, Any], issuer: str, *, legacy: bool) -> None:
    """Refuse a server that does not support PKCE with S256. Metadata of the revision 2025-03-26 need not mention it."""
    methods = _texts(metadata.get("code_challenge_methods_supported"))
    if metadata.get("authorization_endpoint") is None or (methods is None and legacy):
        return
    if "S256" not in (methods or ()):
        raise LoginFailed(
            f"the authorization server {shown_url(issuer)[:200]} does not support PKCE with S256, which MCP requires",
            kind="refused",
        )


def _parts(url: str) -> SplitResult:
    """Return the parts of a URL from a server. An invalid URL has no parts."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _texts(value: Any) -> tuple[str, ...] | None:
    """Return the texts of a list, or None if the value is not a list."""
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else None
