"""The tool ``image_gen.imagegen``: images from OpenAI's server, for logins with ChatGPT."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from codex_framework import (
    InputImage,
    InputText,
    ModelError,
    NativeSpec,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolSpec,
    TurnFacts,
)
from codex_framework.contract.protocol.events import ItemCompletedEvent, ItemStartedEvent
from codex_framework.contract.protocol.turn_items import older_events, older_start
from codex_plugin_openai.bare_request import bare_request
from codex_plugin_openai.imagegen_inputs import file_url, last_images
from codex_plugin_openai.imagegen_server import Drawn, ImageServer
from codex_plugin_openai.imagegen_spec import PLAIN, WITH_GIF, Wanted, wanted
from codex_plugin_openai.saved_images import image_bytes, mime_of, save_image, saved

__all__ = ["ImageGen"]


class ImageGen(Tool):
    """Generates and edits images, saves them, and shows them to the model.

    Args:
        server: The server of the turn's provider.
        animates: Whether it makes GIFs too (``features.image_generation_animation``).
    """

    parallel_safe = True
    tells_clients = True
    aliases = ("image_gen.imagegen",)

    def __init__(self, server: ImageServer, codex_home: Path, *, animates: bool) -> None:
        self.server = server
        self.animates = animates
        self._home = codex_home
        self.spec: ToolSpec = WITH_GIF if animates else PLAIN

    def arrange(self, specs: Sequence[ToolSpec], turn: TurnFacts) -> Sequence[ToolSpec]:  # noqa: ARG002  # the role's
        """Return the specs without the tool of the server that does the same."""
        return [spec for spec in specs if not (isinstance(spec, NativeSpec) and spec.type == "image_generation")]

    def refused(self, call: ToolCall, context: ToolContext, why: str) -> None:  # noqa: ARG002  # as above
        """Tell clients that a call has failed before it began."""
        item = _Item(context)
        item.end("failed")

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call.

        Raises:
            ToolError: The arguments make no sense, or there is no image.
            ToolRefused: An image must not be read.
        """
        asked = wanted(call.arguments, animates=self.animates)
        images = await self._images(asked, context)
        item = _Item(context)
        try:
            drawn = await self._drawn(asked, images, context)
            data, mime = _check_image(drawn)
        except BaseException:
            item.end("failed", asked.prompt)
            raise
        path = await self._saved(data, mime, context)
        item.end("completed", drawn.prompt or asked.prompt, drawn, path)
        url = f"data:{mime};base64,{base64.b64encode(data).decode('ascii')}"
        detail = "original" if context.model.image_detail_original else "high"
        hint = None if path is None else _hint(path)
        result = {"image_url": url, **({} if hint is None else {"output_hint": hint})}
        texts = () if hint is None else (InputText(hint),)
        return ToolOutput((InputImage(url, detail), *texts), truncate=False, result=result)

    async def _images(self, asked: Wanted, context: ToolContext) -> list[str]:
        if asked.last:
            return last_images(context.turn.thread.history, asked.last)
        return [await asyncio.to_thread(file_url, context.resolve(path), context.access) for path in asked.paths]

    async def _drawn(self, asked: Wanted, images: list[str], context: ToolContext) -> Drawn:
        request = bare_request(context.turn.thread, context.model, context.turn_id)
        try:
            return await self.server.draw(
                request,
                context.call_id,
                asked.prompt,
                images=images,
                transparent=asked.transparent,
                gif=asked.gif or {},
            )
        except ModelError as error:
            raise ToolError(f"image generation failed: {error.fact}") from error

    async def _saved(self, data: bytes, mime: str, context: ToolContext) -> Path | None:
        suffix = ".jpg" if mime == "image/jpeg" else f".{mime.removeprefix('image/')}"
        thread, name = context.turn.thread, context.call_id
        return await saved(thread, self._home, lambda folder: save_image(folder, name, data, suffix=suffix))


class _Item:
    """The items that clients see of a call: the turn item, and the older events. It begins immediately."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        item = self._item("in_progress", None, "")
        context.emit(ItemStartedEvent(context.thread_id, context.turn_id, item, _now_ms()))
        if (event := older_start(item)) is not None:
            context.emit(event)

    def end(
        self,
        status: Literal["completed", "failed"],
        prompt: str | None = None,
        drawn: Drawn | None = None,
        path: Path | None = None,
    ) -> None:
        """Complete the item."""
        item = self._item(status, prompt, "" if drawn is None else drawn.result)
        if drawn is not None:
            item["transparent_background"] = drawn.transparent
        if path is not None:
            item["saved_path"] = str(path)
        context = self._context
        context.emit(ItemCompletedEvent(context.thread_id, context.turn_id, item, _now_ms()))
        for event in older_events(item) or ():
            context.emit(event)

    def _item(self, status: str, prompt: str | None, result: str) -> dict[str, Any]:
        return {
            "type": "ImageGeneration",
            "id": self._context.call_id,
            "status": status,
            "revised_prompt": prompt,
            "result": result,
        }


def _check_image(drawn: Drawn) -> tuple[bytes, str]:
    """Return the bytes of an image and its MIME type. Raises ToolError."""
    try:
        data = image_bytes(drawn.result)
    except ValueError as error:
        raise ToolError(f"image generation failed: {error}") from None
    mime = mime_of(data)
    if mime is None:
        raise ToolError("image generation failed: the server sent something that is not an image")
    return data, mime


def _hint(path: Path) -> str:
    return (
        f"The image is the file {path}. If it is needed elsewhere, copy it, and leave this file as it is unless the user asks you to"
        " delete it. The user sees the image already: your answer need not show it or link to it."
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
