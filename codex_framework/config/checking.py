"""Validation of configuration against the schema: types, ranges, unknown keys, and tables whose keys contradict each other."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from codex_framework.config.key import Effect
from codex_framework.config.keys import format_key
from codex_framework.config.schema import KEYS, child_pattern, features, keys_of, table_patterns
from codex_framework.config.type_spec import Mismatch, describe_type, describe_value, find_mismatch
from codex_framework.contract.errors import ConfigError
from codex_framework.toolkit import administration
from codex_framework.toolkit.regular_files import open_regular

if TYPE_CHECKING:
    from codex_framework.config.config import Config, Layer

__all__ = ["check_guards", "check_layer", "check_tables", "idle_settings", "key_beside_filters", "unknown_key"]

Path = tuple[str | int, ...]

_SERVER_NAME = r"[A-Za-z0-9_:@/.-]+"
_CONFIDENTIAL = r"(?i)bearer_token|secret|header|auth|\benv\b|\bset\b"
"""Keys whose values are not shown in messages, because messages end up in logs."""

_GUARDS = ("PreToolUse", "PermissionRequest", "UserPromptSubmit")
"""Events whose hooks can keep something from happening."""

IDLE_NETWORK_SETTINGS = frozenset(
    {"proxy_url", "socks_url", "dangerously_allow_non_loopback_proxy", "mitm", "transparent_tcp"}
)
"""Settings of Codex's network table of a profile that have no effect here: the proxy always chooses its own ports, commands
reach it only through environment variables, and it never decrypts TLS.
"""

_OFF: tuple[object, ...] = (False, "disabled", "none", "", [], {})
_SHOWN = 8
"""Longest list of settings in a warning."""

_HTTP_ONLY = (
    "bearer_token_env_var",
    "http_headers",
    "env_http_headers",
    "http_headers_helper",
    "oauth_resource",
    "oauth",
)
_STDIO_ONLY = ("args", "env", "env_vars", "cwd", "sandbox")


def check_layer(layer: Layer, unknown_keys: str | None) -> list[str]:
    """Check the settings of one source.

    Args:
        layer: The source. Profiles within a file are checked with the file.
        unknown_keys: Whether each unknown key is an ``"error"`` or each a warning (``"warn"``). By default a key is an error if
            it resembles a known one or is in a table of permissions, because it is probably a mistake there. Otherwise it is a
            warning, because it may be a key of a newer Codex.

    Returns:
        Warnings.

    Raises:
        ConfigError: At the first error; the fact names file, line and key.
    """
    if layer.prefix:
        return []
    check = _Check(layer, unknown_keys)
    check.table((), "", layer.table)
    return check.warnings


def check_tables(config: Config) -> None:
    """Check the tables whose keys depend on each other and may come from several layers: MCP servers and the variables of commands.

    Raises:
        ConfigError: At the first error.
    """
    variables = config.tables.get("shell_environment_policy") or {}
    if (older := key_beside_filters(variables)) is not None:
        raise config.error(
            ("shell_environment_policy", older),
            f"[shell_environment_policy] has both `filters` and `{older}`",
            hint='Remove one: `exclude = ["A"]` is `filters = { "A" = "exclude" }`, and `include_only` is "include".',
        )
    for name, server in (config.tables.get("mcp_servers") or {}).items():
        _check_server(config, name, server)


def key_beside_filters(variables: Mapping[str, Any]) -> str | None:
    """Return the older key that a table ``[shell_environment_policy]`` has besides ``filters``, or None if there is no such key."""
    return next(
        (name for name in ("exclude", "include_only") if variables.get("filters") and variables.get(name)), None
    )


def idle_settings(tables: Mapping[str, Any], used: Collection[str] = ()) -> str | None:
    """Return a sentence that names the settings without an effect here, or None.

    Settings that switch something off and settings of interfaces are omitted.

    Args:
        tables: The merged tables of all layers.
        used: Names of settings that take effect through plugins, with everything below them.
    """
    found = list(dict.fromkeys(_idle_keys((), "", tables, frozenset(used))))
    if not found:
        return None
    names = ", ".join(f"`{name}`" for name in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"these settings of Codex have no effect here yet: {names}{more}"


def _check_requirements(protected: Collection[str]) -> None:
    path = administration.REQUIREMENTS
    if path not in protected and os.path.lexists(path):  # at every start
        raise ConfigError(
            f"no plugin enforces the administrator's requirements {path}",
            path=path,
            slug="requirements",
            hint="Remove `requirements` from `plugins.disabled` in [framework]; `codex-framework plugins` says what else is wrong.",
        )


def check_guards(config: Config, used: Collection[str] = (), protected: Collection[str] = ()) -> None:
    """Check that nothing is configured that could refuse something, unless a plugin enforces it.

    These are hooks that could refuse a call, a prompt or an approval, and the administrator's requirements.

    Args:
        used: Names of settings that take effect through plugins.
        protected: The paths that plugins protect. The plugin that enforces the requirements protects their file.

    Raises:
        ConfigError: There is one.
    """
    _check_requirements(protected)
    switches = config.tables.get("features") or {}
    if "hooks" in used or switches.get("hooks") is False or switches.get("codex_hooks") is False:
        return
    hooks = config.tables.get("hooks") or {}
    for event in _GUARDS:
        if _has_handlers(hooks.get(event)):
            raise config.error(
                ("hooks", event), f"the hooks of `{event}` could refuse something, {_NOT_RUN}", hint=_GUARD_HINT
            )
    folders = dict.fromkeys(
        [config.codex_home, *(FilePath(layer.path).parent for layer in config.layers if layer.path)]
    )
    for folder in folders:
        path = str(folder / "hooks.json")
        guard = _guard_in(path) if os.path.exists(path) else None  # noqa: PTH110  # at every start
        if guard is not None:
            fact = f"{path}: {guard} could refuse something, {_NOT_RUN}"
            raise ConfigError(fact, path=path, key="hooks", hint=_GUARD_HINT)


_NOT_RUN = "but no plugin runs hooks"
_GUARD_HINT = "Enable the plugin `hooks`. To run without them, set features.hooks to false."


def _has_handlers(groups: Any) -> bool:
    return isinstance(groups, list) and any(isinstance(group, Mapping) and group.get("hooks") for group in groups)


def _guard_in(path: str) -> str | None:
    """Return what in a ``hooks.json`` could refuse something, or None."""
    import json

    try:
        with open(path, "rb", opener=open_regular) as file:
            content = json.load(file)
    except (OSError, ValueError):
        return "its content cannot be read, so its hooks"
    hooks = content.get("hooks") if isinstance(content, Mapping) else None
    guards = (event for event in _GUARDS if isinstance(hooks, Mapping) and _has_handlers(hooks.get(event)))
    return next((f"the hooks of `{event}`" for event in guards), None)


def _idle_keys(path: tuple[str, ...], pattern: str, table: Mapping[str, Any], used: frozenset[str]) -> Iterator[str]:
    for name, value in table.items():
        child = child_pattern(pattern, name)
        if child is None or child in used or child == "profiles.*" or value in _OFF:
            continue
        if child == "permissions.*.network" and isinstance(value, Mapping):
            idle = IDLE_NETWORK_SETTINGS & {word for word, given in value.items() if given not in _OFF}
            yield from (format_key((*path, name, word)) for word in sorted(idle))
        key = KEYS.get(child)
        if child in table_patterns() and isinstance(value, Mapping):
            if _is_idle(child):
                yield format_key((*path, name))
            else:
                yield from _idle_keys((*path, name), child, value, used)
        elif key is not None and key.effect in (Effect.ACCEPTED, Effect.REFUSED):
            yield format_key((*path, name))


def _is_idle(pattern: str) -> bool:
    """Return whether no key of a table has an effect, and one of them would."""
    effects = {key.effect for key in keys_of(pattern)}
    return Effect.USED not in effects and not effects <= {Effect.INTERFACE}


def unknown_key(key: Sequence[str]) -> str | None:
    """Return a sentence that says which part of a key is unknown, or None if the key may exist."""
    pattern = ""
    for position, name in enumerate(key):
        if pattern and pattern not in table_patterns():
            return None  # the content of this value is not in the schema
        child = child_pattern(pattern, name)
        if child is None:
            return f"unknown key `{format_key(key[: position + 1])}`.{_suggestion(name, _names(pattern))}"
        pattern = "" if child == "profiles.*" else child
    return None


def _check_server(config: Config, name: str, server: Mapping[str, Any]) -> None:
    key = ("mcp_servers", name)
    if not re.fullmatch(_SERVER_NAME, name):
        raise config.error(
            key,
            f"invalid MCP server name {name!r}: it must consist of letters, digits, and the characters - _ : @ / .",
            hint="Rename the table; the name becomes part of the tools' names.",
        )
    if "command" not in server and "url" not in server:
        raise config.error(
            key,
            f"the MCP server {name!r} has neither `command` nor `url`",
            hint="Set `command` if the server is a program, or `url` if it is reached over HTTP.",
        )
    if "command" in server and "url" in server:
        raise config.error(
            (*key, "url"),
            f"the MCP server {name!r} has both `command` and `url`: url is not supported for stdio",
            hint="Remove one. A server is either a program or reached over HTTP.",
        )
    transport, foreign = ("stdio", _HTTP_ONLY) if "command" in server else ("streamable_http", _STDIO_ONLY)
    for word in foreign:
        if word in server:
            fact = f"the MCP server {name!r}: {word} is not supported for {transport}"
            raise config.error((*key, word), fact, hint="Remove it.")


class _Check:
    """The check of one layer."""

    def __init__(self, layer: Layer, unknown_keys: str | None) -> None:
        self._layer = layer
        self._unknown_keys = unknown_keys
        self.warnings: list[str] = []

    def table(self, path: Path, pattern: str, table: Mapping[str, Any]) -> None:
        """Check the entries of a table.

        Args:
            path: The path of the table.
            pattern: The same path in the schema, with stars.
            table: The entries.
        """
        for name, value in table.items():
            child = child_pattern(pattern, name)
            if child is None:
                self._unknown((*path, name), pattern)
            else:
                self._entry((*path, name), child, value)

    def _entry(self, path: Path, pattern: str, value: Any) -> None:
        key = KEYS.get(pattern)
        if pattern == _PROVIDER_OPTION and _resembles(str(path[-1]), _names("model_providers.*")):
            self._unknown(path, "model_providers.*")
        problem = find_mismatch("table" if key is None else key.type, value)
        if problem is not None:
            raise self._type_error(path, problem)
        if pattern == "profiles.*":
            self.table(path, "", value)
        elif pattern == "features.*":
            self._feature(path)
        elif isinstance(value, Mapping) and pattern in table_patterns():
            self.table(path, pattern, value)

    def _feature(self, path: Path) -> None:
        if path[-1] in features():
            return
        suggestion = _suggestion(str(path[-1]), features())
        self.warnings.append(
            f"{self._layer.origin(path)}: unknown feature `{path[-1]}`, which has no effect.{suggestion}"
        )

    def _type_error(self, path: Path, problem: Mismatch) -> Exception:
        place = (*path, *problem.path)
        is_secret = isinstance(problem.value, str) and re.search(_CONFIDENTIAL, format_key(place))
        actual = "a string" if is_secret else describe_value(problem.value)
        return self._layer.error(
            place,
            f"`{format_key(place)}` is {actual}, but must be {describe_type(problem.kind)}",
            hint=_hint(problem),
            slug="config-type",
        )

    def _unknown(self, path: Path, pattern: str) -> None:
        fact = f"unknown key `{format_key(path)}`"
        if path[-1] == "bearer_token" and pattern == "mcp_servers.*":
            raise self._layer.error(
                path,
                f"`{format_key(path)}` is not allowed: this file must not contain a token",
                hint="Put the token in an environment variable, and set bearer_token_env_var to the name of that variable.",
                slug="config-unknown",
            )
        suggestion = _suggestion(str(path[-1]), _names(pattern))
        if self._unknown_keys == "warn" or (self._unknown_keys is None and not _is_mistake(path, pattern)):
            self.warnings.append(f"{self._layer.origin(path)}: {fact}, which has no effect.{suggestion}")
            return
        raise self._layer.error(
            path,
            f"{fact}.{suggestion}" if suggestion else fact,
            hint='Fix or remove it. To get warnings instead of errors, set `unknown_keys = "warn"` in [framework].',
            slug="config-unknown",
        )


_PROVIDER_OPTION = "model_providers.*.*"
"""A provider's own option, which only its plugin knows."""

