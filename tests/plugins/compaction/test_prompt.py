"""Where the prompt comes from, and what is said of a file that cannot be used."""

from __future__ import annotations

import os

import pytest

from codex_framework import ConfigError
from codex_framework.contract.protocol.events import ErrorEvent, WarningEvent
from codex_framework.testing import say
from codex_plugin_compaction import Compact
from codex_plugin_compaction.prompt import MAX_BYTES, PROMPT, compact_prompt


def test_there_is_one_unless_the_configuration_has_another():
    assert compact_prompt({}) == PROMPT.strip()
    assert compact_prompt({"compact_prompt": " \n"}) == PROMPT.strip()
    assert compact_prompt({"compact_prompt": " Sum it up.\n"}) == "Sum it up."


def test_a_file_can_hold_it_and_the_text_comes_first(tmp_path):
    file = tmp_path / "prompt.md"
    file.write_text("\nZusammenfassung, bitte: kürzer!\n", encoding="utf-8")
    config = {"experimental_compact_prompt_file": str(file)}
    assert compact_prompt(config) == "Zusammenfassung, bitte: kürzer!"
    assert compact_prompt({**config, "compact_prompt": "Sum it up."}) == "Sum it up."


def _missing(file):
    pass


def _folder(file):
    file.mkdir()


def _pipe(file):
    os.mkfifo(file)


def _empty(file):
    file.write_text(" \n")


def _latin(file):
    file.write_bytes(b"k\xfcrzer")


def _huge(file):
    file.write_bytes(b"x" * (MAX_BYTES + 1))


def _loop(file):
    file.symlink_to(file)


@pytest.mark.parametrize(
    ("make", "fact"),
    [
        (_missing, "cannot be read: No such file or directory"),
        (_folder, "is not a regular file"),
        (_pipe, "is not a regular file"),
        (_empty, "is empty"),
        (_latin, "is not UTF-8 (byte 1)"),
        (_huge, "has 1048577 bytes; at most 1048576 are read"),
        (_loop, "cannot be read: Too many levels of symbolic links"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error_that_names_it(tmp_path, make, fact):
    file = tmp_path / "prompt.md"
    make(file)
    with pytest.raises(ConfigError) as caught:
        compact_prompt({"experimental_compact_prompt_file": str(file)})
    assert str(caught.value) == f"the compact prompt {file} {fact}"
    assert "experimental_compact_prompt_file" in caught.value.hint


def test_a_name_that_no_file_can_have_is_an_error(tmp_path):
    for name in ("a\0b", "x" * 5000):
        with pytest.raises(ConfigError, match="cannot be read"):
            compact_prompt({"experimental_compact_prompt_file": f"/{name}"})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_an_error(tmp_path):
    file = tmp_path / "prompt.md"
    file.write_text("x")
    file.chmod(0)
    with pytest.raises(ConfigError, match="Permission denied"):
        compact_prompt({"experimental_compact_prompt_file": str(file)})


def test_the_model_is_asked_with_the_prompt_of_the_configuration(scene, carry_out):
    (scene.codex_home / "short.md").write_text("Sum it up.")

    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        await carry_out(thread, Compact())

    file = scene.codex_home / "short.md"
    scene.play(story, [say("Hello."), say("Short.")], f'experimental_compact_prompt_file="{file}"')
    assert scene.asked[1]["input"][-1]["content"] == [{"type": "input_text", "text": "Sum it up."}]


def test_a_turn_tells_what_is_wrong_with_the_file(scene, carry_out, used):
    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Hi!")
        return await carry_out(thread, Compact()), await thread.run("How are you?")

    replies = [used(say("Hello."), 1000), say("Fine.")]
    gone = f"{scene.codex_home}/gone.md"
    config = f'experimental_compact_prompt_file="{gone}"', "model_auto_compact_token_limit=900"
    events, result = scene.play(story, replies, *config)
    fact = (
        f"the compact prompt {gone} cannot be read: No such file or directory."
        " Fix the file, or remove `experimental_compact_prompt_file` from the configuration."
    )
    assert [event.message for event in events if isinstance(event, ErrorEvent)] == [fact]
    warnings = [event.message for event in result.events if isinstance(event, WarningEvent)]
    assert warnings == [f"the conversation could not be compacted: {fact}"]
    assert result.final_message == "Fine."
