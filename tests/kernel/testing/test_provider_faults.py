"""The check of providers finds those that a failing server makes wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from codex_framework import ItemDone, ModelClient, ModelError, ModelEvent, ModelProvider, ModelRequest, ProviderInfo
from codex_framework.testing import RESPONSES, ContractViolation, check_provider
from codex_plugin_openai.provider import ResponsesProvider


class Careless(ModelProvider):
    """Changes what a good provider does."""

    name = "responses"

    def __init__(self, fault: str) -> None:
        self._fault = fault

    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> ModelClient:
        return CarelessClient(ResponsesProvider().open(info, env), self._fault)


class CarelessClient:
    def __init__(self, client: ModelClient, fault: str) -> None:
        self._client = client
        self._fault = fault

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        stream: Any = self._client.stream(request)
        try:
            async for event in stream:
                yield event
                if self._fault == "twice" and isinstance(event, ItemDone):
                    yield event
        except ModelError as error:
            if self._fault == "final":
                error.retryable = False
            elif self._fault == "hurried":
                error.retry_after_s = None
            elif self._fault == "untyped":
                raise RuntimeError(str(error)) from error
            raise
        finally:
            await stream.aclose()

    async def aclose(self) -> None:
        await self._client.aclose()


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("twice", "a request yields two items with the same id 'msg_1_1'"),
        ("final", "falls silent raises a ModelError whose retryable is False"),
        ("hurried", "answers 429 with retry-after raises a ModelError whose retry_after_s is None"),
        ("untyped", "a request to a server that never ends the response"),
    ],
)
def test_a_careless_provider_is_found(fault: str, found: str) -> None:
    with pytest.raises(ContractViolation) as caught:
        check_provider(Careless(fault), wire=RESPONSES)
    assert found in str(caught.value)
