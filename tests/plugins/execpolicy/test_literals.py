"""What is read without Starlark is read as Starlark reads it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_plugin_execpolicy.calls import PARAMETERS, Call
from codex_plugin_execpolicy.fstrings import FStringError, without_fstrings
from codex_plugin_execpolicy.interpretation import Deadline, Part
from codex_plugin_execpolicy.interpreter import interpret
from codex_plugin_execpolicy.literals import literal_calls

_TEXTS = ['"a"', '"a b"', '""', "'a'", "''", "'\"'", '"\\n\\t\\"\\\\"', '"\\b\\f\\r"', '"é日\u2028"', '"#"', "'[,'"]
_ODD_TEXTS = [
    '"\\x41"', '"\\u0041"', '"\\/"', "'\\''", '"a\tb"', 'r"a"', "r'a'", '"""a"""', 'f"a"', "1", "None", '"a\nb"',
    '"a" "b"', '"a" + "b"', "a",
]  # fmt: skip
_NAMES = ["pattern", "decision", "match", "name", "not_match", "host", "paths", "protocol"]


class _Writer:
    """Writes texts that are literal, or nearly so: ``odd`` is how probable each oddity is."""

    def __init__(self, chance: random.Random, odd: float) -> None:
        self._chance = chance
        self._odd = odd

    def text(self) -> str:
        lines = [
            self._pick(["", "# x", "  # é", "   "], ["x = 1", "pass", '"a text"', "\t", "#\x01"])
            if self._chance.random() < 0.3
            else self._call()
            for _ in range(self._chance.randint(1, 4))
        ]
        return "\n".join(lines) + self._pick(["", "\n", "\n  ", "\n\n"], [";", "\t", "\\"])

    def _pick(self, usual: Sequence[str], odd: Sequence[str]) -> str:
        return self._chance.choice(odd if self._chance.random() < self._odd else usual)

    def _gap(self) -> str:
        return self._pick(
            ["", "", "", " ", "\n", "\n\n ", '  # ["a", \'b\n', "#\n"], ["\t", "\r\n", "# é\x85\n", "\\\n", ";"]
        )

    def _call(self) -> str:
        named = self._chance.random()
        names = self._chance.sample(_NAMES, 4)
        values = [self._value(self._chance.choice([0, 1, 1, 2])) for _ in range(self._chance.randint(0, 3))]
        split = round(named * len(values))
        arguments = values[:split]
        arguments += [
            f"{name}{self._gap()}={self._gap()}{value}" for name, value in zip(names, values[split:], strict=False)
        ]
        if self._chance.random() < self._odd:
            self._chance.shuffle(arguments)
        before, space = self._pick([""], [" ", "x"]), self._pick(["", "", " "], ["\n", "."])
        function = self._pick(list(PARAMETERS), ["len", "prefix", "prefix_rules"])
        return f"{before}{function}{space}({self._several(arguments)}){self._pick(['', '', ' ', ' # x'], [';', ' ;', '.x', ' x'])}"

    def _value(self, depth: int) -> str:
        if depth == 0 or self._chance.random() < 0.2:
            return self._pick(_TEXTS, _ODD_TEXTS)
        depth += self._chance.random() < self._odd
        return f"[{self._several([self._value(depth - 1) for _ in range(self._chance.randint(0, 3))])}]"

    def _several(self, values: list[str]) -> str:
        inner = ",".join(f"{self._gap()}{value}{self._gap()}" for value in values)
        return inner + self._pick(["", "", f",{self._gap()}"] if values else [self._gap()], [",", ",,"])


def starlark(text: str) -> tuple[Call, ...] | None:
    found = interpret([Part(text)], Deadline())
    return None if found.failures else found.calls


def test_generated_texts_give_the_calls_that_starlark_makes() -> None:
    chance = random.Random(3)  # the same texts each time
    texts = [_Writer(chance, odd).text() for odd in (0, 0.02, 0.1) for _ in range(600)]
    literal = {text: calls for text in texts if (calls := literal_calls(text)) is not None}
    assert 800 < len(literal) < 1400
    parts = [Part(text) for text in literal]  # none of them gives a name to anything, so one module does for all
    found = interpret(parts, Deadline())
    assert (found.failures, found.rest) == ((), ())
    assert found.calls == tuple(call for calls in literal.values() for call in calls)


@pytest.mark.parametrize(
    "text",
    [
        'prefix_rule(["a"]);', ' prefix_rule(["a"])', 'prefix_rule(["a"]) # x\n  prefix_rule(["b"])',
        'prefix_rule(decision = "a", ["b"])', 'prefix_rule(pattern = ["a"], pattern = ["b"])',
        'prefix_rule(in = ["a"])', "prefix_rule(,)", 'prefix_rule(["a",,])', 'prefix_rule(["a" "b"])',
        'prefix_rule("""a""")', 'prefix_rule(["\\ud83d\\ude00"])', 'prefix_rule(["\\/"])', 'prefix_rule(["a\rb"])',
        'prefix_rule([["a", ["b"]]])', 'prefix_rule(["a"]).b', 'prefix_rule\n(["a"])',
        'prefix_rule(["a"])prefix_rule(["b"])', 'prefix_rule(["a"]', 'prefix_rule(["a"], *[])', 'prefix_rule([1])',
        "\ufeffprefix_rule()", 'f"{prefix_rule()}"',
    ],
)  # fmt: skip
def test_what_is_doubtful_is_left_to_starlark(text: str) -> None:
    assert literal_calls(text) is None


def test_gaps_and_comments_are_like_starlarks() -> None:
    text = '# "\n\n  # x\nprefix_rule ( # [\n  [ "a" , # "b"\n\n [ \'c\' , ] ] ,\n decision = # =\n "prompt" , ) # )\n'
    text += '   \nhost_executable("a",[])'
    calls = (
        Call(4, "prefix_rule", (["a", ["c"]],), {"decision": "prompt"}),
        Call(11, "host_executable", ("a", []), {}),
    )
    assert literal_calls(text) == starlark(text) == calls


@given(st.text() | st.text("f\"'{}\\\n!r=# ax()[]"))
def test_any_text_is_rewritten_or_refused(text: str) -> None:
    try:
        rewritten = without_fstrings(text)
    except FStringError as error:
        assert 0 <= error.at < len(text)
    else:
        assert rewritten.count("\n") == text.count("\n")


@given(st.text("r\"'{}\\\n!=# ax()[]"))
def test_texts_without_fstrings_stay(text: str) -> None:
    assert without_fstrings(text) == text
