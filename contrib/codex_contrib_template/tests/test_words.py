"""The tool, as the model sees it."""

from __future__ import annotations

from codex_framework.testing.replies import call, say


def outputs(request):
    """What the model was told of its calls."""
    return [item.output for item in request.prompt.items if item.type == "function_call_output"]


def test_the_model_is_offered_the_tool(run_turn):
    _, model = run_turn("Hello!", replies=[say("Hi!")])
    (spec,) = [spec for spec in model.requests[0].tools if spec.name == "count_words"]
    assert spec.description == "Count the words of a text file in the workspace."
    assert spec.parameters["required"] == ["path"]


def test_the_words_of_a_file_are_counted(run_turn):
    result, model = run_turn(
        "How many words are in the poem?",
        replies=[call("count_words", path="poem.txt", longest=2), say("Six.")],
    )
    assert result.final_message == "Six."
    assert outputs(model.requests[1]) == ["poem.txt has 6 words.\nLongest: violets, roses"]


def test_a_missing_file_is_told_to_the_model(run_turn):
    _, model = run_turn("Count.", replies=[call("count_words", path="nowhere.txt"), say("There is none.")])
    (output,) = outputs(model.requests[1])
    assert "nowhere.txt" in output
