"""The plugin contract: every hook, grouped by topic.

A plugin is a module, a subclass of ``codex_framework.Plugin`` or any other object, named by an entry point of the group
``codex_framework``. Its hook implementations carry ``@codex_framework.hookimpl``, and take no parameter or one called ``plugin``.
Hooks are called once, when a kernel is created, and only *offer objects* or declare something about the plugin; the kernel then
works with the objects (see ``codex_framework.contract.roles``). A hook may be a generator. If a hook raises, the exception is
reported with the plugin's name and the plugin is left out; the others load.

``docs/reference/hooks.md`` is rendered from these modules; the examples in them are run by a test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codex_framework.contract.hookspecs.commands import codex_commands, codex_exec_commands, codex_exec_options
from codex_framework.contract.hookspecs.conversation import (
    codex_agents,
    codex_compactors,
    codex_components,
    codex_ops,
    codex_thread_stores,
)
from codex_framework.contract.hookspecs.declarations import (
    codex_config_keys,
    codex_events,
    codex_protected_paths,
    codex_requires,
    codex_roles,
    codex_settings,
)
from codex_framework.contract.hookspecs.markers import GROUP, hookimpl, hookspec
from codex_framework.contract.hookspecs.model import (
    codex_context_sources,
    codex_model_catalogues,
    codex_model_providers,
    codex_tools,
)
from codex_framework.contract.hookspecs.safety import (
    codex_approval_reviewers,
    codex_command_policies,
    codex_constraints,
    codex_environments,
    codex_interceptors,
    codex_network_proxies,
    codex_sandboxes,
)
from codex_framework.contract.hookspecs.watching import (
    codex_notifiers,
    codex_observers,
    codex_telemetry,
)

__all__ = ["DECLARATIONS", "GROUP", "HOOKS", "hookimpl", "hookspec"]

DECLARATIONS: tuple[Callable[..., Any], ...] = (
    codex_settings,
    codex_requires,
    codex_roles,
    codex_events,
    codex_config_keys,
    codex_protected_paths,
)
"""The hooks that declare something about the plugin itself."""

HOOKS: tuple[Callable[..., Any], ...] = (
    codex_tools,
    codex_model_providers,
    codex_model_catalogues,
    codex_sandboxes,
    codex_network_proxies,
    codex_notifiers,
    codex_telemetry,
    codex_context_sources,
    codex_command_policies,
    codex_constraints,
    codex_environments,
    codex_approval_reviewers,
    codex_interceptors,
    codex_components,
    codex_ops,
    codex_compactors,
    codex_agents,
    codex_observers,
    codex_thread_stores,
    codex_commands,
    codex_exec_options,
    codex_exec_commands,
    *DECLARATIONS,
)
"""All hooks, in the order of the reference."""
