"""The handler of answers."""

from __future__ import annotations

from codex_framework import OpHandler, ThreadContext, ThreadError
from codex_plugin_request_user_input.questions import RequestUserInputEvent, UserInputAnswer, UserInputResponse

__all__ = ["AnswerHandler", "Open", "problem_of"]

_MAX_ANSWERS, _MAX_LENGTH = 20, 100_000
"""How many answers a question may have, and how long one may be, in characters."""


class Open:
    """The open questions of a thread, by the id of the request."""

    def __init__(self) -> None:
        self.requests: dict[str, RequestUserInputEvent] = {}


def problem_of(response: UserInputResponse, request: RequestUserInputEvent) -> str | None:
    """Return why a response does not fit the questions, or None if it does."""
    known = {question.id for question in request.questions}
    for name, answer in response.answers.items():
        if name not in known:
            return f"there is no question {name[:80]!r}; the questions are: {', '.join(sorted(known))}"
        if len(answer.answers) > _MAX_ANSWERS or any(len(text) > _MAX_LENGTH for text in answer.answers):
            return f"the answer to {name[:80]!r} is too long"
    return None


class AnswerHandler(OpHandler[UserInputAnswer]):
    """Passes the answers to the call that waits for them."""

    op = UserInputAnswer

    async def handle(self, op: UserInputAnswer, thread: ThreadContext, id: str) -> None:  # noqa: A002, ARG002  # the wire's name
        """Answer.

        Raises:
            ThreadError: Nothing was asked under this id, it was answered already, or the answers do not fit the questions.
        """
        request = thread.state(Open, Open).requests.get(op.id)
        problem = None if request is None else problem_of(op.response, request)
        if problem is not None:
            raise ThreadError(problem, slug="bad-request", hint="Answer the questions of the event request_user_input.")
        if not thread.answer(op.id, op.response):
            raise ThreadError(
                f"no question is open for {op.id[:80]!r}: it was answered already, its turn has ended, or nobody asked it",
                slug="bad-request",
                hint="Answer with the `turn_id` of the event request_user_input.",
            )