_STRICT_TABLES = frozenset(
    ("permissions", "sandbox_workspace_write", "approval_policy", "shell_environment_policy", "projects", "framework")
)
"""Tables that restrict actions. An unknown key in them would leave something unrestricted."""

_RESTRICTING = frozenset(
    (
        "approval_policy",
        "approvals_reviewer",
        "sandbox_mode",
        "default_permissions",
        "enabled_tools",
        "disabled_tools",
        "allowed_tools",
        "disallowed_tools",
        "forced_login_method",
        "forced_chatgpt_workspace_id",
    )
)
"""Restrictive keys outside of those tables. A name that roughly resembles one of them counts as misspelt."""


def _is_mistake(path: Path, pattern: str) -> bool:
    """Return whether an unknown key is probably not one of a newer Codex.

    It is in a table that restricts actions, it resembles a key of its table, or it is a top-level setting that was written
    below a table header by mistake.
    """
    if path[0] in _STRICT_TABLES:
        return True
    name = str(path[-1])
    if pattern and name in KEYS:
        return True
    return _resembles(name, _names(pattern))


def _resembles(name: str, known: Collection[str]) -> bool:
    """Return whether a name is a known one but for letter case, ``-`` for ``_``, or a slip of the finger.

    A slip is a letter that is wrong or in another place, or up to two that are missing or too many. Of 311 keys, twelve are taken
    for another key of their table.
    """
    if _nearest(name, _RESTRICTING & set(known), _SUGGESTED):
        return True
    plain = name.replace("-", "_").lower()
    return any(plain.replace("_", "") == other.replace("_", "") or _is_slip(plain, other) for other in known)


