"""The settings of the plugin."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from codex_framework import Value
from codex_framework.contract.value import field

__all__ = ["ProviderLimits", "Settings"]


class ProviderLimits(Value, kw_only=True):
    """What the model server of a provider allows for one key. Without limits, only its Retry-After is shared.

    Attributes:
        requests_per_minute: Requests that may begin in a minute.
        tokens_per_minute: Tokens of requests and responses in a minute. They are counted when a response ends, so the responses that
            run then can exceed the limit together; all wait longer afterwards.
        burst_s: How many seconds of the limits may be used at once after a pause.
    """

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    burst_s: float = 10.0

    def __attrs_post_init__(self) -> None:
        """Check the values. Raises ValueError if one cannot be a limit."""
        for name in ("requests_per_minute", "tokens_per_minute"):
            limit = getattr(self, name)
            if limit is not None and not 0 < limit < inf:
                raise ValueError(f"{name} is {limit:g}, not a number above 0")
        if not 0 <= self.burst_s < inf:
            raise ValueError(f"burst_s is {self.burst_s:g}, not 0 or a number above it")

    def part(self, share: float) -> ProviderLimits:
        """Return a part of the limits, for one of several processes."""
        requests, tokens = self.requests_per_minute, self.tokens_per_minute
        return self.evolve(
            requests_per_minute=requests and requests * share, tokens_per_minute=tokens and tokens * share
        )


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.rate_limits]``.

    Attributes:
        providers: The limits by the id of the provider.
        file: The SQLite file with the state of all buckets. By default ``$CODEX_HOME/rate_limits.sqlite``. All processes that share
            limits must be able to write it, so it cannot be on a network file system.
    """

    providers: Mapping[str, ProviderLimits] = field(factory=dict)
    file: str = ""
