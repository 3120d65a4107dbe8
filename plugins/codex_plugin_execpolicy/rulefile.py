"""Reads a ``.rules`` file, in the syntax that Starlark and Python share.

It is calls of three functions. Their arguments are literals, names that were given to literals further up, and sums of these.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework.errors import ConfigError
from codex_framework.value import Value
from codex_plugin_execpolicy.rules import DECISIONS, NetworkRule, PrefixRule, RuleSet

if TYPE_CHECKING:
    import ast

__all__ = ["Example", "RuleFile", "parse_rules", "read_rules", "readable_rules"]

_HINT = "Write calls of prefix_rule, network_rule and host_executable, with values written out; see docs/plugins/execpolicy.md."
_PROTOCOLS = ("http", "https", "socks5_tcp", "socks5_udp")
_OLD_PROTOCOLS = {"http-connect": "https", "https_connect": "https"}
"""Further words that Codex takes."""

_LONGEST = 10_000
"""Characters, or elements, that a sum may have."""

_MOST_LINES = 200
"""Of a call that cannot be parsed, so many lines are looked at."""

_CALL = re.compile(r"^(?=(?:prefix_rule|network_rule|host_executable)\b)", re.MULTILINE)


class Example(Value, kw_only=True):
    """A command that a rule has to match, or has to leave alone."""

    command: tuple[str, ...]
    matches: bool
    rules: tuple[PrefixRule, ...]
    line: int


class RuleFile(Value):
    """What a file says.

    Attributes:
        examples: Checked already: they hold.
    """

    rules: RuleSet
    examples: tuple[Example, ...]


def read_rules(path: Path) -> RuleFile:
    """The rules of a file.

    Raises:
        ConfigError: It cannot be read, or says something that is no rule, or an example in it does not hold.
    """
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        fact = f"the rules file {path} cannot be read: {error.strerror or error}"
        raise ConfigError(
            fact, path=str(path), slug="exec-rules", hint="Name a file that exists and may be read."
        ) from error
    except UnicodeDecodeError as error:
        fact = f"the rules file {path} is not UTF-8: byte {error.start} cannot be decoded"
        raise ConfigError(fact, path=str(path), slug="exec-rules", hint="Save it as UTF-8.") from error
    return parse_rules(text, str(path))


def readable_rules(path: Path) -> RuleSet:
    """The rules of a file with a mistake, as far as each can be read by itself; of a file that cannot be read at all, none."""
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return RuleSet()
    reader = _Reader(str(path))
    for part in _CALL.split(text):
        for statement in _readable_statements(part, str(path)):
            with contextlib.suppress(ConfigError):
                reader.read(statement)
    return reader.rules


def _readable_statements(text: str, path: str) -> list[ast.stmt]:
    """The statements of the most lines, from the first on, that can be parsed."""
    lines = text.splitlines(keepends=True)[:_MOST_LINES]
    for end in range(len(lines), 0, -1):
        with contextlib.suppress(ConfigError):
            return _statements("".join(lines[:end]), path)
    return []


def parse_rules(text: str, path: str) -> RuleFile:
    """The rules in a text. ``path`` is for errors. Raises as :func:`read_rules`."""
    reader = _Reader(path)
    for statement in _statements(text, path):
        reader.read(statement)
    reader.check_examples()
    return RuleFile(reader.rules, tuple(reader.examples))


class _WrongCallError(Exception):
    """A call is no rule."""


def _statements(text: str, path: str) -> list[ast.stmt]:
    import ast
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes that Python finds doubtful
            return ast.parse(text).body
    except SyntaxError as error:
        raise _error(path, error.lineno or 1, error.offset or 1, error.msg) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise _error(path, 1, 1, f"it cannot be parsed: {error or type(error).__name__}") from None


def _error(path: str, line: int, column: int, fact: str) -> ConfigError:
    return ConfigError(f"{path}:{line}:{column}: {fact}", path=path, line=line, slug="exec-rules", hint=_HINT)


class _Reader:
    def __init__(self, path: str) -> None:
        self.rules = RuleSet()
        self.examples: list[Example] = []
        self._path = path
        self._names: dict[str, Any] = {}

    def read(self, statement: ast.stmt) -> None:
        """Take one statement. Raises ConfigError."""
        import ast

        try:
            match statement:
                case ast.Expr(value=ast.Call(func=ast.Name(id=name)) as call):
                    self._call(name, call)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._names[name] = self._value(name, value)
                case ast.Expr(value=ast.Constant(value=str())):
                    pass  # a docstring
                case _:
                    raise _WrongCallError("only calls of prefix_rule, network_rule and host_executable may stand here")
        except _WrongCallError as wrong:
            raise _error(self._path, statement.lineno, statement.col_offset + 1, str(wrong)) from None
        except RecursionError:
            raise _error(self._path, statement.lineno, 1, "a value has too many parts") from None

    def check_examples(self) -> None:
        """Raises ConfigError for the first example that does not hold."""
        for example in self.examples:
            found = self.rules.restricted(example.rules).matches(example.command, anywhere=True)
            if bool(found) == example.matches:
                continue
            command = shlex.join(example.command)
            wanted = "is not matched by its rule" if example.matches else "is matched by its rule, but should not be"
            raise _error(self._path, example.line, 1, f"the example `{command}` {wanted}")

    def _call(self, name: str, call: ast.Call) -> None:
        functions: Mapping[str, tuple[Callable[..., None], tuple[str, ...], int]] = {
            "prefix_rule": (self._prefix_rule, ("pattern", "decision", "match", "not_match", "justification"), 1),
            "network_rule": (self._network_rule, ("host", "protocol", "decision", "justification"), 3),
            "host_executable": (self._host_executable, ("name", "paths"), 2),
        }
        if name not in functions:
            raise _WrongCallError(f"there is no function `{name}`; there are {', '.join(functions)}")
        function, parameters, required = functions[name]
        arguments = self._arguments(name, call, parameters)
        missing = [parameter for parameter in parameters[:required] if parameter not in arguments]
        if missing:
            raise _WrongCallError(f"{name} needs `{missing[0]}`")
        function(call.lineno, **arguments)

    def _arguments(self, name: str, call: ast.Call, parameters: tuple[str, ...]) -> dict[str, Any]:
        if len(call.args) > len(parameters):
            raise _WrongCallError(f"{name} takes at most {len(parameters)} arguments")
        named = ((keyword.arg, keyword.value) for keyword in call.keywords)
        arguments: dict[str, Any] = {}
        for parameter, node in (*zip(parameters, call.args, strict=False), *named):
            if parameter is None or parameter not in parameters:
                raise _WrongCallError(f"{name} has no parameter `{parameter or '**'}`; it has {', '.join(parameters)}")
            if parameter in arguments:
                raise _WrongCallError(f"{name} is given `{parameter}` twice")
            arguments[parameter] = self._value(parameter, node)
        return arguments

    def _value(self, what: str, node: ast.expr) -> Any:
        import ast

        match node:
            case ast.Constant(value=value):
                return value  # whoever takes it says what is wrong with it
            case ast.List(elts=elements):
                return [self._value(what, element) for element in elements]
            case ast.Tuple(elts=elements):
                return tuple(self._value(what, element) for element in elements)
            case ast.Name(id=name) if name in self._names:
                return self._names[name]
            case ast.Name(id=name):
                raise _WrongCallError(f"`{what}`: the name `{name}` is not given to anything above")
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                one, other = self._value(what, left), self._value(what, right)
                if type(one) is type(other) and isinstance(one, str | list) and len(one) + len(other) <= _LONGEST:
                    return one + other
        raise _WrongCallError(f"`{what}` must be a string, or a list of them, and written out")

    def _prefix_rule(
        self,
        line: int,
        pattern: Any,
        decision: Any = "allow",
        match: Any = (),
        not_match: Any = (),
        justification: Any = None,
    ) -> None:
        first, *rest = _pattern(pattern)
        verdict = _choice("decision", decision, DECISIONS)
        reason = _justification(justification)
        rules = tuple(PrefixRule(program, tuple(rest), verdict, reason) for program in first)
        for rule in rules:
            self.rules.add(rule)
        for wanted, examples in ((True, match), (False, not_match)):
            for command in _examples("match" if wanted else "not_match", examples):
                self.examples.append(Example(command=command, matches=wanted, rules=rules, line=line))

    def _network_rule(self, _line: int, host: Any, protocol: Any, decision: Any, justification: Any = None) -> None:
        verdict = _choice("decision", decision, {**DECISIONS, "deny": DECISIONS["forbidden"]})
        if not isinstance(protocol, str) or protocol not in (*_PROTOCOLS, *_OLD_PROTOCOLS):
            raise _WrongCallError(f"network_rule protocol must be one of {', '.join(_PROTOCOLS)} (got {protocol})")
        spoken = _OLD_PROTOCOLS.get(protocol, protocol)
        rule = NetworkRule(_host(host), spoken, verdict, _justification(justification))
        self.rules.network.append(rule)

    def _host_executable(self, _line: int, name: Any, paths: Any) -> None:
        if not isinstance(name, str) or not name or "/" in name or "\\" in name or name in (".", ".."):
            raise _WrongCallError(f"host_executable name must be a bare executable name (got {name})")
        if not isinstance(paths, list):
            raise _WrongCallError(f"host_executable paths must be a list of strings (got {_kind(paths)})")
        for path in paths:
            if not isinstance(path, str) or not path.startswith("/"):
                raise _WrongCallError(f"host_executable paths must be absolute (got {path})")
            if path.rsplit("/", 1)[-1] != name:
                raise _WrongCallError(f"host_executable path `{path}` must have basename `{name}`")
        self.rules.locate(name, tuple(dict.fromkeys(paths)))


def _pattern(value: Any) -> list[tuple[str, ...]]:
    if not isinstance(value, list):
        raise _WrongCallError(f"pattern must be a list (got {_kind(value)})")
    if not value:
        raise _WrongCallError("pattern cannot be empty")
    pattern = []
    for element in value:
        alternatives = [element] if isinstance(element, str) else element
        if not isinstance(alternatives, list):
            raise _WrongCallError(f"pattern element must be a string or list of strings (got {_kind(element)})")
        if not alternatives:
            raise _WrongCallError("pattern alternatives cannot be empty")
        for word in alternatives:
            if not isinstance(word, str):
                raise _WrongCallError(f"pattern alternative must be a string (got {_kind(word)})")
        pattern.append(tuple(alternatives))
    return pattern


def _examples(parameter: str, value: Any) -> list[tuple[str, ...]]:
    if not isinstance(value, list | tuple):
        raise _WrongCallError(f"{parameter} must be a list of examples (got {_kind(value)})")
    return [_example(parameter, example) for example in value]


def _example(parameter: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        if not value:
            raise _WrongCallError("example cannot be an empty list")
        if not all(isinstance(word, str) for word in value):
            raise _WrongCallError(f"{parameter}: an example is a string or a list of strings")
        return tuple(value)
    if not isinstance(value, str):
        raise _WrongCallError(f"{parameter}: an example is a string or a list of strings (got {_kind(value)})")
    try:
        words = tuple(shlex.split(value))
    except ValueError:
        raise _WrongCallError("example string has invalid shell syntax") from None
    if not words:
        raise _WrongCallError("example cannot be an empty string")
    return words


def _choice(parameter: str, value: Any, choices: Mapping[str, Any]) -> Any:
    if not isinstance(value, str) or value not in choices:
        raise _WrongCallError(f"invalid {parameter}: {value}; use one of {', '.join(choices)}")
    return choices[value]


def _justification(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise _WrongCallError(f"justification must be a string (got {_kind(value)})")
    if not value.strip():
        raise _WrongCallError("justification cannot be empty")
    return value


def _host(value: Any) -> str:
    from codex_plugin_execpolicy.hosts import rule_host

    if not isinstance(value, str):
        raise _WrongCallError(f"network_rule host must be a string (got {_kind(value)})")
    try:
        return rule_host(value)
    except ValueError as error:
        raise _WrongCallError(str(error)) from None


def _kind(value: Any) -> str:
    return type(value).__name__
