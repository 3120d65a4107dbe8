"""Creates notifiers from the configuration. Only the user's own settings count, never a project's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codex_framework import Notifier, PluginContext, Value
from codex_framework.contract.errors import ConfigError
from codex_framework.contract.value import fields_of
from codex_plugin_notify.component import NotifyComponent, Reports
from codex_plugin_notify.filtering import Filter
from codex_plugin_notify.settings import KINDS, Program, Settings, Terminal, Webhook

__all__ = ["Made", "made"]

_METHODS = ("auto", "osc9", "bel")
_CONDITIONS = ("unfocused", "always")
_FOREVER_S = 1e9


class Made(Value):
    """The notifiers of a kernel, and the component that passes on their failures."""

    notifiers: Sequence[Notifier]
    component: NotifyComponent


def made(plugin: PluginContext) -> Made:
    """Make the notifiers that are configured.

    Raises:
        ConfigError: A setting is not valid.
    """
    component = NotifyComponent()
    settings = plugin.settings(Settings)
    _check_numbers(settings, ("framework", "plugins", plugin.name))
    return Made(list(_notifiers(plugin, settings, component)), component)


def _notifiers(plugin: PluginContext, settings: Settings, component: NotifyComponent) -> Iterator[Notifier]:
    argv = _of_user(plugin, "notify")
    if argv and argv[0]:
        from codex_plugin_notify.program import ProgramNotifier

        program = settings.program or Program()
        wanted = Filter(program.kinds, program.min_turn_s)
        yield ProgramNotifier(argv, wanted, program.timeout_s, plugin, component)
    kinds, method, condition = _terminal(_of_user(plugin, "tui"))
    if kinds:
        from codex_plugin_notify.terminal import TerminalNotifier

        wanted = Filter(kinds, (settings.terminal or Terminal()).min_turn_s)
        unfocused = condition == "unfocused"
        yield TerminalNotifier(method, wanted, plugin.environ, Reports(component), unfocused=unfocused)
    if settings.desktop is not None:
        from codex_plugin_notify.desktop import DesktopNotifier

        desktop = settings.desktop
        wanted = Filter(desktop.kinds, desktop.min_turn_s)
        yield DesktopNotifier(
            content=desktop.content, wanted=wanted, environ=plugin.environ, reports=Reports(component)
        )
    for name, table in settings.webhooks.items():
        yield _webhook(name, table, plugin, component)


def _webhook(name: str, table: Webhook, plugin: PluginContext, component: NotifyComponent) -> Notifier:
    from codex_plugin_notify.target import target
    from codex_plugin_notify.webhook import WebhookNotifier

    return WebhookNotifier(
        name,
        target(name, table, plugin.environ),
        content=table.content,
        wanted=Filter(table.kinds, table.min_turn_s),
        reports=Reports(component),
    )


def _of_user(plugin: PluginContext, key: str) -> Any:
    """Return a top-level setting from all sources but projects, with tables merged by their keys."""
    found: Any = None
    for layer in plugin.layers:
        if layer.name == "project" or key not in layer.table:
            continue
        value = layer.table[key]
        both = isinstance(found, Mapping) and isinstance(value, Mapping)
        found = {**found, **value} if both else value
    return found


def _terminal(tui: Any) -> tuple[Sequence[str], str, str]:
    """Return the kinds that the terminal shows, the method and the condition."""
    table = tui if isinstance(tui, Mapping) else {}
    wanted = table.get("notifications", False)
    if not isinstance(wanted, bool) and not (
        isinstance(wanted, list) and all(isinstance(kind, str) for kind in wanted)
    ):
        hint = 'Write true, false or a list, such as ["agent-turn-complete", "approval-requested"].'
        raise ConfigError("`tui.notifications` must be true, false or a list of strings", key="tui", hint=hint)
    method = _one_of("notification_method", table.get("notification_method", "auto"), _METHODS)
    condition = _one_of("notification_condition", table.get("notification_condition", "unfocused"), _CONDITIONS)
    kinds = (KINDS if wanted else ()) if isinstance(wanted, bool) else tuple(wanted)
    return kinds, method, condition


def _check_numbers(value: Any, at: tuple[str, ...]) -> None:
    """Check that all seconds are numbers that can be waited for."""
    if isinstance(value, float) and not 0 <= value < _FOREVER_S:
        key = ".".join(at)
        raise ConfigError(f"`{key}` is {value:g}, not a number of seconds", key=key, hint="Write a number from 0 on.")
    fields = (
        {each.name: getattr(value, each.name) for each in fields_of(type(value))} if isinstance(value, Value) else value
    )
    if isinstance(fields, Mapping):
        for name, part in fields.items():
            _check_numbers(part, (*at, str(name)))


def _one_of(key: str, value: Any, words: Sequence[str]) -> str:
    if value not in words:
        listed = " or ".join((", ".join(words[:-1]), words[-1]))
        raise ConfigError(f"`tui.{key}` must be {listed}", key="tui", hint=f'Write {key} = "{words[0]}".')
    return str(value)
