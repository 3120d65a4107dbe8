"""Calls of the functions in ``.rules`` files, and the resulting rules."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from codex_framework.contract.value import Value
from codex_plugin_execpolicy.rules import DECISIONS, NetworkRule, PrefixRule, RuleSet

__all__ = ["PARAMETERS", "Call", "Example", "RuleCollection", "WrongCallError"]

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "prefix_rule": ("pattern", "decision", "match", "not_match", "justification"),
    "network_rule": ("host", "protocol", "decision", "justification"),
    "host_executable": ("name", "paths"),
}
"""The functions and their parameters, in the order of positional arguments."""

_REQUIRED = {"prefix_rule": 1, "network_rule": 3, "host_executable": 2}
"""The number of parameters without a default."""

_PROTOCOLS = ("http", "https", "socks5_tcp", "socks5_udp")
_OLD_PROTOCOLS = {"http-connect": "https", "https_connect": "https"}
"""Further words that Codex accepts."""

_NO_SPACE = "\x1c\x1d\x1e\x1f"
"""Characters that are white space in Python, but neither in Unicode nor in Codex."""

_GAP = re.compile(r"(?:[ \t\n]|#[^\n]*(?:\n|\Z))*")
_PIECE = re.compile(
    r"""(?P<plain>[^\s'"\\]|[^\S \t\n])+ | '(?P<single>[^']*+)' | "(?P<double>(?:[^"\\]|\\.)*)" | \\(?P<escaped>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r'\\([$`"\\\n])')


class Call(Value):
    """A call of a function.

    Attributes:
        line: The line in the file, from 1.
        positional: The positional arguments: strings, and lists of strings and of such lists. Anything else is ``{"": type}``.
        named: The keyword arguments.
    """

    line: int
    function: str
    positional: tuple[Any, ...]
    named: Mapping[str, Any]


class Example(Value, kw_only=True):
    """A command that a rule must match, or must not match."""

    command: tuple[str, ...]
    matches: bool
    rules: tuple[PrefixRule, ...]
    line: int


class WrongCallError(Exception):
    """A call is not a valid rule, or an example is wrong."""


class RuleCollection:
    """The rules and examples of some calls."""

    def __init__(self) -> None:
        self.rules = RuleSet()
        self.examples: list[Example] = []
        self._alone: tuple[tuple[PrefixRule, ...], RuleSet] = ((), RuleSet())

    def add(self, call: Call) -> None:
        """Add the rules and examples of a call.

        Raises:
            WrongCallError: It is not a valid rule. Nothing has been added.
        """
        functions: Mapping[str, Callable[..., None]] = {
            "prefix_rule": self._prefix_rule,
            "network_rule": self._network_rule,
            "host_executable": self._host_executable,
        }
        functions[call.function](call.line, **_arguments(call))

    def check(self, example: Example) -> None:
        """Check an example, after all calls have been added. Raises WrongCallError."""
        if self._alone[0] is not example.rules:
            self._alone = example.rules, self.rules.restricted(example.rules)
        found = self._alone[1].matches(example.command, anywhere=True)
        if bool(found) == example.matches:
            return
        wanted = "is not matched by its rule" if example.matches else "is matched by its rule, but should not be"
        raise WrongCallError(f"the example `{shlex.join(example.command)}` {wanted}")

    def _prefix_rule(
        self,
        line: int,
        pattern: Any,
        decision: Any = "allow",
        match: Any = (),
        not_match: Any = (),
        justification: Any = ...,
    ) -> None:
        first, *rest = _pattern(pattern)
        verdict = _choice("decision", decision, DECISIONS)
        reason = _justification(justification)
        rules = tuple(PrefixRule(program, tuple(rest), verdict, reason) for program in first)
        wanted = _examples("match", match)
        unwanted = _examples("not_match", not_match)
        for rule in rules:
            self.rules.add(rule)
        for commands, matches in ((wanted, True), (unwanted, False)):
            self.examples += (Example(command=command, matches=matches, rules=rules, line=line) for command in commands)

    def _network_rule(self, _line: int, host: Any, protocol: Any, decision: Any, justification: Any = ...) -> None:
        verdict = _choice("decision", decision, {**DECISIONS, "deny": DECISIONS["forbidden"]})
        if not isinstance(protocol, str) or protocol not in (*_PROTOCOLS, *_OLD_PROTOCOLS):
            raise WrongCallError(
                f"network_rule protocol must be one of {', '.join(_PROTOCOLS)} (got {_describe_value(protocol)})"
            )
        spoken = _OLD_PROTOCOLS.get(protocol, protocol)
        self.rules.network.append(NetworkRule(_host(host), spoken, verdict, _justification(justification)))

    def _host_executable(self, _line: int, name: Any, paths: Any) -> None:
        if not isinstance(name, str) or not name or "/" in name or name in (".", ".."):
            raise WrongCallError(f"host_executable name must be a bare executable name (got {_describe_value(name)})")
        if not isinstance(paths, list):
            raise WrongCallError(f"host_executable paths must be a list of strings (got {_kind(paths)})")
        self.rules.locate(name, tuple(dict.fromkeys(_path(name, path) for path in paths)))


