"""The client: sends requests, retries them, and streams the response."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from codex_framework import ModelError, ModelEvent, ModelRequest, ProviderInfo
from codex_plugin_openai.body import BodyWriter
from codex_plugin_openai.headers import request_headers
from codex_plugin_openai.transport_errors import CutError, SendError, SilenceError

if TYPE_CHECKING:
    from codex_framework.contract.roles.models import Measure
    from codex_plugin_openai.measuring import ResponseMeter
    from codex_plugin_openai.token_command import TokenCommand
    from codex_plugin_openai.transport import Answer, Transport

__all__ = ["ResponsesClient"]

_FIRST_DELAY_S = 0.2
_LONGEST_DELAY_S = 60.0
_TURN_STATE = "x-codex-turn-state"
_IDLE = "idle timeout waiting for SSE"
_DECODING = "Transport error: network error: error decoding response body"
_TAIL_S = 1.0
"""Time limit in seconds for reading the rest of a complete response. When it expires, the connection is closed."""
_ERROR_BODY_LIMIT = 65_536
_ERROR_BODY_S = 10.0
"""Time limit in seconds for the body of a refusal."""
_PROXY_VARIABLES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


class ResponsesClient:
    """A :class:`~codex_framework.ModelClient` over HTTP. Any number of threads may share one client.

    Args:
        url: The URL to post to, including the query.
        headers: The headers of every request.
        tokens: The source of bearer tokens. None means that ``headers`` contain all credentials.
        store: As in :class:`BodyWriter`.
    """

    def __init__(
        self,
        info: ProviderInfo,
        env: Mapping[str, str],
        url: str,
        headers: Mapping[str, str],
        *,
        tokens: TokenCommand | None = None,
        store: bool = False,
    ) -> None:
        self._info = info
        self._env = env
        self._url = url
        self._headers = dict(headers)
        self._tokens = tokens
        self._authorized = tokens is not None or any(name.lower() == "authorization" for name in headers)
        self._bodies = BodyWriter(store=store)
        self._transport: Transport | None = None
        self._tails: dict[str, asyncio.Task[None]] = {}
        self._turn_states: dict[str, tuple[str, str]] = {}

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Request one response; see :meth:`ModelClient.stream <codex_framework.ModelClient.stream>`.

        Raises:
            ModelError: The request failed, or the response is broken or incomplete.
        """
        await self._end_tail(request.thread_id)
        answer = await self._ask(self._head(request), self._bodies.body(request), request.measure)
        from codex_plugin_openai.reading import Completed, EventSplitter, Sign, broken_stream, decode, rate_limits

        splitter, meter = EventSplitter(), _meter(request.measure)
        handed_over = False
        silence_s = left_s = self._info.stream_idle_timeout_ms / 1000
        try:
            if state := answer.headers.get(_TURN_STATE):
                self._turn_states[request.thread_id] = (request.turn_id, state)
            if limits := rate_limits(answer.headers):
                yield limits
            unwanted, heard = 0, time.monotonic()
            while piece := await answer.read(left_s):
                alive = False
                arrived = splitter.feed(piece)
                if meter is not None and arrived:
                    meter.heard(arrived)
                for data in arrived:
                    event = decode(data)
                    if isinstance(event, Sign):
                        alive = alive or event is Sign.LIFE
                        continue
                    alive = True
                    if isinstance(event, Completed):
                        # The connection is reusable once its last bytes are read. A task reads them, so that the turn need not wait.
                        handed_over = True
                        self._tails[request.thread_id] = asyncio.create_task(_read_tail(answer))
                        yield event
                        return
                    yield event
                if alive or splitter.unwanted > unwanted:
                    unwanted, heard, left_s = splitter.unwanted, time.monotonic(), silence_s
                else:  # comments and unknown events do not extend the time limit
                    left_s = heard + silence_s - time.monotonic()
                    if left_s <= 0:
                        raise broken_stream(_IDLE)
        except SilenceError as error:
            raise broken_stream(_IDLE) from error
        except CutError as error:
            raise broken_stream(_DECODING) from error
        except OverflowError as error:
            raise broken_stream(f"the model server sent {error}") from error
        finally:
            if meter is not None:
                meter.ended(splitter.unwanted, sys.exception())
            if not handed_over:
                await answer.aclose()
        raise broken_stream("stream closed before response.completed")

    async def aclose(self) -> None:
        """Close all connections."""
        tails = list(self._tails.values())
        self._tails.clear()
        for tail in tails:
            tail.cancel()
        if tails:
            await asyncio.wait(tails)
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    def _head(self, request: ModelRequest) -> dict[str, str]:
        headers = {**request_headers(request, self._env), **self._headers}
        turn_id, state = self._turn_states.get(request.thread_id, ("", ""))
        if state and turn_id == request.turn_id:
            headers[_TURN_STATE] = state
        return headers

    async def _end_tail(self, thread_id: str) -> None:
        """Make a thread's last connection reusable, or close it.

        The server had the rest of the turn to finish its response, so this waits only briefly.
        """
        tail = self._tails.pop(thread_id, None)
        if tail is not None and not tail.done():
            await asyncio.wait([tail], timeout=0.05)
            if not tail.done():
                tail.cancel()

    async def _ask(self, headers: Mapping[str, str], body: bytes, measure: Measure | None) -> Answer:
        """Send the request, and retry it at most ``request_max_retries`` times.

        Network failures and server errors (5xx) are retried here, unless the server requests a delay that is too long to
        wait without a message to the user. The turn decides about all other failures.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                answer = await self._attempt(attempt, headers, body, measure)
                if answer.status < 300:
                    return answer
                error = await self._refusal(answer)
                again = answer.status >= 500 and error.retryable
            except ModelError as failure:
                # A server that was silent for minutes has received the request, so the turn decides what to do.
                error, again = failure, failure.slug == "unreachable"
            delay = _delay(attempt) if error.retry_after_s is None else error.retry_after_s
            if not again or attempt > self._info.request_max_retries or delay > _LONGEST_DELAY_S:
                raise error
            await asyncio.sleep(delay)

    async def _attempt(self, attempt: int, headers: Mapping[str, str], body: bytes, measure: Measure | None) -> Answer:
        if measure is None:
            return await self._send(headers, body)
        from codex_plugin_openai.measuring import attempted

        return await attempted(measure, attempt - 1, self._send(headers, body), authorized=self._authorized)

    async def _send(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send the request. If the server refuses the token of a token command, retry once with a new token."""
        if self._tokens is None:
            return await self._post(headers, body)
        token = await self._tokens.token()
        answer = await self._post({**headers, "authorization": f"Bearer {token}"}, body)
        if answer.status != 401:
            return answer
        await answer.aclose()
        token = await self._tokens.token(refused=token)
        return await self._post({**headers, "authorization": f"Bearer {token}"}, body)

    async def _post(self, headers: Mapping[str, str], body: bytes) -> Answer:
        if self._transport is None:
            self._transport = _open_transport(self._url, self._env)
        try:
            return await self._transport.post(
                self._url,
                headers,
                body,
                head_s=self._info.response_timeout_ms / 1000,
                on_sent=_load_reading,
            )
        except SendError as error:
            from codex_plugin_openai.faults import unreachable

            raise unreachable(self._url, str(error)) from error
        except SilenceError as error:
            from codex_plugin_openai.faults import no_answer

            raise no_answer(self._info.id, self._info.response_timeout_ms / 1000) from error

    async def _refusal(self, answer: Answer) -> ModelError:
        from codex_plugin_openai.faults import status_error

        body = b""
        try:
            async with asyncio.timeout(_ERROR_BODY_S):
                while len(body) < _ERROR_BODY_LIMIT and (piece := await answer.read(_ERROR_BODY_S)):
                    body += piece
        except (TimeoutError, SilenceError, CutError):
            pass  # the error is built from the part that was received
        finally:
            await answer.aclose()
        return status_error(answer.status, answer.phrase, answer.headers, body, self._url)


