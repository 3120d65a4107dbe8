"""Questions to clients: the requests of threads as requests of the server, and the answers of clients.

Every client of the thread gets the question under the same id. The first answer counts, and the other clients are notified by
``serverRequest/resolved``. An unanswered question is sent to each client that follows later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from codex_framework import CodexError, Decision, Request, ReviewDecision, Thread, ToolApprovalRequestEvent, Value
from codex_framework.contract.protocol.events import (
    ApplyPatchApprovalRequestEvent,
    ExecApprovalRequestEvent,
    RequestPermissionsEvent,
)
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.toolkit.answers import read_answer
from codex_framework.toolkit.approval_questions import approval_question
from codex_framework.toolkit.command_line import command_line
from codex_plugin_app_server.connection import Connection, encode
from codex_plugin_app_server.items import camel_keys, command_actions
from codex_plugin_app_server.table import Json

__all__ = ["SERVER_REQUESTS", "AskedThread", "Question", "ServerRequests"]

ABSENCE_S = 600.0
"""How long a question waits while its thread has no client. After that, it gets its unattended answer."""

UNREADABLE = "rejected: the client's answer to the approval request could not be read"


class Question(Value, kw_only=True):
    """A request of a thread in the form of the protocol.

    Attributes:
        waits_for: The state of the thread meanwhile (``ThreadActiveFlag``). None if it is not shown.
        answer: Converts a client's result to an answer. Raises an exception if it cannot be read.
        announces: Whether clients are told that it has been answered.
    """

    method: str
    params: Json
    waits_for: str | None
    answer: Callable[[Mapping[str, Any]], object]
    announces: bool = True


class AskedThread(Protocol):
    """A thread whose clients are asked."""

    @property
    def id(self) -> str:
        """The thread's id."""
        ...

    @property
    def thread(self) -> Thread:
        """The kernel's thread."""
        ...

    @property
    def connections(self) -> Sequence[Connection]:
        """The clients."""
        ...

    def notify(self, method: str, params: Json) -> None:
        """Send a notification to the clients."""
        ...

    def show_status(self) -> None:
        """Tell the clients the status if it has changed."""
        ...


class _Open:
    """A question that has been asked."""

    def __init__(self, thread: AskedThread, request: Request[Any], question: Question, message: bytes) -> None:
        self.thread = thread
        self.request = request
        self.question = question
        self.message = message


