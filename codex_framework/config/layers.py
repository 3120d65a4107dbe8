"""Loading of the configuration: layers from files, ``-c`` and flags, merged into one value.

From lowest to highest precedence: ``/etc/codex/config.toml``; ``$CODEX_HOME/config.toml``; the chosen profile
(``[profiles.<name>]``, then ``$CODEX_HOME/<name>.config.toml``); ``.codex/config.toml`` from the project root down to the
working folder, if the project is trusted; ``-c key=value``; flags. Paths are relative to the folder of their file; ``~`` is the
home folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework.config.checking import check_layer, check_tables
from codex_framework.config.config import Config, Layer, Origin
from codex_framework.config.key import Lifetime, Projects
from codex_framework.config.keys import format_key, lookup, merge, nest_value, split_key
from codex_framework.config.schema import (
    KEYS,
    Facts,
    child_pattern,
    find_keys,
    is_name,
    keys_of,
    limits_on_projects,
    table_patterns,
)
from codex_framework.config.toml_file import parse_override, parse_toml, read_toml
from codex_framework.contract.errors import ConfigError
from codex_framework.toolkit.off_limits import keep_private
from codex_framework.toolkit.projects import git_root, is_trusted_itself, main_checkout, project_root, trust_level

__all__ = [
    "CREDENTIALS",
    "SYSTEM_CONFIG",
    "Config",
    "Layer",
    "Origin",
    "find_codex_home",
    "find_denied_keys",
    "limit_projects",
    "load_config",
    "merge_layers",
    "overridden",
    "project_files",
    "read_layer",
    "remove_key",
    "with_absolute_paths",
]

SYSTEM_CONFIG = Path("/etc/codex/config.toml")
"""The administrator's file (at Codex's location)."""

HOOKS_FILE = "hooks.json"
"""The file with hooks beside a ``config.toml`` (Codex's)."""

CREDENTIALS = ("auth.json", ".credentials.json", ".env")
"""Files in ``$CODEX_HOME`` that file tools never open (Codex's names)."""


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
    contents: Mapping[Path, bytes] | None = None,
) -> Config:
    """Read and check all layers.

    Args:
        cwd: The working folder.
        environ: The environment, used for ``CODEX_HOME`` and ``HOME``.
        codex_home: The folder to use instead of ``$CODEX_HOME``. It need not exist.
        profile: The name of the profile to use instead of the key ``profile``.
        overrides: ``-c`` arguments of the form ``key=value``.
        flags: Dotted keys and values from other flags. They override all other layers.
        ignore_user_config: Whether to skip ``$CODEX_HOME/config.toml`` and its profiles. All other layers are read.
        system_config: The file to use instead of ``/etc/codex/config.toml``.
        contents: Content to use instead of the file's content, by absolute path. It need not be valid.

    Raises:
        ConfigError: A file cannot be read or is not TOML, a key is unknown or has the wrong type, the profile does not
            exist, or the home folder does not exist. The fact names file and line, and the hint says how to fix it.
    """
    folder = Path(os.path.normpath(Path.cwd() / cwd))
    home = find_codex_home(environ) if codex_home is None else Path(os.path.normpath(Path.cwd() / codex_home))
    keep_private(*(f"{home}/{name}" for name in CREDENTIALS))
    assigned = _override_layers(overrides, flags or {}, folder, environ)

    def read(name: str, path: Path) -> Iterator[Layer]:
        layer = read_layer(name, path, environ, (contents or {}).get(path))
        if layer is not None:
            yield layer

    layers = [*read("system", system_config or SYSTEM_CONFIG)]
    if not ignore_user_config:
        layers += read("user", home / "config.toml")
    layers += _profile_layers(profile, [*layers, *assigned], home, read)
    trust, projects, warnings = _project_layers(folder, home, merge_layers([*layers, *assigned]), read)
    layers += [*projects, *assigned]

    tables = merge_layers(layers)
    unknown_keys = lookup(tables, ("framework", "unknown_keys"))
    for layer in layers:
        warnings += check_layer(layer, unknown_keys)
    config = Config(
        tables=tables,
        codex_home=home,
        cwd=folder,
        warnings=tuple(warnings),
        layers=tuple(layers),
        trust=trust,
        ignores_user=ignore_user_config,
    )
    check_tables(config)
    return config


