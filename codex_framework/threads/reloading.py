"""The user's configuration read again, for one thread or for all threads of a kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from codex_framework.config import Config

if TYPE_CHECKING:
    from codex_framework.threads.conversation import Conversation

__all__ = ["Reloaded", "read_configs_again", "reload_all"]


class Configured(Protocol):
    """An object with a configuration: a kernel."""

    config: Config


class Reloaded(NamedTuple):
    """A configuration that was read again.

    Attributes:
        config: The configuration with the changes that a running thread can apply.
        waiting: A sentence about changes that only affect other threads. May be empty.
    """

    config: Config
    waiting: str


async def reload_all(
    kernel: Configured, conversations: Callable[[], Sequence[Conversation]], environ: Mapping[str, str]
) -> str:
    """Read the user's files again for a kernel and all of its threads, which apply the changes in their next turn.

    Args:
        conversations: Returns the conversations of the running threads.

    Returns:
        A sentence about changes that need a new kernel. May be empty.

    Raises:
        ConfigError: See :func:`read_configs_again`. Then no thread changes.
    """
    found = await read_configs_again(lambda: [kernel.config, *(each.next_config for each in conversations())], environ)
    for each in conversations():
        each.next_config, waiting = found(each.next_config)
        if waiting and each.parent is None:
            each.journal.warn(waiting)
    kernel.config, waiting = found(kernel.config)
    return waiting


async def read_configs_again(
    current: Callable[[], Iterable[Config]], environ: Mapping[str, str]
) -> Callable[[Config], Reloaded]:
    """Read the user's files again for every current configuration, and return a function that finds the result for each.

    Configurations that change and threads that start during the reading are included: ``current`` is called again until every
    result is complete. The caller must use the results without awaiting in between.

    Raises:
        ConfigError: A file cannot be used, or does not fit one of the configurations.
    """
    from codex_framework.config.reloading import reload_config  # not before the first reload

    found: dict[int, tuple[Config, Reloaded]] = {}  # with the configuration itself, so that no other one gets its id
    while missing := [config for config in current() if id(config) not in found]:
        for config in missing:
            found[id(config)] = config, Reloaded(*await asyncio.to_thread(reload_config, config, environ))
    return lambda config: found[id(config)][1]
