"""Settings of plugins: ``codex_settings`` and the table ``[framework.plugins.<name>]``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from codex_framework import ConfigError, Plugin, Value, hookimpl
from codex_framework.config import load_config
from codex_framework.loader.registry import Registry, load_registry


class Server(Value):
    url: str
    retries: int = 3


class Settings(Value, kw_only=True):
    """The settings.

    Attributes:
        words: What to look for.
        limit: How much of it,
            at most.
    """

    words: tuple[str, ...] = ()
    limit: int = 10
    servers: tuple[Server, ...] = ()


class Words(Plugin):
    @hookimpl
    def codex_settings(self) -> type[Settings]:
        return Settings

    @hookimpl
    def codex_notifiers(self) -> list[Any]:
        self.context.heard = self.context.settings(Settings)
        return []


class Guarded(Words):
    @hookimpl
    def codex_interceptors(self) -> list[Any]:
        return []


def loaded(tmp_path: Path, text: str, *plugins: object, **options: Any) -> Registry:
    (tmp_path / "config.toml").write_text(text)
    config = load_config(cwd=tmp_path, environ={}, codex_home=tmp_path)
    return load_registry(config, environ={}, entry_points=(), extra_plugins=plugins, **options)


MISTAKES = {
    "a wrong type": (
        "limit = 'x'",
        "invalid settings of the plugin 'Words': `framework.plugins.Words.limit`: ",
        "Fix the value.",
        2,
    ),
    "a wrong type within": (
        "limit = 1\nservers = [{url = 'a'}, {url = 2}]",
        "invalid settings of the plugin 'Words': `framework.plugins.Words.servers[1].url`: ",
        "Fix the value.",
        3,
    ),
    "an unknown key": (
        "words = []\n\nlimits = 1",
        "the plugin 'Words' has no setting 'limits'; its settings: words, limit, servers",
        "Did you mean 'limit'? Fix or remove it.",
        4,
    ),
    "an unknown key within": (
        "servers = [{url = 'a', retry = 1}]",
        "the plugin 'Words' has no setting 'servers[0].retry'; its settings in 'servers[0]': url, retries",
        "Did you mean 'retries'? Fix or remove it.",
        2,
    ),
    "a missing key within": (
        "servers = [{retries = 1}]",
        "invalid settings of the plugin 'Words': `framework.plugins.Words.servers[0].url`: required field missing",
        "Add url to [framework.plugins.Words.servers[0]].",
        2,
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_wrong_settings_leave_the_plugin_out_and_name_file_line_and_key(tmp_path, case):
    text, fact, hint, line = MISTAKES[case]
    registry = loaded(tmp_path, f"[framework.plugins.Words]\n{text}\n", Words)
    (report,) = registry.reports
    (problem,) = report.problems
    assert (report.status, report.contributes) == ("failed", {})
    assert problem.fact.startswith(fact)
    assert problem.hint == hint
    assert (problem.path, problem.line) == (str(tmp_path / "config.toml"), line)
    assert problem.slug in ("config-type", "config-unknown")


def test_the_other_plugins_go_on(tmp_path):
    class Other(Words):
        pass

    registry = loaded(
        tmp_path, "[framework.plugins.Words]\nlimit = 'x'\n[framework.plugins.Other]\nlimit = 2", Words, Other
    )
    assert [report.status for report in registry.reports] == ["failed", "loaded"]


def test_wrong_settings_of_a_plugin_that_decides_are_an_error(tmp_path):
    text = "[framework.plugins.Guarded]\nlimit = 'x'\n"
    with pytest.raises(ConfigError, match="invalid settings of the plugin 'Guarded'") as caught:
        loaded(tmp_path, text, Guarded)
    assert (caught.value.line, caught.value.key) == (2, "framework.plugins.Guarded.limit")
    (report,) = loaded(tmp_path, text, Guarded, tolerant=True).reports
    assert report.status == "failed"


@pytest.mark.parametrize(
    "hook",
    [
        *("codex_sandboxes", "codex_network_proxies", "codex_command_policies"),
        *("codex_approval_reviewers", "codex_interceptors"),
    ],
)
def test_so_are_those_of_a_plugin_with_any_hook_that_decides(tmp_path, hook):
    decider = type("Decider", (Words,), {hook: hookimpl(lambda self: [])})
    with pytest.raises(ConfigError, match="invalid settings of the plugin 'Decider'"):
        loaded(tmp_path, "[framework.plugins.Decider]\nlimit = 'x'\n", decider)


def test_unknown_keys_are_warnings_where_the_person_wants_it(tmp_path):
    text = "[framework]\nunknown_keys = 'warn'\n[framework.plugins.Guarded]\nlimits = 'x'\nlimit = 4\n"
    registry = loaded(tmp_path, text, Guarded)
    (report,) = registry.reports
    assert report.status == "loaded"
    assert [(problem.fact[:42], problem.line) for problem in report.problems] == [
        ("the plugin 'Guarded' has no setting 'limit", 4)
    ]


def test_settings_that_have_to_be_given_leave_the_plugin_out_but_are_no_error(tmp_path):
    class Needs(Value):
        url: str

    class Needy(Guarded):
        @hookimpl
        def codex_settings(self) -> type[Needs]:
            return Needs

    (report,) = loaded(tmp_path, "", Needy).reports
    assert report.status == "failed"
    assert report.problems[0].hint == "Add url to [framework.plugins.Needy]."


def test_defaults_need_no_table_and_no_converter(tmp_path, site):
    site.install(
        "plain",
        """
        from codex_framework import PluginContext, Value, hookimpl, tool

        class Settings(Value):
            word: str = "hi"

        @hookimpl
        def codex_settings():
            return Settings

        @hookimpl
        def codex_commands(plugin: PluginContext):
            import sys
            assert "cattrs" not in sys.modules
            assert plugin.settings(Settings).word == "hi"
            return []
        """,
    )
    assert site.report("plain", fresh=True)["status"] == "loaded"


CLASSES = {
    "no class": ("7", "its codex_settings returned 7, which is not a settings class"),
    "a value": ("Settings()", "its codex_settings returned Settings(words=(), limit=10"),
    "a plain class": ("Plain", "which is not a settings class"),
    "nothing": ("None", "its codex_settings returned None, which is not a settings class"),
}


@pytest.mark.parametrize("case", CLASSES)
def test_what_is_no_class_of_settings_is_refused(tmp_path, case):
    class Plain:
        pass

    value, fact = CLASSES[case]
    result = eval(value, {"Settings": Settings, "Plain": Plain})

    class Wrong(Plugin):
        @hookimpl
        def codex_settings(self):
            return result

    (report,) = loaded(tmp_path, "", Wrong).reports
    assert fact in report.problems[0].fact
    assert report.problems[0].path == __file__
    assert report.problems[0].hint == "Return a subclass of codex_framework.Value, or another attrs class."


def test_a_validator_that_refuses_is_told(tmp_path):
    @attrs.frozen
    class Even:
        number: int = attrs.field(default=2, validator=lambda _, field, value: Even.check(field, value))

        @staticmethod
        def check(field, value):
            if value % 2:
                raise ValueError(f"{field.name} is odd")

    class Odd(Plugin):
        @hookimpl
        def codex_settings(self):
            return Even

    (report,) = loaded(tmp_path, "[framework.plugins.Odd]\nnumber = 3", Odd).reports
    assert "number is odd" in report.problems[0].fact
    assert report.problems[0].path.endswith("config.toml")


def test_settings_without_a_class_are_told_to_have_no_effect(tmp_path):
    class Silent(Plugin):
        @hookimpl
        def codex_notifiers(self):
            return []

    (report,) = loaded(tmp_path, "[framework.plugins.Silent]\nlimit = 3", Silent).reports
    assert report.status == "loaded"
    (problem,) = report.problems
    assert problem.fact == "the settings of the plugin 'Silent' have no effect: the plugin declares none"
    assert problem.line == 1


class Tooled(Words):
    @hookimpl
    def codex_tools(self) -> list[Any]:
        return []


class Toolbox(Plugin):
    @hookimpl
    def codex_settings(self) -> type[Settings]:
        return Settings

    @hookimpl
    def codex_tools(self) -> list[Any]:
        self.context.settings(Settings)
        return []


def loaded_in_project(tmp_path: Path, text: str, plugin: type[Plugin], **options: Any) -> Registry:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".codex").mkdir()
    (project / ".codex" / "config.toml").write_text(text)
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(f'[projects."{project}"]\ntrust_level = "trusted"\n')
    config = load_config(cwd=project, environ={}, codex_home=home)
    return load_registry(config, environ={}, entry_points=(), extra_plugins=[plugin], **options)


@pytest.mark.parametrize("plugin", [Guarded, Tooled])
def test_a_project_cannot_set_up_a_plugin_that_decides_or_that_sees_everything(tmp_path, plugin):
    text = f"\n[framework.plugins.{plugin.__name__}]\nlimit = 3\n"
    with pytest.raises(ConfigError) as caught:
        loaded_in_project(tmp_path, text, plugin)
    file = tmp_path / "project" / ".codex" / "config.toml"
    assert caught.value.fact.startswith(f"{file}:2: `framework.plugins.{plugin.__name__}`: a project's own file cannot")
    assert (caught.value.slug, caught.value.line) == ("config-project", 2)


def test_such_settings_of_a_project_are_reported_where_no_turn_can_run(tmp_path):
    registry = loaded_in_project(tmp_path, "[framework.plugins.Guarded]\nlimit = 3\n", Guarded, tolerant=True)
    (report,) = registry.reports
    assert report.status == "failed"
    assert [problem.slug for problem in report.problems] == ["config-project"]


def test_a_project_can_set_up_a_plugin_of_tools(tmp_path):
    registry = loaded_in_project(tmp_path, "[framework.plugins.Toolbox]\nlimit = 3\n", Toolbox)
    assert [report.status for report in registry.reports] == ["loaded"]
