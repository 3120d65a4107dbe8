"""The text of a profile, and its parameters.

No path stands in the text: paths are parameters (``-DNAME=VALUE``), which the compiler takes as they are. Only names below them
that are to be matched in either case, and patterns, are spelled out, as regular expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from codex_framework import AccessMode, FileAccess, NetworkMode
from codex_framework.value import Value
from codex_plugin_seatbelt.allowances import (
    BASE,
    DNS_SOCKET,
    NETWORK_SERVICES,
    PLATFORM,
    PREFERENCES,
    TERMINALS,
    TRUST_SERVICES,
    operation,
)
from codex_plugin_seatbelt.patterns import any_case, below
from codex_plugin_seatbelt.regions import Region, Rules, regions, rules_of

__all__ = ["Profile", "profile_for"]

_READ = "file-read* file-test-existence file-map-executable process-exec"
"""To read is also to execute: a program that may not be read is not started either."""

_TMP = "/tmp"  # noqa: S108  # the name of the shared folder

_BOUND_TO_PTY = '(extension "com.apple.sandbox.pty")'
"""Held by whoever made a pseudo-terminal inside the sandbox."""


class Profile(Value):
    """A profile, but for what belongs to a single command.

    Attributes:
        text: Its statements.
        parameters: The paths in it, by name.
        network: What ``text`` does not say yet: how the network is reached.
        rules: What it was made from; None where all files are open.
        private_tmp: Whether commands get a temp folder of their own instead of ``/tmp``.
    """

    text: str
    parameters: Mapping[str, str]
    network: NetworkMode
    rules: Rules | None
    private_tmp: bool = False

    def completed(
        self,
        *,
        ports: Iterable[int] = (),
        terminal: str | None = None,
        tmp: str | None = None,
        pinned: Iterable[str] = (),
    ) -> tuple[str, dict[str, str]]:
        """The whole text and all parameters for one command.

        Args:
            ports: Of the gate, on this machine's loopback.
            terminal: The command's own.
            tmp: Its own temp folder.
            pinned: Further folders that are neither renamed nor removed.
        """
        names = _Names(self.parameters)
        parts = [self.text]
        if terminal is not None:
            parts += [
                "; The command's own terminal.",
                operation("allow", "file-read* file-test-existence file-write* file-ioctl", [names.literal(terminal)]),
            ]
        if tmp is not None:
            parts += [
                "; Its own temp folder.",
                operation("allow", f"{_READ} file-write*", [names.subpath(tmp)]),
            ]
        parts += _pins(pinned, names)
        parts += _network(self.network, tuple(ports))
        return "\n".join(parts) + "\n", names.parameters


def profile_for(access: FileAccess, real: Callable[[str], str]) -> Profile:
    """The profile for an access.

    Args:
        real: Resolves the links in a path.
    """
    parts = ["(version 1)", "(deny default)", *BASE, *_terminals()]
    names = _Names({})
    if access.full:
        parts += ["; Files: all of them.", operation("allow", "file* process-exec")]
        return Profile("\n".join([*parts, *PREFERENCES]), {}, access.network, None)
    rules = rules_of(access, real, PLATFORM)
    private = access.private_tmp and dict(rules.modes).get(real(_TMP)) is AccessMode.WRITE
    if private:
        rules = rules.evolve(modes=tuple(pair for pair in rules.modes if pair[0] != real(_TMP)))
    parts += [*_reading(rules, names), *_writing(rules, names)]
    if not access.denies:
        parts += PREFERENCES
    return Profile("\n".join(parts), names.parameters, access.network, rules, private)


class _Names:
    """Names for the paths of a profile, given as they come."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self.parameters = dict(parameters)
        self._names = {path: name for name, path in parameters.items()}

    def of(self, path: str) -> str:
        """``(param "NAME")`` for a path."""
        name = self._names.setdefault(path, f"PATH_{len(self._names)}")
        self.parameters[name] = path
        return f'(param "{name}")'

    def literal(self, path: str) -> str:
        return f"(literal {self.of(path)})"

    def subpath(self, path: str) -> str:
        return f"(subpath {self.of(path)})"

    def regex(self, root: str, expression: str) -> str:
        """A filter for what matches below a root, and everything below that."""
        if root == "/":
            return f'(regex #"^/{expression}(/.*)?$")'
        return f'(regex (string-append "^" (regex-quote {self.of(root)}) #"/{expression}(/.*)?$"))'


