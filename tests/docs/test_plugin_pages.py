"""Every bundled plugin has a page, and the page names what the plugin offers and which settings it reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint, distribution
from pathlib import Path

import pytest

from codex_framework import ModelInfo
from codex_framework.contract.roles.tool_specs import FunctionSpec
from codex_framework.loader.registry import load_registry
from codex_framework.testing import turn_facts

PAGES = Path(__file__).parents[2] / "docs" / "plugins"
PLUGINS = [point for point in distribution("codex-framework").entry_points if point.group == "codex_framework"]
FACTS = turn_facts(model=ModelInfo(slug="any", image_detail_original=True, apply_patch="function"), config={})

_CONFIG = re.compile(r"(?:config|tools|features|setting|table|project|options)\.get\(\s*\"(\w+)\"")
_OUTER = {"features", "tools", "framework", "projects"}
"""Tables; what is read of them is what counts."""


def name(point: EntryPoint) -> str:
    return point.name


def page(point: EntryPoint) -> str:
    return (PAGES / f"{point.name}.md").read_text(encoding="utf-8")


def missing(words: Iterator[str], text: str) -> list[str]:
    return [word for word in dict.fromkeys(words) if not re.search(rf"\b{re.escape(word)}\b", text)]


def test_every_plugin_has_a_page_and_every_page_a_plugin():
    assert {f"{point.name}.md" for point in PLUGINS} == {path.name for path in PAGES.glob("*.md")}


@pytest.mark.parametrize("point", PLUGINS, ids=name)
def test_the_page_is_headed_by_the_plugins_name(point: EntryPoint):
    assert page(point).startswith(f"# {point.name}\n")


@pytest.mark.parametrize("point", PLUGINS, ids=name)
def test_the_page_names_everything_that_the_plugin_offers(point: EntryPoint):
    (report,) = load_registry({}, entry_points=[point]).reports_with_commands
    assert report.problems == ()
    offered = (offer for offers in report.contributes.values() for offer in offers)
    assert missing(offered, page(point)) == []


@pytest.mark.parametrize("point", PLUGINS, ids=name)
def test_the_page_names_the_arguments_of_the_tools(point: EntryPoint):
    assert missing(_arguments(point), page(point)) == []


def _arguments(point: EntryPoint) -> Iterator[str]:
    for registered in load_registry({}, entry_points=[point]).tools.values():
        tool = registered.tool
        spec = tool.spec_for(FACTS) if hasattr(tool, "spec_for") else tool.spec
        if isinstance(spec, FunctionSpec):
            yield from spec.parameters["properties"]


@pytest.mark.parametrize("point", PLUGINS, ids=name)
def test_the_page_names_the_settings_that_the_plugin_reads(point: EntryPoint):
    found = {word for text in _sources(point) for word in _CONFIG.findall(text)} - _OUTER
    assert missing(iter(sorted(found)), page(point)) == []


@pytest.mark.parametrize("point", PLUGINS, ids=name)
def test_the_page_names_the_keys_of_a_provider_that_the_plugin_knows(point: EntryPoint):
    keys = (key for text in _sources(point) for key in _options(text))
    assert missing(keys, page(point)) == []


def _sources(point: EntryPoint) -> Iterator[str]:
    module = point.load()
    for path in Path(module.__file__).parent.rglob("*.py"):
        yield path.read_text(encoding="utf-8")


def _options(text: str) -> Iterator[str]:
    if "_OPTIONS" not in text:  # few modules have any, and parsing all takes a second
        return
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Assign(
                targets=[ast.Name(id="_OPTIONS")],
                value=ast.Call(args=[ast.Set(elts=elements)]),
            ):
                yield from (part.value for part in elements if isinstance(part, ast.Constant))
