"""Hooks that plugins declare: who may implement them, what they collect, and what can be wrong with them."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from codex_framework import Plugin, PluginContext, PluginError, Value, hookimpl
from codex_framework.loader.registry import load_registry


class Linter(Protocol):
    name: str

    def lint(self, text: str) -> list[str]: ...


class Long:
    name = "long"

    def lint(self, text):
        return []


class Lint(Plugin):
    """Declares ``acme_linters``."""

    def __init__(self, context: PluginContext) -> None:
        super().__init__(context)
        self.seen: list[Any] = []

    @hookimpl
    def codex_roles(self):
        return {"acme_linters": Linter}

    @hookimpl
    def codex_notifiers(self):
        self.context.environ["seen"].append(self)
        self.seen = list(self.context.offers(Linter))
        return []


def load(*plugins: object):
    seen: list[Lint] = []
    registry = load_registry({}, environ={"seen": seen, "HOME": "/"}, entry_points=(), extra_plugins=plugins)
    return seen[0] if seen else None, {report.name: report for report in registry.reports}


def offering(*items: object, name: str = "Offering", **more: Any):
    def acme_linters(self):
        return items

    return type(name, (), {"acme_linters": hookimpl(acme_linters), **more})()


def test_offers_are_there_when_the_hooks_of_the_framework_are_called():
    one, other = Long(), Long()
    lint, reports = load(offering(one, name="A"), Lint, offering(other, name="B"))
    assert lint.seen == [one, other]
    assert reports["Lint"].contributes == {"hooks": ("acme_linters",)}
    assert reports["A"].contributes == {"acme_linters": ("long",)}
    assert [report.status for report in reports.values()] == ["loaded"] * 3


def test_without_offers_there_are_none():
    lint, _ = load(Lint)
    assert lint.seen == []


def test_what_does_not_play_the_role_is_left_out_with_the_reason():
    lint, reports = load(Lint, offering(7, Long()))
    assert [item.name for item in lint.seen] == ["long"]
    (problem,) = reports["Offering"].problems
    assert reports["Offering"].status == "partial"
    assert problem.fact.startswith(
        "its object int for acme_linters of plugin 'Lint' is ignored: it has no attribute name; "
    )
    assert problem.hint.startswith("See ")


def test_a_role_may_be_a_class_of_values():
    class Word(Value):
        text: str

    class Words(Plugin):
        @hookimpl
        def codex_roles(self):
            return {"acme_linters": Word}

        @hookimpl
        def codex_notifiers(self):
            self.context.environ["seen"].append(self.context.offers(Word))
            return []

    offers, reports = load(Words, offering(Word("a"), "b"))
    assert offers == (Word("a"),)
    assert reports["Offering"].status == "partial"


def test_a_role_may_be_a_base_class_whose_defaults_complete_what_is_offered():
    class Formatter:
        name: str
        order = 100

        def changed(self, text: str) -> str:
            return text

    class Formats(Plugin):
        @hookimpl
        def codex_roles(self):
            return {"acme_linters": Formatter}

        @hookimpl
        def codex_notifiers(self):
            self.context.environ["seen"].append(self.context.offers(Formatter))
            return []

    class Plain:
        name = "plain"

    offers, _ = load(Formats, offering(Plain()))
    assert [(item.name, item.order, item.changed("x")) for item in offers] == [("plain", 100, "x")]


def test_a_hook_that_nobody_declares_is_told_as_before_with_the_nearest_name():
    _, reports = load(Lint, type("Slip", (), {"acme_linter": hookimpl(lambda self: [])})())
    (problem,) = reports["Slip"].problems
    assert (problem.fact, problem.hint) == ("there is no hook acme_linter", "Did you mean acme_linters?")
    _, reports = load(offering())
    assert reports["Offering"].problems[0].fact == "there is no hook acme_linters"


def test_a_hook_of_a_plugin_that_may_be_absent_can_be_optional():
    def acme_linters(self):
        return []

    def codex_tools(self):
        return []

    optional = type(
        "Optional",
        (),
        {"acme_linters": hookimpl(optionalhook=True)(acme_linters), "codex_tools": hookimpl(codex_tools)},
    )
    _, reports = load(optional())
    assert reports["Optional"].status == "loaded"
    _, reports = load(Lint, optional())
    assert reports["Optional"].problems == ()


def test_an_unmarked_function_of_that_name_is_told(site):
    site.install(
        "lint",
        """
        from codex_framework import hookimpl

        class Role: pass

        @hookimpl
        def codex_roles():
            return {"acme_linters": Role}
        """,
    )
    site.install("user", "def acme_linters():\n    return []\n")
    report = site.report("user")
    assert report["problems"][0][0] == "its function acme_linters is not marked as a hook implementation"


def test_a_broken_offer_takes_its_plugin_out_and_no_other():
    def acme_linters(self):
        raise OSError("no disk")

    lint, reports = load(Lint, type("Bad", (), {"acme_linters": hookimpl(acme_linters)})(), offering(Long()))
    assert [item.name for item in lint.seen] == ["long"]
    assert (reports["Bad"].status, reports["Lint"].status) == ("failed", "loaded")
    assert "no disk" in reports["Bad"].problems[0].fact


def test_offers_of_a_plugin_that_fails_later_are_gone_at_the_next_question():
    def codex_tools(self):
        raise OSError("no disk")

    bad = offering(Long(), name="Bad", codex_tools=hookimpl(codex_tools))
    lint, reports = load(Lint, bad)
    assert reports["Bad"].status == "failed"
    assert lint.context.offers(Linter) == ()


def test_offers_asked_for_too_early_or_for_another_role_are_an_error():
    class Early(Lint):
        def __init__(self, context):
            super().__init__(context)
            context.offers(Linter)

    _, reports = load(Early)
    (problem,) = reports["Early"].problems
    assert problem.fact == "plugin 'Early' requested the objects of other plugins before they were collected"
    assert problem.hint.startswith("Request them in a hook that offers objects")
    lint, _ = load(Lint)
    with pytest.raises(PluginError, match="declares no hook that collects Long"):
        lint.context.offers(Long)


WRONG = {
    "no table": (["acme_linters"], "its codex_roles returned ['acme_linters'], not a dict of hook names and classes"),
    "no name": ({"acme linters": Linter}, "its hook 'acme linters' is not a valid name of a function"),
    "a word of the language": ({"class": Linter}, "its hook 'class' is not a valid name of a function"),
    "a hook of the framework": ({"codex_tools": Linter}, "its hook 'codex_tools' is a hook of the framework"),
    "no class": ({"acme_linters": Long()}, "its hook 'acme_linters' collects <"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_declaration_takes_the_plugin_out(case):
    declared, fact = WRONG[case]

    class Wrong(Plugin):
        @hookimpl
        def codex_roles(self):
            return declared

    _, reports = load(Wrong)
    (problem,) = reports["Wrong"].problems
    assert problem.fact.startswith(fact)
    assert (reports["Wrong"].status, problem.path) == ("failed", __file__)


def test_a_hook_is_declared_by_one_plugin_only():
    class Second(Plugin):
        @hookimpl
        def codex_roles(self):
            return {"acme_linters": Long}

    _, reports = load(Lint, Second)
    assert reports["Lint"].status == "loaded"
    assert reports["Second"].problems[0].fact == (
        "its hook 'acme_linters' is also declared by 'Lint' (passed by the program)"
    )
