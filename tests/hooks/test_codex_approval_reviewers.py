"""Hook ``codex_approval_reviewers``: they answer in place of a person."""

from __future__ import annotations

from codex_framework import CommandVerdict, Decision, ReviewDecision, ToolContext, Verdict, hookimpl, tool
from codex_framework.testing.replies import call, say


class Asking:
    """A tool that runs commands, and a policy that asks before each."""

    name = "asking"

    def judge(self, command, facts):
        return CommandVerdict(verdict=Verdict.ASK, reason="just asking")

    @hookimpl
    def codex_command_policies(self):
        return [self]

    @hookimpl
    def codex_tools(self):
        @tool
        async def run_words(words: list[str], context: ToolContext) -> str:
            """Run a command."""
            return (await context.run(words)).stdout

        return [run_words]


class Generous:
    name = "generous"

    async def review(self, request, facts):
        return ReviewDecision(Decision.APPROVED)

    @hookimpl
    def codex_approval_reviewers(self):
        return [self]


ASK = ('approval_policy="on-request"',)


def test_codex_approval_reviewers_example_denies_a_push_and_leaves_the_rest_to_the_next(example, run_turn):
    replies = [call("run_words", words=["echo", "push"]), call("run_words", words=["echo", "pull"]), say("Done.")]
    turn = run_turn(example("codex_approval_reviewers"), Generous(), Asking(), replies=replies, config=ASK)
    assert turn.outputs[1] == "pull\n"
    assert "push\n" not in turn.outputs[0]


def test_codex_approval_reviewers_that_raise_deny(run_turn):
    class Broken(Generous):
        async def review(self, request, facts):
            raise RuntimeError("no mind")

    replies = [call("run_words", words=["echo", "pull"]), say("Done.")]
    turn = run_turn(Broken(), Asking(), replies=replies, config=ASK)
    assert turn.outputs[0] != "pull\n"
