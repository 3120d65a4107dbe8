"""Elicitation: a server asks a person, with a form or with a page to open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol
from urllib.parse import urlsplit

from codex_framework import ThreadContext, ToolContext, TurnEnded
from codex_framework.contract.protocol.policies import ApprovalPolicy, GranularApproval
from codex_plugin_mcp.errors import ServerError
from codex_plugin_mcp.forms import answered, checked_form
from codex_plugin_mcp.questions import (
    DECISIONS,
    Elicitation,
    ElicitationAnswer,
    ElicitationCompleteEvent,
    ElicitationRequest,
    forms_of,
    no_answer,
)
from codex_plugin_mcp.texts import one_line, plain

__all__ = ["CAPABILITY", "URL_REQUIRED", "Elicitations", "read_elicitation"]

CAPABILITY: Mapping[str, Any] = {"form": {}, "url": {}}
"""The client's capabilities under ``elicitation``."""

URL_REQUIRED = -32042
"""The code of a server's error that says that a person must open a page first."""

_INVALID_PARAMS = -32602
_MAX_MESSAGE = 10_000
_MAX_URL = 4_000
_TRIES = 3
"""How often the same question is asked if the answers do not fit the form."""

_MAX_WAITING = 8
"""The maximum number of questions of a server that wait for a user. They are asked one after the other."""

_MAX_REFUSALS = 20
"""The maximum number of consecutive refused questions in a turn. After that, the server gets errors."""

_MAX_PAGES = 4
"""How many pages a server may ask for in one error."""

_MAX_OPENED = 100
"""How many opened pages are remembered until the server says that they are done."""

_OPENED_S = 60.0
"""How long to wait for the server's message that an opened page is done, in seconds, before the call is tried again."""


class Asker(Protocol):
    """The parts of a connection to a server that questions need."""

    @property
    def name(self) -> str:
        """The server's name."""
        ...

    @property
    def thread(self) -> ThreadContext:
        """The thread that the connection belongs to."""
        ...

    @property
    def caller(self) -> ToolContext | None:
        """The context of the newest call that is waiting for the server."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Stop the time limits of the calls."""
        ...


