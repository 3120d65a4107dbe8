"""The tool router: offers the tools of a sample to the model, finds the tool of a call, and keeps which tools were offered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, get_args

from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.stores import PluginEntry
from codex_framework.contract.roles.tool_specs import DeferredTool, ToolSpec
from codex_framework.loader.registration import RegisteredTool
from codex_framework.threads.faults import WrongValue, kind_of
from codex_framework.threads.plugin_calls import Notices
from codex_framework.threads.tool_table import ToolTable

if TYPE_CHECKING:
    from codex_framework.threads.journal import Journal

__all__ = ["OfferedTools", "ToolRouter"]

_SPECS: tuple[type, ...] = get_args(ToolSpec)
_OFFERED = "offered_tools"
_NAMES = "names"


class ToolRouter:
    """The tools of a sample.

    Args:
        version: The thread's ``tools_version`` at its creation.
        found: The names of deferred tools that are offered by now.

    Attributes:
        specs: The specs of offered tools, in a stable order, which providers' prompt caches depend on.
        facts: The facts of the turn, with the deferred tools, for searches.
    """

    def __init__(
        self,
        table: ToolTable,
        facts: TurnFacts,
        *,
        version: int = 0,
        notices: Notices | None = None,
        found: Collection[str] = (),
    ) -> None:
        self._notices = notices or Notices(lambda _, __: None)
        self.version = version
        self.table = table
        self._answers: dict[tuple[str, str], Any] = {}
        if table.deferred or facts.deferred_tools:
            facts = facts.evolve(deferred_tools=tuple(self._find_deferred(facts, found)))
        self._answers = table.answers(facts)
        self.facts = facts
        arranging: list[RegisteredTool] = []
        candidates = (*table.direct, *_find_offered(table, found)) if found else table.direct
        self.specs = self._offered = tuple(self._offer(candidates, facts, arranging))
        for registered in arranging:
            self.specs = _arrange(self.specs, registered, facts, self._notices)

    def _find_deferred(self, facts: TurnFacts, found: Collection[str]) -> Iterator[DeferredTool]:
        for registered, deferred in self.table.deferred:
            if self._is_offered(registered, facts):
                yield deferred.evolve(offered=True) if deferred.spec.name in found else deferred

    def _offer(
        self, candidates: Iterable[RegisteredTool], facts: TurnFacts, arranging: list[RegisteredTool]
    ) -> Iterator[ToolSpec]:
        """Return the specs of the offered tools, and add the tools that arrange them to ``arranging``.

        A tool whose ``spec_for`` fails is not offered.
        """
        for registered in candidates:
            if not self._is_offered(registered, facts):
                continue
            if registered.arrange is not None:
                arranging.append(registered)
            if registered.spec_for is None:
                yield registered.spec
                continue
            try:
                yield _check_spec(self._ask(registered, "spec_for", registered.spec_for, facts), registered)
            except Exception as error:  # a plugin may raise anything
                _tell_failure(registered, "spec_for", error, self._notices)

    def _is_offered(self, registered: RegisteredTool, facts: TurnFacts) -> bool:
        """Return whether a tool is offered in a turn. A tool whose ``offered`` fails is not offered."""
        if registered.offered is None:
            return True
        try:
            return bool(self._ask(registered, "offered", registered.offered, facts))
        except Exception as error:  # a plugin may raise anything
            _tell_failure(registered, "offered", error, self._notices)
            return False

    def _ask(
        self, registered: RegisteredTool, method: str, call: Callable[[TurnFacts], object], facts: TurnFacts
    ) -> Any:
        """Call a method of a tool, unless its answer is known."""
        key = (registered.spec.name, method)
        if key in self._answers:
            return self._answers[key]
        answer = self._notices.call(registered.label, method, call, facts)
        if registered.reads is not None:
            self._answers[key] = answer
        return answer

    def find(self, name: str) -> RegisteredTool | None:
        """Return the tool that a call names, by name or alias."""
        return self.table.by_call.get(name)

    def may_call(self, name: str) -> bool:
        """Return whether the model may use a name: the name or alias of an offered tool, or of a tool that need not be offered.

        An unknown name may be used too, because an interceptor may handle it.
        """
        registered = self.table.by_call.get(name)
        return registered is None or registered.exposure != "direct" or self._offers(registered.spec.name)

    def _offers(self, name: str) -> bool:
        return any(spec.name == name for spec in self._offered)


def _find_offered(table: ToolTable, found: Collection[str]) -> list[RegisteredTool]:
    """Return the deferred tools that are offered by now, in the order in which they were found.

    A provider caches the beginning of a prompt, so they come after the other tools.
    """
    places = {name: number for number, name in enumerate(found)}
    late = [registered for registered, _ in table.deferred if registered.spec.name in places]
    return sorted(late, key=lambda registered: places[registered.spec.name])


def _arrange(
    specs: tuple[ToolSpec, ...], registered: RegisteredTool, facts: TurnFacts, notices: Notices
) -> tuple[ToolSpec, ...]:
    """Return the specs as arranged by a tool. If it fails, they are unchanged."""
    assert registered.arrange is not None
    try:
        arranged = notices.call(registered.label, "arrange", registered.arrange, specs, facts)
        names = {spec.name for spec in specs}
        return tuple(_check_arrangement(arranged, names, registered))
    except Exception as error:  # a plugin may raise anything
        then = "The tools are offered unchanged."
        notices.tell(registered.label.describe_failure("arrange", error, then=then, source=registered.tool))
        return specs


def _check_arrangement(arranged: Any, names: Collection[str], registered: RegisteredTool) -> Iterator[ToolSpec]:
    if not isinstance(arranged, (list, tuple)):
        hint = "Return a list of specs."
        raise WrongValue(f"it returned {kind_of(arranged)}, not a list of specs", registered.arrange, hint=hint)
    for each in arranged:
        if not isinstance(each, _SPECS):
            hint = "Return a list of specs."
            raise WrongValue(f"its list has {kind_of(each)}, not the spec of a tool", registered.arrange, hint=hint)
        spec: ToolSpec = each  # type: ignore[assignment]
        if spec.name not in names:
            hint = "Return specs of the tools that it was given."
            raise WrongValue(f"its list has a tool {spec.name!r}, which is not offered", registered.arrange, hint=hint)
        yield spec


def _tell_failure(registered: RegisteredTool, method: str, error: Exception, notices: Notices) -> None:
    then = "The tool is not offered."
    notices.tell(registered.label.describe_failure(method, error, then=then, source=registered.tool))


def _check_spec(given: object, registered: RegisteredTool) -> ToolSpec:
    spec: Any = given
    if not isinstance(given, _SPECS):
        raise WrongValue(
            f"it returned {kind_of(spec)}, not the spec of a tool", registered.spec_for, hint="Return a FunctionSpec."
        )
    if spec.name != registered.spec.name:
        raise WrongValue(
            f"it returned the spec of a tool {spec.name!r}",
            registered.spec_for,
            hint=f"Keep the name {registered.spec.name!r}.",
        )
    found: ToolSpec = spec
    return found


class OfferedTools(Collection[str]):
    """The names of deferred tools that the model is offered, in the order in which they were found.

    The names are kept in the record, so that a resumed thread offers the same tools. They are read when they are first needed.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._names: dict[str, None] | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __contains__(self, name: object) -> bool:
        return name in self._read()

    def __len__(self) -> int:
        return len(self._read())

    def add(self, names: Iterable[str], plugin: str) -> bool:
        """Add names on behalf of a plugin. Returns whether any of them is new."""
        known = self._read()
        new = [name for name in dict.fromkeys(names) if name not in known]
        if new:
            known.update(dict.fromkeys(new))
            self._journal.append_entry(PluginEntry(plugin=plugin, kind=_OFFERED, data={_NAMES: new}))
        return bool(new)

    def _read(self) -> dict[str, None]:
        if self._names is None:
            self._names = {}
            for data in self._journal.entries_of(_OFFERED):
                names = data.get(_NAMES)
                if isinstance(names, list):
                    self._names.update((name, None) for name in names if isinstance(name, str))
        return self._names
