"""The components of a kernel, which are started, called and closed in order, with each failure contained."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from inspect import getattr_static
from typing import Any, Literal, TypeAlias

from codex_framework.contract.errors import ConfigError, PluginError
from codex_framework.contract.roles.components import Component, ThreadComponent
from codex_framework.contract.roles.scopes import ServiceKey
from codex_framework.contract.roles.threads import KernelContext, ThreadContext
from codex_framework.loader.offers import Offer
from codex_framework.threads.faults import Label, WrongValue, error_message, source_place
from codex_framework.threads.plugin_calls import Notices, PluginTimeout, call_with_timeout, close
from codex_framework.threads.plugin_view import Services
from codex_framework.threads.thread_parts import Part, SharedPart, ThreadParts
from codex_framework.toolkit.roles import overrides

__all__ = ["Components", "Origin", "declaration_problem"]

Origin: TypeAlias = Literal["new", "resumed", "forked", "spawned"]
"""How a thread was created."""


class Components:
    """The components of one kernel.

    Args:
        offers: The components by name, each with its plugin's name.
        services: The table to which their services are added.
    """

    def __init__(self, offers: Mapping[str, Offer[Component]], services: Services) -> None:
        self._offers = offers
        self._services = services
        self._order: list[Offer[Component]] = []
        self._failed: dict[str, str] = {}
        self._reasons: dict[str, str] = {}
        self._providers: dict[ServiceKey[Any], str] = {}

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._offers)

    async def start(self, kernel: Callable[[str], KernelContext]) -> Mapping[str, str]:
        """Start all components concurrently, each after the components that provide its required services.

        Returns:
            The reasons of failed plugins, by plugin name. The caller must withdraw the offers of these plugins.

        Raises:
            PluginError: A required component did not start.
            ConfigError: A required component did not start, because the configuration is invalid.
        """
        self._find_providers()
        needs = {
            name: [self._providers[key] for key in offer.item.requires if key in self._providers]
            for name, offer in self._offers.items()
        }
        for circle in _find_cycles(needs):
            for name in circle:
                way = " -> ".join((*circle, circle[0]))
                self._reasons.setdefault(name, f"component {name!r} is part of a requirement cycle: {way}")
        loop = asyncio.get_running_loop()
        ended = {name: loop.create_future() for name in self._offers}
        work = [loop.create_task(self._start_one(name, ended, kernel)) for name in self._offers]
        try:
            done, pending = await asyncio.wait(work, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            await _cancel_all(work)
            raise
        await _cancel_all(pending)
        for task in done:
            task.result()
        self._withdraw_dependents()
        return self._failed

    def _find_providers(self) -> None:
        """Find the provider of each service. If two components provide a service, the first one gets it."""
        for name, offer in self._offers.items():
            for key in offer.item.provides:
                first = self._providers.setdefault(key, name)
                if first != name:
                    self._reasons[name] = (
                        f"component {name!r} provides the service {key.name!r}, which component {first!r} of plugin"
                        f" {self._offers[first].plugin!r} already provides; disable one of the two plugins"
                    )

    async def _start_one(
        self, name: str, ended: Mapping[str, asyncio.Future[str | None]], kernel: Callable[[str], KernelContext]
    ) -> None:
        offer = self._offers[name]
        component = offer.item
        try:
            reason = self._reasons.get(name) or await self._find_unmet(name, ended)
            if reason is None:
                self._order.append(offer)
                provided = await call_with_timeout(component.start_timeout_s, component.start, kernel(offer.plugin))
                self._provide(offer, provided)
        except PluginTimeout:
            place = source_place(component.start)
            reason = f"component {name!r} did not start within {component.start_timeout_s:g} s{place}"
        except Exception as error:  # a plugin may raise anything
            if component.required and isinstance(error, ConfigError):
                raise  # a mistake of the user, with the place and what to do
            reason = f"component {name!r} did not start: {error_message(error, component.start)}"
        except asyncio.CancelledError:
            ended[name].cancel()
            raise
        ended[name].set_result(reason)
        if reason is not None:
            self._fail(offer, reason)

    def _fail(self, offer: Offer[Component], reason: str) -> None:
        self._failed.setdefault(offer.plugin, reason)
        for key in offer.item.provides:
            if self._providers[key] == offer.item.name:
                self._services.withdraw(key, reason)
        if offer.item.required:
            raise PluginError(offer.plugin, f"plugin {offer.plugin!r}: {reason}", hint="Fix the plugin, or disable it.")

    async def _find_unmet(self, name: str, ended: Mapping[str, asyncio.Future[str | None]]) -> str | None:
        """Wait for the required services of a component. Return why it cannot start, or None."""
        for key in self._offers[name].item.requires:
            if key not in self._providers:
                return f"component {name!r} requires the service {key.name!r}, which no plugin provides; install such a plugin"
            failed = await asyncio.shield(ended[self._providers[key]])
            if failed is not None:
                return f"component {name!r} requires the service {key.name!r}: {failed}"
        return None

    def _provide(self, offer: Offer[Component], provided: object) -> None:
        start = offer.item.start
        services = {} if provided is None else provided
        if not isinstance(services, Mapping):
            raise WrongValue(f"start() returned {type(services).__name__}, not a mapping of services", start)
        missing = [key.name for key in offer.item.provides if key not in services]
        if missing:
            raise WrongValue(f"start() returned no service {', '.join(missing)}, which `provides` names", start)
        strange = [repr(key) for key in services if not isinstance(key, ServiceKey)]
        if strange:
            raise WrongValue(f"start() returned services under {', '.join(strange)}, which is not a ServiceKey", start)
        for key, service in services.items():
            self._services.provide(key, service)

    def _withdraw_dependents(self) -> None:
        """Withdraw the services of a failed plugin, and the components that require them."""
        waiting = [offer for offer in self._order if offer.plugin not in self._failed]
        while True:
            lost = {
                key: self._offers[name]
                for key, name in self._providers.items()
                if self._offers[name].plugin in self._failed
            }
            for key, offer in lost.items():
                self._services.withdraw(key, self._failed[offer.plugin])
            hit = [(offer, key) for offer in waiting for key in offer.item.requires if key in lost]
            if not hit:
                return
            for offer, key in hit:
                reason = (
                    f"component {offer.item.name!r} requires the service {key.name!r}: {self._failed[lost[key].plugin]}"
                )
                self._fail(offer, reason)
            waiting = [offer for offer in waiting if offer.plugin not in self._failed]

    def leave_out(self, plugins: Iterable[str]) -> None:
        """Exclude the components of some plugins from new threads."""
        for plugin in plugins:
            self._failed.setdefault(plugin, f"plugin {plugin!r} is disabled for new threads")

    def for_thread(self, context: Callable[[str], ThreadContext], notices: Notices, origin: Origin) -> ThreadParts:
        """Create the parts that a thread needs from its start, in the order of components.

        Args:
            origin: How the thread was created.
        """
        parts: list[Part | None] = []
        for offer in self._having_parts:
            if offer.plugin in self._failed:
                continue
            if (shared := self._shared_parts.get(offer.item.name)) is not None:
                parts.append(shared)
            if not _waits(offer.item) or (origin != "new" and _is_needed(offer.item, context(offer.plugin))):
                parts.append(self._part(offer, context, notices))
        create = partial(self._create, context, notices)
        return ThreadParts([part for part in parts if part is not None], notices, create)

    @cached_property
    def _having_parts(self) -> Sequence[Offer[Component]]:
        """The components that have parts of threads, or tools that all threads share."""
        methods = ("for_thread", "shared_tools")
        return [
            offer
            for offer in self._offers.values()
            if any(overrides(offer.item, Component, method) for method in methods)
        ]

    @cached_property
    def _shared_parts(self) -> Mapping[str, SharedPart]:
        """The tools that all threads share, by the component's name."""
        return {
            name: SharedPart(_label(offer), offer.item.shared_tools)
            for name, offer in self._offers.items()
            if overrides(offer.item, Component, "shared_tools")
        }

    def _create(
        self, context: Callable[[str], ThreadContext], notices: Notices, kind: type[ThreadComponent]
    ) -> Part | None:
        """Create the part of a class at its first use. None if no component has such parts, or if this thread gets none."""
        for offer in self._having_parts:
            if _waits(offer.item) and issubclass(offer.item.part_class or object, kind):
                return self._part(offer, context, notices)
        return None

    def renew(self, parts: ThreadParts, context: Callable[[str], ThreadContext], notices: Notices) -> None:
        """Replace the parts of a thread that cannot continue with its changed configuration, and create missing ones."""
        for offer in self._having_parts:
            old = parts.find(offer.item.name)
            if not _waits(offer.item) if old is None else not _accepts_configuration(old, notices):
                parts.replace(old, self._part(offer, context, notices, old))
        parts.start()

    def _part(
        self,
        offer: Offer[Component],
        context: Callable[[str], ThreadContext],
        notices: Notices,
        old: Part | None = None,
    ) -> Part | None:
        """Return a new part of a thread or None. If creating it fails, return the old part."""
        if offer.plugin in self._failed:
            return None
        label = _label(offer)
        make = offer.item.for_thread
        try:
            part = notices.call(label, "for_thread", make, context(offer.plugin))
            _check_part(part, make)
        except Exception as error:  # the thread continues without it
            then = "The thread continues without it." if old is None else "The earlier part stays."
            notices.tell(label.describe_failure("for_thread", error, then=then, source=make))
            return old
        if part is None:
            return None
        if offer.item.part_when == "use" and (problem := declaration_problem(offer.item, part)):
            notices.tell(f"{label}: {problem}.")
        return Part(label, part)

    async def aclose(self) -> Sequence[tuple[str, str]]:
        """Close all started components, in reverse order of their start.

        Returns:
            The errors: the plugin's name and a sentence.
        """
        order, self._order = self._order, []
        problems: list[tuple[str, str]] = []
        for plugin, component in reversed(order):
            if (fact := await close(Label("component", component.name, plugin), component)) is not None:
                problems.append((plugin, fact))
        return problems


