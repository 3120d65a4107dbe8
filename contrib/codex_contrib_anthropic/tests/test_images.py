"""Images that the server would refuse are left out of requests, with a note to the model and to the user."""

from __future__ import annotations

import asyncio
import base64
import itertools
import struct
import sys
import zlib

import pytest

from codex_contrib_anthropic.album import Limits, reasons
from codex_contrib_anthropic.body import BodyWriter
from codex_contrib_anthropic.options import MessagesOptions
from codex_contrib_anthropic.pictures import Picture, examined
from codex_framework import (
    FunctionCall,
    InputImage,
    InputText,
    Message,
    ModelError,
    ModelInfo,
    OutputText,
    ProviderInfo,
)
from codex_framework.contract.protocol.events import HistoryLossEvent, WarningEvent
from codex_framework.contract.protocol.items import FunctionCallOutput, user_message
from codex_framework.contract.roles.models import LeftOut
from codex_framework.testing import fault, model_request, say

SMALL = ModelInfo(slug="claude-sonnet-4-5", default_effort=None)
LARGE = ModelInfo(slug="claude-opus-5", default_effort=None)
MEGABYTE = 1024 * 1024
LIMITS = Limits(10 * MEGABYTE, 24_000_000, 100)


def png(width, height, number=0):
    """Return a PNG of one colour. Images with different numbers differ."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes((width + 7) // 8) for _ in range(height)))
    note = chunk(b"tEXt", f"n\0{number}".encode())
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + note + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def url(data, kind="image/png"):
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def image(width=8, height=8, number=0):
    return InputImage(url(png(width, height, number)))


def padded(length):
    """Return a PNG whose base64 has this length."""
    data = png(8, 8)
    return InputImage(url(data + bytes(length * 3 // 4 - len(data))))


def sent(body):
    """Return what is sent in place of each image, in order: ``image``, or the note."""
    found = []
    for message in body["messages"]:
        for block in message["content"]:
            parts = block["content"] if block["type"] == "tool_result" else [block]
            for part in parts if isinstance(parts, list) else ():
                if part["type"] == "image":
                    found.append("image")
                elif part.get("text", "").startswith("[An image"):
                    found.append(part["text"])
    return found


def shown(ask, *images, table=None, model=SMALL):
    messages = [Message("user", (InputText(f"{number}:"), one)) for number, one in enumerate(images)]
    outcome = ask([say("Yes.")], model_request(*messages, model=model), **(table or {}))
    assert outcome.errors == [None]
    losses = [event for event in outcome.answers[0] if isinstance(event, LeftOut)]
    return sent(outcome.bodies[0]), losses


JPEG = (
    b"\xff\xd8\xff\xe1\x00\x04ab\xff\xff\xd0\xff\xc4\x00\x08table.\xff\xc2\x00\x11\x08"
    + struct.pack(">HH", 300, 9000)
    + b"rest"
)
VP8X = b"RIFF____WEBPVP8X" + bytes(8) + (8999).to_bytes(3, "little") + (99).to_bytes(3, "little")
VP8L = b"RIFF____WEBPVP8L" + bytes(4) + b"\x2f" + (8999 | 99 << 14).to_bytes(4, "little")
VP8 = b"RIFF____WEBPVP8 " + bytes(10) + struct.pack("<HH", 100 | 1 << 14, 9000)


@pytest.mark.parametrize(
    ("data", "kind", "longest"),
    [
        (png(30, 7), "image/png", 30),
        (png(7, 30), "image/png", 30),
        (b"GIF89a" + struct.pack("<HH", 3, 9000), "image/gif", 9000),
        (b"GIF87a" + struct.pack("<HH", 9000, 3), "image/gif", 9000),
        (JPEG, "image/jpeg", 9000),
        (VP8X, "image/webp", 9000),
        (VP8L, "image/webp", 9000),
        (VP8, "image/webp", 9000),
    ],
)
def test_the_bytes_tell_the_format_and_the_size(data, kind, longest):
    address = url(data, "image/x-anything;charset=utf-8")
    assert examined(address) == Picture(kind, len(base64.b64encode(data)), longest)
    for length in range(min(len(data), 40)):
        assert examined(url(data[:length])) in (Picture(""), Picture(kind, -(-length // 3) * 4, longest))


@pytest.mark.parametrize(
    "address",
    [
        "",
        "data:,",
        "data:image/png;base64,",
        "data:image/png;base64,!!!!",
        "data:image/png;base64,iVBORw0KGgo",
        "data:image/png,iVBORw0KGgo=",
        url(png(8, 8)).replace("AA", "A\nA", 1),
        url(b"<svg/>", "image/svg+xml"),
        url(b"BM" + bytes(60), "image/bmp"),
        url(b"\xff\xd8\xff\xc4"),
        url(b"\xff\xd8\xff\xe0\x00\x02" * 3),
        url(b"RIFF____WEBPXXXX" + bytes(40)),
        "http://a.org/x.png",
        "file:///etc/passwd",
    ],
)
def test_what_is_no_image_of_a_known_format_is_left_out(ask, address):
    assert examined(address) == Picture("")
    (note,), (loss,) = shown(ask, InputImage(address))
    assert "the format is unsupported" in note
    assert loss == LeftOut("images", 1, "the format is unsupported")


@pytest.mark.parametrize(
    ("table", "length", "told"),
    [
        ({}, 5 * MEGABYTE, None),
        ({}, 5 * MEGABYTE + 4, "at most 5 MB"),
        ({"max_image_bytes": 1000}, 1004, "at most 0.000954 MB"),
        ({"max_image_bytes": 10 * MEGABYTE}, 9 * MEGABYTE, None),
    ],
)
def test_an_image_with_too_many_bytes_is_left_out(ask, table, length, told):
    (result,), losses = shown(ask, padded(length), table=table)
    assert (result == "image", len(losses)) == ((True, 0) if told is None else (False, 1))
    assert told is None or (told in result and told in losses[0].reason)


@pytest.mark.parametrize(
    ("address", "image_bytes", "request_bytes"),
    [
        ("https://api.anthropic.com/v1", 10 * MEGABYTE, 32_000_000),
        ("https://anthropic.com.example.org/v1", 5 * MEGABYTE, 20_000_000),
        ("http://127.0.0.1:4000", 5 * MEGABYTE, 20_000_000),
    ],
)
def test_servers_of_others_take_less(address, image_bytes, request_bytes):
    options = MessagesOptions.of(ProviderInfo(id="a", base_url=address))
    assert (options.max_image_bytes, options.max_request_bytes) == (image_bytes, request_bytes)


@pytest.mark.parametrize("key", ["max_image_bytes", "max_request_bytes", "web_search_max_uses"])
@pytest.mark.parametrize("value", [0, -1, "many", True, 1.5])
def test_a_wrong_limit_is_named(ask, key, value):
    with pytest.raises(ModelError, match=f"{key} is"):
        ask([say("Yes.")], **{key: value})


def test_an_image_with_long_sides_is_left_out(ask):
    results, (loss,) = shown(ask, image(8000, 2), image(2, 8001), image())
    assert [result == "image" for result in results] == [True, False, True]
    assert "8000 pixels" in results[1]
    assert loss == LeftOut("images", 1, "the sides of an image may have at most 8000 pixels")


def test_large_images_are_left_out_of_requests_with_many(ask):
    results, losses = shown(ask, image(2001, 2), *[image(number=number) for number in range(19)])
    assert (set(results), losses) == ({"image"}, [])
    results, (loss,) = shown(ask, image(2001, 2), *[image(2000, 2, number) for number in range(20)])
    assert [result == "image" for result in results] == [False, *[True] * 20]
    assert "2000 pixels" in results[0]
    assert loss.count == 1


def test_a_new_large_image_is_worth_more_than_old_small_ones():
    small, large = Picture("image/png", 4, 100), Picture("image/png", 4, 3000)
    kept = [not reason for reason in reasons([*[small] * 25, large], LIMITS)]
    assert kept == [False] * 10 + [True] * 16
    kept = [not reason for reason in reasons([small, large, *[small] * 20], LIMITS)]
    assert kept == [True, False, *[True] * 20]


@pytest.mark.parametrize(("model", "most"), [(SMALL, 100), (LARGE, 600), (ModelInfo(slug="x"), 100)])
def test_the_oldest_of_too_many_images_are_left_out(ask, model, most):
    images = [image(number=number) for number in range(most + 1)]
    assert set(shown(ask, *images[:most], model=model)[0]) == {"image"}
    results, (loss,) = shown(ask, *images, model=model)
    assert [result == "image" for result in results] == [False] * 10 + [True] * (most - 9)
    assert loss == LeftOut("images", 10, f"a request may have at most {most} images")


def test_images_that_are_too_long_together_are_left_out_the_oldest_first(ask):
    table = {"max_request_bytes": 4000, "max_image_bytes": 2000}
    results, (loss,) = shown(ask, *[padded(1000) for _ in range(4)], table=table)
    assert [result == "image" for result in results] == [False, False, True, True]
    assert "together" in loss.reason
    results, _ = shown(ask, padded(2000), padded(1999 // 4 * 4), table={**table, "max_request_bytes": 1000})
    assert [result == "image" for result in results] == [False, True]  # the newest stays


def test_the_first_bytes_of_requests_seldom_change():
    """Images are left out in steps, so that the server's cache is of use."""
    pictures = [Picture("image/png", 100, 100) for _ in range(200)]
    for limits in (Limits(1000, 10**6, 20), Limits(1000, 2000, 1000)):
        kept = [tuple(map(bool, reasons(pictures[:number], limits))) for number in range(1, 200)]
        changes = sum(one != other[: len(one)] for one, other in itertools.pairwise(kept))
        assert 0 < changes <= 40
        assert all(one.count(False) <= 20 for one in kept)


