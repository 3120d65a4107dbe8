"""Who passes: by the rules, and where they say nothing, by asking once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from codex_framework import NetworkRules, NetworkTarget
from codex_plugin_network_proxy import refusals
from codex_plugin_network_proxy.addresses import LOCAL_KINDS, kind_of
from codex_plugin_network_proxy.hosts import is_address, written
from codex_plugin_network_proxy.rules import HostRules, is_local_name

__all__ = ["Ask", "Decider"]

Ask = Callable[[NetworkTarget], Awaitable[bool]]
_Key = tuple[str, str, int]

_LOOKING = frozenset({"GET", "HEAD", "OPTIONS"})


class Decider:
    """Decides for one gate.

    Args:
        ask: As in :meth:`codex_framework.NetworkProxy.gate`.
        own_ports: The ports on loopback where gates listen, this one and those of other commands.
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
        """Whether only plain HTTP passes that only looks."""
        return self._limited

    async def admit(self, target: NetworkTarget, gone: asyncio.Future[None]) -> None:
        """Come back if a target may be reached, as far as its name tells.

        Args:
            gone: Done once the client is not there any more; then the question, if there is one, is given up.

        Raises:
            RefusedError: It may not.
            ConnectionError: The client has gone.
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
        """Raise RefusedError where the mode does not let the method pass, or a tunnel."""
        if self._limited and (target.protocol != "http" or target.method not in _LOOKING):
            method = target.method or ("SOCKS" if target.protocol.startswith("socks") else "CONNECT")
            raise refusals.wrong_method(method, written(target.host, target.port) if target.port else target.host)

    def check_address(self, host: str, port: int, address: str) -> None:
        """Raise RefusedError unless ``address``, which ``host`` leads to, may be connected to."""
        pattern = self._hosts.denied_by(address, port)
        if pattern is not None:
            raise refusals.address_denied(host, port, address, pattern)
        kind = kind_of(address)
        if kind == "loopback" and port in self._own_ports():
            raise refusals.not_the_proxy(host, port)  # by the gate of another command it could go by that one's rules
        if not kind or (self._local and kind in LOCAL_KINDS) or self._hosts.names(address, port):
            return
        if kind == "loopback" and is_local_name(host) and self._hosts.names(host, port):
            return
        raise refusals.not_local(host, port, address, kind, by_setting=kind in LOCAL_KINDS)

    @property
    def questions(self) -> list[asyncio.Task[bool | None]]:
        """Those that are open."""
        return [question.task for question in self._questions.values()]

    def _check_local(self, host: str, port: int) -> None:
        """Raise RefusedError for what is local by its name. What only turns out to be is found when the name is looked up."""
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
            answer = await self._asked(key, target, gone, self._ask)
        if not answer:
            raise refusals.not_asked(target.host, target.port)

    async def _asked(self, key: _Key, target: NetworkTarget, gone: asyncio.Future[None], ask: Ask) -> bool:
        question = self._questions.get(key)
        if question is None:
            question = self._questions[key] = _Question(asyncio.ensure_future(_answer(ask, target)))
            question.task.add_done_callback(lambda task: self._answered(key, question, task))
        question.waiting += 1
        try:
            await asyncio.wait((question.task, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            question.waiting -= 1
            if not question.waiting:
                question.task.cancel()  # nothing happens where it has been answered
                if self._questions.get(key) is question:
                    del self._questions[key]
        if not question.task.done():
            raise ConnectionAbortedError("the client has gone")
        return not question.task.cancelled() and question.task.result() is True

    def _answered(self, key: _Key, question: _Question, task: asyncio.Task[bool | None]) -> None:
        if self._questions.get(key) is question:
            del self._questions[key]
        answer = None if task.cancelled() else task.result()
        if answer is not None:
            self._answers[key] = answer


class _Question:
    """A question that is open, and how many connections wait for it."""

    def __init__(self, task: asyncio.Task[bool | None]) -> None:
        self.task = task
        self.waiting = 0


async def _answer(ask: Ask, target: NetworkTarget) -> bool | None:
    """The answer; None where asking failed, which counts for those who wait but is not remembered."""
    try:
        return await ask(target) is True
    except Exception:  # whatever goes wrong with asking, nothing is let through
        return None
