"""The role of a model provider, which streams responses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from codex_framework.contract.protocol.events.event import EventMsg
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.items import ResponseItem
from codex_framework.contract.roles.tool_specs import ToolSpec
from codex_framework.contract.value import Value, field

__all__ = [
    "AnsweredBy",
    "Completed",
    "ItemAdded",
    "ItemDone",
    "LeftOut",
    "ModelCatalogue",
    "ModelClient",
    "ModelEvent",
    "ModelInfo",
    "ModelNotice",
    "ModelPrices",
    "ModelProvider",
    "ModelRequest",
    "ModelWarning",
    "OpenModel",
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
        id: The name of the table.
        wire_api: The :class:`ModelProvider` plugin that serves it (``responses``, ``replay``, ...).
        env_key: The environment variable with the API key.
        env_key_instructions: The message for users who have not set it.
        query_params: Added to every request's URL.
        http_headers: Sent with every request.
        env_http_headers: Header name to environment variable. A header is sent if its variable is set and not empty.
        request_max_retries: Retries of requests that fail before a response (0 to 100).
        stream_max_retries: Retries of responses that break off (0 to 100).
        stream_idle_timeout_ms: Longest time within a response without an event that carries a part of it, in milliseconds.
        response_timeout_ms: Longest wait for the head of a response, in milliseconds. Some servers read the whole prompt first.
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
    response_timeout_ms: int = 120_000
    requires_openai_auth: bool = False
    options: Mapping[str, Any] = field(factory=dict)


_DEAREST = 1e12
"""No price per million tokens is higher, in any currency."""


class ModelPrices(Value, kw_only=True):
    """The prices of a model, per million tokens.

    Attributes:
        input: Tokens of requests.
        output: Tokens of responses, reasoning included.
        cached_input: Tokens of requests that the provider has in its cache. By default, the price of other input.
        cache_write: Tokens of requests that the provider puts into its cache. By default, the price of other input.
        currency: The code of the currency (ISO 4217).
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    currency: str = "USD"

    def __attrs_post_init__(self) -> None:
        """Check the values. Raises ValueError if one cannot be a price."""
        for name in ("input", "output", "cached_input", "cache_write"):
            price = getattr(self, name)
            if price is not None and not 0 <= price <= _DEAREST:
                raise ValueError(f"{name} is {price}, which is not a price")
        if not self.currency.strip():
            raise ValueError("the currency is empty")


class ModelInfo(Value, kw_only=True):
    """The properties of a model (wire: ``ModelInfo``, the fields that the kernel and the bundled tools use).

    Attributes:
        slug: The name sent on the wire.
        known: False if the name is in no catalogue. The values are then fallbacks.
        context_window: In tokens.
        truncation: ``("tokens", n)`` or ``("bytes", n)``: the maximum length of a tool's output.
        shell_type: The command tool to offer: ``unified_exec``, ``shell_command``, ``shell``, ``local`` or ``disabled``.
        apply_patch: The form of the tool that edits files: ``freeform``, ``function`` or None. Only the Responses API has
            freeform tools; the toolkit's ``Projection`` makes functions of them.
        parallel_tool_calls: Whether a response may contain several calls.
        reasoning: Whether the model reasons. If not, send neither an effort nor a summary.
        verbosity: The verbosity if none is configured: ``low``, ``medium`` or ``high``. None if the model does not support it.
        supports_images: Whether the model takes images. If not, prompts have notes in their place.
        image_detail_original: Whether images may be sent in their original size.
        tool_search: Whether the model and its provider have tool search on the wire (wire: ``supports_search_tool``).
        namespaces: Whether the model and its provider take tools in groups (``FunctionSpec.namespace``).
        lite: Whether requests have the shorter form of the newest models: tools and instructions are items of the input (wire:
            ``use_responses_lite``).
        multi_agent: The group of tools for sub-agents that the model knows: ``v1``, ``v2`` or ``disabled`` (wire:
            ``multi_agent_version``). None leaves the choice to the configuration.
        tool_mode: How the model calls tools: ``direct``, ``code_mode_only`` (by the programs that it writes) or ``code_mode``
            (both).
        display_name: The name shown to users. Empty means the slug.
        default_effort: The reasoning effort if none is configured. None leaves it to the server.
        efforts: The supported reasoning efforts, weakest first. Empty means that they are unknown.
        default_summary: The form of reasoning summaries if none is configured. By default, none is requested.
        max_context_window: The largest window that ``model_context_window`` can set, in tokens, if known.
        usable_percent: The share of the window that clients are told of, in percent (wire:
            ``effective_context_window_percent``). The rest is for the answer and for errors of estimates.
        hidden: Whether lists of models leave it out unless everything is asked for.
        base_instructions: The instructions of this model. By default, the framework's.
        prices: The prices of the model. None means unknown, which is not the same as 0.
        compaction_hash: Differs between models that do not continue each other's conversations well (wire: ``comp_hash``).
        extra_tools: The tools that the model knows besides the usual ones, by name (wire: ``experimental_supported_tools``).
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
    tool_search: bool = False
    namespaces: bool = False
    lite: bool = False
    multi_agent: str | None = None
    tool_mode: str = "direct"
    display_name: str = ""
    efforts: tuple[str, ...] = ()
    default_summary: str | None = None
    max_context_window: int | None = None
    hidden: bool = False
    base_instructions: str | None = None
    prices: ModelPrices | None = None
    usable_percent: int = 95
    compaction_hash: str | None = None
    extra_tools: tuple[str, ...] = ()

    @property
    def usable_window(self) -> int:
        """The part of the window that clients are told of, in tokens (wire: ``model_context_window``)."""
        return self.context_window * self.usable_percent // 100


class Prompt(Protocol):
    """The thread's history for one request: an immutable snapshot."""

    @property
    def items(self) -> Sequence[ResponseItem]:
        """The items, oldest first, normalised (every call has exactly one output)."""
        ...

    def encoded(self) -> bytes:
        """Return the items as a JSON array in UTF-8. This is cheap, because each item is encoded only once."""
        ...

    def for_provider(self, provider: str) -> Prompt:
        """Return the prompt for another provider, by its id: with the reasoning that it wrote, and without the reasoning of others.

        The prompt of a request is already the one for its provider.
        """
        ...


