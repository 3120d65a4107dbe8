"""Every example in the docs and the README does what the text says: Python runs, TOML is a configuration, commands exist.

A Python block runs as a script of its own, in an empty folder, with a ``$CODEX_HOME`` whose provider answers every request. A block
marked ``python no-run`` needs something that is not here, and is only compiled; one marked ``python as NAME.py`` is a file that the
text works with: it is compiled, and the scripts of its page can import it. The tutorial, the page on installing and the hook
reference have tests of their own.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from codex_framework.cli.commands import root
from codex_framework.cli.exec_options import EXEC_OPTIONS, RESUME_OPTIONS, SHARED_OPTIONS
from codex_framework.config import load_config
from codex_framework.loader.registry import load_registry
from codex_framework.testing.script_files import read_script
from codex_framework.toolkit.lazy_command import LazyCommand
from tests.forked import run_source

ROOT = Path(__file__).parents[2]
_TESTED_ELSEWHERE = {Path("reference/hooks.md"), Path("run/install.md")}
PAGES = [
    ROOT / "README.md",
    *sorted(
        page
        for page in (ROOT / "docs").rglob("*.md")
        if page.parent.name != "tutorial" and page.relative_to(ROOT / "docs") not in _TESTED_ELSEWHERE
    ),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]
_BLOCK = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)

_HOME = """
model = "any"
model_provider = "docs"
sandbox_mode = "danger-full-access"
approval_policy = "never"

[model_providers.docs]
wire_api = "replay"
script = "{script}"
"""
_SCRIPT = """
repeat_last = true

[[responses]]
say = "All is well."
"""


class Block(NamedTuple):
    """A fenced block: where it stands, its language, and its text."""

    place: str
    language: str
    text: str


def blocks(*languages: str) -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in _BLOCK.finditer(text):
            indent, language, body = found.groups()
            if language.strip() in languages or language.split(" ")[0] in languages:
                line = text.count("\n", 0, found.start()) + 1
                plain = "".join(part.removeprefix(indent) for part in body.splitlines(keepends=True))
                yield Block(f"{page.relative_to(ROOT)}:{line}", language.strip(), plain)


def place(block: Block) -> str:
    return block.place


def test_the_readme_and_the_docs_have_examples():
    found = {block.place.split(":")[0] for block in blocks("python")}
    assert {"README.md", "docs/extend/embed-the-kernel.md", "docs/extend/write-a-model-provider.md"} <= found


@pytest.mark.parametrize("block", [*blocks("python")], ids=place)
def test_a_python_example_runs(block: Block, tmp_path: Path):
    code = compile(block.text, block.place, "exec", dont_inherit=True)
    assert code is not None
    if block.language != "python":
        return
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()
    (home / "script.toml").write_text(_SCRIPT)
    (home / "config.toml").write_text(_HOME.format(script=home / "script.toml"))
    page = block.place.rpartition(":")[0]
    for other in blocks("python"):
        if other.language.startswith("python as ") and other.place.rpartition(":")[0] == page:
            (folder / other.language.removeprefix("python as ")).write_text(other.text, encoding="utf-8")
    env = {**os.environ, "CODEX_HOME": str(home), "HOME": str(home)}
    run = run_source(block.text, cwd=folder, env=env, path=[str(folder)], name="example.py")
    assert (run.returncode, run.stderr) == (0, ""), run.stdout


@pytest.mark.parametrize("block", [*blocks("toml")], ids=place)
def test_a_toml_example_is_a_configuration_or_a_script(block: Block, tmp_path: Path):
    file = tmp_path / "config.toml"
    file.write_text(block.text, encoding="utf-8")
    if "[[responses]]" in block.text:
        assert read_script(file).replies != ()
        return
    if "[project]" in block.text or "[project." in block.text:
        return  # of a pyproject.toml, which is not ours to check
    config = load_config(cwd=tmp_path, environ={"CODEX_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert config.warnings == ()


def commands() -> Iterator[Block]:
    """Every call of this package's command in the examples for shells."""
    for block in blocks("console", "sh", "text"):
        lines = block.text.replace("\\\n", " ").splitlines()
        for line in lines:
            call = re.search(r"(?:^|[\s/|&$])(?:codex-framework|cxf)((?:\s+(?:'[^']*'|[^|&;<>{#'])+)?)", line)
            if call and "pip install" not in line and (block.language != "text" or line.startswith("$ ")):
                yield Block(block.place, line.strip(), call.group(1).strip())


@pytest.mark.parametrize("call", [*commands()], ids=lambda call: f"{call.place} {call.text[:30]}")
def test_a_command_in_an_example_exists(call: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    words = shlex.split(call.text)
    assert unknown(words) == []


@cache
def _of_plugins() -> frozenset[str]:
    """The options of ``exec`` of plugins."""
    return frozenset(load_registry({}).exec_options)


def unknown(words: list[str]) -> list[str]:
    """The subcommands and options among a command's arguments that do not exist."""
    options = {word.split("=")[0] for word in words if re.match(r"--[a-z]", word)}
    if words and words[0] in ("exec", "e", "resume"):
        known = {name for option in (*SHARED_OPTIONS, *EXEC_OPTIONS, *RESUME_OPTIONS) for name in option.names}
        return sorted(options - known - {f"--{name}" for name in _of_plugins()})
    command: click.Command = root
    with click.Context(root) as context:
        for word in words:
            if not isinstance(command, click.Group) or word.startswith("-"):
                break
            found = command.get_command(context, word)
            found = found.command if isinstance(found, LazyCommand) else found
            if found is None:
                return [word]
            command = found
    return sorted(options - {name for parameter in command.params for name in parameter.opts} - {"--help"})
