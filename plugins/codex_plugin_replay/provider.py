"""The provider. The code that plays replies is imported when it is first selected."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework import ConfigError, ModelClient, ModelError, ModelInfo, ModelProvider, ProviderInfo

if TYPE_CHECKING:
    from codex_framework.testing.scripted import Script
    from codex_plugin_replay.cassette import Cassette

__all__ = ["ReplayProvider"]

_OPTIONS = frozenset({"cassette", "script", "match", "record"})


class ReplayProvider(ModelProvider):
    """Plays the script or cassette of a ``[model_providers.<id>]`` with ``wire_api = "replay"``.

        script = "path"       replies written by hand (see ``codex_framework.testing.script_files``), in order
        cassette = "path"     a recording; each request finds its answer by its content
        match = "input"       for cassettes: ``input``, ``strict`` or ``order``

    A relative path starts at the current folder. All threads of a kernel share one script or cassette, and each answer is played
    once.

    Args:
        tables: The tables of all providers in the configuration. Their cassettes tell the properties of models.
        env: The environment, for paths.
    """

    name = "replay"
    builtin: Mapping[str, ProviderInfo] = {}

    def __init__(self, tables: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None) -> None:
        self._tables = tables or {}
        self._env = env or {}
        self._opened: dict[tuple[str, Path, str], Script | Cassette] = {}
        self._lock = threading.Lock()

    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> ModelClient:
        """Return a client.

        Raises:
            ModelError: The table names neither a script nor a cassette, or both, or an invalid one.
        """
        from codex_framework.testing.scripted import Script
        from codex_plugin_replay.clients import CassetteClient, ScriptClient

        source = self._source(info, env)
        return ScriptClient(source) if isinstance(source, Script) else CassetteClient(source)

    def model(self, slug: str) -> ModelInfo | None:
        """Return the recorded properties of a model, or the usual ones for any name, without a warning: no model answers."""
        for name, table in self._tables.items():
            if isinstance(table, Mapping) and table.get("wire_api") == self.name and "cassette" in table:
                options = {key: value for key, value in table.items() if key in _OPTIONS}
                try:
                    source = self._source(ProviderInfo(id=name, options=options), self._env)
                except ModelError:
                    continue  # told when it is opened
                found: ModelInfo | None = getattr(source, "model", _unknown)(slug)
                if found is not None:
                    return found
        return ModelInfo(slug=slug)

    def _source(self, info: ProviderInfo, env: Mapping[str, str]) -> Script | Cassette:
        """Return the recording of a table, read once.

        Raises:
            ModelError: The table or its file is invalid.
        """
        from codex_framework.testing.script_files import read_script
        from codex_plugin_replay.cassette import Cassette

        kind, path, match = _choice(info, env)
        with self._lock:
            try:
                source = self._opened.get((kind, path, match))
                if source is None:
                    source = read_script(path) if kind == "script" else Cassette.read(path, match=match)
                    self._opened[kind, path, match] = source
            except ConfigError as error:
                raise ModelError(error.fact, info="bad_request", slug=error.slug, hint=error.hint) from error
        return source


def _unknown(slug: str) -> None:
    """Return None: the properties of models in scripts are unknown."""


def _choice(info: ProviderInfo, env: Mapping[str, str]) -> tuple[str, Path, str]:
    """Return ``script`` or ``cassette``, its path, and how requests are matched."""
    table = f"[model_providers.{info.id}]"
    hint = f'Write cassette = "PATH" or script = "PATH" into {table}.'
    if unknown := sorted(set(info.options) - _OPTIONS):
        raise ModelError(
            f"{table} has unknown keys: {', '.join(unknown)}", info="bad_request", slug="replay", hint=hint
        )
    named = {kind: info.options[kind] for kind in ("script", "cassette") if kind in info.options}
    if len(named) != 1:
        fact = f"{table} names a script and a cassette" if named else f"{table} names no script and no cassette"
        raise ModelError(fact, info="bad_request", slug="replay", hint=hint)
    ((kind, path),) = named.items()
    if not isinstance(path, str) or not path:
        raise ModelError(f"{table}: {kind} is {path!r}, not a path", info="bad_request", slug="replay", hint=hint)
    home = env.get("HOME")
    expanded = Path(home, path[2:]) if home and path.startswith("~/") else Path(path)
    return kind, expanded.absolute(), str(info.options.get("match", "input"))
