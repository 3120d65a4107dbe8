"""``check_plugin`` and ``codex-framework plugins doctor``: whole plugins, good and broken ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from click.testing import CliRunner, Result

import codex_framework.testing
from codex_framework import (
    Compaction,
    Compactor,
    Component,
    Interceptor,
    ModelCatalogue,
    ModelError,
    ModelInfo,
    ModelProvider,
    Plugin,
    PluginError,
    ThreadComponent,
    Value,
    hookimpl,
    tool,
)
from codex_framework.cli.plugins import command
from codex_framework.config import load_config
from codex_framework.testing import ContractViolation, PluginCheck, check_plugin
from codex_framework.testing.conformance.plugins import _NOT_TRIED


def checks(plugin: Any, **more: Any) -> list[tuple[str, str, str]]:
    found: list[PluginCheck] = []
    try:
        check_plugin(plugin, report=found.append, **more)
    except ContractViolation as error:
        assert any(check.result == "failed" for check in found)
        assert set(error.violations) == {
            f"{check.plugin}: {f'{check.check} {check.subject!r}' if check.subject else check.check}: {fact}"
            for check in found
            if check.result == "failed"
            for fact in check.facts
        }
    else:
        assert all(check.result != "failed" for check in found)
    return [(check.check, check.subject, check.result) for check in found]


@tool
def shout(text: str) -> str:
    """Shout."""
    return text.upper()


class Good(Plugin):
    @hookimpl
    def codex_tools(self):
        return [shout]

    @hookimpl
    def codex_components(self):
        class Lamp(Component):
            name = "lamp"

        return [Lamp()]


def test_a_good_plugin_passes_and_what_cannot_be_tried_is_said():
    assert checks(Good) == [
        ("load", "", "passed"),
        ("tool", "shout", "passed"),
        ("call of a tool", "shout", "not tried"),
        ("two kernels", "", "passed"),
    ]


def test_a_catalogue_is_asked_about_the_models_of_its_plugin():
    class Parrot(ModelProvider):
        name = "parrot"

        def open(self, info, env):
            raise ModelError("it needs a key")

    class Parrots(ModelCatalogue):
        name = "parrots"

        def model(self, slug, provider):
            return ModelInfo(slug=slug, apply_patch="functoin") if provider.wire_api == "parrot" else None

    class Both(Plugin):
        codex_model_providers = hookimpl(lambda self: [Parrot()])
        codex_model_catalogues = hookimpl(lambda self: [Parrots()])

    assert ("model catalogue", "parrots", "failed") in checks(Both)


def test_a_tool_that_breaks_its_role_is_found():
    class Careless:
        spec = shout.spec

        async def run(self, call, context):
            return json.loads(call.arguments)["text"]

    class Bad(Plugin):
        @hookimpl
        def codex_tools(self):
            return [Careless()]

    assert ("tool", "shout", "failed") in checks(Bad)


def test_a_component_that_does_not_start_is_found():
    class Dark(Component):
        name = "dark"

        async def start(self, kernel):
            raise OSError("no power")

    class Bad(Plugin):
        @hookimpl
        def codex_components(self):
            return [Dark()]

    with pytest.raises(ContractViolation, match=r"Bad: two kernels: .*no power"):
        check_plugin(Bad)


def test_a_plugin_that_disturbs_the_turn_is_found():
    class Part(ThreadComponent):
        async def turn_ended(self, turn, outcome):
            raise OSError("no disk")

    class Parts(Component):
        name = "parts"

        def for_thread(self, thread):
            return Part()

    class Bad(Plugin):
        @hookimpl
        def codex_components(self):
            return [Parts()]

    with pytest.raises(ContractViolation, match="no disk"):
        check_plugin(Bad)


def test_what_two_kernels_share_shows():
    opened = []

    class Once(Component):
        name = "once"

        async def start(self, kernel):
            assert not opened, "the port is taken"
            opened.append(self)

    class Bad(Plugin):
        @hookimpl
        def codex_components(self):
            return [Once()]

    with pytest.raises(ContractViolation, match="the port is taken"):
        check_plugin(Bad)


class Shorter(Compactor):
    name = "shorter"

    async def compact(self, turn: Any, reason: str) -> Compaction:
        return Compaction(items=turn.history[-1:], message="the last item")


class Shouts(Interceptor):
    name = "shouts"

    async def request(self, request: Any, turn: Any) -> Any:
        return request.evolve(instructions=request.instructions.upper())


class Worse(Shouts):
    async def request(self, request: Any, turn: Any) -> Any:
        return None


class Shortens(Plugin):
    codex_compactors = hookimpl(lambda self: [Shorter()])
    codex_interceptors = hookimpl(lambda self: [Shouts()])


def test_a_plugin_with_a_compactor_and_an_interceptor_passes_beside_the_bundled_compactor():
    assert checks(Shortens) == [
        ("load", "", "passed"),
        ("interceptor", "shouts", "passed"),
        ("compactor", "shorter", "passed"),
        ("two kernels", "", "passed"),
    ]


def test_an_interceptor_that_breaks_its_role_is_found():
    class Bad(Plugin):
        codex_interceptors = hookimpl(lambda self: [Worse()])

    assert ("interceptor", "shouts", "failed") in checks(Bad)


def test_a_deprecated_hook_is_named_and_does_not_fail():
    class Old(Plugin):
        codex_requires = hookimpl(lambda self: [])
        codex_tools = hookimpl(lambda self: [shout])

    assert ("hook", "codex_requires", "passed") in checks(Old)


def test_every_check_that_a_hint_names_exists_and_is_documented():
    page = (Path(__file__).parents[3] / "docs/extend/test-a-plugin.md").read_text(encoding="utf-8")
    named = [name for _, how in _NOT_TRIED.values() for name in re.findall(r"check_\w+", how)]
    assert len(named) >= 5
    for name in named:
        assert name in codex_framework.testing.__all__
        assert f"`{name}(" in page


@pytest.mark.parametrize(
    ("source", "fact", "hint"),
    [
        (
            "@hookimpl  # <-\ndef codex_tools() -> str:\n    return []\n",
            "its codex_tools is annotated to return str, but the hook requires Iterable[tools.Tool]",
            "Return Iterable[tools.Tool] (a list is fine) and annotate it accordingly.",
        ),
        (
            "from codex_framework import Notifier\n@hookimpl  # <-\ndef codex_tools() -> list[Notifier]:\n    return []\n",
            "its codex_tools is annotated to return list[observers.Notifier], but the hook requires Iterable[tools.Tool]",
            "Return Iterable[tools.Tool] (a list is fine) and annotate it accordingly.",
        ),
        (
            (
                "from codex_framework import Plugin\n\nclass Words(Plugin):\n    @hookimpl  # <-\n"
                "    def codex_tools(self, plugin: str):\n        return []\n"
            ),
            "its codex_tools annotates plugin as str, but the hook passes PluginContext",
            "Annotate plugin as PluginContext.",
        ),
    ],
    ids=["a type", "another role", "a parameter"],
)
def test_a_hook_with_a_wrong_annotation_is_found_and_works(source: str, fact: str, hint: str, tmp_path: Path):
    file = tmp_path / "acme.py"
    file.write_text(f"from codex_framework import hookimpl\n{source}")
    line = next(number for number, text in enumerate(file.read_text().splitlines(), 1) if "# <-" in text)
    found: list[PluginCheck] = []
    with pytest.raises(ContractViolation):
        check_plugin(file, report=found.append)
    (failed,) = [check for check in found if check.result == "failed"]
    assert (failed.check, failed.facts, failed.hint) == ("hook", (f"{fact} ({file}, line {line})",), hint)
    assert found[-1].check == "two kernels"


def test_settings_of_the_configuration_are_used(tmp_path: Path):
    class Settings(Value):
        url: str

    class Needy(Plugin):
        @hookimpl
        def codex_settings(self):
            return Settings

        @hookimpl
        def codex_tools(self):
            assert self.context.settings(Settings).url == "x"
            return [shout]

    assert checks(Needy) == [("load", "", "failed")]
    (tmp_path / "config.toml").write_text("[framework.plugins.Needy]\nurl = 'x'\n")
    config = load_config(cwd=tmp_path, environ={}, codex_home=tmp_path)
    assert checks(Needy, config=config)[-1] == ("two kernels", "", "passed")


@pytest.mark.parametrize(
    "name", ["guardian", "rollout", "execpolicy", "plan", "compaction", "openai", "codex_plugin_plan"]
)
def test_bundled_plugins_pass(name):
    found = checks(name)
    assert found[0] == ("load", "", "passed")
    assert found[-1] == ("two kernels", "", "passed")


def test_a_name_that_nobody_has_is_an_error_with_the_nearest_name():
    with pytest.raises(PluginError, match="no plugin and no package with plugins is called 'gardian'") as caught:
        check_plugin("gardian")
    assert caught.value.hint == "Did you mean guardian?"


@pytest.fixture
def doctor(tmp_path: Path, codex_home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CODEX_HOME", str(codex_home))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(command, ["doctor", *arguments])

    return run


FILE = """
    import click
    from codex_framework import hookimpl, tool

    @tool
    def shout(text: str) -> str:
        "Shout."
        return text.upper()

    @hookimpl
    def codex_tools():
        return [shout{more}]

    @hookimpl
    def codex_commands():
        return [click.Command("shout")]
