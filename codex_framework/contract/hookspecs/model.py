"""The hooks for the model: its tools, providers and context."""

from __future__ import annotations

from collections.abc import Iterable

from codex_framework.contract.hookspecs.markers import hookspec
from codex_framework.contract.roles.context import ContextSource
from codex_framework.contract.roles.models import ModelCatalogue, ModelProvider
from codex_framework.contract.roles.plugins import PluginContext
from codex_framework.contract.roles.tools import Tool

__all__ = ["codex_context_sources", "codex_model_catalogues", "codex_model_providers", "codex_tools"]


@hookspec
def codex_tools(plugin: PluginContext) -> Iterable[Tool]:  # type: ignore[empty-body]
    """Offer tools, which the model can call.

    If two plugins offer the same name, both are reported and one of them gets the name. The order of priority is: the plugin that
    is first in ``[framework] plugins.prefer``, a plugin that the program passed to ``Kernel.create``, a bundled plugin, the first
    plugin by entry-point name.

    Example:
        ```python
        from codex_framework import ToolContext, hookimpl, tool


        @tool
        async def count_words(path: str, context: ToolContext) -> str:
            \"\"\"Count the words of a file in the workspace.\"\"\"
            return str(len((await context.read_text(path)).split()))


        @hookimpl
        def codex_tools():
            return [count_words]
        ```
    """


@hookspec
def codex_model_providers(plugin: PluginContext) -> Iterable[ModelProvider]:  # type: ignore[empty-body]
    """Offer model providers, which stream responses. ``wire_api`` in the configuration selects one by name.

    Example:
        ```python
        from codex_framework import Completed, ItemDone, Message, ModelProvider, OutputText, hookimpl


        class EchoClient:
            async def stream(self, request):
                said = request.prompt.items[-1]
                yield ItemDone(Message("assistant", (OutputText(f"You said: {said.content[0].text}"),)))
                yield Completed("response-1")

            async def aclose(self):
                pass


        class Echo(ModelProvider):
            name = "echo"

            def open(self, info, env):
                return EchoClient()


        @hookimpl
        def codex_model_providers():
            return [Echo()]
        ```
    """


@hookspec
def codex_model_catalogues(plugin: PluginContext) -> Iterable[ModelCatalogue]:  # type: ignore[empty-body]
    """Offer catalogues, which know the properties of models: context windows, tool forms, reasoning efforts, prices.

    Example:
        ```python
        from codex_framework import ModelCatalogue, ModelInfo, hookimpl


        class House(ModelCatalogue):
            name = "house"

            def model(self, slug, provider):
                return ModelInfo(slug=slug, context_window=64_000) if slug == "house-model" else None

            def models(self, provider):
                return [self.model("house-model", provider)]


        @hookimpl
        def codex_model_catalogues():
            return [House()]
        ```
    """


@hookspec
def codex_context_sources(plugin: PluginContext) -> Iterable[ContextSource]:  # type: ignore[empty-body]
    r"""Offer context sources, which add fragments of instructions and context to the prompt.

    Example:
        ```python
        from codex_framework import ContextSource, Fragment, hookimpl


        class House(ContextSource):
            name = "house"
            reads = frozenset()  # nothing that changes: asked once for all threads of a folder

            def fragments(self, facts):
                text = "<house_rules>\nWrite British English.\n</house_rules>"
                yield Fragment(role="developer", text=text, start="<house_rules>", end="</house_rules>")


        @hookimpl
        def codex_context_sources():
            return [House()]
        ```
    """
