"""The conversion of user input to history items and events."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.events.message import UserMessageEvent
from codex_framework.contract.protocol.items import ContentItem, InputImage, InputText, Message
from codex_framework.contract.protocol.ops import (
    MAX_USER_INPUT_TEXT_CHARS,
    ImageInput,
    LocalImageInput,
    MentionInput,
    SkillInput,
    TextInput,
    UserInputItem,
)
from codex_framework.threads.turn.inputs import InputArrived

__all__ = ["arrived", "as_items", "check_image", "check_length", "data_url"]

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)
_HEAD = 16
"""Number of bytes by which the format of an image is recognised."""


def as_items(prompt: str | Sequence[UserInputItem]) -> tuple[UserInputItem, ...]:
    """Return a prompt, given as text or as items, as items."""
    return (TextInput(prompt),) if isinstance(prompt, str) else tuple(prompt)


def arrived(items: Sequence[UserInputItem], cwd: Path) -> InputArrived:
    """Return the turn's input for these items. Image files are read here.

    Raises:
        ThreadError: The input is empty or too long, or an image cannot be read.
    """
    if not items:
        raise ThreadError("input must not be empty", slug="empty-input", hint="Give a prompt.")
    texts = [item.text for item in items if isinstance(item, TextInput)]
    check_length(sum(map(len, texts)))
    event = UserMessageEvent(
        message="\n".join(texts),
        images=tuple(item.image_url for item in items if isinstance(item, ImageInput)) or None,
        local_images=tuple(item.path for item in items if isinstance(item, LocalImageInput)),
    )
    content = tuple(_content(items, cwd))
    mentions = tuple(item for item in items if isinstance(item, (SkillInput, MentionInput)))
    return InputArrived((Message(role="user", content=content),) if content else (), event, mentions)


def check_length(characters: int) -> None:
    """Refuse text that is too long for one input.

    Raises:
        ThreadError: It is too long.
    """
    if characters > MAX_USER_INPUT_TEXT_CHARS:
        raise ThreadError(
            f"the input has {characters} characters; at most {MAX_USER_INPUT_TEXT_CHARS} are accepted",
            slug="input-too-long",
            hint="Put long material into a file and name the file.",
        )


def _content(items: Sequence[UserInputItem], cwd: Path) -> Iterator[ContentItem]:
    images = 0
    for item in items:
        match item:
            case TextInput(text):
                yield InputText(text)
            case ImageInput(url, detail):
                images += 1
                yield InputImage(url, detail)
            case LocalImageInput(path, detail):
                images += 1
                yield InputText(f'<image name=[Image #{images}] path="{cwd / path}">')
                yield InputImage(data_url(cwd / path), detail or "high")
                yield InputText("</image>")
            case SkillInput() | MentionInput():  # for interceptors
                pass
            case _:
                raise ThreadError(
                    f"input of type {item.raw.get('type')!r} is not supported",
                    slug="unknown-input",
                    hint="Use text, image, local_image, skill or mention.",
                )


def data_url(path: Path) -> str:
    """Return an image file as a data URL. The format is recognised by the file's first bytes.

    Raises:
        ThreadError: It cannot be read, or is not an image in a supported format.
    """
    data = _read(path)
    return f"data:{_mime(data, path)};base64,{base64.b64encode(data).decode()}"


def check_image(path: Path) -> None:
    """Check that a file can be sent as an image.

    Raises:
        ThreadError: As for :func:`data_url`.
    """
    _mime(_read(path, _HEAD), path)


def _read(path: Path, limit: int = -1) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        raise ThreadError(
            f"unable to read the image {path}: {getattr(error, 'strerror', None) or error}",
            slug="image",
            hint="Check the path given with --image.",
        ) from error


def _mime(data: bytes, path: Path) -> str:
    mime = next((mime for signature, mime in _SIGNATURES if data.startswith(signature)), None)
    if mime is None and data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        mime = "image/webp"
    if mime is None:
        raise ThreadError(
            f"{path} is not a PNG, JPEG, GIF, WebP or BMP image", slug="image", hint="Convert it to one of these."
        )
    return mime