"""


def test_doctor_prints_a_table_of_a_plugin_file(doctor, tmp_path):
    (tmp_path / "shouting.py").write_text(dedent(FILE).replace("{more}", ""))
    done = doctor("shouting.py")
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[0] == "RESULT     PLUGIN: CHECK"
    assert lines[1].startswith("passed     shouting: load (")
    assert "passed     shouting: tool shout" in lines
    assert "passed     shouting: command shout" in lines
    assert "           -> Try it in a test: check_tool(tool, arguments)." in lines
    assert lines[-1] == "4 passed, 0 failed, 1 not tried"


def test_doctor_of_a_broken_plugin_says_what_to_do_and_ends_with_1(doctor, tmp_path):
    (tmp_path / "shouting.py").write_text(dedent(FILE).replace("{more}", ", 7"))
    done = doctor("shouting.py", "--json")
    assert done.exit_code == 1
    (load,) = [check for check in json.loads(done.output) if check["check"] == "load"]
    assert (load["plugin"], load["subject"], load["result"]) == ("shouting", None, "failed")
    assert load["facts"][0].startswith("its tool of type int is ignored: ")
    assert load["hint"].startswith("See codex_tools")
    (tmp_path / "shouting.py").write_text("def f(:\n")
    done = doctor("./shouting.py")
    assert done.exit_code == 1
    assert (
        f"           it cannot be imported: SyntaxError: invalid syntax ({tmp_path / 'shouting.py'}, line 1)"
        in done.output
    )
    assert done.output.endswith("0 passed, 1 failed, 0 not tried\n")


def test_doctor_of_a_file_that_is_not_there(doctor, tmp_path):
    done = doctor("gone.py")
    assert done.exit_code == 1
    assert f"there is no file {tmp_path / 'gone.py'}" in done.output


def test_doctor_of_a_disabled_plugin_says_so(doctor, codex_home):
    (codex_home / "config.toml").write_text("[framework.plugins]\ndisabled = ['plan']\n")
    done = doctor("plan")
    assert done.exit_code == 0
    assert "not tried  plan: load\n           the configuration disables the plugin\n" in done.output
    assert done.output.endswith("\n0 passed, 0 failed, 1 not tried\n")


def test_doctor_does_not_run_what_the_person_has_configured_beside(doctor, codex_home, tmp_path):
    (codex_home / "config.toml").write_text(f'notify = ["touch", "{tmp_path / "told"}"]\n')
    assert doctor("plan").exit_code == 0
    assert not (tmp_path / "told").exists()
