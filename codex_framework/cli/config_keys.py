"""Completion of the keys and values of the configuration in shells."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from codex_framework.config.schema import Key

__all__ = [
    "ProfileType",
    "SetKey",
    "SettableKey",
    "ValueArgument",
    "profile_names",
    "settable_keys",
    "setting_of",
    "tables_of",
]

if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:  # click 8.1 has no type parameter
    _TextType = click.ParamType

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class SettableKey(_TextType):
    """A key that can be set. The schema, existing tables and the settings of plugins define keys."""

    name = "key"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the keys that start with ``incomplete``."""
        return _items(settable_keys(tables_of(ctx), incomplete), incomplete)


class SetKey(_TextType):
    """A key that is set, or the name of a table."""

    name = "key"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the keys that start with ``incomplete``."""
        return _items(((key, "") for key in _set_keys(tables_of(ctx))), incomplete)


class ValueArgument(_TextType):
    """A value. The choices depend on the key before it."""

    name = "value"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the values that the key may have, if they are known."""
        key = str(ctx.params.get("key") or "")
        if key == "profile":
            return _items(((name, "") for name in profile_names(tables_of(ctx))), incomplete)
        if key == "model_provider":
            return _items(((name, "") for name in _names(tables_of(ctx).get("model_providers"))), incomplete)
        setting = setting_of(key)
        return _items(((choice, "") for choice in _choices(setting.type)) if setting else (), incomplete)


class ProfileType(_TextType):
    """The name of a profile."""

    name = "name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the existing profiles."""
        return _items(((name, "") for name in profile_names(tables_of(ctx))), incomplete)


def setting_of(key: str) -> Key | None:
    """Return the schema's entry for a dotted key, or None if it is unknown or a table."""
    from codex_framework.config.keys import split_key
    from codex_framework.config.schema import KEYS

    try:
        parts = split_key(key)
    except ValueError:
        return None
    for name, setting in KEYS.items():
        pattern = name.split(".")
        if len(pattern) == len(parts) and all(one in ("*", other) for one, other in zip(pattern, parts, strict=True)):
            return setting
    return None


def _choices(kind: str) -> list[str]:
    if kind == "bool":
        return ["true", "false"]
    return re.findall(r'"([^"]+)"', kind)


def _items(keys: Iterable[tuple[str, str]], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(key, help=text or None) for key, text in dict(keys).items() if key.startswith(incomplete)]


def tables_of(ctx: click.Context) -> Mapping[str, Any]:
    """Return the settings that the command works on. Errors are ignored while a key is being typed."""
    from codex_framework.config import load_config
    from codex_framework.contract.errors import CodexError

    try:
        return load_config(cwd=Path.cwd(), environ=os.environ, profile=ctx.params.get("profile")).tables
    except (CodexError, OSError):
        return {}


def settable_keys(tables: Mapping[str, Any], incomplete: str) -> Iterator[tuple[str, str]]:
    """Return the keys that may be set, with their meanings. Names that are being typed take the place of stars."""
    from codex_framework.config.schema import KEYS

    typed = incomplete.split(".")[:-1]
    if len(typed) > 1 and typed[0] == "profiles":  # a profile may contain any key
        rest = incomplete.split(".", 2)[2]
        yield from ((f"profiles.{typed[1]}.{key}", text) for key, text in settable_keys({}, rest))
        return
    for pattern, setting in KEYS.items():
        if not pattern.endswith("_*"):
            for key in _expand_stars(pattern.split("."), tables, typed, ()):
                yield key, setting.meaning
    if incomplete.startswith("framework.plugins."):
        yield from _plugin_keys()


def _expand_stars(pattern: list[str], tables: Any, typed: list[str], before: tuple[str, ...]) -> Iterator[str]:
    """Replace the stars of a pattern: by the name that is typed, else by the names that exist."""
    if not pattern:
        yield ".".join(before)
        return
    if typed and pattern[0] not in ("*", typed[0]):
        return
    names = [pattern[0]]
    if pattern[0] == "*":
        names = typed[:1] or sorted({*_names(tables), *_known_names(before)})
    for name in names:
        inner = tables.get(name) if isinstance(tables, Mapping) else None
        yield from _expand_stars(pattern[1:], inner, typed[1:], (*before, name))


def _known_names(table: tuple[str, ...]) -> Iterable[str]:
    from codex_framework.config.schema import features

    return features() if table == ("features",) else ()


def _plugin_keys() -> Iterator[tuple[str, str]]:
    """Return the settings of the installed plugins that declare them."""
    from codex_framework.config.plugin_keys import plugin_keys
    from codex_framework.contract.errors import CodexError
    from codex_framework.loader.registry import load_registry

    try:
        registry = load_registry({}, tolerant=True)
    except CodexError:
        return
    for report in registry.reports:
        for key in plugin_keys(report.settings) if report.settings else ():
            yield f"framework.plugins.{report.name}.{key.name}", key.meaning


def _set_keys(table: Any, before: str = "") -> Iterator[str]:
    for name in _names(table):
        key = f"{before}{name}"
        yield key
        yield from _set_keys(table[name], f"{key}.")


def _names(table: Any) -> list[str]:
    """Return the keys of a table that can be typed without quotes."""
    return [name for name in table if _BARE.fullmatch(name)] if isinstance(table, Mapping) else []


def profile_names(tables: Mapping[str, Any]) -> list[str]:
    """Return the names of the profiles in a configuration and in separate files."""
    from codex_framework.config import find_codex_home
    from codex_framework.contract.errors import CodexError

    try:
        files = find_codex_home(os.environ).glob("?*.config.toml")
        return sorted({*_names(tables.get("profiles")), *(file.name.removesuffix(".config.toml") for file in files)})
    except CodexError:
        return []
