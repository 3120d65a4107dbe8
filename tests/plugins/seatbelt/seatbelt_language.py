"""The part of Seatbelt's profile language that is used: read strictly, and evaluated. What is not known is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, NamedTuple

OPERATIONS = frozenset(
    """
    default file* file-ioctl file-map-executable file-read* file-read-data file-read-metadata file-read-xattr
    file-test-existence file-write* file-write-create file-write-data file-write-flags file-write-mode file-write-owner
    file-write-times file-write-unlink file-write-xattr iokit-open ipc-posix-sem ipc-posix-shm-read* ipc-posix-shm-read-data
    ipc-posix-shm-write-create ipc-posix-shm-write-unlink mach-host* mach-lookup network-bind network-inbound network-outbound
    process-exec process-fork process-info* pseudo-tty signal sysctl-read sysctl-write system-socket user-preference-read
    """.split()  # noqa: SIM905
)


class BadProfile(Exception):
    """What ``sandbox-exec`` would not take."""


class Raw(str):
    """A string written as ``#"..."``: no escapes."""

    __slots__ = ()


class Symbol(str):
    __slots__ = ()


TOKEN = re.compile(
    r"""\s+ | ;[^\n]* | (?P<open>\() | (?P<close>\)) | \#"(?P<raw>[^"]*)" | "(?P<text>[^"\\]*)" | (?P<word>[^\s()";#]+)""",
    re.VERBOSE,
)


def read(text: str) -> list[Any]:
    """All expressions of a profile."""
    stack: list[list[Any]] = [[]]
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise BadProfile(f"cannot read {text[at : at + 40]!r}")
        at = found.end()
        if found["open"]:
            stack.append([])
        elif found["close"]:
            if len(stack) == 1:
                raise BadProfile("a parenthesis too many")
            done = stack.pop()
            stack[-1].append(done)
        elif found["raw"] is not None:
            stack[-1].append(Raw(found["raw"]))
        elif found["text"] is not None:
            stack[-1].append(found["text"])
        elif found["word"]:
            stack[-1].append(int(found["word"]) if found["word"].isdigit() else Symbol(found["word"]))
    if len(stack) != 1:
        raise BadProfile("a parenthesis is missing")
    return stack[0]


class Query(NamedTuple):
    """What is asked for.

    Attributes:
        path: Of a file.
        address: ``host:port`` of the other side, or of one's own for ``network-bind`` and ``network-inbound``.
        name: Of a service, a sysctl, a class, a semaphore.
        kind: What the file is, for ``vnode-type``.
        held: Extensions that the process holds for it.
    """

    path: str | None = None
    address: str | None = None
    name: str | None = None
    kind: str = "REGULAR-FILE"
    held: frozenset[str] = frozenset()


NOTHING = Query()

Filter = Callable[[Query], bool]


class Rule(NamedTuple):
    allow: bool
    operations: tuple[str, ...]
    matches: Filter
    filters: tuple[Any, ...]


