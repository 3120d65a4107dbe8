"""The questions, their answers, and the op that carries the answers. Wire names as in Codex."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from codex_framework import Op, Request, Value
from codex_framework.contract.value import field

__all__ = ["Answer", "Option", "Question", "RequestUserInputEvent", "UserInputAnswer", "UserInputResponse"]

_OFF_WIRE: Mapping[str, Any] = {"wire": False}


class Option(Value):
    """One of the choices of a question."""

    label: str
    description: str


class Question(Value):
    """A question for the user.

    Attributes:
        id: The name under which its answer is returned.
        header: A few words for a heading.
        isOther: Whether the user may write an answer of their own.
        isSecret: Whether the answer must not be shown while it is typed.
    """

    id: str
    header: str
    question: str
    isOther: bool = True  # noqa: N815  # the wire's name
    isSecret: bool = False  # noqa: N815  # the wire's name
    options: tuple[Option, ...] | None = None


class Answer(Value):
    """The answer to one question: the chosen labels, or the user's own words."""

    answers: tuple[str, ...]


class UserInputResponse(Value):
    """The answers by the id of the question. A question may be left out."""

    answers: Mapping[str, Answer] = field(factory=dict)


class RequestUserInputEvent(Request[UserInputResponse], kw_only=True):
    """The model asks the user. Answer with a ``user_input_answer`` op that names the turn, or with ``thread.answer``.

    Attributes:
        call_id: The call that asks.
        turn_id: The turn of the call.
    """

    type: ClassVar[Literal["request_user_input"]] = "request_user_input"
    answer_type = UserInputResponse

    call_id: str
    turn_id: str
    questions: tuple[Question, ...]
    request_id: str = field(factory=lambda request: request.turn_id, takes_self=True, metadata=_OFF_WIRE)

    def unattended(self) -> UserInputResponse:
        """Return no answers, as Codex does if no user can be asked."""
        return UserInputResponse()

    @property
    def subject(self) -> str:
        """The first question."""
        return f"the question {self.questions[0].question!r}" if self.questions else "a question"


class UserInputAnswer(Op):
    """The answers to a ``request_user_input`` event; ``id`` is its ``turn_id``, or the id of the request if that differs."""

    type: ClassVar[Literal["user_input_answer"]] = "user_input_answer"
    id: str
    response: UserInputResponse
