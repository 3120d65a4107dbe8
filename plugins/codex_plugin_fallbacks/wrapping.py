"""The client that continues with another model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, cast

from codex_framework import (
    ClientWrapper,
    Component,
    Interceptor,
    ItemDone,
    KernelContext,
    ModelClient,
    ModelError,
    ModelEvent,
    ModelRequest,
    PluginContext,
    ProviderInfo,
    ServiceKey,
    Value,
)
from codex_framework.contract.errors import CodexError
from codex_framework.contract.protocol.items import UnknownItem
from codex_framework.contract.roles.models import AnsweredBy, LeftOut, OpenModel
from codex_plugin_fallbacks.health import Health, Target, Turn, is_final
from codex_plugin_fallbacks.settings import Settings, settings_of

__all__ = ["Made", "made"]


class FallbackComponent(Component):
    """Has the kernel, which opens models.

    Attributes:
        kernel: None until it has started.
    """

    name = "fallbacks"

    def __init__(self) -> None:
        self.kernel: KernelContext | None = None

    async def start(self, kernel: KernelContext) -> Mapping[ServiceKey[Any], object] | None:
        """Keep the kernel."""
        self.kernel = kernel
        return None


class Fallbacks(Interceptor):
    """Wraps the clients of all providers.

    It is the outermost wrapper, so that others, such as a recorder, see what each provider really answers.

    Args:
        default: The provider of fallbacks that name none.
    """

    name = "fallbacks"
    order = 2000

    def __init__(self, settings: Settings, component: FallbackComponent, default: str) -> None:
        self.settings = settings
        self._default = default
        self.component = component
        self.health = Health(settings.return_after_s)
        self.passed: set[int] = set()

    def client(self, client: ModelClient, provider: ProviderInfo) -> ModelClient:
        """Return a client that asks others where this one fails."""
        return FallbackClient(self, client, provider)

    @property
    def providers(self) -> set[str]:
        """The ids of the providers of all models in the list."""
        return {one.provider or self._default for one in self.settings.model_fallbacks}

    def targets(self, provider: str, model: str) -> list[Target]:
        """Return the models that can answer, beginning with the given one.

        A model of the list continues with the models after it.
        """
        own = (provider, model)
        listed = [(one.provider or self._default, one.model) for one in self.settings.model_fallbacks]
        after = listed[listed.index(own) + 1 :] if own in listed else listed
        return list(dict.fromkeys((own, *after)))

    def opened(self, target: Target) -> OpenModel:
        """Open a model. Raises CodexError."""
        if self.component.kernel is None:
            raise ModelError("the fallbacks have not started")
        return self.component.kernel.open_model(target[1], target[0])


class FallbackClient(ClientWrapper):
    """A client that continues with another model when its own has failed permanently.

    A response that has failed after complete items is not continued here: the turn records these items, runs the calls among
    them, and sends another request, which goes to the next model. So each call is made exactly once.
    """

    def __init__(self, fallbacks: Fallbacks, client: ModelClient, provider: ProviderInfo) -> None:
        super().__init__(client)
        self._fallbacks = fallbacks
        self._provider = provider

    @property
    def compacts(self) -> bool:
        """Whether the server compacts conversations, and all models that may continue can read its compactions.

        Other providers cannot. If one of them may continue, the table of the provider must request it (``remote_compaction =
        true``).
        """
        if getattr(self.client, "compacts", False) is not True:
            return False
        return self._provider.options.get("remote_compaction") is True or self._fallbacks.providers <= {
            self._provider.id
        }

    async def prepare(self, request: ModelRequest, whole: Callable[[], Awaitable[ModelRequest | None]]) -> None:
        """Let the provider's own client prepare, unless another model would be asked."""
        prepare = getattr(self.client, "prepare", None)
        targets = self._fallbacks.targets(self._provider.id, request.model.slug)
        if prepare is not None and self._fallbacks.health.first(targets) == targets[0]:
            await prepare(request, whole)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Request one response.

        Raises:
            ModelError: The last model failed, or one failed for a reason that is the request's own.
        """
        if id(request) in self._fallbacks.passed:  # it goes on for another one, and has no fallbacks itself
            async with aclosing(_events(self.client, request)) as events:
                async for event in events:
                    yield event
            return
        targets = self._fallbacks.targets(self._provider.id, request.model.slug)
        turn = self._fallbacks.health.turn(request.thread_id, request.turn_id, targets)
        while True:
            kept = False
            try:
                async with aclosing(self._ask_target(targets, turn, request)) as events:
                    async for event in events:
                        kept = kept or isinstance(event, ItemDone)
                        yield event
            except ModelError as error:
                if not self._goes_on(targets, turn, error):
                    raise
                if kept or error.usage is not None:  # the turn records the items, and counts the tokens
                    raise _retry_error(error) from error
                continue
            turn.failures = 0
            self._fallbacks.health.answered(turn.target)
            return

    def _goes_on(self, targets: list[Target], turn: Turn, error: ModelError) -> bool:
        """Note a failure. Return whether another model is asked from now on."""
        turn.failures += 1
        place = targets.index(turn.target)
        # The turn asks the first model again, as often as its provider allows. Of the others, each has one try for a response.
        retries = self._provider.stream_max_retries if place == 0 else 0
        if not is_final(error, turn.failures, retries, self._fallbacks.settings.longest_wait_s):
            return False
        if place + 1 == len(targets):
            return False
        self._fallbacks.health.failed(turn.target, str(error))
        turn.target = targets[place + 1]
        return True

    def _can_compact(self, model: OpenModel) -> bool:
        """Return whether a model can compact a conversation so that the provider of this client can read it."""
        return model.provider.id == self._provider.id and getattr(model.client, "compacts", False) is True

    async def _ask_target(
        self, targets: list[Target], turn: Turn, request: ModelRequest
    ) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model whose turn it is."""
        target = turn.target
        reason = self._fallbacks.health.reason(request.thread_id, targets, target)
        if target == targets[0]:
            async with aclosing(_events(self.client, request)) as events:
                async for event in events:
                    yield event
            return
        try:
            model = self._fallbacks.opened(target)
        except CodexError as error:
            raise ModelError(str(error), slug="unreachable", hint=error.hint) from error
        if _compacts(request) and not self._can_compact(model):
            fact = f"`{model.info.slug}`, which takes over, does not compact conversations for the provider {self._provider.id!r}"
            raise ModelError(fact, info="bad_request", slug="not-compacted")
        yield AnsweredBy(*target, reason)
        other = _for_model(request, model)
        if count := len({id(item) for item in request.prompt.items} - {id(item) for item in other.prompt.items}):
            yield LeftOut("reasoning", count, "only the provider that wrote it can use it")
        self._fallbacks.passed.add(id(other))
        try:
            async with aclosing(_events(model.client, other)) as events:
                async for event in events:
                    yield event
        finally:
            self._fallbacks.passed.discard(id(other))