def _label(offer: Offer[Component]) -> Label:
    return Label("component", offer.item.name, offer.plugin)


def _waits(component: Component) -> bool:
    """Return whether threads get the component's part at its first use, or never."""
    if component.part_when == "start":
        return not overrides(component, Component, "for_thread")
    kind = getattr_static(component, "part_class")
    return not isinstance(kind, type) or _early_need(kind) is None


def _is_needed(component: Component, thread: ThreadContext) -> bool:
    """Return whether a thread needs a part from its start that other threads get at its first use."""
    if thread.origin == "spawned":
        return component.part_in_children
    extra = thread.meta.extra
    return any(kind in extra or thread.entries(kind) for kind in component.part_entries)


def _early_need(kind: type[ThreadComponent]) -> str | None:
    """Return why parts of a class must not wait for their first use. None if they may."""
    if kind.tools is not ThreadComponent.tools:
        reason = "has tools, which nothing would ask for"
    elif kind.required:
        reason = "is required, and turns would not wait for it"
    else:
        return None
    return (
        f'its part {kind.__name__} {reason}, because `part_when` is "use". Move tools to `shared_tools` of the component, or write'
        ' `part_when = "start"`'
    )


def declaration_problem(component: Component, part: ThreadComponent) -> str | None:
    """Return how a part that was created at its first use differs from what its component declares. None if it does not."""
    declared, kind = component.part_class, type(part)
    if declared is not None and not isinstance(part, declared):
        return f"for_thread() returned {kind.__name__}, but `part_class` is {declared.__name__}. Correct `part_class`"
    return _early_need(kind)