def overridden(config: Config, values: Mapping[str, Any], environ: Mapping[str, str]) -> Config:
    """Return the configuration with some keys set to other values, above everything else.

    Args:
        values: By dotted key.

    Raises:
        ConfigError: A key is unknown, has the wrong type, or cannot be set for a part of a program.
    """
    given: dict[str, Any] = {}
    for key, value in values.items():
        segments = split_key(key)
        if any(find_keys(nest_value(segments, value), _lasts_for_kernel)):
            raise ConfigError(
                f"config: `{key}` is of the whole kernel, and cannot be set for one thread",
                path="config",
                key=key,
                hint="Set it in the configuration of the kernel.",
            )
        given = merge(given, nest_value(segments, value))
    layer = Layer("override", "config", with_absolute_paths(given, config.cwd, environ))
    tables = merge(config.tables, layer.table)
    warnings = check_layer(layer, lookup(tables, ("framework", "unknown_keys")) or "error")
    whole = config.evolve(tables=tables, layers=(*config.layers, layer), warnings=(*config.warnings, *warnings))
    check_tables(whole)
    return whole.constrained()


def find_codex_home(environ: Mapping[str, str]) -> Path:
    """Return ``$CODEX_HOME``, which is created if it does not exist, or ``~/.codex`` if it is not set.

    Raises:
        ConfigError: ``$CODEX_HOME`` is not a folder and cannot be created, or there is no home folder.
    """
    value = environ.get("CODEX_HOME")
    if not value:
        return _user_home(environ) / ".codex"
    path = Path(os.path.normpath(Path.cwd() / value))
    if path.is_dir():
        return path
    if path.exists():
        raise ConfigError(
            f"CODEX_HOME is {value!r}, which is not a folder",
            key="CODEX_HOME",
            slug="codex-home",
            hint="Set CODEX_HOME to a folder, or unset it to use ~/.codex.",
        )
    try:
        path.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise ConfigError(
            f"CODEX_HOME is {value!r}, a folder that cannot be created: {error.strerror or error}",
            key="CODEX_HOME",
            slug="codex-home",
            hint="Set CODEX_HOME to another folder, or unset it to use ~/.codex.",
        ) from None
    return path


def _user_home(environ: Mapping[str, str]) -> Path:
    value = environ.get("HOME")
    if value and Path(value).is_absolute():
        return Path(value)
    try:
        return Path.home()
    except RuntimeError:
        raise ConfigError(
            "the home folder is unknown: HOME is not set",
            key="CODEX_HOME",
            slug="codex-home",
            hint="Set HOME, or set CODEX_HOME to the folder for configuration and sessions.",
        ) from None


def read_layer(name: str, path: Path, environ: Mapping[str, str], content: bytes | None = None) -> Layer | None:
    """Return the settings of a file, or None if the file does not exist.

    Args:
        environ: Used for ``HOME``.
        content: Content to use instead of the file's content.

    Raises:
        ConfigError: It cannot be read or is not TOML.
    """
    found = read_toml(path) if content is None else parse_toml(path, content)
    return (
        None if found is None else Layer(name, str(path), with_absolute_paths(found[0], path.parent, environ), found[1])
    )


def merge_layers(layers: Sequence[Layer]) -> dict[str, Any]:
    """Return the tables of layers as one, from the lowest to the highest."""
    tables: dict[str, Any] = {}
    for layer in layers:
        for key in layer.replaces:
            if lookup(tables, key) is not None:
                tables = remove_key(tables, key)
        tables = merge(tables, layer.table)
    return tables


def _override_layers(
    overrides: Sequence[str], flags: Mapping[str, Any], cwd: Path, environ: Mapping[str, str]
) -> list[Layer]:
    layers = []
    given: dict[str, Any] = {}
    for argument in overrides:
        given = merge(given, nest_value(*parse_override(argument)))
    if given:
        layers.append(Layer("override", "-c", with_absolute_paths(given, cwd, environ)))
    set_by_flags: dict[str, Any] = {}
    for key, value in flags.items():
        set_by_flags = merge(set_by_flags, nest_value(split_key(key), value))
    if set_by_flags:
        layers.append(Layer("flags", "flags", with_absolute_paths(set_by_flags, cwd, environ)))
    return layers


