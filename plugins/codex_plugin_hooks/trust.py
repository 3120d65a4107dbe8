"""The user's trust in hooks: the hash of a definition, stored in ``[hooks.state."<key>"]`` of the user's ``config.toml``.

Codex computes the same hashes and stores them in the same place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework import ConfigLayer
from codex_plugin_hooks.names import HookEvent

__all__ = ["definition_hash", "states"]


def definition_hash(event: HookEvent, matcher: str | None, handler: Mapping[str, Any]) -> str:
    """Return the hash of a definition: of its event, matcher, command, time limit, mode and status message."""
    identity: dict[str, Any] = {"event_name": event.key, "hooks": [dict(handler)]}
    if matcher is not None:
        identity["matcher"] = matcher
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def states(layers: Sequence[ConfigLayer]) -> dict[str, Mapping[str, Any]]:
    """Return the user's decisions by the key of a hook. Decisions in projects do not count."""
    found: dict[str, Mapping[str, Any]] = {}
    for layer in layers:
        hooks = layer.table.get("hooks")
        table = hooks.get("state") if isinstance(hooks, Mapping) and layer.name != "project" else None
        for key, state in table.items() if isinstance(table, Mapping) else ():
            if isinstance(state, Mapping):
                found[key] = {**found.get(key, {}), **state}
    return found
