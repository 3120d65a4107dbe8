"""Decisions about which targets may be reached: by rule, or by asking once if no rule matches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from codex_framework import NetworkRules, NetworkTarget
from codex_plugin_network_proxy import refusals
from codex_plugin_network_proxy.addresses import LOCAL_KINDS, kind_of, reached_by
from codex_plugin_network_proxy.hosts import host_text, is_address
from codex_plugin_network_proxy.rules import HostRules, is_local_name

__all__ = ["Ask", "Decider"]

Ask = Callable[[NetworkTarget], Awaitable[bool]]
_Key = tuple[str, str, int]

_READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_GATE_ADDRESSES = frozenset({"127.0.0.1", "0.0.0.0", "::1", "::"})  # noqa: S104  # a connection to 0.0.0.0 reaches 127.0.0.1
"""The addresses of gates. Other addresses of 127.0.0.0/8 have separate ports, which may have the same numbers."""


class Decider:
    """The part of a gate that decides which targets may be reached.

    Args:
        ask: As in :meth:`codex_framework.NetworkProxy.gate`.
        own_ports: Returns the ports of 127.0.0.1 on which gates listen: this gate and the gates of other commands.
    """

    def __init__(
        self, rules: NetworkRules, hosts: HostRules, ask: Ask | None, own_ports: Callable[[], Collection[int]]
    ) -> None:
        self._hosts = hosts
        self._own_ports = own_ports
        self._limited = rules.mode == "limited"
        self._local = rules.allow_local_binding
        self._ask = ask
        self._answers: dict[_Key, bool] = {}
        self._questions: dict[_Key, _Question] = {}

    @property
    def limited(self) -> bool:
        """Whether only reading requests over plain HTTP are allowed (``mode = "limited"``)."""
        return self._limited

    async def admit(self, target: NetworkTarget, gone: asyncio.Future[None]) -> None:
        """Check a target against the rules for hosts and methods, and ask if no rule matches it.

        Args:
            gone: A future that is done once the client has disconnected. The call then stops waiting for an answer.

        Raises:
            RefusedError: The rules or the answer do not allow the target.
            ConnectionError: The client has disconnected.
        """
        host, port = target.host, target.port
        pattern = self._hosts.denied_by(host, port)
        if pattern is not None:
            raise refusals.denied(host, port, pattern)
        self._check_local(host, port)
        self.check_method(target)
        if self._hosts.allowed_by(host, port) is None:
            await self._check_answer(target, gone)

    def check_method(self, target: NetworkTarget) -> None:
        """Raise RefusedError if the mode does not allow the method or the tunnel."""
        if self._limited and (target.protocol != "http" or target.method not in _READING_METHODS):
            method = target.method or ("SOCKS" if target.protocol.startswith("socks") else "CONNECT")
            raise refusals.wrong_method(method, host_text(target.host, target.port) if target.port else target.host)

    def check_address(self, host: str, port: int, address: str) -> None:
        """Raise RefusedError if the rules do not allow ``address``, to which ``host`` resolves."""
        ruled = reached_by(address)
        pattern = self._hosts.denied_by(ruled, port)
        if pattern is not None:
            raise refusals.address_denied(host, port, address, pattern)
        kind = kind_of(address)
        if ruled in _GATE_ADDRESSES and port in self._own_ports():
            raise refusals.not_the_proxy(host, port)  # the gate of another command would apply that command's rules
        if not kind or (self._local and kind in LOCAL_KINDS) or self._hosts.names(ruled, port):
            return
        if kind == "loopback" and is_local_name(host) and self._hosts.names(host, port):
            return
        raise refusals.not_local(host, port, address, kind, by_setting=kind in LOCAL_KINDS)

    @property
    def questions(self) -> list[asyncio.Task[bool | None]]:
        """The tasks of the pending questions."""
        return [question.task for question in self._questions.values()]

    def _check_local(self, host: str, port: int) -> None:
        """Raise RefusedError if the host is an address or a local name that the rules do not allow.

        Other names are checked after they are resolved.
        """
        if is_address(host):
            self.check_address(host, port, host)
        elif is_local_name(host) and not self._local and not self._hosts.names(host, port):
            raise refusals.not_local(host, port, host, "local", by_setting=True)

    async def _check_answer(self, target: NetworkTarget, gone: asyncio.Future[None]) -> None:
        if self._ask is None:
            raise refusals.not_allowed(target.host, target.port)
        key = (target.host, target.protocol, target.port)
        answer = self._answers.get(key)
        if answer is None:
            answer = await self._ask_once(key, target, gone, self._ask)
        if not answer:
            raise refusals.declined(target.host, target.port)

    async def _ask_once(self, key: _Key, target: NetworkTarget, gone: asyncio.Future[None], ask: Ask) -> bool:
        question = self._questions.get(key)
        if question is None:
            question = self._questions[key] = _Question(asyncio.ensure_future(_answer(ask, target)))
            question.task.add_done_callback(lambda task: self._store_answer(key, question, task))
        question.waiting += 1
        try:
            await asyncio.wait((question.task, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            question.waiting -= 1
            if not question.waiting:
                question.task.cancel()  # no effect if the question is already answered
                if self._questions.get(key) is question:
                    del self._questions[key]
        if not question.task.done():
            raise ConnectionAbortedError("the client has disconnected")
        return not question.task.cancelled() and question.task.result() is True

    def _store_answer(self, key: _Key, question: _Question, task: asyncio.Task[bool | None]) -> None:
        if self._questions.get(key) is question:
            del self._questions[key]
        answer = None if task.cancelled() else task.result()
        if answer is not None:
            self._answers[key] = answer


class _Question:
    """A pending question, and the number of connections that are waiting for its answer."""

    def __init__(self, task: asyncio.Task[bool | None]) -> None:
        self.task = task
        self.waiting = 0


async def _answer(ask: Ask, target: NetworkTarget) -> bool | None:
    """Ask about a target and return the answer.

    None if asking failed. The waiting connections are then refused, but the next request asks again.
    """
    try:
        return await ask(target) is True
    except Exception:  # fails closed: an error while asking must not allow a connection
        return None