def _arguments(call: Call) -> dict[str, Any]:
    """Return the arguments by parameter. Raises WrongCallError."""
    name, parameters = call.function, PARAMETERS[call.function]
    if len(call.positional) > len(parameters):
        raise WrongCallError(f"{name} takes at most {len(parameters)} arguments")
    arguments = dict(zip(parameters, call.positional, strict=False))
    for parameter, value in call.named.items():
        if parameter not in parameters:
            raise WrongCallError(f"{name} has no parameter `{parameter}`; it has {', '.join(parameters)}")
        if parameter in arguments:
            raise WrongCallError(f"{name} is given `{parameter}` twice")
        arguments[parameter] = value
    for parameter in parameters[: _REQUIRED[name]]:
        if parameter not in arguments:
            raise WrongCallError(f"{name} needs `{parameter}`")
    return arguments


def _pattern(value: Any) -> list[tuple[str, ...]]:
    if not isinstance(value, list):
        raise WrongCallError(f"pattern must be a list (got {_kind(value)})")
    if not value:
        raise WrongCallError("pattern cannot be empty")
    return [_alternatives(element) for element in value]


def _alternatives(element: Any) -> tuple[str, ...]:
    if isinstance(element, str):
        return (element,)
    if not isinstance(element, list):
        raise WrongCallError(f"pattern element must be a string or list of strings (got {_kind(element)})")
    if not element:
        raise WrongCallError("pattern alternatives cannot be empty")
    for word in element:
        if not isinstance(word, str):
            raise WrongCallError(f"pattern alternative must be a string (got {_kind(word)})")
    return tuple(element)


def _examples(parameter: str, value: Any) -> list[tuple[str, ...]]:
    if not isinstance(value, list | tuple):
        raise WrongCallError(f"{parameter} must be a list of examples (got {_kind(value)})")
    return [_example(parameter, example) for example in value]


def _example(parameter: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        if not value:
            raise WrongCallError("example cannot be an empty list")
        for word in value:
            if not isinstance(word, str):
                raise WrongCallError(f"{parameter}: the words of an example are strings (got {_kind(word)})")
        return tuple(value)
    if not isinstance(value, str):
        raise WrongCallError(f"{parameter}: an example is a string or a list of strings (got {_kind(value)})")
    words = tuple(_shell_words(value))
    if not words:
        raise WrongCallError("example cannot be an empty string")
    return words


def _shell_words(text: str) -> Iterator[str]:
    """Split a command line into words as Codex does: with a shell's quotes, escapes and comments, but no expansions.

    Raises:
        WrongCallError: A quote or an escape has no end.
    """
    at = _gap_end(text, 0)
    while at < len(text):
        word = []
        while found := _PIECE.match(text, at):
            word.append(_unquote(found))
            at = found.end()
        yield "".join(word)
        end = _gap_end(text, at) if text[at : at + 1] in " \t\n" else at
        if end == at < len(text):
            raise WrongCallError("example string has invalid shell syntax")
        at = end


def _gap_end(text: str, at: int) -> int:
    found = _GAP.match(text, at)
    return at if found is None else found.end()


def _unquote(piece: re.Match[str]) -> str:
    if piece["double"] is not None:
        return _ESCAPED.sub(lambda found: found[1].strip("\n"), piece["double"])
    if piece["escaped"] is not None:
        return piece["escaped"].strip("\n")
    return piece[0] if piece["single"] is None else piece["single"]


def _choice(parameter: str, value: Any, choices: Mapping[str, Any]) -> Any:
    if not isinstance(value, str) or value not in choices:
        raise WrongCallError(f"invalid {parameter}: {_describe_value(value)}; use one of {', '.join(choices)}")
    return choices[value]


def _justification(value: Any) -> str | None:
    """Return the justification, or None for ``...``, which means no justification. Starlark's None is not allowed."""
    if value is ...:
        return None
    if not isinstance(value, str):
        raise WrongCallError(f"justification must be a string (got {_kind(value)})")
    if all(character.isspace() and character not in _NO_SPACE for character in value):
        raise WrongCallError("justification cannot be empty")
    return value


def _path(name: str, path: Any) -> str:
    if not isinstance(path, str) or not path.startswith("/"):
        raise WrongCallError(f"host_executable paths must be absolute (got {_describe_value(path)})")
    normal = "/" + posixpath.normpath(path).lstrip("/")
    if normal.rsplit("/", 1)[-1] != name:
        raise WrongCallError(f"host_executable path `{path}` must have basename `{name}`")
    return normal


def _host(value: Any) -> str:
    from codex_plugin_execpolicy.hosts import rule_host

    if not isinstance(value, str):
        raise WrongCallError(f"network_rule host must be a string (got {_kind(value)})")
    try:
        return rule_host(value)
    except ValueError as error:
        raise WrongCallError(str(error)) from None


def _describe_value(value: Any) -> str:
    return value if isinstance(value, str) else _kind(value)


def _kind(value: Any) -> str:
    """Return the type of a value, in Starlark's words."""
    if isinstance(value, dict):
        return str(value[""])
    return "string" if isinstance(value, str) else "list"
