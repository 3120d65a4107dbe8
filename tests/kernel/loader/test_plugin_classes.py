"""Plugins that are classes: one instance for each kernel, hooks as methods, and what can be wrong with them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import attrs
import pytest

from codex_framework import Notification, Plugin, PluginContext, hookimpl
from codex_framework.config import Config
from codex_framework.loader.registry import Registry, load_registry


class Bell:
    """A notifier that belongs to a plugin."""

    name = "bell"

    def __init__(self, owner: object) -> None:
        self.owner = owner

    def notify(self, notification: Notification) -> None:
        pass


class Ringing(Plugin):
    """A plugin whose hooks share an object."""

    def __init__(self, context: PluginContext) -> None:
        super().__init__(context)
        self.heard: list[str] = []

    @hookimpl
    def codex_notifiers(self) -> list[Bell]:
        self.heard.append("notifiers")
        return [Bell(self)]

    @hookimpl
    def codex_observers(self, plugin: PluginContext) -> list[object]:
        assert plugin is self.context
        self.heard.append("observers")
        return []


def instance(registry: Registry) -> Ringing:
    (offer,) = registry.notifiers
    assert isinstance(offer.item, Bell)
    assert isinstance(offer.item.owner, Ringing)
    return offer.item.owner


def test_the_hooks_of_a_class_share_what_they_need_through_self():
    registry = load_registry({}, entry_points=(), extra_plugins=[Ringing])
    assert registry.warnings == ()
    assert sorted(instance(registry).heard) == ["notifiers", "observers"]
    assert registry.reports[0].name == "Ringing"


def test_two_kernels_never_share_an_instance():
    one, other = (load_registry({}, entry_points=(), extra_plugins=[Ringing]) for _ in range(2))
    assert instance(one) is not instance(other)
    assert instance(one).context is not instance(other).context


def test_a_plugin_knows_the_kernel_that_loads_it(tmp_path: Path):
    config = Config(tables={"model": "m"}, codex_home=tmp_path, cwd=tmp_path)
    environ = {"WHO": "me"}
    context = instance(load_registry(config, environ=environ, entry_points=(), extra_plugins=[Ringing])).context
    assert (context.name, context.config, context.codex_home) == ("Ringing", {"model": "m"}, tmp_path)
    assert context.environ == {"WHO": "me"}


@attrs.frozen
class Volume:
    level: int = 3


def test_a_plugin_reads_its_settings_once():
    tables = {"framework": {"plugins": {"Ringing": {"level": 11}}}}
    context = instance(load_registry(tables, entry_points=(), extra_plugins=[Ringing])).context
    assert context.settings(Volume) == Volume(11)
    assert context.settings(Volume) is context.settings(Volume)


@pytest.mark.parametrize("parameters", ["plugin", "plugin, /", "*, plugin", "plugin=None", "**anything", ""])
def test_a_hook_of_a_module_gets_the_context_however_it_takes_it(site, parameters):
    value = "plugin.name" if "plugin" in parameters else "'given'"
    site.install(
        "given",
        f"""
        from codex_framework import hookimpl

        class Bell:
            def __init__(self, name): self.name = name
            def notify(self, notification): pass

        @hookimpl
        def codex_notifiers({parameters}):
            return [Bell({value})]
        """,
    )
    assert site.report("given")["contributes"] == {"notifiers": ["given"]}


CLASS = """
from codex_framework import Plugin, PluginContext, hookimpl

class Acme(Plugin):
{body}
"""
HOOK = """
    @hookimpl
    def codex_tools(self):
        return []
