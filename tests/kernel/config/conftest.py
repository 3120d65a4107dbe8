"""Folders to configure: a home, a project in git, and a way to load the configuration of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from codex_framework.config import Config, load_config
from codex_framework.contract.errors import ConfigError


@attrs.frozen
class Place:
    """A home folder with a Codex home and a project."""

    home: Path
    codex_home: Path
    project: Path
    system: Path

    def write(self, text: str, name: str = "config.toml") -> Path:
        """Write a file into the Codex home."""
        path = self.codex_home / name
        path.write_text(text, encoding="utf-8")
        return path

    def write_project(self, text: str, folder: str = ".") -> Path:
        """Write the project's own configuration, in one of its folders."""
        path = self.project / folder / ".codex" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def load(
        self,
        *overrides: str,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Config:
        return load_config(
            cwd=cwd or self.project,
            environ=environ or {"HOME": str(self.home), "CODEX_HOME": str(self.codex_home)},
            overrides=overrides,
            system_config=self.system,
            **options,
        )

    def error(self, *overrides: str, **options: Any) -> ConfigError:
        """The error that loading ends with."""
        with pytest.raises(ConfigError) as caught:
            self.load(*overrides, **options)
        return caught.value

    def trust(self, level: str = "trusted", also: Sequence[str] = ()) -> None:
        """Decide about the project."""
        self.write(f'[projects."{self.project}"]\ntrust_level = "{level}"\n' + "\n".join(also))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    home = tmp_path.resolve() / "home"
    project = home / "work" / "shop"
    (project / ".git" / "objects").mkdir(parents=True)
    codex_home = home / ".codex"
    codex_home.mkdir()
    return Place(home, codex_home, project, tmp_path / "system.toml")
