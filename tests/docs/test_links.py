"""Every relative link in the docs leads somewhere: to a file that exists, and to a heading in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import chain, count
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in sorted(ROOT.rglob("*.md"))
    if not {".git", ".venv", ".tox", "node_modules", "build", "dist"} & set(path.relative_to(ROOT).parts)
]

_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
_FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)


def links(page: Path) -> Iterator[str]:
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    yield from (link for link in _LINK.findall(text) if not re.match(r"[a-z]+:", link))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them: the second of the same name ends with ``-1``."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    found: set[str] = set()
    for heading in _HEADING.findall(text):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(next(name for name in chain([anchor], (f"{anchor}-{n}" for n in count(1))) if name not in found))
    return found


def test_there_are_pages():
    assert {ROOT / "README.md", ROOT / "docs" / "index.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path):
    broken = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_table_of_contents_leads_to_every_page(page: Path):
    assert page in _listed_pages()


@cache
def _listed_pages() -> set[Path]:
    """Return the pages in the table of contents, and the page that it is on."""
    index = ROOT / "docs" / "index.md"
    return {index, *((index.parent / link.partition("#")[0]).resolve() for link in links(index))}