class Made(Value):
    """The offers of the plugin."""

    interceptor: Fallbacks
    component: FallbackComponent


def made(plugin: PluginContext) -> Made | None:
    """Make the interceptor and its component. None if there are no fallbacks.

    Raises:
        ConfigError: A setting has the wrong type.
    """
    settings = settings_of(plugin)
    if not settings.model_fallbacks:
        return None
    component = FallbackComponent()
    default = str(plugin.config.get("model_provider") or "openai")
    return Made(Fallbacks(settings, component, default), component)


def _events(client: ModelClient, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    # The role requires an iterator that can be closed, which its type cannot express.
    return cast("AsyncGenerator[ModelEvent, None]", client.stream(request))


def _compacts(request: ModelRequest) -> bool:
    """Return whether a request asks the server to compact the conversation."""
    items = request.prompt.items
    return bool(items) and isinstance(items[-1], UnknownItem) and items[-1].kind == "compaction_trigger"


def _for_model(request: ModelRequest, model: OpenModel) -> ModelRequest:
    """Return a request for another model: with its properties, and without reasoning of other providers."""
    info = model.info
    return request.evolve(
        model=info,
        prompt=request.prompt.for_provider(model.provider.id),
        parallel_tool_calls=request.parallel_tool_calls and info.parallel_tool_calls,
        reasoning_effort=request.reasoning_effort if info.reasoning else None,
        verbosity=info.verbosity,
        service_tier=None,
    )


def _retry_error(error: ModelError) -> ModelError:
    """Return an error after which the turn immediately sends another request, even without retries left."""
    again = ModelError(
        error.fact,
        retryable=True,
        info=error.info,
        slug=error.slug,
        hint=error.hint,
        usage=error.usage,
    )
    again.starts_over = True
    return again
