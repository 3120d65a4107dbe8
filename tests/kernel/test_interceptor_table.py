"""Each set of interceptors that apply to a turn has a table of its own."""

from __future__ import annotations

from typing import Any

from codex_framework import Interceptor
from codex_framework.contract.roles.plugins import Offer
from codex_framework.threads.interceptor_table import InterceptorTable


class Choosy(Interceptor):
    """Applies to some turns."""

    def __init__(self, name: str) -> None:
        self.name = name

    def applies(self, turn: Any) -> bool:
        return True

    async def before_tool(self, call: Any, turn: Any) -> Any:
        return call


class Plain(Interceptor):
    name = "plain"

    async def before_tool(self, call: Any, turn: Any) -> Any:
        return call


def test_no_turn_gets_the_interceptors_of_another_set() -> None:
    table = InterceptorTable([Offer("a", Choosy("one")), Offer("b", Choosy("two")), Offer("c", Plain())])

    def names(*absent: str) -> list[str]:
        return [guard.name for guard in table.for_turn(lambda guard: guard.name not in absent).before_tool]

    for _ in range(2):
        assert names("one") == ["two", "plain"]
        assert names("two") == ["one", "plain"]
        assert names("one", "two") == ["plain"]
        assert names() == ["one", "two", "plain"]


def test_an_interceptor_redacts_only_if_it_says_so() -> None:
    class Redacting(Interceptor):
        def __init__(self, name: str, *, redacts: bool) -> None:
            self.name = name
            self.redacts = redacts

        def redact(self, text: str, turn: Any) -> str:
            return "[secret]"

    table = InterceptorTable(Offer("a", Redacting(str(redacts), redacts=redacts)) for redacts in (False, True))
    assert [guard.name for guard in table.redact] == ["True"]
