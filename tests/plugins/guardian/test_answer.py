from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_plugin_guardian.answer import _MOST_RATIONALE, SCHEMA, Answer, UnreadableAnswerError, read_answer

RISKS = ["low", "medium", "high", "critical"]
AUTHORIZATIONS = ["unknown", "low", "medium", "high"]


def answer(**fields: Any) -> str:
    return json.dumps(fields)


@pytest.mark.parametrize(
    "text",
    [
        '{"outcome": "allow"}',
        ' \n{"outcome": "allow"}\n',
        answer(outcome="allow", risk_level=None, user_authorization=None, rationale=None),
        answer(outcome="allow", risk_level="low"),
        answer(outcome="allow", risk_level="medium", user_authorization="unknown", rationale="It only builds."),
        answer(outcome="allow", risk_level="high", user_authorization="medium", rationale="Asked for."),
        answer(outcome="allow", risk_level="high", user_authorization="high", rationale="Asked for."),
    ],
)
def test_an_allowance(text: str):
    assert read_answer(text).allowed


@pytest.mark.parametrize(
    "text",
    [
        '{"outcome": "deny"}',
        answer(outcome="deny", risk_level="banana", rationale=7, more=True),
        answer(outcome="allow", risk_level="critical", user_authorization="high", rationale="It is fine."),
        answer(outcome="allow", risk_level="high", user_authorization="low", rationale="It is fine."),
        answer(outcome="allow", risk_level="high", user_authorization="unknown", rationale="It is fine."),
    ],
)
def test_a_refusal(text: str):
    found = read_answer(text)
    assert not found.allowed
    assert found.rationale


@pytest.mark.parametrize(
    "text",
    [
        "",
        "allow",
        '"allow"',
        "true",
        "[]",
        "{}",
        '{"outcome": null}',
        '{"outcome": true}',
        '{"outcome": "ALLOW"}',
        '{"outcome": "allow "}',
        '{"outcome": ["allow"]}',
        '{"outcome": "allow"',
        '{"outcome": "allow"}.',
        '{"outcome": "deny"} {"outcome": "allow"}',
        '{"outcome": "deny", "outcome": "allow"}',
        'I think {"outcome": "allow"}',
        '```\n{"outcome": "allow"}\n```',
        answer(outcome="allow", approved=True),
        answer(outcome="allow", risk_level="none"),
        answer(outcome="allow", risk_level=0),
        answer(outcome="allow", risk_level="low", user_authorization="full"),
        answer(outcome="allow", rationale=["a"]),
        answer(outcome="allow", risk_level="medium"),
        answer(outcome="allow", risk_level="medium", user_authorization="high"),
        answer(outcome="allow", risk_level="medium", user_authorization="high", rationale="  "),
        answer(outcome="allow", risk_level="medium", rationale="x"),
        '{"outcome": "allow", "risk_level": NaN}',
        "[" * 100_000,
        "9" * 5_000,
    ],
)
def test_what_is_no_answer(text: str):
    with pytest.raises(UnreadableAnswerError):
        read_answer(text)


def test_a_rationale_is_one_line_of_readable_characters():
    found = read_answer(answer(outcome="deny", rationale="No.\n\x1b[31mred\u202e\x00 " + "x" * 5_000))
    assert found.rationale.startswith("No. [31mred x")
    assert found.rationale.isprintable()
    assert len(found.rationale) <= 1_001


def test_what_is_wrong_is_told_without_words_of_the_answer():
    with pytest.raises(UnreadableAnswerError) as caught:
        read_answer(answer(outcome="allow", **{"the user allows everything": 1}))
    assert "everything" not in str(caught.value)


def test_only_a_reason_that_is_too_long_is_shortened():
    whole, longer = "x" * _MOST_RATIONALE, "x" * (_MOST_RATIONALE + 1)
    assert read_answer(answer(outcome="deny", rationale=whole)).rationale == whole
    assert read_answer(answer(outcome="deny", rationale=longer)).rationale == f"{whole}…"


def test_a_strict_schema_requires_every_field():
    assert set(SCHEMA["required"]) == set(SCHEMA["properties"])
    assert SCHEMA["additionalProperties"] is False


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([*RISKS, *AUTHORIZATIONS, "allow", "deny"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "outcome": st.sampled_from(["allow", "deny"]) | JUNK,
        "risk_level": st.sampled_from(RISKS) | JUNK,
        "user_authorization": st.sampled_from(AUTHORIZATIONS) | JUNK,
        "rationale": st.text() | JUNK,
        "extra": JUNK,
    },
)


@given(FIELDS)
def test_nothing_is_allowed_but_by_a_whole_answer(fields: dict[str, Any]):
    try:
        found = read_answer(json.dumps(fields))
    except UnreadableAnswerError:
        assert fields.get("outcome") != "deny"
        return
    assert isinstance(found, Answer)
    assert found.rationale
    if not found.allowed:
        return
    risk, authorization = fields.get("risk_level") or "low", fields.get("user_authorization") or "unknown"
    assert fields["outcome"] == "allow"
    assert "extra" not in fields
    assert risk in ("low", "medium") or (risk == "high" and authorization in ("medium", "high"))
    assert risk == "low" or fields["rationale"].strip()


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_prose_is_never_an_allowance(text: str):
    with pytest.raises(UnreadableAnswerError):
        read_answer(f"{text} allow")
