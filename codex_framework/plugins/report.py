"""What became of each plugin: the values that ``codex-framework plugins`` shows."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from codex_framework.contract.value import Value, field

__all__ = ["PluginProblem", "PluginReport", "PluginStatus"]


class PluginStatus(enum.StrEnum):
    """How much of a plugin is in use."""

    LOADED = "loaded"
    """All of it."""
    PARTIAL = "partial"
    """Some of what it offers was left out."""
    FAILED = "failed"
    """Nothing of it."""
    DISABLED = "disabled"
    """Nothing of it, because the configuration says so; its module was not even imported."""


class PluginProblem(Value):
    """One thing that is wrong with a plugin.

    Attributes:
        fact: What is the case, with its values.
        hint: What to do about it, in the imperative.
        slug: A heading in ``docs/errors.md``.
        path: The file where it is wrong; empty if it is not known.
        line: The 1-based line in that file.
    """

    fact: str
    hint: str = ""
    slug: str = "plugin"
    path: str = ""
    line: int | None = None

    @property
    def text(self) -> str:
        """The fact, with the place behind it: ``<fact> (<file>, line <n>)``."""
        if not self.path:
            return self.fact
        return f"{self.fact} ({self.path}{'' if self.line is None else f', line {self.line}'})"


class PluginReport(Value, kw_only=True):
    """What became of one plugin.

    Attributes:
        name: Its entry-point name; for a plugin that the program passed itself, its module or class name.
        module: Where the entry point leads (``package.module`` or ``package.module:attribute``).
        distribution: Normalised name of the distribution it came with; empty for a plugin passed by the program.
        contributes: Role (``tools``, ``providers``, ...) to the names that are in use.
        problems: Everything that is wrong, most important first. A plugin that won a name against another one is told so here
            too, though all of it is in use.
        load_ms: Milliseconds that importing its module and calling its hooks took, with everything that was imported for the
            first time on its behalf.
        bundled: Whether it came with this package.
        file: The path of a one-file plugin; empty for others.
        requires: The plugins that it requires, with versions, as it says itself.
        settings: The class of its settings, if it declares one.
    """

    name: str
    module: str
    distribution: str
    version: str
    status: PluginStatus
    contributes: Mapping[str, tuple[str, ...]] = field(factory=dict)
    problems: tuple[PluginProblem, ...] = ()
    load_ms: float = 0.0
    bundled: bool = False
    file: str = ""
    requires: tuple[str, ...] = ()
    settings: type[Any] | None = None

    @property
    def error(self) -> str:
        """The most important fact that is wrong, with its place, or nothing."""
        return self.problems[0].text if self.problems else ""

    @property
    def hint(self) -> str:
        """What to do about :attr:`error`, or nothing."""
        return self.problems[0].hint if self.problems else ""

    @property
    def origin(self) -> str:
        """Distribution and version, for people."""
        return self.file or f"{self.distribution} {self.version}".strip() or "passed by the program"

    @property
    def warnings(self) -> dict[str, str]:
        """The problems as sentences for a person, by fact. A bundled plugin that only lacks its extra is not worth one."""
        return {
            problem.fact: f"plugin '{self.name}' ({self.origin}): {problem.text}. {problem.hint}".strip()
            for problem in self.problems
            if not (self.bundled and problem.slug == "missing-extra")
        }
