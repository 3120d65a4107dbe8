"""The configuration as one value: the merged tables, and the origin of each key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.config.keys import format_key, lookup, split_key
from codex_framework.contract.errors import ConfigError
from codex_framework.contract.value import Value, field

__all__ = [
    "Config",
    "Layer",
    "Origin",
]


class Origin(Value):
    """The origin of a setting.

    Attributes:
        path: A file, ``-c``, or ``flags``.
        line: The line of the file, starting at 1. None if the setting does not come from a file.
    """

    path: str
    line: int | None = None

    def __str__(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


class Layer(Value):
    """One source of settings.

    Attributes:
        name: ``system``, ``user``, ``profile``, ``project``, ``override``, ``flags`` or ``constraint``.
        path: The file, ``-c`` for overrides, or ``flags`` for flags.
        table: The settings.
        text: The file's text, used to find the lines of errors. None if the source is not a file.
        prefix: The path of the table within the file (for ``[profiles.<name>]``).
        replaces: Keys of which nothing remains that lower layers set.
    """

    name: str
    path: str
    table: Mapping[str, Any] = field(repr=False)
    text: str | None = field(default=None, repr=False)
    prefix: tuple[str, ...] = ()
    replaces: tuple[tuple[str, ...], ...] = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def origin(self, key: Sequence[str | int]) -> Origin:
        """Return the origin of a key in this layer. This scans the text, so call it only for messages."""
        from codex_framework.config.toml_positions import line_of

        return Origin(self.path, None if self.text is None else line_of(self.text, (*self.prefix, *key)))

    def error(self, key: Sequence[str | int], fact: str, *, hint: str = "", slug: str = "config") -> ConfigError:
        """Return an error about a key of this layer. The fact begins with the file and line."""
        origin = self.origin(key)
        return ConfigError(
            f"{origin}: {fact}",
            path=origin.path,
            line=origin.line,
            key=format_key((*self.prefix, *key)),
            slug=slug,
            hint=hint,
        )


class Config(Value, kw_only=True):
    """All settings as plain tables, with their origins.

    Attributes:
        tables: The merged tables of all layers.
        codex_home: The folder with the user's configuration and sessions. It may not exist yet.
        cwd: The absolute path of the working folder.
        warnings: Sentences for the user.
        layers: The sources, from lowest to highest precedence.
        trust: ``trusted``, ``untrusted``, or None if the user has not decided about this project.
        ignores_user: Whether the user's own file was left out.
        constrain: Applies the constraints of plugins. None if there are no constraints, or plugins are not loaded yet.
    """

    tables: Mapping[str, Any]
    codex_home: Path
    cwd: Path
    warnings: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()
    trust: str | None = None
    ignores_user: bool = False
    constrain: Callable[[Config], Config] | None = field(default=None, repr=False)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def constrained(self) -> Config:
        """Return the configuration with the demands of plugins' constraints applied.

        Raises:
            CodexError: A constraint refuses it, or has failed.
        """
        return self if self.constrain is None else self.constrain(self)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value at a dotted key (such as ``"history.persistence"``), or the default."""
        value = lookup(self.tables, split_key(key))
        return default if value is None else value

    def origin(self, key: str) -> Origin | None:
        """Return the origin of the value at a dotted key, or None if nothing sets it.

        For a table, this is the origin of its part with the highest precedence.
        """
        segments = split_key(key)
        layer = self._setter(segments)
        return None if layer is None else layer.origin(segments)

    def error(self, key: str | Sequence[str | int], fact: str, *, hint: str = "", slug: str = "config") -> ConfigError:
        """Return an error about a setting. The fact begins with the file and line of the setting, if it comes from a file.

        Args:
            key: A dotted key, or its segments. Integers are positions in arrays.
            fact: The problem with the setting.
        """
        segments = split_key(key) if isinstance(key, str) else tuple(key)
        layer = self._setter(tuple(part for part in segments if isinstance(part, str)))
        if layer is None:
            return ConfigError(fact, key=format_key(segments), slug=slug, hint=hint)
        return layer.error(segments, fact, hint=hint, slug=slug)

    def _setter(self, segments: Sequence[str]) -> Layer | None:
        """Return the highest layer with this key; otherwise, the highest layer with the nearest enclosing table."""
        for length in range(len(segments), 0, -1):
            for layer in reversed(self.layers):
                if lookup(layer.table, segments[:length]) is not None:
                    return layer
        return None