"""
MISTAKES = {
    "an __init__ that raises": (
        "    def __init__(self, context):\n        super().__init__(context)\n        raise OSError('no disk')\n"
        + HOOK,
        "it cannot be created: Acme() failed: OSError: no disk",
        "Fix the plugin, ",
        7,
    ),
    "an __init__ that exits": (
        "    def __init__(self, context):\n        raise SystemExit(2)\n" + HOOK,
        "it cannot be created: Acme() failed: it called sys.exit(2)",
        "Remove that call from the plugin",
        6,
    ),
    "an __init__ that takes nothing": (
        "    def __init__(self):\n        pass\n" + HOOK,
        "Acme takes (), but it is called with one PluginContext",
        "Write `def __init__(self, context):`, and begin it with `super().__init__(context)`.",
        5,
    ),
    "an __init__ that takes more": (
        "    def __init__(self, context, tables):\n        super().__init__(context)\n" + HOOK,
        "Acme takes (context, tables), but it is called with one PluginContext",
        "Write `def __init__(self, context):`",
        5,
    ),
    "an __init__ that forgets super()": (
        "    def __init__(self, context):\n        self.tools = []\n" + HOOK,
        "Acme.__init__ does not call super().__init__, so the plugin has no context",
        "Begin it with `super().__init__(context)`.",
        5,
    ),
    "an unmarked hook": (
        "    def codex_tools(self):\n        return []\n",
        "its function codex_tools is not marked as a hook implementation",
        "Put `@codex_framework.hookimpl` above `def codex_tools`.",
        5,
    ),
    "a misspelt hook": (
        "    @hookimpl\n    def codex_tool(self):\n        return []\n",
        "there is no hook codex_tool",
        "Did you mean codex_tools?",
        5,
    ),
    "a parameter": (
        "    @hookimpl\n    def codex_tools(self, session):\n        return []\n",
        "its codex_tools takes session, but hooks are called with nothing but plugin",
        "Write `def codex_tools(self):` or `def codex_tools(self, plugin):`.",
        5,
    ),
    "a hook that raises": (
        "    @hookimpl\n    def codex_tools(self):\n        raise KeyError('red')\n",
        "it cannot be used: codex_tools failed: KeyError: 'red'",
        "Fix the plugin, ",
        7,
    ),
    "no hook": (
        "    pass\n",
        "it implements no hook",
        "Put `@codex_framework.hookimpl` above one of codex_tools, ",
        None,
    ),
}


@pytest.fixture(scope="module")
def mistakes(tmp_path_factory, new_site, good):
    """All of them installed side by side with a good one, and loaded once."""
    site = new_site(tmp_path_factory.mktemp("classes") / "site")
    site.install("good", good)
    for number, (body, *_) in enumerate(MISTAKES.values()):
        site.install(f"bad{number}", CLASS.format(body=body), value=f"acme_bad{number}:Acme")
    reports = {report["name"]: report for report in site.load()["reports"]}
    assert reports["good"]["status"] == "loaded"
    return {case: reports[f"bad{number}"] for number, case in enumerate(MISTAKES)}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_class_that_breaks_the_contract_is_left_out_and_its_place_is_named(mistakes, case):
    _, fact, hint, line = MISTAKES[case]
    report = mistakes[case]
    assert (report["status"], report["contributes"]) == ("failed", {})
    assert report["problems"][0][0] == fact
    assert report["problems"][0][1].startswith(hint)
    path, place = report["places"][0]
    assert place == line
    assert line is None or path.endswith(f"/{report['module'].partition(':')[0]}.py")


def test_an_entry_point_that_names_the_module_of_a_class_is_told_to_name_the_class(site):
    site.install("bad", CLASS.format(body=HOOK))
    assert site.report("bad")["problems"] == [
        ["it implements no hook", "Change the entry point so that it names the class: acme_bad:Acme."]
    ]


def test_one_class_under_two_names_is_loaded_once(site):
    site.install("alpha", CLASS.format(body=HOOK), value="acme_alpha:Acme")
    site.declare("acme_twin", {"twin": "acme_alpha:Acme"})
    reports = {report["name"]: report for report in site.load()["reports"]}
    assert reports["alpha"]["status"] == "loaded"
    assert reports["twin"]["problems"][0][0] == "it is the same object as plugin 'alpha'"


def test_a_class_of_an_installed_plugin_works(site):
    source = dedent(
        """
        from codex_framework import Plugin, hookimpl, tool

        class Acme(Plugin):
            @hookimpl
            def codex_tools(self):
                name = self.context.name

                @tool
                def acme_name() -> str:
                    "Tell the name of the plugin."
                    return name

                return [acme_name]
        """
    )
    site.install("fine", source, value="acme_fine:Acme")
    report = site.report("fine")
    assert (report["status"], report["contributes"]) == ("loaded", {"tools": ["acme_name"]})
