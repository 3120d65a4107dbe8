"""What plugins offer, checked: an object that does not play its role is left out, and a name goes to one plugin only."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, get_args

from codex_framework.contract.protocol.ops import KernelOp, Op
from codex_framework.contract.roles.models import ModelProvider, ProviderInfo
from codex_framework.plugins.collection import Collected
from codex_framework.plugins.hook_checks import role_of
from codex_framework.plugins.loaded import Loaded
from codex_framework.plugins.loading import place_of
from codex_framework.plugins.offer_values import value_problems
from codex_framework.plugins.registration import RegisteredTool, registered_tool
from codex_framework.plugins.report import PluginProblem
from codex_framework.plugins.role_checks import role_problems
from codex_framework.toolkit.roles import completed

__all__ = ["ROLES", "Offer", "Offers"]

T = TypeVar("T")

ROLES: Mapping[str, str] = {
    "codex_tools": "tools",
    "codex_model_providers": "providers",
    "codex_sandboxes": "sandboxes",
    "codex_network_proxies": "network_proxies",
    "codex_notifiers": "notifiers",
    "codex_telemetry": "telemetry",
    "codex_context_sources": "context_sources",
    "codex_command_policies": "command_policies",
    "codex_approval_reviewers": "reviewers",
    "codex_interceptors": "interceptors",
    "codex_components": "components",
    "codex_ops": "ops",
    "codex_compactors": "compactors",
    "codex_agents": "agents",
    "codex_observers": "observers",
    "codex_thread_stores": "thread_stores",
    "codex_commands": "commands",
    "codex_settings": "settings",
    "codex_requires": "requires",
    "codex_roles": "hooks",
    "codex_events": "events",
}
"""Hook to the role's name in a registry and in reports."""


class Offer(NamedTuple, Generic[T]):
    """An object and the name of the plugin that offers it."""

    plugin: str
    item: T


class Offers:
    """Asks plugins for what they offer, each after those that it requires.

    Args:
        collected: The plugins, in order of precedence, and what they require.
        hooks: Which hooks to call. A plugin of which one fails is left out with all it offers.
    """

    def __init__(self, collected: Collected, hooks: Iterable[str]) -> None:
        self._offered: dict[str, list[tuple[Loaded, Any]]] = {hook: [] for hook in hooks}
        answers: dict[Loaded, Mapping[str, list[Any]]] = {}
        for loaded in collected.order:
            if collected.check(loaded):
                answers[loaded] = self._ask(loaded)
        for loaded in collected.plugins:
            for hook, items in answers.get(loaded, {}).items():
                self._offered[hook] += [(loaded, item) for item in items]

    def by_name(self, hook: str) -> dict[str, Offer[Any]]:
        """The offers of a hook that can be used."""
        role = role_of(hook)

        def named(loaded: Loaded, item: Any) -> tuple[str, Any] | None:
            problems = role_problems(item, role) if role is not None else _command_problems(item)
            whole = item if role is None or problems else completed(item, role)
            problems = problems or value_problems(hook, whole)
            if problems:
                loaded.leave_out(_left_out(hook, item, problems))
                return None
            return whole.name, whole

        return self._unique(hook, named)

    def tools(self) -> dict[str, RegisteredTool]:
        """The tools by name."""

        def named(loaded: Loaded, item: Any) -> tuple[str, RegisteredTool] | None:
            registered, problems = registered_tool(loaded.name, item)
            if registered is None:
                loaded.leave_out(_left_out("codex_tools", item, problems))
                return None
            return registered.spec.name, registered

        return {name: offer.item for name, offer in self._unique("codex_tools", named).items()}

    def ops(self) -> dict[str, Offer[Any]]:
        """The handlers by the tag of their op."""

        def named(loaded: Loaded, item: Any) -> tuple[str, Any] | None:
            problems = _op_problems(item)
            if problems:
                loaded.leave_out(_left_out("codex_ops", item, problems))
                return None
            return item.op.type, item

        return self._unique("codex_ops", named)

    def by_call(self, tools: Mapping[str, RegisteredTool]) -> dict[str, RegisteredTool]:
        """The tools by name and by alias. A name goes before an alias of another tool."""
        found = dict(tools)
        owners = {loaded.name: loaded for loaded, _ in self._offered["codex_tools"]}
        for name, registered in tools.items():
            for alias in registered.aliases:
                other = found.setdefault(alias, registered)
                if other is not registered:
                    owner = owners[registered.plugin]
                    fact = f"its tool {name!r} has the alias {alias!r}, which leads to {other.spec.name!r} of plugin {other.plugin!r}"
                    owner.leave_out(PluginProblem(fact, "Rename the alias.", "plugin-name"))
        return found

    def programs(self, tools: Mapping[str, RegisteredTool]) -> dict[str, Sequence[str]]:
        """The programs that tools put on the path of commands; the first of a name counts."""
        found: dict[str, Sequence[str]] = {}
        for registered in tools.values():
            for name, argv in registered.programs.items():
                found.setdefault(name, argv)
        return found

    def builtin_providers(self, providers: Mapping[str, Offer[ModelProvider]]) -> dict[str, ProviderInfo]:
        """The provider ids that exist without a table in config; the first of an id counts."""
        found: dict[str, ProviderInfo] = {}
        for offer in providers.values():
            for identifier, info in offer.item.builtin.items():
                found.setdefault(identifier, info)
        return found

    def _ask(self, loaded: Loaded) -> Mapping[str, list[Any]]:
        answers: dict[str, list[Any]] = {}
        for hook in [hook for hook in loaded.hooks if hook in self._offered]:
            items = loaded.offers(hook)
            if items is None:
                return {}
            answers[hook] = items
        return answers

    def _unique(self, hook: str, named: Callable[[Loaded, Any], tuple[str, T] | None]) -> dict[str, Offer[T]]:
        found: dict[str, tuple[Loaded, T]] = {}
        for loaded, item in self._offered[hook]:
            entry = named(loaded, item)
            if entry is None:
                continue
            name, value = entry
            if name in found:
                _note_conflict(hook, name, found[name][0], loaded)
                continue
            found[name] = (loaded, value)
            loaded.contributes.setdefault(ROLES[hook], []).append(name)
        return {name: Offer(loaded.name, value) for name, (loaded, value) in found.items()}


