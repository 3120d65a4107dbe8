"""Where the documentation is: its installed pages, and the address that errors print."""

from __future__ import annotations

import functools
import os
import sys

from codex_framework.contract.errors import CodexError
from codex_framework.toolkit.terminal_text import clean

__all__ = ["documentation_folder", "documentation_index", "error_address", "printed_error"]

_DISTRIBUTION = "codex-framework"
_INSTALLED_DOCS = f"share/doc/{_DISTRIBUTION}"


def printed_error(error: CodexError) -> str:
    """Return the lines that a command prints about an error: the fact, the hint, and the address of the page that explains it."""
    lines = [f"Error: {error}", error.hint, _pointer(error.slug)]
    return clean("\n".join(filter(None, lines)))


def _pointer(slug: str) -> str:
    address = error_address(slug)
    return f"See {address}" if address else ""


def error_address(slug: str) -> str | None:
    """Return the address of the section of ``docs/errors.md`` about a slug. None if it has no section, or the page is not installed.

    The address is on the web if the metadata of this installation have the address of the documentation. Otherwise, it is a file.
    """
    folder = documentation_folder()
    if folder is None or slug == CodexError.slug or f"`{slug}`" not in _headings(folder):
        return None
    index = documentation_index() or f"{folder}/index.md"
    return "errors".join(index.rsplit("index", 1)) + f"#{slug}"


@functools.cache
def _headings(folder: str) -> frozenset[str]:
    with open(f"{folder}/errors.md", encoding="utf-8") as page:  # noqa: PTH123  # pathlib may not be imported yet
        return frozenset(line.removeprefix("## ").strip() for line in page if line.startswith("## "))


@functools.cache
def documentation_index() -> str | None:
    """Return the address of the documentation on the web, from ``[project.urls]``. None if the installation names none."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        urls = metadata(_DISTRIBUTION).get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    return dict(url.split(", ", 1) for url in urls).get("Documentation")


def documentation_folder() -> str | None:
    """Return the folder of the documentation, which the paths ``docs/...`` refer to. None if it is not installed."""
    root = os.path.abspath(f"{__file__}/../../..")  # noqa: PTH100
    places = [f"{root}/docs"] if os.path.isfile(f"{root}/pyproject.toml") else []  # noqa: PTH113  # a checkout
    places.append(f"{sys.prefix}/{_INSTALLED_DOCS}")
    if root.startswith(f"{_user_base()}/"):
        places.insert(0, f"{_user_base()}/{_INSTALLED_DOCS}")
    return next((place for place in places if os.path.isfile(f"{place}/errors.md")), None)  # noqa: PTH113


def _user_base() -> str:
    """Return where ``pip install --user`` puts distributions."""
    import site

    return site.getuserbase()
