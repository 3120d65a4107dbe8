"""The options of the server."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from codex_framework import ConfigError, Value
from codex_framework.contract.value import field

__all__ = ["Address", "Options"]


class Address(Value):
    """The address on which the server listens.

    Attributes:
        host: A name, or an IP address without brackets.
        port: 0 lets the system choose one.
    """

    host: str
    port: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Read ``HOST:PORT``, ``[IPV6]:PORT`` or ``:PORT``, which is on 127.0.0.1.

        Raises:
            ConfigError: It has another form.
        """
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
        if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not text.startswith("[")):
            raise ConfigError(
                f"{text!r} is no address", path="--http", slug="serve-mcp", hint="Write it as --http 127.0.0.1:8000."
            )
        return cls(host or "127.0.0.1", int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Options(Value, kw_only=True):
    """The options of a server.

    Attributes:
        address: The address for HTTP. None uses stdio.
        token: The token that HTTP clients must send. None requires none.
        token_var: The variable with the token, which commands do not get.
        hosts, origins: Further values of the headers ``Host`` and ``Origin`` to accept.
        tools: Patterns of the tools to offer. Empty offers none.
        agent: Whether to offer the tools that run turns.
        config: Keys of the configuration for every thread.
        plugin_files: The one-file plugins to load.
    """

    address: Address | None = None
    token: str | None = field(default=None, repr=False)
    token_var: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    agent: bool = True
    config: Mapping[str, Any] = field(factory=dict)
    plugin_files: tuple[Path, ...] = ()
