"""Edits of TOML texts: of written examples, and of generated texts with comments in odd places."""

from __future__ import annotations

import collections
import datetime
import tomllib

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from codex_framework.config.editing.layout import Layout, comments_in
from codex_framework.config.editing.text import NotATableError, same, with_value, without_key


def check_set(before, key, value, after):
    assert with_value(before, key, value) == after
    if "\n" not in before:
        return
    windows = with_value(before.replace("\n", "\r\n"), key, value)
    assert windows == after.replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        pytest.param("a = 1 # one\n", "a", 2, "a = 2 # one\n", id="a comment behind the value"),
        pytest.param("  a\t=  1\n", "a", 2, "  a\t=  2\n", id="odd spaces"),
        pytest.param("a = 'x'\n", "a", "y", "a = 'y'\n", id="single quotes stay"),
        pytest.param("a = 'x'\n", "a", "it's", 'a = "it\'s"\n', id="unless the text has one"),
        pytest.param("a = 1", "b", 2, "a = 1\nb = 2", id="no line end"),
        pytest.param("", "a", 1, "a = 1\n", id="an empty file"),
        pytest.param("# x\n", "a", 1, "# x\na = 1\n", id="a file of comments"),
        pytest.param("# x\n[t]\nb = 1\n", "a", 1, "a = 1\n\n# x\n[t]\nb = 1\n", id="before the first header"),
        pytest.param("# x\n\n[t]\nb = 1\n", "a", 1, "# x\n\na = 1\n\n[t]\nb = 1\n", id="below the comment of the file"),
        pytest.param("# x\n\n\n[t]\n", "a", 1, "# x\n\na = 1\n\n[t]\n", id="between two blank lines"),
        pytest.param("a = 1\n# c\n\n[t]\n", "b", 2, "a = 1\nb = 2\n# c\n\n[t]\n", id="behind the last key"),
        pytest.param("[t]\n  a = 1\n\n[u]\n", "t.b", 2, "[t]\n  a = 1\n  b = 2\n\n[u]\n", id="indented like its neighbour"),
        pytest.param("[t] # t\n[u]\n", "t.b", 2, "[t] # t\nb = 2\n[u]\n", id="a table without keys"),
        pytest.param("a.b = 1\n", "a.c", 2, "a.b = 1\na.c = 2\n", id="dotted keys"),
        pytest.param("[x]\na.b = 1\n", "x.a.c.d", 2, "[x]\na.b = 1\na.c.d = 2\n", id="dotted keys in a table"),
        pytest.param("[a.b]\nc = 1\n", "a.d", 2, "[a]\nd = 2\n\n[a.b]\nc = 1\n", id="a table without a header"),
        pytest.param("a = {b = 1}\n", "a.c.d", 2, "a = {b = 1, c.d = 2}\n", id="an inline table"),
        pytest.param("a = {}\n", "a.c", 2, "a = { c = 2 }\n", id="an empty inline table"),
        pytest.param("a = 1\n", "b.c", 2, "a = 1\n\n[b]\nc = 2\n", id="a new table"),
        pytest.param("a = 1", "b.c", 2, "a = 1\n\n[b]\nc = 2", id="a new table without line end"),
        pytest.param(
            "[p.x]\na = 1\n# of p.x\n\n# of q\n[q]\n",
            "p.y.a",
            2,
            "[p.x]\na = 1\n# of p.x\n\n[p.y]\na = 2\n\n# of q\n[q]\n",
            id="a new table beside its like",
        ),
        pytest.param("[t]\na = 1 # a\nb = 2 # b\n", "t", {"b": 3}, "[t]\n# a\nb = 3 # b\n", id="a table is merged"),
        pytest.param("a.b = 1\n", "a", {}, "[a]\n", id="a table of dotted keys becomes empty"),
        pytest.param("a = [1, 2, 3]\n", "a", [1, 3], "a = [1, 3]\n", id="an element less"),
        pytest.param("a = [1]\n", "a", [1, 2], "a = [1, 2]\n", id="an element more"),
        pytest.param("a = [1]\n", "a", [0, 1], "a = [0, 1]\n", id="an element more at the front"),
        pytest.param("a = []\n", "a", [1], "a = [1]\n", id="the first element"),
        pytest.param(
            "a = [\n  'x', # x\n  'y' # y\n]\n",
            "a",
            ["y", "z"],
            "a = [\n  # x\n  'y', # y\n  \"z\"\n]\n",
            id="comments in an array",
        ),
        pytest.param("a = [\n  1,\n]\n", "a", [1, 2], "a = [\n  1,\n  2,\n]\n", id="a comma at the end stays"),
        pytest.param("a = [ # c\n 1 ]\n", "a", 5, "# c\na = 5\n", id="comments of a value that goes away"),
        pytest.param("[a]\nb = 1 # b\n", "a", 5, "# b\na = 5\n", id="a table becomes a value"),
        pytest.param(
            "[[a]]\nb = 1\n",
            "a",
            [{"b": 2}, {"c": {"d": 1}}],
            "[[a]]\nb = 2\n\n[[a]]\n\n[a.c]\nd = 1\n",
            id="an array of tables",
        ),
        pytest.param("[[a]]\nb = 1\n\n[[a]]\nb = 2 # c\n", "a", [{"b": 1}], "[[a]]\nb = 1\n\n# c\n", id="a table less"),
        pytest.param("a = {b = [ # c\n1]}\n", "a.b", 1, "# c\na = {b = 1}\n", id="a comment within an inline table"),
        pytest.param("'a.b'.\"c\\U0001F600\" = 1\n", "a", {}, None, id="quoted names"),
    ],
)  # fmt: skip
def test_a_value_is_set(before, key, value, after):
    if after is None:
        after = before + "\n[a]\n"
    check_set(before, key.split("."), value, after)


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        pytest.param("a = 1 # one\nb = 2\n", "a", "# one\nb = 2\n", id="its comment stays"),
        pytest.param("a = 1\n\nb = 2", "b", "a = 1\n", id="the last line without line end"),
        pytest.param("  a = 1 # c", "a", "  # c", id="the only line"),
        pytest.param("[t]\n# in t\na = 1\n\n[u]\n[t.v]\nb = 1\n", "t", "# in t\n\n[u]\n", id="a table"),
        pytest.param("a.b = 1\na.c = 2\n", "a.b", "a.c = 2\n", id="a dotted key"),
        pytest.param("a = {b = 1, c = 2, d = 3}\n", "a.b", "a = {c = 2, d = 3}\n", id="the first member"),
        pytest.param("a = {b = 1, c = 2, d = 3}\n", "a.d", "a = {b = 1, c = 2}\n", id="the last member"),
        pytest.param("a = { b.x = 1, c = 2, b.y = 3 }\n", "a.b", "a = { c = 2 }\n", id="members with a common part"),
        pytest.param("a = { b = 1 }\n", "a.b", "a = { }\n", id="the only member"),
        pytest.param("a = [ # c\n'#' ] # d\nb = 1\n", "a", "# c\n# d\nb = 1\n", id="an array with a comment"),
        pytest.param("a = '''\n# no\n'''\n", "a", "", id="a text that looks like a comment"),
        pytest.param("[[a]]\nb = 1\n[[a]]\n", "a", "", id="an array of tables"),
        pytest.param("a = 1\n", "b.c", "a = 1\n", id="a key that does not exist"),
        pytest.param("a = 1\n", "a.c", "a = 1\n", id="a key within a value"),
    ],
)
def test_a_key_is_removed(before, key, after):
    assert without_key(before, key.split(".")) == after
    assert without_key(before.replace("\n", "\r\n"), key.split(".")) == after.replace("\n", "\r\n")


