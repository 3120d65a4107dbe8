"""What is known about models: who answers, who rests, and what the user has been told."""

from __future__ import annotations

from codex_plugin_fallbacks.health import Health, Target

A, B, C = ("one", "a"), ("two", "b"), ("three", "c")
CHAIN: list[Target] = [A, B, C]


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_model_rests_for_a_time_after_it_has_failed() -> None:
    clock = Clock()
    health = Health(5.0, clock)
    health.failed(A, "busy")
    assert (health.first(CHAIN), health.first([A])) == (B, A)
    clock.now += 4.9
    assert health.first(CHAIN) == B
    clock.now += 0.1
    assert health.first(CHAIN) == A


def test_a_model_that_has_answered_rests_no_longer() -> None:
    health = Health(5.0, Clock())
    health.failed(A, "busy")
    health.answered(A)
    assert health.first(CHAIN) == A
    health.answered(B)


def test_a_turn_stays_with_its_model() -> None:
    health = Health(5.0, Clock())
    turn = health.turn("t", "1", CHAIN)
    turn.target = B
    assert health.turn("t", "1", CHAIN) is turn
    assert health.turn("t", "2", CHAIN).target == A
    assert health.turn("u", "1", CHAIN).target == A


def test_a_request_for_another_model_within_a_turn_starts_with_that_model() -> None:
    health = Health(5.0, Clock())
    health.turn("t", "1", CHAIN)
    assert health.turn("t", "1", [B, C]).target == B


def test_a_user_is_told_once_and_only_what_is_new() -> None:
    health = Health(5.0, Clock())
    health.failed(A, "busy")
    assert health.reason("t", CHAIN, A) == ""
    assert health.reason("t", CHAIN, B) == "busy"
    assert health.reason("t", CHAIN, B) == ""
    assert health.reason("u", CHAIN, B) == "busy"
    health.failed(B, "no money")
    assert health.reason("t", CHAIN, C) == "no money"
    assert health.reason("v", CHAIN, C) == "busy; then no money"
    assert health.reason("t", CHAIN, A) == ""
    assert health.reason("t", CHAIN, B) == "busy"


def test_a_reason_is_never_empty_for_who_has_not_been_told() -> None:
    """Another thread may have heard from the model in the meantime."""
    health = Health(5.0, Clock())
    health.failed(A, "busy")
    health.answered(A)
    assert health.reason("t", CHAIN, B) == "it failed before"


def test_a_reason_for_another_list_starts_at_its_beginning() -> None:
    health = Health(5.0, Clock())
    health.failed(A, "busy")
    health.failed(B, "no money")
    assert health.reason("t", CHAIN, C) == "busy; then no money"
    other: list[Target] = [A, B, ("four", "d")]
    assert health.reason("t", other, ("four", "d")) == "busy; then no money"


def test_the_latest_threads_are_remembered() -> None:
    health = Health(5.0, Clock())
    health.failed(A, "busy")
    for name in ("old", "used"):
        health.turn(name, "1", CHAIN).failures = 7
        assert health.reason(name, CHAIN, B) == "busy"
    for number in range(1024):
        health.turn(f"more-{number}", "1", CHAIN)
        assert health.turn("used", "1", CHAIN).failures == 7
    assert health.reason("used", CHAIN, B) == ""
    assert health.turn("old", "1", CHAIN).failures == 0
    assert health.reason("old", CHAIN, B) == "busy"
