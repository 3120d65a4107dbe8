"""The request that a turn would send, caught before it leaves, with the source of each part."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework import Kernel
from codex_framework.config import Config, load_config
from codex_framework.contract.errors import CodexError, StopTurn, ThreadError
from codex_framework.contract.hookspecs import hookimpl
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.contract.protocol.items import Message, ResponseItem
from codex_framework.contract.protocol.ops import LocalImageInput, TextInput, UserInputItem
from codex_framework.contract.protocol.wire import encode_item, to_wire
from codex_framework.contract.roles.interceptors import Interceptor
from codex_framework.contract.roles.models import ModelEvent, ModelRequest
from codex_framework.contract.roles.provenance import KIND
from codex_framework.contract.roles.stores import (
    PluginEntry,
    StoredThread,
    ThreadEntry,
    ThreadMeta,
    ThreadRecorder,
    ThreadStore,
)
from codex_framework.contract.roles.threads import TurnContext
from codex_framework.contract.value import Value
from codex_framework.toolkit.item_marks import item_mark

__all__ = ["Caught", "Part", "caught"]

_NAME = "debug-prompt"
_BYTES_PER_TOKEN = 4
"""Codex's estimate."""

_CAUGHT = "the request was caught"
_NO_PROMPT = "-"
"""The prompt of a turn without one, which is left out of the result."""

_INSTRUCTIONS = ("model_instructions_file", "experimental_instructions_file", "base_instructions")