def _note_conflict(hook: str, name: str, winner: Loaded, loser: Loaded) -> None:
    noun = _noun(hook)
    if winner is loser:
        loser.leave_out(
            PluginProblem(f"it offers the {noun} {name!r} twice", "Give each a name of its own.", "plugin-name")
        )
        return
    fact = f"the {noun} {name!r} is offered by {winner.label} and by {loser.label}; that of {winner.name!r} is used"
    hint = f'Choose with `[framework] plugins.prefer = ["{loser.name}"]`, or disable one of them.'
    loser.leave_out(PluginProblem(fact, hint, "plugin-name"))
    winner.problems.append(PluginProblem(fact, hint, "plugin-name"))


def _left_out(hook: str, item: object, problems: Sequence[str]) -> PluginProblem:
    return PluginProblem(
        f"its {_noun(hook)} {_name_of(item)} is left out: {'; '.join(problems)}",
        f"See {hook} in docs/reference/hooks.md for the members of the role.",
        "plugin-role",
        *place_of(item),
    )


def _name_of(item: Any) -> str:
    readers: tuple[Callable[[], Any], ...] = (lambda: item.name, lambda: item.spec.name, lambda: item.op.type)
    for read in readers:
        try:
            name = read()
        except Exception:  # noqa: S112  # no such attribute, or a property that raises: that is told elsewhere
            continue
        if isinstance(name, str) and name:
            return repr(name)
    return f"of type {type(item).__name__}"


def _op_problems(item: Any) -> list[str]:
    """Why an op handler cannot be used."""
    try:
        kind = item.op
    except Exception as error:  # a plugin's property may raise anything
        return [f"it has no attribute op: {type(error).__name__}: {error}"]
    if not (isinstance(kind, type) and issubclass(kind, Op)):
        return [f"its op is {kind!r}, not a subclass of Op"]
    if not isinstance(kind.type, str) or not kind.type:
        return [f"its op {kind.__name__} has no tag: set its class attribute `type`"]
    if kind.type in {built_in.type for built_in in get_args(KernelOp)}:
        return [f"the op {kind.type!r} is built in and cannot be taken"]
    if not inspect.iscoroutinefunction(getattr(item, "handle", None)):
        return ["it has no `async def handle(self, op, thread, id)`"]
    return []


def _noun(hook: str) -> str:
    words = hook.removeprefix("codex_").replace("_", " ")
    irregular = {
        "sandboxes": "sandbox",
        "network proxies": "network proxy",
        "telemetry": "telemetry",
        "command policies": "command policy",
    }
    return irregular.get(words, words.removesuffix("s"))


def _command_problems(item: object) -> list[str]:
    """Click is not imported for this: what has a name and can be invoked is a command."""
    missing: Iterator[str] = (name for name in ("name", "invoke", "main") if not hasattr(item, name))
    return [f"it is {type(item).__name__}, not a click command: it has no {name}" for name in missing][:1]
