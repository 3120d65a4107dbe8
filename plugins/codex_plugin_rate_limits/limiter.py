"""The interceptor that lets requests wait for their bucket."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping

from codex_framework import (
    ClientWrapper,
    Completed,
    Interceptor,
    ModelClient,
    ModelError,
    ModelEvent,
    ModelRequest,
    ProviderInfo,
)
from codex_framework.contract.roles.models import ModelWarning
from codex_plugin_rate_limits.buckets import Buckets, BucketStore
from codex_plugin_rate_limits.settings import ProviderLimits

__all__ = ["LimitedClient", "RateLimiter"]

_TOLD_S = 5.0
"""The user is told of a wait that is at least so long."""

_LONGEST_SLEEP_S = 5.0
"""How long a request that waits sleeps before it asks again, because another process may have been told to wait longer."""


class RateLimiter(Interceptor):
    """Wraps the clients of the providers that have limits. Each attempt of a request waits, retries included.

    Args:
        providers: The limits by the id of the provider.
        store: Where the buckets are stored.
        environ: The environment variables with the keys.
    """

    name = "rate_limits"
    order = 1000

    def __init__(self, providers: Mapping[str, ProviderLimits], store: BucketStore, environ: Mapping[str, str]) -> None:
        self._providers = providers
        self._environ = environ
        self._buckets = Buckets(store)

    def client(self, client: ModelClient, provider: ProviderInfo) -> ModelClient:
        """Return a client that waits, if the provider is limited."""
        limits = self._providers.get(provider.id)
        if limits is None:
            return client
        return LimitedClient(client, self._buckets, bucket_name(provider, self._environ), limits)


def bucket_name(provider: ProviderInfo, environ: Mapping[str, str]) -> str:
    """Return the name of the bucket of a server and a key. The key cannot be read from it."""
    key = environ.get(provider.env_key or "", "") or provider.experimental_bearer_token or ""
    digest = hashlib.sha256(f"{provider.base_url}\n{key}".encode("utf-8", "surrogateescape")).hexdigest()
    return f"{provider.id}:{digest[:16]}"


class LimitedClient(ClientWrapper):
    """A client whose requests wait for a bucket."""

    def __init__(self, client: ModelClient, buckets: Buckets, name: str, limits: ProviderLimits) -> None:
        super().__init__(client)
        self._buckets = buckets
        self._name = name
        self._limits = limits
        self._is_lost = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Request a response as soon as the bucket allows it."""
        wait = await self._buckets.reserve(self._name, self._limits)
        fault = self._buckets.fault
        if fault is not None and not self._is_lost:
            part = f"{self._buckets.share:.0%} of them" if self._buckets.share < 1 else "them alone"
            yield ModelWarning(f"Rate limits are not shared: {fault.fact}. This process keeps to {part}. {fault.hint}")
        self._is_lost = fault is not None
        if wait >= _TOLD_S:
            yield ModelWarning(f"The request waits {wait:.0f} s for the rate limits that all sessions share.")
        while wait > 0:
            await asyncio.sleep(min(wait, _LONGEST_SLEEP_S))
            wait = max(wait - _LONGEST_SLEEP_S, await self._buckets.delay(self._name, self._limits))
        try:
            async with self.response(request) as events:
                async for event in events:
                    if isinstance(event, Completed) and event.usage is not None:
                        await self._buckets.charge(self._name, event.usage.total_tokens, self._limits)
                    yield event
        except ModelError as error:
            if error.retry_after_s is not None:
                await self._buckets.hold(self._name, error.retry_after_s, self._limits)
            raise

    async def aclose(self) -> None:
        """Close the other client, and the store."""
        await super().aclose()
        self._buckets.close()