def test_images_in_outputs_count_as_well(ask):
    items = [user_message("Look.")]
    for number in range(21):
        items += [FunctionCall("look", "{}", f"c{number}")]
        items += [FunctionCallOutput(f"c{number}", (InputText("seen"), image(3000 if number == 0 else 8, 2, number)))]
    outcome = ask([say("Yes.")], model_request(*items, model=SMALL))
    assert [result == "image" for result in sent(outcome.bodies[0])] == [False, *[True] * 20]


def test_a_growing_conversation_is_the_same_as_one_that_is_sent_at_once(ask):
    said = Message("assistant", (OutputText("Yes."),))
    items, requests = [], []
    for number in range(40):
        wide = 3000 if number in (2, 30) else 9000 if number == 5 else 8
        items += [Message("user", (image(wide, 2, number),)), said]
        requests.append(model_request(*items, "Go on.", model=SMALL))
    grown = ask([say("Yes.")] * len(requests), *requests)
    for place in (0, 3, 10, 19, 20, 21, 29, 30, 31, 39):
        assert ask([say("Yes.")], requests[place]).bodies == [grown.bodies[place]]
    told = [event for answer in grown.answers for event in answer if isinstance(event, LeftOut)]
    assert len(told) == len({loss.reason for loss in told}) == 2
    shorter = model_request(*items[:6], "Go on.", model=SMALL)
    assert ask([say("Yes.")] * 2, requests[-1], shorter).bodies[1] == ask([say("Yes.")], shorter).bodies[0]


