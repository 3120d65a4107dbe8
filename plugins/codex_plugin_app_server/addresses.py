"""The address to listen on, and the permitted clients: the values of ``--listen`` and of the ``--ws-`` options."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from pathlib import Path
from typing import TypeAlias

from codex_framework import Value
from codex_framework.toolkit.regular_files import read_regular

__all__ = ["Access", "Address", "AddressError", "Stdio", "TcpAddress", "UnixAddress", "parse_address", "read_access"]

_SOCKET = Path("app-server-control", "app-server-control.sock")
"""The default unix socket, below ``$CODEX_HOME``. The name is Codex's."""

_MOST_OF_TOKEN = 64 << 10


class AddressError(ValueError):
    """The server cannot listen as the options say."""


class Stdio(Value):
    """The client that started the process."""


class TcpAddress(Value):
    """An IP address and a port; the port 0 means any free one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of this machine can connect."""
        return ipaddress.ip_address(self.host).is_loopback

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class UnixAddress(Value):
    """A socket in the file system.

    Attributes:
        path: The path of the socket. The default is in ``$CODEX_HOME``, as in Codex.
    """

    path: Path | None

    def located(self, home: Path) -> Path:
        """Return where the socket is, with ``$CODEX_HOME`` at ``home``."""
        return self.path or home / _SOCKET


Address: TypeAlias = Stdio | TcpAddress | UnixAddress


def parse_address(text: str) -> Address:
    """Return the address of ``--listen``. Raises AddressError if the text is invalid."""
    scheme, separator, rest = text.partition("://")
    match scheme if separator else "":
        case "stdio" if not rest:
            return Stdio()
        case "unix":
            return UnixAddress(Path(rest).absolute() if rest else None)
        case "ws":
            return _tcp_address(text, rest)
        case _:
            raise AddressError(
                f"unsupported --listen URL `{text}`; expected `stdio://`, `unix://`, `unix://PATH` or `ws://IP:PORT`"
            )


def _tcp_address(text: str, rest: str) -> TcpAddress:
    host, _, port = rest.rpartition(":")
    try:
        ip = ipaddress.ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
        if re.fullmatch(r"[0-9]{1,5}", port) and int(port) < 1 << 16:
            return TcpAddress(str(ip), int(port))
    except ValueError:
        pass
    raise AddressError(f"invalid websocket --listen URL `{text}`; expected `ws://IP:PORT`")


class Access(Value):
    """The clients that may connect by TCP.

    Attributes:
        token_digest: The SHA-256 of the token that clients must send. None if no token is needed.
    """

    token_digest: bytes | None = None

    def refusal(self, authorization: str | None) -> str | None:
        """Return why a client with this header ``Authorization`` may not connect, or None if it may."""
        if self.token_digest is None:
            return None
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return "missing websocket bearer token"
        digest = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        return None if hmac.compare_digest(digest, self.token_digest) else "invalid websocket bearer token"


def read_access(address: Address, mode: str | None, token_file: str | None, token_sha256: str | None) -> Access:
    """Return the permitted clients, by the ``--ws-`` options.

    Raises:
        AddressError: The options contradict each other, the file cannot be read or is empty, or anyone could connect.
    """
    if mode is None:
        if token_file is not None or token_sha256 is not None:
            raise AddressError("websocket auth flags require `--ws-auth capability-token`")
        if isinstance(address, TcpAddress) and not address.is_loopback:
            raise AddressError(
                f"refusing to start non-loopback websocket listener {address} without auth; "
                "configure `--ws-auth capability-token`"
            )
        return Access()
    if not isinstance(address, TcpAddress):
        raise AddressError("`--ws-auth` needs `--listen ws://IP:PORT`")
    if (token_file is None) == (token_sha256 is None):
        count = "only one of them" if token_file is not None else "one of them"
        raise AddressError(
            f"`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth capability-token` is set: {count}"
        )
    if token_sha256 is not None:
        if not re.fullmatch(r"[0-9A-Fa-f]{64}", token_sha256):
            raise AddressError("`--ws-token-sha256` must be a SHA-256 digest of 64 hexadecimal digits")
        return Access(bytes.fromhex(token_sha256))
    assert token_file is not None
    return Access(hashlib.sha256(_token(Path(token_file))).digest())


def _token(path: Path) -> bytes:
    if not path.is_absolute():
        raise AddressError(f"`--ws-token-file` must be an absolute path: {path}")
    try:
        token = read_regular(path, _MOST_OF_TOKEN).strip()
    except OSError as error:
        raise AddressError(f"cannot read the token file {path}: {error.strerror or error}") from None
    if not token:
        raise AddressError(f"the token file {path} is empty")
    return token
