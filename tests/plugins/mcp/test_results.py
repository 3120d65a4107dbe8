"""Results of calls, as the model reads them and as clients see them."""

from __future__ import annotations

import base64
import json

import pytest

from codex_framework import InputImage, InputText, ModelInfo
from codex_plugin_mcp.results import MAX_EVENT_BYTES, for_clients, for_model, limit_tokens, read_result

SEES = ModelInfo(slug="sees")
BLIND = ModelInfo(slug="blind", supports_images=False)
SHARP = ModelInfo(slug="sharp", image_detail_original=True)
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SVG = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg'/>").decode()
WAV = base64.b64encode(b"RIFF\0\0\0\0WAVE").decode()
HEADING = InputText("Wall time: 0.5000 seconds\nOutput:")


def read(*content, model=SEES, **more):
    return for_model(read_result({"content": list(content), **more}), 0.5, model)


def image(data=PNG, kind="image/png", **more):
    return {"type": "image", "data": data, "mimeType": kind, **more}


def test_text_follows_the_time():
    assert read({"type": "text", "text": "a"}, {"type": "text", "text": "b"}) == (
        HEADING,
        InputText("a"),
        InputText("b"),
    )
    assert read() == (HEADING,)


@pytest.mark.parametrize(
    ("structured", "texts"),
    [
        ({"ä": [1]}, ['{ "ä": [1.0] }']),
        ({"ä": [1]}, []),
        ({"result": "a"}, ["a"]),
        ({"result": ["a", {"b": 1}]}, ["a", '{"b": 1}']),
        ({"result": 7}, ["7"]),
    ],
)
def test_structured_content_takes_the_place_of_a_text_that_repeats_it(structured, texts):
    output = read(*({"type": "text", "text": text} for text in texts), structuredContent=structured)
    assert output == f"{HEADING.text}\n{json.dumps(structured, ensure_ascii=False, separators=(',', ':'))}"


@pytest.mark.parametrize("structured", [{"ms": 0}, [1], {"result": "b", "more": 1}, {"result": ["b"]}, False, "b"])
@pytest.mark.parametrize("text", ["a", '{"ms": 1}', ""])
def test_content_beside_structured_content_is_kept(structured, text):
    _, first, second, third = read({"type": "text", "text": text}, image(), structuredContent=structured)
    assert json.loads(first.text) == structured
    assert (second, third) == (InputText(text), InputImage(f"data:image/png;base64,{PNG}", "high"))


def test_an_image_is_an_image_for_a_model_that_sees():
    url = f"data:image/png;base64,{PNG}"
    assert read(image()) == (HEADING, InputImage(url, "high"))
    assert read(image(), model=SHARP) == (HEADING, InputImage(url, "original"))
    low = image(_meta={"codex/imageDetail": "low"})
    assert read(low, model=SHARP) == (HEADING, InputImage(url, "low"))
    original = image(_meta={"codex/imageDetail": "original"})
    assert read(original) == (HEADING, InputImage(url, "high"))
    omitted = InputText("<image content omitted because you do not support image input>")
    assert read(image(), model=BLIND) == (HEADING, omitted)


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (image(SVG, kind="image/svg+xml"), "its type 'image/svg+xml' is not PNG, JPEG, GIF or WebP"),
        (image(WAV, kind="image/webp"), "its data is not of the type image/webp"),
        (image(data="###"), "its data is not base64"),
        (image(data="AAAA"), "its data is not of the type image/png"),
        (image(SVG, kind="image/jpeg"), "its data is not of the type image/jpeg"),
        (image(data=None), "its type 'image/png' is not PNG, JPEG, GIF or WebP"),
        (image(SVG, kind=["image/png"]), "its type \"['image/png']\" is not PNG, JPEG, GIF or WebP"),
        ({"type": "image"}, "its type 'None' is not PNG, JPEG, GIF or WebP"),
    ],
)
def test_an_image_that_a_provider_would_refuse_is_left_out(block, why):
    assert read(block) == (HEADING, InputText(f"<image content omitted: {why}>"))