class Measure(Protocol):
    """Reports to telemetry what happened during a request."""

    def __call__(
        self,
        name: str,
        attributes: Mapping[str, str | float | bool],
        *,
        time_s: float,
        duration_s: float = 0.0,
        failed: bool = False,
        marks: Sequence[tuple[str, float]] = (),
    ) -> None:
        """Report an event, with the fields of a :class:`~codex_framework.Measurement`. Never put prompt text into attributes."""
        ...


class ModelRequest(Value, kw_only=True):
    """One request for a response.

    Attributes:
        model: The properties of the model. Send ``model.slug``.
        instructions: The base instructions.
        prompt: The conversation.
        tools: The tools that the model may call.
        parallel_tool_calls: Whether the response may contain several calls.
        thread_id: The conversation. A client answers requests of many threads at the same time.
        turn_id: The turn. Retries, and requests after calls, have the same one.
        output_schema: A JSON Schema that the final message must follow.
        reasoning_effort: None leaves it to the model.
        cache_key: Equal for all requests of a thread (wire: ``prompt_cache_key``).
        metadata: Metadata from the kernel and plugins.
        client_metadata: Metadata from the thread's client. It must not override other metadata.
        measure: Reports attempts (``codex.api_request``) and received events (``codex.sse_event``) to telemetry. None if no
            telemetry is active.
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
    client_metadata: Mapping[str, str] = field(factory=dict)
    measure: Measure | None = field(default=None, eq=False, repr=False)


class ItemAdded(Value):
    """The model has started an item. Its text is still empty. Pieces that follow name the item by its id."""

    item: ResponseItem


class ItemDone(Value):
    """An item is complete. It is recorded, and a call starts immediately. Ids are unique among all responses."""

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
    """The reasoning summary continues with another part."""

    item_id: str
    index: int


class ToolInputDelta(Value):
    """A piece of a freeform call's input."""

    item_id: str
    delta: str


class ModelWarning(Value):
    """Something about the request that the user should know. It is shown as a warning, and the response continues."""

    message: str


class RateLimits(Value):
    """A ``RateLimitSnapshot`` as the wire has it."""

    snapshot: Mapping[str, Any]


class ModelNotice(Value):
    """A notice from the server about the turn. Clients receive ``event``, and once per turn if it is repeated."""

    event: EventMsg


