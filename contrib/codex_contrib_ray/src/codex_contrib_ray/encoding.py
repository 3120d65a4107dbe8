"""Events, answers and versions as JSON."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from typing import Any

from codex_framework.contract.protocol.events import Event, Request, RequestResolvedEvent
from codex_framework.contract.protocol.wire import encode_json, read, read_event
from codex_framework.contract.roles.launchers import LaunchError

__all__ = ["check_versions", "decode_answer", "decode_event", "encode_event", "installed_versions"]

_GROUP = "codex_framework"


def encode_event(event: Event) -> str:
    """Return an event as JSON."""
    return encode_json(event)


def decode_event(text: str) -> Event:
    """Return the event of a JSON text."""
    raw = json.loads(text)
    msg = read_event(raw["msg"])
    if isinstance(msg, Request):
        msg = msg.with_id(raw["request_id"])
    elif isinstance(msg, RequestResolvedEvent):
        msg = msg.evolve(request_id=raw["request_id"])
    return Event(raw["id"], msg, thread_id=raw.get("thread_id", ""), number=raw["number"])


def decode_answer(request: Any, text: str) -> object:
    """Return the answer to a request. Raises WireError if it is not of the request's type."""
    return read(request.answer_type, json.loads(text))


def installed_versions() -> dict[str, str]:
    """Return the versions of codex-framework and of the distributions with plugins for it."""
    dists = {
        entry.dist.name: entry.dist.version for entry in importlib.metadata.entry_points(group=_GROUP) if entry.dist
    }
    return {**dists, "codex-framework": importlib.metadata.version("codex-framework")}


def check_versions(worker: str, versions: Mapping[str, str]) -> None:
    """Check that a worker has the versions of this process, as far as both have a distribution.

    Raises:
        LaunchError: It has not.
    """
    own = installed_versions()
    different = [name for name in sorted(own) if versions.get(name, own[name]) != own[name]]
    if different:
        told = ", ".join(f"{name} {own[name]} here and {versions[name]} there" for name in different)
        fact = f"this program and the worker {worker} have different versions: {told}"
        raise LaunchError(fact, slug="versions", hint="Install the same versions on all machines.")
