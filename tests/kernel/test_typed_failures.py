"""The exception behind a failed turn, for programs that act on it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar

import pytest

import codex_framework
from codex_framework import (
    Agent,
    CodexError,
    ItemDone,
    Message,
    ModelError,
    ModelEvent,
    ModelProvider,
    ModelRequest,
    OutputText,
    ProviderInfo,
    RunError,
    Status,
    Value,
)
from codex_framework.config import load_config
from codex_framework.testing import ModelServer, Offer, fault, say

ONCE = "request_max_retries = 0\nstream_max_retries = 0\n"


def table(url: str) -> str:
    return f'model_provider = "mine"\n[model_providers.mine]\nbase_url = "{url}"\n{ONCE}'


@pytest.mark.parametrize(
    ("reply", "slug", "retryable", "retry_after_s"),
    [
        (fault(429, headers={"retry-after": "7"}), "rate-limit", True, 7.0),
        (fault(400, body={"error": {"message": "No such field."}}), "bad-request", False, None),
        (fault(401, body={"error": {"message": "Wrong key."}}), "unexpected-status", False, None),
        (say("Hel") + fault(after=1), "stream-disconnected", True, None),
    ],
)
def test_a_failed_turn_has_the_error_of_the_model(
    run_turn: Any, model_server: Any, reply: Any, slug: str, retryable: bool, retry_after_s: float | None
) -> None:
    server = model_server([reply])
    failure = run_turn("Hello!", config=table(server.url)).result.failure
    assert isinstance(failure, ModelError)
    assert (failure.slug, failure.retryable, failure.retry_after_s) == (slug, retryable, retry_after_s)


def test_a_turn_that_cannot_start_has_the_error_with_its_hint(run_turn: Any) -> None:
    config = f'{table("http://127.0.0.1:9/v1")}env_key = "NO_SUCH_KEY"\n'
    failure = run_turn("Hello!", config=config).result.failure
    assert isinstance(failure, ModelError)
    assert "NO_SUCH_KEY" in failure.fact
    assert "NO_SUCH_KEY" in failure.hint


def test_a_turn_that_did_not_fail_has_none(run_turn: Any) -> None:
    result = run_turn("Hello!", [say("Hi!")]).result
    assert (result.status, result.failure) == (Status.COMPLETED, None)


class Broken(ModelProvider):
    name = "broken"
    builtin: ClassVar[Mapping[str, ProviderInfo]] = {
        "broken": ProviderInfo(id="broken", wire_api="broken", stream_max_retries=0)
    }

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> Any:
        return self

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield ItemDone(Message("assistant", (OutputText("Hi."),)))
        if self._error is not None:
            raise self._error

    async def aclose(self) -> None:
        """Nothing is open."""


def test_a_provider_that_breaks_its_contract_is_a_model_error_too(run_turn: Any) -> None:
    error = KeyError("voice")
    config = 'model_provider = "broken"\n'
    failure = run_turn("Hello!", plugins=[Offer(providers=[Broken(error)])], config=config).result.failure
    assert isinstance(failure, ModelError)
    assert (failure.retryable, failure.__cause__) == (False, error)
    assert "stream() failed: KeyError: 'voice'" in failure.fact
    failure = run_turn("Hello!", plugins=[Offer(providers=[Broken(None)])], config=config).result.failure
    assert isinstance(failure, ModelError)
    assert failure.retryable
    assert "stream() ended without Completed" in failure.fact


class Answer(Value):
    text: str


def test_what_is_raised_in_place_of_a_result_has_it_as_its_cause(make_kernel: Any, tmp_path: Any) -> None:
    agent = Agent(name="answerer", instructions="Answer.", output_type=Answer)

    async def output(url: str) -> None:
        async with make_kernel(config=table(url)) as kernel:
            result = await kernel.run(agent, "Hello!")
            with pytest.raises(RunError) as caught:
                print(result.output)
            assert caught.value.__cause__ is result.failure
            assert isinstance(result.failure, ModelError)

    with ModelServer([fault(503)], repeat_last=True) as server:
        asyncio.run(output(server.url))
        environ = {**os.environ, "CODEX_HOME": str(tmp_path)}
        (tmp_path / "config.toml").write_text(table(server.url))
        config = load_config(cwd=tmp_path, environ=environ)
        with pytest.raises(CodexError) as caught:
            codex_framework.run("Hello!", config=config, ephemeral=True)
    assert caught.value.slug == "turn-failed"
    assert isinstance(caught.value.__cause__, ModelError)