@pytest.mark.parametrize("text", ["a = 1\n", "a = [1]\n", "[[a]]\n", "x = 1\na = {}\n[b]\n"])
def test_a_parent_that_is_no_table_is_an_error(text):
    path = ("a", "b") if "{}" not in text else ("x", "b")
    with pytest.raises(NotATableError) as caught:
        with_value(text, path, 1)
    assert caught.value.path == path[:1]


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (1, True), ("1", 1), ([1], [True]), ({"a": 1}, {"a": 1.0})])
def test_values_of_different_types_differ(one, other):
    assert not same(one, other)
    assert same(one, one)


def test_what_comes_and_goes_leaves_no_blank_lines_behind():
    text = "# x\n\n[a]\nb = 1\n\n[c]\n"
    for key in ("top", "a.new.d", "z.y"):
        once = without_key(with_value(text, key.split("."), 1), key.split(".")[:2])
        twice = without_key(with_value(once, key.split("."), 1), key.split(".")[:2])
        assert twice == once


NAMES = ("a", "b", "c-d", "e_f", "1", '"q r"', "'x.y'", '"#"', '"/p/q"')
COMMENTS = ("# a", "#", "# model = 1", "# [history]", "#\ttab", "# ünï \" ' ''' \"\"\"", "# ]}", "# x = [ # y")
STRINGS = (
    '"a"', "'b'", '"#no"', "'# no'", '"\\u00e9 \\""', '""', '"""\n# no\n\n x"""', "'''\n[no]\n#'''",
    '"""a\\\n   # no\n """""', '"]}"',
)  # fmt: skip
SCALARS = (*STRINGS, "1", "0x1f", "1_000", "true", "1.5e3", "inf", "-nan", "2020-01-01", "2020-01-01T00:00:00Z")