def _reading(rules: Rules, names: _Names) -> list[str]:
    found = regions(rules, written=False)
    parts = ["; Files: reading.", operation("allow", _READ, [_region(one, names) for one in found])] if found else []
    if dict(rules.modes).get("/") is AccessMode.DENY:
        parts += [
            "; The way to them: the root, the links in it, and the folders above.",
            operation("allow", "file-read* file-test-existence", ['(literal "/")']),
        ]
        ways = ['(literal "/etc")', '(literal "/tmp")', '(literal "/var")']
    else:
        ways = []
    ways += [f"(path-ancestors {names.of(one.root)})" for one in found if one.root != "/"]
    if ways and any(mode is AccessMode.DENY for _, mode in rules.modes):
        parts.append(operation("allow", "file-read-metadata file-test-existence", ways))
    return parts


def _writing(rules: Rules, names: _Names) -> list[str]:
    found = regions(rules, written=True)
    if not found:
        return []
    text = operation("allow", "file-write*", [_region(one, names) for one in found])
    pinned = dict.fromkeys(path for one in found for path in one.pinned)
    return ["; Files: writing.", text, *_pins(pinned, names)]


def _pins(folders: Iterable[str], names: _Names) -> list[str]:
    filters = [names.literal(folder) for folder in folders]
    if not filters:
        return []
    return [
        "; Folders around what is kept: moved, they would take it along.",
        operation("deny", "file-write-unlink", filters),
    ]


def _region(region: Region, names: _Names) -> str:
    inside = names.subpath(region.root)
    cuts = []
    for path in region.without:
        cuts += [names.literal(path), names.subpath(path)]
        cuts.append(names.regex(region.root, any_case(path[len(region.root) :].lstrip("/"))))
    cuts += [names.regex(region.root, below(parts)) for parts in region.patterns]
    if region.root in ("/", "/dev"):
        cuts.append(TERMINALS)
    if not cuts:
        return inside
    return "(require-all\n    " + "\n    ".join([inside, *(f"(require-not {cut})" for cut in cuts)]) + ")"


def _terminals() -> list[str]:
    made = f"(require-all {TERMINALS} {_BOUND_TO_PTY})"
    return [
        "; Terminals: those that are made inside, and the controlling one. Others may be looked at.",
        operation("allow", "pseudo-tty"),
        operation(
            "allow",
            "file-read* file-test-existence file-write* file-ioctl",
            ['(literal "/dev/ptmx")', '(literal "/dev/tty")', made],
        ),
        operation("allow", "file-read-metadata file-test-existence", [TERMINALS]),
    ]


def _network(mode: NetworkMode, ports: tuple[int, ...]) -> list[str]:
    if mode is NetworkMode.ON:
        return [
            "; Network: all of it. Of services on this machine the resolver only.",
            operation("allow", "network-outbound", ['(remote ip "*:*")', DNS_SOCKET]),
            operation("allow", "network-bind network-inbound", ['(local ip "*:*")']),
            operation("allow", "system-socket"),
            _services(NETWORK_SERVICES),
        ]
    if mode is NetworkMode.LOOPBACK:
        return [
            "; Network: this machine.",
            operation("allow", "network-outbound", ['(remote ip "localhost:*")']),
            operation("allow", "network-bind network-inbound", ['(local ip "localhost:*")']),
        ]
    reached = [port for port in ports if port] if mode is NetworkMode.PROXY else []
    if not reached:
        return []
    return [
        "; Network: the gate's ports.",
        operation("allow", "network-outbound", [f'(remote ip "localhost:{port}")' for port in dict.fromkeys(reached)]),
        _services(TRUST_SERVICES),
    ]


def _services(names: str) -> str:
    return operation("allow", "mach-lookup", [f'(global-name "{name}")' for name in names.split()])
