"""Gives threads the tool ``image_gen.imagegen`` if their provider uses a login with ChatGPT, as Codex 0.169 does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from codex_framework import Component, ProviderInfo, ThreadComponent, ThreadContext, Tool, TurnFacts
from codex_framework.contract.errors import ModelError
from codex_plugin_openai.shared_access import SharedAccess

if TYPE_CHECKING:
    from codex_lib_model_client.credentials import Access
    from codex_plugin_openai.imagegen import ImageGen

__all__ = ["Images"]

_OPENAI_URL = "https://api.openai.com/v1"


class Images(Component):
    """Knows which providers draw images.

    Args:
        shared: The credentials of providers.
        environ: The kernel's environment variables.
    """

    name: ClassVar[str] = "image_gen"

    def __init__(self, shared: SharedAccess, environ: Mapping[str, str], codex_home: Path) -> None:
        self._shared = shared
        self._environ = environ
        self._home = codex_home
        self._tools: list[tuple[ProviderInfo, ImageGen]] = []

    def for_thread(self, thread: ThreadContext) -> ThreadComponent:
        """Return the part of a thread that offers the tool."""
        return _Part(self, thread)

    async def aclose(self) -> None:
        """Close all connections."""
        for _, tool in self._tools:
            await tool.server.aclose()
        self._tools.clear()

    async def learn_plan(self, provider: ProviderInfo) -> bool:
        """Ask for the plan of the login of a provider if only the server knows it. Returns whether it did."""
        found = await asyncio.to_thread(self._access, provider)
        tokens = None if found is None else found.tokens
        if tokens is None or tokens.headers:
            return False
        with contextlib.suppress(ModelError):  # requests to the model fail with the same error
            await tokens.token()
        return True

    def tool(self, provider: ProviderInfo, *, animates: bool) -> ImageGen | None:
        """Return the tool for a provider, or None if its servers do not draw for this login."""
        found = self._access(provider)
        if found is None or getattr(found.tokens, "plan", None) == "free":
            return None
        for known, tool in self._tools:
            if known == provider and tool.animates == animates:
                return tool
        from codex_plugin_openai.imagegen import ImageGen
        from codex_plugin_openai.imagegen_server import ImageServer

        info = provider.evolve(base_url=found.base_url) if provider.base_url == _OPENAI_URL else provider
        try:
            server = ImageServer(info, self._environ, found)
        except ModelError:
            return None  # as above
        tool = ImageGen(server, self._home, animates=animates)
        self._tools.append((provider, tool))
        return tool

    def _access(self, provider: ProviderInfo) -> Access | None:
        """Return the login with ChatGPT that a provider uses, or None."""
        if provider.wire_api != "responses" or "record" in provider.options:  # a recording must contain all requests
            return None
        try:
            found = self._shared.of(provider, self._environ)
        except ModelError:
            return None  # as above
        return None if found.base_url is None else found


class _Part(ThreadComponent):
    def __init__(self, images: Images, thread: ThreadContext) -> None:
        self._images = images
        self._thread = thread

    async def start(self) -> None:
        """Find out the plan of the login. The first sample waits for it."""
        if not _is_on(self._thread.config, "image_generation", by_default=True):
            return
        if await self._images.learn_plan(self._thread.settings.provider):
            self._thread.tools_changed()

    def tools(self, turn: TurnFacts) -> Sequence[Tool]:
        """Return the tool, unless it is off (``features.image_generation``), or the model or the login cannot use it."""
        if not turn.model.supports_images or not _is_on(turn.config, "image_generation", by_default=True):
            return ()
        animates = _is_on(turn.config, "image_generation_animation", by_default=False)
        tool = self._images.tool(self._thread.settings.provider, animates=animates)
        return () if tool is None else (tool,)


def _is_on(config: Mapping[str, Any], feature: str, *, by_default: bool) -> bool:
    features = config.get("features")
    value = features.get(feature) if isinstance(features, Mapping) else None
    return value if isinstance(value, bool) else by_default
