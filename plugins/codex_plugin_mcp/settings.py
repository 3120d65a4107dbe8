"""The settings of the plugin."""

from __future__ import annotations

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.mcp]``.

    Attributes:
        startup_patience_s: How long the first request to the model waits for a server that is not required, in seconds from when
            it can be reached. By default, 1 second. Tools of servers that start later join when they are ready.
        elicitation_timeout_s: Time limit for the answer to a server's question, in seconds. 0 means no limit.
        roots: Whether servers may ask for the thread's folder.
        sampling: Names of the servers that may ask to use the model. The user is asked each time.
        sampling_max_requests: How many of these requests of a server are accepted in a thread.
        sampling_max_tokens: Token budget of one such request, input included.
    """

    startup_patience_s: float | None = None
    elicitation_timeout_s: float = 600.0
    roots: bool = True
    sampling: tuple[str, ...] = ()
    sampling_max_requests: int = 10
    sampling_max_tokens: int = 20_000
