"""The op ``list_models`` and its answer. This module is loaded with the plugin, so it imports nothing else of it."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import EventMsg, ModelInfo, Op, OpHandler, PluginContext, ThreadContext, Value

__all__ = ["Effort", "ListModels", "ListModelsHandler", "ListModelsResponseEvent", "ListedModel"]


class ListModels(Op):
    """Ask for the models that can be used at the thread's provider, answered with ``list_models_response``."""

    type: ClassVar[Literal["list_models"]] = "list_models"


class Effort(Value):
    """A reasoning effort that a model supports."""

    effort: str
    description: str = ""


class ListedModel(Value, kw_only=True):
    """A model. The names are the same as in Codex's lists.

    Attributes:
        id, model: The name for requests.
        is_default: Whether the thread uses it.
        show_in_picker: Whether interfaces should offer it.
        context_window: In tokens, before settings change it.
    """

    id: str
    model: str
    display_name: str
    default_reasoning_effort: str | None = None
    supported_reasoning_efforts: tuple[Effort, ...] = ()
    input_modalities: tuple[str, ...] = ("text",)
    is_default: bool = False
    show_in_picker: bool = True
    context_window: int | None = None


class ListModelsResponseEvent(EventMsg):
    """The models, in the order of the catalogues."""

    type: ClassVar[Literal["list_models_response"]] = "list_models_response"
    models: tuple[ListedModel, ...]


class ListModelsHandler(OpHandler[ListModels]):
    """Answers ``list_models``. No server is asked.

    Args:
        plugin: The plugin's context.
    """

    op = ListModels

    def __init__(self, plugin: PluginContext) -> None:
        self._plugin = plugin

    async def handle(self, op: ListModels, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002
        """Send the list. Raises CodexError if a catalogue cannot be read."""
        from codex_plugin_models.listing import known_models

        settings = thread.settings
        found = known_models(self._plugin, settings.provider, (settings.model,))
        models = tuple(_list_entry(known.model, current=known.model.slug == settings.model) for known in found)
        thread.emit(ListModelsResponseEvent(models), id=id)


def _list_entry(model: ModelInfo, *, current: bool) -> ListedModel:
    return ListedModel(
        id=model.slug,
        model=model.slug,
        display_name=model.display_name or model.slug,
        default_reasoning_effort=model.default_effort,
        supported_reasoning_efforts=tuple(Effort(effort) for effort in model.efforts),
        input_modalities=("text", "image") if model.supports_images else ("text",),
        is_default=current,
        show_in_picker=not model.hidden,
        context_window=model.context_window,
    )
