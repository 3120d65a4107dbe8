"""What models cost."""

from __future__ import annotations

from codex_framework.contract.value import Value

__all__ = ["ModelPrices"]

_DEAREST = 1e12
"""No price per million tokens is higher, in any currency."""


class ModelPrices(Value, kw_only=True):
    """What a model costs, per million tokens.

    Attributes:
        input: Tokens of requests.
        output: Tokens of responses, reasoning included.
        cached_input: Tokens of requests that the provider has in its cache. By default, the price of other input.
        cache_write: Tokens of requests that the provider puts into its cache. By default, the price of other input.
        currency: The code of the currency (ISO 4217).
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    currency: str = "USD"

    def __attrs_post_init__(self) -> None:
        """Check the values. Raises ValueError if one cannot be a price."""
        for name in ("input", "output", "cached_input", "cache_write"):
            price = getattr(self, name)
            if price is not None and not 0 <= price <= _DEAREST:
                raise ValueError(f"{name} is {price}, which is not a price")
        if not self.currency.strip():
            raise ValueError("the currency is empty")
