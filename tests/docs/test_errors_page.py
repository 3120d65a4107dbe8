"""Every slug an error can carry is a heading of the errors page, and every heading is a slug."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def slugs() -> Iterator[str]:
    """All slugs in the source: keyword arguments and class attributes ``slug``, and what each ``PluginProblem`` names."""
    for folder in ("codex_framework", "plugins"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            if "skeleton" in path.parts or not ("slug" in text or "PluginProblem" in text):
                continue
            for node in ast.walk(ast.parse(text)):
                match node:
                    case ast.Call(func=ast.Name(id="ModelInfo")):
                        continue  # a model's slug is its name
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


def test_the_errors_page_explains_every_slug_and_no_other() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    headings = re.findall(r"^## `([a-z0-9-]+)`$", page, re.MULTILINE)
    assert sorted(headings) == headings, "in alphabetical order"
    assert headings == sorted(set(slugs()))
