"""What people are asked about patches and folders, and how their answers are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_framework import FileAccess, ToolCall, ToolContext, ToolOutput
from codex_framework.contract.protocol.events import ErrorEvent
from codex_framework.contract.protocol.policies import ApprovalPolicy
from codex_framework.contract.protocol.wire import to_wire

from .conftest import FOR_SESSION, Patch, Played


def test_a_folder_can_be_granted_for_the_session(played: Played, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "a").mkdir(parents=True)
    outputs = played.play(Patch(other / "x", other / "a" / "y"), lambda event: FOR_SESSION, turns=2)
    (event,) = played.asked
    assert event.grant_root == str(other)
    assert outputs == ["False False", "True True"]


def test_approving_once_grants_nothing(played: Played, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert played.play(Patch(other / "x"), turns=2) == ["False", "False"]
    assert len(played.asked) == 2


def test_too_much_is_never_offered(played: Played, tmp_path: Path) -> None:
    kept = played.workspace / ".git" / "config"
    for paths in ([Path("/x")], [Path("/etc/x")], [Path.home() / "x"], [kept]):
        played.play(Patch(*paths), lambda event: FOR_SESSION)
        assert played.asked[-1].grant_root is None, paths
    assert not any(isinstance(event, ErrorEvent) for event in played.events)


def test_reviewers_learn_whether_a_patch_writes_where_the_turn_must_not(played: Played, tmp_path: Path) -> None:
    inside, outside = played.workspace / "x", tmp_path / "other" / "x"
    for paths, lifts in (((inside,), False), ((outside,), True), ((inside, outside), True)):
        played.play(Patch(*paths), policy=ApprovalPolicy.UNTRUSTED)
        assert played.asked[-1].without_sandbox is lifts
        assert to_wire(played.asked[-1]).get("without_sandbox") is (True if lifts else None)
    assert played.asked[-1].reason == "the patch writes to paths that need approval"


class Narrowing(Patch):
    """From its second call on, the folder of the first one must not be written any more."""

    def __init__(self, *paths: Path, at_first: FileAccess, later: FileAccess) -> None:
        super().__init__(*paths)
        self._accesses = iter((at_first, later, at_first))

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        caller = context.caller  # type: ignore[attr-defined]
        caller = caller.evolve(turn=caller.turn.evolve(access=next(self._accesses)))
        return await super().run(call, context.evolve(caller=caller))  # type: ignore[attr-defined]


@pytest.mark.parametrize("outside_first", [False, True])
def test_an_approval_of_a_patch_within_the_workspace_does_not_cover_it_outside(
    played: Played, tmp_path: Path, outside_first: bool
) -> None:
    here = FileAccess.writing(tmp_path)
    elsewhere = FileAccess.writing(tmp_path / "elsewhere")
    accesses = {"at_first": elsewhere, "later": here} if outside_first else {"at_first": here, "later": elsewhere}
    tool = Narrowing(tmp_path / "x", **accesses)
    played.play(tool, lambda event: FOR_SESSION, turns=3, policy=ApprovalPolicy.UNTRUSTED)
    assert [event.without_sandbox for event in played.asked] == ([True] if outside_first else [False, True])
