"""Run a single turn from a program, with a temporary kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codex_framework.config import Config
from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.ops import UserInputItem
from codex_framework.contract.roles.outcomes import Status
from codex_framework.kernel import Kernel

if TYPE_CHECKING:
    from typing import Unpack

    from codex_framework.contract.roles.setting_overrides import RunOptions

__all__ = ["run", "run_async"]


def run(
    prompt: str | Sequence[UserInputItem],
    *,
    config: Config | None = None,
    plugins: Sequence[object] = (),
    output_schema: Mapping[str, Any] | None = None,
    **overrides: Unpack[RunOptions],
) -> str:
    """Run one turn and return the model's final message. While an event loop is running, use :func:`run_async`.

    Args:
        prompt: Text, or input items.
        config: As for ``Kernel.create``.
        plugins: As for ``Kernel.create``.
        output_schema: A JSON Schema that the final message must follow.
        overrides: As for ``Kernel.start_thread``.

    Raises:
        CodexError: The turn failed or could not start, or an event loop is running in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise CodexError(
            "run() cannot be used while an event loop is running, as in a notebook",
            slug="running-loop",
            hint="Use its asynchronous twin: await codex_framework.run_async(...)",
        )
    return asyncio.run(run_async(prompt, config=config, plugins=plugins, output_schema=output_schema, **overrides))


async def run_async(
    prompt: str | Sequence[UserInputItem],
    *,
    config: Config | None = None,
    plugins: Sequence[object] = (),
    output_schema: Mapping[str, Any] | None = None,
    **overrides: Unpack[RunOptions],
) -> str:
    """Run one turn and return the model's final message, in a running event loop. It takes the same arguments as :func:`run`.

    Raises:
        CodexError: The turn failed or could not start. If the model or its server failed, ``__cause__`` is the ``ModelError``.
    """
    async with await Kernel.create(config, plugins=plugins) as kernel:
        thread = await kernel.start_thread(**overrides)
        result = await thread.run(prompt, output_schema=output_schema)
    if result.status is not Status.COMPLETED:
        raise CodexError(result.error or "the turn was interrupted", slug="turn-failed") from result.failure
    return result.final_message or ""
