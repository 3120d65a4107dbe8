"""A thread of an app server, as ``exec`` uses it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from codex_framework import CodexError, Event, EventMsg, ProviderInfo, Settings
from codex_framework.contract.errors import described
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.events import TokenUsage
from codex_framework.contract.protocol.ops import ImageInput, Op, TextInput, UserInputItem
from codex_framework.contract.protocol.policies import ApprovalPolicy, GranularApproval
from codex_framework.contract.protocol.wire import read, to_wire
from codex_plugin_app_server.remote.events import EventReader
from codex_plugin_app_server.remote.peer import Peer, RemoteError
from codex_plugin_app_server.settings import sandbox_policy

__all__ = ["RemoteThread"]

_INTERRUPT_S = 10.0
"""How long the server may take to interrupt the turn. After that, this client leaves."""

_LEAVE_S = 2.0


class RemoteThread:
    """A thread of an app server. Fulfils ``ExecThread``. See :meth:`open`."""

    def __init__(
        self, peer: Peer, opened: Mapping[str, Any], turn_settings: Mapping[str, Any], settings: Settings
    ) -> None:
        self.id = str(UUID(opened["thread"]["id"]))  # it is printed
        self.settings = settings
        self._peer = peer
        self._turn_settings = turn_settings
        self._reader = EventReader(self.id)
        self._starting: asyncio.Future[None] | None = None  # done when the turn has an id; cancelled when it gets none

    @classmethod
    async def open(
        cls,
        peer: Peer,
        method: str,
        params: Mapping[str, Any],
        turn_settings: Mapping[str, Any],
        config: Mapping[str, Any],
    ) -> Self:
        """Start, resume or fork a thread.

        Args:
            method, params: The request that opens it.
            turn_settings: The fields of ``turn/start`` besides the input.
            config: The configuration of this program, which determines its output.

        Raises:
            RemoteError: The server refuses it, or its answer cannot be read.
        """
        opened = await peer.call(method, {name: value for name, value in params.items() if value is not None})
        try:
            return cls(peer, opened, turn_settings, _settings({**opened, **_display(turn_settings)}, config))
        except (CodexError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise RemoteError(f"the response to {method} cannot be read: {described(error)}") from error

    @property
    def usage(self) -> TokenUsage:
        """Tokens of the thread so far, without tokens of its children."""
        return self._reader.usage

    def stream(
        self,
        prompt: Sequence[UserInputItem],
        *,
        output_schema: Mapping[str, Any] | None = None,
        answers: bool = True,  # noqa: ARG002  # nobody answers
    ) -> AsyncIterator[EventMsg]:
        """Start a turn and yield its events to its end.

        Raises:
            RemoteError: The server refuses it, or the connection is lost.
        """
        params = {"input": list(map(_input_json, prompt)), "outputSchema": output_schema, **self._turn_settings}
        return self._follow("turn/start", {name: value for name, value in params.items() if value is not None})

    def follow(self, op: Op, *, answers: bool = True) -> AsyncIterator[EventMsg]:  # noqa: ARG002  # nobody answers
        """Have code reviewed, and yield the events to the end of the turn.

        Raises:
            RemoteError: It is another op, the server refuses it, or the connection is lost.
        """
        wire = to_wire(op)
        if op.type != "review":
            raise RemoteError(f"--remote supports prompts and reviews, not {op.type}")
        return self._follow("review/start", {"target": wire["review_request"]["target"], "delivery": "inline"})

    async def _follow(self, method: str, params: Mapping[str, Any]) -> AsyncIterator[EventMsg]:
        self._starting = asyncio.get_running_loop().create_future()
        try:
            started = await self._peer.call(method, {"threadId": self.id, **params})
            begun = self._reader.begin_turn(started["turn"])
            self._starting.set_result(None)
            yield begun
            while not self._reader.has_ended:
                for msg in self._reader.read(*await self._peer.next_notification()):
                    yield msg
        except (KeyError, TypeError, ValueError) as error:
            raise RemoteError(f"the server does not speak the protocol of app servers: {error}") from error
        finally:
            self._starting.cancel()

    def save(self) -> None:
        """Do nothing: the server saves its threads."""

    async def events(self) -> AsyncIterator[Event]:
        """Yield nothing: all events belong to the turn."""
        for _ in ():
            yield _

    async def interrupt(self) -> None:
        """Interrupt the turn. If it has not ended in time, the connection counts as lost, which ends the stream of events."""
        if self._starting is None or self._reader.has_ended:
            return
        self._peer.give_up_after(_INTERRUPT_S)
        with contextlib.suppress(RemoteError, asyncio.CancelledError):
            await asyncio.shield(self._starting)
            await self._peer.call("turn/interrupt", {"threadId": self.id, "turnId": self._reader.turn_id})

    async def shutdown(self) -> None:
        """Tell the server that this client follows the thread no longer."""
        with contextlib.suppress(RemoteError, TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await self._peer.call("thread/unsubscribe", {"threadId": self.id})


def _input_json(item: UserInputItem) -> dict[str, Any]:
    match item:
        case TextInput():
            return {"type": "text", "text": item.text, "text_elements": []}
        case ImageInput():
            return {"type": "image", "url": item.image_url}
        case _:
            raise RemoteError(f"--remote supports texts and images, not {item.type}")


def _display(turn_settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes of a turn, in the words of a response about a thread."""
    names = {"sandboxPolicy": "sandbox", "effort": "reasoningEffort"}
    return {names.get(name, name): value for name, value in turn_settings.items() if value is not None}


def _settings(opened: Mapping[str, Any], config: Mapping[str, Any]) -> Settings:
    """Return the settings that the response to the request about a thread says."""
    policy = opened["approvalPolicy"]
    return Settings(
        model=opened["model"],
        provider=ProviderInfo(id=opened["modelProvider"]),
        approval_policy=ApprovalPolicy(policy)
        if isinstance(policy, str)
        else read(GranularApproval, policy["granular"]),
        permissions=permissions_of(sandbox_policy(opened["sandbox"])),
        cwd=Path(opened["cwd"]),
        reasoning_effort=opened.get("reasoningEffort"),
        hide_agent_reasoning=bool(config.get("hide_agent_reasoning")),
        show_raw_agent_reasoning=bool(config.get("show_raw_agent_reasoning")),
    )
