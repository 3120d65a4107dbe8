"""The plugin contract: every hook, grouped by topic.

A plugin is a module, a subclass of ``codex_framework.Plugin`` or any other object, named by an entry point of the group
``codex_framework``. Its hook implementations carry ``@codex_framework.hookimpl``, and take no parameter or one called ``plugin``.
Hooks are called once, when a kernel is created, and only *offer objects* or declare something about the plugin; the kernel then
works with the objects (see ``codex_framework.contract.roles``). A hook may be a generator. If a hook raises, the exception is
reported with the plugin's name and the plugin is left out; the others load.

``docs/reference/hooks.md`` is rendered from these modules; the examples in them are run by a test.
"""

# ruff: noqa: F403, F405  # each module lists its hooks in __all__
from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Generic, Literal, TypeVar

from codex_framework.contract.hookspecs.commands import *
from codex_framework.contract.hookspecs.conversation import *
from codex_framework.contract.hookspecs.declarations import *
from codex_framework.contract.hookspecs.markers import *
from codex_framework.contract.hookspecs.model import *
from codex_framework.contract.hookspecs.safety import *
from codex_framework.contract.hookspecs.watching import *
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.compactors import Compactor
from codex_framework.contract.roles.components import Component
from codex_framework.contract.roles.constraints import Constraint
from codex_framework.contract.roles.context import ContextSource
from codex_framework.contract.roles.environments import EnvironmentSource
from codex_framework.contract.roles.exec_commands import ExecCommand
from codex_framework.contract.roles.exec_options import ExecOption
from codex_framework.contract.roles.interceptors import Interceptor
from codex_framework.contract.roles.launchers import Launcher
from codex_framework.contract.roles.models import ModelCatalogue, ModelProvider
from codex_framework.contract.roles.networks import NetworkProxy
from codex_framework.contract.roles.observers import Notifier, Observer, Telemetry
from codex_framework.contract.roles.ops import OpHandler
from codex_framework.contract.roles.policies import CommandPolicy
from codex_framework.contract.roles.provenance import ChangeRecorder
from codex_framework.contract.roles.reviewers import ApprovalReviewer
from codex_framework.contract.roles.sandboxes import Sandbox
from codex_framework.contract.roles.stores import ThreadStore
from codex_framework.contract.roles.tools import Tool
from codex_framework.contract.value import Value

__all__ = [
    "AGENTS",
    "CATALOGUES",
    "CHANGE_RECORDERS",
    "COMMANDS",
    "COMMAND_POLICIES",
    "COMPACTORS",
    "COMPONENTS",
    "CONSTRAINTS",
    "CONTEXT_SOURCES",
    "DECLARATIONS",
    "DEPRECATED",
    "ENVIRONMENT_SOURCES",
    "EXEC_COMMANDS",
    "EXEC_OPTIONS",
    "GROUP",
    "HOOKS",
    "INTERCEPTORS",
    "LAUNCHERS",
    "NETWORK_PROXIES",
    "NOTIFIERS",
    "OBSERVERS",
    "OFFERING",
    "OPS",
    "PROVIDERS",
    "REVIEWERS",
    "SANDBOXES",
    "TELEMETRY",
    "THREAD_STORES",
    "TOOLS",
    "Hook",
    "hookimpl",
    "hookspec",
]

T = TypeVar("T")


class Hook(Value, Generic[T]):
    """A hook that offers objects.

    Attributes:
        spec: Its function in this package.
        plural: The word for its objects in a registry and in reports.
        noun: The word for one of them in messages.
        role: The class that its objects fulfil. None for click commands, so that loading plugins does not import click.
        key: Returns the name of an object. Of two objects with the same name, one is used.
        when: ``load``: asked when a kernel is created. ``use``: bundled plugins are asked when an object is first needed,
            because most runs do not need it. ``cli``: asked when the command line needs the objects.
        safeguard: Whether the objects decide which actions are permitted. A run must not start without them because of an error.
        sees_all: Whether the objects see or store whole conversations. A project's own file cannot configure their plugin.
            The same applies to safeguards.
        all_used: Whether all of the objects are used, so none is selected by name.
        order: Returns the number by which the objects are sorted. By default they keep the order of the plugins.
        chosen_by: The key of ``[framework]`` that selects one of the objects.
    """

    spec: Callable[..., Any]
    plural: str
    noun: str
    role: Any
    key: Callable[[T], str] = attrgetter("name")
    when: Literal["load", "use", "cli"] = "load"
    safeguard: bool = False
    sees_all: bool = False
    all_used: bool = False
    order: Callable[[T], float] | None = None
    chosen_by: str | None = None

    @property
    def name(self) -> str:
        """The name of the hook."""
        return self.spec.__name__


