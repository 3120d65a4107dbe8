"""Collects and checks the objects of plugins: an object that does not fulfil its role is ignored, and each name is used once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args

from codex_framework.contract.errors import described
from codex_framework.contract.protocol.ops import KernelOp, Op
from codex_framework.contract.roles.environments import EnvironmentSource
from codex_framework.contract.roles.models import ModelProvider, ProviderInfo
from codex_framework.contract.roles.plugins import Offer
from codex_framework.contract.roles.tools import Tool
from codex_framework.contract.value import Value
from codex_framework.loader.collection import Collected
from codex_framework.loader.hook_checks import role_of
from codex_framework.loader.loaded import Loaded
from codex_framework.loader.loading import place_of
from codex_framework.loader.offer_values import BUILT_IN_COMMANDS, value_problems
from codex_framework.loader.registration import RegisteredTool, registered_tool
from codex_framework.loader.report import PluginProblem
from codex_framework.loader.role_checks import role_problems
from codex_framework.toolkit.faults import is_foreign
from codex_framework.toolkit.roles import completed

__all__ = ["BUILT_IN_COMMANDS", "LAZY", "ROLES", "Offer", "Offers"]

T = TypeVar("T")

ROLES: Mapping[str, str] = {
    "codex_tools": "tools",
    "codex_model_providers": "providers",
    "codex_model_catalogues": "catalogues",
    "codex_sandboxes": "sandboxes",
    "codex_network_proxies": "network_proxies",
    "codex_notifiers": "notifiers",
    "codex_telemetry": "telemetry",
    "codex_context_sources": "context_sources",
    "codex_command_policies": "command_policies",
    "codex_constraints": "constraints",
    "codex_environments": "environment_sources",
    "codex_approval_reviewers": "reviewers",
    "codex_interceptors": "interceptors",
    "codex_components": "components",
    "codex_ops": "ops",
    "codex_compactors": "compactors",
    "codex_agents": "agents",
    "codex_observers": "observers",
    "codex_thread_stores": "thread_stores",
    "codex_commands": "commands",
    "codex_exec_options": "exec_options",
    "codex_exec_commands": "exec_commands",
    "codex_settings": "settings",
    "codex_requires": "requires",
    "codex_roles": "hooks",
    "codex_events": "events",
    "codex_config_keys": "config_keys",
    "codex_protected_paths": "protected_paths",
}
"""Hook to the role's name in a registry and in reports."""


LAZY = ("codex_commands", "codex_exec_options", "codex_exec_commands")
"""Hooks for the command line, which are called only when it needs their objects."""


