"""The conversion of user input, and of what clients send along with it, to history items and events."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codex_framework.contract.errors import ThreadError
from codex_framework.contract.protocol.events.message import UserMessageEvent
from codex_framework.contract.protocol.items import CONTEXT_MARKS, ContentItem, InputImage, InputText, Message
from codex_framework.contract.protocol.ops import (
    MAX_USER_INPUT_TEXT_CHARS,
    AdditionalContext,
    ByteRange,
    ImageInput,
    LocalImageInput,
    MentionInput,
    SkillInput,
    TextElement,
    TextInput,
    UserInputItem,
    UserInputOp,
)
from codex_framework.threads.history import History
from codex_framework.threads.turn.inputs import InputArrived
from codex_framework.toolkit.regular_files import read_regular
from codex_framework.toolkit.truncation import truncate

if TYPE_CHECKING:
    from codex_framework.threads.conversation import Conversation

__all__ = ["as_items", "check_image", "check_length", "context_messages", "data_url", "make_input", "read_input"]

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)
_METADATA = 4_096
"""Longest metadata of a client, in characters. Servers accept headers of about 8 kB."""

_HEAD = 16
"""Number of bytes by which the format of an image is recognised."""

_LARGEST_IMAGE = 64 * 1024 * 1024
"""Maximum size of an image file, in bytes. Its data URL is a third longer, and is copied into requests."""


def as_items(prompt: str | Sequence[UserInputItem]) -> tuple[UserInputItem, ...]:
    """Return a prompt, given as text or as items, as items."""
    return (TextInput(prompt),) if isinstance(prompt, str) else tuple(prompt)


def read_input(op: UserInputOp, conversation: Conversation) -> InputArrived:
    """Return the turn's input for an op, with the context that it brings. Raises the same errors as :func:`arrived`."""
    metadata = op.responsesapi_client_metadata or {}
    if sum(len(name) + len(text) for name, text in metadata.items()) > _METADATA:
        fact = f"the client's metadata is longer than {_METADATA} characters"
        raise ThreadError(fact, slug="bad-request", hint="It becomes a header of each request: send ids, not content.")
    found = make_input(op.items, conversation.settings.cwd, client_id=op.client_user_message_id)
    if not op.additional_context:
        return found
    from codex_framework.threads.user_input import context_messages

    return found.evolve(context=context_messages(op.additional_context, conversation.journal.history))


def make_input(items: Sequence[UserInputItem], cwd: Path, *, client_id: str | None = None) -> InputArrived:
    """Return the turn's input for these items. Image files are read here.

    Args:
        client_id: The client's own id of the message.

    Raises:
        ThreadError: The input is empty or too long, or an image cannot be read.
    """
    if not items:
        raise ThreadError("input must not be empty", slug="empty-input", hint="Give a prompt.")
    texts = [item for item in items if isinstance(item, TextInput)]
    check_length(sum(len(item.text) for item in texts))
    images = [item for item in items if isinstance(item, ImageInput)]
    local = [item for item in items if isinstance(item, LocalImageInput)]
    event = UserMessageEvent(
        message="\n".join(item.text for item in texts),
        images=tuple(item.image_url for item in images) or None,
        local_images=tuple(item.path for item in local),
        client_id=client_id,
        image_details=_details(images),
        local_image_details=_details(local),
        text_elements=_elements(texts) if any(item.text_elements for item in texts) else None,
    )
    content = tuple(_content(items, cwd))
    mentions = tuple(item for item in items if isinstance(item, (SkillInput, MentionInput)))
    return InputArrived((Message(role="user", content=content),) if content else (), event, mentions)


def _details(images: Sequence[ImageInput] | Sequence[LocalImageInput]) -> tuple[str | None, ...] | None:
    details = tuple(image.detail for image in images)
    return details if any(details) else None


def _elements(texts: Sequence[TextInput]) -> tuple[TextElement, ...]:
    """Return the elements of all texts, at their places in the texts joined by line ends.

    Raises:
        ThreadError: An element is not within its text.
    """
    moved: list[TextElement] = []
    offset = 0
    for item in texts:
        size = len(item.text.encode("utf-8", "surrogatepass"))
        for element in item.text_elements:
            start, end = element.byte_range.start, element.byte_range.end
            if not 0 <= start <= end <= size:
                raise ThreadError(
                    f"a text element covers the bytes {start} to {end} of a text with {size} bytes",
                    slug="bad-request",
                    hint="Count bytes of the text in UTF-8.",
                )
            moved.append(element.evolve(byte_range=ByteRange(start + offset, end + offset)))
        offset += size + 1
    return tuple(moved)


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
            case TextInput(text=text):
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
    data = _read_image(path)
    return f"data:{_mime(data, path)};base64,{base64.b64encode(data).decode()}"


def check_image(path: Path) -> None:
    """Check that a file can be sent as an image.

    Raises:
        ThreadError: As for :func:`data_url`.
    """
    _mime(_read_image(path)[:_HEAD], path)


def _read_image(path: Path) -> bytes:
    try:
        return read_regular(path, _LARGEST_IMAGE)
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


_MOST = 64
"""Entries of one input."""

_TOKENS = 1_000
"""The maximum length of an entry, in tokens (Codex 0.169)."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")

_ROLES = {"application": "developer", "untrusted": "user"}


def context_messages(given: Mapping[str, AdditionalContext], history: History) -> tuple[Message, ...]:
    """Return the messages for entries that differ from the last entry of the same name in the history.

    An entry of the application is ``<NAME>text</NAME>`` in a developer message. Any other entry is ``<external_NAME>`` in a
    user message. These markers (Codex's) identify text that the user did not write.

    Raises:
        ThreadError: There are too many entries, or a name or a kind is not allowed.
    """
    if len(given) > _MOST:
        raise _error(f"there are {len(given)} entries; at most {_MOST} are accepted", "Send fewer, or join them.")
    messages = (_message(name, entry) for name, entry in given.items())
    return tuple(message for message, start in messages if history.last_with(start) != _text(message))


def _message(name: str, entry: AdditionalContext) -> tuple[Message, str]:
    role = _ROLES.get(entry.kind)
    if role is None:
        raise _error(f"{name!r} has the kind {entry.kind!r}", f"Use {' or '.join(_ROLES)}.")
    if not _NAME.fullmatch(name):
        hint = "Use letters, digits, `_`, `-` and `.`, at most 64 of them."
        raise _error(f"the name {name[:80]!r} is not allowed", hint)
    tag = name if role == "developer" else f"external_{name}"
    start, end = f"<{tag}>", f"</{tag}>"
    if role == "developer" and any(mark.startswith(start[:-1]) for mark in CONTEXT_MARKS):
        raise _error(f"the name {name!r} is reserved for context of the kernel", "Choose another name.")
    text = truncate(entry.value, ("tokens", _TOKENS)).replace(end, "&lt;" + end[1:])
    return Message(role=role, content=(InputText(f"{start}{text}{end}"),)), start


def _text(message: Message) -> str:
    return "".join(part.text for part in _texts(message))


def _texts(message: Message) -> Iterator[InputText]:
    return (part for part in message.content if isinstance(part, InputText))


def _error(fact: str, hint: str) -> ThreadError:
    return ThreadError(f"the additional context cannot be used: {fact}", slug="bad-request", hint=hint)
