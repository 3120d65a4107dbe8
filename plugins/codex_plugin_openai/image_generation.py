"""The tool ``image_generation``, which the model's server runs itself. Its images are saved here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codex_framework import (
    NativeSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolSpec,
    TurnContext,
    TurnFacts,
)
from codex_framework.contract.protocol.items import user_message
from codex_plugin_openai.saved_images import image_bytes, save_image, saved

__all__ = ["ImageGeneration"]

_NAME = "image_generation"


class ImageGeneration(Tool):
    """Generates images on the model's server. It is offered if ``features.image_generation`` is true and the model sees images.

    The server runs the calls. Each image is saved as ``generated_images/THREAD/ID.png`` in ``$CODEX_HOME``, and the model is told
    where.
    """

    parallel_safe = True
    reads = frozenset({"config", "model"})
    spec: ToolSpec = NativeSpec(_NAME, _NAME, {"output_format": "png"})

    def __init__(self, codex_home: Path) -> None:
        self._home = codex_home

    def offered(self, turn: TurnFacts) -> bool:
        """Return whether the configuration asks for it and the model can use it."""
        features = turn.config.get("features")
        return isinstance(features, Mapping) and features.get(_NAME) is True and turn.model.supports_images

    async def shown(self, item: Mapping[str, Any], turn: TurnContext) -> Mapping[str, Any]:
        """Save the image and add its path to the item. If this fails, a warning says why, once in a thread."""
        result = item.get("result")
        if not isinstance(result, str) or not result:
            return item
        name = str(item.get("id") or "image")
        path = await saved(turn.thread, self._home, lambda folder: save_image(folder, name, image_bytes(result)))
        if path is None:
            return item
        text = f"The generated image is the file {path}. Copy it to use it elsewhere, and leave this file as it is."
        turn.thread.deliver([user_message(text, role="developer")])
        return {**item, "saved_path": str(path)}

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:  # noqa: ARG002  # the role's arguments
        """Refuse a call: servers run the calls of this tool themselves.

        Raises:
            ToolError: Always.
        """
        raise ToolError("image_generation is run by the model's server and cannot be called")
