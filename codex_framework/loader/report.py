"""The outcome of loading each plugin, which ``codex-framework plugins`` shows."""

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
    """Some of its objects were ignored."""
    FAILED = "failed"
    """Nothing of it."""
    DISABLED = "disabled"
    """Nothing of it, because of the configuration; its module was not imported."""


class PluginProblem(Value):
    """One problem of a plugin.

    Attributes:
        fact: The problem, with its values.
        hint: How to fix it, in the imperative.
        slug: A heading in ``docs/errors.md``.
        path: The file with the problem; empty if unknown.
        line: The 1-based line in that file.
    """

    fact: str
    hint: str = ""
    slug: str = "plugin"
    path: str = ""
    line: int | None = None

    @property
    def text(self) -> str:
        """The fact followed by its place: ``<fact> (<file>, line <n>)``."""
        if not self.path:
            return self.fact
        return f"{self.fact} ({self.path}{'' if self.line is None else f', line {self.line}'})"


class PluginReport(Value, kw_only=True):
    """The outcome of loading one plugin.

    Attributes:
        name: Its entry-point name; for a plugin that the program passed itself, its module or class name.
        module: The target of the entry point (``package.module`` or ``package.module:attribute``).
        distribution: Normalised name of the distribution it came with; empty for a plugin passed by the program.
        contributes: Role (``tools``, ``providers``, ...) to the names that are in use.
        problems: All problems, most important first. If the plugin got a name that another plugin offers too, this is mentioned
            here, although all of it is in use.
        load_ms: The time in milliseconds for importing its module and calling its hooks, including all modules that were first
            imported for it.
        bundled: Whether it is part of this package.
        file: The path of a one-file plugin; empty for others.
        requires: The plugins that it requires, with versions, as declared.
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
        """The most important problem with its place, or an empty string."""
        return self.problems[0].text if self.problems else ""

    @property
    def hint(self) -> str:
        """How to fix :attr:`error`, or an empty string."""
        return self.problems[0].hint if self.problems else ""

    @property
    def origin(self) -> str:
        """Distribution and version, for display."""
        return self.file or f"{self.distribution} {self.version}".strip() or "passed by the program"

    @property
    def warnings(self) -> dict[str, str]:
        """The problems as sentences for the user, by fact. A bundled plugin that only lacks its extra gets no warning."""
        return {
            problem.fact: f"plugin '{self.name}' ({self.origin}): {problem.text}. {problem.hint}".strip()
            for problem in self.problems
            if not (self.bundled and problem.slug == "missing-extra")
        }