class Offers:
    """Calls the hooks of plugins, each plugin after those that it requires.

    Args:
        collected: The plugins, in order of precedence, and what they require.
        hooks: The hooks to call. If one of them fails, the whole plugin is disabled.
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
        """Return the usable objects of a hook by name."""
        role = role_of(hook)

        def named(loaded: Loaded, item: Any) -> tuple[str, Any] | None:
            problems = _problems(loaded, item, role)
            whole = item if role is None or problems else completed(item, role)
            problems = problems or value_problems(hook, whole, loaded.settings)
            if problems:
                loaded.leave_out(_left_out(loaded, hook, item, problems))
                return None
            _note_unheard(loaded, hook, item, role)
            return whole.name, whole

        return self._unique(hook, named)

    def tools(self) -> dict[str, RegisteredTool]:
        """The tools by name."""

        def named(loaded: Loaded, item: Any) -> tuple[str, RegisteredTool] | None:
            registered, problems = registered_tool(loaded.name, item)
            if registered is None:
                loaded.leave_out(_left_out(loaded, "codex_tools", item, problems))
                return None
            _note_unheard(loaded, "codex_tools", item, Tool)
            return registered.spec.name, registered

        return {name: offer.item for name, offer in self._unique("codex_tools", named).items()}

    def ops(self) -> dict[str, Offer[Any]]:
        """The handlers by the tag of their op."""

        def named(loaded: Loaded, item: Any) -> tuple[str, Any] | None:
            problems = _op_problems(item)
            if problems:
                loaded.leave_out(_left_out(loaded, "codex_ops", item, problems))
                return None
            return item.op.type, item

        return self._unique("codex_ops", named)

    def by_call(self, tools: Mapping[str, RegisteredTool]) -> dict[str, RegisteredTool]:
        """Return the tools by name and alias. A name takes precedence over an alias of another tool."""
        found = dict(tools)
        owners = {loaded.name: loaded for loaded, _ in self._offered["codex_tools"]}
        for name, registered in tools.items():
            for alias in registered.aliases:
                other = found.setdefault(alias, registered)
                if other is not registered:
                    owner = owners[registered.plugin]
                    fact = (
                        f"its tool {name!r} has the alias {alias!r}, which is already the name or an alias of"
                        f" {other.spec.name!r} of plugin {other.plugin!r}"
                    )
                    owner.leave_out(PluginProblem(fact, "Rename the alias.", "plugin-name"))
        return found

    def programs(self, tools: Mapping[str, RegisteredTool]) -> dict[str, Sequence[str]]:
        """Return the programs that tools put on the ``PATH`` of commands; the first with a name is used."""
        found: dict[str, Sequence[str]] = {}
        for registered in tools.values():
            for name, argv in registered.programs.items():
                found.setdefault(name, argv)
        return found

    def environment_sources(
        self, sources: Mapping[str, Offer[EnvironmentSource]]
    ) -> tuple[Offer[EnvironmentSource], ...]:
        """Return the sources of environments; of two environments with one id, the first is used, which is reported."""
        found: dict[str, str] = {}
        plugins = {loaded.name: loaded for loaded, _ in self._offered["codex_environments"]}
        for offer in sources.values():
            for environment in offer.item.environments:
                first = found.setdefault(environment.id, offer.plugin)
                if first != offer.plugin:
                    both = f"{plugins[first].label} and by {plugins[offer.plugin].label}"
                    fact = f"the environment {environment.id!r} is offered by {both}"
                    problem = PluginProblem(
                        f"{fact}; the one of {first!r} is used", "Rename one of them.", "plugin-name"
                    )
                    plugins[offer.plugin].leave_out(problem)
                    plugins[first].problems.append(problem)
        return tuple(sources.values())

    def builtin_providers(self, providers: Mapping[str, Offer[ModelProvider]]) -> dict[str, ProviderInfo]:
        """Return the providers that need no table in the configuration, by id; the first with an id is used."""
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
                _note_conflict(hook, name, found[name][0], loaded, item)
                continue
            found[name] = (loaded, value)
            loaded.contributes.setdefault(ROLES[hook], []).append(name)
        return {name: Offer(loaded.name, value) for name, (loaded, value) in found.items()}


def _problems(loaded: Loaded, item: Any, role: Any) -> list[str]:
    """Return the reasons why an object does not fulfil its role. The tests check the bundled ones, so that no start waits for it."""
    if role is None:
        return _command_problems(item)
    return [] if loaded.source.bundled else role_problems(item, role)


def _note_unheard(loaded: Loaded, hook: str, item: Any, role: Any) -> None:
    """Note what looks like a member of the role and has no effect. The object is used nevertheless."""
    if role is None or loaded.source.bundled or is_foreign(type(item).__module__) or issubclass(role, Value):
        return
    from codex_framework.loader.unheard import unheard  # not imported where all plugins are bundled

    for each in unheard(item, role):
        named = f"its {_noun(hook)} {_name_of(item)}: {each.fact}"
        loaded.problems.append(PluginProblem(named, each.hint, "plugin-role", each.path, each.line))


def _note_conflict(hook: str, name: str, winner: Loaded, loser: Loaded, item: Any) -> None:
    noun = _noun(hook)
    if winner is loser:
        fact = f"it offers the {noun} {name!r} twice"
        place = _place(loser, hook, item)
        loser.leave_out(PluginProblem(fact, "Give each a unique name.", "plugin-name", *place))
        return
    fact = f"the {noun} {name!r} is offered by {winner.label} and by {loser.label}; the one of {winner.name!r} is used"
    hint = f'Choose with `[framework] plugins.prefer = ["{loser.name}"]`, or disable one of them.'
    loser.leave_out(PluginProblem(fact, hint, "plugin-name"))
    winner.problems.append(PluginProblem(fact, hint, "plugin-name"))


def _place(loaded: Loaded, hook: str, item: Any) -> tuple[str, int | None]:
    """Return the place of an offered object: of its function or class, or of the hook if the class is not the plugin's."""
    own = hasattr(item, "__wrapped__") or hasattr(item, "__code__")
    kind = item if isinstance(item, type) else type(item)
    if not own and is_foreign(kind.__module__):
        return place_of(loaded.hooks[hook])
    return place_of(item)


def _left_out(loaded: Loaded, hook: str, item: object, problems: Sequence[str]) -> PluginProblem:
    return PluginProblem(
        f"its {_noun(hook)} {_name_of(item)} is ignored: {'; '.join(problems)}",
        f"See {hook} in docs/reference/hooks.md for the members of the role.",
        "plugin-role",
        *_place(loaded, hook, item),
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
    """Yield the reasons why an op handler cannot be used."""
    try:
        kind = item.op
    except Exception as error:  # a plugin's property may raise anything
        return [f"it has no attribute op: {described(error)}"]
    if not (isinstance(kind, type) and issubclass(kind, Op)):
        return [f"its op is {kind!r}, not a subclass of Op"]
    if not isinstance(kind.type, str) or not kind.type:
        return [f"its op {kind.__name__} has no tag: set its class attribute `type`"]
    if kind.type in {built_in.type for built_in in get_args(KernelOp)}:
        return [f"the op {kind.type!r} is built in and cannot be replaced"]
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
    """Check a command without importing click: an object with a name that can be invoked is a command."""
    missing: Iterator[str] = (name for name in ("name", "invoke", "main") if not hasattr(item, name))
    problems = [f"it is {type(item).__name__}, not a click command: it has no {name}" for name in missing][:1]
    name = getattr(item, "name", None)
    if name in BUILT_IN_COMMANDS:
        problems.append(f"the command {name!r} is built in and cannot be replaced; give yours another name")
    return problems
