"""The network rules of a profile, validated once and prepared for lookups."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from codex_framework import NetworkRules, SandboxError
from codex_plugin_network_proxy.hosts import BadHostError, clean_host, is_address, split_port

__all__ = ["HostRules", "SocketRules", "checked_rules", "is_local_name"]

_TABLE = "permissions.NAME.network"
_LOCAL_NAME = "localhost"


class _Patterns:
    """A set of patterns that all allow or all deny. Lookups return the pattern as written."""

    def __init__(self) -> None:
        self._exact: dict[str, dict[int | None, str]] = {}
        self._below: dict[str, dict[int | None, str]] = {}
        self._any: dict[int | None, str] = {}

    def add(self, pattern: str, *, may_be_any: bool) -> None:
        """Add a pattern.

        Raises:
            SandboxError: The pattern is invalid.
        """
        try:
            host, port = split_port(pattern) if not _is_bare_ipv6(pattern) else (pattern, None)
            if host == "*":
                if not may_be_any:
                    raise SandboxError(
                        f"the pattern {pattern!r} in {_TABLE}.domains cannot be denied",
                        hint="Remove it, because hosts that no rule allows are refused anyway.",
                    )
                self._any[port] = pattern
                return
            for prefix, places in (("**.", (self._exact, self._below)), ("*.", (self._below,)), ("", (self._exact,))):
                if host.startswith(prefix):
                    name = clean_host(host.removeprefix(prefix))
                    if prefix and is_address(name):
                        raise BadHostError("an address has no subdomains")
                    for patterns in places:
                        patterns.setdefault(name, {})[port] = pattern
                    return
        except BadHostError as error:
            raise SandboxError(
                f"{_TABLE}.domains has the pattern {pattern!r}, which is invalid: {error}",
                hint="Write a host, *.HOST (its subdomains), **.HOST (the host and its subdomains) or * (any host, only to allow), "
                "with :PORT if only one port is meant; no scheme, no path and no other wildcards.",
            ) from None

    def match(self, host: str, port: int) -> str | None:
        """Return the pattern that matches a host and a port, or None if none does."""
        for place, name in self._places(host):
            pattern = _at_port(place.get(name), port)
            if pattern is not None:
                return pattern
        return _at_port(self._any, port)

    def names(self, host: str, port: int) -> bool:
        """Return whether a pattern without wildcards names a host."""
        pattern = _at_port(self._exact.get(host), port)
        return pattern is not None and not pattern.startswith("*")

    def _places(self, host: str) -> Iterator[tuple[dict[str, dict[int | None, str]], str]]:
        yield self._exact, host
        if self._below and not is_address(host):
            above = host.partition(".")[2]
            while above:
                yield self._below, above
                above = above.partition(".")[2]


def _at_port(ports: Mapping[int | None, str] | None, port: int) -> str | None:
    return (ports.get(port) or ports.get(None)) if ports else None


class HostRules:
    """The rules for hosts.

    Args:
        domains: As in :class:`NetworkRules`.

    Raises:
        SandboxError: A pattern is invalid.
    """

    def __init__(self, domains: Mapping[str, str]) -> None:
        self._allowed = _Patterns()
        self._denied = _Patterns()
        for pattern, word in domains.items():
            if word not in ("allow", "deny"):
                raise SandboxError(f"{_TABLE}.domains has {word!r} for {pattern!r}", hint='Write "allow" or "deny".')
            patterns = self._allowed if word == "allow" else self._denied
            patterns.add(pattern, may_be_any=word == "allow")

    def denied_by(self, host: str, port: int) -> str | None:
        """Return the pattern that denies a host and port, or None if none does."""
        return self._denied.match(host, port)

    def allowed_by(self, host: str, port: int) -> str | None:
        """Return the pattern that allows a host and port, or None if none does.

        Patterns that deny the host are not considered.
        """
        return self._allowed.match(host, port)

    def names(self, host: str, port: int) -> bool:
        """Return whether a host is allowed by its own name or address, not by a wildcard."""
        return self._allowed.names(host, port)


class SocketRules:
    """The rules for unix sockets.

    Args:
        sockets: As ``unix_sockets`` in :class:`NetworkRules`.

    Raises:
        SandboxError: A path is not absolute.
    """

    def __init__(self, sockets: Mapping[str, str]) -> None:
        self._words: dict[str, str] = {}
        for path, word in sockets.items():
            if word not in ("allow", "none"):
                raise SandboxError(f"{_TABLE}.unix_sockets has {word!r} for {path!r}", hint='Write "allow" or "none".')
            if path != "*" and (not path.startswith("/") or "\0" in path):
                raise SandboxError(
                    f"{_TABLE}.unix_sockets has {path!r}, which is not an absolute path",
                    hint='Write an absolute path, or "*" for every socket.',
                )
            self._words[path] = word
        allowed = [path for path, word in self._words.items() if word == "allow"]
        self._allowed = frozenset(map(os.path.realpath, allowed))  # now, before a command can put links there

    def __bool__(self) -> bool:
        return "allow" in self._words.values()

    def allow(self, real_path: str) -> bool:
        """Return whether a socket may be reached. ``none`` overrides ``allow`` and ``*``.

        Symlinks in the paths of rules are resolved: for ``allow`` at the time when the rules were created, for ``none`` at the
        time of the check.
        """
        if any(os.path.realpath(path) == real_path for path, word in self._words.items() if word == "none"):
            return False
        return real_path in self._allowed or self._words.get("*") == "allow"


def checked_rules(rules: NetworkRules) -> tuple[HostRules, SocketRules]:
    """Validate rules and return those for hosts and those for unix sockets.

    Raises:
        SandboxError: A rule is invalid or unsupported.
    """
    if rules.mode not in ("full", "limited"):
        raise SandboxError(f"{_TABLE}.mode is {rules.mode!r}", hint='Write "full" or "limited".')
    if rules.enable_socks5_udp:
        raise SandboxError(
            f"{_TABLE}.enable_socks5_udp is on, but the network proxy does not support UDP",
            hint=f"Remove {_TABLE}.enable_socks5_udp.",
        )
    return HostRules(rules.domains), SocketRules(rules.unix_sockets)


def is_local_name(host: str) -> bool:
    """Return whether a name always means this machine (RFC 6761)."""
    return host == _LOCAL_NAME or host.endswith("." + _LOCAL_NAME)


def _is_bare_ipv6(pattern: str) -> bool:
    return pattern.count(":") > 1 and not pattern.startswith(("[", "*"))
