from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.config.keys import format_key
from codex_framework.config.toml_positions import line_of

TEXT = '''\
# comment with [brackets] = "and" more
model = "gpt-5.5" # [not.a.table]
quoted = """
[fake]
fake = 1 \\"""
"""  # end
literal = \'\'\'
other = "
\'\'\'
list = [
  "a", # ], comment
  { x = 1, "y.z" = [
     true ] },
  [1, 2],
]
dotted.key."with.dot" = 1979-05-27T07:32:00Z

[history]
persistence = 'none'
  max_bytes=5

[ mcp_servers . "my server" ]
command = "x"
env = { A = "]", "B" = '}' , C.D = "1" }

[[rules]]
name = "first"

[[rules]]
name = "second"
  [[rules.parts]]
  size = 1
  [[rules.parts]]
  size = 2
  [rules.more]
  x = 1
'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("model",), 2),
        (("quoted",), 3),
        (("literal",), 7),
        (("list",), 10),
        (("list", 0), 11),
        (("list", 1), 12),
        (("list", 1, "x"), 12),
        (("list", 1, "y.z"), 12),
        (("list", 1, "y.z", 0), 13),
        (("list", 2, 1), 14),
        (("dotted",), 16),
        (("dotted", "key", "with.dot"), 16),
        (("history",), 18),
        (("history", "persistence"), 19),
        (("history", "max_bytes"), 20),
        (("history", "other"), 18),
        (("mcp_servers",), 22),
        (("mcp_servers", "my server"), 22),
        (("mcp_servers", "my server", "env", "B"), 24),
        (("mcp_servers", "my server", "env", "C", "D"), 24),
        (("rules",), 26),
        (("rules", 0, "name"), 27),
        (("rules", 1), 29),
        (("rules", 1, "name"), 30),
        (("rules", 1, "parts", 0, "size"), 32),
        (("rules", 1, "parts", 1, "size"), 34),
        (("rules", 1, "more", "x"), 36),
        (("fake",), None),
        (("nothing", "at", "all"), None),
        ((), None),
    ],
)
def test_the_line_of_a_key_is_found(key, line):
    tomllib.loads(TEXT)
    assert line_of(TEXT, key) == line


@pytest.mark.parametrize(
    "text", ["[", "a", "a = ", 'a = "', "a = [1", "a = {", "]", "= 1", "\x00", "[a\nb", "a = [1}\nb = 2"]
)
def test_text_that_is_not_toml_does_not_hang(text):
    line_of(text, ("b",))


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\"'#[]{}=,.\\"), max_size=8)
values = st.recursive(
    st.integers() | st.booleans() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def _written(value, style):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        if style == "literal" and "'" not in value:
            return f"'{value}'"
        body = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"""{body}"""' if style == "long" else f'"{body}"'
    if isinstance(value, list):
        gap = " # ]\n " if style == "long" else ""
        return "[" + ",".join(gap + _written(part, style) for part in value) + gap + "]"
    return "{" + ", ".join(f"{format_key([key])} = {_written(part, style)}" for key, part in value.items()) + "}"


@given(st.dictionaries(texts, values, max_size=5), st.sampled_from(["plain", "literal", "long"]))
def test_every_key_of_any_document_is_found_on_its_line(table, style):
    lines, expected = [], {}
    for key, value in table.items():
        expected[key] = len("\n".join(lines).split("\n")) + 1 if lines else 1
        lines.append(f"{format_key([key])} = {_written(value, style)}")
    text = "\n".join(lines)
    tomllib.loads(text)
    assert {key: line_of(text, (key,)) for key in table} == expected
