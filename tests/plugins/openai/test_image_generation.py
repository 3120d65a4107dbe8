"""Images that the model's server generates are saved, shown and kept."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from pathlib import Path

import pytest

from codex_framework import ModelInfo
from codex_framework.contract.protocol.events import (
    ImageGenerationBeginEvent,
    ImageGenerationEndEvent,
    ItemCompletedEvent,
    WebSearchBeginEvent,
    WebSearchEndEvent,
)
from codex_framework.contract.protocol.items import Message, UnknownItem, message_text
from codex_framework.testing import reply, say
from codex_framework.testing.facts import turn_facts
from codex_plugin_openai import saved_images
from codex_plugin_openai.image_generation import ImageGeneration

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\nand so on").decode()
ON = ("features.image_generation=true",)


def image(name="ig_1", result=PIXEL, **more):
    call = {"id": name, "type": "image_generation_call", "status": "completed", "result": result, **more}
    return reply(UnknownItem(call)) + say("Drawn.")


def drawn(make_thread, *replies, config=ON):
    """Run turns with these replies. Return the thread as it was in the end, and the folder of its images."""

    async def main():
        async with make_thread(config=config) as thread:
            for each in replies:
                assert (await thread.turn("Draw!", each)).final_message == "Drawn."
            return thread, Path(thread.kernel.config.codex_home) / "generated_images"

    return asyncio.run(main())


def warnings(thread):
    return [text for text in thread.warnings if "image" in text]


def ends(thread):
    return [event for event in thread.events if isinstance(event, ImageGenerationEndEvent)]


def test_an_image_is_saved_for_the_user_alone_and_told_to_clients_and_the_model(make_thread):
    thread, folder = drawn(make_thread, image(revised_prompt="A dot."), say("Drawn."))
    path = folder / thread.client.id / "ig_1.png"
    assert path.read_bytes() == base64.b64decode(PIXEL)
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (folder, path.parent, path)]
    assert modes == [0o700, 0o700, 0o600]
    assert ends(thread) == [ImageGenerationEndEvent("ig_1", "completed", "A dot.", PIXEL, str(path))]
    items = [event.item for event in thread.events if isinstance(event, ItemCompletedEvent)]
    fields = {"status": "completed", "revised_prompt": "A dot.", "result": PIXEL, "saved_path": str(path)}
    assert {"type": "ImageGeneration", "id": "ig_1", **fields} in items
    sent = thread.requests[1].prompt.items
    kept = [item.raw for item in sent if isinstance(item, UnknownItem)]
    assert [item["result"] for item in kept] == [PIXEL]
    assert [message_text(item) for item in sent if isinstance(item, Message) and str(path) in message_text(item)]
    assert warnings(thread) == []


def test_it_is_offered_only_with_the_feature_and_otherwise_nothing_is_saved(make_thread):
    thread, folder = drawn(make_thread, image(), config=())
    assert [spec.name for spec in thread.requests[0].tools if "image_gen" in spec.name] == []
    assert not folder.exists()
    assert [event.saved_path for event in ends(thread)] == [None]
    thread, _ = drawn(make_thread, say("Drawn."))
    (spec,) = (spec for spec in thread.requests[0].tools if spec.name == "image_generation")
    assert (spec.type, spec.options) == ("image_generation", {"output_format": "png"})


def test_names_that_lead_elsewhere_stay_in_the_folder_and_earlier_images_stay(make_thread, tmp_path):
    other = base64.b64encode(b"other").decode()
    ids = ["../../../evil", "a/b", "..", "", "\0", "x" * 500, "ig_1", "ig_1"]
    replies = [image(name, other if place == 7 else PIXEL) for place, name in enumerate(ids)]
    thread, folder = drawn(make_thread, *replies)
    names = {"_________evil", "a_b", "__", "image", "_", "x" * 100, "ig_1", "ig_1-2"}
    assert {path.name for path in (folder / thread.client.id).iterdir()} == {f"{name}.png" for name in names}
    assert (folder / thread.client.id / "ig_1.png").read_bytes() == base64.b64decode(PIXEL)
    assert (folder / thread.client.id / "ig_1-2.png").read_bytes() == b"other"
    assert [path.parent for path in tmp_path.rglob("*evil*")] == [folder / thread.client.id]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("@@@", "not base64"),
        (f"data:image/png;base64,{PIXEL}", "not base64"),
        ("AAAA" * 100, "larger than"),
    ],
)
def test_what_cannot_be_saved_is_one_warning_and_the_turn_goes_on(make_thread, monkeypatch, result, told):
    monkeypatch.setattr(saved_images, "MOST_BYTES", 200)
    thread, folder = drawn(make_thread, image("a", result, saved_path="/bin/sh"), image("b", result))
    (warning,) = warnings(thread)
    assert told in warning
    assert result not in warning
    assert not list(folder.rglob("*.png"))
    assert [event.saved_path for event in ends(thread)] == [None, None]


def test_a_failed_image_and_a_folder_that_cannot_be_written_end_no_turn(make_thread):
    async def main():
        async with make_thread(config=ON) as thread:
            (Path(thread.kernel.config.codex_home) / "generated_images").write_text("in the way")
            await thread.turn("Draw!", image("a", "", status="failed"))
            assert warnings(thread) == []
            await thread.turn("Draw!", image("b"))
            await thread.turn("Draw!", image("c"))
            (warning,) = warnings(thread)
            assert "could not be saved" in warning
            assert [event.status for event in ends(thread)] == ["failed", "completed", "completed"]

    asyncio.run(main())


def test_a_full_disk_leaves_no_half_file(make_thread, monkeypatch):
    class Full:
        def __init__(self, file, mode):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *error):
            os.close(self.file)

        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(saved_images.os, "fdopen", Full)
    thread, folder = drawn(make_thread, image())
    (warning,) = warnings(thread)
    assert "No space left on device" in warning
    assert not list(folder.rglob("*.png"))


def test_a_session_has_a_bound_number_of_files(make_thread, monkeypatch):
    monkeypatch.setattr(saved_images, "_MOST_FILES", 1)
    thread, folder = drawn(make_thread, image("a"), image("b"))
    (warning,) = warnings(thread)
    assert "there are 1 images of this session already" in warning
    assert [path.name for path in (folder / thread.client.id).iterdir()] == ["a.png"]


@pytest.mark.parametrize("sees", [True, False])
def test_only_models_that_see_images_are_offered_it(tmp_path, sees):
    facts = turn_facts(model=ModelInfo(slug="m", supports_images=sees), config={"features": {"image_generation": True}})
    assert ImageGeneration(tmp_path).offered(facts) is sees


def test_an_image_counts_as_an_image_and_not_as_text(make_thread):
    large = base64.b64encode(bytes(3_000_000)).decode()

    async def main():
        async with make_thread(config=ON) as thread:
            await thread.turn("Draw!", image(result=large).evolve(usage=None))
            assert thread.client.history.tokens < 20_000

    asyncio.run(main())


def test_events_of_older_clients_say_when_calls_of_the_server_begin_and_end(make_thread):
    search = {"id": "ws_1", "type": "web_search_call", "action": {"type": "search", "query": "rain"}}
    thread, _ = drawn(make_thread, reply(UnknownItem(search)) + image())
    kinds = (WebSearchBeginEvent, WebSearchEndEvent, ImageGenerationBeginEvent, ImageGenerationEndEvent)
    told = [event for event in thread.events if isinstance(event, kinds)]
    assert told[:3] == [
        WebSearchBeginEvent("ws_1"),
        WebSearchEndEvent("ws_1", "rain", {"type": "search", "query": "rain"}),
        ImageGenerationBeginEvent("ig_1"),
    ]
    assert [type(event) for event in told[3:]] == [ImageGenerationEndEvent]