class Elicitations:
    """The questions of one server.

    A question belongs to the newest call that is waiting for the server, and to the thread of that call.

    Args:
        limit_s: Time limit for an answer in seconds. By default, there is no limit.
    """

    def __init__(self, connection: Asker, *, limit_s: float | None = None) -> None:
        self._connection = connection
        self._server = connection.name
        self._limit_s = limit_s
        self._one_at_a_time = asyncio.Lock()
        self._waiting = 0
        self._refused = 0
        self._turn_id = ""
        self._opened: dict[str, asyncio.Event] = {}

    @property
    def _thread(self) -> ThreadContext:
        call = self._connection.caller
        return self._connection.thread if call is None else call.turn.thread

    # Handlers of the server's messages

    async def create(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Answer ``elicitation/create``: ask the clients of the thread.

        Raises:
            ServerError: The question cannot be asked. The text is for the server.
        """
        answer = await self.ask(read_elicitation(params))
        result: dict[str, Any] = {"action": answer.decision}
        if answer.decision == "accept" and answer.content is not None:
            result["content"] = answer.content
        if answer.meta is not None:
            result["_meta"] = answer.meta
        return result

    async def completed(self, params: Mapping[str, Any]) -> None:
        """Take ``notifications/elicitation/complete``: a page is done."""
        number = params.get("elicitationId")
        if not isinstance(number, str) or number not in self._opened:
            return  # the protocol says to ignore unknown ids
        self._opened.pop(number).set()
        self._thread.emit(ElicitationCompleteEvent(server_name=self._server, elicitation_id=number))

    async def open_required(self, data: object) -> bool:
        """Ask for the pages that the error :data:`URL_REQUIRED` names, and wait until they are done.

        Returns:
            Whether the person opened all of them, so that the call can be tried again.
        """
        given = data.get("elicitations") if isinstance(data, Mapping) else None
        try:
            pages = [read_elicitation(page) for page in given[:_MAX_PAGES]] if isinstance(given, list) else []
        except ServerError:
            return False
        for page in pages:
            if page.mode != "url" or (await self.ask(page)).decision != "accept":
                return False
            opened = self._opened.get(page.elicitation_id or "")
            if opened is not None:
                with self._connection.paused():
                    await _done(opened)
        return bool(pages)

    # Asking

    async def ask(self, elicitation: Elicitation) -> ElicitationAnswer:
        """Ask the clients of the thread, unless the approval policy forbids it.

        Returns:
            The answer. The answer to a form is complete and valid.

        Raises:
            ServerError: Too many questions are waiting, or were refused.
        """
        if self._waiting >= _MAX_WAITING:
            raise ServerError(f"{_MAX_WAITING} questions are waiting for an answer already", code=_INVALID_PARAMS)
        if self._refusals() >= _MAX_REFUSALS:
            raise ServerError(f"{_MAX_REFUSALS} questions of this turn were refused already", code=_INVALID_PARAMS)
        refusal = _refusal(self._thread)
        if refusal:
            self._tell(elicitation, f"It was declined without asking: {refusal}.")
            self._refused += 1
            return ElicitationAnswer("decline")
        self._waiting += 1
        try:
            with self._connection.paused():
                async with self._one_at_a_time:
                    answer = await self._fitting_answer(elicitation)
        finally:
            self._waiting -= 1
        self._refused = 0 if answer.decision == "accept" else self._refused + 1
        return answer

    def _refusals(self) -> int:
        """Return how many questions were refused in a row in the current turn."""
        call = self._connection.caller
        turn_id = "" if call is None else call.turn_id
        if turn_id != self._turn_id:
            self._turn_id, self._refused = turn_id, 0
        return self._refused

    async def _fitting_answer(self, elicitation: Elicitation) -> ElicitationAnswer:
        problems: list[str] = []
        for _ in range(_TRIES):
            answer = await self._answer(elicitation, problems)
            if answer.decision != "accept":
                return answer
            if elicitation.mode == "url":
                self._note_opened(elicitation.elicitation_id or "")
                return ElicitationAnswer("accept", meta=answer.meta)
            content, problems = answered(elicitation.requested_schema or {"properties": {}}, answer.content or {})
            if not problems:
                return ElicitationAnswer("accept", content, answer.meta)
        self._tell(elicitation, f"It was cancelled, because no answer fits the form: {'; '.join(problems)}.")
        return ElicitationAnswer("cancel")

    async def _answer(self, elicitation: Elicitation, problems: list[str]) -> ElicitationAnswer:
        call, thread = self._connection.caller, self._thread
        request = ElicitationRequest(
            turn_id=None if call is None else call.turn_id,
            server_name=self._server,
            id=self._next_id(),
            request=elicitation,
            problems=tuple(problems),
            limit_s=self._limit_s,
        )
        asker = thread if call is None else call
        started = time.monotonic()
        questions = forms_of(thread)
        questions[request.id] = request
        try:
            answer = await asker.request(request)
        except TurnEnded:
            return ElicitationAnswer("cancel")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return ElicitationAnswer("cancel")  # the turn has ended, and with it the request
        finally:
            questions.pop(request.id, None)
        if answer.decision not in DECISIONS:  # a program may violate the annotation
            self._tell(
                elicitation, f"It was cancelled: a client answered with the unknown decision {answer.decision!r}."
            )
            return ElicitationAnswer("cancel")
        seconds = time.monotonic() - started
        if answer is no_answer() and self._limit_s is not None and seconds >= self._limit_s:
            self._tell(elicitation, f"It was cancelled, because nobody answered within {self._limit_s:g} seconds.")
        return answer

    def _note_opened(self, number: str) -> None:
        self._opened.setdefault(number, asyncio.Event())
        while len(self._opened) > _MAX_OPENED:
            del self._opened[next(iter(self._opened))]

    def _next_id(self) -> str:
        counter: list[int] = self._thread.state("elicitation numbers", lambda: [0])
        counter[0] += 1
        return f"{self._server}:{counter[0]}"

    def _tell(self, elicitation: Elicitation, then: str) -> None:
        page = f" (it wants a page of {elicitation.host} to be opened)" if elicitation.host else ""
        self._thread.warn(f"the MCP server {self._server!r} asks: {one_line(elicitation.message)!r}{page}. {then}")


async def _done(opened: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(_OPENED_S):
            await opened.wait()
    except TimeoutError:  # not all servers tell
        return


def _refusal(thread: ThreadContext) -> str:
    """Return why no user may be asked. Empty if asking is allowed."""
    policy = thread.settings.approval_policy if thread.turn is None else thread.turn.approval_policy
    if policy is ApprovalPolicy.NEVER:
        return "the approval policy is `never`"
    if isinstance(policy, GranularApproval) and not policy.mcp_elicitations:
        return "`approval_policy.granular.mcp_elicitations` is false"
    return ""


def read_elicitation(params: Mapping[str, Any]) -> Elicitation:
    """Return the question in the parameters of ``elicitation/create``.

    Raises:
        ServerError: It is invalid. The text is for the server.
    """
    params = params if isinstance(params, Mapping) else {}
    mode, message, meta = params.get("mode", "form"), params.get("message"), params.get("_meta")
    if not isinstance(message, str):
        raise ServerError("message must be a string", code=_INVALID_PARAMS)
    text = plain(message, _MAX_MESSAGE)
    meta = _foreign(meta) if isinstance(meta, Mapping) else None
    if mode == "form":
        form = checked_form(params.get("requestedSchema"))
        return Elicitation(mode="form", message=text, requested_schema=form, meta=meta)
    if mode != "url":
        raise ServerError("mode must be form or url", code=_INVALID_PARAMS)
    number = params.get("elicitationId")
    if not isinstance(number, str) or not number:
        raise ServerError("elicitationId must be a string", code=_INVALID_PARAMS)
    url, host = _checked_url(params.get("url"))
    return Elicitation(mode="url", message=text, url=url, host=host, elicitation_id=number, meta=meta)


def _foreign(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return a server's metadata without the names by which clients recognise approvals of Codex."""
    return {key: value for key, value in meta.items() if not key.startswith("codex")}


def _checked_url(url: object) -> tuple[str, str]:
    """Return the address of a page, and its host in ASCII, so that letters that look like others show.

    Raises:
        ServerError: A person should not be asked to open it.
    """
    if not isinstance(url, str) or not 0 < len(url) <= _MAX_URL or not url.isprintable() or " " in url or "\\" in url:
        raise ServerError(f"url must be an address of at most {_MAX_URL} printable characters", code=_INVALID_PARAMS)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        ascii_host = f"[{host}]" if ":" in host else host.encode("idna").decode("ascii")
    except (ValueError, UnicodeError):
        raise ServerError("url cannot be read", code=_INVALID_PARAMS) from None
    if parts.scheme not in ("https", "http") or not ascii_host:
        raise ServerError("url must be an address with http or https and a host", code=_INVALID_PARAMS)
    if "@" in parts.netloc:
        raise ServerError("url must not contain a user or password", code=_INVALID_PARAMS)
    return url, ascii_host if port is None else f"{ascii_host}:{port}"
