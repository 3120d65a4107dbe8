"""The hooks of the configuration: read from all sources, checked, and compared with the user's decisions about trust."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from codex_framework import ConfigError, ConfigLayer, PluginContext, Value
from codex_framework.contract.value import field
from codex_framework.toolkit.regular_files import open_regular
from codex_plugin_hooks import matching
from codex_plugin_hooks.names import ELSEWHERE, EVENTS, HookEvent
from codex_plugin_hooks.scripts import Scripts, scripts
from codex_plugin_hooks.settings import Settings
from codex_plugin_hooks.trust import definition_hash, states

__all__ = ["Definitions", "Handler", "definitions", "known_definitions"]

_LIMIT_BYTES = 4 << 20
"""Maximum size of a ``hooks.json``."""

_SHOWN = 60
"""Longest wrong value in a message, in characters."""

_HANDLER_FIELDS = frozenset(
    (
        "type",
        "command",
        "commandWindows",
        "command_windows",
        "timeout",
        "async",
        "statusMessage",
        "additionalContextLimit",
    )
)

Trust = Literal["managed", "trusted", "modified", "untrusted"]


class Handler(Value, kw_only=True):
    """One command of one event.

    Attributes:
        matcher: The pattern for which it runs. None if it always runs.
        key: File, event and position, under which the user's decisions are stored.
        order: The position among all hooks.
        path: The file that defines it.
        source: ``system``, ``user``, ``project`` or ``session_flags``.
        hash: The hash of the definition.
        enabled: False if the user has switched it off.
        scripts: The scripts that its command runs.
    """

    event: HookEvent
    matcher: str | None
    command: str
    timeout_s: int
    is_async: bool = False
    status_message: str | None = None
    context_limit: int | None = None
    key: str
    order: int
    path: str
    source: str
    hash: str
    trust: Trust
    enabled: bool = True
    scripts: Scripts = Scripts()

    @property
    def run_id(self) -> str:
        """The id of its runs, as in Codex."""
        return f"{self.event.label}:{self.order}:{self.path}"


class Definitions(Value, kw_only=True):
    """All hooks.

    Attributes:
        known: All readable hooks, in order.
        handlers: The hooks that run.
        errors: The reasons why the others cannot be run.
        warnings: Sentences for the user.
        env: Variables that hooks get in addition to the variables of commands.
        environ: The kernel's environment variables.
    """

    known: tuple[Handler, ...] = ()
    handlers: tuple[Handler, ...] = ()
    errors: tuple[ConfigError, ...] = ()
    warnings: tuple[str, ...] = ()
    env: Mapping[str, str] = field(factory=dict, repr=False)
    environ: Mapping[str, str] = field(factory=dict, repr=False)

    def of(self, *events: str) -> tuple[Handler, ...]:
        """Return the hooks that run at some events."""
        return tuple(handler for handler in self.handlers if handler.event.name in events)


_BYPASSED = (
    "`--dangerously-bypass-hook-trust` is enabled. Enabled hooks may run without review for this invocation.",
) * 2
"""The warning about the option, shown as often as in Codex."""


def definitions(
    layers: Sequence[ConfigLayer], settings: Settings, environ: Mapping[str, str], *, says_bypassed: bool = False
) -> Definitions:
    """Read the hooks of all sources.

    Args:
        says_bypassed: Whether to warn that hooks run without trust.
    """
    reader = _Reader(states(layers), environ)
    for layer in layers:
        reader.read(layer)
    handlers = []
    for handler in reader.handlers:
        if not handler.enabled:
            continue
        if handler.trust in ("managed", "trusted") or settings.bypass_trust:
            handlers.append(handler)
        else:
            reader.errors.append(_not_trusted(handler))
    errors, warnings = reader.errors, reader.warnings
    if settings.unrunnable == "skip":
        errors, warnings = [], [*warnings, *(f"{error}; it is skipped" for error in errors)]
    return Definitions(
        known=tuple(reader.handlers),
        handlers=tuple(handlers),
        errors=tuple(errors),
        warnings=(*(_BYPASSED if says_bypassed else ()), *warnings),
        env={name: environ[name] for name in settings.env_vars if name in environ},
        environ=environ,
    )


def known_definitions(plugin: PluginContext) -> Definitions:
    """Read the hooks of a kernel's configuration, whether they are switched on or not."""
    return definitions(plugin.layers, plugin.settings(Settings).evolve(unrunnable="error"), plugin.environ)


def _not_trusted(handler: Handler) -> ConfigError:
    state = "has changed since you trusted it" if handler.trust == "modified" else "is not trusted"
    return ConfigError(
        f"{handler.path}: the hook {handler.command!r} of {handler.event.name} {state}, so it cannot be run",
        path=handler.path,
        key=f"hooks.{handler.event.name}",
        slug="hook-trust",
        hint="Check it with `codex-framework hooks list`, then run `codex-framework hooks trust`.",
    )


