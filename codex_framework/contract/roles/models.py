"""The role of a model provider: where replies stream from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.roles.tool_specs import ToolSpec
from codex_framework.contract.value import Value, field

__all__ = [
    "Completed",
    "ItemAdded",
    "ItemDone",
    "ModelClient",
    "ModelEvent",
    "ModelInfo",
    "ModelProvider",
    "ModelRequest",
    "Prompt",
    "ProviderInfo",
    "RateLimits",
    "ReasoningDelta",
    "ReasoningPartAdded",
    "TextDelta",
    "ToolInputDelta",
]


class ProviderInfo(Value, kw_only=True):
    """A ``[model_providers.<id>]`` table (wire: ``ModelProviderInfo``).

    Attributes:
        id: The table's name.
        wire_api: Which :class:`ModelProvider` plugin serves it (``responses``, ``replay``, ...).
        env_key: The environment variable that holds the API key.
        env_key_instructions: What to tell a person who has not set it.
        query_params: Added to every request's URL.
        http_headers: Sent with every request.
        env_http_headers: Header name to environment variable; sent where the variable is set and not empty.
        request_max_retries: Tries after the first for requests that fail before a response (0 to 100).
        stream_max_retries: Tries after the first for responses that break off (0 to 100).
        stream_idle_timeout_ms: Longest silence within a response, in milliseconds.
        options: All other keys of the table, for the plugin.
    """

    id: str
    name: str = ""
    base_url: str | None = None
    wire_api: str = "responses"
    env_key: str | None = None
    env_key_instructions: str | None = None
    experimental_bearer_token: str | None = field(default=None, repr=False)
    query_params: Mapping[str, str] = field(factory=dict)
    http_headers: Mapping[str, str] = field(factory=dict, repr=False)
    env_http_headers: Mapping[str, str] = field(factory=dict)
    request_max_retries: int = 4
    stream_max_retries: int = 5
    stream_idle_timeout_ms: int = 300_000
    requires_openai_auth: bool = False
    options: Mapping[str, Any] = field(factory=dict)


class ModelInfo(Value, kw_only=True):
    """What is known of a model (wire: ``ModelInfo``, the fields that the kernel and the bundled tools use).

    Attributes:
        slug: The name sent on the wire.
        known: False for a name not in any catalogue; the values are then fallbacks.
        context_window: In tokens.
        truncation: ``("tokens", n)`` or ``("bytes", n)``: how long a tool's output may be.
        shell_type: ``unified_exec``, ``shell_command``, ``shell``, ``local`` or ``disabled``: which command tool to offer.
        apply_patch: ``freeform``, ``function`` or None.
    """

    slug: str
    known: bool = True
    context_window: int = 272_000
    truncation: tuple[str, int] = ("tokens", 10_000)
    shell_type: str = "unified_exec"
    apply_patch: str | None = "freeform"
    parallel_tool_calls: bool = True
    reasoning: bool = True
    default_effort: str | None = "medium"
    verbosity: str | None = None
    supports_images: bool = True
    image_detail_original: bool = False
    base_instructions: str | None = None


class Prompt(Protocol):
    """The thread's history as one request sees it: a snapshot that does not change."""

    @property
    def items(self) -> Sequence[ResponseItem]:
        """The items, oldest first, normalised (every call has exactly one output)."""
        ...

    def encoded(self) -> bytes:
        """The items as a JSON array in UTF-8; each item is encoded once in its life, so this is cheap."""
        ...


class ModelRequest(Value, kw_only=True):
    """One request for a response.

    Attributes:
        instructions: The base instructions.
        output_schema: A JSON Schema that the final message must follow.
        reasoning_effort: None leaves it to the model.
        cache_key: Equal for all requests of a thread (wire: ``prompt_cache_key``).
    """

    model: ModelInfo
    instructions: str
    prompt: Prompt
    tools: tuple[ToolSpec, ...]
    parallel_tool_calls: bool
    cache_key: str
    thread_id: str
    turn_id: str
    output_schema: Mapping[str, Any] | None = None
    reasoning_effort: str | None = None
    reasoning_summary: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    metadata: Mapping[str, str] = field(factory=dict)


class ItemAdded(Value):
    """The model has begun an item; its text is still empty."""

    item: ResponseItem


class ItemDone(Value):
    """An item is complete."""

    item: ResponseItem


class TextDelta(Value):
    """A piece of a message."""

    item_id: str
    delta: str


class ReasoningDelta(Value):
    """A piece of reasoning: of the summary (``raw`` False, ``index`` = summary part) or of the raw text."""

    item_id: str
    delta: str
    index: int = 0
    raw: bool = False


class ReasoningPartAdded(Value):
    """The reasoning summary goes on with another part."""

    item_id: str
    index: int


class ToolInputDelta(Value):
    """A piece of a freeform call's input."""

    item_id: str
    delta: str


class RateLimits(Value):
    """A ``RateLimitSnapshot`` as the wire has it."""

    snapshot: Mapping[str, Any]


class Completed(Value):
    """The response is whole. ``end_turn`` False asks for another request though no tool was called."""

    response_id: str
    usage: TokenUsage | None = None
    end_turn: bool | None = None


ModelEvent: TypeAlias = (
    ItemAdded | ItemDone | TextDelta | ReasoningDelta | ReasoningPartAdded | ToolInputDelta | RateLimits | Completed
)


class ModelClient(Protocol):
    """A way to ask one provider, shared by all threads of a kernel: any number of streams may be open at once."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask for one response.

        Yields events in the order of the wire and ends after ``Completed``. Closing the iterator (``aclose``) or cancelling
        the task ends the request at once.

        Raises:
            ModelError: Anything that went wrong, and nothing else; ``retryable`` says whether asking again can help.
        """
        ...

    async def aclose(self) -> None:
        """Give up the connection. Safe to call twice."""
        ...


class ModelProvider:
    """A kind of provider, chosen by ``wire_api`` in config.

    Attributes:
        name: The ``wire_api`` word.
        builtin: Provider ids that exist without a table in config (``openai``, ...).
    """

    name: str
    builtin: Mapping[str, ProviderInfo] = MappingProxyType({})

    @abstractmethod
    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> ModelClient:
        """Make a client. No I/O here; called once a kernel, when a turn first needs this provider.

        Raises:
            ModelError: The table lacks something (a key, a URL); the hint says what to set.
        """
        raise NotImplementedError

    def model(self, slug: str) -> ModelInfo | None:  # noqa: ARG002  # for those who override it
        """Return what this provider knows of a model, or None if it does not know the name."""
        return None
