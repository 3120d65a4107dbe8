"""Locations of the files of all layers, including missing, ignored and invalid ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework.config.keys import merge
from codex_framework.config.layers import SYSTEM_CONFIG, find_codex_home, project_files
from codex_framework.config.toml_file import read_toml
from codex_framework.contract.errors import ConfigError
from codex_framework.contract.value import Value
from codex_framework.toolkit.projects import trust_level

__all__ = ["FilePlace", "file_places"]


class FilePlace(Value):
    """The file of a layer.

    Attributes:
        layer: ``system``, ``user``, ``profile`` or ``project``.
        path: The file.
        exists: Whether it exists.
        note: Why the file is not used. Empty if it is used or does not exist.
    """

    layer: str
    path: Path
    exists: bool
    note: str = ""


def file_places(
    cwd: Path, environ: Mapping[str, str], profile: str | None = None, system_config: Path | None = None
) -> list[FilePlace]:
    """Return the files of all layers, from lowest to highest precedence.

    Args:
        cwd: The working folder.
        environ: The environment, used for ``CODEX_HOME`` and ``HOME``.
        profile: The name of the profile to use instead of the key ``profile``.
        system_config: The file to use instead of ``/etc/codex/config.toml``.

    Raises:
        ConfigError: ``$CODEX_HOME`` does not exist.
    """
    home = find_codex_home(environ)
    tables: dict[str, Any] = {}
    places = []
    for layer, path in (("system", system_config or SYSTEM_CONFIG), ("user", home / "config.toml")):
        place, table = _read(layer, path)
        places.append(place)
        tables = merge(tables, table)
    name = profile or tables.get("profile")
    if isinstance(name, str) and name and not {"/", "\\", "\0"} & set(name):
        place, table = _read("profile", home / f"{name}.config.toml")
        places.append(place)
        tables = merge(tables, table)
    projects = tables.get("projects")
    trust = trust_level(projects if isinstance(projects, Mapping) else {}, cwd)
    for path in project_files(cwd, home, tables):
        place, _ = _read("project", path)
        is_ignored = place.exists and trust != "trusted"
        places.append(place.evolve(note="ignored, because this project is not trusted") if is_ignored else place)
    return places


def _read(layer: str, path: Path) -> tuple[FilePlace, Mapping[str, Any]]:
    try:
        content = read_toml(path)
    except ConfigError as error:
        return FilePlace(layer=layer, path=path, exists=True, note=error.fact.removeprefix(str(path)).lstrip(": ")), {}
    return FilePlace(layer=layer, path=path, exists=content is not None), content[0] if content else {}
