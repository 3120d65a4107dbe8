"""The settings: wrong ones are named."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework.contract.errors import ConfigError
from codex_plugin_fallbacks.settings import Fallback, Settings, settings_of

MODELS = [{"model": "a", "provider": "b"}, {"model": "c"}]


class Context:
    """The part of a plugin's context that is read."""

    def __init__(self, table: object) -> None:
        self.config = {"framework": {"plugins": {"fallbacks": table}}}


def read(table: object) -> Settings:
    return settings_of(Context(table))  # type: ignore[arg-type]


def test_the_user_names_models() -> None:
    settings = read({"model_fallbacks": MODELS, "return_after_s": 5, "longest_wait_s": 1.5})
    assert settings.model_fallbacks == (Fallback(model="a", provider="b"), Fallback(model="c"))
    assert (settings.return_after_s, settings.longest_wait_s) == (5.0, 1.5)


def test_nothing_is_configured_by_default() -> None:
    assert read({"return_after_s": 0}) == Settings(return_after_s=0.0)


@pytest.mark.parametrize(
    ("table", "fact"),
    [
        ({"model_fallbacks": "gpt"}, "is not a list"),
        ({"model_fallbacks": ["gpt"]}, "number 1"),
        ({"model_fallbacks": [{"model": "a"}, {"model": " "}]}, "number 2"),
        ({"model_fallbacks": [{"provider": "a"}]}, "no table with a model"),
        ({"model_fallbacks": [{"model": "a", "url": "b"}]}, "no table with a model"),
        ({"model_fallbacks": [{"model": "a", "provider": 3}]}, "provider is not a text"),
        ({"return_after_s": -1}, "is -1"),
        ({"longest_wait_s": True}, "is True"),
        ({"longest_wait_s": float("inf")}, "is inf"),
    ],
)
def test_wrong_settings_are_named(table: dict[str, Any], fact: str) -> None:
    with pytest.raises(ConfigError, match=r"framework\.plugins\.fallbacks") as caught:
        read(table)
    assert fact in str(caught.value)
    assert caught.value.hint
