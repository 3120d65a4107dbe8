"""Token buckets that processes share, wherever these are stored.

A bucket is two times: when the limit of requests, and when that of tokens, would be free again if nobody asked any more. A request
may begin as long as that is at most the burst ahead of now, and moves it on (the generic cell rate algorithm).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeAlias

from codex_framework import Value
from codex_framework.contract.errors import CodexError
from codex_plugin_rate_limits.settings import ProviderLimits

__all__ = ["Bucket", "BucketStore", "Buckets", "Change", "StoreError"]

_MINUTE_S = 60.0
_LONGEST_HOLD_S = 3600.0
"""A server that names a longer time, or a clock that was wrong, must not hold all processes for longer."""

_RETRY_S = 5.0
"""How long a store that failed is not asked again, because each attempt can take seconds."""


class StoreError(CodexError):
    """The store of buckets cannot be used now."""

    slug = "rate-limits"


class Bucket(Value, kw_only=True):
    """The state of a bucket, in seconds of the store's clock.

    Attributes:
        requests_at: When the limit of requests would be free again.
        tokens_at: When the limit of tokens would be free again.
        held_until: No request may begin before.
    """

    requests_at: float = 0.0
    tokens_at: float = 0.0
    held_until: float = 0.0

    def moved(self, seconds: float) -> Bucket:
        """Return the bucket on a clock that is this much ahead."""
        return Bucket(
            requests_at=self.requests_at + seconds,
            tokens_at=self.tokens_at + seconds,
            held_until=self.held_until + seconds,
        )


Change: TypeAlias = Callable[[Bucket, float], tuple[Bucket, float]]
"""Returns what becomes of a bucket, and a value for the caller. It gets the bucket and the time, and may be called twice."""


class BucketStore(Protocol):
    """Where buckets are stored. All processes that share limits use the same store, and its clock.

    Attributes:
        share: The part of the limits that this process may use while the store is lost.
    """

    share: float

    async def change(self, name: str, change: Change) -> float:
        """Change a bucket while no other process can, and return the value of the change. A new bucket is ``Bucket()``.

        Raises:
            StoreError: The store cannot be used now.
        """
        ...

    def close(self) -> None:
        """Close files and connections. A later change opens them again."""
        ...


class Buckets:
    """The buckets of a store. While the store is lost, this process limits itself to its share, from the last known state on.

    Attributes:
        fault: Why the store is lost. None if it is not.
    """

    def __init__(self, store: BucketStore) -> None:
        self._store = store
        self._known: dict[str, Bucket] = {}  # on the monotonic clock of this process
        self._retry_at = 0.0
        self.fault: StoreError | None = None

    @property
    def share(self) -> float:
        """The part of the limits that this process uses while the store is lost."""
        return self._store.share

    async def reserve(self, name: str, limits: ProviderLimits) -> float:
        """Reserve a place for a request, and return after how many seconds it may begin."""
        return await self._change(name, limits, _reserve)

    async def delay(self, name: str, limits: ProviderLimits) -> float:
        """Return for how many seconds a request with a reserved place still has to wait, for tokens or a server."""
        return await self._change(name, limits, lambda bucket, of, now: (bucket, _ready_at(bucket, of, now) - now))

    async def charge(self, name: str, tokens: int, limits: ProviderLimits) -> None:
        """Count the tokens of a response."""

        def change(bucket: Bucket, of: ProviderLimits, now: float) -> tuple[Bucket, float]:
            cost = tokens * _MINUTE_S / of.tokens_per_minute if of.tokens_per_minute else 0.0
            return bucket.evolve(tokens_at=max(bucket.tokens_at, now) + cost), 0.0

        if limits.tokens_per_minute:
            await self._change(name, limits, change)

    async def hold(self, name: str, seconds: float, limits: ProviderLimits) -> None:
        """Let no request begin for this time."""
        wait = min(max(seconds, 0.0), _LONGEST_HOLD_S)

        def change(bucket: Bucket, _: ProviderLimits, now: float) -> tuple[Bucket, float]:
            until = max(bucket.held_until, now + wait)
            return bucket.evolve(held_until=until, requests_at=max(bucket.requests_at, until)), 0.0

        await self._change(name, limits, change)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    async def _change(
        self,
        name: str,
        limits: ProviderLimits,
        change: Callable[[Bucket, ProviderLimits, float], tuple[Bucket, float]],
    ) -> float:
        def change_stored(bucket: Bucket, now: float) -> tuple[Bucket, float]:
            changed, value = change(_plausible(bucket, now), limits, now)
            self._known[name] = changed.moved(time.monotonic() - now)
            return changed, value

        if time.monotonic() >= self._retry_at:
            try:
                value = await self._store.change(name, change_stored)
            except StoreError as error:
                self.fault = error
                self._retry_at = time.monotonic() + _RETRY_S
            else:
                self.fault = None
                return value
        now = time.monotonic()
        known = self._known.get(name) or Bucket(requests_at=now + limits.burst_s, tokens_at=now + limits.burst_s)
        self._known[name], value = change(known, limits.part(self._store.share), now)
        return value


def _reserve(bucket: Bucket, limits: ProviderLimits, now: float) -> tuple[Bucket, float]:
    ready_at = _ready_at(bucket, limits, now)
    if limits.requests_per_minute:
        free_at = max(bucket.requests_at, now)
        ready_at = max(ready_at, free_at - limits.burst_s)
        bucket = bucket.evolve(requests_at=free_at + _MINUTE_S / limits.requests_per_minute)
    return bucket, ready_at - now


def _ready_at(bucket: Bucket, limits: ProviderLimits, now: float) -> float:
    tokens_at = bucket.tokens_at - limits.burst_s if limits.tokens_per_minute else now
    return max(now, bucket.held_until, tokens_at)


def _plausible(bucket: Bucket, now: float) -> Bucket:
    """Return a bucket without times that a clock that was wrong has left behind."""
    latest = now + _LONGEST_HOLD_S
    kept = {name: min(getattr(bucket, name), latest) for name in ("requests_at", "tokens_at", "held_until")}
    return Bucket(**kept)
