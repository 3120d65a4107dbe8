"""The revision 2026-07-28, which has no handshake and no sessions, for callers that use earlier revisions.

Each request states revision, client and capabilities. A server that needs an answer of the user ends the request with
questions, and the request is sent again with the answers. Changes of lists arrive on a separate stream.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from codex_plugin_mcp.errors import ConnectionFailed
from codex_plugin_mcp.transports.transport import Fault, Message, Transport, whole_number

__all__ = ["MODERN_REVISION", "NegotiatingTransport"]

MODERN_REVISION = "2026-07-28"
"""The revision without a handshake."""

_PREFIX = "io.modelcontextprotocol/"
_METHOD_NOT_FOUND = -32601
_UNSUPPORTED_REVISION = -32022
_INTERNAL_ERROR = -32603
_MAX_ROUNDS = 20
"""How often one request may end with questions."""

_WITHOUT_COUNTERPART = frozenset({"ping", "logging/setLevel"})
"""Methods of earlier revisions that are answered with the server's description, which also shows that it is alive."""

_LISTEN_AGAIN_S = (1.0, 5.0, 30.0)
_LISTS = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}


class NegotiatingTransport:
    """A :class:`~codex_plugin_mcp.transports.transport.Transport` that speaks both kinds of revisions.

    ``initialize`` is sent unchanged. If the server does not support it, it is asked to describe itself (``server/discover``),
    and the description is returned as the answer to ``initialize``. From then on messages are translated.

    Args:
        inner: The connection, not yet started.
        modern_first: Whether to ask for the description first, and to send ``initialize`` only if the server does not know that.
        on_fault: Called with a sentence about skipped data.
    """

    def __init__(self, inner: Transport, *, modern_first: bool = False, on_fault: Fault = lambda _: None) -> None:
        self._inner = inner
        self._modern_first = modern_first
        self._on_fault = on_fault
        self._initialize: Message = {}
        self._refusal: Message | None = None
        """The server's error for ``initialize``, while it is asked for its description."""
        self._modern = False
        self._meta: dict[str, Any] = {}
        self._asked: dict[Any, _Asked] = {}
        """The requests in flight, by the id that the server knows."""
        self._questions: dict[str, _Round] = {}
        """The server's questions that are not answered yet, by the id that the caller knows."""
        self._wanted: dict[str, bool] = {}
        self._losses = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def process_id(self) -> int | None:
        """The process of the server, if it is one of this machine."""
        return self._inner.process_id

    async def start(self) -> None:
        """Open the connection. Raises ``ConnectionFailed`` if that fails."""
        await self._inner.start()

    async def send(self, message: Message) -> None:
        """Send a message. Raises ``ConnectionFailed`` if the connection is lost."""
        if self._modern:
            await self._send_modern(message)
        elif message.get("method") == "initialize":
            self._initialize, self._refusal = message, None
            await (self._discover() if self._modern_first else self._inner.send(message))
        else:
            await self._inner.send(message)

    async def messages(self) -> AsyncIterator[Message]:
        """Yield the messages of the server, as the revisions before 2026-07-28 have them."""
        async for message in self._inner.messages():
            if self._modern:
                for each in await self._received_modern(message):
                    yield each
            elif self._initialize and "method" not in message and message.get("id") == self._initialize["id"]:
                if (answer := await self._negotiated_with(message)) is not None:
                    yield answer
            else:
                yield message

    def negotiated(self, version: str) -> None:
        """Take note of the revision."""
        self._inner.negotiated(version)
        if self._modern and self._wanted:
            self._spawn_listening(0.0)

    def why_ended(self) -> str:
        """Return why the connection ended."""
        return self._inner.why_ended()

    async def aclose(self) -> None:
        """Close the connection."""
        for task in self._tasks:
            task.cancel()
        await self._inner.aclose()

    # Negotiating

    async def _discover(self) -> None:
        """Ask the server to describe itself, with the id of ``initialize``."""
        params = self._initialize.get("params") or {}
        self._meta = {
            f"{_PREFIX}protocolVersion": MODERN_REVISION,
            f"{_PREFIX}clientInfo": params.get("clientInfo") or {},
            f"{_PREFIX}clientCapabilities": params.get("capabilities") or {},
        }
        await self._inner.send(self._request("server/discover", self._initialize["id"], {}))

    async def _negotiated_with(self, message: Message) -> Message | None:
        """Return the answer to ``initialize``, or None if something else was sent to get one."""
        described = bool(self._meta)
        if not described and not _speaks_modern_only(message):
            return message
        if not described:
            self._refusal = message
            return await self._or_error(self._discover())
        result = message.get("result")
        if isinstance(result, Mapping) and MODERN_REVISION in _texts(result.get("supportedVersions")):
            return self._adopted(result)
        self._meta = {}
        if self._refusal is not None:
            return self._refusal
        self._modern_first = False
        return await self._or_error(self._inner.send(self._initialize))

    async def _or_error(self, sending: Any) -> Message | None:
        try:
            await sending
        except ConnectionFailed as error:
            return _error(self._initialize["id"], str(error))
        return None

    def _adopted(self, result: Mapping[str, Any]) -> Message:
        """Switch to the revision and return the answer to ``initialize``."""
        self._modern = True
        capabilities = result.get("capabilities")
        capabilities = capabilities if isinstance(capabilities, Mapping) else {}
        for name, wanted in _LISTS.items():
            offered = capabilities.get(name)
            if isinstance(offered, Mapping) and offered.get("listChanged") is True:
                self._wanted[wanted] = True
        meta = result.get("_meta")
        answer: dict[str, Any] = {
            "protocolVersion": MODERN_REVISION,
            "capabilities": capabilities,
            "serverInfo": (meta if isinstance(meta, Mapping) else {}).get(f"{_PREFIX}serverInfo") or {},
        }
        if isinstance(result.get("instructions"), str):
            answer["instructions"] = result["instructions"]
        return {"jsonrpc": "2.0", "id": self._initialize["id"], "result": answer}

    # Sending

    async def _send_modern(self, message: Message) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            await self._answered(message)
        elif method == "notifications/initialized":
            return
        elif method == "notifications/cancelled":
            number = params.get("requestId")
            known = next((wire for wire, asked in self._asked.items() if asked.number == number), number)
            self._asked.pop(known, None)
            await self._inner.send({**message, "params": {**params, "requestId": known}})
        elif "id" not in message:
            await self._inner.send(message)
        else:
            await self._ask(str(method), message["id"], params)

    async def _ask(self, method: str, number: Any, params: Mapping[str, Any]) -> None:
        if method == "logging/setLevel":
            self._meta[f"{_PREFIX}logLevel"] = params.get("level")
        if method in _WITHOUT_COUNTERPART:
            method, params = "server/discover", {}
        self._asked[number] = _Asked(number, method, params)
        await self._inner.send(self._request(method, number, params))

    def _request(self, method: str, number: Any, params: Mapping[str, Any]) -> Message:
        meta = {**(params.get("_meta") or {}), **self._meta}
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": meta}}

    # Receiving

    async def _received_modern(self, message: Message) -> list[Message]:
        """Translate a received message for the caller."""
        if "method" in message:
            return [] if message["method"] == "notifications/subscriptions/acknowledged" else [message]
        number = message.get("id")
        if isinstance(number, str) and number.startswith("listen-"):
            return self._stopped_listening(message)
        asked = self._asked.pop(number, None) if isinstance(number, (int, str)) else None
        if asked is None:
            return [message]
        result = message.get("result")
        if isinstance(result, Mapping) and result.get("resultType") == "input_required":
            return await self._asked_back(asked, result)
        return [{**message, "id": asked.number}]

    # Questions of the server

    async def _asked_back(self, asked: _Asked, result: Mapping[str, Any]) -> list[Message]:
        """Return the questions that a request ended with, as requests of the server."""
        asked.rounds += 1
        if asked.rounds > _MAX_ROUNDS:
            return [_error(asked.number, f"the server has asked more than {_MAX_ROUNDS} times and not answered")]
        questions = result.get("inputRequests")
        questions = questions if isinstance(questions, Mapping) else {}
        answering = _Round(asked, result.get("requestState"))
        messages: list[Message] = []
        for key, question in questions.items():
            if isinstance(question, Mapping) and isinstance(question.get("method"), str):
                number = f"input-{asked.number}-{asked.rounds}-{key}"
                answering.open[number] = key
                self._questions[number] = answering
                params = question.get("params") or {}
                messages.append({"jsonrpc": "2.0", "id": number, "method": question["method"], "params": params})
        if not messages and (problem := await self._again(answering)) is not None:
            return [problem]
        return messages

    async def _answered(self, message: Message) -> None:
        """Take an answer of the caller. With the last one the request is sent again."""
        answering = self._questions.pop(str(message.get("id")), None)
        if answering is None:
            await self._inner.send(message)
            return
        key = answering.open.pop(str(message["id"]))
        if "result" in message:
            answering.answers[key] = message["result"]
        if not answering.open and (problem := await self._again(answering)) is not None:
            self._on_fault(str(problem["error"]["message"]))

    async def _again(self, answering: _Round) -> Message | None:
        """Send a request again, with answers. Returns the error if that is not possible."""
        asked = answering.asked
        params = dict(asked.params)
        if answering.answers:
            params["inputResponses"] = answering.answers
        if isinstance(answering.state, str):
            params["requestState"] = answering.state
        number = f"{asked.number}-{asked.rounds}"
        self._asked[number] = asked
        try:
            await self._inner.send(self._request(asked.method, number, params))
        except ConnectionFailed as error:
            self._asked.pop(number, None)
            return _error(asked.number, str(error))
        return None

    # Changes of lists

    def _spawn_listening(self, pause_s: float) -> None:
        task = asyncio.get_running_loop().create_task(self._listen(pause_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self, pause_s: float) -> None:
        """Open the stream for changes of lists."""
        await asyncio.sleep(pause_s)
        request = self._request("subscriptions/listen", f"listen-{self._losses}", {"notifications": self._wanted})
        with contextlib.suppress(ConnectionFailed):
            await self._inner.send(request)

    def _stopped_listening(self, message: Message) -> list[Message]:
        """Open the stream again, unless the server refuses it, and let the caller read the lists anew."""
        error = message.get("error")
        refused = isinstance(error, Mapping) and error.get("code") in (_METHOD_NOT_FOUND, -32602, -32600)
        if refused or self._losses >= len(_LISTEN_AGAIN_S):
            return []
        self._spawn_listening(_LISTEN_AGAIN_S[self._losses])
        self._losses += 1
        changed = (name for name, wanted in _LISTS.items() if wanted in self._wanted)
        return [{"jsonrpc": "2.0", "method": f"notifications/{name}/list_changed"} for name in changed]


class _Asked:
    """A request of the caller.

    Attributes:
        number: The id that the caller knows.
        rounds: How often it has ended with questions.
    """

    def __init__(self, number: Any, method: str, params: Mapping[str, Any]) -> None:
        self.number = number
        self.method = method
        self.params = params
        self.rounds = 0


class _Round:
    """The questions that a request ended with.

    Attributes:
        open: The key of each question that is not answered, by the id that the caller knows.
        answers: The results, by key.
    """

    def __init__(self, asked: _Asked, state: Any) -> None:
        self.asked = asked
        self.state = state
        self.open: dict[str, str] = {}
        self.answers: dict[str, Any] = {}


def _speaks_modern_only(message: Message) -> bool:
    """Whether an answer to ``initialize`` means that the server may know the newer revision only."""
    error = message.get("error")
    if not isinstance(error, Mapping):
        return False
    data = error.get("data")
    supported = data.get("supported") if isinstance(data, Mapping) else None
    if whole_number(error.get("code")) == _UNSUPPORTED_REVISION:
        return supported is None or MODERN_REVISION in _texts(supported)
    return whole_number(error.get("code")) == _METHOD_NOT_FOUND


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _error(number: Any, text: str) -> Message:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": _INTERNAL_ERROR, "message": text}}
