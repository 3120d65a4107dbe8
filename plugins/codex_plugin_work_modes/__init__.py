"""Work modes: the permissions of a thread as a planner, a builder or a reviewer, enforced for every action of the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from codex_framework import (
    CommandPolicy,
    Component,
    Constraint,
    ContextSource,
    EventMsg,
    ExecOption,
    Interceptor,
    OpHandler,
    PluginContext,
    hookimpl,
)
from codex_framework.toolkit.exports import lazy_exports

if TYPE_CHECKING:
    from codex_plugin_work_modes.modes import ModeRestrictions
    from codex_plugin_work_modes.ops import SetWorkMode, WorkModeChangedEvent
    from codex_plugin_work_modes.state import WorkModes
else:
    __getattr__ = lazy_exports(__name__, {"modes": "ModeRestrictions", "ops": "SetWorkMode WorkModeChangedEvent"})

__all__ = [
    "ModeRestrictions",
    "SetWorkMode",
    "WorkModeChangedEvent",
    "codex_command_policies",
    "codex_components",
    "codex_constraints",
    "codex_context_sources",
    "codex_events",
    "codex_exec_options",
    "codex_interceptors",
    "codex_ops",
    "codex_settings",
]

_kernels: WeakKeyDictionary[PluginContext, WorkModes] = WeakKeyDictionary()
"""The modes of all threads of each kernel."""


def _modes(plugin: PluginContext) -> WorkModes:
    found = _kernels.get(plugin)
    if found is None:
        from codex_plugin_work_modes.state import WorkModes

        found = _kernels[plugin] = WorkModes()
    return found


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.work_modes]``."""
    from codex_plugin_work_modes.modes import Settings

    return Settings


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare ``work_mode_changed``."""
    from codex_plugin_work_modes.ops import WorkModeChangedEvent

    return [WorkModeChangedEvent]


@hookimpl
def codex_exec_options() -> Iterable[ExecOption]:
    """Offer ``--work-mode``."""
    text = "The work mode of the run: plan (read only), review (small changes), build, or one of yours."
    return [ExecOption(name="work-mode", setting="mode", text=text, metavar="NAME")]


@hookimpl
def codex_components(plugin: PluginContext) -> Iterable[Component]:
    """Offer the component that gives threads a mode."""
    from codex_plugin_work_modes.state import ModeComponent

    return [ModeComponent(_modes(plugin), plugin)]


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handler of the op ``set_work_mode``."""
    from codex_plugin_work_modes.ops import SetWorkModeHandler

    return [SetWorkModeHandler()]


@hookimpl
def codex_constraints(plugin: PluginContext) -> Iterable[Constraint]:
    """Offer ``work-mode``, which narrows the permissions of turns."""
    from codex_plugin_work_modes.roles import ModeConstraint

    return [ModeConstraint(_modes(plugin))]


@hookimpl
def codex_command_policies(plugin: PluginContext) -> Iterable[CommandPolicy]:
    """Offer ``work-mode``, which forbids commands, or commands that change a repository."""
    from codex_plugin_work_modes.roles import ModePolicy

    return [ModePolicy(_modes(plugin))]


@hookimpl
def codex_interceptors(plugin: PluginContext) -> Iterable[Interceptor]:
    """Offer ``work-mode``, which refuses calls of tools that no sandbox confines."""
    from codex_plugin_work_modes.roles import ModeInterceptor

    return [ModeInterceptor(_modes(plugin))]


@hookimpl
def codex_context_sources(plugin: PluginContext) -> Iterable[ContextSource]:
    """Offer ``work_mode``, which tells the model what its mode permits."""
    from codex_plugin_work_modes.roles import ModeContext

    return [ModeContext(_modes(plugin))]
