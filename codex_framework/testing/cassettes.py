"""Cassettes of tests: the answers of real models, recorded once and committed with the test.

See the fixture ``cassette`` in :mod:`codex_framework.testing.plugin`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal, TypeAlias

import tomlkit

__all__ = ["MODES", "CassetteFile", "CassetteModes", "cassette_path"]

CassetteModes: TypeAlias = Literal["replay", "record", "missing"]
MODES: tuple[CassetteModes, ...] = ("replay", "record", "missing")

_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_KEPT = ("name", "stream_idle_timeout_ms")
"""Keys of a provider's table that mean something for a cassette."""


def cassette_path(file: Path, test: str) -> Path:
    """Return where the cassette of a test is: in the folder ``cassettes`` beside its file."""
    return file.parent / "cassettes" / f"{file.stem}.{_NOT_IN_NAMES.sub('-', test).strip('-')}.jsonl"


class CassetteFile:
    """Turns a configuration into one that records all its providers, or plays their recording.

    Args:
        path: The file. All providers of a test share it.
        mode: ``replay`` plays it, ``record`` replaces it, and ``missing`` records it if the file does not exist.

    Attributes:
        records: Whether the test asks real servers.
    """

    def __init__(self, path: Path, mode: CassetteModes = "replay") -> None:
        self.path = path
        self.records = mode == "record" or (mode == "missing" and not path.exists())
        self._fresh = self.records
        self._before: bytes | None = None

    def __call__(self, config: str, *, match: Literal["input", "strict", "order"] = "input") -> str:
        """Return the text of a ``config.toml`` with tables that record or play.

        Args:
            config: The text of a ``config.toml``, with a table in ``[model_providers]`` for each provider that is used.
            match: The parts in which a request must equal its recording, as in the table of the provider ``replay``.

        Raises:
            ValueError: The table is missing.
            FileNotFoundError: The recording is missing.
        """
        tables = tomlkit.parse(config).unwrap()
        providers: dict[str, Any] = tables.get("model_providers", {})
        used = tables.get("model_provider")
        if used not in providers:
            raise ValueError(
                f"the configuration has no table [model_providers.{used or 'NAME'}] to record: write one with `base_url`, and set"
                " `model_provider` to it. A built-in provider has no table."
            )
        if self.records:
            self._begin()
            for table in providers.values():
                table["record"] = str(self.path)
        else:
            self._check()
            for name, table in providers.items():
                kept = {key: table[key] for key in _KEPT if key in table}
                providers[name] = {**kept, "wire_api": "replay", "cassette": str(self.path), "match": match}
        return tomlkit.dumps(tables)

    def finish(self) -> str:
        """Put back the earlier recording if no server has answered in the new one. Return a note about it, or an empty text."""
        if not self.records or self._fresh or not self.path.exists() or _has_answer(self.path):
            return ""
        if self._before is None:
            self.path.unlink()
            return f"{self.path} is not recorded, because no request was answered."
        self.path.write_bytes(self._before)
        return f"{self.path} is as before, because no request was answered."

    def _begin(self) -> None:
        if self._fresh:
            if self.path.exists():
                self._before = self.path.read_bytes()
                self.path.unlink()
            self._fresh = False

    def _check(self) -> None:
        if not self.path.exists():
            raise FileNotFoundError(
                f"there is no cassette {self.path}. To record it from the real servers, run pytest with --codex-cassettes=record,"
                " and commit the file."
            )


def _has_answer(path: Path) -> bool:
    """Return whether a recording has the answer to a request, and not only errors."""
    exchanges = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return any("request" in exchange and "error" not in exchange for exchange in exchanges)
