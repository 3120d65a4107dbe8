"""Hook ``codex_exec_options``: options of ``exec`` that set settings of a plugin."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework import ExecOption, Value, hookimpl
from codex_framework.loader.registry import load_registry


class Settings(Value, kw_only=True):
    """Settings of the plugins below."""

    file: str = ""


class Offering:
    def __init__(self, *options: Any) -> None:
        self.options = options
        self.asked = 0

    @hookimpl
    def codex_settings(self):
        return Settings

    @hookimpl
    def codex_exec_options(self):
        self.asked += 1
        return self.options


def option(**changes: Any) -> ExecOption:
    return ExecOption(**{"name": "log", "setting": "file", "text": "Where to log.", "metavar": "FILE", **changes})


def loaded_with(*plugins: object) -> Any:
    return load_registry({}, entry_points=(), extra_plugins=plugins)


def test_codex_exec_options_example_sets_the_greeting(example, registry_of):
    module = example("codex_exec_options")
    offered = registry_of(module).exec_options["greeting"]
    assert (offered.item.name, offered.item.setting, offered.item.metavar) == ("greeting", "greeting", "WORD")


def test_codex_exec_options_are_asked_for_only_when_they_are_needed(registry_of):
    plugin = Offering(option())
    registry = registry_of(plugin)
    assert plugin.asked == 0
    (report,) = registry.reports_with_commands
    assert report.contributes == {"exec_options": ("log",)}
    assert plugin.asked == 1


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"name": "--log"}, "its name is '--log'"),
        ({"name": "Log"}, "its name is 'Log'"),
        ({"name": ""}, "its name is ''"),
        ({"name": 3}, "its name is 3"),
        ({"name": "model"}, "the option --model is built in"),
        ({"name": "yolo"}, "the option --yolo is built in"),
        ({"setting": "fiel"}, "it sets 'fiel', which is not a field"),
        ({"text": None}, "its text is None, not a string"),
        ({"metavar": 1}, "its metavar is 1, not a string"),
        ({"choices": "ab"}, "its choices are 'ab', not a list of strings"),
        ({"metavar": None, "many": True}, "it has no metavar, so it has no value"),
        ({"metavar": None, "is_path": True}, "it has no metavar, so it has no value"),
        ({"setting": None}, "it has no effect: give it a setting, implies or open_thread"),
        ({"implies": "x"}, "its implies is 'x', which cannot be called"),
        ({"open_thread": 5}, "its open_thread is 5, which cannot be called"),
    ],
)
def test_an_option_that_cannot_be_used_is_reported_and_left_out(changes, fact):
    table = loaded_with(Offering(option(**changes), option(name="fine")))
    (report,) = table.reports_with_commands
    assert list(table.exec_options) == ["fine"]
    (problem,) = report.problems
    assert problem.fact.startswith("its exec option ")
    assert fact in problem.fact


def test_something_else_than_an_option_is_reported():
    table = loaded_with(Offering("log"))
    assert table.exec_options == {}
    assert "it is str, not ExecOption" in table.reports_with_commands[0].problems[0].fact


def test_an_option_without_settings_is_reported():
    class Plugin:
        @hookimpl
        def codex_exec_options(self):
            return [option()]

    table = loaded_with(Plugin())
    assert table.exec_options == {}
    assert "not a field of the class that codex_settings returns" in table.reports_with_commands[0].problems[0].fact


def test_one_of_two_plugins_gets_an_option():
    class First(Offering):
        pass

    class Second(Offering):
        pass

    table = loaded_with(First(option()), Second(option()))
    assert table.exec_options["log"].plugin == "First"
    assert [len(report.problems) for report in table.reports_with_commands] == [1, 1]
    assert "the exec option 'log' is offered by 'First'" in table.reports_with_commands[0].problems[0].fact