class Part(Value, kw_only=True):
    """A part of a request.

    Attributes:
        kind: ``instructions``, ``tool``, the role of a message, or the type of another item.
        source: Its source, in words.
        name: The name of a tool. Empty for other parts.
        plugin: The plugin of the source. Empty without a plugin.
    """

    kind: str
    source: str
    text: str
    name: str = ""
    plugin: str = ""

    @property
    def tokens(self) -> int:
        """The estimated number of tokens: a quarter of the bytes."""
        return -(-len(self.text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


class Caught(Value, kw_only=True):
    """A request that was not sent.

    Attributes:
        input: The items in the form of the wire.
        warnings: The warnings of the kernel and plugins.
    """

    model: str
    provider: str
    parts: Sequence[Part]
    input: Sequence[Mapping[str, Any]]
    warnings: Sequence[str]


async def caught(
    prompt: str | None,
    *,
    overrides: Sequence[str] = (),
    profile: str | None = None,
    cwd: Path | None = None,
    images: Sequence[str] = (),
    session: str | None = None,
    plugins: Sequence[Path] = (),
) -> Caught:
    """Run a turn up to its first request, and return the request. Nothing is sent to the model, and nothing is saved.

    Args:
        prompt: None shows the context alone.
        overrides: ``-c`` arguments.
        session: The id, name or file of a stored thread that the turn would continue.

    Raises:
        CodexError: The turn could not start, or something refused its input.
    """
    folder = cwd or Path.cwd()
    config = load_config(cwd=folder, environ=os.environ, profile=profile, overrides=overrides)
    wanted = str(config.get("framework.thread_store") or "rollout")
    own = (*overrides, f"framework.thread_store={json.dumps(_NAME)}")
    config = load_config(cwd=folder, environ=os.environ, profile=profile, overrides=own)
    net = _Net()
    async with await Kernel.create(config, plugins=[*plugins, _Plugin(net)]) as kernel:
        net.store = kernel.registry.thread_stores.get(wanted)
        thread = await kernel.start_thread() if session is None else await kernel.resume_thread(session)
        conversation = thread.conversation
        conversation.host.models.use(conversation.settings.provider, _NoClient())  # so that no key is needed
        past = {_mark(item) for item in thread.history.items}
        inputs: list[UserInputItem] = [*map(LocalImageInput, images), TextInput(prompt or _NO_PROMPT)]
        result = await thread.run(inputs)
        if net.request is None:
            raise CodexError(
                f"the turn made no request: {result.error or 'something ended it'}",
                slug="debug-prompt",
                hint="Fix what refused the turn, or disable the plugin that did.",
            )
        items = list(net.request.prompt.items)
        if not prompt and not images:
            items.pop()
        return Caught(
            model=net.request.model.slug,
            provider=conversation.settings.provider.id,
            parts=list(_parts(net, net.request, items, kernel, config, past)),
            input=list(map(to_wire, items)),
            warnings=[msg.message for msg in result.events if isinstance(msg, WarningEvent) and msg.message != _CAUGHT],
        )


class _NoClient:
    """The client of a provider to which nothing is sent."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:  # noqa: ARG002
        """Refuse: the request was caught before."""
        nothing: tuple[ModelEvent, ...] = ()
        for event in nothing:  # makes it a generator
            yield event
        raise StopTurn(_CAUGHT)

    async def aclose(self) -> None:
        """Do nothing."""


class _Catcher(Interceptor):
    """Keeps the request, after all other interceptors, and ends the turn."""

    name = _NAME
    order = 1 << 30

    def __init__(self, net: _Net) -> None:
        self._net = net

    async def request(self, request: ModelRequest, turn: TurnContext) -> ModelRequest:  # noqa: ARG002
        self._net.request = request
        raise StopTurn(_CAUGHT)


class _Net(ThreadStore):
    """A thread store that reads from another store and keeps the entries of a turn.

    Attributes:
        store: The other store.
        entries: The record.
        request: The request of the turn.
    """

    name = _NAME
    path: str | None = None

    def __init__(self) -> None:
        self.store: ThreadStore | None = None
        self.entries: list[ThreadEntry] = []
        self.request: ModelRequest | None = None

    def create(self, meta: ThreadMeta, codex_home: str) -> ThreadRecorder:  # noqa: ARG002
        return self

    def reopen(self, stored: StoredThread, codex_home: str) -> ThreadRecorder:  # noqa: ARG002
        return self

    def load(self, thread_id: str, codex_home: str) -> StoredThread:
        if self.store is None:
            raise ThreadError("no plugin stores threads", slug="no-store", hint="Enable the plugin `rollout`.")
        return self.store.load(thread_id, codex_home)

    def latest(self, codex_home: str, *, cwd: str | None = None) -> str | None:
        return None if self.store is None else self.store.latest(codex_home, cwd=cwd)

    def append(self, entries: Sequence[ThreadEntry]) -> None:
        self.entries += entries

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Plugin:
    """The plugin that catches the request."""

    def __init__(self, net: _Net) -> None:
        self._net = net

    @hookimpl
    def codex_interceptors(self) -> Iterable[Interceptor]:
        return [_Catcher(self._net)]

    @hookimpl
    def codex_thread_stores(self) -> Iterable[ThreadStore]:
        return [self._net]


def _parts(
    net: _Net, request: ModelRequest, items: Sequence[ResponseItem], kernel: Kernel, config: Config, past: set[str]
) -> Iterator[Part]:
    if request.instructions:
        key = next((key for key in _INSTRUCTIONS if config.get(key)), None)
        source = f"the setting {key}" if key else f"the model {request.model.slug}"
        yield Part(kind="instructions", source=source, text=request.instructions)
    for spec in request.tools:
        wire = to_wire(spec)
        name = str(wire.get("name") or wire.get("type") or "")
        plugin = kernel.registry.owners.get(("tools", name), "")
        source = "a tool" if plugin else "a tool of the thread, such as a tool of an MCP server"
        yield Part(kind="tool", name=name, source=source, plugin=plugin, text=json.dumps(wire, ensure_ascii=False))
    known = _sources(net.entries)
    for item in items:
        yield from _of_item(item, known, past)


def _of_item(
    item: ResponseItem, known: Mapping[tuple[str, int | None], tuple[str, str]], past: set[str]
) -> Iterator[Part]:
    mark = _mark(item)
    given = ("the session", "") if mark in past else known.get((mark, None), ("the prompt", ""))
    if not isinstance(item, Message):
        text = json.dumps(to_wire(item), ensure_ascii=False)
        yield Part(kind=str(item.type), source=given[0], plugin=given[1], text=text)
        return
    for number, part in enumerate(item.content):
        source, plugin = known.get((mark, number), given)
        own = getattr(part, "text", None)
        shown = own if isinstance(own, str) else json.dumps(to_wire(part), ensure_ascii=False)
        yield Part(kind=item.role, source=source, plugin=plugin, text=shown)


def _sources(entries: Sequence[ThreadEntry]) -> dict[tuple[str, int | None], tuple[str, str]]:
    """Return who added or changed an item, by its mark, and a part of an item, by its mark and position."""
    found: dict[tuple[str, int | None], tuple[str, str]] = {}
    for entry in entries:
        if not isinstance(entry, PluginEntry) or entry.kind != KIND:
            continue
        data = entry.data
        for source in data.get("sources", ()):
            found[source["item"], source["part"]] = _actor(source["by"])
        for mark in data.get("items", ()):
            if data["did"] in ("added", "changed"):
                found.setdefault((mark, None), _actor(data["by"]))
    return found


def _mark(item: ResponseItem) -> str:
    return item_mark(json.loads(encode_item(item)))


def _actor(by: Mapping[str, Any]) -> tuple[str, str]:
    causes = ", ".join(by.get("causes", ()))
    words = " ".join(filter(None, (by["role"], by.get("name", ""))))
    return f"{words} (because of {causes})" if causes else words, str(by.get("plugin", ""))
