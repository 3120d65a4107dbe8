"""Requests for images to the server of a provider: ``/images/generations`` and ``/images/edits``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from codex_framework import ModelError, ModelRequest, ProviderInfo, Value
from codex_lib_model_client.addresses import post_address
from codex_lib_model_client.headers import common_headers, request_headers
from codex_lib_model_client.server_client import ServerClient
from codex_lib_model_client.transport_errors import CutError, SilenceError
from codex_plugin_openai.saved_images import MOST_BYTES
from codex_plugin_openai.turn_metadata import described

if TYPE_CHECKING:
    from codex_lib_model_client.credentials import Access
    from codex_lib_model_client.transport import Answer

__all__ = ["Drawn", "ImageServer"]

_FIXED = {"model": "gpt-image-2", "quality": "auto", "size": "auto"}
"""The request of Codex 0.169."""

_PATIENCE_MS = 600_000
"""How long the server may draw, in milliseconds. It sends nothing until the image is complete."""
_SILENCE_S = 60.0
"""Time limit in seconds for each piece of the reply."""
_MOST_REPLY = MOST_BYTES // 3 * 4 + 65_536
"""The longest reply, in bytes: the largest image in base64."""

_SENT = ("originator", "user-agent", "x-codex-turn-metadata")


class Drawn(Value):
    """An image.

    Attributes:
        result: The image in base64.
        transparent: Whether its background is transparent. None if the server did not say.
        prompt: The prompt that the server used instead of the given one. Empty if it did not say.
    """

    result: str
    transparent: bool | None = None
    prompt: str = ""


class ImageServer:
    """The server of a provider. All threads of a kernel share it.

    Args:
        info: The provider, with the URL of the server.
        env: The kernel's environment variables.
        access: The login.

    Raises:
        ModelError: The URL, a proxy or a header of the provider is unusable.
    """

    def __init__(self, info: ProviderInfo, env: Mapping[str, str], access: Access) -> None:
        self._info = info.evolve(response_timeout_ms=max(info.response_timeout_ms, _PATIENCE_MS))
        self._env = env
        self._access = access
        self._headers = {**common_headers(info, env, access.key), "accept": "*/*"}
        self._clients = {path: self._client(path) for path in ("/images/generations", "/images/edits")}

    def _client(self, path: str) -> ServerClient:
        url, _ = post_address(self._info, path)
        return ServerClient(
            self._info,
            self._env,
            url,
            self._headers,
            tokens=self._access.tokens,
            endpoint=path,
            load_reading=lambda: None,
        )

    async def draw(
        self,
        request: ModelRequest,
        call_id: str,
        prompt: str,
        *,
        images: list[str],
        transparent: bool,
        gif: Mapping[str, str | int],
    ) -> Drawn:
        """Return a new image, or edited ones as one.

        Args:
            request: The turn, for the headers.
            images: URLs of the images to edit. Empty means that a new one is generated.
            gif: Fields that make it an animation.

        Raises:
            ModelError: The server cannot be reached, refuses, or sends no image.
        """
        given = {"images": [{"image_url": url} for url in images]} if images else {}
        body = {**given, "prompt": prompt, **gif, "background": "transparent" if transparent else "opaque", **_FIXED}
        every = request_headers(described(request, None), self._env)
        headers = {name: every[name] for name in _SENT if name in every}
        headers["x-codex-image-turn-id"] = request.turn_id
        client = self._clients["/images/edits" if images else "/images/generations"]
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        answer = await client.ask(call_id, headers, data, None)
        return _drawn(await _whole(answer))

    async def aclose(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.aclose()


async def _whole(answer: Answer) -> bytes:
    pieces: list[bytes] = []
    size = 0
    try:
        while piece := await answer.read(_SILENCE_S):
            pieces.append(piece)
            size += len(piece)
            if size > _MOST_REPLY:
                raise _unusable(f"an image of more than {MOST_BYTES // 1024 // 1024} MiB")
    except (CutError, SilenceError) as error:
        raise _unusable("only a part of the image") from error
    finally:
        await answer.aclose()
    return b"".join(pieces)


def _drawn(data: bytes) -> Drawn:
    try:
        reply: Any = json.loads(data)
    except (ValueError, RecursionError):
        raise _unusable("something that is not JSON") from None
    images = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(images, list):
        raise _unusable("JSON without images")
    first = images[0] if images else {}
    result = first.get("b64_json") if isinstance(first, dict) else None
    if not isinstance(result, str) or not result:
        raise ModelError("image generation returned no image data")
    background, prompt = reply.get("background"), first.get("revised_prompt")
    transparent = background == "transparent" if isinstance(background, str) else None
    return Drawn(result, transparent, prompt if isinstance(prompt, str) else "")


def _unusable(what: str) -> ModelError:
    return ModelError(f"the server sent {what}")
