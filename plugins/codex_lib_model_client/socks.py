"""The handshake with a SOCKS5 proxy, in the messages of socksio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codex_lib_model_client.transport_errors import CONNECT_S, CutError, SendError, SilenceError

if TYPE_CHECKING:
    from codex_lib_model_client.connection import Connection
    from codex_lib_model_client.proxies import Proxy

__all__ = ["pass_socks"]

_ADDRESS_BYTES = {1: 4, 4: 16}
"""Length of an address by its type in the reply. A name (type 3) begins with its length."""


async def pass_socks(connection: Connection, proxy: Proxy, host: str, port: int) -> None:
    """Ask the proxy at the other end of a new connection for a connection to a server. The proxy resolves its name.

    Raises:
        SendError: The proxy refuses, or is not a SOCKS5 proxy.
    """
    from socksio import ProtocolError, SOCKSError

    try:
        await _shake_hands(connection, proxy, host, port)
    except SendError:
        raise
    except (CutError, SilenceError) as error:
        raise SendError(f"the SOCKS proxy did not answer: {error}".rstrip(": ")) from error
    except (ProtocolError, SOCKSError, ValueError, IndexError) as error:
        raise SendError("the proxy does not speak SOCKS5") from error


async def _shake_hands(connection: Connection, proxy: Proxy, host: str, port: int) -> None:
    from socksio import socks5

    socks: Any = socks5.SOCKS5Connection()  # pyright does not see that its send() takes every request
    reader = _Reader(connection)
    connection.begin_raw()
    methods = [socks5.SOCKS5AuthMethod.NO_AUTH_REQUIRED]
    if proxy.user:
        methods.append(socks5.SOCKS5AuthMethod.USERNAME_PASSWORD)
    socks.send(socks5.SOCKS5AuthMethodsRequest(methods))
    connection.transport.write(socks.data_to_send())
    offered = socks.receive_data(await reader.exactly(2))
    assert isinstance(offered, socks5.SOCKS5AuthReply)
    if offered.method == socks5.SOCKS5AuthMethod.USERNAME_PASSWORD and proxy.user:
        socks.send(socks5.SOCKS5UsernamePasswordRequest(proxy.user.encode(), proxy.password.encode()))
        connection.transport.write(socks.data_to_send())
        allowed = socks.receive_data(await reader.exactly(2))
        if not isinstance(allowed, socks5.SOCKS5UsernamePasswordReply) or not allowed.success:
            raise SendError("the SOCKS proxy refused the user name and password")
    elif offered.method != socks5.SOCKS5AuthMethod.NO_AUTH_REQUIRED:
        raise SendError("the SOCKS proxy requires a user name and password")
    command = socks5.SOCKS5CommandRequest.from_address(socks5.SOCKS5Command.CONNECT, (host, port))
    socks.send(command)
    connection.transport.write(socks.data_to_send())
    reply = socks.receive_data(await reader.reply())
    assert isinstance(reply, socks5.SOCKS5Reply)
    if reply.reply_code != socks5.SOCKS5ReplyCode.SUCCEEDED:
        reason = reply.reply_code.name.lower().replace("_", " ")
        raise SendError(f"the SOCKS proxy could not connect to the server: {reason}")


class _Reader:
    """Puts together messages that arrive in pieces, because socksio takes whole ones."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._buffer = b""

    async def exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._buffer += await self._connection.read(CONNECT_S)
        message, self._buffer = self._buffer[:count], self._buffer[count:]
        return message

    async def reply(self) -> bytes:
        head = await self.exactly(5)
        rest = _ADDRESS_BYTES.get(head[3], head[4] + 1) - 1 + 2
        return head + await self.exactly(rest)
