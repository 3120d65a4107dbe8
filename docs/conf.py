"""Build the documentation as a site: ``tox -e docs``, or ``sphinx-build -c docs . site``.

The pages are those of the repository, with the links that GitHub and the installed documentation have. The navigation is
``docs/index.md``: each of its headings is a group, and each page that is linked below it is an entry, named by the text of the link.
A page that several groups link belongs to the first of them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pygments.lexers import JsonLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]

project = "codex-framework"
html_title = "codex-framework"
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "benchmarks/*.md", "contrib/*/README.md"]
exclude_patterns = [".*", "build", "dist", "site"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx_copybutton"]
myst_heading_anchors = 6
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_use_ivar = True
python_use_unqualified_type_names = True
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_show_sphinx = False
html_copy_source = False

_GROUP = re.compile(r"^##+ ([^\n]+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^(?:- |\| )\[([^\]]+)\]\(([^()#\s]+\.md)\)", re.MULTILINE)


def _add_navigation(_app: Sphinx, page: str, text: list[str]) -> None:
    """Add a table of contents to the index for each of its groups."""
    if page == root_doc:
        listed: set[str] = set()
        for group, entries in _GROUP.findall(text[0]):
            titles = {
                f"/{(ROOT / 'docs' / link).resolve().relative_to(ROOT)}": title
                for title, link in _ENTRY.findall(entries)
            }
            pages = [f"{title} <{path}>" for path, title in titles.items() if path not in listed]
            listed.update(titles)
            if pages:
                text[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {group}", "", *pages, "```", ""])


def _redirect_to_index(app: Sphinx, _error: Exception | None) -> None:
    """Make the site's first address that of the index."""
    start = '<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html"><title>codex-framework</title>'
    Path(app.outdir, "index.html").write_text(start, encoding="utf-8")


def _check_error_addresses(app: Sphinx, error: Exception | None) -> None:
    """Fail unless the site has each anchor that an error can print."""
    if error is None:
        slugs = re.findall(r"^## `(.+)`$", (ROOT / "docs/errors.md").read_text(encoding="utf-8"), re.MULTILINE)
        page = Path(app.outdir, "docs/errors.html").read_text(encoding="utf-8")
        if missing := [slug for slug in slugs if f'id="{slug}"' not in page]:
            from sphinx.errors import ExtensionError  # tests read the navigation without Sphinx

            raise ExtensionError(f"docs/errors.html has no anchor {', '.join(missing)}")


def setup(app: Sphinx) -> None:
    """Extend Sphinx."""
    app.add_lexer("jsonl", JsonLexer)
    app.connect("source-read", _add_navigation)
    app.connect("build-finished", _redirect_to_index)
    app.connect("build-finished", _check_error_addresses)