def test_a_history_that_was_replaced_is_looked_at_again(ask):
    last = user_message("And?")
    first = [Message("user", (image(9000, 2),)), last]
    second = [Message("user", (image(8, 2, 5),)), last]  # another image, and the same last item
    bodies = ask([say("Yes.")] * 2, *[model_request(*items, model=SMALL) for items in (first, second)]).bodies
    assert [sent(body) == ["image"] for body in bodies] == [False, True]


def test_images_that_were_replaced_no_longer_count(ask):
    large, last, said = (
        Message("user", (image(3000, 2),)),
        user_message("And?"),
        Message("assistant", (OutputText("Yes."),)),
    )
    first = [large, said, *[Message("user", (image(number=number),)) for number in range(20)], said, last]
    second = [large, said, *[user_message(f"{number}") for number in range(20)], said, last]
    bodies = ask([say("Yes.")] * 2, *[model_request(*items, model=SMALL) for items in (first, second)]).bodies
    assert [[result == "image" for result in sent(body)] for body in bodies] == [[False, *[True] * 20], [True]]


def test_each_image_is_looked_at_once():
    writer = BodyWriter(MessagesOptions())
    items, work = [], []

    def count(task):
        calls = 0

        def note(frame, event, argument):
            nonlocal calls
            calls += event == "call"

        sys.setprofile(note)
        try:
            task()
        finally:
            sys.setprofile(None)
        return calls

    for number in range(90):
        items += [Message("user", (image(number=number),)), Message("assistant", (OutputText("Yes."),))]
        request = model_request(*items, model=SMALL)
        work.append(count(lambda request=request: (writer.body(request), writer.losses(request))))
    steps = [more - less for less, more in itertools.pairwise(work[60:])]
    assert max(steps) <= 4  # the limits of each image are compared again; nothing is decoded


