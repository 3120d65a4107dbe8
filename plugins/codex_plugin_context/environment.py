"""The ``<environment_context>``: the place and time in which the model works (spec: environment context)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from codex_framework.contract.permissions.file_access import PROTECTED_NAMES
from codex_framework.contract.permissions.globs import has_wildcards
from codex_framework.contract.protocol.environments import LOCAL_ENVIRONMENT, EnvironmentSelection
from codex_framework.contract.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    DisabledPermissions,
    ExternalPermissions,
    FilePath,
    GlobPattern,
    ManagedPermissions,
    Special,
    SpecialPath,
    UnrestrictedFiles,
)
from codex_framework.contract.roles.context import ContextSource, Fragment
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.toolkit.environments import environments_of, shell_in

__all__ = ["Environment", "timezone_name"]

_START, _END = "<environment_context>", "</environment_context>"
_LOCALTIME = "/etc/localtime"
_ZONE_EXTRAS = frozenset("/_+-")


class Environment(ContextSource):
    """The working folder, shell, date, time zone, network rules and file permissions.

    Disabled by ``include_environment_context = false``.
    """

    name = "environment"
    reads = frozenset({"settings", "environments", "date", "files"})

    def fragments(self, facts: TurnFacts) -> Iterator[Fragment]:
        """Yield one fragment, or nothing if the source is disabled."""
        if facts.config.get("include_environment_context") is False:
            return
        rest = [f"<current_date>{time.strftime('%Y-%m-%d')}</current_date>"]
        zone = timezone_name(os.environ)
        if zone:
            rest.append(f"<timezone>{_escape_value(zone)}</timezone>")
        environments = environments_of(facts)
        if not all(_fault(each, facts) for each in environments):
            rest.extend(_network(facts))
            rest.append(_filesystem(facts))
        places = _places_of(environments, facts)
        text = _whole([*places, *rest])
        gone = sorted(set(facts.previous_environments) - {each.environment_id for each in environments})
        now = text if not gone else _whole([*_environment_lines(environments, facts, gone), *rest])
        yield Fragment(
            role="user", text=text, start=_START, end=_END, order=200, replacement="" if now == text else now
        )

    def files(self, facts: TurnFacts) -> Iterable[str]:  # noqa: ARG002  # the role's
        """Return the link that names the time zone."""
        return () if os.environ.get("TZ") else (_LOCALTIME,)


def _whole(lines: Iterable[str]) -> str:
    return "\n".join((_START, *(f"  {line}" for line in lines), _END))


def _places_of(environments: Sequence[EnvironmentSelection], facts: TurnFacts) -> Sequence[str]:
    """Return the lines about the environments: details of the only environment, or a list."""
    is_one = len(environments) == 1 and not _fault(environments[0], facts)
    return _place(environments[0], facts) if is_one else _environment_lines(environments, facts)


def _environment_lines(
    environments: Sequence[EnvironmentSelection], facts: TurnFacts, gone: Sequence[str] = ()
) -> Sequence[str]:
    """Return the lines with a list of environments, by id. ``gone`` are removed environments."""
    if not environments and not gone:
        return ()
    several = len(environments) > 1 or len(facts.previous_environments) > 1
    parts = {name: [f'<environment id="{_escape_value(name)}" status="unavailable" />'] for name in gone}
    for number, environment in enumerate(environments):
        is_primary = "false" if number or _fault(environment, facts) else "true"
        primary = f' primary="{is_primary}"' if several else ""
        head = f'<environment id="{_escape_value(environment.environment_id)}"{primary}>'
        parts[environment.environment_id] = [
            head,
            *(f"  {line}" for line in _place(environment, facts)),
            "</environment>",
        ]
    lines = (line for _, part in sorted(parts.items()) for line in part)
    return ["<environments>", *(f"  {line}" for line in lines), "</environments>"]


def _place(environment: EnvironmentSelection, facts: TurnFacts) -> Sequence[str]:
    cwd, fault = f"<cwd>{_escape_value(environment.cwd)}</cwd>", _fault(environment, facts)
    if fault:
        return [cwd, "<status>failed</status>", f"<error>{_escape_value(fault)}</error>"]
    shell = shell_in(environment.environment_id, facts).rpartition("/")[2]
    return [cwd, f"<shell>{_escape_value(shell)}</shell>"]


def _fault(environment: EnvironmentSelection, facts: TurnFacts) -> str:
    state = facts.environment_states.get(environment.environment_id)
    return "" if state is None else state.fault


def timezone_name(environ: Mapping[str, str], localtime: str = _LOCALTIME) -> str:
    """Return the time zone's IANA name from ``TZ`` or the target of the ``localtime`` symlink; ``""`` if it is unknown."""
    zone = environ.get("TZ", "").removeprefix(":")
    if not zone:
        try:
            zone = os.readlink(localtime)  # noqa: PTH115
        except OSError:
            return ""
    return _iana_name(zone)


