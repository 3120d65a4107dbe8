"""Hook ``codex_model_catalogues``: what models can do."""

from __future__ import annotations

import asyncio
from typing import Any

from codex_framework import ModelCatalogue, ModelInfo
from codex_framework.testing.offering import Offer
from codex_framework.testing.replies import say


class Sizes(ModelCatalogue):
    """Knows windows by model."""

    def __init__(self, name: str, **windows: int) -> None:
        self.name = name
        self._windows = windows
        self.asked: list[tuple[str, str]] = []

    def model(self, slug: str, provider: Any) -> ModelInfo | None:
        self.asked.append((slug, provider.id))
        window = self._windows.get(slug)
        return None if window is None else ModelInfo(slug=slug, context_window=window)


def window_of(
    make_kernel: Any, *catalogues: ModelCatalogue, model: str, config: Any = ()
) -> tuple[int | None, list[str]]:
    """The context window that the first turn tells, and its warnings."""

    async def main() -> tuple[int | None, list[str]]:
        plugins = [Offer(catalogues=[each], name=f"p-{each.name}") for each in catalogues]
        async with make_kernel([say("hi")], plugins=plugins, config=[f"model={model!r}", *config]) as kernel:
            thread = await kernel.start_thread()
            result = await thread.run("a")
            (started,) = [event for event in result.events if event.type == "task_started"]
            return started.model_context_window, [each.message for each in result.events if each.type == "warning"]

    return asyncio.run(main())


def test_codex_model_catalogues_example_is_asked(example: Any, run_turn: Any) -> None:
    turn = run_turn(example("codex_model_catalogues"), config=('model="house-model"',))
    assert turn.final == "Done."


def test_a_catalogue_precedes_the_provider_and_the_fallback(make_kernel: Any) -> None:
    sizes = Sizes("sizes", mine=50_000)
    window, warnings = window_of(make_kernel, sizes, model="mine")
    assert window is not None
    assert window <= 50_000
    assert not [text for text in warnings if "metadata" in text]
    assert {slug for slug, _ in sizes.asked} == {"mine"}


def test_the_first_catalogue_that_knows_a_model_decides(make_kernel: Any) -> None:
    first, second = Sizes("first", other=1), Sizes("second", mine=60_000)
    third = Sizes("third", mine=70_000)
    window, _ = window_of(make_kernel, first, second, third, model="mine")
    assert window is not None
    assert window <= 60_000
    assert first.asked
    assert not third.asked


def test_settings_precede_every_catalogue(make_kernel: Any) -> None:
    window, _ = window_of(make_kernel, Sizes("sizes", mine=50_000), model="mine", config=["model_context_window=20000"])
    assert window is not None
    assert window <= 20_000


def test_a_catalogue_that_raises_is_named(make_kernel: Any) -> None:
    class Broken(ModelCatalogue):
        name = "broken"

        def model(self, slug: str, provider: Any) -> ModelInfo | None:
            raise KeyError(slug)

    async def main() -> str:
        async with make_kernel([say("hi")], plugins=[Offer(catalogues=[Broken()], name="p")]) as kernel:
            try:
                thread = await kernel.start_thread()
                result = await thread.run("a")
            except Exception as error:
                return str(error)
            return " ".join(getattr(each, "message", "") for each in result.events)

    assert "model catalogue 'broken' of plugin 'p': model() failed: KeyError" in asyncio.run(main())
