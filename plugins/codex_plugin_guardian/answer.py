"""The reviewing model's answer: its schema, and a strict parser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from codex_framework.contract.value import Value

__all__ = ["SCHEMA", "Answer", "UnreadableAnswerError", "read_answer"]

_RISKS = ("low", "medium", "high", "critical")
_AUTHORIZATIONS = ("unknown", "low", "medium", "high")
_MOST_RATIONALE = 1_000

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "outcome": {"type": "string", "enum": ["allow", "deny"]},
        "risk_level": {"type": ["string", "null"], "enum": [*_RISKS, None]},
        "user_authorization": {"type": ["string", "null"], "enum": [*_AUTHORIZATIONS, None]},
        "rationale": {"type": ["string", "null"]},
    },
    "required": ["outcome", "risk_level", "user_authorization", "rationale"],
    "additionalProperties": False,
}
"""The schema for the provider. A strict schema must require every field, so an omitted field is ``null``."""


class UnreadableAnswerError(Exception):
    """The answer does not have the required form. The text gives the reason without quoting the answer."""


class Answer(Value, kw_only=True):
    """A decision.

    Attributes:
        risk_level: ``low``, ``medium``, ``high``, ``critical``; ``unknown`` if a refusal does not state it.
        user_authorization: How clearly the user has authorised this: ``unknown``, ``low``, ``medium``, ``high``.
    """

    allowed: bool
    risk_level: str
    user_authorization: str
    rationale: str


def read_answer(text: str) -> Answer:
    """Read an answer.

    There must be nothing around the JSON object. A refusal is valid even without reasons. An allowance must be complete unless
    the risk is low, and it must be consistent: a critical risk is refused, and so is a high risk unless the user's
    authorisation is at least ``medium``.

    Raises:
        UnreadableAnswerError: It is not a valid answer.
    """
    found = _object(text)
    outcome = found.get("outcome")
    if outcome == "deny":
        return Answer(
            allowed=False,
            risk_level=_word(found.get("risk_level"), _RISKS) or "unknown",
            user_authorization=_word(found.get("user_authorization"), _AUTHORIZATIONS) or "unknown",
            rationale=_rationale(found.get("rationale")) or "No reason was given.",
        )
    if outcome != "allow":
        raise UnreadableAnswerError('"outcome" is neither "allow" nor "deny"')
    return _allowance(found)


def _allowance(found: Mapping[str, Any]) -> Answer:
    if not found.keys() <= SCHEMA["properties"].keys():
        raise UnreadableAnswerError("it has unexpected fields")
    risk = _check_word(found, "risk_level", _RISKS)
    authorization = _check_word(found, "user_authorization", _AUTHORIZATIONS)
    rationale = found.get("rationale")
    if not isinstance(rationale, str | None):
        raise UnreadableAnswerError('"rationale" is not a string')
    if risk not in (None, "low") and (authorization is None or not (rationale and rationale.strip())):
        raise UnreadableAnswerError('allowing more than low risk requires "user_authorization" and "rationale"')
    too_risky = risk == "critical" or (risk == "high" and authorization not in ("medium", "high"))
    text = _rationale(rationale) or "It is of low risk."
    if too_risky:
        text = f"A {risk} risk is not allowed with this authorisation. The review said: {text}"
    return Answer(
        allowed=not too_risky,
        risk_level=risk or "low",
        user_authorization=authorization or "unknown",
        rationale=text,
    )


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise UnreadableAnswerError(f"it is not one JSON object: {error}") from error
    if not isinstance(found, dict):
        raise UnreadableAnswerError("it is not a JSON object")
    return found


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field occurs twice")
    return found


def _word(value: object, words: tuple[str, ...]) -> str | None:
    return value if isinstance(value, str) and value in words else None


def _check_word(found: Mapping[str, Any], name: str, words: tuple[str, ...]) -> str | None:
    value = found.get(name)
    if value is not None and _word(value, words) is None:
        raise UnreadableAnswerError(f'"{name}" is not one of {", ".join(words)}')
    return value


def _rationale(value: object) -> str:
    """Return a reason as one line of printable characters; empty without a reason."""
    if not isinstance(value, str):
        return ""
    text = " ".join("".join(char if char.isprintable() else " " for char in value).split())
    return text if len(text) <= _MOST_RATIONALE else f"{text[:_MOST_RATIONALE]}…"
