"""What plugins require of each other: names, versions, circles, and what becomes of those that require a broken one."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import Component, Kernel, hookimpl
from codex_framework.loader.registry import load_registry

NEEDS = """
    from codex_framework import hookimpl, tool

    @tool
    def {tool}() -> str:
        "Do."
        return ""

    @hookimpl
    def codex_requires():
        return {requires!r}

    @hookimpl
    def codex_tools():
        {body}
        return [{tool}]
"""


def needs(tool: str, *requires: object, body: str = "pass") -> str:
    return NEEDS.format(tool=tool, requires=list(requires), body=body)


def statuses(loaded):
    return {report["name"]: report["status"] for report in loaded["reports"]}


def problems(loaded, name):
    (found,) = [report["problems"] for report in loaded["reports"] if report["name"] == name]
    return found


@pytest.mark.parametrize(
    "requirement",
    ["base", "base>=1.0", "base ~= 1.0", "BASE<2", "base; python_version > '3'", "nowhere; python_version < '3'"],
)
def test_a_requirement_that_is_met(site, requirement):
    site.install("base", needs("base_tool"))
    site.install("user", needs("user_tool", requirement))
    assert statuses(site.load()) == {"base": "loaded", "user": "loaded"}


UNMET = {
    "base>=2": (
        "it requires plugin 'base' >=2, but version 1.0 is loaded",
        "pip install 'acme-base>=2'",
    ),
    "bsae": (
        "it requires plugin 'bsae', which is not installed",
        "Did you mean 'base'? Otherwise install a package that provides 'bsae'.",
    ),
    "quux": ("it requires plugin 'quux', which is not installed", "Install a package that provides 'quux'."),
    "base>>1": ("its requirement 'base>>1' cannot be read: ", 'Write it like "execpolicy>=0.1".'),
    "base[all]": ("its requirement 'base[all]' has extras, and plugins have none", 'Write it like "execpolicy>=0.1".'),
    "base @ http://x.y/z": (
        "its requirement 'base @ http://x.y/z' has a URL, and plugins have none",
        'Write it like "execpolicy>=0.1".',
    ),
    "": ("its codex_requires contains '', which is not a requirement", 'Write a string, such as "execpolicy>=0.1".'),
}


@pytest.mark.parametrize("requirement", UNMET)
def test_a_requirement_that_is_not_met_leaves_the_plugin_out_and_those_that_require_it(site, requirement):
    fact, hint = UNMET[requirement]
    site.install("base", needs("base_tool"))
    site.install("user", needs("user_tool", requirement))
    site.install("third", needs("third_tool", "user"))
    loaded = site.load()
    assert statuses(loaded) == {"base": "loaded", "user": "failed", "third": "failed"}
    assert loaded["tools"].get("base_tool") == "base"
    assert problems(loaded, "user")[0][0].startswith(fact)
    assert problems(loaded, "user")[0][1] == hint
    assert problems(loaded, "third")[0][0].startswith(f"it requires plugin 'user', which cannot be used: {fact}")
    assert problems(loaded, "third")[0][1] == hint
    places = {report["name"]: report["places"][0] for report in loaded["reports"] if report["places"]}
    assert places["user"][0].endswith("acme_user.py")


def test_a_disabled_plugin_does_not_count(site):
    site.install("base", needs("base_tool"))
    site.install("user", needs("user_tool", "base"))
    loaded = site.load({"framework": {"plugins": {"disabled": ["base"]}}})
    assert statuses(loaded) == {"base": "disabled", "user": "failed"}
    assert problems(loaded, "user") == [
        [
            "it requires plugin 'base', which is disabled",
            "Remove 'base' from `[framework] plugins.disabled`, or disable this plugin too.",
        ]
    ]


def test_plugins_that_require_each_other_are_all_left_out(site):
    site.install("a", needs("a_tool", "b"))
    site.install("b", needs("b_tool", "c"))
    site.install("c", needs("c_tool", "a"))
    site.install("own", needs("own_tool", "own"))
    site.install("x", needs("x_tool", "y"))
    site.install("y", needs("y_tool", "x"))
    site.install("z", needs("z_tool", "y"))
    site.install("free", needs("free_tool"))
    loaded = site.load()
    assert {name for name, status in statuses(loaded).items() if status == "loaded"} == {"free"}
    assert problems(loaded, "b")[0][0] == "plugins require each other in a circle: a -> b -> c -> a"
    assert problems(loaded, "own")[0][0] == "plugins require each other in a circle: own -> own"
    assert problems(loaded, "z")[0][0].startswith("it requires plugin 'y', which cannot be used: plugins require each")


def test_a_required_plugin_that_breaks_when_it_is_asked_takes_the_others_along(site):
    site.install("zbase", needs("base_tool", body="1 / 0"))
    site.install("user", needs("user_tool", "zbase"))
    loaded = site.load()
    assert statuses(loaded) == {"user": "failed", "zbase": "failed"}
    assert "ZeroDivisionError" in problems(loaded, "user")[0][0]
    assert loaded["tools"].get("user_tool") is None


def test_precedence_of_names_does_not_follow_requirements(site):
    site.install("alpha", needs("same", "beta"))
    site.install("beta", needs("same"))
    loaded = site.load()
    assert loaded["tools"]["same"] == "alpha"


@pytest.mark.parametrize("value", ["'base'", "7", "None"])
def test_what_is_no_list_of_requirements(site, value):
    site.install("user", needs("user_tool").replace("return []", f"return {value}", 1))
    report = site.report("user")
    assert report["status"] == "failed"
    assert report["problems"][0][0].endswith(f"returned {eval(value)!r}, not a list of requirements")


def test_a_component_that_does_not_start_takes_those_along_that_require_its_plugin(codex_home, tmp_path):
    class Lamp(Component):
        name = "lamp"

        async def start(self, kernel):
            raise OSError("no power")

    class Base:
        @hookimpl
        def codex_components(self):
            return [Lamp()]

    class User:
        @hookimpl
        def codex_requires(self):
            return ["Base"]

        @hookimpl
        def codex_notifiers(self):
            class Bell:
                name = "bell"

                def notify(self, notification):
                    pass

            return [Bell()]

    async def story():
        environ = {"CODEX_HOME": str(codex_home)}
        async with await Kernel.create(environ=environ, entry_points=(), plugins=[Base(), User()]) as kernel:
            return kernel.registry

    registry = asyncio.run(story())
    reports = {report.name: report for report in registry.reports}
    assert {name: report.status for name, report in reports.items()} == {"Base": "failed", "User": "failed"}
    assert "it requires plugin 'Base', which cannot be used" in reports["User"].problems[0].fact
    assert "no power" in reports["User"].problems[0].fact
    assert registry.notifiers == ()
    assert {report.name for report in registry.reports_with_commands if report.status == "failed"} == {"Base", "User"}


def test_requirements_without_versions_do_not_import_packaging(site):
    site.install("base", needs("base_tool"))
    site.install("user", needs("user_tool", "base", body="import sys; assert 'packaging' not in sys.modules"))
    assert statuses(site.load(fresh=True)) == {"base": "loaded", "user": "loaded"}


def test_a_program_sees_what_a_plugin_requires():
    class Base:
        @hookimpl
        def codex_requires(self):
            return ["execpolicy>=0.1"]

    report = next(one for one in load_registry({}, extra_plugins=[Base()]).reports if one.name == "Base")
    assert (report.status, report.requires) == ("loaded", ("execpolicy>=0.1",))
