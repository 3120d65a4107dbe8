"""Markdown in pieces."""

from __future__ import annotations

import pytest

from codex_client_terminal.markdown import MarkdownStream, inline
from codex_client_terminal.text import plain_text

SOURCE = """# Title

Some **bold**, *it* and `code`.
- one
  1. two
> quoted

```python
def f():
    return "x"  # why
```
| a | b |
|---|--:|
| 1 | **22** |
after [docs](https://example.org) ~~no~~
"""

SHOWN = """# Title

Some bold, it and code.
• one
  1. two
▌ quoted

  def f():
      return "x"  # why
a  b
─  ──
1  22
after docs (https://example.org) no"""


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_result_does_not_depend_on_the_pieces(size: int) -> None:
    stream = MarkdownStream()
    lines = [line for place in range(0, len(SOURCE), size) for line in stream.feed(SOURCE[place : place + size])]
    shown = "\n".join(plain_text(line).rstrip() for line in [*lines, *stream.end()])
    assert shown == SHOWN


@pytest.mark.parametrize(
    ("text", "styles"),
    [
        ("a **b** c", ["", " bold", ""]),
        ("snake_case_name", [""]),
        ("2 * 3 * 4", [""]),
        ("`**x**`", [" cyan"]),
        (r"\*not\*", ["", "", ""]),
    ],
)
def test_emphasis(text: str, styles: list[str]) -> None:
    assert [style for _, style in inline(text)] == styles


def test_a_line_without_end_costs_little() -> None:
    stream = MarkdownStream()
    for _ in range(20):
        stream.feed("**" * 10_000)
    assert len(stream.end()) == 1


def test_what_is_not_complete_is_known() -> None:
    stream = MarkdownStream()
    assert stream.feed("first\nsec") == [[("first", "")]]
    assert [plain_text(line) for line in stream.unfinished] == ["sec"]