class ServerRequests:
    """The questions of all threads."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        self._next_id = 0
        self._absences: dict[str, asyncio.TimerHandle] = {}

    def open(self, thread: AskedThread, request: Request[Any], thread_id: str, turn_id: str) -> int | None:
        """Take a request, and return the id of its question. One that the protocol cannot carry gets its unattended answer.

        Args:
            thread_id: The thread that made the request: the thread itself, or a child of it.
        """
        question = _question(request, thread_id, turn_id)
        if question is None:
            thread.thread.warn(f"the clients of this server cannot be asked about {request.subject}")
            thread.thread.decline(request.request_id)
            return None
        number = self._next_id
        self._next_id += 1
        message = encode({"method": question.method, "id": number, "params": question.params})
        self._open[number] = _Open(thread, request, question, message)
        thread.show_status()
        return number

    def ask(self, number: int) -> None:
        """Send a question to the clients of its thread."""
        asked = self._open[number]
        for connection in asked.thread.connections:
            connection.send_request(asked.message)
        if not asked.thread.connections:
            self.begin_absence(asked.thread)

    def ask_again(self, thread: AskedThread, connection: Connection) -> None:
        """Ask a client that has come later about everything that is open."""
        timer = self._absences.pop(thread.id, None)
        if timer is not None:
            timer.cancel()
        for each in self._open.values():
            if each.thread is thread:
                connection.send_request(each.message)

    def waits_for(self, thread: AskedThread) -> list[str]:
        """Return the flags of an active thread."""
        flags = (each.question.waits_for for each in self._open.values() if each.thread is thread)
        return sorted({flag for flag in flags if flag is not None})

    def take_answer(self, connection: Connection, number: object, message: Mapping[str, Any]) -> None:
        """Take a client's answer. An unsolicited or late answer has no effect."""
        found = self._open.get(number) if type(number) is int else None  # True would be 1
        if found is None or connection not in found.thread.connections:
            return
        result = message.get("result")
        try:
            answer = found.question.answer(result if isinstance(result, Mapping) else {})
        except (CodexError, ValueError, KeyError, TypeError, AttributeError):
            answer = _refusal(found.request)
        self._close(number, found)  # type: ignore[arg-type]  # it was found by this number
        _answer(found.thread, found.request, answer)

    def resolve(self, thread: AskedThread, request_id: str) -> None:
        """Take note that a request is no longer open, whoever answered it."""
        for number, each in list(self._open.items()):
            if each.thread is thread and each.request.request_id == request_id:
                self._close(number, each)

    def begin_absence(self, thread: AskedThread) -> None:
        """Wait for a client of a thread without clients, for a limited time."""
        if thread.id not in self._absences and any(each.thread is thread for each in self._open.values()):
            loop = asyncio.get_running_loop()
            self._absences[thread.id] = loop.call_later(ABSENCE_S, self._end_absence, thread)

    def forget(self, thread: AskedThread) -> None:
        """Forget the questions of a thread that has ended."""
        timer = self._absences.pop(thread.id, None)
        if timer is not None:
            timer.cancel()
        self._open = {number: each for number, each in self._open.items() if each.thread is not thread}

    def _end_absence(self, thread: AskedThread) -> None:
        self._absences.pop(thread.id, None)
        for number, each in list(self._open.items()):
            if each.thread is thread:
                thread.thread.warn(f"no client came to answer {each.request.subject}. So the answer is no.")
                self._close(number, each)
                thread.thread.decline(each.request.request_id)

    def _close(self, number: int, found: _Open) -> None:
        del self._open[number]
        if found.question.announces:
            found.thread.notify("serverRequest/resolved", {"threadId": found.thread.id, "requestId": number})
        found.thread.show_status()


def _answer(thread: AskedThread, request: Request[Any], answer: object) -> None:
    try:
        thread.thread.answer(request.request_id, answer)
    except CodexError as error:
        thread.thread.warn(f"{request.subject} cannot be answered: {error}")


def _refusal(request: Request[Any]) -> object:
    """Return the answer that replaces an unreadable one."""
    if request.answer_type is ReviewDecision:
        return ReviewDecision(Decision.DENIED, message=UNREADABLE)
    return request.unattended()


def _question(request: Request[Any], thread_id: str, turn_id: str) -> Question | None:
    """Return a request in the form of the protocol, or None if the protocol does not support it."""
    turn_id = getattr(request, "turn_id", None) or turn_id
    match request:
        case ExecApprovalRequestEvent():
            return _command_approval(request, thread_id, turn_id)
        case ApplyPatchApprovalRequestEvent():
            return _patch_approval(request, thread_id, turn_id)
        case RequestPermissionsEvent():
            return _permissions(request, thread_id, turn_id)
        case ToolApprovalRequestEvent():
            return _tool_approval(request, thread_id, turn_id)
        case _:
            make = _BY_TAG.get(request.type)
            return None if make is None else make(request, thread_id, turn_id)


def _command_approval(request: ExecApprovalRequestEvent, thread_id: str, turn_id: str) -> Question:
    command = request.command
    network = request.network_approval_context
    params = {
        "kind": "command",
        "threadId": thread_id,
        "turnId": turn_id,
        "itemId": request.call_id,
        "startedAtMs": request.started_at_ms,
        "environmentId": request.environment_id or "local",
        "reason": request.reason,
        "command": command_line(command),
        "cwd": request.cwd,
        "commandActions": command_actions(request.parsed_cmd, command, request.cwd),
        "proposedExecpolicyAmendment": _list(request.proposed_execpolicy_amendment),
        "availableDecisions": [_decision_json(each) for each in request.available_decisions or ()] or None,
    }
    if request.approval_id is not None:
        params["approvalId"] = request.approval_id
    if network is not None:
        params["networkApprovalContext"] = dict(network)
        params["proposedNetworkPolicyAmendments"] = _list(request.proposed_network_policy_amendments)
    if request.additional_permissions is not None:
        params["additionalPermissions"] = _permissions_json(request.additional_permissions)
    return Question(
        method="item/commandExecution/requestApproval",
        params=params,
        waits_for="waitingOnApproval",
        answer=lambda result: _decision(result["decision"]),
    )


