"""Texts that begin with a byte order mark, as programs of Windows write them: the mark is no part of the text."""

from __future__ import annotations

import codecs
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework.toolkit.files import Files
from codex_plugin_agent_roles.reading import _read as read_role
from codex_plugin_compaction.prompt import compact_prompt
from codex_plugin_context.agents_md import _personal, _Reader
from codex_plugin_environments.configuration import configured
from codex_plugin_execpolicy.requirements import read_requirements as read_required_rules
from codex_plugin_execpolicy.rulefile import read_rules
from codex_plugin_hooks.names import EVENTS
from codex_plugin_hooks.outputs import verdict
from codex_plugin_hooks.running import Ran
from codex_plugin_models.file import FileCatalogue
from codex_plugin_prompts.library import find_prompt
from codex_plugin_read_file.read_file import _lines
from codex_plugin_requirements.reading import read_requirements
from codex_plugin_skills.reading import read_skill

MARK = codecs.BOM_UTF8


def skill(file: Path) -> Any:
    read, problems = read_skill(str(file), "user", str(file.parent))
    assert problems == []
    return read and read.name


def hook(file: Path) -> Any:
    ran = Ran(started_at=0, ended_at=0, duration_ms=0, exit_code=0, stdout=file.read_text("utf-8"))
    return verdict(EVENTS["UserPromptSubmit"], ran).reason


@pytest.mark.parametrize(
    ("name", "text", "read", "expected"),
    [
        ("SKILL.md", "---\nname: a\ndescription: b\n---\n", skill, "a"),
        ("AGENTS.md", "Be brief.", lambda file: _personal(str(file.parent), _Reader(Files(), [])), "Be brief."),
        ("role.toml", 'name = "a"\n', lambda file: read_role(str(file)), {"name": "a"}),
        (
            "compact.md",
            "Sum up.",
            lambda file: compact_prompt({"experimental_compact_prompt_file": str(file)}),
            "Sum up.",
        ),
        ("prompts/a.md", "---\ndescription: b\n---\nc", lambda file: find_prompt(file.parent.parent, "a").content, "c"),  # type: ignore[union-attr]
        (
            "a.rules",
            'prefix_rule(pattern = ["ls"])\n',
            lambda file: next(iter(read_rules(file).rules.prefix_rules)).program,
            "ls",
        ),
        (
            "requirements.toml",
            '[rules]\nprefix_rules = [{pattern = [{token = "rm"}], decision = "forbidden"}]\n',
            lambda file: next(iter(read_required_rules(file).prefix_rules)).program,
            "rm",
        ),
        (
            "requirements.toml",
            "[features]\na = true\n",
            lambda file: dict(read_requirements(str(file)).features),
            {"a": True},
        ),
        ("environments.toml", "include_local = false\n", lambda file: configured(file, {}).has_local, False),
        ("models.json", '{"models": []}', lambda file: list(FileCatalogue(str(file))._read()), []),
        ("hook output", '{"decision": "block", "reason": "no"}', hook, "no"),
    ],
)
def test_a_mark_is_no_part_of_a_file(
    tmp_path: Path, name: str, text: str, read: Callable[[Path], Any], expected: Any
) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    for mark in (b"", MARK):
        file.write_bytes(mark + text.encode())
        assert read(file) == expected


def test_read_file_shows_no_mark(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(MARK + b"first\nsecond\n")
    with file.open("rb") as opened:
        assert list(_lines(opened, threading.Event())) == ["first", "second"]