_Read = Callable[[str, Path], Iterator[Layer]]


def _profile_layers(wanted: str | None, layers: Sequence[Layer], home: Path, read: _Read) -> list[Layer]:
    tables = merge_layers(layers)
    name = wanted or tables.get("profile")
    if not isinstance(name, str):  # a `profile` of the wrong type is reported by the check
        return []
    matches = [
        Layer("profile", layer.path, table, layer.text, ("profiles", name))
        for layer in layers
        if isinstance(table := lookup(layer.table, ("profiles", name)), Mapping)
    ]
    if name and not {"/", "\\", "\0"} & set(name):
        matches += read("profile", home / f"{name}.config.toml")
    if matches:
        return matches
    from codex_framework.toolkit.suggestions import did_you_mean

    known = sorted({*_names(tables.get("profiles")), *_profile_files(home)})
    raise ConfigError(
        f"there is no profile {name!r}; "
        + (f"existing profiles: {', '.join(known)}" if known else "no profile exists"),
        key="profile",
        slug="profile",
        hint=f"{did_you_mean(name, known)}Write its settings to {home / f'{name}.config.toml'}, or name another profile.",
    )


def _names(table: Any) -> list[str]:
    return list(table) if isinstance(table, Mapping) else []


def _profile_files(home: Path) -> list[str]:
    return [file.name.removesuffix(".config.toml") for file in home.glob("?*.config.toml")]


def _project_layers(
    cwd: Path, home: Path, tables: Mapping[str, Any], read: _Read
) -> tuple[str | None, list[Layer], list[str]]:
    """Return the project's trust level, its layers, and warnings about ignored settings."""
    table = tables.get("projects")
    projects = table if isinstance(table, Mapping) else {}
    trust = trust_level(projects, cwd)
    files = project_files(cwd, home, tables)
    if trust == "trusted":
        layers, warnings = [], []
        for file in files:
            limit = _drop_denied_keys if is_trusted_itself(projects, file.parent.parent) else _harmless
            for layer in read("project", file):
                allowed, ignored = limit(layer, tables)
                layers.append(allowed)
                warnings += ignored
            if limit is _harmless and (hooks := file.with_name(HOOKS_FILE)).is_file():
                warnings.append(f"{hooks}: ignored, because you have trusted the project's folder and not this one")
        return trust, layers, warnings
    present = [str(path) for file in files for path in (file, file.with_name(HOOKS_FILE)) if path.is_file()]
    if not present:
        return trust, [], []
    import shlex

    project = main_checkout(git_root(cwd) or cwd)
    warning = (
        f"{', '.join(present)}: ignored, because this project is not trusted."
        f" To trust it, run: codex-framework trust {shlex.quote(str(project))}"
    )
    return trust, [], [warning]


def project_files(cwd: Path, home: Path, tables: Mapping[str, Any]) -> list[Path]:
    """Return the paths of a project's possible settings files, from its root down to the working folder.

    Args:
        cwd: The working folder.
        home: ``$CODEX_HOME``, whose file does not belong to a project.
        tables: The settings outside of projects.
    """
    markers = tables.get("project_root_markers")
    root = project_root(cwd, [str(name) for name in markers] if isinstance(markers, list) else (".git",))
    ancestors = [cwd, *cwd.parents]
    folders = reversed(ancestors[: ancestors.index(root) + 1])
    return [file for folder in folders if (file := folder / ".codex" / "config.toml") != home / "config.toml"]


def find_denied_keys(table: Mapping[str, Any], outer: Mapping[str, Any]) -> dict[tuple[str, ...], str]:
    """Return the keys of a project's own file that are ignored, each with the end of a sentence that says why.

    Args:
        outer: The settings outside of projects.
    """
    never = find_keys(table, lambda key: key.projects is Projects.NEVER)
    topics = [name.split(".")[0] for name in KEYS]
    denied = dict.fromkeys(sorted(never, key=lambda key: topics.index(key[0])), "cannot set it")
    for key, limit in limits_on_projects():
        wanted, most = lookup(table, key), lookup(outer, key)
        most = limit.default if most is None else most
        if isinstance(wanted, int) and isinstance(most, int) and wanted > most:
            denied[key] = f"can only lower it (from {most})"
    return denied