def _accepts_configuration(part: Part, notices: Notices) -> bool:
    """Return whether a part can be used with a changed configuration. One that fails to say so stays."""
    if not part.overrides("reconfigured"):
        return True
    ask = part.item.reconfigured
    try:
        answer = notices.call(part.label, "reconfigured", ask)
        if not isinstance(answer, bool):
            raise WrongValue(f"it returned {type(answer).__name__}, not True or False", ask)
    except Exception as error:  # a plugin may raise anything
        notices.tell(part.label.describe_failure("reconfigured", error, then="The part stays.", source=ask))
        return True
    return answer


async def _cancel_all(tasks: set[asyncio.Task[None]] | list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _check_part(part: object, source: Any) -> None:
    if part is not None and not isinstance(part, ThreadComponent):
        hint = "Return an instance of a subclass of ThreadComponent, or None."
        raise WrongValue(f"it returned {type(part).__name__}, not a ThreadComponent or None", source, hint=hint)


def _find_cycles(needs: Mapping[str, Sequence[str]]) -> Sequence[Sequence[str]]:
    """Return the cycles of names that wait for each other."""
    circles: list[tuple[str, ...]] = []
    done: set[str] = set()

    def walk(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circles.append(path[path.index(name) :])
            return
        if name in done:
            return
        for other in needs[name]:
            walk(other, (*path, name))
        done.add(name)

    for name in needs:
        walk(name, ())
    return circles
