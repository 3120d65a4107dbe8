"""The skeleton of a plugin: what is written, that it equals the template, and that it works when it is installed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from codex_framework import CodexError
from codex_framework.toolkit.skeleton import KINDS, render, write_skeleton

TEMPLATE = Path(__file__).parents[2] / "contrib" / "codex_contrib_template"


def test_the_template_is_the_skeleton_with_the_name_template():
    ignored = ("__pycache__", ".egg-info", ".pytest_cache", "dist", "build")
    present = {
        file.relative_to(TEMPLATE).as_posix(): file.read_text(encoding="utf-8")
        for file in TEMPLATE.rglob("*")
        if file.is_file() and not any(part.endswith(ignored) for part in file.relative_to(TEMPLATE).parts)
    }
    assert present == {path.as_posix(): text for path, text in render("template").items()}


def test_the_name_is_in_all_paths_and_texts():
    files = render("word-count")
    assert [path.as_posix() for path in files] == [
        "README.md",
        "pyproject.toml",
        "src/codex_contrib_word_count/py.typed",
        "tests/test_plugin.py",
        "src/codex_contrib_word_count/__init__.py",
        "src/codex_contrib_word_count/words.py",
        "tests/test_words.py",
    ]
    project = next(text for path, text in files.items() if path.name == "pyproject.toml")
    assert 'name = "codex-contrib-word-count"' in project
    assert 'word-count = "codex_contrib_word_count"' in project


@pytest.mark.parametrize("kind", KINDS)
def test_no_placeholder_is_left(kind):
    texts = "".join(str(path) + text for path, text in render("class", kind).items())
    assert not re.search(r"@[A-Z]+@|template", texts)
    for path, text in render("class", kind).items():
        if path.suffix == ".py":
            compile(text, str(path), "exec")


@pytest.mark.parametrize("name", ["", "Word", "1word", "word--count", "word count", "../word", "a" * 41, "wörd"])
def test_a_bad_name_is_refused_with_a_hint(name, tmp_path):
    with pytest.raises(CodexError) as caught:
        write_skeleton(name, tmp_path)
    assert caught.value.fact == f"{name!r} is not a valid name for a plugin"
    assert caught.value.hint.startswith("Use lower-case letters")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path):
    folder = tmp_path / "codex_contrib_mine"
    folder.mkdir()
    folder.joinpath("kept.txt").write_text("kept")
    with pytest.raises(CodexError, match="already exists"):
        write_skeleton("mine", tmp_path)
    assert [file.name for file in folder.iterdir()] == ["kept.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(CodexError, match="cannot be written: Permission denied"):
        write_skeleton("mine", tmp_path)


def test_a_parent_that_is_a_file_is_told(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(CodexError, match="cannot be written"):
        write_skeleton("mine", file)


WARNING_PLUGIN = """
import warnings
import pytest

def pytest_configure(config):
    warnings.warn(pytest.PytestDeprecationWarning("a setting of another pytest plugin is unset"))
"""
"""A pytest plugin that warns while pytest starts, as pytest-asyncio does."""


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec("hatchling") is None, reason="needs hatchling to build without a network")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_a_written_plugin_installs_and_passes_its_own_tests(tmp_path, uv, kind):
    folder = write_skeleton("my-team_1", tmp_path, kind)
    site = tmp_path / "site"
    install = [uv, "pip", "install", "-q", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*install, "--python", sys.executable, "--target", site, folder], check=True)
    (site / "warning_plugin.py").write_text(WARNING_PLUGIN)
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "warning_plugin",
            folder / "tests",
        ],
        env={**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout


def test_the_page_on_stores_shows_the_store_of_the_skeleton():
    page = Path(__file__).parents[2] / "docs" / "extend" / "write-a-thread-store.md"
    store = render("sqlite", "store")[PurePosixPath("src/codex_contrib_sqlite/store.py")]
    assert f"```python as sqlite_store.py\n{store}```" in page.read_text(encoding="utf-8")