class LeftOut(Value):
    """The request does not carry a part of the history. The user is warned once per thread and cause.

    Attributes:
        what: A word for it: ``reasoning``, ``images``, ``hosted tools``, ...
        count: How many.
        reason: Why, as a clause: ``the model takes no images``.
    """

    what: str
    count: int
    reason: str


class AnsweredBy(Value):
    """Another provider answers. Yield this before the first event of that provider.

    Attributes:
        provider, model: The provider and model from here on. The items that follow are recorded as written by this provider.
        reason: Why, as a clause, for a warning to the user. Empty gives no warning.
    """

    provider: str
    model: str
    reason: str = ""


class OpenModel(Value):
    """A model of any provider, ready to be asked.

    Attributes:
        info: The properties of the model.
        provider: The provider's table.
        client: The client of the provider. The kernel closes it.
    """

    info: ModelInfo
    provider: ProviderInfo
    client: ModelClient


class Completed(Value):
    """The response is complete. ``end_turn`` False asks for another request although no tool was called.

    Attributes:
        usage: The tokens of the response. None if the server did not count them. Do not pass zeros then: the size of the
            conversation, on which compaction depends, is estimated only without them.
    """

    response_id: str
    usage: TokenUsage | None = None
    end_turn: bool | None = None


ModelEvent: TypeAlias = (
    ItemAdded
    | ItemDone
    | TextDelta
    | ReasoningDelta
    | ReasoningPartAdded
    | ToolInputDelta
    | RateLimits
    | LeftOut
    | AnsweredBy
    | ModelWarning
    | ModelNotice
    | Completed
)


class ModelClient(Protocol):
    """A client of one provider, shared by all threads of a kernel. Any number of streams may be open at once.

    A client may have these attributes, too. A wrapper that derives from :class:`~codex_framework.ClientWrapper` keeps the ones
    of the client that it wraps.

    - ``compacts``: True if its server shortens conversations itself. The server answers a request whose last item is
      ``{"type": "compaction_trigger"}`` with one item ``compaction``, which replaces the conversation in later requests.
      Compactors decide whether to ask for it (``TaskContext.server_compacts``). A client that cannot compact a particular
      request raises a ModelError with the slug ``not-compacted``.
    - ``async prepare(request, whole)``: gets ready for the first request of a thread, such as by opening a connection. It is
      optional and does not raise. ``request`` names the thread and the model. ``await whole()`` returns the request without its
      items, for servers that can prepare for it, or None if it must not be sent.
    - ``close_timeout_s``: the time limit of :meth:`aclose` in seconds, instead of 5.
    """

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Request one response.

        Yields events in the order of the wire and ends after ``Completed``. Closing the iterator (``aclose``) or cancelling the
        task ends the request immediately.

        Raises:
            ModelError: The request failed. Raise no other exception. ``retryable`` states whether a retry can help.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection. Safe to call twice. The time limit is 5 seconds, or ``close_timeout_s``."""
        ...


class ModelProvider:
    """A kind of provider, chosen by ``wire_api`` in config.

    Attributes:
        name: The value of ``wire_api``.
        builtin: Providers that need no table in the configuration (``openai``, ...), by id.
    """

    name: str
    builtin: Mapping[str, ProviderInfo] = MappingProxyType({})

    @abstractmethod
    def open(self, info: ProviderInfo, env: Mapping[str, str]) -> ModelClient:
        """Create a client, without I/O. Called once per kernel, when a turn first needs this provider.

        Raises:
            ModelError: The table is incomplete (no key, no URL). The hint says what to set.
        """
        raise NotImplementedError

    def model(self, slug: str) -> ModelInfo | None:  # noqa: ARG002  # for those who override it
        """Return the properties of a model, or None if the provider does not know the name."""
        return None


class ModelCatalogue:
    """Knows the properties of models, whichever provider serves them.

    A catalogue overrides the provider (:meth:`ModelProvider.model`). If several catalogues know a model, the first one decides,
    in the order of plugins.

    Attributes:
        name: The name, which lists of models show as the source.
    """

    name: str

    @abstractmethod
    def model(self, slug: str, provider: ProviderInfo) -> ModelInfo | None:
        """Return the properties of a model at a provider, or None if the catalogue does not know it.

        Called for each turn, so it must not wait for a network.
        """
        raise NotImplementedError

    def models(self, provider: ProviderInfo) -> Iterable[ModelInfo]:  # noqa: ARG002  # for those who override it
        """Return all models of a provider that the catalogue knows, for lists, the recommended ones first."""
        return ()
