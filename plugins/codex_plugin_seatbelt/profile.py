"""The text of a profile, and its parameters.

The text contains no paths. Paths are parameters (``-DNAME=VALUE``), which the compiler uses unchanged. Only patterns and
case-insensitive names are part of the text, as regular expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from codex_framework import AccessMode, FileAccess, NetworkMode
from codex_framework.contract.value import Value
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
"""Reading includes executing: a program that cannot be read cannot be started."""

_TMP = "/tmp"  # noqa: S108  # the name of the shared folder, not a file of ours

_BOUND_TO_PTY = '(extension "com.apple.sandbox.pty")'
"""A filter for the process that created the pseudo-terminal in the sandbox."""


class Profile(Value):
    """A profile, without the parts that differ between commands.

    Attributes:
        text: The statements.
        parameters: The paths in them, by name.
        network: The network access, which ``text`` does not contain yet.
        rules: The rules for files. None if all files are accessible.
        private_tmp: Whether commands get their own temp folder instead of ``/tmp``.
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
        """Return the complete text and all parameters for one command.

        Args:
            ports: The gate's ports on the loopback address.
            terminal: The command's own terminal, if any.
            tmp: The command's own temp folder, if any.
            pinned: Additional folders that can be neither renamed nor removed.
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
    """Return the profile for ``access``.

    Args:
        access: The access.
        real: Resolves the symlinks in a path.
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
    """The parameter names for the paths of a profile, assigned in order of use."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self.parameters = dict(parameters)
        self._names = {path: name for name, path in parameters.items()}

    def of(self, path: str) -> str:
        """Return ``(param "NAME")`` for a path."""
        name = self._names.setdefault(path, f"PATH_{len(self._names)}")
        self.parameters[name] = path
        return f'(param "{name}")'

    def literal(self, path: str) -> str:
        return f"(literal {self.of(path)})"

    def subpath(self, path: str) -> str:
        return f"(subpath {self.of(path)})"

    def regex(self, root: str, expression: str) -> str:
        """Return a filter for matches below a root, and everything below them."""
        if root == "/":
            return f'(regex #"^/{expression}(/.*)?$")'
        return f'(regex (string-append "^" (regex-quote {self.of(root)}) #"/{expression}(/.*)?$"))'


def _reading(rules: Rules, names: _Names) -> list[str]:
    readable = regions(rules, written=False)
    parts = (
        ["; Files: reading.", operation("allow", _READ, [_region(region, names) for region in readable])]
        if readable
        else []
    )
    if dict(rules.modes).get("/") is AccessMode.DENY:
        parts += [
            "; The path to them: the root, the symlinks in it, and the parent folders.",
            operation("allow", "file-read* file-test-existence", ['(literal "/")']),
        ]
        ancestors = ['(literal "/etc")', '(literal "/tmp")', '(literal "/var")']
    else:
        ancestors = []
    ancestors += [f"(path-ancestors {names.of(region.root)})" for region in readable if region.root != "/"]
    if ancestors and any(mode is AccessMode.DENY for _, mode in rules.modes):
        parts.append(operation("allow", "file-read-metadata file-test-existence", ancestors))
    return parts


def _writing(rules: Rules, names: _Names) -> list[str]:
    writable = regions(rules, written=True)
    if not writable:
        return []
    text = operation("allow", "file-write*", [_region(region, names) for region in writable])
    pinned = dict.fromkeys(path for region in writable for path in region.pinned)
    return ["; Files: writing.", text, *_pins(pinned, names)]


def _pins(folders: Iterable[str], names: _Names) -> list[str]:
    filters = [names.literal(folder) for folder in folders]
    if not filters:
        return []
    return [
        "; Folders around protected paths: moving them would move these paths too.",
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
    own = f"(require-all {TERMINALS} {_BOUND_TO_PTY})"
    return [
        "; Terminals: those created in the sandbox, and the controlling one. Others can be inspected.",
        operation("allow", "pseudo-tty"),
        operation(
            "allow",
            "file-read* file-test-existence file-write* file-ioctl",
            ['(literal "/dev/ptmx")', '(literal "/dev/tty")', own],
        ),
        operation("allow", "file-read-metadata file-test-existence", [TERMINALS]),
    ]


def _network(mode: NetworkMode, ports: tuple[int, ...]) -> list[str]:
    if mode is NetworkMode.ON:
        return [
            "; Network: all of it. Of the services on this machine, only the resolver.",
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
