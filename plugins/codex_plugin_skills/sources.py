"""The skills of a folder, kept until one of their files changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import proxy

from codex_framework import PluginContext, TurnFacts
from codex_framework.contract.protocol.environments import LOCAL_ENVIRONMENT
from codex_plugin_skills.roots import Roots, find_roots, root_places
from codex_plugin_skills.settings import Settings

if TYPE_CHECKING:
    from codex_plugin_skills.catalog import Catalog

__all__ = ["Sources"]

_MAX_KEPT = 256
"""Maximum number of folders of which it is kept whether they have skills."""


class Sources:
    """The skills of one kernel, for all of its threads.

    Code that reads skills is only imported if skills exist.

    Attributes:
        environ: The environment of the kernel.
    """

    def __init__(self, plugin: PluginContext) -> None:
        self._plugin = proxy(plugin)  # the plugin keeps this object as long as its kernel lasts, and no longer
        self.environ = plugin.environ
        self._catalogs: Any = None
        self._existing: dict[Path | None, tuple[Mapping[str, Any], bool]] = {}

    def exist(self, facts: TurnFacts) -> bool:
        """Return whether :meth:`find` has found a folder, or finds one now if it has not looked with this configuration."""
        config, found = self._existing.get(_folder(facts), (None, False))
        return found if config is facts.config else self.find(facts)

    def find(self, facts: TurnFacts) -> bool:
        """Check whether a folder exists that may contain skills, besides the plugin's own."""
        folder = _folder(facts)
        roots = self._roots(folder, facts.config, bundled=False)
        found = bool(roots.used or roots.distrusted)
        if len(self._existing) >= _MAX_KEPT:
            self._existing.clear()
        self._existing[folder] = facts.config, found
        return found

    def files(self, facts: TurnFacts) -> Iterator[str]:
        """Yield the paths on which the skills of a turn depend."""
        yield from root_places(_folder(facts), self._plugin.codex_home, self._home, facts.config)
        yield from self._further
        if self.exist(facts):
            self.of_turn(facts)
            yield from self._catalogs.files(self._roots(_folder(facts), facts.config))

    def of_turn(self, facts: TurnFacts) -> Catalog:
        """Return the skills of a turn."""
        return self.of(_folder(facts), facts.config)

    def of(self, cwd: Path | None, config: Mapping[str, Any], *, fresh: bool = False) -> Catalog:
        """Return the skills of a folder.

        Args:
            cwd: None leaves out the skills of projects.
            fresh: Whether all files are read again, even if they have not changed.
        """
        from codex_plugin_skills.catalog import Catalogs

        if self._catalogs is None or fresh:
            self._catalogs = Catalogs()
        catalog: Catalog = self._catalogs.catalog(self._roots(cwd, config), tuple(self._rules(config)))
        return catalog

    def _roots(self, cwd: Path | None, config: Mapping[str, Any], *, bundled: bool = True) -> Roots:
        return find_roots(cwd, self._plugin.codex_home, self._home, config, further=self._further, bundled=bundled)

    @property
    def _further(self) -> Sequence[str]:
        roots: Sequence[str] = self._plugin.settings(Settings).roots
        return roots

    @property
    def _home(self) -> str:
        home = self.environ.get("HOME", "")
        return home if home.startswith("/") else ""

    def _rules(self, config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield the entries of ``[[skills.config]]``, the last of which counts.

        A project cannot switch on a skill that the user has switched off.
        """
        for layer in self._plugin.layers:
            if layer.name != "project":
                yield from _entries(layer.table)
        if _entries(config) != _entries(self._plugin.config):  # those of one thread
            yield from _entries(config)


def _entries(table: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    skills = table.get("skills")
    entries = skills.get("config") if isinstance(skills, Mapping) else None
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, (list, tuple)) else []


def _folder(facts: TurnFacts) -> Path | None:
    """Return the folder whose project's skills a turn has, or None if the turn does not work on this machine."""
    is_here = facts.environments != () and facts.environment_id == LOCAL_ENVIRONMENT
    return facts.cwd if is_here else None