class Writer:
    """Writes a document, with comments, blanks and odd spaces wherever TOML permits them."""

    def __init__(self, draw):
        self.draw = draw
        self.lines = []

    def one_of(self, *choices):
        return self.draw(st.sampled_from(choices))

    def gap(self):
        return self.one_of("", " ", "  ", "\t")

    def fill(self):
        for _ in range(self.one_of(0, 0, 1, 2)):
            self.lines.append(self.gap() + self.one_of("", "", *COMMENTS))

    def end(self):
        return self.gap() + self.one_of("", "", "", *COMMENTS)

    def key(self, most=3):
        parts = [self.one_of(*NAMES) for _ in range(self.one_of(*range(1, most + 1)))]
        return f"{self.gap()}.{self.gap()}".join(parts)

    def value(self, depth=2):
        kind = self.one_of("scalar", "array", "inline") if depth else "scalar"
        if kind == "scalar":
            return self.one_of(*SCALARS)
        if kind == "inline":
            members = [f"{key}{self.gap()}={self.gap()}{self.value(depth - 1)}" for key in self.names()]
            return "{" + self.gap() + f"{self.gap()},{self.gap()}".join(members) + self.gap() + "}"
        parts = [self.value(depth - 1) + self.blank() for _ in range(self.one_of(0, 1, 2, 3))]
        last = "," + self.blank() if parts and self.one_of(False, True) else ""
        return "[" + self.blank() + ("," + self.blank()).join(parts) + last + "]"

    def names(self):
        return self.draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))

    def blank(self):
        text = self.gap()
        for _ in range(self.one_of(0, 0, 1, 2)):
            text += self.one_of("", *COMMENTS) + "\n" + self.gap()
        return text

    def add(self, line):
        """Add a line, unless it contradicts the others."""
        try:
            tomllib.loads("\n".join([*self.lines, line]))
        except tomllib.TOMLDecodeError:
            return
        self.lines.append(line)

    def pairs(self):
        for _ in range(self.one_of(0, 1, 2, 3)):
            self.fill()
            self.add(f"{self.gap()}{self.key()}{self.gap()}={self.gap()}{self.value()}{self.end()}")

    def text(self):
        self.pairs()
        for _ in range(self.one_of(0, 1, 2, 3, 4)):
            self.fill()
            left, right = self.one_of("[]", "[]", ("[[", "]]"))
            self.add(f"{self.gap()}{left}{self.gap()}{self.key()}{self.gap()}{right}{self.end()}")
            self.pairs()
        self.fill()
        text = "\n".join(self.lines) + self.one_of("", "\n")
        return text.replace("\n", self.one_of("\n", "\r\n"))