def _order(item: Any) -> float:
    return getattr(item, "order", 100)


TOOLS: Hook[Tool] = Hook(codex_tools, "tools", "tool", Tool, key=lambda tool: tool.spec.name)
PROVIDERS: Hook[ModelProvider] = Hook(
    codex_model_providers, "providers", "model provider", ModelProvider, sees_all=True
)
CATALOGUES: Hook[ModelCatalogue] = Hook(
    codex_model_catalogues, "catalogues", "model catalogue", ModelCatalogue, sees_all=True
)
SANDBOXES: Hook[Sandbox] = Hook(codex_sandboxes, "sandboxes", "sandbox", Sandbox, safeguard=True, chosen_by="sandbox")
NETWORK_PROXIES: Hook[NetworkProxy] = Hook(
    codex_network_proxies, "network_proxies", "network proxy", NetworkProxy, safeguard=True
)
NOTIFIERS: Hook[Notifier] = Hook(codex_notifiers, "notifiers", "notifier", Notifier, all_used=True, sees_all=True)
TELEMETRY: Hook[Telemetry] = Hook(codex_telemetry, "telemetry", "telemetry", Telemetry, all_used=True, sees_all=True)
CONTEXT_SOURCES: Hook[ContextSource] = Hook(
    codex_context_sources, "context_sources", "context source", ContextSource, all_used=True
)
COMMAND_POLICIES: Hook[CommandPolicy] = Hook(
    codex_command_policies, "command_policies", "command policy", CommandPolicy, all_used=True, safeguard=True
)
CONSTRAINTS: Hook[Constraint] = Hook(
    codex_constraints, "constraints", "constraint", Constraint, all_used=True, safeguard=True
)
ENVIRONMENT_SOURCES: Hook[EnvironmentSource] = Hook(
    codex_environments, "environment_sources", "environment", EnvironmentSource, all_used=True, safeguard=True
)
REVIEWERS: Hook[ApprovalReviewer] = Hook(
    codex_approval_reviewers,
    "reviewers",
    "approval reviewer",
    ApprovalReviewer,
    all_used=True,
    safeguard=True,
    order=_order,
)
INTERCEPTORS: Hook[Interceptor] = Hook(
    codex_interceptors, "interceptors", "interceptor", Interceptor, all_used=True, safeguard=True, order=_order
)
COMPONENTS: Hook[Component] = Hook(codex_components, "components", "component", Component)
OPS: Hook[OpHandler[Any]] = Hook(codex_ops, "ops", "op", OpHandler, key=lambda handler: handler.op.type, when="use")
COMPACTORS: Hook[Compactor] = Hook(codex_compactors, "compactors", "compactor", Compactor, chosen_by="compactor")
AGENTS: Hook[Agent[Any]] = Hook(codex_agents, "agents", "agent", Agent)
OBSERVERS: Hook[Observer] = Hook(codex_observers, "observers", "observer", Observer, all_used=True, sees_all=True)
CHANGE_RECORDERS: Hook[ChangeRecorder] = Hook(
    codex_change_recorders, "change_recorders", "change recorder", ChangeRecorder, all_used=True, sees_all=True
)
THREAD_STORES: Hook[ThreadStore] = Hook(
    codex_thread_stores, "thread_stores", "thread store", ThreadStore, sees_all=True, chosen_by="thread_store"
)
LAUNCHERS: Hook[Launcher] = Hook(codex_launchers, "launchers", "launcher", Launcher, when="cli", sees_all=True)
COMMANDS: Hook[Any] = Hook(codex_commands, "commands", "command", None, when="cli")
EXEC_OPTIONS: Hook[ExecOption] = Hook(codex_exec_options, "exec_options", "exec option", ExecOption, when="cli")
EXEC_COMMANDS: Hook[ExecCommand] = Hook(codex_exec_commands, "exec_commands", "exec command", ExecCommand, when="cli")

OFFERING: tuple[Hook[Any], ...] = tuple(row for row in list(globals().values()) if isinstance(row, Hook))
"""All rows, in the order of the reference."""

DECLARATIONS: tuple[Callable[..., Any], ...] = (
    codex_settings,
    codex_requires,
    codex_roles,
    codex_events,
    codex_config_keys,
    codex_protected_paths,
)
"""The hooks that declare something about the plugin itself."""

HOOKS: tuple[Callable[..., Any], ...] = (*(hook.spec for hook in OFFERING), *DECLARATIONS)
"""The functions of all hooks, in the order of the reference."""

DEPRECATED: Mapping[str, str] = {
    "codex_requires": "name the distribution in the dependencies of yours, and the services that you use in `Component.requires`",
    "codex_roles": "offer a service with `Component.provides`, to which other plugins add their objects",
}
"""Hooks that work for one more release, each with what to do instead."""
