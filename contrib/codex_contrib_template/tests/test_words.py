"""The tool: its role, and its use by a model. The fixtures are part of codex-framework."""

from __future__ import annotations

import pytest

from codex_contrib_template.words import count_words
from codex_framework.testing import call, check_tool, say


@pytest.fixture
def poem(workspace):
    file = workspace / "poem.txt"
    file.write_text("roses are red\nviolets are blue\n", encoding="utf-8")
    return file


def test_the_tool_fulfils_its_role(poem):
    check_tool(count_words, {"path": "poem.txt"}, workspace=poem.parent)


def test_the_model_is_offered_the_tool(run_turn):
    run = run_turn("Hello!", [say("Hi!")])
    (spec,) = [spec for spec in run.requests[0].tools if spec.name == "count_words"]
    assert spec.description == "Count the words of a text file in the workspace."
    assert spec.parameters["required"] == ["path"]


def test_the_words_of_a_file_are_counted(run_turn, poem):
    run = run_turn("How many words?", [call("count_words", path=poem.name, longest=2), say("Six.")])
    assert run.final_message == "Six."
    assert run.outputs == ("poem.txt has 6 words.\nLongest: violets, roses",)


def test_a_missing_file_is_reported_to_the_model(run_turn):
    run = run_turn("Count.", [call("count_words", path="nowhere.txt"), say("There is none.")])
    (output,) = run.outputs
    assert "nowhere.txt" in output