def _is_slip(name: str, other: str) -> bool:
    if abs(len(name) - len(other)) > 2:
        return False
    import difflib

    blocks = difflib.SequenceMatcher(None, name, other, autojunk=False).get_matching_blocks()
    return len(name) + len(other) - 2 * sum(block.size for block in blocks) <= 2


def _hint(problem: Mismatch) -> str:
    value = problem.value
    if problem.kind == "bool" and isinstance(value, str):
        return "Write true or false without quotes."
    if problem.kind in ("str", "secret", "path", "folder") and isinstance(value, (int, float)):
        return f'Put it in quotes: "{str(value).lower()}".'
    if problem.kind.startswith(("int", "float")) and isinstance(value, str):
        return "Write the number without quotes."
    if problem.kind.startswith("list[") and isinstance(value, str):
        return "Put it in brackets: [...]."
    if isinstance(value, str) and problem.kind.startswith('"'):
        choices = [choice.strip(' "') for choice in problem.kind.split("|")]
        return _suggestion(value, choices, cutoff=0.6).strip() or "Write one of these values."
    return "Fix the value."


def _names(parent: str) -> set[str]:
    prefix = f"{parent}." if parent else ""
    return {name.removeprefix(prefix).split(".")[0] for name in KEYS if name.startswith(prefix)} - {"*"}


_SUGGESTED = 0.7
"""How similar a name is (``difflib``'s ratio) that an error suggests."""


def _suggestion(name: str, known: Iterable[str], cutoff: float = _SUGGESTED) -> str:
    close = _nearest(name, known, cutoff)
    return f" Did you mean `{close[0]}`?" if close else ""


def _nearest(name: str, known: Iterable[str], cutoff: float) -> list[str]:
    import difflib

    return difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)
