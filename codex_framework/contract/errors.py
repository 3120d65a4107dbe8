"""All errors that this package raises on purpose.

    CodexError
    |-- ConfigError        a config file, a -c override or a flag is wrong
    |-- PluginError        a plugin is broken, missing or contradicts another one
    |-- ThreadError        a thread cannot be found, loaded or written
    |-- RunError           a run has no output, for the stated reason
    |-- ServiceError       no plugin provides a service
    |-- TurnEnded          a context was used after its turn
    |-- InputRefused       an interceptor refuses an input
    |-- StopTurn           an interceptor or a tool ends the turn as a normal stop
    |-- ModelError         a model provider failed; records whether a retry can help
    |-- SandboxError       the sandbox cannot enforce the policy for a command
    |-- CommandFailed      a command could not be started
    |-- ToolError          a tool call failed; the text is returned to the model
    |   `-- ToolRefused    the call was not allowed (policy, reviewer or user)
    `-- FatalToolError     a tool call failed in a way that must end the turn

Each error has a *fact* with its values, a *slug* (a heading in ``docs/errors.md``) and a *hint* in the imperative. Programming
mistakes stay ``TypeError`` and ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = [
    "INVALID_IMAGE",
    "CodexError",
    "CommandFailed",
    "ConfigError",
    "FatalToolError",
    "InputRefused",
    "ModelError",
    "PluginError",
    "RunError",
    "SandboxError",
    "ServiceError",
    "StopTurn",
    "ThreadError",
    "ToolError",
    "ToolRefused",
    "TurnEnded",
    "described",
]


def described(error: BaseException) -> str:
    """Return the class and the text of an exception, without logins in URLs.

    If it has no text, or its text cannot be read, the class alone.
    """
    try:
        text = str(error)
    except Exception:  # whatever its __str__ raises
        text = ""
    return f"{type(error).__name__}: {_mask_urls(text)}" if text else type(error).__name__


def _mask_urls(text: str, *, queries: bool = True) -> str:
    """Return a text without what URLs in it keep secret."""
    if "://" not in text:
        return text
    from codex_framework.contract.urls import without_logins, without_queries

    return without_logins(text) if queries else without_queries(text)


def _readable(text: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a ``__str__`` that does not fail."""

    def __str__(error: CodexError) -> str:  # noqa: N807
        try:
            message = text(error)
        except Exception:  # whatever the author's method raises
            message = None
        return message if isinstance(message, str) else error.fact or type(error).__name__

    return __str__


class CodexError(Exception):
    """Base of the tree. ``str(error)`` is the fact alone.

    Attributes:
        fact: A sentence that states the problem, with its values.
        slug: The heading in ``docs/errors.md`` that explains it.
        hint: How to fix it, in the imperative. Empty if there is no useful advice.

    Logins in URLs (``https://user:password@host``) are removed from both texts, because errors end up in logs and records.

    Every attribute has a default, and the text never fails: a subclass may have an ``__init__`` that does not call this one, or a
    ``__str__`` that raises.
    """

    slug: str = "error"
    fact: str = ""
    hint: str = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__str__" in cls.__dict__:
            cls.__str__ = _readable(cls.__dict__["__str__"])  # type: ignore[method-assign]

    def __init__(self, fact: str, *, slug: str | None = None, hint: str = "") -> None:
        fact = _mask_urls(fact)
        super().__init__(fact)
        self.fact = fact
        if slug is not None:
            self.slug = slug
        self.hint = _mask_urls(hint)


