"""The wait before a broken response is requested again."""

from __future__ import annotations

__all__ = ["jitter"]


def jitter() -> float:
    """Return a factor near 1 for the wait before a retry, so that many threads do not retry at the same moment."""
    import random  # here, because most runs retry nothing

    return random.uniform(0.9, 1.1)  # noqa: S311  # spreads retries; nothing secret
