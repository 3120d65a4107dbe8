"""The configuration: settings and their sources, and writing the user's file."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework import ConfigError, UserConfig, Value
from codex_framework.config import Config, Layer
from codex_framework.config.editing.files import change_file
from codex_framework.config.editing.text import NotATableError, with_value, without_key
from codex_framework.config.keys import format_key, lookup, merge, split_key
from codex_framework.config.target import Target
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.server import Call, Server
from codex_plugin_app_server.table import Json, MethodTable

__all__ = ["current_config", "table"]

table = MethodTable()


@table.method("config/read", "ConfigReadParams", "ConfigReadResponse", concurrent=True)
async def read_config(call: Call) -> Json:
    """Return the configuration as the files are now, in a folder, with the layer that sets each key."""
    config = await asyncio.to_thread(current_config, call.server, call.params.get("cwd"))
    layers = [(layer, _source(layer)) for layer in config.layers]
    origins: dict[str, Any] = {}
    for layer, source in layers:
        if source is not None:
            metadata = {"name": source, "version": _version(layer.table)}
            origins |= {format_key(key): metadata for key in _leaves((), layer.table)}
    shown = [
        {"name": source, "version": _version(layer.table), "config": _plain(layer.table)}
        for layer, source in reversed(layers)
        if source is not None
    ]
    return {
        "config": _plain(config.tables),
        "origins": origins,
        "layers": shown if call.params.get("includeLayers") else None,
    }


@table.method("config/value/write", "ConfigValueWriteParams", "ConfigWriteResponse")
async def write_value(call: Call) -> Json:
    """Set one key of the user's file."""
    return await _write(call, [call.params])


@table.method("config/batchWrite", "ConfigBatchWriteParams", "ConfigWriteResponse")
async def write_batch(call: Call) -> Json:
    """Set several keys of the user's file, all or none."""
    written = await _write(call, call.params["edits"])
    if call.params.get("reloadUserConfig"):
        for sentence in await call.server.kernels.reload_user_config():
            call.connection.notify("configWarning", {"summary": sentence, "details": None})
    return written


def current_config(server: Server, cwd: str | None) -> Config:
    """Return the configuration of a folder, with the settings of the server's command line. Raises ConfigError."""
    own = server.kernel.config
    config = server.kernels.load_config(None if cwd is None else Path(cwd))
    return config.evolve(constrain=own.constrain).constrained()


class _Edit(Value):
    """A change of one key. The value None removes it."""

    key: tuple[str, ...]
    value: Any
    merges: bool

    def apply(self, text: str, tables: Mapping[str, Any]) -> str:
        """Return the changed text of a file with these tables. Raises NotATableError."""
        if self.value is None:
            return without_key(text, self.key)
        value, old = self.value, lookup(tables, self.key)
        if self.merges and isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merge(old, value)
        return with_value(text, self.key, value)


async def _write(call: Call, edits: Sequence[Json]) -> Json:
    """Change the user's file, and return the response. Raises RpcError and ConfigError."""
    own = call.server.kernel.config
    user = UserConfig(own.codex_home)
    path = call.params.get("filePath")
    if path is not None and os.path.realpath(path) != os.path.realpath(user.path):
        raise _refusal("configLayerReadonly", f"Only writes to the user config are allowed: {user.path}")
    expected = call.params.get("expectedVersion")
    changes = [_Edit(_key(edit["keyPath"]), edit["value"], edit["mergeStrategy"] == "upsert") for edit in edits]
    if any(_has_null(edit.value) for edit in changes if edit.value is not None):
        raise _refusal("configValidationError", "invalid value: invalid type: null, expected any valid TOML value")

    def change(text: str) -> str:
        import tomlkit

        if expected is not None and expected != _version(tomlkit.parse(text).unwrap()):
            raise _refusal(
                "configVersionConflict",
                "Configuration was modified since last read. Fetch latest version and retry.",
            )
        for edit in changes:
            try:
                text = edit.apply(text, tomlkit.parse(text).unwrap())
            except NotATableError as error:
                named = format_key(error.path)
                raise _refusal("configValidationError", f"`{named}` is not a table: {format_key(edit.key)}") from None
        return text

    def write() -> tuple[Mapping[str, Any], Config]:
        target = Target(kind="user", path=user.path, home=own.codex_home)
        try:
            change_file(user.path, change, lambda content: target.check(content, os.environ))
        except ConfigError as error:
            raise _refusal("configValidationError", f"Invalid configuration: {error}") from None
        return user.tables(), current_config(call.server, None)

    tables, config = await asyncio.to_thread(write)
    overridden = _overridden(config, changes)
    return {
        "status": "ok" if overridden is None else "okOverridden",
        "version": _version(tables),
        "filePath": str(user.path),
        "overriddenMetadata": overridden,
    }


def _overridden(config: Config, changes: Sequence[_Edit]) -> Json | None:
    """Return which layer above the user's sets one of the written keys to something else, or None."""
    above = config.layers[
        max((place for place, layer in enumerate(config.layers) if layer.name == "user"), default=-1) + 1 :
    ]
    for edit in changes:
        for layer in reversed(above):
            value, source = lookup(layer.table, edit.key), _source(layer)
            if value is not None and value != edit.value and source is not None:
                return {
                    "message": f"Overridden by {layer.path}",
                    "overridingLayer": {"name": source, "version": _version(layer.table)},
                    "effectiveValue": _plain(lookup(config.tables, edit.key)),
                }
    return None


def _key(path: str) -> tuple[str, ...]:
    try:
        return tuple(split_key(path))
    except ValueError as error:
        raise _refusal("configValidationError", f"Invalid key path: {error}") from None


def _has_null(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_null, value.values()))
    return any(map(_has_null, value)) if isinstance(value, list) else value is None


def _refusal(code: str, message: str) -> RpcError:
    return RpcError(message, data={"config_write_error_code": code})


def _source(layer: Layer) -> Json | None:
    """Return the source of a layer as ``ConfigLayerSource``, or None if that has no name for it."""
    match layer.name:
        case "system":
            return {"type": "system", "file": layer.path}
        case "user":
            return {"type": "user", "file": layer.path, "profile": None}
        case "profile":
            return {
                "type": "user",
                "file": layer.path,
                "profile": layer.prefix[-1] if layer.prefix else Path(layer.path).stem,
            }
        case "project":
            return {"type": "project", "dotCodexFolder": str(Path(layer.path).parent)}
        case "override" | "flags":
            return {"type": "sessionFlags"}
        case _:
            return None


def _version(tables: Mapping[str, Any]) -> str:
    """Return the version of a layer: a digest of its values, which comments and spacing do not change."""
    text = json.dumps(tables, sort_keys=True, default=str, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()}"


def _plain(value: Any) -> Any:
    """Return a value of TOML as JSON, which has no dates."""
    return json.loads(json.dumps(value, default=str))


def _leaves(place: tuple[str, ...], value: Any) -> Iterator[tuple[str, ...]]:
    """Yield the key of every value that is not a table or a list, with positions in lists."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _leaves((*place, name), part)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _leaves((*place, str(number)), part)
    else:
        yield place
