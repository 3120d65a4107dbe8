"""The output of a review: read leniently from the model's text, and rendered as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["INTERRUPTED_ACTION", "INTERRUPTED_MESSAGE", "SCHEMA", "ReviewOutput", "action", "read_output", "rendered"]

ReviewOutput = Mapping[str, Any]
"""Codex's ``ReviewOutputEvent``: ``findings``, ``overall_correctness``, ``overall_explanation``, ``overall_confidence_score``."""

SCHEMA = """{
  "findings": [
    {
      "title": "<at most 80 characters, begins with the priority: [P0] to [P3]>",
      "body": "<Markdown: why this is a problem, with the file, the lines and the functions>",
      "confidence_score": <number from 0.0 to 1.0>,
      "priority": <integer from 0 to 3>,
      "code_location": {
        "absolute_file_path": "<path>",
        "line_range": {"start": <integer>, "end": <integer>}
      }
    }
  ],
  "overall_correctness": "patch is correct" | "patch is incorrect",
  "overall_explanation": "<one to three sentences>",
  "overall_confidence_score": <number from 0.0 to 1.0>
}"""
"""The form of the output, as the instructions show it to the model."""

INTERRUPTED_MESSAGE = "Review was interrupted. Please re-run /review and wait for it to complete."

INTERRUPTED_ACTION = (
    "<user_action>\n  <context>User initiated a review task, but was interrupted. If user asks about this, tell them to"
    " re-initiate a review with `/review` and wait for it to complete.</context>\n  <action>review</action>\n  <results>\n"
    "  None.\n  </results>\n</user_action>\n"
)
"""The text for the model about a review without output (Codex's words)."""


def action(text: str) -> str:
    """Return the text for the model about a review (Codex's words)."""
    return (
        "<user_action>\n  <context>User initiated a review task. Here's the full review output from reviewer model. User may"
        f" select one or more comments to resolve.</context>\n  <action>review</action>\n  <results>\n  {text}\n  </results>\n"
        "  </user_action>\n"
    )


def read_output(text: str) -> ReviewOutput:
    """Read the final message of a reviewing model.

    It is JSON, or JSON between other text. Any other text becomes the explanation, so that nothing is lost.
    """
    start, end = text.find("{"), text.rfind("}")
    for candidate in (text, text[start : end + 1] if 0 <= start < end else ""):
        found = _output(_parsed(candidate)) if candidate.strip() else None
        if found is not None:
            return found
    return {"findings": [], "overall_correctness": "", "overall_explanation": text, "overall_confidence_score": 0.0}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _output(given: Any) -> ReviewOutput | None:
    """Return the output in its wire form, or None if it does not have the required fields."""
    if not isinstance(given, dict) or not isinstance(given.get("findings"), list):
        return None
    findings = [_finding(each) for each in given["findings"]]
    correctness, explanation = given.get("overall_correctness"), given.get("overall_explanation")
    score = _number(given.get("overall_confidence_score"))
    if None in findings or not isinstance(correctness, str) or not isinstance(explanation, str) or score is None:
        return None
    return {
        "findings": findings,
        "overall_correctness": correctness,
        "overall_explanation": explanation,
        "overall_confidence_score": score,
    }


def _finding(given: Any) -> Mapping[str, Any] | None:
    match given:
        case {
            "title": str(title),
            "body": str(body),
            "confidence_score": confidence,
            "priority": priority,
            "code_location": {"absolute_file_path": str(path), "line_range": {"start": start, "end": end}},
        }:
            score, level = _number(confidence), _whole(priority)
            first, last = _whole(start), _whole(end)
            if score is None or level is None or first is None or last is None or min(first, last) < 0:
                return None
            place = {"absolute_file_path": path, "line_range": {"start": first, "end": last}}
            return {
                "title": title,
                "body": body,
                "confidence_score": score,
                "priority": level,
                "code_location": place,
            }
        case _:
            return None


def _number(value: Any) -> float | None:
    """Return a finite number, but not a truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        return None
    return float(value)


def _whole(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number.is_integer() else None


def rendered(output: ReviewOutput) -> str:
    """Return the output as text for users and for the model (Codex's form)."""
    blocks = [text for text in (str(output["overall_explanation"]).strip(), _comments(output["findings"])) if text]
    return "\n\n".join(blocks) or "Reviewer failed to output a response."


def _comments(findings: Sequence[Mapping[str, Any]]) -> str:
    if not findings:
        return ""
    head = "Full review comments:" if len(findings) > 1 else "Review comment:"
    return "\n\n".join([head, *map(_comment, findings)])


def _comment(finding: Mapping[str, Any]) -> str:
    place = finding["code_location"]
    lines = place["line_range"]
    where = f"{place['absolute_file_path']}:{lines['start']}-{lines['end']}"
    body = "".join(f"\n  {line}" for line in finding["body"].splitlines())
    return f"- {finding['title']} — {where}{body}"
