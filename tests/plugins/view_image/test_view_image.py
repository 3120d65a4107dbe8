from __future__ import annotations

import asyncio
import base64
import importlib.util
import io
import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.contract.errors import ToolError
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.protocol.events.command import ViewImageToolCallEvent
from codex_framework.contract.protocol.items import InputImage
from codex_framework.contract.roles.models import ModelInfo
from codex_framework.contract.roles.tool_specs import FunctionSpec
from codex_framework.contract.roles.tools import ToolCall
from codex_framework.testing import turn_facts
from codex_framework.toolkit.model_catalogue import known_model
from codex_plugin_view_image import shrinking
from codex_plugin_view_image.shrinking import fitting_size
from codex_plugin_view_image.signature import Picture, picture
from codex_plugin_view_image.tool import ViewImage

HAS_PILLOW = importlib.util.find_spec("PIL") is not None
BOTH = ModelInfo(slug="m", image_detail_original=True)


def png(width: int = 1, height: int = 1) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x40" * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


BMP = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 58, 0, 0, 54, 40, 1, -1, 1, 24, 0, 4, 0, 0, 0, 0) + b"\1\2\3\0"


def view(
    open_thread: Callable[..., Any],
    arguments: dict[str, Any],
    *,
    model: ModelInfo | None = None,
    access: FileAccess | None = None,
    config: dict[str, Any] | None = None,
) -> tuple[Any, list[Any]]:
    async def viewed() -> tuple[Any, list[Any]]:
        async with open_thread(model=model, config=config) as thread:
            context = thread.context
            if access is not None:
                caller = context.caller
                context = context.evolve(caller=caller.evolve(turn=caller.turn.evolve(access=access)))
            output = await ViewImage().run(ToolCall("call", "view_image", json.dumps(arguments)), context)
            return output.content, thread.events

    return asyncio.run(viewed())


def refused(open_thread: Callable[..., Any], arguments: dict[str, Any], **more: Any) -> str:
    with pytest.raises(ToolError) as caught:
        view(open_thread, arguments, **more)
    return str(caught.value)


def data_url(data: bytes, mime: str = "image/png") -> str:
    return f"data:{mime};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(
    ("model", "arguments", "detail"),
    [
        (BOTH, {}, "original"),
        (BOTH, {"detail": "original"}, "original"),
        (BOTH, {"detail": "high"}, "high"),
        (ModelInfo(slug="m"), {}, "high"),
        (ModelInfo(slug="m"), {"detail": "original"}, "high"),
    ],
)
def test_an_image_is_shown(
    open_thread: Callable[..., Any], tmp_path: Path, model: ModelInfo, arguments: dict[str, Any], detail: str
) -> None:
    (tmp_path / "dot.png").write_bytes(png())
    content, events = view(open_thread, {"path": "dot.png", **arguments}, model=model)
    assert content == (InputImage(data_url(png()), detail),)
    assert events == [ViewImageToolCallEvent("call", str(tmp_path / "dot.png"))]


# The sizes at which Codex 0.169 sends these images.
@pytest.mark.parametrize(
    ("size", "high", "original"),
    [
        ((64, 64), (64, 64), (64, 64)),
        ((3000, 2500), (1727, 1440), (3000, 2500)),
        ((2500, 1000), (2048, 819), (2500, 1000)),
        ((7000, 100), (2048, 29), (6000, 86)),
        ((6000, 6000), (1600, 1600), (3200, 3200)),
    ],
)
def test_a_large_image_is_sent_at_the_size_of_codex(
    size: tuple[int, int], high: tuple[int, int], original: tuple[int, int]
) -> None:
    assert fitting_size(*size, original=False) == high
    assert fitting_size(*size, original=True) == original