class _Reader:
    """Reads definitions, and collects their problems."""

    def __init__(self, decisions: Mapping[str, Mapping[str, Any]], environ: Mapping[str, str]) -> None:
        self._states = decisions
        self._environ = environ
        self.handlers: list[Handler] = []
        self.errors: list[ConfigError] = []
        self.warnings: list[str] = []

    def read(self, layer: ConfigLayer) -> None:
        """Read the file and the table of one source."""
        tables = [*self._file(layer), *self._table(layer)]
        if len([table for _, table in tables if table]) > 1:
            self.warnings.append(
                f"{layer.folder}: hooks are defined both in hooks.json and in config.toml; all of them run, but one file is clearer"
            )
        for path, table in tables:
            self._events(layer, path, table)

    def _file(self, layer: ConfigLayer) -> Iterator[tuple[str, Mapping[str, Any]]]:
        path = None if layer.folder is None else layer.folder / "hooks.json"
        if path is None or not path.exists():
            return
        try:
            content = _json(path)
        except (OSError, ValueError, RecursionError) as error:
            reason = getattr(error, "strerror", None) or error
            self._error(str(path), "", f"cannot be read: {reason}", "Fix the file, or remove it.")
            return
        if not isinstance(content, Mapping) or not isinstance(content.get("hooks", {}), Mapping):
            hint = 'Write {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "..."}]}]}}.'
            self._error(str(path), "", "is not an object with `hooks`, an object of events", hint)
            return
        others = [name for name in content if name not in ("hooks", "description")]
        if others:
            self.warnings.append(f"{path}: unknown {_names(others)}, which has no effect")
        yield str(path), content.get("hooks", {})

    def _table(self, layer: ConfigLayer) -> Iterator[tuple[str, Mapping[str, Any]]]:
        table = layer.table.get("hooks")
        if isinstance(table, Mapping):
            yield _config_path(layer), {name: value for name, value in table.items() if name != "state"}

    def _events(self, layer: ConfigLayer, path: str, table: Mapping[str, Any]) -> None:
        for name in table:
            if name not in EVENTS:
                self._unknown_event(path, str(name))
        for name, event in EVENTS.items():
            groups = table.get(name)
            if groups is None:
                continue
            if not isinstance(groups, Sequence) or isinstance(groups, str):
                self._error(path, name, "is not a list", "Write a list of objects with `matcher` and `hooks`.")
                continue
            for number, group in enumerate(groups):
                self._group(layer, path, event, number, group)

    def _unknown_event(self, path: str, name: str) -> None:
        if name in ELSEWHERE:
            self._error(path, name, "is an event that does not occur here", "Remove its hooks.")
            return
        from codex_framework.toolkit.suggestions import did_you_mean

        hint = f"{did_you_mean(name, list(EVENTS))}The events are: {', '.join(EVENTS)}."
        self._error(path, name, "is an unknown event", hint)

    def _group(self, layer: ConfigLayer, path: str, event: HookEvent, number: int, group: Any) -> None:
        where = f"{event.name}[{number}]"
        handlers = group.get("hooks", []) if isinstance(group, Mapping) else None
        matcher = group.get("matcher") if isinstance(group, Mapping) else None
        if not isinstance(handlers, Sequence) or isinstance(handlers, str):
            self._error(
                path, where, "is not an object with a list `hooks`", 'Write {"matcher": "Bash", "hooks": [...]}.'
            )
            return
        if matcher is not None and not isinstance(matcher, str):
            self._error(
                path, f"{where}.matcher", "is not text", 'Write names or a regular expression: "Bash|apply_patch".'
            )
            return
        self._warn_unknown(path, where, group, {"matcher", "hooks"})
        matcher = matcher if event.matches else None
        fault = None if matcher is None else matching.problem(matcher)
        if fault is not None:
            self._error(path, f"{where}.matcher", f"{matcher!r} is no regular expression: {fault}", "Fix it.")
            return
        for place, handler in enumerate(handlers):
            self._handler(layer, path, event, matcher, (number, place), handler)

    def _handler(
        self, layer: ConfigLayer, path: str, event: HookEvent, matcher: str | None, place: tuple[int, int], given: Any
    ) -> None:
        where = f"{event.name}[{place[0]}].hooks[{place[1]}]"
        given = (
            {name: value for name, value in given.items() if value is not None} if isinstance(given, Mapping) else given
        )
        fault = _fault(given)
        if fault is not None:
            self._error(path, where, *fault)
            return
        self._warn_unknown(path, where, given, _HANDLER_FIELDS)
        timeout_s = self._timeout_s(path, event, given)
        is_async = given.get("async", False)
        status, limit = given.get("statusMessage"), given.get("additionalContextLimit")
        identity = {"type": "command", "command": given["command"], "timeout": timeout_s, "async": is_async}
        if status is not None:
            identity["statusMessage"] = status
        if limit is not None:
            identity["additionalContextLimit"] = limit
        key = f"{path}:{event.key}:{place[0]}:{place[1]}"
        current = definition_hash(event, matcher, identity)
        state = self._states.get(key, {})
        managed = layer.name == "system"
        self.handlers.append(
            Handler(
                event=event,
                matcher=matcher,
                command=given["command"],
                timeout_s=timeout_s,
                is_async=is_async and not self._must_wait(path, event),
                status_message=status,
                context_limit=limit,
                key=key,
                order=len(self.handlers),
                path=path,
                source=_SOURCES[layer.name],
                hash=current,
                trust=_trust(current, state.get("trusted_hash"), managed=managed),
                enabled=managed or state.get("enabled") is not False,
                scripts=scripts(given["command"], self._environ),
            )
        )

    def _timeout_s(self, path: str, event: HookEvent, given: Mapping[str, Any]) -> int:
        timeout_s = max(int(given.get("timeout", event.timeout_s)), 1)
        if event.longest_s is None or timeout_s <= event.longest_s:
            return timeout_s
        self.warnings.append(f"clamping {event.name} hook timeout to {event.longest_s}s in {path}")
        return event.longest_s

    def _must_wait(self, path: str, event: HookEvent) -> bool:
        """Return whether an asynchronous hook must be awaited anyway: after the end of a session, nothing runs."""
        if event.name != "SessionEnd":
            return False
        self.warnings.append(f"running async SessionEnd hook synchronously in {path}")
        return True

    def _warn_unknown(self, path: str, where: str, table: Mapping[str, Any], known: frozenset[str] | set[str]) -> None:
        unknown = [name for name in table if name not in known]
        if unknown:
            self.warnings.append(f"{path}: {where} has unknown {_names(unknown)}, which has no effect")

    def _error(self, path: str, where: str, fact: str, hint: str) -> None:
        place = f"{path}: hooks.{where} {fact}" if where else f"{path} {fact}"
        self.errors.append(ConfigError(place, path=path, key=f"hooks.{where}".rstrip("."), slug="hooks", hint=hint))


