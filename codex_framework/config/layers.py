"""The configuration: layers from files, ``-c`` and flags, merged into one value.

From low to high: ``/etc/codex/config.toml``; ``$CODEX_HOME/config.toml``; the chosen profile (``[profiles.<name>]``, then
``$CODEX_HOME/<name>.config.toml``); ``.codex/config.toml`` from the project's root down to the working folder, if the project
is trusted; ``-c key=value``; flags.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from codex_framework.config.checking import check_layer, check_merged
from codex_framework.config.keys import dotted, lookup, merge, nested, split_key
from codex_framework.config.paths import with_absolute_paths
from codex_framework.config.toml_file import parse_override, read_toml
from codex_framework.config.trust import git_root, main_checkout, project_root, trust_level
from codex_framework.errors import ConfigError
from codex_framework.value import Value

__all__ = ["SYSTEM_CONFIG", "Config", "Layer", "Origin", "find_codex_home", "load_config"]

SYSTEM_CONFIG = Path("/etc/codex/config.toml")
"""The administrator's file (Codex's place)."""

_NOT_FROM_PROJECTS = (
    "openai_base_url",
    "chatgpt_base_url",
    "apps_mcp_product_sku",
    "model_provider",
    "model_providers",
    "notify",
    "profile",
    "profiles",
    "experimental_realtime_ws_base_url",
    "otel",
)
"""Keys that a project's own file may not set: they name servers and programs that see everything (Codex's list)."""


class Origin(Value):
    """Where a setting comes from.

    Attributes:
        path: A file, or ``-c``, or ``flags``.
        line: 1-based line of the file.
    """

    path: str
    line: int | None = None

    def __str__(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


@attrs.frozen(eq=False)
class Layer:
    """One source of settings.

    Attributes:
        name: ``system``, ``user``, ``profile``, ``project``, ``override`` or ``flags``.
        path: The file; ``-c`` for overrides; ``flags`` for flags.
        table: What it sets.
        text: The file's text, kept to find lines when something is wrong.
        prefix: Where in the file the table stands (for ``[profiles.<name>]``).
    """

    name: str
    path: str
    table: Mapping[str, Any] = attrs.field(repr=False)
    text: str | None = attrs.field(default=None, repr=False)
    prefix: tuple[str, ...] = ()

    def origin(self, key: Sequence[str | int]) -> Origin:
        """Where in this layer a key stands. Scans the text, so ask only when there is something to report."""
        from codex_framework.config.lines import line_of

        return Origin(self.path, None if self.text is None else line_of(self.text, (*self.prefix, *key)))

    def error(self, key: Sequence[str | int], fact: str, *, hint: str = "", slug: str = "config") -> ConfigError:
        """An error about a key of this layer; the fact begins with file and line."""
        origin = self.origin(key)
        return ConfigError(
            f"{origin}: {fact}",
            path=origin.path,
            line=origin.line,
            key=dotted((*self.prefix, *key)),
            slug=slug,
            hint=hint,
        )


@attrs.frozen(eq=False, kw_only=True)
class Config:
    """All settings, as plain tables, and where each comes from.

    Attributes:
        tables: Everything merged.
        codex_home: The folder with the user's configuration and sessions; it may not exist yet.
        cwd: The working folder, absolute.
        warnings: Sentences for the user.
        layers: The sources, lowest first.
        trust: ``trusted``, ``untrusted``, or None where nobody has decided about this project.
    """

    tables: Mapping[str, Any]
    codex_home: Path
    cwd: Path
    warnings: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()
    trust: str | None = None

    def get(self, key: str, default: Any = None) -> Any:
        """The value at a dotted key (``"history.persistence"``), or the default."""
        value = lookup(self.tables, split_key(key))
        return default if value is None else value

    def origin(self, key: str) -> Origin | None:
        """Where the value at a dotted key comes from; None if nothing sets it. For a table: its highest part."""
        segments = split_key(key)
        layer = self._setter(segments)
        return None if layer is None else layer.origin(segments)

    def error(self, key: str | Sequence[str | int], fact: str, *, hint: str = "", slug: str = "config") -> ConfigError:
        """An error about a setting; the fact begins with file and line where the setting has been made.

        Args:
            key: Dotted, or its segments (integers are positions in arrays).
            fact: What is wrong with it.
        """
        segments = split_key(key) if isinstance(key, str) else tuple(key)
        layer = self._setter(tuple(part for part in segments if isinstance(part, str)))
        if layer is None:
            return ConfigError(fact, key=dotted(segments), slug=slug, hint=hint)
        return layer.error(segments, fact, hint=hint, slug=slug)

    def _setter(self, segments: Sequence[str]) -> Layer | None:
        """The highest layer with this key; where there is none, the highest with the nearest table around it."""
        for length in range(len(segments), 0, -1):
            for layer in reversed(self.layers):
                if lookup(layer.table, segments[:length]) is not None:
                    return layer
        return None


def load_config(
    *,
    cwd: Path | str,
    environ: Mapping[str, str],
    codex_home: Path | str | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    ignore_user_config: bool = False,
    system_config: Path | None = None,
) -> Config:
    """Read and check all layers.

    Args:
        cwd: The working folder.
        environ: For ``CODEX_HOME`` and ``HOME``.
        codex_home: Instead of ``$CODEX_HOME``; need not exist.
        profile: Name of the profile to use, instead of the key ``profile``.
        overrides: ``-c`` arguments: ``key=value``.
        flags: Dotted keys and values from other flags; they beat everything.
        ignore_user_config: Leave out ``$CODEX_HOME/config.toml`` (and so its profiles); the rest is read.
        system_config: Instead of ``/etc/codex/config.toml``.

    Raises:
        ConfigError: A file cannot be read or is not TOML; a key is unknown or mistyped; there is no such profile; the home
            does not exist. The fact names file and line, the hint says what to do.
    """
    folder = Path(os.path.normpath(Path.cwd() / cwd))
    home = find_codex_home(environ) if codex_home is None else Path(os.path.normpath(Path.cwd() / codex_home))
    assigned = _assigned(overrides, flags or {}, folder, environ)

    def read(name: str, path: Path) -> Iterator[Layer]:
        found = read_toml(path)
        if found is not None:
            yield Layer(name, str(path), with_absolute_paths(found[0], path.parent, environ), found[1])

    layers = [*read("system", system_config or SYSTEM_CONFIG)]
    if not ignore_user_config:
        layers += read("user", home / "config.toml")
    layers += _profile_layers(profile, [*layers, *assigned], home, read)
    trust, projects, warnings = _project_layers(folder, home, _merged([*layers, *assigned]), read)
    layers += [*projects, *assigned]

    tables = _merged(layers)
    lenient = lookup(tables, ("framework", "unknown_keys")) == "warn"
    for layer in layers:
        warnings += check_layer(layer, lenient=lenient)
    config = Config(
        tables=tables, codex_home=home, cwd=folder, warnings=tuple(warnings), layers=tuple(layers), trust=trust
    )
    check_merged(config)
    return config


def find_codex_home(environ: Mapping[str, str]) -> Path:
    """``$CODEX_HOME``, else ``~/.codex``.

    Raises:
        ConfigError: ``$CODEX_HOME`` is set, but there is no such folder; or there is no home at all.
    """
    named = environ.get("CODEX_HOME")
    if not named:
        return _user_home(environ) / ".codex"
    path = Path(os.path.normpath(Path.cwd() / named))
    if path.is_dir():
        return path
    if path.exists():
        raise ConfigError(
            f"CODEX_HOME is {named!r}, which is not a folder",
            key="CODEX_HOME",
            slug="codex-home",
            hint="Set CODEX_HOME to a folder, or unset it to use ~/.codex.",
        )
    raise ConfigError(
        f"CODEX_HOME is {named!r}, but there is no such folder",
        key="CODEX_HOME",
        slug="codex-home",
        hint=f"Create it (mkdir -p {named}), or unset CODEX_HOME to use ~/.codex.",
    )


def _user_home(environ: Mapping[str, str]) -> Path:
    named = environ.get("HOME")
    if named and Path(named).is_absolute():
        return Path(named)
    try:
        return Path.home()
    except RuntimeError:
        raise ConfigError(
            "your home folder is not known: HOME is not set",
            key="CODEX_HOME",
            slug="codex-home",
            hint="Set HOME, or set CODEX_HOME to the folder for configuration and sessions.",
        ) from None


def _merged(layers: Sequence[Layer]) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    for layer in layers:
        tables = merge(tables, layer.table)
    return tables


def _assigned(overrides: Sequence[str], flags: Mapping[str, Any], cwd: Path, environ: Mapping[str, str]) -> list[Layer]:
    layers = []
    given: dict[str, Any] = {}
    for argument in overrides:
        given = merge(given, nested(*parse_override(argument)))
    if given:
        layers.append(Layer("override", "-c", with_absolute_paths(given, cwd, environ)))
    set_by_flags: dict[str, Any] = {}
    for key, value in flags.items():
        set_by_flags = merge(set_by_flags, nested(split_key(key), value))
    if set_by_flags:
        layers.append(Layer("flags", "flags", with_absolute_paths(set_by_flags, cwd, environ)))
    return layers


_Read = Callable[[str, Path], Iterator[Layer]]


def _profile_layers(wanted: str | None, layers: Sequence[Layer], home: Path, read: _Read) -> list[Layer]:
    tables = _merged(layers)
    name = wanted or tables.get("profile")
    if not isinstance(name, str):  # a mistyped `profile` is reported by the check
        return []
    found = [
        Layer("profile", layer.path, table, layer.text, ("profiles", name))
        for layer in layers
        if isinstance(table := lookup(layer.table, ("profiles", name)), Mapping)
    ]
    if name and not {"/", "\\", "\0"} & set(name):
        found += read("profile", home / f"{name}.config.toml")
    if found:
        return found
    known = sorted({*_names(tables.get("profiles")), *_profile_files(home)})
    raise ConfigError(
        f"there is no profile {name!r}" + (f"; there are: {', '.join(known)}" if known else "; there are none"),
        key="profile",
        slug="profile",
        hint=f"Write its settings into {home / f'{name}.config.toml'}, or name another profile.",
    )


def _names(table: Any) -> list[str]:
    return list(table) if isinstance(table, Mapping) else []


def _profile_files(home: Path) -> list[str]:
    return [file.name.removesuffix(".config.toml") for file in home.glob("?*.config.toml")]


def _project_layers(
    cwd: Path, home: Path, tables: Mapping[str, Any], read: _Read
) -> tuple[str | None, list[Layer], list[str]]:
    """The project's trust level, its layers, and warnings about what is left out of them."""
    projects = tables.get("projects")
    trust = trust_level(projects if isinstance(projects, Mapping) else {}, cwd)
    markers = tables.get("project_root_markers")
    root = project_root(cwd, [str(name) for name in markers] if isinstance(markers, list) else (".git",))
    below = [cwd, *cwd.parents]
    folders = reversed(below[: below.index(root) + 1])
    files = [file for folder in folders if (file := folder / ".codex" / "config.toml") != home / "config.toml"]
    if trust == "trusted":
        layers, warnings = [], []
        for file in files:
            for layer in read("project", file):
                kept, ignored = _without_denied(layer)
                layers.append(kept)
                warnings += ignored
        return trust, layers, warnings
    present = [str(file) for file in files if file.is_file()]
    if not present:
        return trust, [], []
    named = dotted(["projects", str(main_checkout(git_root(cwd) or cwd)), "trust_level"])
    warning = (
        f"{', '.join(present)}: ignored, because this project is not trusted."
        f' To trust it, set `{named} = "trusted"` in {home / "config.toml"}.'
    )
    return trust, [], [warning]


def _without_denied(layer: Layer) -> tuple[Layer, list[str]]:
    denied = [key for key in _NOT_FROM_PROJECTS if key in layer.table]
    if not denied:
        return layer, []
    table = {key: value for key, value in layer.table.items() if key not in denied}
    return attrs.evolve(layer, table=table), [
        f"{layer.origin((key,))}: `{key}` is ignored: a project's own file may not set it. Set it in your config.toml."
        for key in denied
    ]