@lru_cache(maxsize=4)
def _iana_name(zone: str) -> str:
    name = zone.rpartition("zoneinfo/")[2]
    is_name = name[:1].isalpha() and all(char.isalnum() or char in _ZONE_EXTRAS for char in name)
    return name if is_name else ""


def _network(facts: TurnFacts) -> Iterator[str]:
    """Yield the line with the domains that the permission profile allows and denies, if it names any."""
    rules = facts.permissions.network_rules
    if rules is None or not rules.domains:
        return
    parts = []
    for tag, verdict in (("allowed", "allow"), ("denied", "deny")):
        domains = ",".join(_escape_value(domain) for domain, rule in rules.domains.items() if rule == verdict)
        if domains:
            parts.append(f"<{tag}>{domains}</{tag}>")
    yield f'<network enabled="true">{"".join(parts)}</network>'


def _filesystem(facts: TurnFacts) -> str:
    folders = (facts.cwd, *facts.permissions.workspace_roots)
    roots = "".join(f"<root>{_escape_value(folder)}</root>" for folder in folders)
    match facts.permissions.profile:
        case DisabledPermissions():
            profile = _profile("disabled", "unrestricted")
        case ExternalPermissions():
            profile = _profile("external", "external-sandbox")
        case ManagedPermissions(file_system=UnrestrictedFiles()):
            profile = _profile("managed", "unrestricted")
        case _:
            profile = _profile("managed", "restricted", "".join(_entries(facts)))
    return f"<filesystem><workspace_roots>{roots}</workspace_roots>{profile}</filesystem>"


def _profile(kind: str, files: str, entries: str = "") -> str:
    inner = f'<file_system type="{files}">{entries}</file_system>' if entries else f'<file_system type="{files}" />'
    return f'<permission_profile type="{kind}">{inner}</permission_profile>'


def _entries(facts: TurnFacts) -> Iterator[str]:
    """Yield the profile's entries with the workspace as paths, then the protected paths in its writable folders."""
    writable: dict[Path, None] = {}
    named: set[Path] = set()
    for entry in facts.permissions.entries:
        for tag, place in _places(entry.path, facts):
            yield _entry(entry.access.value, tag, place)
            if tag == "path":
                named.add(Path(place))
                if entry.access is AccessMode.WRITE:
                    writable[Path(place)] = None
    for folder in writable:
        read_only = [rule.path for rule in facts.access.rules if rule.access is AccessMode.READ]
        protected = [
            path
            for path in read_only
            if path not in named and path.is_relative_to(folder) and path.name not in _UNNAMED
        ]
        yield from (_entry("read", "path", path) for path in sorted(protected, key=_protected_order))


def _places(path: FilePath, facts: TurnFacts) -> Iterator[tuple[str, str]]:
    match path:
        case AbsolutePath(text):
            yield "path", _real(text, facts)
        case GlobPattern(pattern):
            yield "glob_pattern", pattern
        case SpecialPath(Special.WORKSPACE_ROOTS, subpath):
            for root in (str(facts.cwd), *facts.permissions.workspace_roots):
                place = os.path.join(_real(root, facts), subpath or "").rstrip("/")  # noqa: PTH118
                yield "glob_pattern" if has_wildcards(subpath or "") else "path", place or "/"
        case SpecialPath(kind):
            yield "special", f":{kind.value}"


def _real(path: str, facts: TurnFacts) -> str:
    """Return the real path, as far as it can be known here: symlinks of other environments cannot be read."""
    if facts.environment_id != LOCAL_ENVIRONMENT:
        return os.path.normpath(path)
    return os.path.realpath(os.path.expanduser(path))  # noqa: PTH111


_UNNAMED = (".aws",)
"""Paths that are protected by default but not mentioned (as in Codex)."""


def _protected_order(path: Path) -> tuple[int, Path]:
    names = PROTECTED_NAMES
    return (names.index(path.name) if path.name in names else len(names), path)


def _entry(access: str, tag: str, value: str | Path) -> str:
    return f'<entry access="{access}"><{tag}>{_escape_value(value)}</{tag}></entry>'


def _escape_value(value: object) -> str:
    return str(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