def _patch_approval(request: ApplyPatchApprovalRequestEvent, thread_id: str, turn_id: str) -> Question:
    return Question(
        method="item/fileChange/requestApproval",
        params={
            "threadId": thread_id,
            "turnId": turn_id,
            "itemId": request.call_id,
            "startedAtMs": request.started_at_ms,
            "reason": request.reason,
            "grantRoot": request.grant_root,
        },
        waits_for="waitingOnApproval",
        answer=lambda result: _decision(result["decision"]),
    )


def _permissions(request: RequestPermissionsEvent, thread_id: str, turn_id: str) -> Question:
    def answer(result: Mapping[str, Any]) -> ReviewDecision:
        scope = "session" if result.get("scope") == "session" else "turn"
        return read_answer(request, {"permissions": _snake_permissions(result["permissions"]), "scope": scope})

    return Question(
        method="item/permissions/requestApproval",
        params={
            "threadId": thread_id,
            "turnId": turn_id,
            "itemId": request.call_id,
            "environmentId": request.environment_id,
            "startedAtMs": request.started_at_ms,
            "cwd": request.cwd,
            "reason": request.reason,
            "permissions": _permissions_json(request.permissions),
        },
        waits_for="waitingOnApproval",
        answer=answer,
    )


def _tool_approval(request: ToolApprovalRequestEvent, thread_id: str, turn_id: str) -> Question:
    """Ask by an empty form, as Codex asks about the tools of MCP servers."""
    persist = [
        word for word, offered in (("session", request.approval.key), ("always", request.approval.always)) if offered
    ]

    def answer(result: Mapping[str, Any]) -> ReviewDecision:
        meta = result.get("_meta")
        kept = meta.get("persist") if isinstance(meta, Mapping) else None
        match result["action"]:
            case "accept" if kept in persist:
                return ReviewDecision(_KEPT[kept])
            case "accept":
                return ReviewDecision(Decision.APPROVED)
            case "cancel":
                return ReviewDecision(Decision.ABORT)
            case _:
                return ReviewDecision(Decision.DENIED)

    return Question(
        method="mcpServer/elicitation/request",
        params={
            "threadId": thread_id,
            "turnId": turn_id,
            "serverName": str(request.approval.details.get("server") or request.tool),
            "mode": "form",
            "message": approval_question(request),
            "requestedSchema": {"type": "object", "properties": {}},
            "_meta": {
                "codex_approval_kind": "mcp_tool_call",
                "tool_params": dict(request.approval.details),
                **({"persist": persist} if persist else {}),
            },
        },
        waits_for="waitingOnApproval",
        answer=answer,
    )


_KEPT = {"session": Decision.APPROVED_FOR_SESSION, "always": Decision.APPROVED_ALWAYS}


def _elicitation(request: Request[Any], thread_id: str, turn_id: str) -> Question:
    wire = to_wire(request)
    asked = wire["request"]
    if asked.get("mode") == "url":
        form = {
            "mode": "url",
            "url": asked.get("url"),
            "elicitationId": asked.get("elicitation_id") or request.request_id,
        }
    else:
        form = {
            "mode": "form",
            "requestedSchema": asked.get("requested_schema") or {"type": "object", "properties": {}},
        }
    return Question(
        method="mcpServer/elicitation/request",
        params={
            "threadId": thread_id,
            "turnId": turn_id or None,
            "serverName": wire["server_name"],
            **form,
            "message": asked.get("message") or "",
            "_meta": asked.get("_meta"),
        },
        waits_for="waitingOnUserInput",
        answer=lambda result: read_answer(
            request, {"decision": result["action"], "content": result.get("content"), "meta": result.get("_meta")}
        ),
    )


