"""Where and when the model works: the ``<environment_context>`` (spec: environment context)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from codex_framework.protocol.policies import DangerFullAccess, ExternalSandbox, WorkspaceWrite
from codex_framework.roles.context import ContextFacts, Fragment

__all__ = ["Environment", "timezone_name"]

_START, _END = "<environment_context>", "</environment_context>"
_ZONE_EXTRAS = frozenset("/_+-")


class Environment:
    """Folder, shell, date, time zone, network rules and file permissions. Off with ``include_environment_context = false``."""

    name = "environment"

    def fragments(self, facts: ContextFacts) -> Iterator[Fragment]:
        """One fragment."""
        if facts.config.get("include_environment_context") is False:
            return
        lines = [
            f"<cwd>{_escaped(facts.cwd)}</cwd>",
            f"<shell>{_escaped(PurePath(facts.shell).name)}</shell>",
            f"<current_date>{time.strftime('%Y-%m-%d')}</current_date>",
        ]
        zone = timezone_name(os.environ)
        if zone:
            lines.append(f"<timezone>{_escaped(zone)}</timezone>")
        lines.extend(_network(facts.config))
        lines.append(_filesystem(facts))
        text = "\n".join((_START, *(f"  {line}" for line in lines), _END))
        yield Fragment(role="user", text=text, start=_START, end=_END, order=200)


def timezone_name(environ: Mapping[str, str], localtime: str = "/etc/localtime") -> str:
    """The zone's IANA name, from ``TZ`` or from where ``localtime`` points; ``""`` where it has none."""
    named = environ.get("TZ", "").removeprefix(":")
    if not named:
        try:
            named = os.readlink(localtime)  # noqa: PTH115
        except OSError:
            return ""
    name = named.rpartition("zoneinfo/")[2]
    is_name = name[:1].isalpha() and all(char.isalnum() or char in _ZONE_EXTRAS for char in name)
    return name if is_name else ""


def _network(config: Mapping[str, Any]) -> Iterator[str]:
    """The domains that the permission profile in use allows and denies, where it names any."""
    profile: Any = config
    for key in ("permissions", config.get("default_permissions"), "network", "domains"):
        profile = profile.get(key) if isinstance(profile, Mapping) else None
    if not isinstance(profile, Mapping) or not profile:
        return
    parts = []
    for tag, verdict in (("allowed", "allow"), ("denied", "deny")):
        domains = ",".join(_escaped(domain) for domain, rule in profile.items() if rule == verdict)
        if domains:
            parts.append(f"<{tag}>{domains}</{tag}>")
    yield f'<network enabled="true">{"".join(parts)}</network>'


def _filesystem(facts: ContextFacts) -> str:
    roots = f"<workspace_roots><root>{_escaped(facts.cwd)}</root></workspace_roots>"
    match facts.sandbox_policy:
        case DangerFullAccess():
            profile = _profile("disabled", "unrestricted")
        case ExternalSandbox():
            profile = _profile("external", "external-sandbox")
        case _:
            profile = _profile("managed", "restricted", "".join(_entries(facts)))
    return f"<filesystem>{roots}{profile}</filesystem>"


def _profile(kind: str, files: str, entries: str = "") -> str:
    inner = f'<file_system type="{files}">{entries}</file_system>' if entries else f'<file_system type="{files}" />'
    return f'<permission_profile type="{kind}">{inner}</permission_profile>'


def _entries(facts: ContextFacts) -> Iterator[str]:
    """Widest first; a later entry narrows or widens an earlier one."""
    yield _entry("read", "special", ":root")
    policy = facts.sandbox_policy
    if isinstance(policy, WorkspaceWrite):
        named = dict.fromkeys(
            (os.path.realpath(facts.cwd), *(os.path.realpath(root) for root in policy.writable_roots))
        )
        for path in named:
            yield _entry("write", "path", path)
        if not policy.exclude_slash_tmp:
            yield _entry("write", "special", ":slash_tmp")
        if not policy.exclude_tmpdir_env_var:
            yield _entry("write", "special", ":tmpdir")
        for root in facts.access.roots:
            if str(root.root) in named:
                yield from (_entry("read", "path", path) for path in root.read_only)
    yield from (_entry("deny", "path", path) for path in facts.access.denied)


def _entry(access: str, tag: str, value: str | Path) -> str:
    return f'<entry access="{access}"><{tag}>{_escaped(value)}</{tag}></entry>'


def _escaped(value: object) -> str:
    return str(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
