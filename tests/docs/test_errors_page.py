"""Every slug an error can carry is a heading of the errors page, and every heading is a slug. Commands print its address."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_framework import CodexError
from codex_framework.cli.human import HumanOutput
from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.toolkit.documentation import (
    documentation_folder,
    documentation_index,
    error_address,
    printed_error,
)

ROOT = Path(__file__).parents[2]


_NAMES_A_SLUG = re.compile(r"\bslug\s*[:=]|\bPluginProblem\(")
"""What a module contains if it names a slug. Parsing the other modules would take seconds."""


def slugs(*folders: str) -> Iterator[str]:
    """All slugs in the source: keyword arguments and class attributes ``slug``, and what each ``PluginProblem`` names."""
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            if {"skeleton", "tests"} & {*path.parts[len(ROOT.parts) :]} or not _NAMES_A_SLUG.search(text):
                continue
            for node in ast.walk(ast.parse(text)):
                match node:
                    case ast.Call(func=ast.Name(id="ModelInfo" | "WebError")):
                        continue  # a model's slug is its name, and web errors are answers over HTTP
                    case ast.Call(func=ast.Name(id="PluginProblem"), args=[_, _, ast.Constant(value=str(slug)), *_]):
                        yield slug
                    case ast.Call(keywords=keywords):
                        yield from (word.value.value for word in keywords if _is_slug(word))
                    case ast.Assign(targets=[ast.Name(id="slug")], value=ast.Constant(value=str(slug))):
                        yield slug
                    case ast.AnnAssign(target=ast.Name(id="slug"), value=ast.Constant(value=str(slug))):
                        yield slug
                    case ast.AnnAssign(
                        target=ast.Name(id="slug"),
                        value=ast.Call(keywords=[ast.keyword(arg="default", value=ast.Constant(value=str(slug))), *_]),
                    ):
                        yield slug


def _is_slug(word: ast.keyword) -> bool:
    return word.arg == "slug" and isinstance(word.value, ast.Constant) and isinstance(word.value.value, str)


def headings() -> list[str]:
    return re.findall(r"^## `([a-z0-9-]+)`$", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE)


def test_the_errors_page_explains_every_slug_and_no_other() -> None:
    assert sorted(headings()) == headings(), "in alphabetical order"
    assert headings() == sorted(set(slugs("codex_framework", "plugins", "contrib")))


def test_an_error_prints_the_address_of_the_section_that_explains_it() -> None:
    page = f"{documentation_folder()}/errors.md"
    assert [error_address(slug) for slug in headings() if slug != "error"] == [
        f"{page}#{slug}" for slug in headings() if slug != "error"
    ]
    error = CodexError("it is full\x1b[2J", slug="unsaved", hint="Make room.")
    assert printed_error(error) == f"Error: it is full[2J\nMake room.\nSee {page}#unsaved"


@pytest.mark.parametrize("slug", ["error", "a-plugin-of-others", ""])
def test_an_error_without_a_section_prints_no_address(slug: str) -> None:
    assert printed_error(CodexError("it is full", slug=slug)) == "Error: it is full"


def test_the_address_is_on_the_web_if_the_installation_names_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "codex_framework-9.dist-info" / "METADATA"
    metadata.parent.mkdir()
    index = "https://git.example.org/a/index/blob/HEAD/docs/index.md"
    metadata.write_text(
        f"Metadata-Version: 2.4\nName: codex-framework\nVersion: 9\nProject-URL: Documentation, {index}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    documentation_index.cache_clear()
    try:
        assert error_address("unsaved") == "https://git.example.org/a/index/blob/HEAD/docs/errors.md#unsaved"
    finally:
        documentation_index.cache_clear()


def test_exec_prints_the_address_of_an_error_of_its_turn() -> None:
    out = io.StringIO()
    output = HumanOutput(out, colour=True)
    output.show(ErrorEvent("No key. " * 20, slug="missing-key"))
    output.show(ErrorEvent("Something else."))
    *_, address, last = out.getvalue().splitlines()
    assert address == f"See {documentation_folder()}/errors.md#missing-key"
    assert last.endswith("Something else.")
