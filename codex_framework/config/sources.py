"""The sources of the configuration as plugins see them: each with its own table, and the folder of its other files.

Apart from ``context``: it knows the layers, and the loader's context only passes it on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from codex_framework.config.config import Config
from codex_framework.config.layers import SYSTEM_CONFIG, project_files
from codex_framework.contract.roles.plugins import ConfigLayer
from codex_framework.toolkit.projects import is_trusted_itself

__all__ = ["config_sources"]


def config_sources(config: Config) -> tuple[ConfigLayer, ...]:
    """Return the sources, from lowest to highest precedence, with folders that contain no ``config.toml``."""
    present = [layer for layer in config.layers if layer.name not in ("system", "user", "project")]
    profiles = [layer for layer in present if layer.name == "profile"]
    assigned = [layer for layer in present if layer.name != "profile"]
    return (
        *_file_layers(config, "system", SYSTEM_CONFIG),
        *_file_layers(config, "user", config.codex_home / "config.toml"),
        *(ConfigLayer(name=layer.name, path=layer.path, table=layer.table) for layer in profiles),
        *_project_layers(config),
        *(ConfigLayer(name=layer.name, path=layer.path, table=layer.table) for layer in assigned),
    )


def _file_layers(config: Config, name: str, path: Path) -> Iterator[ConfigLayer]:
    found = [layer for layer in config.layers if layer.name == name]
    for layer in found:
        yield ConfigLayer(name=name, path=layer.path, folder=Path(layer.path).parent, table=layer.table)
    if not found:
        yield ConfigLayer(name=name, path=str(path), folder=path.parent)


def _project_layers(config: Config) -> Iterator[ConfigLayer]:
    """Yield the folders of a trusted project. Commands may have written files in folders that are not trusted themselves."""
    if config.trust != "trusted":
        return
    tables = {layer.path: layer.table for layer in config.layers if layer.name == "project"}
    projects = config.get("projects") or {}
    for file in project_files(config.cwd, config.codex_home, config.tables):
        trusted = is_trusted_itself(projects, file.parent.parent)
        if trusted or str(file) in tables:
            folder = file.parent if trusted else None
            yield ConfigLayer(name="project", path=str(file), folder=folder, table=tables.get(str(file), {}))