def _user_input(request: Request[Any], thread_id: str, turn_id: str) -> Question:
    wire = to_wire(request)
    questions = [{"isOther": True, "isSecret": False, "options": None, **each} for each in wire["questions"]]
    return Question(
        method="item/tool/requestUserInput",
        params={
            "threadId": thread_id,
            "turnId": turn_id,
            "itemId": wire["call_id"],
            "questions": questions,
            "isBlocking": False,
            "autoResolutionMs": None,
        },
        waits_for="waitingOnUserInput",
        answer=lambda result: read_answer(request, {"answers": result["answers"]}),
    )


def _dynamic_tool(request: Request[Any], thread_id: str, turn_id: str) -> Question:
    wire = to_wire(request)
    return Question(
        method="item/tool/call",
        params={
            "threadId": thread_id,
            "turnId": wire.get("turnId") or turn_id,
            "callId": wire["callId"],
            "namespace": wire.get("namespace"),
            "tool": wire["tool"],
            "arguments": wire.get("arguments"),
        },
        waits_for=None,
        answer=lambda result: read_answer(
            request, {"content_items": result["contentItems"], "success": result["success"]}
        ),
        announces=False,
    )


_BY_TAG: Mapping[str, Callable[[Request[Any], str, str], Question]] = {
    "elicitation_request": _elicitation,
    "request_user_input": _user_input,
    "dynamic_tool_call_request": _dynamic_tool,
}
"""Requests of plugins, which need not be installed."""

SERVER_REQUESTS = (
    "item/commandExecution/requestApproval",
    "item/fileChange/requestApproval",
    "item/permissions/requestApproval",
    "item/tool/call",
    "item/tool/requestUserInput",
    "mcpServer/elicitation/request",
)
"""The requests that this server makes."""


def _decision(answer: object) -> ReviewDecision:
    """Return the decision that a client's answer means. Raises an exception if it cannot be read."""
    if isinstance(answer, str):
        return ReviewDecision(_DECISIONS[answer])
    if not isinstance(answer, Mapping):
        raise TypeError("a decision is text or an object")
    if (amendment := answer.get("acceptWithExecpolicyAmendment")) is not None:
        words = amendment["execpolicy_amendment"]
        if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
            raise TypeError("an amendment is a list of words")
        return ReviewDecision(Decision.APPROVED, execpolicy_amendment=tuple(words))
    rule = answer["applyNetworkPolicyAmendment"]["network_policy_amendment"]
    kind = Decision.APPROVED if rule["action"] == "allow" else Decision.DENIED
    return ReviewDecision(kind, network_amendment={"host": str(rule["host"]), "action": str(rule["action"])})


_DECISIONS = {
    "accept": Decision.APPROVED,
    "acceptForSession": Decision.APPROVED_FOR_SESSION,
    "decline": Decision.DENIED,
    "cancel": Decision.ABORT,
}
_WORDS = {
    "approved": "accept",
    "approved_for_session": "acceptForSession",
    "denied": "decline",
    "abort": "cancel",
}


def _decision_json(decision: object) -> object:
    """Return one of the kernel's possible decisions in the words of the protocol."""
    if isinstance(decision, Mapping):
        for name, facts in decision.items():
            if name == "approved_execpolicy_amendment":
                words = list(facts["proposed_execpolicy_amendment"])
                return {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": words}}
            if name == "network_policy_amendment":
                rule = dict(facts.get("network_policy_amendment", facts))
                return {"applyNetworkPolicyAmendment": {"network_policy_amendment": rule}}
    return _WORDS.get(str(decision), decision)


def _permissions_json(permissions: Mapping[str, Any]) -> dict[str, Any]:
    return {"network": permissions.get("network"), "fileSystem": camel_keys(permissions.get("file_system"))}


def _snake_permissions(given: Mapping[str, Any]) -> dict[str, Any]:
    files = given.get("fileSystem")
    network = given.get("network")
    found: dict[str, Any] = {}
    if isinstance(network, Mapping):
        found["network"] = {"enabled": bool(network.get("enabled"))}
    if isinstance(files, Mapping):
        found["file_system"] = {name: files[name] for name in ("read", "write", "entries") if files.get(name)}
    return found


def _list(words: Any) -> list[Any] | None:
    return None if words is None else [dict(word) if isinstance(word, Mapping) else word for word in words]
