"""``PluginContext.layers``: the sources of the configuration, each by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codex_framework import hookimpl
from codex_framework.config import load_config
from codex_framework.loader.registry import load_registry


def layers(cwd: Path, home: Path, *overrides: str) -> list[tuple[str, str, Path | None, Any]]:
    seen: list[Any] = []

    class Looks:
        @hookimpl
        def codex_tools(self, plugin):
            seen.extend(plugin.layers)
            return []

    environ = {"CODEX_HOME": str(home), "HOME": str(home)}
    config = load_config(cwd=cwd, environ=environ, overrides=overrides, system_config=home / "etc/config.toml")
    load_registry(config, environ=environ, entry_points=(), extra_plugins=[Looks()])
    return [(layer.name, layer.path, layer.folder, layer.table) for layer in seen if layer.name != "system"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: x\n")
    (folder / "inner/.codex").mkdir(parents=True)
    return folder


def test_each_source_has_its_own_table(home: Path, project: Path) -> None:
    (home / "config.toml").write_text(f'model = "m"\n[projects."{project}"]\ntrust_level = "trusted"\n')
    (project / ".codex").mkdir()
    (project / ".codex/config.toml").write_text('model = "p"\nnotify = ["x"]\n')
    user, own, override = layers(project, home, "model=o")
    assert (user[0], user[2], user[3]["model"]) == ("user", home, "m")
    assert own == ("project", str(project / ".codex/config.toml"), project / ".codex", {"model": "p"})
    assert override == ("override", "-c", None, {"model": "o"})


def test_folders_without_a_file_are_sources_too(home: Path, project: Path) -> None:
    assert layers(project, home) == [("user", str(home / "config.toml"), home, {})]
    (home / "config.toml").write_text(f'[projects."{project}"]\ntrust_level = "trusted"\n')
    _, own = layers(project, home)
    assert own == ("project", str(project / ".codex/config.toml"), project / ".codex", {})


def test_a_folder_that_is_not_trusted_itself_has_no_other_files(home: Path, project: Path) -> None:
    (home / "config.toml").write_text(f'[projects."{project}"]\ntrust_level = "trusted"\n')
    (project / "inner/.codex/config.toml").write_text('model = "i"\n')
    _, own, inner = layers(project / "inner", home)
    assert own[2] == project / ".codex"
    assert inner[1:] == (str(project / "inner/.codex/config.toml"), None, {"model": "i"})


def test_nothing_of_an_untrusted_project_is_included(home: Path, project: Path) -> None:
    (project / ".codex").mkdir()
    (project / ".codex/config.toml").write_text('model = "p"\n')
    assert [layer[0] for layer in layers(project, home)] == ["user"]
