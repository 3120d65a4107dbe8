"""What a careless plugin does, and what comes of it: one module for a group of rows of the table of order and failure."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from codex_framework.testing import KernelFactory, Offer, ThreadFactory


@pytest.fixture
def thread_with(make_kernel: KernelFactory) -> Callable[..., Any]:
    """``async with thread_with(components=[...]) as thread``: what is offered is that of a plugin ``careless``."""
    factory = ThreadFactory(make_kernel)

    def make(*answers: Any, replies: Any = (), config: Any = (), **more: Any) -> Any:
        names = set(inspect.signature(Offer.__init__).parameters)
        offers = {name: more.pop(name) for name in list(more) if name in names}
        plugin = Offer(name="careless", **offers)
        return factory(plugin, *answers, replies=replies, config=config, entry_points=(), **more)

    return make


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing take as long as it may."""
    for name, seconds in (
        ("plugin_calls.CLEAN_UP_S", 0.2),
        ("thread_parts.BEFORE_CALLS_PATIENCE_S", 0.3),
        ("thread_parts.TURN_ENDED_PATIENCE_S", 0.2),
        ("ops.HANDLER_PATIENCE_S", 0.3),
        ("plugin_calls.CLOSE_PATIENCE_S", 0.2),
        ("plugin_view.PATIENCE_S", 0.2),
        ("task_run.PATIENCE_S", 0.2),
        ("turn.driver.CANCEL_PATIENCE_S", 0.2),
    ):
        monkeypatch.setattr(f"codex_framework.threads.{name}", seconds)
    monkeypatch.setattr("codex_framework.contract.roles.reviewers.ApprovalReviewer.time_limit_s", 0.3)