_SOURCES = {
    "system": "system",
    "user": "user",
    "profile": "user",
    "project": "project",
    "override": "session_flags",
    "flags": "session_flags",
}


def _config_path(layer: ConfigLayer) -> str:
    return layer.path if layer.path.startswith("/") else "/<session-flags>/config.toml"


def _json(path: Path) -> Any:
    with open(path, "rb", opener=open_regular) as file:
        data = file.read(_LIMIT_BYTES + 1)
    if len(data) > _LIMIT_BYTES:
        raise ValueError(f"it is larger than {_LIMIT_BYTES} bytes")
    return json.loads(data)


def _fault(given: Any) -> tuple[str, str] | None:
    """Return the problem of a handler's definition with advice, or None if it can be run."""
    if not isinstance(given, Mapping):
        return "is not an object", 'Write {"type": "command", "command": "..."}.'
    kind = given.get("type")
    if kind != "command":
        return f"has the type {kind!r}, but only hooks of the type 'command' are run", "Replace or remove it."
    if not isinstance(given.get("command"), str) or not given["command"].strip():
        return "has no command", "Set `command` to a shell command."
    if "\0" in given["command"] or not _encodes(given["command"]):
        return "has a command with a character that no command can contain", "Remove it."
    if not _is_whole(given.get("timeout", 0)):
        return f"has the timeout {_short(given['timeout'])}", "Write a whole number of seconds."
    if not isinstance(given.get("async", False), bool):
        return "has an `async` that is not true or false", "Write true or false."
    if not isinstance(given.get("statusMessage", ""), str):
        return "has a `statusMessage` that is not text", "Write text."
    if not _is_whole(given.get("additionalContextLimit", 0)):
        return (
            f"has the additionalContextLimit {_short(given['additionalContextLimit'])}",
            "Write a whole number of tokens.",
        )
    return None


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _short(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 63:
        return "that is too large" if value > 0 else "that is negative"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _trust(current: str, trusted: Any, *, managed: bool) -> Trust:
    if managed:
        return "managed"
    if trusted is None:
        return "untrusted"
    return "trusted" if trusted == current else "modified"


def _names(names: Sequence[Any]) -> str:
    return ", ".join(f"`{name}`" for name in names)