def test_an_image_is_decoded_once_even_if_the_rest_of_the_history_changes(monkeypatch):
    decoded = []

    def counted(*arguments, **options):
        decoded.append(1)
        return decode(*arguments, **options)

    decode = base64.b64decode
    monkeypatch.setattr(base64, "b64decode", counted)
    writer, picture = BodyWriter(MessagesOptions()), Message("user", (image(),))
    for number in range(5):
        writer.body(model_request(picture, f"Another {number}.", model=SMALL))
    assert decoded == [1]


@pytest.mark.parametrize(
    "words",
    [
        "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
        "messages.0.content.0.image.source.base64.data: Image does not match the provided media type image/png",
        "messages.1.content.0: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
        "Could not process image",
        "Unable to download the file. Please verify the URL and try again.",
    ],
)
def test_images_that_the_server_refuses_all_the_same_do_not_stay_in_the_way(ask, words):
    refused = fault(400, body={"type": "error", "error": {"type": "invalid_request_error", "message": words}})
    error = ask([refused]).error
    assert (error.slug, error.retryable) == ("invalid-image", False)


def test_a_thread_goes_on_after_an_image_that_cannot_go(make_kernel, model_server):
    server = model_server([say("Yes."), say("Yes.")])
    config = (
        'model = "claude-sonnet-4-5"\nmodel_provider = "mine"\n'
        f'[model_providers.mine]\nbase_url = "{server.url}"\nwire_api = "messages"\n'
    )

    async def run():
        async with make_kernel(config=config) as kernel:
            thread = await kernel.start_thread()
            events = thread.events()
            thread.deliver([Message("user", (image(9000, 2), image(9, 2)))])
            results = [await thread.run(words) for words in ("Look.", "Again.")]
            await thread.shutdown()
            return results, [event.msg async for event in events]

    results, events = asyncio.run(run())
    assert [(result.final_message, result.error) for result in results] == [("Yes.", None)] * 2
    for request in server.requests:
        first, second = sent(request.json)
        assert (second, "8000 pixels" in first) == ("image", True)
    (loss,) = [event for event in events if isinstance(event, HistoryLossEvent)]
    assert (loss.what, loss.count, "8000 pixels" in loss.reason) == ("images", 1, True)
    assert [event for event in events if isinstance(event, WarningEvent) and "8000 pixels" in event.message]
