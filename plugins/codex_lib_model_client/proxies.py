"""The proxy that the environment variables name for a URL, as httpx reads them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from codex_framework.contract.errors import ModelError
from codex_framework.contract.value import Value, field

__all__ = ["Proxy", "proxy_for", "proxy_url"]

_SCHEMES = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


class Proxy(Value):
    """A proxy server.

    Attributes:
        scheme: ``http``, ``https``, ``socks5`` or ``socks5h``.
        user: The user name. Empty means that the proxy requires none.
    """

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def is_socks(self) -> bool:
        """Whether the proxy speaks SOCKS5."""
        return self.scheme.startswith("socks5")


def proxy_for(url: str, env: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for a URL, or None if it is reached directly.

    The variables are ``HTTP_PROXY``, ``HTTPS_PROXY`` and ``ALL_PROXY``, with the exceptions of ``NO_PROXY``: hosts with their
    subdomains, addresses, networks such as ``10.0.0.0/8``, or ``*``. Names in lower case come first. On macOS and Windows, the
    settings of the system apply if no variable is set.

    Raises:
        ModelError: A variable names no usable proxy.
    """
    proxies = _proxies(env)
    if not proxies:
        return None
    parts = urlsplit(url)
    scheme, host = parts.scheme, (parts.hostname or "").lower()
    if any(_is_excepted(entry.strip().lower(), scheme, host, parts.port) for entry in proxies.get("no", "").split(",")):
        return None
    for kind in (scheme, "all"):
        if proxies.get(kind):
            return _parse_proxy(kind, proxies[kind])
    return None


def proxy_url(value: str) -> str:
    """Return the URL of a proxy from the value of a variable, which may also be a host with port and login."""
    return value if "://" in value else f"http://{value}"


def _proxies(env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables by scheme. An empty variable in lower case removes the one in upper case."""
    named = {name: value for name, value in env.items() if name[-6:].lower() == "_proxy"}
    found = {name[:-6].lower(): value for name, value in named.items() if value}
    if "REQUEST_METHOD" in env:  # in a CGI program, HTTP_PROXY is a header of the request
        found.pop("http", None)
    for name, value in named.items():
        if name.islower():
            found[name[:-6]] = value
    if not found and sys.platform in ("darwin", "win32"):
        from urllib.request import getproxies

        return getproxies()
    return found


def _is_excepted(entry: str, scheme: str, host: str, port: int | None) -> bool:
    if entry == "*":
        return True
    if "://" in entry:
        wanted, _, entry = entry.partition("://")
        if wanted not in (scheme, "all"):
            return False
    if not entry:
        return False
    if "/" in entry:
        return _is_in_network(host, entry)
    name, number = _split(entry)
    if number is not None and number != (port or _SCHEMES[scheme]):
        return False
    if name.startswith("."):
        return host.endswith(name)
    return host == name or (_is_name(name) and host.endswith(f".{name}"))


def _split(entry: str) -> tuple[str, int | None]:
    """Split a host and its port. The address of IPv6 may be in brackets."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, int(rest[1:]) if rest[1:].isdecimal() else None
    name, separator, number = entry.rpartition(":")
    return (name, int(number)) if separator and ":" not in name and number.isdecimal() else (entry, None)


def _is_name(host: str) -> bool:
    return host != "localhost" and ":" not in host and not host.replace(".", "").isdecimal()


def _is_in_network(host: str, network: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:  # the host is a name, or the entry is not a network
        return False


def _parse_proxy(kind: str, value: str) -> Proxy:
    try:
        parts = urlsplit(proxy_url(value))
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if not host or parts.scheme not in _SCHEMES:
        raise ModelError(
            f"{kind.upper()}_PROXY is not the URL of a proxy that can be used",
            info="bad_request",
            slug="proxy",
            hint=f"Write http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT, or unset {kind.upper()}_PROXY.",
        )
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Proxy(parts.scheme, host, port or _SCHEMES[parts.scheme], user, password)
