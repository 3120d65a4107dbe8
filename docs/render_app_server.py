"""Renders the methods in ``plugins/app_server.md`` from the table of methods.

    python docs/render_app_server.py

writes the page. A test checks that the page is up to date.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from codex_plugin_app_server.methods import METHODS
from codex_plugin_app_server.schema import protocol

PAGE = Path(__file__).parent / "plugins" / "app_server.md"

_START, _END = "<!-- methods -->", "<!-- end of methods -->"


def rendered(page: str) -> str:
    """Return the page with the methods of the table."""
    before, _, rest = page.partition(_START)
    _, _, after = rest.partition(_END)
    return f"{before}{_START}\n\n{chr(10).join(_lines())}\n\n{_END}{after}"


def _lines() -> Iterator[str]:
    yield "| method | what it does |"
    yield "|---|---|"
    for name, method in METHODS.items():
        text = inspect.getdoc(method.handler) or ""
        sentence = text.partition("\n\n")[0].replace("\n", " ")
        kind = "" if method.stability == "stable" else f" ({method.stability})"
        yield f"| `{name}`{kind} | {sentence} |"
    known = protocol().methods("ClientRequest")
    missing = ", ".join(f"`{name}`" for name in known if name not in METHODS)
    yield ""
    yield f"These methods of Codex's protocol answer with the code -32601 and their name: {missing}."


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text("utf-8")), "utf-8")
    print(f"wrote {PAGE}")