def _meter(measure: Measure | None) -> ResponseMeter | None:
    if measure is None:
        return None
    from codex_plugin_openai.measuring import ResponseMeter

    return ResponseMeter(measure)


def _load_reading() -> None:
    """Import the modules that read the response, while the server is working on it."""
    import codex_plugin_openai.reading  # noqa: F401  # imported ahead of use


async def _read_tail(answer: Answer) -> None:
    try:
        async with asyncio.timeout(_TAIL_S):
            while await answer.read(_TAIL_S):
                pass
    except (TimeoutError, SilenceError, CutError):
        pass  # the response is complete, and only this connection is lost
    finally:
        await answer.aclose()


def _delay(attempt: int) -> float:
    """Return the seconds to wait after this attempt: 200 ms, doubled each time, plus or minus 10 %."""
    import random

    jitter = random.uniform(0.9, 1.1)  # noqa: S311  # jitter, not cryptography
    return min(_FIRST_DELAY_S * 2.0 ** (attempt - 1) * jitter, _LONGEST_DELAY_S)


def _open_transport(url: str, env: Mapping[str, str]) -> Transport:
    if url.startswith("http:") and not any(env.get(name) for name in _PROXY_VARIABLES):
        from codex_plugin_openai.plain_transport import PlainTransport

        return PlainTransport()
    from codex_plugin_openai.httpx_transport import HttpxTransport

    return HttpxTransport(secure=url.startswith("https:"))
