"""A thread for tests: a real kernel with nothing but a scripted model and the tools a test brings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from codex_framework.testing import KernelFactory, Offer
from codex_framework.testing.scripted import ReplySource
from codex_framework.threads.thread import Thread

MakeThread = Callable[..., AbstractAsyncContextManager[Thread]]


@pytest.fixture
def make_thread(make_kernel: KernelFactory) -> MakeThread:
    """``async with make_thread([replies], tools=[...], approval_policy=...) as thread``."""

    @asynccontextmanager
    async def make(
        replies: Sequence[ReplySource],
        *,
        config: Sequence[str] = (),
        settings: dict[str, Any] | None = None,
        **offers: Any,
    ) -> AsyncIterator[Thread]:
        made = make_kernel(replies, plugins=[Offer(name="Offer", **offers)], config=config, entry_points=())
        async with made as kernel:
            assert [report.problems for report in kernel.registry.reports if report.problems] == []
            thread = await kernel.start_thread(**(settings or {}))
            thread.model = kernel.model  # type: ignore[attr-defined]
            yield thread

    return make
