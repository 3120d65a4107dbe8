"""A plugin that offers the given objects."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework.contract.hookspecs import hookimpl
from codex_framework.contract.roles.agents import Agent
from codex_framework.contract.roles.compactors import Compactor
from codex_framework.contract.roles.components import Component
from codex_framework.contract.roles.constraints import Constraint
from codex_framework.contract.roles.context import ContextSource
from codex_framework.contract.roles.environments import EnvironmentSource
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

if TYPE_CHECKING:
    import click

__all__ = ["Offer"]

_NUMBERS = itertools.count(1)


class Offer:
    """``Offer(tools=[my_tool])`` is a plugin for ``Kernel.create(plugins=[...])`` that offers ``my_tool``.

    Its name is ``name``, or a generated one.
    """

    def __init__(
        self,
        *,
        tools: Iterable[Tool] = (),
        providers: Iterable[ModelProvider] = (),
        catalogues: Iterable[ModelCatalogue] = (),
        sandboxes: Iterable[Sandbox] = (),
        network_proxies: Iterable[NetworkProxy] = (),
        context: Iterable[ContextSource] = (),
        policies: Iterable[CommandPolicy] = (),
        constraints: Iterable[Constraint] = (),
        environments: Iterable[EnvironmentSource] = (),
        reviewers: Iterable[ApprovalReviewer] = (),
        interceptors: Iterable[Interceptor] = (),
        observers: Iterable[Observer] = (),
        notifiers: Iterable[Notifier] = (),
        telemetry: Iterable[Telemetry] = (),
        change_recorders: Iterable[ChangeRecorder] = (),
        stores: Iterable[ThreadStore] = (),
        components: Iterable[Component] = (),
        ops: Iterable[OpHandler[Any]] = (),
        compactors: Iterable[Compactor] = (),
        agents: Iterable[Agent[Any]] = (),
        launchers: Iterable[Launcher] = (),
        commands: Iterable[click.Command] = (),
        name: str | None = None,
    ) -> None:
        self.__name__ = (
            name or f"offer-{next(_NUMBERS)}"
        )  # the loader uses it as the name of a plugin without an entry point
        self._tools = tuple(tools)
        self._providers = tuple(providers)
        self._catalogues = tuple(catalogues)
        self._sandboxes = tuple(sandboxes)
        self._network_proxies = tuple(network_proxies)
        self._context = tuple(context)
        self._policies = tuple(policies)
        self._constraints = tuple(constraints)
        self._environments = tuple(environments)
        self._reviewers = tuple(reviewers)
        self._interceptors = tuple(interceptors)
        self._observers = tuple(observers)
        self._notifiers = tuple(notifiers)
        self._telemetry = tuple(telemetry)
        self._change_recorders = tuple(change_recorders)
        self._stores = tuple(stores)
        self._components = tuple(components)
        self._ops = tuple(ops)
        self._compactors = tuple(compactors)
        self._agents = tuple(agents)
        self._launchers = tuple(launchers)
        self._commands = tuple(commands)

    @hookimpl
    def codex_tools(self) -> Iterable[Tool]:
        """Offer them."""
        return self._tools

    @hookimpl
    def codex_model_providers(self) -> Iterable[ModelProvider]:
        """Offer them."""
        return self._providers

    @hookimpl
    def codex_model_catalogues(self) -> Iterable[ModelCatalogue]:
        """Offer them."""
        return self._catalogues

    @hookimpl
    def codex_sandboxes(self) -> Iterable[Sandbox]:
        """Offer them."""
        return self._sandboxes

    @hookimpl
    def codex_network_proxies(self) -> Iterable[NetworkProxy]:
        """Offer them."""
        return self._network_proxies

    @hookimpl
    def codex_context_sources(self) -> Iterable[ContextSource]:
        """Offer them."""
        return self._context

    @hookimpl
    def codex_command_policies(self) -> Iterable[CommandPolicy]:
        """Offer them."""
        return self._policies

    @hookimpl
    def codex_constraints(self) -> Iterable[Constraint]:
        """Offer them."""
        return self._constraints

    @hookimpl
    def codex_environments(self) -> Iterable[EnvironmentSource]:
        """Offer them."""
        return self._environments

    @hookimpl
    def codex_approval_reviewers(self) -> Iterable[ApprovalReviewer]:
        """Offer them."""
        return self._reviewers

    @hookimpl
    def codex_interceptors(self) -> Iterable[Interceptor]:
        """Offer them."""
        return self._interceptors

    @hookimpl
    def codex_observers(self) -> Iterable[Observer]:
        """Offer them."""
        return self._observers

    @hookimpl
    def codex_notifiers(self) -> Iterable[Notifier]:
        """Offer them."""
        return self._notifiers

    @hookimpl
    def codex_telemetry(self) -> Iterable[Telemetry]:
        """Offer them."""
        return self._telemetry

    @hookimpl
    def codex_change_recorders(self) -> Iterable[ChangeRecorder]:
        """Offer them."""
        return self._change_recorders

    @hookimpl
    def codex_thread_stores(self) -> Iterable[ThreadStore]:
        """Offer them."""
        return self._stores

    @hookimpl
    def codex_components(self) -> Iterable[Component]:
        """Offer them."""
        return self._components

    @hookimpl
    def codex_ops(self) -> Iterable[OpHandler[Any]]:
        """Offer them."""
        return self._ops

    @hookimpl
    def codex_compactors(self) -> Iterable[Compactor]:
        """Offer them."""
        return self._compactors

    @hookimpl
    def codex_agents(self) -> Iterable[Agent[Any]]:
        """Offer them."""
        return self._agents

    @hookimpl
    def codex_launchers(self) -> Iterable[Launcher]:
        """Offer them."""
        return self._launchers

    @hookimpl
    def codex_commands(self) -> Iterable[click.Command]:
        """Offer them."""
        return self._commands
