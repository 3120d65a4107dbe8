"""Opening connections: directly, through a proxy, with TLS."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from codex_lib_model_client.connection import Connection
from codex_lib_model_client.transport_errors import CONNECT_S, SendError

if TYPE_CHECKING:
    import ssl

    from codex_lib_model_client.certificates import Certificates
    from codex_lib_model_client.preconnect import EarlyConnection
    from codex_lib_model_client.proxies import Proxy
    from codex_lib_model_client.secure_socket import SecureSocket

__all__ = ["Dialer"]

_AT_ONCE_S = 0.005
"""Time limit in seconds for connecting to a server on this machine, which blocks the event loop. 0.0001 is typical."""


class Dialer:
    """Opens connections to one server.

    Args:
        url: A URL of the server: ``http``, ``https``, ``ws`` or ``wss``.
        proxy: The proxy, if the server is not reached directly.
        certificates: The trusted certificates, if the server or a proxy uses TLS.

    Attributes:
        prefix: The text before the path in a request. It is empty unless an HTTP proxy forwards requests.
        headers: The headers for a proxy that forwards requests.
    """

    def __init__(self, url: str, proxy: Proxy | None, certificates: Certificates | None) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme in ("https", "wss")
        self._host, self._port = parts.hostname or "", parts.port or (443 if self._secure else 80)
        self._server = f"{self._host}:{self._port}"
        self._proxy = proxy
        self._certificates = certificates
        self._needs_tunnel = parts.scheme != "http"
        self._early: EarlyConnection | None = None
        self.prefix = ""
        self.headers: dict[str, str] = {}
        if proxy is not None and not proxy.is_socks and parts.scheme == "http":
            self.prefix = f"http://{parts.netloc.rpartition('@')[2]}"
            self.headers = _authorization(proxy)

    def sent_at_once(self, message: bytes) -> tuple[socket.socket | None, int]:
        """Connect to a server on this machine without waiting, and send as much of a request as its socket takes.

        Returns:
            The socket, and the number of bytes sent. The socket is None if the server is on another machine or does not accept
            immediately. Errors are not reported here, because the regular connection attempt that follows reports them.
        """
        if self._secure or self._proxy is not None:
            return None, 0
        local = _connected_at_once(self._host, self._port)
        return local, 0 if local is None else _send_now(local, message)

    def take_if_ready(self) -> SecureSocket | None:
        """Return the connection that was opened early, if it is ready and was not used yet. Then call :meth:`adopt`."""
        early = self._take_early()
        secure = None if early is None else early.get_if_ready()
        if secure is None:
            self._early = early  # which `dial` waits for
        return secure

    async def adopt(self, secure: SecureSocket) -> Connection:
        """Return a connection over the result of :meth:`take_if_ready`. It expects a response immediately.

        Raises:
            SendError: The connection broke.
        """
        try:
            return await self._adopt_socket(secure, _beginning())
        except OSError as error:
            raise SendError(_reason(error), _advice(error)) from error

    async def dial(self, local: socket.socket | None = None) -> Connection:
        """Open a connection, or use a socket that is already connected.

        Raises:
            ModelError: The certificates cannot be loaded.
            SendError: The server or the proxy cannot be reached, or refuses the connection.
        """
        try:
            async with asyncio.timeout(CONNECT_S):
                return await self._open(local)
        except TimeoutError as error:
            raise self._send_error(f"no connection within {CONNECT_S:.0f} s") from error
        except OSError as error:
            raise self._send_error(_reason(error), _advice(error)) from error
        except ValueError as error:  # a label of the host is empty, too long, or has a null character
            raise self._send_error("the name of the host is not valid") from error

    def _send_error(self, reason: str, hint: str = "") -> SendError:
        if self._proxy is None:
            return SendError(reason, hint)
        place = f"{self._proxy.host}:{self._proxy.port}"
        hint = (
            hint
            or "Check the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names, and base_url of the model provider."
        )
        return SendError(f"{reason}, through the proxy {place}", hint)

    def note_answer(self) -> None:
        """Note that the server has answered over the last connection. Nobody waits for this process now."""
        if self._certificates is not None:
            self._certificates.keep()

    async def _open(self, local: socket.socket | None) -> Connection:
        early = self._take_early()
        if early is not None and (secure := await early.wait()) is not None:
            return await self._adopt_socket(secure, Connection())
        known = self._known_context()
        if known is not None:
            from ssl import SSLCertVerificationError

            try:
                return await self._connect(local, known)
            except SSLCertVerificationError:  # what is trusted decides, and not what was used last
                pass
        return await self._connect(local, None, failed=known is not None)

    def _take_early(self) -> EarlyConnection | None:
        early, self._early = self._early, None
        if early is not None or self._certificates is None or not self._secure or self._proxy is not None:
            return early
        return self._certificates.take_connection(self._host, self._port)

    def _known_context(self) -> ssl.SSLContext | None:
        if not self._secure or self._proxy is not None or self._certificates is None:
            return None
        return self._certificates.known_context(self._server)

    async def _adopt_socket(self, secure: SecureSocket, connection: Connection) -> Connection:
        """Use a connection that was opened early."""
        try:
            await secure.connect(connection, self._host)
        except BaseException:
            connection.cut()
            raise
        assert self._certificates is not None
        self._certificates.note_verified(self._server, secure.chain, failed=secure.failed)
        return connection

    async def _connect(
        self, local: socket.socket | None, known: ssl.SSLContext | None, *, failed: bool = False
    ) -> Connection:
        """Open a connection.

        Args:
            known: The TLS context to use; by default the one with all certificates.
            failed: Whether another context did not verify the server.
        """
        connection = await self._reach(local)
        try:
            if self._proxy is not None:
                if self._proxy.scheme == "https":
                    await self._encrypt(connection, self._proxy.host, None)
                await self._pass_proxy(connection, self._proxy)
            if self._secure:
                await self._encrypt(connection, self._host, known)
                self._note(connection, known, failed=failed)
        except BaseException:
            connection.cut()
            raise
        return connection

    def _note(self, connection: Connection, known: ssl.SSLContext | None, *, failed: bool) -> None:
        assert self._certificates is not None
        if self._proxy is None and self._certificates.keeps:
            from codex_lib_model_client.known_roots import verified_chain

            secure = connection.transport.get_extra_info("ssl_object")
            chain = verified_chain(secure) if known is None else None
            self._certificates.note_verified(self._server, chain, failed=failed)

    async def _reach(self, local: socket.socket | None) -> Connection:
        """Open a connection to the next hop, while the certificates may still be loading."""
        loop = asyncio.get_running_loop()
        if local is not None:
            _, connection = await loop.create_connection(_beginning, sock=local)
            return connection
        loop.call_soon(_load_parser)  # while the connection is opened
        host, port = (self._host, self._port) if self._proxy is None else (self._proxy.host, self._proxy.port)
        # asyncio loses the socket if this is cancelled at the moment in which one of several attempts succeeds. An address is one.
        delay_s = None if _is_address(host) else 0.25
        _, connection = await loop.create_connection(Connection, host, port, happy_eyeballs_delay=delay_s)
        return connection

    async def _encrypt(self, connection: Connection, host: str, known: ssl.SSLContext | None) -> None:
        assert self._certificates is not None
        context = await self._certificates.context() if known is None else known
        loop = asyncio.get_running_loop()
        transport = await loop.start_tls(connection.transport, connection, context, server_hostname=host)
        if transport is None:
            raise SendError("the server closed the connection")
        connection.use_transport(transport)

    async def _pass_proxy(self, connection: Connection, proxy: Proxy) -> None:
        """Make a new connection to a proxy one to the server."""
        if proxy.is_socks:
            from codex_lib_model_client.socks import pass_socks

            await pass_socks(connection, proxy, self._host, self._port)
        elif self._needs_tunnel:
            await self._tunnel(connection, proxy)

    async def _tunnel(self, connection: Connection, proxy: Proxy) -> None:
        name = f"[{self._host}]" if ":" in self._host else self._host
        lines = [f"CONNECT {name}:{self._port} HTTP/1.1", f"host: {name}:{self._port}"]
        lines.extend(f"{name}: {value}" for name, value in _authorization(proxy).items())
        connection.begin()
        await connection.send("\r\n".join([*lines, "\r\n"]).encode("latin-1"), CONNECT_S, _nothing)
        if not 200 <= connection.status < 300:
            reason = f"the proxy refused the connection: {connection.status} {connection.phrase}".rstrip()
            login = "Write USER:PASSWORD@ before the host in HTTPS_PROXY."
            raise SendError(reason, login if connection.status == 407 else "Check the proxy that HTTPS_PROXY names.")


def _is_address(host: str) -> bool:
    """Return whether a host is an IP address and not a name."""
    return ":" in host or host.replace(".", "").isdigit()


def _beginning() -> Connection:
    """Return a connection that expects a response immediately, because the request is already on its way."""
    connection = Connection()
    connection.begin()
    return connection


def _load_parser() -> None:
    import httptools  # noqa: F401  # imported ahead of use


def _nothing() -> None:
    """Do nothing."""


def _authorization(proxy: Proxy) -> dict[str, str]:
    if not proxy.user:
        return {}
    from base64 import b64encode

    pair = f"{proxy.user}:{proxy.password}".encode()
    return {"proxy-authorization": f"Basic {b64encode(pair).decode()}"}


def _connected_at_once(host: str, port: int) -> socket.socket | None:
    """Connect to a loopback address whose server accepts without delay. Return the socket, or None."""
    if not host.startswith("127.") and host != "::1":
        return None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.inet_pton(family, host)
        connected = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, ValueError):  # the host is a name, or none at all, or no socket is available
        return None
    connected.settimeout(_AT_ONCE_S)
    try:
        connected.connect((host, port))
    except OSError:
        connected.close()
        return None
    connected.settimeout(0)  # the event loop requires a non-blocking socket
    return connected


def _send_now(connected: socket.socket, message: bytes) -> int:
    """Send as much as fits into the socket's buffer, and return the number of bytes sent."""
    try:
        return connected.send(message)
    except OSError:  # the error occurs again when the rest is sent
        return 0


def _reason(error: OSError) -> str:
    """Return the system's reasons for a failed connection. A host with several addresses has one error per address."""
    import re

    numbers = dict.fromkeys(int(number) for number in re.findall(r"\[Errno (\d+)\]", str(error)))
    said = ", ".join(os.strerror(number) for number in numbers) or error.strerror or str(error)
    return re.sub(r" \(_ssl\.c:\d+\)$", "", said) or "the connection broke"


def _advice(error: OSError) -> str:
    """Return what to do about a failed connection, if more is known than that. Empty if not."""
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return (
            "If an authority of your own has signed the certificate, name the file with the certificate of that authority in"
            " CODEX_CA_CERTIFICATE."
        )
    if "WRONG_VERSION_NUMBER" in text or "record layer failure" in text:
        return "The server does not seem to speak TLS. Check whether base_url must begin with http://."
    return ""
