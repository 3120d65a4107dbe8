"""What a plugin can ask about the offers of all plugins: ``PluginContext.offered``."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework import (
    FunctionSpec,
    ModelInfo,
    ModelPrices,
    ModelProvider,
    Notifier,
    Plugin,
    PluginContext,
    PluginError,
    ThreadStore,
    Tool,
    ToolCall,
    ToolContext,
    hookimpl,
)
from codex_framework.loader.registry import Registry, load_registry
from codex_framework.testing.model import ScriptedModel


class Look(Tool):
    spec = FunctionSpec("look", "Looks.", {"type": "object", "properties": {}})
    aliases = ("see",)

    async def run(self, call: ToolCall, context: ToolContext) -> str:
        return ""


class Eyes(Plugin):
    @hookimpl
    def codex_tools(self) -> list[Tool]:
        return [Look()]

    @hookimpl
    def codex_model_providers(self) -> list[Any]:
        return [ScriptedModel([])]


class Asks(Plugin):
    """Keeps its context, and asks too early if the environment says so."""

    def __init__(self, context: PluginContext) -> None:
        super().__init__(context)
        context.environ["asks"].append(context)  # type: ignore[attr-defined]

    @hookimpl
    def codex_tools(self) -> list[Tool]:
        return list(self.context.offered(Tool)) if "early" in self.context.environ else []  # type: ignore[arg-type]


def load(*plugins: object, **environ: Any) -> tuple[PluginContext, Registry]:
    asks: list[PluginContext] = []
    variables = {"asks": asks, "HOME": "/", **environ}
    return_value = load_registry({}, environ=variables, entry_points=(), extra_plugins=[Asks, *plugins])  # type: ignore[arg-type]
    return asks[0], return_value


def test_offers_have_the_name_of_their_plugin() -> None:
    context, _ = load(Eyes)
    tools = context.offered(Tool)
    assert {name: offer.plugin for name, offer in tools.items()} == {"look": "Eyes", "see": "Eyes"}
    assert isinstance(tools["look"].item, Look)
    providers = context.offered(ModelProvider)
    assert {name: (offer.plugin, type(offer.item)) for name, offer in providers.items()} == {
        "scripted": ("Eyes", ScriptedModel)
    }
    assert context.offered(ThreadStore) == {}


def test_offers_of_plugins_that_failed_later_are_left_out() -> None:
    context, registry = load(Eyes)
    registry.without({"Eyes": "its component did not start"})
    assert context.offered(Tool) == {}


class Peeks(Tool):
    aliases = ("peek",)

    def __init__(self, name: str) -> None:
        self.spec = FunctionSpec(name, "Peek.", {"type": "object", "properties": {}})

    async def run(self, call: Any, context: Any) -> str:
        return ""


class First(Plugin):
    codex_tools = hookimpl(lambda self: [Peeks("first")])


class Second(Plugin):
    codex_tools = hookimpl(lambda self: [Peeks("second")])


def test_an_alias_goes_back_to_the_tool_that_lost_it_when_the_plugin_that_had_taken_it_fails() -> None:
    context, registry = load(First, Second)
    assert registry.tools_by_call["peek"].plugin == context.offered(Tool)["peek"].plugin == "First"
    registry = registry.without({"First": "its component did not start"})
    assert registry.tools_by_call["peek"].plugin == context.offered(Tool)["peek"].plugin == "Second"
    assert registry.tools.keys() == {"second"}


@pytest.mark.parametrize("role", [Notifier, str, Plugin])
def test_a_role_without_names_is_refused(role: type[Any]) -> None:
    context, _ = load(Eyes)
    with pytest.raises(PluginError, match=f"requested {role.__name__}, which is no role with names") as caught:
        context.offered(role)
    assert caught.value.slug == "plugin-hook"


def test_asking_before_everything_is_loaded_is_reported() -> None:
    _, registry = load(Eyes, early="yes")
    report = next(report for report in registry.reports if report.name == "Asks")
    assert "requested the objects of all plugins before they were loaded" in report.error


def test_prices_of_a_model_are_unknown_unless_they_are_given() -> None:
    assert ModelInfo(slug="m").prices is None
    assert ModelInfo(slug="m", prices=ModelPrices(input=1, output=2)).prices == ModelPrices(input=1.0, output=2.0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"input": -0.1}, "input is -0.1, which is not a price"),
        ({"output": float("nan")}, "output is nan"),
        ({"cached_input": float("inf")}, "cached_input is inf"),
        ({"cache_write": -1}, "cache_write is -1"),
        ({"currency": ""}, "the currency is empty"),
    ],
)
def test_a_price_cannot_be_negative_or_no_number(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ModelPrices(**{"input": 1.0, "output": 1.0, **given})
