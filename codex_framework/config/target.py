"""The file that an edit of the configuration goes to, and the check of its new content by the reader of all layers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework.config.config import Config
from codex_framework.config.keys import format_key, lookup
from codex_framework.config.layers import find_codex_home, find_denied_keys, load_config, merge_layers
from codex_framework.config.toml_file import parse_toml, read_toml
from codex_framework.contract.errors import ConfigError
from codex_framework.contract.value import Value
from codex_framework.toolkit.projects import project_root

__all__ = ["Target", "profile_target", "project_target", "user_target"]

_OUTSIDE = ("system", "user", "profile")
"""The layers below a project's layer."""


class Target(Value):
    """A file with settings.

    Attributes:
        kind: ``user``, ``profile`` or ``project``.
        path: The file. It need not exist.
        home: ``$CODEX_HOME``.
        prefix: The table within the file that the settings belong to (for ``[profiles.<name>]``).
        profile: The name of the profile, or None.
    """

    kind: str
    path: Path
    home: Path
    prefix: tuple[str, ...] = ()
    profile: str | None = None

    def check(self, content: bytes, environ: Mapping[str, str], system_config: Path | None = None) -> Config:
        """Return the configuration that results from a new content of the file.

        It is read as for a thread: with the layers below it, and in a project as if the project were trusted.

        Raises:
            ConfigError: The reader refuses it, or a project's file sets a key that is ignored there.
        """
        folder, flags = self.home, {}
        if self.kind == "project":
            folder = self.path.parent.parent
            flags = {format_key(["projects", str(folder), "trust_level"]): "trusted"}
        config = load_config(
            cwd=folder,
            environ=environ,
            codex_home=self.home,
            profile=self.profile,
            flags=flags,
            system_config=system_config,
            contents={self.path: content},
        )
        if self.kind == "project":
            self._check_project(content, merge_layers([layer for layer in config.layers if layer.name in _OUTSIDE]))
        return config

    def _check_project(self, content: bytes, outer: Mapping[str, Any]) -> None:
        from codex_framework.config.toml_positions import line_of

        tables, text = parse_toml(self.path, content)
        for key, why in find_denied_keys(tables, outer).items():
            line = line_of(text, key)
            raise ConfigError(
                f"{self.path}:{line}: `{format_key(key)}` is ignored, because a project's own file {why}",
                path=str(self.path),
                line=line,
                key=format_key(key),
                slug="config-project",
                hint="Set it in your own config.toml instead, without --project.",
            )


def user_target(environ: Mapping[str, str]) -> Target:
    """Return the user's own file, ``$CODEX_HOME/config.toml``.

    Raises:
        ConfigError: ``$CODEX_HOME`` does not exist.
    """
    home = find_codex_home(environ)
    return Target(kind="user", path=home / "config.toml", home=home)


def profile_target(environ: Mapping[str, str], name: str) -> Target:
    """Return where the settings of a profile are: in its own file, else in a table of the user's file, else in a new file.

    Raises:
        ConfigError: ``$CODEX_HOME`` does not exist, or no file can have this name.
    """
    home = find_codex_home(environ)
    if not name.strip() or {"/", "\\", "\0"} & set(name):
        raise ConfigError(
            f"{name!r} cannot be the name of a profile",
            key="profile",
            slug="profile",
            hint="Use a name without slashes.",
        )
    file = home / f"{name}.config.toml"
    if not file.exists():
        content = read_toml(home / "config.toml")
        if content is not None and isinstance(lookup(content[0], ("profiles", name)), Mapping):
            return Target(kind="profile", path=home / "config.toml", home=home, prefix=("profiles", name), profile=name)
    return Target(kind="profile", path=file, home=home, profile=name)


def project_target(environ: Mapping[str, str], cwd: Path) -> Target:
    """Return the file of a project, ``.codex/config.toml`` in its root.

    Raises:
        ConfigError: ``$CODEX_HOME`` does not exist, the file would be the user's own file, or a symlink of the project has its
            target outside of the project.
    """
    home = find_codex_home(environ)
    content = read_toml(home / "config.toml")
    markers = (content[0] if content else {}).get("project_root_markers")
    root = project_root(cwd, [str(name) for name in markers] if isinstance(markers, list) else (".git",))
    file = root / ".codex" / "config.toml"
    real = os.path.realpath(file)
    if real == os.path.realpath(home / "config.toml"):
        raise ConfigError(
            f"{file} is your own configuration, not a project's",
            path=str(file),
            slug="config-project",
            hint="Change to the folder of a project, or leave out --project.",
        )
    if not Path(real).is_relative_to(os.path.realpath(root)):
        raise ConfigError(
            f"{file} leads out of the project, to {real}",
            path=str(file),
            slug="config-project",
            hint="Replace the symlink by a file, or edit its target yourself.",
        )
    return Target(kind="project", path=file, home=home)
