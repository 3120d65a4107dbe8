"""The user's own ``config.toml``, for plugins and programs that save a decision of the user."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.config.target import Target
from codex_framework.config.toml_file import read_toml
from codex_framework.contract.value import Value

__all__ = ["UserConfig"]


class UserConfig(Value):
    """The file ``config.toml`` in ``$CODEX_HOME``, without the other layers of the configuration.

    Edits keep its comments, order and spacing. They are made under a lock, checked by the reader of the whole configuration,
    and written in one step, so that the file is never half-written or invalid. They may wait for another writer, so call them
    in a separate thread from ``async`` code. A running thread keeps the configuration that it has read.

    Attributes:
        codex_home: The folder, such as ``PluginContext.codex_home``.
    """

    codex_home: Path

    @property
    def path(self) -> Path:
        """The file. It may not exist, and may be a symlink."""
        return self.codex_home / "config.toml"

    def tables(self) -> Mapping[str, Any]:
        """Return the content of the file, which is empty if there is no file.

        Raises:
            ConfigError: The file is not TOML or cannot be read.
        """
        content = read_toml(self.path)
        return {} if content is None else content[0]

    def set(self, key: Sequence[str], value: Any) -> bool:
        """Set one key. The file, its folder and the tables around the key are created if they are missing.

        Args:
            key: The segments of the key, such as ``("mcp_servers", "docs", "enabled")``.
            value: A value that TOML supports. A table replaces the old table; equal entries are unchanged.

        Returns:
            Whether the file has changed.

        Raises:
            ConfigError: The file is invalid, would become invalid, or cannot be written. The file is unchanged.
        """
        from codex_framework.config.editing.files import set_path

        return set_path(self.path, key, value, self._check)

    def clear(self, key: Sequence[str]) -> bool:
        """Remove one key, or a table with all its entries. Comments stay.

        Returns:
            Whether the key existed.

        Raises:
            ConfigError: As for :meth:`set`.
        """
        from codex_framework.config.editing.files import clear_path

        return clear_path(self.path, key, self._check)

    def _check(self, content: bytes) -> None:
        Target(kind="user", path=self.path, home=self.codex_home).check(content, os.environ)