@given(width=st.integers(1, 60_000), height=st.integers(1, 60_000), original=st.booleans())
def test_every_size_fits_and_keeps_its_shape(*, width: int, height: int, original: bool) -> None:
    side, most = (6000, 10_000) if original else (2048, 2500)
    sent = fitting_size(width, height, original=original)
    assert max(sent) <= side
    assert -(-sent[0] // 32) * -(-sent[1] // 32) <= most
    assert sent[0] <= width
    assert sent[1] <= height
    if min(sent) > 30:
        assert sent[0] / sent[1] == pytest.approx(width / height, rel=0.05)
    assert fitting_size(*sent, original=original) == sent


def test_gpt_5_5_takes_original_images() -> None:
    models = (known_model("gpt-5.5"), known_model("gpt-5.2"))
    assert [model is not None and model.image_detail_original for model in models] == [True, False]


def test_what_is_no_image_is_told_so(open_thread: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "t.png").write_text("text\n")
    (tmp_path / "cut.png").write_bytes(png()[:20])
    os.mkfifo(tmp_path / "pipe")
    nothing = "unable to process image: invalid or unsupported image data"
    assert refused(open_thread, {"path": "t.png"}) == nothing
    assert refused(open_thread, {"path": "cut.png"}) == nothing
    assert refused(open_thread, {"path": "."}) == f"image path `{tmp_path}` is not a file"
    assert refused(open_thread, {"path": "pipe"}) == f"image path `{tmp_path}/pipe` is not a file"
    assert refused(open_thread, {"path": "no.png"}) == (
        f"unable to locate image at `{tmp_path}/no.png`: No such file or directory (os error 2)"
    )


def test_a_model_that_cannot_see_is_told_so(open_thread: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(png())
    blind = ModelInfo(slug="m", supports_images=False)
    assert refused(open_thread, {"path": "dot.png"}, model=blind) == (
        "view_image is not allowed because you do not support image inputs"
    )


def test_what_may_not_be_read_is_not_shown(open_thread: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(png())
    access = FileAccess.writing(deny=[tmp_path])
    assert refused(open_thread, {"path": "dot.png"}, access=access) == (
        f"unable to locate image at `{tmp_path}/dot.png`: reading it is not permitted"
    )


def test_nothing_is_shown_where_it_is_switched_off(open_thread: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(png())
    assert refused(open_thread, {"path": "dot.png"}, config={"tools": {"view_image": False}}) == (
        "view_image is switched off in the configuration (tools.view_image = false)"
    )


def test_a_wrong_argument_is_told(open_thread: Callable[..., Any]) -> None:
    assert refused(open_thread, {}) == "failed to parse function arguments: missing field `path` at line 1 column 2"


@pytest.mark.parametrize(
    ("model", "config", "offered"),
    [
        (ModelInfo(slug="m"), {}, True),
        (ModelInfo(slug="m", supports_images=False), {}, False),
        (ModelInfo(slug="m"), {"tools": {"view_image": False}}, False),
    ],
)
def test_it_is_offered_to_models_that_see(model: ModelInfo, config: dict[str, Any], *, offered: bool) -> None:
    assert ViewImage().offered(turn_facts(model=model, config=config)) is offered


def test_detail_is_offered_where_there_is_a_choice() -> None:
    def properties(model: ModelInfo) -> set[str]:
        spec = ViewImage().spec_for(turn_facts(model=model, config={}))
        assert isinstance(spec, FunctionSpec)
        return set(spec.parameters["properties"])

    assert (properties(BOTH), properties(ModelInfo(slug="m"))) == ({"path", "detail"}, {"path"})


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (png(3, 2), Picture("image/png", 3, 2)),
        (b"GIF89a" + struct.pack("<HH", 5, 4), Picture("image/gif", 5, 4)),
        (BMP, Picture("image/bmp", 1, 1)),
        (
            b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc2\x00\x0b\x08" + struct.pack(">HH", 7, 9) + b"\x01\x01\x11\x00",
            Picture("image/jpeg", 9, 7),
        ),
        (b"RIFF\0\0\0\0WEBPVP8 " + bytes(10) + struct.pack("<HH", 16, 8), Picture("image/webp", 16, 8)),
        (b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 9 | 4 << 14), Picture("image/webp", 10, 5)),
        (b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\x63\0\0\x31\0\0", Picture("image/webp", 100, 50)),
        (b"RIFF\0\0\0\0WEBPVP8X", None),
        (b"\xff\xd8\xff", None),
        (b"BM", None),
        (b"GIF89a", None),
        (b"", None),
        (b"<svg/>", None),
    ],
)
def test_images_are_known_by_their_head(data: bytes, found: Picture | None) -> None:
    assert picture(data) == found


@pytest.mark.skipif(HAS_PILLOW, reason="Pillow is installed")
def test_without_pillow_what_cannot_be_sent_is_told_with_the_cure(
    open_thread: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "dot.bmp").write_bytes(BMP)
    assert refused(open_thread, {"path": "dot.bmp"}) == (
        "unable to send image: image/bmp is not a format that models accept. Install Pillow "
        "(pip install 'codex-framework[images]'), or convert the file to a smaller PNG or JPEG first."
    )
    large = png() + bytes(21 * 1024 * 1024)
    (tmp_path / "large.png").write_bytes(large)
    assert refused(open_thread, {"path": "large.png"}).startswith(
        f"unable to send image: it has {len(large):,} bytes, and at most 20,971,520 can be sent. Install Pillow"
    )


@pytest.mark.skipif(HAS_PILLOW, reason="Pillow is installed")
def test_without_pillow_a_large_picture_is_sent_as_it_is(open_thread: Callable[..., Any], tmp_path: Path) -> None:
    data = png(2100, 10)
    (tmp_path / "wide.png").write_bytes(data)
    content, _ = view(open_thread, {"path": "wide.png"})
    assert content == (InputImage(data_url(data), "high"),)


@pytest.mark.skipif(not HAS_PILLOW, reason="Pillow is not installed")
@pytest.mark.parametrize(
    ("name", "data", "model", "found"),
    [
        ("wide.png", png(4096, 16), ModelInfo(slug="m"), Picture("image/png", 2048, 8)),
        ("wide.png", png(4096, 16), BOTH, Picture("image/png", 4096, 16)),
        ("dot.bmp", BMP, BOTH, Picture("image/png", 1, 1)),
    ],
)
def test_with_pillow_an_image_is_made_to_fit(
    open_thread: Callable[..., Any], tmp_path: Path, name: str, data: bytes, model: ModelInfo, found: Picture
) -> None:
    (tmp_path / name).write_bytes(data)
    content, _ = view(open_thread, {"path": name}, model=model)
    head, _, encoded = content[0].image_url.partition(",")
    assert head == f"data:{found.mime};base64"
    assert picture(base64.b64decode(encoded)) == found


@pytest.mark.skipif(not HAS_PILLOW, reason="Pillow is not installed")
def test_with_pillow_a_broken_picture_is_told(open_thread: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "wide.png").write_bytes(png(4096, 16)[:40])
    assert refused(open_thread, {"path": "wide.png"}).startswith("unable to process image: ")


@pytest.mark.skipif(not HAS_PILLOW, reason="Pillow is not installed")
@pytest.mark.parametrize(
    ("kind", "mode", "size", "sent"),
    [
        ("PNG", "L", (4000, 4000), False),
        ("PNG", "RGBA", (2000, 2000), False),
        ("PNG", "RGB", (2300, 2300), False),
        ("GIF", "P", (4000, 4000), False),
        ("WEBP", "RGBA", (2000, 2000), False),
        ("JPEG", "L", (6500, 6500), True),  # which is decoded at a smaller size
        ("JPEG progressive", "L", (4000, 4000), False),
        ("PNG", "RGB", (2200, 2200), True),
    ],
)
def test_an_image_of_too_many_pixels_is_refused(
    monkeypatch: pytest.MonkeyPatch, kind: str, mode: str, size: tuple[int, int], *, sent: bool
) -> None:
    monkeypatch.setattr(shrinking, "_MOST_PIXEL_BYTES", 15_000_000)  # a tenth, for the time of the test
    from PIL import Image

    file = io.BytesIO()
    form, _, progressive = kind.partition(" ")
    Image.new(mode, size).save(file, form, **({"progressive": True} if progressive else {}))
    data = file.getvalue()
    found = picture(data)
    assert found is not None
    if sent:
        assert picture(shrinking.fitted(data, found, original=False)[0]) == Picture(found.mime, 1600, 1600)
    else:
        with pytest.raises(ToolError, match="at most 15,000,000 are decoded"):
            shrinking.fitted(data, found, original=False)


def test_what_is_no_file_of_a_disk_is_not_opened(open_thread: Callable[..., Any], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "link.png").symlink_to("/proc/self/environ")
    full = FileAccess(full=True)
    with pytest.raises(ToolError, match=r"image path `.*/pipe.png` is not a file"):
        view(open_thread, {"path": str(tmp_path / "pipe.png")}, access=full)
    for path in (tmp_path / "link.png", "/proc/self/environ"):
        with pytest.raises(ToolError, match="reading it is not permitted"):
            view(open_thread, {"path": str(path)}, access=full)
