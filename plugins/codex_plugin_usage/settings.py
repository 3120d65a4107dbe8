"""The settings of the plugin."""

from __future__ import annotations

from collections.abc import Mapping

from codex_framework import ModelPrices, Value
from codex_framework.contract.value import field

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.usage]``.

    Attributes:
        prices: Prices per million tokens, by model or by ``provider/model``. They override those of the model catalogues.
    """

    prices: Mapping[str, ModelPrices] = field(factory=dict)