def test_other_parts_are_json_without_bytes():
    link = {"type": "resource_link", "uri": "file:///x", "name": "x"}
    blob = {"type": "resource", "resource": {"uri": "a://b", "blob": "A" * 400}}
    audio = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    _, first, second, third, fourth = read(link, blob, audio, 7)
    assert json.loads(first.text) == link
    assert json.loads(second.text)["resource"] == {"uri": "a://b", "blob": "<300 bytes omitted>"}
    assert third.text == "<audio content omitted because you do not support audio input>"
    assert fourth.text == "7"


@pytest.mark.parametrize(
    "block",
    [
        image(kind=None),
        image(kind="image/jpg"),
        image(kind="IMAGE/PNG"),
        image(kind="application/octet-stream"),
        image(data=f"data:image/png;base64,{PNG}"),
        image(data="\r\n".join(PNG[start : start + 20] for start in range(0, len(PNG), 20))),
        image(data=PNG.rstrip("=")),
        image(data=PNG.replace("+", "-").replace("/", "_")),
        {"type": "Image", "data": PNG},
    ],
)
def test_an_image_is_read_however_the_server_writes_it(block):
    assert read(block) == (HEADING, InputImage(f"data:image/png;base64,{PNG}", "high"))


@pytest.mark.parametrize("result", [{}, None, {"content": None, "structuredContent": None}, []])
def test_a_result_without_content_is_no_accident(result):
    assert for_model(read_result(result), 0.5, SEES) == (HEADING,)
    assert for_clients(read_result(result)) == {"content": []}


@pytest.mark.parametrize(
    "result",
    [
        "x",
        ["x"],
        {"content": "x"},
        {"content": ["x"]},
        {"content": {"type": "text", "text": "x"}},
        {"content": [{"text": "x"}]},
        {"content": [{"type": "Text", "text": "x"}]},
    ],
)
def test_a_text_is_read_however_the_server_sends_it(result):
    assert for_model(read_result(result), 0.5, SEES) == (HEADING, InputText("x"))


@pytest.mark.parametrize(
    ("older", "texts"),
    [
        ("done", ["done"]),
        ({"a": 1}, ['{"a":1}']),
        ([{"type": "text", "text": "x"}, "y"], ["x", "y"]),
        ({"content": [{"type": "text", "text": "x"}]}, ["x"]),
        (7, ["7"]),
        (None, []),
    ],
)
def test_the_result_of_an_older_server_is_read(older, texts):
    result = read_result({"toolResult": older, "isError": True})
    assert for_model(result, 0.5, SEES) == (HEADING, *map(InputText, texts))
    assert result["isError"] is True
    assert "toolResult" not in result
    assert read_result({"content": "new", "toolResult": older})["content"] == [{"type": "text", "text": "new"}]


def test_a_limit_of_tokens_shortens_texts_and_keeps_images():
    short = read({"type": "text", "text": "a"}, image())
    assert limit_tokens(short, 1000) == short
    text, shown = limit_tokens(read({"type": "text", "text": "word " * 5000}, image()), 100)
    assert len(text.text) < 1000
    assert text.text.startswith(HEADING.text)
    assert isinstance(shown, InputImage)
    assert len(limit_tokens("x" * 100_000, 100)) < 1000


def test_clients_get_the_whole_result_up_to_a_size():
    small = {"content": [{"type": "text", "text": "x"}], "structuredContent": {"a": 1}, "isError": True, "other": 1}
    assert for_clients(small) == {key: value for key, value in small.items() if key != "other"}
    big = for_clients({"content": [{"type": "text", "text": "ü" * MAX_EVENT_BYTES}], "isError": True})
    assert len(json.dumps(big)) <= MAX_EVENT_BYTES
    assert big["isError"] is True
    assert "too large for an event" in big["content"][0]["text"]
