"""The requirements between plugins (``codex_requires``): names, versions, cycles, and the resulting order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from codex_framework.loader.discovery import BUNDLED, normalise_name
from codex_framework.loader.imports import place_of
from codex_framework.loader.plugin import LoadedPlugin
from codex_framework.loader.report import PluginProblem
from codex_framework.loader.versions import unmet_specifier, version_problem

__all__ = ["Requirements"]

_NAME = r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*"
_SLUG = "plugin-requires"


class _Fault(NamedTuple):
    fact: str
    hint: str


class Requirements:
    """The requirements of plugins. Plugins whose requirements are not met are disabled.

    Args:
        plugins: All plugins in order of precedence, including disabled ones.
    """

    def __init__(self, plugins: Sequence[LoadedPlugin]) -> None:
        self._by_name: dict[str, LoadedPlugin] = {}
        for loaded in plugins:  # of two with the same name, use the usable one
            if loaded.name not in self._by_name or not self._by_name[loaded.name].usable:
                self._by_name[loaded.name] = loaded
        self._needs: dict[LoadedPlugin, list[LoadedPlugin]] = {}
        for loaded in plugins:
            self._needs[loaded] = self._find_required(loaded) if loaded.usable and loaded.requires else []
        self._leave_out_circles()
        self.order = self._sort_by_need(plugins)
        """The plugins, each after the plugins that it requires."""
        for loaded in self.order:
            self.check(loaded)

    def check(self, loaded: LoadedPlugin) -> bool:
        """Return whether a plugin can be used; it is disabled if a plugin that it requires is."""
        if not loaded.usable:
            return False
        for other in self._needs[loaded]:
            if not other.usable:
                self._fail(loaded, self._unusable(other))
                return False
        return True

    def dependents(self, failed: Mapping[str, object]) -> Iterator[tuple[LoadedPlugin, str]]:
        """Return the plugins that require one of these, directly or indirectly, each with the name of the plugin that it requires."""
        gone = {loaded for loaded in self.order if loaded.name in failed}
        for loaded in self.order:
            if loaded in gone or not loaded.usable:
                continue
            other = next((other for other in self._needs[loaded] if other in gone), None)
            if other is not None:
                gone.add(loaded)
                yield loaded, other.name

    def _find_required(self, loaded: LoadedPlugin) -> list[LoadedPlugin]:
        found = []
        for text in loaded.requires:
            parsed = self._parse_requirement(text)
            if parsed is None:
                continue
            other = parsed if isinstance(parsed, LoadedPlugin) else None
            if other is None:
                self._fail(loaded, parsed)  # type: ignore[arg-type]  # it is a fault
                return []
            found.append(other)
        return found

    def _parse_requirement(self, text: str) -> LoadedPlugin | _Fault | None:
        """Return the plugin that a requirement names, or the problem, or None if the requirement does not apply here."""
        plain = re.fullmatch(_NAME, text)
        if plain is not None and normalise_name(plain[1]) == BUNDLED:
            return None
        if plain is not None:  # without a version, packaging is not needed, whose import takes 10 ms
            return self._find_plugin(plain[1])
        from packaging.requirements import InvalidRequirement, Requirement

        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            reason = str(error).partition("\n")[0]
            return _Fault(f"its requirement {text!r} cannot be read: {reason}", 'Write it like "execpolicy>=0.1".')
        if requirement.url or requirement.extras:
            return _Fault(
                f"its requirement {text!r} has {'a URL' if requirement.url else 'extras'}, and plugins have none",
                'Write it like "execpolicy>=0.1".',
            )
        if requirement.marker is not None and not requirement.marker.evaluate():
            return None
        if normalise_name(requirement.name) == BUNDLED:  # the framework itself, which is no plugin
            wanted = unmet_specifier(text)
            problem = version_problem(wanted)
            return _Fault(problem.fact, problem.hint) if wanted else None
        other = self._find_plugin(requirement.name)
        if isinstance(other, _Fault) or not other.usable or not requirement.specifier:
            return other
        from packaging.version import InvalidVersion

        try:
            fits = requirement.specifier.contains(other.version, prereleases=True)
        except InvalidVersion:
            fits = False
        if fits:
            return other
        return _Fault(
            f"it requires plugin {other.name!r} {requirement.specifier}, but {_version_text(other)} is loaded",
            _how_to_get(other, f"{requirement.specifier}"),
        )

    def _find_plugin(self, name: str) -> LoadedPlugin | _Fault:
        found = self._by_name.get(name)
        if found is None:
            alike = [loaded for key, loaded in self._by_name.items() if normalise_name(key) == normalise_name(name)]
            found = alike[0] if alike else None
        if found is not None:
            return found
        import difflib

        near = difflib.get_close_matches(name, self._by_name, n=1)
        hint = f"Did you mean {near[0]!r}? Otherwise install" if near else "Install"
        return _Fault(
            f"it requires plugin {name!r}, which is not installed", f"{hint} a package that provides {name!r}."
        )

    def _unusable(self, other: LoadedPlugin) -> _Fault:
        if other.disabled:
            hint = f"Remove {other.name!r} from `[framework] plugins.disabled`, or disable this plugin too."
            return _Fault(f"it requires plugin {other.name!r}, which is disabled", hint)
        reason = other.problems[0] if other.problems else None
        fact = f"it requires plugin {other.name!r}, which cannot be used"
        return _Fault(
            f"{fact}: {reason.text}" if reason else fact, (reason.hint if reason else "") or f"Fix {other.name!r}."
        )

    def _leave_out_circles(self) -> None:
        for loaded in self._needs:
            if loaded.usable and (circle := self._circle(loaded)):
                path = " -> ".join(plugin.name for plugin in (*circle, circle[0]))
                for plugin in circle:
                    fault = _Fault(f"plugins require each other in a circle: {path}", "Remove one of the requirements.")
                    self._fail(plugin, fault)

    def _circle(self, start: LoadedPlugin) -> list[LoadedPlugin]:
        """Return the shortest cycle of requirements through a plugin, or an empty list."""
        came: dict[LoadedPlugin, LoadedPlugin] = {}
        queue = [start]
        for plugin in queue:
            for other in self._needs[plugin]:
                if other is start:
                    path = [plugin]
                    while path[-1] is not start:
                        path.append(came[path[-1]])
                    return path[::-1]
                if other not in came:
                    came[other] = plugin
                    queue.append(other)
        return []

    def _sort_by_need(self, plugins: Sequence[LoadedPlugin]) -> list[LoadedPlugin]:
        order: dict[LoadedPlugin, None] = {}
        open_: set[LoadedPlugin] = set()

        def place(loaded: LoadedPlugin) -> None:
            if loaded in order or loaded in open_:
                return
            open_.add(loaded)
            for other in self._needs[loaded]:
                place(other)
            order[loaded] = None

        for loaded in plugins:
            place(loaded)
        return list(order)

    def _fail(self, loaded: LoadedPlugin, fault: _Fault) -> None:
        function = loaded.hooks.get("codex_requires")
        place = place_of(function) if function is not None else ("", None)
        loaded.fail(PluginProblem(fault.fact, fault.hint, _SLUG, *place))


def _version_text(other: LoadedPlugin) -> str:
    return f"version {other.version}" if other.version else "one without a version"


def _how_to_get(other: LoadedPlugin, specifier: str) -> str:
    if other.source.distribution:
        return f"pip install '{other.source.distribution}{specifier}'"
    return "Set `__version__` in its module." if not other.version else "Load a version that fits."
