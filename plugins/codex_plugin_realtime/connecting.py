"""The way to the realtime server: credentials, a WebSocket, and calls over WebRTC."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from codex_framework import CodexError, ModelError, ProviderInfo, ThreadError
from codex_framework.contract.value import Value
from codex_lib_model_client.credentials import Access, access
from codex_lib_model_client.headers import client_headers, common_headers, with_token
from codex_lib_model_client.secret_masking import CredentialFilter
from codex_plugin_realtime.addresses import call_id_of, calls_url, is_backend, socket_url
from codex_plugin_realtime.messages import Session, encoded, session_of

if TYPE_CHECKING:
    from codex_lib_model_client.transport import Answer
    from codex_lib_model_client.websocket import WebSocket

__all__ = ["Connected", "Connector", "Servers"]

_OF_POST = ("accept", "accept-encoding", "content-type")
_CONNECT_MS = 15_000
_API_URL = "https://api.openai.com/v1"
_BOUNDARY = "codex-realtime-call-boundary"
_SDP_LIMIT = 262_144
"""Longest offer and longest answer, in bytes. Usual ones have a few thousand."""
_ANSWER_S = 30.0
"""Time limit for the body of an answer, in seconds."""
_MESSAGE_LIMIT = 16 << 20
"""Longest message of the server, in bytes. Pieces of audio have some ten thousand."""
_FIRST_DELAY_S = 0.2
_FINAL = frozenset({400, 401, 403})
"""Statuses with which a server refuses all clients of a call, so that a retry is useless."""


class Servers(Value, kw_only=True):
    """The configured address of the realtime server.

    Attributes:
        socket: The URL for WebSockets. By default, the provider's.
        calls: The URL for offers. By default, the provider's.
    """

    socket: str | None = None
    calls: str | None = None


class Connected(Value):
    """An open connection.

    Attributes:
        sdp: The answer to the client's offer. None if there was no offer.
        call_id: The call to join. Empty means that the connection is open already.
    """

    socket: WebSocket | None
    sdp: str | None = None
    call_id: str = ""


class Connector:
    """Opens the connections of one conversation.

    Attributes:
        session: The settings of the session.

    Args:
        metadata: The headers' facts about the program, such as its ``originator``.
        offer: The SDP offer of a client that speaks to the server itself, if any.

    Raises:
        CodexError: The credentials or the settings are missing or unusable.
    """

    def __init__(
        self,
        *,
        provider: ProviderInfo,
        env: Mapping[str, str],
        config: Mapping[str, Any],
        servers: Servers,
        session: Session,
        thread_id: str,
        metadata: Mapping[str, str],
        offer: str | None = None,
    ) -> None:
        self._provider = provider
        self._env = env
        self.session = session
        self._offer = offer
        self._access = _for_sockets(provider, env, config) if offer is None else access(provider, env, config)
        self._servers = servers
        limit_ms = provider.options.get("websocket_connect_timeout_ms", _CONNECT_MS)
        self._connect_s = (limit_ms if isinstance(limit_ms, int) and limit_ms > 0 else _CONNECT_MS) / 1000
        self._own = _session_headers(session, thread_id) | client_headers(metadata, env)
        self._socket_url = self._url_of_socket(
            "" if offer is None else "rtc_"
        )  # checks the settings before anything is sent
        self._headers = self._headers_for(self._socket_url)
        self._filter = CredentialFilter(provider, self._socket_url, self._headers, env)
        if offer is not None:
            _check_offer(offer)
            self._calls_url = self._url_of_calls()

    @property
    def credentials(self) -> CredentialFilter:
        """Hides the credentials in messages of the server."""
        return self._filter

    async def connect(self) -> Connected:
        """Open the connection, or create the call that :meth:`join` joins.

        Raises:
            CodexError: The server cannot be reached, or refuses.
        """
        if self._offer is None:
            return Connected(await self._opened(self._socket_url))
        sdp, call_id = await self._post_offer(self._offer)
        return Connected(None, sdp, call_id)

    async def join(self, call_id: str) -> WebSocket:
        """Open the connection beside a call. It may take the server a moment to know the call, so this is tried several times.

        Raises:
            CodexError: The server cannot be reached, or refuses.
        """
        url = self._url_of_socket(call_id)
        attempt = 0
        while True:
            try:
                return await self._opened(url)
            except ModelError as error:
                if attempt >= self._provider.request_max_retries or _status_of(error) in _FINAL:
                    raise
            await asyncio.sleep(_FIRST_DELAY_S * 2.0**attempt)
            attempt += 1

    # URLs and headers

    def _url_of_socket(self, call_id: str) -> str:
        base, key = self._base(self._servers.socket, "experimental_realtime_ws_base_url")
        model = "" if call_id else self.session.model
        more = self._provider.query_params
        return socket_url(base, key, self.session.version, more, model=model, call_id=call_id)

    def _url_of_calls(self) -> str:
        base, key = self._base(self._servers.calls, "experimental_realtime_webrtc_call_base_url")
        if self._servers.calls is None and self._access.base_url is not None and base == _API_URL:
            base = self._access.base_url
        return calls_url(base, key, self.session.version, self._provider.query_params)

    def _base(self, configured: str | None, key: str) -> tuple[str, str]:
        if configured is not None:
            return configured, key
        if not self._provider.base_url:
            raise ThreadError(
                f"the model provider {self._provider.id!r} has no base_url, so it has no realtime server",
                slug="realtime-url",
                hint=f'Set {key} = "https://host/v1".',
            )
        return self._provider.base_url, f"model_providers.{self._provider.id}.base_url"

    def _headers_for(self, url: str) -> dict[str, str]:
        info = self._provider.evolve(base_url=url)
        common = common_headers(info, self._env, self._access.key)
        return {**{name: value for name, value in common.items() if name not in _OF_POST}, **self._own}

    # Requests

    async def _opened(self, url: str) -> WebSocket:
        """Open a WebSocket. If the server refuses a token, try once with a new one."""
        from codex_lib_model_client.opening import open_dialer
        from codex_lib_model_client.websocket import UpgradeRefusedError, open_socket

        dialer = open_dialer(url, self._env)
        tokens = self._access.tokens
        token = "" if tokens is None else await tokens.token()
        has_retried = tokens is None
        while True:
            headers: Mapping[str, str] = self._headers
            if tokens is not None:
                self._filter.add(token)
                headers = with_token(headers, tokens, token, self._provider)
            try:
                return await open_socket(dialer, url, headers, self._connect_s, max_size=_MESSAGE_LIMIT)
            except UpgradeRefusedError as error:
                if error.status != 401 or has_retried or tokens is None:
                    self._refuse(error, url)
                has_retried, token = True, await tokens.token(refused=token)

    def _refuse(self, error: Any, url: str) -> NoReturn:
        from codex_lib_model_client.faults import status_error

        refusal = status_error(error.status, error.phrase, error.headers, error.body, url)
        if error.status == 401 and self._access.tokens is not None:
            refusal.hint = refusal.hint or self._access.tokens.refused_hint
        self._filter.error(refusal)
        raise refusal from error

    async def _post_offer(self, offer: str) -> tuple[str, str]:
        """Post an offer. Return the answer and the id of the call."""
        from codex_lib_model_client.server_client import ServerClient

        kind, body = _call_body(self._calls_url, offer, self.session)
        headers = {**self._headers_for(self._calls_url), "content-type": kind, "accept": "*/*"}
        client = ServerClient(
            self._provider,
            self._env,
            self._calls_url,
            headers,
            tokens=self._access.tokens,
            endpoint="/realtime/calls",
            load_reading=_nothing,
        )
        try:
            answer = await client.ask(self._own["thread-id"], {}, body, None)
            try:
                sdp = await _answer_sdp(answer)
            finally:
                await answer.aclose()
            call_id = call_id_of(answer.headers.get("location"))
        except CodexError as error:
            client.credentials.error(error)
            raise
        finally:
            await client.aclose()
        if call_id is None:
            raise _bad_answer("names no call in the header `location`")
        return sdp, call_id


def _for_sockets(provider: ProviderInfo, env: Mapping[str, str], config: Mapping[str, Any]) -> Access:
    """Return the credentials for a WebSocket, for which a login of ChatGPT is not enough."""
    found = access(provider, env, config)
    if found.base_url is None:
        return found
    key = env.get("OPENAI_API_KEY", "").strip()
    if not key:
        raise ModelError(
            "realtime conversation requires API key auth",
            info="unauthorized",
            slug="missing-key",
            hint="Set OPENAI_API_KEY, or let the client use WebRTC, for which the login of ChatGPT is enough.",
        )
    return Access(key)


def _session_headers(session: Session, thread_id: str) -> dict[str, str]:
    name = session.session_id
    if not name or not name.isascii() or not name.isprintable():
        raise ThreadError(
            f"the realtime session id {name!r} cannot be sent as a header",
            slug="realtime-session",
            hint="Use letters, digits and hyphens, or leave it out.",
        )
    headers = {"session-id": thread_id, "thread-id": thread_id, "x-session-id": name}
    return {**headers, "openai-alpha": "quicksilver=v1"} if session.version == "v1" else headers


def _check_offer(offer: str) -> None:
    problem = ""
    if not offer.strip():
        problem = "is empty"
    elif len(offer.encode("utf-8", "replace")) > _SDP_LIMIT:
        problem = f"is longer than {_SDP_LIMIT} bytes"
    elif _BOUNDARY in offer:
        problem = f"contains {_BOUNDARY!r}, which separates the parts of the request"
    if problem:
        raise ThreadError(
            f"the SDP offer {problem}", slug="realtime-offer", hint="Pass the offer of the peer connection unchanged."
        )


def _call_body(url: str, offer: str, session: Session) -> tuple[str, bytes]:
    """Return the type and the bytes of the request that creates a call."""
    wanted = {**session_of(session), "model": session.model}
    if is_backend(url):
        return "application/json", encoded({"sdp": offer, "session": wanted})
    parts = (
        ("sdp", "application/sdp", offer.encode("utf-8", "replace")),
        ("session", "application/json", encoded(wanted)),
    )
    body = b"".join(
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\nContent-Type: {kind}\r\n\r\n'.encode()
        + content
        + b"\r\n"
        for name, kind, content in parts
    )
    return f"multipart/form-data; boundary={_BOUNDARY}", body + f"--{_BOUNDARY}--\r\n".encode()


async def _answer_sdp(answer: Answer) -> str:
    """Return the SDP of an answer."""
    from codex_lib_model_client.transport_errors import CutError, SilenceError

    body = b""
    try:
        async with asyncio.timeout(_ANSWER_S):
            while piece := await answer.read(_ANSWER_S):
                body += piece
                if len(body) > _SDP_LIMIT:
                    raise _bad_answer(f"is longer than {_SDP_LIMIT} bytes")
    except (CutError, SilenceError, TimeoutError):
        raise _bad_answer("broke off") from None
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise _bad_answer("is not UTF-8") from None


def _bad_answer(what: str) -> ModelError:
    return ModelError(
        f"the realtime server's answer to the SDP offer {what}",
        info={"response_stream_disconnected": {"http_status_code": None}},
        slug="realtime-answer",
        hint="Check experimental_realtime_webrtc_call_base_url, and whether the server has realtime calls.",
    )


def _status_of(error: ModelError) -> int | None:
    """Return the status with which a server refused, or None if it did not refuse."""
    from codex_lib_model_client.websocket import UpgradeRefusedError

    cause = error.__cause__
    return cause.status if isinstance(cause, UpgradeRefusedError) else None


def _nothing() -> None:
    """Load nothing: the answer is no stream of events."""
