"""The settings of the configuration that must have other values than the configured ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from codex_framework import ConfigError
from codex_framework.toolkit.web_searches import web_search_mode
from codex_plugin_requirements.reading import Requirements
from codex_plugin_requirements.texts import invalid, replaced

__all__ = ["demanded"]

Table = Mapping[str, Any]

_ALIASES = {"hooks": "codex_hooks"}
"""Older names of features, which have the same effect."""

_KEPT_ALIVE = "execpolicy"
"""The plugin that enforces the rules of the same file."""


def demanded(required: Requirements, config: Table, warn: Callable[[str], None]) -> Table:
    """Return tables to merge over the configuration.

    Raises:
        ConfigError: The rules of the file would not be enforced.
    """
    _check_rules(required, config)
    if required.unknown:
        names = ", ".join(f"`{name}`" for name in required.unknown)
        warn(f"{required.path}: these keys are unknown and have no effect: {names}")
    return dict(
        (
            *_searches(required, config, warn),
            *_reviewers(required, config, warn),
            *_features(required, config, warn),
            *_servers(required, config, warn),
            *_logins(required, config),
            *_texts(required, config),
        )
    )


def _check_rules(required: Requirements, config: Table) -> None:
    disabled = _value_at(config, "framework", "plugins", "disabled") or ()
    if required.has_rules and _KEPT_ALIVE in disabled:
        raise ConfigError(
            f"the plugin {_KEPT_ALIVE!r} is disabled, and {required.path} has rules that it enforces",
            path=required.path,
            key="rules",
            slug="requirements",
            hint=f"Remove {_KEPT_ALIVE!r} from `plugins.disabled` in [framework].",
        )


def _searches(required: Requirements, config: Table, warn: Callable[[str], None]) -> Iterator[tuple[str, Any]]:
    if required.searches is None:
        return
    allowed = tuple(dict.fromkeys(("disabled", *required.searches)))
    mode = web_search_mode(config)
    if mode in allowed:
        return
    instead = required.searches[0] if required.searches else "disabled"
    warn(replaced("web_search_mode", instead, invalid("web_search_mode", mode, allowed, required.path)))
    yield "web_search", instead


def _reviewers(required: Requirements, config: Table, warn: Callable[[str], None]) -> Iterator[tuple[str, Any]]:
    if required.reviewers is None:
        return
    configured = config.get("approvals_reviewer")
    word = "auto_review" if configured == "guardian_subagent" else configured or "user"
    if word in required.reviewers:
        return
    instead = required.reviewers[0]
    if configured is not None:
        why = invalid("approvals_reviewer", word, required.reviewers, required.path)
        warn(replaced("approvals_reviewer", instead, why))
    yield "approvals_reviewer", instead


def _features(required: Requirements, config: Table, warn: Callable[[str], None]) -> Iterator[tuple[str, Any]]:
    features = dict(required.features)
    if required.managed_hooks_only:
        features["hooks"] = False
        if config.get("hooks") and _value_at(config, "features", "hooks") is not False:
            warn(f"hooks are not run: {required.path} allows only the administrator's hooks, which are not supported")
    for name, alias in _ALIASES.items():
        if name in features:
            features[alias] = features[name]
    if features:
        yield "features", features


def _servers(required: Requirements, config: Table, warn: Callable[[str], None]) -> Iterator[tuple[str, Any]]:
    servers = config.get("mcp_servers")
    if required.mcp_servers is None or not isinstance(servers, Mapping):
        return
    denied: dict[str, Any] = {}
    for name, table in servers.items():
        kind, value = required.mcp_servers.get(name, ("", ""))
        if not isinstance(table, Mapping):
            continue  # reported as wrong, and not started
        if kind and table.get(kind) == value and not (kind == "url" and table.get("command")):
            continue
        denied[name] = {"enabled": False}
        if table.get("enabled") is not False:
            warn(f"the MCP server `{name}` is disabled by requirements (set by {required.path})")
    if denied:
        yield "mcp_servers", denied


def _logins(required: Requirements, config: Table) -> Iterator[tuple[str, Any]]:
    if required.logins is not None and len(required.logins) == 1:
        yield "forced_login_method", required.logins[0]
    if required.workspaces is not None:
        own = config.get("forced_chatgpt_workspace_id")
        chosen = [own] if isinstance(own, str) else list(own or ())
        kept = [each for each in chosen if each in required.workspaces]
        yield "forced_chatgpt_workspace_id", kept or list(required.workspaces)


def _texts(required: Requirements, config: Table) -> Iterator[tuple[str, Any]]:
    if required.instructions:
        yield "developer_instructions", _ensure_suffix(config.get("developer_instructions"), required.instructions)
    policy = required.policy or _value_at(config, "auto_review", "policy")
    if required.more_policy:
        policy = _ensure_suffix(policy, required.more_policy)
    if required.policy or required.more_policy:
        yield "auto_review", {"policy": policy}


def _ensure_suffix(text: Any, more: str) -> str:
    """Return a text that ends with another one. If it already does, it is unchanged."""
    own = text if isinstance(text, str) else ""
    return own if own.endswith(more) else f"{own}\n\n{more}".lstrip()


def _value_at(config: Table, *keys: str) -> Any:
    value: Any = config
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
