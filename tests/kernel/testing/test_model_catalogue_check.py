"""What is found about catalogues of models, by their check and by those who ask them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from codex_framework import ModelCatalogue, ModelInfo, ModelPrices, PluginError, ProviderInfo
from codex_framework.testing import ContractViolation, Offer, check_model_catalogue

RIGHT = ModelInfo(slug="a", efforts=("low", "high"), default_effort="low", prices=ModelPrices(input=1, output=2))
TABLE = ProviderInfo(id="mine", wire_api="mine")


class Catalogue(ModelCatalogue):
    name = "catalogue"

    def __init__(self, model: Callable[[str], Any], models: Callable[[], Any] = lambda: ()) -> None:
        self._model, self._models = model, models

    def model(self, slug: str, provider: ProviderInfo) -> Any:
        return self._model(slug) if provider == TABLE else None

    def models(self, provider: ProviderInfo) -> Any:
        return self._models() if provider == TABLE else ()


def known(**properties: Any) -> Callable[[str], Any]:
    return lambda slug: ModelInfo(slug=slug, **properties)


def exits(slug: str = "") -> Any:
    raise SystemExit(2)


def test_a_right_catalogue_passes() -> None:
    check_model_catalogue(Catalogue({"a": RIGHT}.get, lambda: [RIGHT]), TABLE)
    check_model_catalogue(Catalogue({}.get, lambda: iter(())))


WRONG_FIELDS = [
    ({"context_window": "64k"}, "its `context_window` is '64k', not int"),
    ({"context_window": -5}, "its `context_window` is -5, not a number of tokens from 1"),
    ({"usable_percent": 0}, "its `usable_percent` is 0, not a number from 1 to 100"),
    ({"truncation": ("words", 10)}, "its `truncation` is ('words', 10), not ('tokens', n) or ('bytes', n)"),
    ({"truncation": ()}, "its `truncation` is (), not"),
    ({"prices": {"input": 1}}, "its `prices` is dict, not ModelPrices or None"),
    ({"supports_images": None}, "its `supports_images` is None, not bool"),
]


@pytest.mark.parametrize(
    ("catalogue", "found"),
    [
        *((Catalogue(known(**fields)), text) for fields, text in WRONG_FIELDS),
        (Catalogue(known(apply_patch="functoin")), "`apply_patch` is 'functoin'. Use one of: freeform, function, None"),
        (Catalogue(known(shell_type="bash")), "`shell_type` is 'bash'. Use one of: unified_exec"),
        (Catalogue(known(efforts=("low",))), "`default_effort` 'medium' is not among its `efforts`"),
        (Catalogue(known(max_context_window=5)), "`max_context_window` 5 is less than its `context_window`"),
        (Catalogue(lambda slug: {"slug": slug}), "model('no-such-model-4711') returns dict, not a ModelInfo"),
        (Catalogue(lambda _: RIGHT), "returns the slug 'a', which is then sent to the server"),
        (Catalogue(lambda slug: {}[slug]), "model('') raises KeyError: ''"),
        (Catalogue(exits), "raises SystemExit: 2"),
        (Catalogue({"a": RIGHT}.get, lambda: [RIGHT, RIGHT]), "models() returns 'a' twice"),
        (Catalogue({}.get, lambda: [RIGHT]), "model('a') and models() do not return the same properties"),
        (Catalogue({}.get, lambda: None), "models() returns NoneType, which is no list of ModelInfo"),
        (Catalogue({}.get, lambda: [{}]), "models() returns dict, not a ModelInfo"),
        (Catalogue({}.get, exits), "models() raises SystemExit: 2"),
    ],
)
def test_a_wrong_catalogue_is_found(catalogue: Any, found: str) -> None:
    with pytest.raises(ContractViolation) as caught:
        check_model_catalogue(catalogue, TABLE)
    assert any(found in text for text in caught.value.violations), caught.value.violations


@pytest.mark.parametrize(
    ("model", "found"),
    [
        *((known(**fields), f"it returned a ModelInfo that is wrong: {text}") for fields, text in WRONG_FIELDS),
        (exits, "SystemExit: 2"),
        (lambda slug: {}[slug], "KeyError: 'gpt-5'"),
    ],
)
def test_a_thread_does_not_start_with_properties_that_are_wrong(make_kernel: Any, model: Any, found: str) -> None:
    class Everywhere(Catalogue):
        def model(self, slug: str, provider: ProviderInfo) -> Any:
            return model(slug)

    async def start() -> str:
        offer = Offer(catalogues=[Everywhere(model)])
        async with make_kernel(plugins=[offer], config=['model="gpt-5"']) as kernel:
            with pytest.raises(PluginError) as caught:
                await kernel.start_thread()
            return caught.value.fact

    text = asyncio.run(start())
    assert text.startswith("model catalogue 'catalogue' of plugin ")
    assert f"model() failed: {found}" in text