class ConfigError(CodexError):
    """A setting is unknown, mistyped or contradictory. Queries of URLs are removed from the fact, too, because they may contain keys.

    Attributes:
        path: The file that contains the setting, or ``"-c"``, or the name of the flag.
        line: 1-based line in that file, if known.
        key: Dotted path of the setting, if known.
    """

    slug = "config"
    path: str | None = None
    line: int | None = None
    key: str | None = None

    def __init__(
        self,
        fact: str,
        *,
        path: str | None = None,
        line: int | None = None,
        key: str | None = None,
        slug: str | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(_mask_urls(fact, queries=False), slug=slug, hint=hint)
        self.path = path
        self.line = line
        self.key = key


class PluginError(CodexError):
    """A plugin cannot be used.

    Attributes:
        plugin: The entry-point name, with its distribution where known.
    """

    slug = "plugin"
    plugin: str = ""

    def __init__(self, plugin: str, fact: str, *, slug: str | None = None, hint: str = "") -> None:
        super().__init__(fact, slug=slug, hint=hint)
        self.plugin = plugin


class ThreadError(CodexError):
    """A thread cannot be found, loaded or written, or cannot do what was requested.

    Attributes:
        info: The error code for programs in the ``error`` event (wire: ``codex_error_info``).
    """

    slug = "thread"
    info: str | Mapping[str, Any] = "bad_request"

    def __init__(
        self, fact: str, *, slug: str | None = None, hint: str = "", info: str | Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(fact, slug=slug, hint=hint)
        if info is not None:
            self.info = info


class RunError(CodexError):
    """A run has no output: the turn failed or was stopped, or the model's answer does not fit the output type."""

    slug = "turn-failed"


class ServiceError(CodexError):
    """No component provides the service. The fact names the plugins that could provide it."""

    slug = "service"


class TurnEnded(CodexError):
    """A context was used after the end of its turn, task or call."""

    slug = "turn-ended"


class InputRefused(CodexError):
    """An interceptor refuses an input. The input is not recorded, and its sender receives the fact.

    Attributes:
        context: Texts for the model that are still recorded, as developer messages.
    """

    slug = "input-refused"
    context: tuple[str, ...] = ()

    def __init__(self, fact: str, *, context: Sequence[str] = (), slug: str | None = None, hint: str = "") -> None:
        super().__init__(fact, slug=slug, hint=hint)
        self.context = tuple(context)


class StopTurn(CodexError):
    """The turn must end now, as a normal stop. The fact is shown to the user."""

    slug = "stop-turn"


INVALID_IMAGE = "invalid-image"
"""The slug of a :class:`ModelError` for an image that the server refuses. Requests leave the newest images out from then on."""


class ModelError(CodexError):
    """A model provider could not deliver a complete response.

    Attributes:
        retryable: Whether sending the same history again can help.
        retry_after_s: Seconds to wait, as requested by the server. None if it requested no delay.
        info: The ``CodexErrorInfo`` wire value: a name, or ``{name: {"http_status_code": n}}``.
        usage: The tokens of the response that failed, a ``TokenUsage``. None if the server did not count them.
        starts_over: Whether the provider sends the next request in another way. It is then sent immediately, and the retry
            count is reset. This is done up to 20 times until a response is complete.
    """

    slug = "model"
    retryable: bool = False
    retry_after_s: float | None = None
    info: str | dict[str, Any] = "other"
    usage: Any = None
    starts_over: bool = False

    def __init__(
        self,
        fact: str,
        *,
        retryable: bool = False,
        retry_after_s: float | None = None,
        info: str | dict[str, Any] = "other",
        slug: str | None = None,
        hint: str = "",
        usage: Any = None,
    ) -> None:
        super().__init__(fact, slug=slug, hint=hint)
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.info = info
        self.usage = usage


class SandboxError(CodexError):
    """The sandbox cannot enforce the policy for this command. The command was not started."""

    slug = "sandbox"


class CommandFailed(CodexError):
    """A command could not be started (no such program, no such folder, no permission)."""

    slug = "command"


class ToolError(CodexError):
    """A tool call failed. The model reads the fact as the output of the call."""

    slug = "tool"


class ToolRefused(ToolError):
    """A tool call was not allowed. The model reads the fact."""

    slug = "refused"


class FatalToolError(CodexError):
    """A tool call failed in a way that must end the turn (a broken invariant, not a bad argument)."""

    slug = "fatal-tool"