@st.composite
def documents(draw):
    return Writer(draw).text()


plain = st.integers(-5, 5) | st.booleans() | st.floats() | st.sampled_from(["", "x", "it's", "a\nb", "é\x7f"])
values = st.recursive(
    plain | st.just(datetime.date(2000, 1, 1)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([name.strip("\"'") for name in NAMES]), inner, max_size=3)
    ),
    max_leaves=6,
)


def tables_in(table, path=()):
    yield path
    for name, value in table.items():
        if isinstance(value, dict):
            yield from tables_in(value, (*path, name))


def keys_in(table):
    return [(*path, name) for path in tables_in(table) for name in at(table, path)]


def at(table, path):
    for name in path:
        table = table[name]
    return table


def without_empty(value):
    """The value without empty tables: a dotted key that goes away takes the tables around it along."""
    if isinstance(value, dict):
        parts = {name: without_empty(part) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part != {}}
    return [without_empty(part) for part in value] if isinstance(value, list) else value


def lines_outside(text, key):
    """All lines, but those of the statements for a key and of the tables that it goes through."""
    layout = Layout(text)
    touched = [
        entry
        for entry in layout.entries
        if layout.is_statement(entry) and (entry.path[: len(key)] == key or entry.path == key[: len(entry.path)])
    ]
    lines, offset = [], 0
    for line in text.split("\n"):
        end = offset + len(line)
        if not any(entry.start <= end and offset <= entry.end for entry in touched):
            lines.append(line.rstrip("\r"))
        offset = end + 1
    return lines


def check_rest(before, after, key):
    """Check that nothing but the key has changed, and that all comments are still there."""
    assert collections.Counter(comments_in(before)) == collections.Counter(comments_in(after))
    rest = iter(line.rstrip("\r") for line in after.split("\n"))
    assert all(line in rest for line in lines_outside(before, key)), "the other lines, in their order"
    if "\r\n" in before:
        assert after.count("\n") == after.count("\r\n")


@settings(max_examples=settings.default.max_examples)
@given(documents(), st.data())
def test_setting_any_key_of_any_document_changes_nothing_else(text, data):
    table = tomllib.loads(text)
    parents = st.sampled_from(list(tables_in(table)))
    new = st.builds(
        lambda path, rest: (*path, *rest), parents, st.lists(st.sampled_from("anz"), min_size=1, max_size=3)
    )
    key = data.draw(st.sampled_from(keys_in(table)) | new if keys_in(table) else new)
    value = data.draw(values)
    parent = table
    for name in key[:-1]:
        parent = parent.setdefault(name, {})
        assume(isinstance(parent, dict))
    parent[key[-1]] = value
    after = with_value(text, key, value)
    result = tomllib.loads(after)
    assert same(without_empty(result), without_empty(table))
    assert same(without_empty(at(result, key)), without_empty(value))
    check_rest(text, after, key)
    assert with_value(after, key, value) == after


@settings(max_examples=settings.default.max_examples)
@given(documents(), st.data())
def test_removing_any_key_of_any_document_changes_nothing_else(text, data):
    table = tomllib.loads(text)
    assume(keys_in(table))
    key = data.draw(st.sampled_from(keys_in(table)))
    del at(table, key[:-1])[key[-1]]
    after = without_key(text, key)
    assert same(without_empty(tomllib.loads(after)), without_empty(table))
    check_rest(text, after, key)