class Profile:
    """A profile that can be asked."""

    def __init__(self, text: str, parameters: Mapping[str, str]) -> None:
        self.parameters = dict(parameters)
        self.used: set[str] = set()
        self.expressions = read(text)
        if self.expressions[:1] != [["version", 1]]:
            raise BadProfile("it does not begin with (version 1)")
        self.rules = [self._rule(one) for one in self.expressions[1:]]

    def allows(self, operation: str, query: Query = NOTHING) -> bool:
        """Whether an operation is allowed: the last rule that speaks of it counts."""
        if operation not in OPERATIONS:
            raise BadProfile(f"unknown operation {operation}")
        for rule in reversed(self.rules):
            if any(_covers(one, operation) for one in rule.operations) and rule.matches(query):
                return rule.allow
        return False

    def allows_whatever_the_order(self, operation: str, query: Query = NOTHING) -> bool:
        """The same by another reading: a ``deny`` of exactly this operation counts, wherever it stands; then any ``allow``."""
        speaking = [
            rule
            for rule in self.rules
            if any(_covers(one, operation) for one in rule.operations if one != "default") and rule.matches(query)
        ]
        return bool(speaking) and all(rule.allow for rule in speaking)

    def writes(self, path: str) -> bool:
        return self.allows("file-write-data", Query(path=path))

    def reads(self, path: str) -> bool:
        return self.allows("file-read-data", Query(path=path))

    def _rule(self, expression: Any) -> Rule:
        match expression:
            case ["allow" | "deny" as verb, *rest] if rest:
                pass
            case _:
                raise BadProfile(f"neither allow nor deny: {expression!r}")
        operations = []
        while rest and isinstance(rest[0], Symbol):
            operations.append(str(rest.pop(0)))
        unknown = set(operations) - OPERATIONS
        if unknown or not operations:
            raise BadProfile(f"unknown operations {sorted(unknown)} in {expression!r}")
        filters = [self._filter(one) for one in rest]
        matches: Filter = (lambda _: True) if not filters else _any_of(filters)
        return Rule(verb == "allow", tuple(operations), matches, tuple(rest))

    def _filter(self, expression: Any) -> Filter:
        match expression:
            case ["require-all", *parts] if parts:
                return _all_of([self._filter(part) for part in parts])
            case ["require-any", *parts] if parts:
                return _any_of([self._filter(part) for part in parts])
            case ["require-not", part]:
                inner = self._filter(part)
                return lambda query: not inner(query)
            case ["literal", path]:
                text = self._string(path)
                return lambda query: query.path == text
            case ["subpath", path]:
                text = self._string(path).rstrip("/")
                return lambda query: (
                    query.path is not None and (query.path == text or query.path.startswith(f"{text}/"))
                )
            case ["path-ancestors", path]:
                above = {str(parent) for parent in PurePosixPath(self._string(path)).parents}
                return lambda query: query.path in above
            case ["regex", pattern]:
                compiled = posix_regex(self._string(pattern))
                return lambda query: query.path is not None and compiled.search(query.path) is not None
            case ["vnode-type", Symbol() as kind]:
                return lambda query: query.kind == kind
            case ["extension", str(extension)]:
                return lambda query: extension in query.held
            case ["target", "same-sandbox"]:
                return lambda _: True
            case ["remote" | "local", "ip", str(address)]:
                return _address(address)
            case ["global-name" | "sysctl-name" | "iokit-registry-entry-class", str(name)]:
                return lambda query: query.name == name
            case ["sysctl-name-prefix" | "ipc-posix-name-prefix", str(name)]:
                return lambda query: query.name is not None and query.name.startswith(name)
            case ["ipc-posix-name-regex", Raw() as pattern]:
                named = posix_regex(pattern)
                return lambda query: query.name is not None and named.search(query.name) is not None
        raise BadProfile(f"unknown filter {expression!r}")

    def _string(self, expression: Any) -> str:
        match expression:
            case Symbol():
                pass
            case str():
                return str(expression)
            case ["param", str(name)]:
                if name not in self.parameters:
                    raise BadProfile(f"no parameter {name}")
                self.used.add(name)
                return self.parameters[name]
            case ["regex-quote", part]:
                return re.sub(r"[][.^$*+?(){}|\\]", lambda found: f"\\{found[0]}", self._string(part))
            case ["string-append", *parts]:
                return "".join(map(self._string, parts))
        raise BadProfile(f"not a string: {expression!r}")


def _covers(given: str, asked: str) -> bool:
    return given in (asked, "default") or (given.endswith("*") and asked.startswith(given[:-1]))


def _all_of(filters: list[Filter]) -> Filter:
    return lambda query: all(one(query) for one in filters)


def _any_of(filters: list[Filter]) -> Filter:
    return lambda query: any(one(query) for one in filters)


def _address(given: str) -> Filter:
    host, _, port = given.rpartition(":")
    if host not in ("*", "localhost") or not (port == "*" or port.isdigit()):
        raise BadProfile(f"hosts are * or localhost: {given}")

    def matches(query: Query) -> bool:
        if query.address is None:
            return False
        asked, _, number = query.address.rpartition(":")
        return (host == "*" or asked in ("localhost", "127.0.0.1", "::1")) and port in ("*", number)

    return matches


_MEANT = re.compile(r"[][\\&~|]")
_ESCAPED = r"\\\g<0>"


@lru_cache(maxsize=4096)
def posix_regex(pattern: str) -> re.Pattern[str]:
    """A POSIX extended expression: in brackets a backslash is itself. Back-references, lookaround and lazy ones are refused."""
    if not pattern.startswith("^"):
        raise BadProfile(f"not anchored: {pattern!r}")
    return re.compile("".join(_translated(pattern)), re.DOTALL)


def _translated(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            if pattern[at + 1 : at + 2] not in set("][.^$*+?(){}|\\"):
                raise BadProfile(f"an escape without need in {pattern!r}")
            yield pattern[at : at + 2]
            at += 2
        elif character == "[":
            end = pattern.find("]", at + (3 if pattern[at + 1 : at + 2] == "^" else 2))
            if end < 0 or re.search(r"\[[:.=]", pattern[at + 1 : end]):
                raise BadProfile(f"brackets in {pattern!r}")
            yield "[" + _MEANT.sub(_ESCAPED, pattern[at + 1 : end]) + "]"
            at = end + 1
        elif character == "$":
            if at != len(pattern) - 1:
                raise BadProfile(f"an end in the middle of {pattern!r}")
            yield r"\Z"
            at += 1
        elif character in "(*+?" and pattern[at + 1 : at + 2] == "?":
            raise BadProfile(f"no such operator in {pattern!r}")
        else:
            yield character
            at += 1
