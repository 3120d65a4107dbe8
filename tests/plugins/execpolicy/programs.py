"""Random rules files in Starlark, with everything that the language has."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

__all__ = ["random_program"]

_NAMES = ["a", "b", "c", "x", "y"]
_TEXTS = ["", "a", "ls", "a b", "A-b", " x ", "é日", "%s", "{}", "a\tb", 'q"', "it's", "a,b,c", "x\ny", "12", "\\d"]


class _Program:
    """Grows one program. Names are bound before use, mostly, and have the type that is expected of them."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._lines: list[str] = []
        self._indent = 0
        self._known: dict[str, list[str]] = {"text": [], "number": [], "words": [], "table": [], "function": []}
        self._count = 0

    def text(self) -> str:
        for _ in range(self._chance.randint(1, 6)):
            self._statement(depth=2)
        for _ in range(self._chance.randint(1, 3)):
            self._rule()
        return "\n".join(self._lines) + self._pick("", "\n", "\n# the end", "\n\n")

    def _pick(self, *choices: str) -> str:
        return self._chance.choice(choices)

    def _line(self, line: str) -> None:
        self._lines.append("    " * self._indent + line)

    def _name(self, kind: str) -> str:
        self._count += 1
        name = f"{self._chance.choice(_NAMES)}{self._count}"
        self._known[kind].append(name)
        return name

    # Statements

    def _statement(self, depth: int) -> None:
        simple: list[Callable[[], None]] = [
            self._assign,
            self._assign,
            self._change,
            self._unpack,
            self._rule,
            self._odd,
        ]
        compound = [self._branch, self._loop, self._define, self._loop_of_rules]
        if depth and self._chance.random() < 0.5:
            self._chance.choice(compound)(depth)
        else:
            self._chance.choice(simple)()

    def _block(self, depth: int) -> None:
        """Names that it binds are not known after it: it may not have been run."""
        known = {kind: list(names) for kind, names in self._known.items()}
        self._indent += 1
        for _ in range(self._chance.randint(1, 2)):
            self._statement(depth - 1)
        self._indent -= 1
        self._known = known

    def _assign(self) -> None:
        kind = self._pick("text", "number", "words", "table")
        value = self._value(kind)
        annotated = {"text": ": str", "number": ": int", "words": ": list[str]", "table": ": dict"}[kind]
        self._line(f"{self._name(kind)}{annotated if self._chance.random() < 0.15 else ''} = {value}")

    def _change(self) -> None:
        if self._known["words"] and self._chance.random() < 0.6:
            words = self._chance.choice(self._known["words"])
            self._line(
                self._pick(
                    f"{words} += {self._words()}",
                    f"{words}.append({self._string()})",
                    f"{words}.extend({self._words()})",
                    f"{words}.insert(0, {self._string()})",
                    f"{words}.sort()",
                    f"{words}.clear()",
                )
            )
        elif self._known["table"]:
            table = self._chance.choice(self._known["table"])
            self._line(
                self._pick(
                    f"{table}[{self._string()}] = {self._number()}",
                    f"{table}.update([({self._string()}, 1)])",
                    f"{table}.setdefault({self._string()}, 2)",
                    f"{table}.pop({self._string()}, None)",
                    f"{table} |= {self._table()}",
                )
            )
        else:
            self._assign()

    def _unpack(self) -> None:
        values = f"{self._string()}, ({self._number()}, {self._string()})"
        one, two, three = self._name("text"), self._name("number"), self._name("text")
        self._line(self._pick(f"{one}, ({two}, {three}) = {values}", f"[{one}, [{two}, {three}]] = [{values}]"))

    def _branch(self, depth: int) -> None:
        self._line(f"if {self._truth()}:")
        self._block(depth)
        if self._chance.random() < 0.3:
            self._line(f"elif {self._truth()}:")
            self._block(depth)
        if self._chance.random() < 0.5:
            self._line("else:")
            self._block(depth)

    def _loop(self, depth: int) -> None:
        kind, values = self._chance.choice(
            [("number", f"range({self._chance.randint(0, 4)})"), ("text", self._words()), ("text", self._table())]
        )
        known = {kind: list(names) for kind, names in self._known.items()}
        self._line(f"for {self._name(kind)} in {values}:")
        if self._chance.random() < 0.3:
            self._indent += 1
            self._line(f"if {self._truth()}:")
            self._indent += 1
            self._line(self._pick("continue", "break", "pass"))
            self._indent -= 2
        self._block(depth)
        self._known = known

    def _loop_of_rules(self, depth: int) -> None:
        self._line(
            self._pick(
                f"[prefix_rule([word]) for word in {self._words()} if word]",
                f"[prefix_rule(['ls'], justification = {self._string()}) for _ in range(2)]",
                f"for number, word in enumerate({self._words()}): prefix_rule(['ls', word], ['allow', 'prompt'][number % 2])",
            )
        )

    def _define(self, depth: int) -> None:
        name = f"f{self._count}"
        self._count += 1
        known = {kind: list(names) for kind, names in self._known.items()}
        text, number = self._name("text"), self._name("number")
        parameters = self._pick(
            f"{text}, {number} = 2",
            f"{text}, *, {number} = 3",
            f"{text}: str, {number}: int = 1",
            f"{text}, {number} = 1, *args, **kwargs",
        )
        self._line(f"def {name}({parameters}){self._pick('', ' -> str') if ':' in parameters else ''}:")
        if self._chance.random() < 0.7:
            self._block(depth)
        self._indent += 1
        self._line(f"return {self._string()}")
        self._indent -= 1
        self._known = known
        if self._indent == 0:
            self._known["function"].append(name)

    def _odd(self) -> None:
        """Now and then, something that is wrong, or that other languages have."""
        if self._chance.random() < 0.8:
            self._rule()
            return
        self._line(
            self._pick(
                "pass", "x = unknown", "fail('no')", "print(1)", "while True: pass", "import os", "x = 1 / 0",
                "'a' + 1", "{}['a']", "[][0]", "load('a', 'b')", "struct()", "lambda x: x", "'''text'''", "x = y = 1",
                "del x", "x = (1,", "x ==", "prefix_rule", "len", "x = [1, 2,, 3]", "x = 1 if True", "x = 08",
                "return 1", "a.b = 1", "prefix_rule()", "prefix_rule(('ls',))", "host_executable('a', ['b'])",
                "network_rule('*', 'http', 'allow')", "(lambda: prefix_rule(['ls']))()", "def f(x, x): pass",
                "x = 1; x += 1; prefix_rule(['ls', str(x)])", "if True: pass",
            )
        )  # fmt: skip

    def _rule(self) -> None:
        decision = self._pick(
            '"allow"',
            '"prompt"',
            '"forbidden"',
            'decision = "prompt"',
            f'decision = "allow" if {self._truth()} else "prompt"',
        )
        pattern = self._pick(
            '["ls"]',
            f'["ls", {self._string()}]',
            f'["ls"] + {self._words()}',
            f'["l" + "s", {self._words()} + ["a"]]',
            f"{self._words()}",
        )
        rule = self._chance.choice(
            [
                f'prefix_rule(["ls"], justification = {self._string()})',
                f'prefix_rule(["ls"], justification = str({self._value(self._pick("text", "number", "words", "table"))}) + "-")',
                f"prefix_rule({pattern}, {decision})",
                f"prefix_rule(pattern = {pattern})",
                f'prefix_rule(*[["ls"]], **{{"justification": {self._string()} + "."}})',
                f'network_rule({self._pick("a.example", "b")!r}.lower(), "https", {self._string()} and "deny")',
                f'prefix_rule(["ls"], match = [w + " x" for w in ["ls"]], not_match = {self._words()})',
            ]
        )
        self._line(rule)

    # Expressions

    def _value(self, kind: str) -> str:
        makers = {"text": self._string, "number": self._number, "words": self._words, "table": self._table}
        return makers[kind]()

    def _variable(self, kind: str) -> str | None:
        return self._chance.choice(self._known[kind]) if self._known[kind] and self._chance.random() < 0.4 else None

    def _literal(self) -> str:
        text = self._chance.choice(_TEXTS)
        quoted = json.dumps(text, ensure_ascii=False)
        return self._pick(
            quoted,
            quoted,
            quoted,
            f"'''{text}'''" if "'" not in text and "\\" not in text else quoted,
            "r'\\d+'",
            "'\\x41\\101\\u00e9'",
        )

    def _string(self, depth: int = 2) -> str:
        if (known := self._variable("text")) is not None:
            return known
        if not depth or self._chance.random() < 0.35:
            return self._literal()
        one, two = self._string(depth - 1), self._string(depth - 1)
        number, words, table = self._number(depth - 1), self._words(depth - 1), self._table(depth - 1)
        call = f"{self._chance.choice(self._known['function'])}({one})" if self._known["function"] else one
        inner = self._pick(one, number, words).replace("'''", '"')
        return self._pick(
            f"({one} + {two})", f"{one} * 2", f"{one}.upper()", f"{one}.lower().title()", f"{one}.capitalize()",
            f"{one}.strip()", f"{one}.replace({two}, 'z')", f"{one}.join({words})", f"'{{}}-{{{{}}}}'.format({one})",
            f"'{{0}}-{{0}}'.format({one})", f"'{{}}-{{}}-{{k}}'.format({one}, {number}, k = {two})",
            f"'%s-%d-%r' % ({one}, {number}, {two})",
            f"f'{{{number}}}-{{{inner}}}'" if "'" not in inner + number else one, f'f"{{{inner}}}"',
            f'f"""a{{{inner}!r}}b{{{{"""', f"str({number})", f"repr({one})", f"str({words})", f"str({table})",
            f"{one}[1:]", f"{one}[::-1]", f"{one}[-1:]", f"({one} if {self._truth(depth - 1)} else {two})",
            f"({one} or {two})", f"({one} and {two})", f"str({one}.split())", f"str({one}.split(' ', 1))",
            f"str({one}.partition('a'))", f"str({one}.rpartition(' '))", f"{one}.removeprefix('a').removesuffix('b')",
            f"str({one}.splitlines())", f"type({words})", f"str({one}.isalpha())", f"str(list({one}.elems()))",
            f"{one}.lstrip().rstrip('x')", call, f"str(({one}, {number}))", f"(lambda v: v + 'l')({one})",
            f"({table} | {{'o': 1}}).keys()[0]", f"({words} + ['e'])[0]", f"str(dir({one})[:2])",
            f"max({words} + ['a'])", f"str(hash({one}))", f"getattr({one}, 'upper')()", f"str({number} / 4)",
            f"str(float({number}))", f"str(hasattr({one}, 'lower'))",
        )  # fmt: skip

    def _number(self, depth: int = 2) -> str:
        if (known := self._variable("number")) is not None:
            return known
        if not depth or self._chance.random() < 0.5:
            return self._pick("0", "1", "2", "-3", "17", "0x1f", "0o17", "0b101", "4294967296")
        one, two, words = self._number(depth - 1), self._number(depth - 1), self._words(depth - 1)
        return self._pick(
            f"({one} + {two})", f"({one} - {two})", f"({one} * {two})", f"({one} // 3)", f"({one} % 5)",
            f"({one} & {two})", f"({one} | {two})", f"({one} ^ {two})", f"~{one}", f"({one} << 2)", f"({one} >> 1)",
            f"len({words})", f"abs({one})", "int('12')", f"int({one} == {two})", f"max({one}, {two})",
            f"min([{one}, {two}])", f"{words}.index('a')", f"{self._string(depth - 1)}.count('a')",
            f"{self._string(depth - 1)}.find('a')", f"{self._table(depth - 1)}.get('a', 7)", f"-{one}",
            f"({one} if {one} > {two} else {two})",
        )  # fmt: skip

    def _truth(self, depth: int = 1) -> str:
        one, two = self._number(depth), self._number(depth)
        return self._pick(
            "True", "False", f"{one} < {two}", f"{one} == {two}", f"{one} != {two}", f"not {one}",
            f"{one} >= {two} and {two}", f"{self._string(depth)} in {self._words(depth)}",
            f"{self._string(depth)} not in {self._string(depth)}", f"any([{one}, {two}])",
            f"all({self._words(depth)})", f"{self._string(depth)}.startswith('a')",
            f"{self._string(depth)}.endswith(('b', 'a'))", f"bool({one})",
        )  # fmt: skip

    def _words(self, depth: int = 2) -> str:
        if (known := self._variable("words")) is not None:
            return known
        if not depth or self._chance.random() < 0.4:
            return self._pick('["a"]', '["a", "b"]', "[]", '["x", "a",]', "['a'] * 2", f"[{self._literal()}]")
        one, words, other = self._string(depth - 1), self._words(depth - 1), self._words(depth - 1)
        return self._pick(
            f"({words} + {other})", f"[{one}]", f"{words}[:1]", f"sorted({words})",
            f"sorted({words}, key = len, reverse = True)", f"reversed({words})", f"list({words})",
            f"[w.upper() for w in {words}]", f"[w + v for w in {words} for v in {other}]",
            f"[w for w in {words} if len(w) > 1]", f"list(({one}, 'a'))", f"{one}.split('a')",
            f"[str(p) for p in enumerate({words})]", f"[k for k, _ in zip({words}, {other})]",
            f"{self._table(depth - 1)}.keys()", "[str(i) for i in range(3)]", f"list({{w: 1 for w in {words}}})",
            f"{one}.split()", f"[(lambda q: q * 2)(w) for w in {words}]",
            f"({words} if {self._truth(0)} else {other})", f"[w for l in [{words}, {other}] for w in l]",
            f"[str(v) for v in {self._table(depth - 1)}.values()]",
        )  # fmt: skip

    def _table(self, depth: int = 2) -> str:
        if (known := self._variable("table")) is not None:
            return known
        if not depth or self._chance.random() < 0.5:
            return self._pick("{}", '{"a": 1}', '{"a": 1, "b": 2}', "dict(a = 3)", "{'x': 5,}")
        one, table = self._string(depth - 1), self._table(depth - 1)
        return self._pick(
            f"{{{one}: 1}}", f"{{w: len(w) for w in {self._words(depth - 1)}}}", f"dict([({one}, 2)])",
            f"dict({table}, z = 1)", f"({table} | {{'n': 1}})", f"{{k: v for k, v in {table}.items() if v}}",
        )  # fmt: skip


def random_program(chance: random.Random) -> str:
    """A program that mostly is right."""
    return _Program(chance).text()
