"""The usage of a thread and its children, checked against their limits."""

from __future__ import annotations

import time

from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.roles.outcomes import Limits, Usage

__all__ = ["Budget"]


class Budget:
    """Counts the usage of a thread. The usage of a child also counts for its parent.

    Args:
        limits: The limits.
        parent: The budget of the thread that spawned this one.
        usage: The previous usage.
    """

    def __init__(self, limits: Limits = Limits(), *, parent: Budget | None = None, usage: Usage = Usage()) -> None:  # noqa: B008  # frozen
        self.limits = limits
        self._limited = limits != Limits()
        self._requests = usage.requests
        self._tool_calls = usage.tool_calls
        self._tokens = usage.tokens
        self._parent = parent
        self._seconds = 0.0
        self._running_since: float | None = None

    @property
    def usage(self) -> Usage:
        """What has been used so far."""
        return Usage(self._requests, self._tool_calls, self._tokens)

    def request(self) -> None:
        """Count a request."""
        self._requests += 1
        if self._parent is not None:
            self._parent.request()

    def tool_call(self) -> None:
        """Count a call of a tool."""
        self._tool_calls += 1
        if self._parent is not None:
            self._parent.tool_call()

    def tokens(self, usage: TokenUsage) -> None:
        """Count the tokens of a response."""
        self._tokens += usage
        if self._parent is not None:
            self._parent.tokens(usage)

    def begin(self) -> None:
        """Start to count the time of a turn."""
        self._running_since = time.monotonic()

    def end(self) -> None:
        """Stop to count the time of a turn."""
        if self._running_since is not None:
            self._seconds += time.monotonic() - self._running_since
            self._running_since = None

    def reached(self) -> str | None:
        """Return a sentence that names a limit reached here or by an ancestor. None means that no limit is reached."""
        found = self._reached() if self._limited else None
        if found is not None or self._parent is None:
            return found
        return self._parent.reached()

    def _reached(self) -> str | None:
        limits = self.limits
        for most, used, noun in (
            (limits.requests, self._requests, "requests"),
            (limits.tokens, self._tokens.total_tokens, "tokens"),
            (limits.tool_calls, self._tool_calls, "tool calls"),
            (limits.seconds, self._elapsed(), "seconds"),
        ):
            if most is not None and used >= most:
                return f"the limit of {most:g} {noun} is reached"
        return None

    def _elapsed(self) -> float:
        running = 0.0 if self._running_since is None else time.monotonic() - self._running_since
        return self._seconds + running
