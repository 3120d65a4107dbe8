"""The skills of a folder, kept until one of their files changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codex_framework import PluginContext, TurnFacts
from codex_framework.contract.protocol.environments import LOCAL_ENVIRONMENT
from codex_plugin_skills.roots import Roots, find_roots

if TYPE_CHECKING:
    from codex_plugin_skills.catalog import Catalog

__all__ = ["Sources"]


class Sources:
    """The skills of one kernel, for all of its threads.

    Nothing that reads skills is imported where there are none.

    Attributes:
        environ: The environment of the kernel.
    """

    def __init__(self, plugin: PluginContext) -> None:
        self._plugin = plugin
        self.environ = plugin.environ
        self._catalogs: Any = None

    def exist(self, facts: TurnFacts) -> bool:
        """Return whether there is a folder that may contain skills, besides those of this plugin."""
        roots = self._roots(_folder(facts), facts.config, bundled=False)
        return bool(roots.used or roots.distrusted)

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
        home = self.environ.get("HOME", "")
        return find_roots(cwd, self._plugin.codex_home, home if home.startswith("/") else "", config, bundled=bundled)

    def _rules(self, config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield the entries of ``[[skills.config]]``, the last of which counts. A project cannot switch on what the user has off."""
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
    """Return the folder whose project's skills a turn has. None means that the turn does not work on this machine."""
    is_here = facts.environments != () and facts.environment_id == LOCAL_ENVIRONMENT
    return facts.cwd if is_here else None