def _drop_denied_keys(layer: Layer, outer: Mapping[str, Any]) -> tuple[Layer, list[str]]:
    denied = find_denied_keys(layer.table, outer)
    if not denied:
        return layer, []
    table = layer.table
    for key in denied:
        table = remove_key(table, key)
    return layer.evolve(table=table), [
        f"{layer.origin(key)}: `{format_key(key)}` is ignored, because a project's own file {why}. Set it in your config.toml."
        for key, why in denied.items()
    ]


def limit_projects(tables: Mapping[str, Any], layers: Sequence[Layer], cwd: Path) -> list[Layer]:
    """Return the layers of projects as far as other settings of the user permit them now. They never permit more than before."""
    table = tables.get("projects")
    projects = table if isinstance(table, Mapping) else {}
    if trust_level(projects, cwd) != "trusted":
        return []
    limits = (
        _drop_denied_keys if is_trusted_itself(projects, Path(layer.path).parent.parent) else _harmless
        for layer in layers
    )
    return [limit(layer, tables)[0] for limit, layer in zip(limits, layers, strict=True)]


def _harmless(layer: Layer, outer: Mapping[str, Any]) -> tuple[Layer, list[str]]:
    """Return the layer of a folder that is not trusted itself, with the settings that it may set."""
    del outer
    harmless = {name for name in layer.table if all(key.projects is Projects.ANY for key in keys_of(name))}
    ignored = [name for name in layer.table if name not in harmless or not is_name(name)]
    table = {name: value for name, value in layer.table.items() if name not in ignored}
    return layer.evolve(table=table), [
        f"{layer.origin((key,))}: `{key}` is ignored, because you have trusted the project's folder and not this one, in which"
        " commands of the project may write. Set it in the project's folder, or in your config.toml."
        for key in ignored
    ]


def _lasts_for_kernel(key: Facts) -> bool:
    return key.lasts is Lifetime.KERNEL


def remove_key(table: Mapping[str, Any], key: Sequence[str]) -> dict[str, Any]:
    """Return a table without the value at a key, which exists."""
    rest = {name: value for name, value in table.items() if name != key[0]}
    return rest if len(key) == 1 else {**rest, key[0]: remove_key(table[key[0]], key[1:])}


def with_absolute_paths(
    table: Mapping[str, Any], folder: Path, environ: Mapping[str, str], pattern: str = ""
) -> dict[str, Any]:
    """Return the table with absolute paths, resolved against ``folder``, also in ``[profiles.<name>]``.

    Values of the wrong type are left unchanged; the check reports them.

    Args:
        pattern: The place of the table in the schema.
    """
    return {name: _resolve_value(value, child_pattern(pattern, name), folder, environ) for name, value in table.items()}


def _resolve_value(value: Any, pattern: str | None, folder: Path, environ: Mapping[str, str]) -> Any:
    if pattern is None:
        return value
    kind = KEYS[pattern].type if pattern in KEYS else "table"
    if isinstance(value, str) and kind in ("path", "folder"):
        return _absolute(value or ("." if kind == "folder" else ""), folder, environ)
    if isinstance(value, list) and kind == "list[path]":
        return [_absolute(path, folder, environ) if isinstance(path, str) else path for path in value]
    if not isinstance(value, Mapping):
        return value
    if kind == "profile":
        return with_absolute_paths(value, folder, environ)
    if pattern == "permissions.*":
        return _with_home(value, environ)
    return with_absolute_paths(value, folder, environ, pattern) if pattern in table_patterns() else value


def _with_home(profile: Mapping[str, Any], environ: Mapping[str, str]) -> Any:
    """Replace ``~`` in the workspace roots of a permission profile.

    Relative roots stay relative, because they start from the working folder, as in Codex.
    """
    roots = profile.get("workspace_roots")
    home = environ.get("HOME")
    if not home or not isinstance(roots, Mapping):
        return profile
    expanded = {
        home + path[1:] if path == "~" or path.startswith("~/") else path: enabled for path, enabled in roots.items()
    }
    return {**profile, "workspace_roots": expanded}


def _absolute(path: str, folder: Path, environ: Mapping[str, str]) -> str:
    home = environ.get("HOME")
    if home and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    return os.path.normpath(folder / path) if path else path
