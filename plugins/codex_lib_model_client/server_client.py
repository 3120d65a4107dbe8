"""Requests to one model server: attempts and retries, time limits, and the events of a response."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from codex_framework.contract.errors import ModelError
from codex_framework.contract.roles.models import ProviderInfo
from codex_lib_model_client.opening import open_transport
from codex_lib_model_client.transport_errors import CutError, SendError, SilenceError

if TYPE_CHECKING:
    from typing import Protocol

    from codex_framework.contract.roles.models import Measure
    from codex_lib_model_client.compression import Compressor
    from codex_lib_model_client.faults import KnownFault
    from codex_lib_model_client.measuring import ResponseMeter
    from codex_lib_model_client.secret_masking import CredentialFilter
    from codex_lib_model_client.token_source import TokenSource
    from codex_lib_model_client.transport import Answer

    class Splitter(Protocol):
        """Splits the body of a response into events."""

        @property
        def unwanted(self) -> int:
            """Number of events skipped so far. They show that the server is working."""
            ...

        def feed(self, piece: bytes, /) -> list[str]:
            """Return the events that this piece completes.

            Raises:
                OverflowError: An event is too long.
            """
            ...


__all__ = ["EventReader", "ServerClient"]

_FIRST_DELAY_S = 0.2
_LONGEST_DELAY_S = 60.0
_LONGEST_UNSEEN_S = 5.0
"""The longest delay, in seconds, that a server may ask for without a message to the user."""
_IDLE = "idle timeout waiting for SSE"
_DECODING = "Transport error: network error: error decoding response body"
_TAIL_S = 1.0
"""Time limit in seconds for reading the rest of a complete response. When it expires, the connection is closed."""
_ERROR_BODY_LIMIT = 65_536
_ERROR_BODY_S = 10.0
"""Time limit in seconds for the body of a refusal."""


class ServerClient:
    """Sends requests to one URL. Any number of threads may share one client.

    Args:
        url: The URL to post to, including the query.
        headers: The headers of every request.
        tokens: The source of bearer tokens. Without one, ``headers`` must contain all credentials.
        endpoint: The end of the URL's path, for telemetry.
        load_reading: Imports what only a response needs. Called when a request is on its way.
        known: Recognises failures by codes or words specific to the API.
        compresses: Whether bodies are compressed if the provider's table does not say; see
            :func:`~codex_lib_model_client.compression.compressor`.

    Raises:
        ModelError: A variable of the environment names no usable proxy, or the compression in the provider's table is unusable.
    """

    def __init__(
        self,
        info: ProviderInfo,
        env: Mapping[str, str],
        url: str,
        headers: Mapping[str, str],
        *,
        tokens: TokenSource | None = None,
        endpoint: str,
        load_reading: Callable[[], None],
        known: KnownFault | None = None,
        compresses: bool = False,
    ) -> None:
        self._info = info
        self._url = url
        self._compressor: Compressor | None = None
        if compresses or "request_compression" in info.options:
            from codex_lib_model_client.compression import compressor

            self._compressor = compressor(info, url, by_default=compresses)
        self._headers = dict(headers)
        self._tokens = tokens
        self._authorized = tokens is not None or any(name.lower() == "authorization" for name in headers)
        self._endpoint = endpoint
        self._load_reading = load_reading
        self._known = known
        self._transport = open_transport(url, env, info.id)
        self._env = env
        self._filter: CredentialFilter | None = None
        self._sent: list[str] = []
        self._tails: dict[str, asyncio.Task[None]] = {}

    @property
    def credentials(self) -> CredentialFilter:
        """Hides the credentials of the requests so far."""
        if self._filter is None:
            from codex_lib_model_client.secret_masking import CredentialFilter

            self._filter = CredentialFilter(self._info, self._url, self._headers, self._env)
        for token in self._sent:
            self._filter.add(token)
        return self._filter

    async def ask(self, thread_id: str, headers: Mapping[str, str], body: bytes, measure: Measure | None) -> Answer:
        """Send a request, and retry it at most ``request_max_retries`` times.

        Network failures and server errors (5xx) are retried here, unless the server requests a delay that is too long to
        wait without a message to the user. The turn decides about all other failures.

        Args:
            thread_id: The thread that asks. Its last response must be over.
            headers: The headers of this request. The headers of every request override them.

        Raises:
            ModelError: The server cannot be reached, or refuses the request.
        """
        await self._end_tail(thread_id)
        headers = {**headers, **self._headers}
        attempt = 0
        while True:
            attempt += 1
            try:
                answer = await self._attempt(attempt, headers, body, measure)
                if answer.status < 300:
                    if "content-encoding" in answer.headers:
                        await self._check_encoding(answer)
                    return answer
                error = await self._refusal(answer)
                if answer.status == 401 and self._tokens is not None:
                    error.hint = self._tokens.refused_hint or error.hint
                again = answer.status >= 500 and (error.retryable or error.slug == "overloaded")
            except ModelError as failure:
                # A server that was silent for minutes has received the request, so the turn decides what to do.
                error, again = failure, failure.slug == "unreachable"
            delay = _delay(attempt) if error.retry_after_s is None else error.retry_after_s
            unseen = error.retry_after_s is None or delay <= _LONGEST_UNSEEN_S
            if not again or attempt > self._info.request_max_retries or not unseen:
                raise error
            await asyncio.sleep(delay)

    def events(self, thread_id: str, answer: Answer, splitter: Splitter, meter: ResponseMeter | None) -> EventReader:
        """Return the reader of a response's events."""
        silence_s = self._info.stream_idle_timeout_ms / 1000
        reader = EventReader(answer, splitter, silence_s, meter, lambda tail: self._tails.__setitem__(thread_id, tail))
        reader.credentials = lambda: self.credentials
        return reader

    def note_token(self, token: str) -> None:
        """Note a token that was sent, so that it is hidden in error messages of the server."""
        self._sent = [*self._sent[-1:], token]

    async def aclose(self) -> None:
        """Close all connections."""
        tails = list(self._tails.values())
        self._tails.clear()
        for tail in tails:
            tail.cancel()
        if tails:
            await asyncio.wait(tails)
        await self._transport.aclose()

    async def _end_tail(self, thread_id: str) -> None:
        """Make a thread's last connection reusable, or close it.

        The server had the rest of the turn to finish its response, so this waits only briefly.
        """
        tail = self._tails.pop(thread_id, None)
        if tail is not None and not tail.done():
            await asyncio.wait([tail], timeout=0.05)
            if not tail.done():
                tail.cancel()

    async def _attempt(self, attempt: int, headers: Mapping[str, str], body: bytes, measure: Measure | None) -> Answer:
        if measure is None:
            return await self._send(headers, body)
        from codex_lib_model_client.measuring import measure_attempt

        sending = self._send(headers, body)
        return await measure_attempt(
            measure, attempt - 1, sending, endpoint=self._endpoint, authorized=self._authorized
        )

    async def _send(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send the request. If the server refuses the token of a token command, retry once with a new token."""
        if self._tokens is None:
            return await self._post(headers, body)
        from codex_lib_model_client.headers import with_token

        token = await self._tokens.token()
        self.note_token(token)
        answer = await self._post(with_token(headers, self._tokens, token, self._info), body)
        if answer.status != 401:
            return answer
        await answer.aclose()
        token = await self._tokens.token(refused=token)
        self.note_token(token)
        return await self._post(with_token(headers, self._tokens, token, self._info), body)

    async def _post(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send the request. If the server refuses a compressed body, send it once more uncompressed."""
        if self._compressor is None or (packed := await self._compressor.compress(headers, body)) is None:
            return await self._post_once(headers, body)
        answer = await self._post_once(*packed)
        if answer.status != 415:
            return answer
        await answer.aclose()
        self._compressor.note_refusal()
        return await self._post_once(headers, body)

    async def _post_once(self, headers: Mapping[str, str], body: bytes) -> Answer:
        try:
            answer = await self._transport.post(
                self._url,
                headers,
                body,
                head_s=self._info.response_timeout_ms / 1000,
                on_sent=self._load_reading,
            )
        except SendError as error:
            from codex_lib_model_client.faults import unreachable

            raise unreachable(self._url, str(error), error.hint) from error
        except SilenceError as error:
            from codex_lib_model_client.faults import no_answer

            raise no_answer(self._info.id, self._info.response_timeout_ms / 1000) from error
        if "content-encoding" not in answer.headers:
            return answer
        from codex_lib_model_client.decoding import decoded

        return decoded(answer)

    async def _check_encoding(self, answer: Answer) -> None:
        from codex_lib_model_client.faults import check_encoding

        try:
            check_encoding(answer.headers, self._info)
        except ModelError:
            await answer.aclose()
            raise

    async def _refusal(self, answer: Answer) -> ModelError:
        from codex_lib_model_client.faults import status_error, with_advice

        body = b""
        try:
            async with asyncio.timeout(_ERROR_BODY_S):
                while len(body) < _ERROR_BODY_LIMIT and (piece := await answer.read(_ERROR_BODY_S)):
                    body += piece
        except (TimeoutError, SilenceError, CutError):
            pass  # the status says enough
        finally:
            await answer.aclose()
        hidden = b"" if "content-encoding" in answer.headers else self.credentials.body(body)
        error = status_error(answer.status, answer.phrase, answer.headers, hidden, self._url, self._known)
        return with_advice(error, answer, self._info, self._url, self._endpoint, authorized=self._authorized)


class EventReader:
    """Reads the events of one response in batches, and limits the time without a sign of life.

    Attributes:
        alive: Set it when a batch shows that the server works on the response. Comments, keep-alives and unknown events do not.
        silence_s: The time limit without a sign of life, in seconds.
        credentials: Returns a function that hides credentials in events that report errors, and in the error that ends the
            response. None hides nothing.
    """

    def __init__(
        self,
        answer: Answer,
        splitter: Splitter,
        silence_s: float,
        meter: ResponseMeter | None,
        keep_tail: Callable[[asyncio.Task[None]], None],
        *,
        silence: str = _IDLE,
    ) -> None:
        self._answer: Answer | None = answer
        self._splitter = splitter
        self.silence_s = silence_s
        self._meter = meter
        self._keep_tail = keep_tail
        self._silence = silence
        self.credentials: Callable[[], CredentialFilter] | None = None
        self._unwanted = 0
        self._heard = time.monotonic()
        self.alive = True

    async def batch(self) -> list[str] | None:
        """Return the events of the next piece of the response, which may be empty, or None at the end of the response.

        Raises:
            ModelError: The connection broke, the server is silent for too long, or an event is too long.
        """
        assert self._answer is not None
        try:
            piece = await self._answer.read(self._left_s())
            if not piece:
                return None
            batch = self._splitter.feed(piece)
        except (SilenceError, CutError, OverflowError) as error:
            raise _stream_error(error, self._silence) from error
        if self.credentials is not None and any(map(_may_repeat, batch)):
            credentials = self.credentials()
            batch = [credentials.text(data) if _may_repeat(data) else data for data in batch]
        if self._meter is not None and batch:
            self._meter.note_events(batch)
        return batch

    def finish(self) -> None:
        """Let a task read what still follows the end of the response, so that the turn need not wait for a reusable connection."""
        if self._answer is not None and not self._answer.has_arrived:
            answer, self._answer = self._answer, None
            self._keep_tail(asyncio.create_task(_read_tail(answer)))

    async def aclose(self, error: BaseException | None) -> None:
        """Release the response, unless it is finished.

        Args:
            error: The exception that ended it early, for telemetry. Credentials are removed from its text.
        """
        self._hide(error)
        if self._meter is not None:
            self._meter.report(self._splitter.unwanted, error)
        answer, self._answer = self._answer, None
        if answer is not None:
            await answer.aclose()

    def _hide(self, error: BaseException | None) -> None:
        if error is not None and self.credentials is not None:
            self.credentials().error(error)

    def _left_s(self) -> float:
        """Return the time that is left for the next piece.

        Raises:
            SilenceError: No time is left.
        """
        if self.alive or self._splitter.unwanted > self._unwanted:
            self.alive, self._unwanted, self._heard = False, self._splitter.unwanted, time.monotonic()
            return self.silence_s
        left_s = self._heard + self.silence_s - time.monotonic()
        if left_s <= 0:
            raise SilenceError
        return left_s


def _stream_error(error: Exception, silence: str) -> ModelError:
    from codex_lib_model_client.faults import broken_stream

    match error:
        case SilenceError():
            return broken_stream(silence)
        case CutError():
            return broken_stream(str(error) if str(error).lower().startswith("websocket") else _DECODING)
        case _:
            return broken_stream(f"the model server sent {error}")


def _may_repeat(data: str) -> bool:
    """Return whether an event may report an error, whose message may repeat a credential. Output of the model is never changed.

    A value that is not an object is no output of the model. It may be the text of an error page.
    """
    if not data.startswith("{") and not data.lstrip().startswith("{"):
        return True
    return '"error"' in data and '"error":null' not in data


async def _read_tail(answer: Answer) -> None:
    try:
        async with asyncio.timeout(_TAIL_S):
            while await answer.read(_TAIL_S):
                pass
    except (TimeoutError, SilenceError, CutError, OverflowError):
        pass  # the response is complete, and only this connection is lost
    finally:
        await answer.aclose()


def _delay(attempt: int) -> float:
    """Return the seconds to wait after this attempt: 200 ms, doubled each time, plus or minus 10 %."""
    import random

    jitter = random.uniform(0.9, 1.1)  # noqa: S311  # jitter, not cryptography
    return min(_FIRST_DELAY_S * 2.0 ** (attempt - 1) * jitter, _LONGEST_DELAY_S)
