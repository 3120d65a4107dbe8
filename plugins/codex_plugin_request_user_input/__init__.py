"""The model asks the user: ``request_user_input`` waits for the answers, and two more tools do not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import EventMsg, OpHandler, Tool, hookimpl
from codex_framework.toolkit.exports import lazy_exports

if TYPE_CHECKING:
    from codex_plugin_request_user_input.questions import (
        Answer,
        Option,
        Question,
        RequestUserInputEvent,
        UserInputAnswer,
        UserInputResponse,
    )
else:
    __getattr__ = lazy_exports(
        __name__, {"questions": "Answer Option Question RequestUserInputEvent UserInputAnswer UserInputResponse"}
    )

__all__ = [
    "Answer",
    "Option",
    "Question",
    "RequestUserInputEvent",
    "UserInputAnswer",
    "UserInputResponse",
    "codex_events",
    "codex_ops",
    "codex_tools",
]


@hookimpl
def codex_tools() -> Iterable[Tool]:
    """Offer ``request_user_input``, ``request_user_input_async`` and ``send_message_to_user_async``."""
    from codex_plugin_request_user_input.messages import RequestUserInputAsync, SendMessageToUserAsync
    from codex_plugin_request_user_input.tool import RequestUserInput

    return [RequestUserInput(), RequestUserInputAsync(), SendMessageToUserAsync()]


@hookimpl
def codex_events() -> Iterable[type[EventMsg]]:
    """Declare ``request_user_input``."""
    from codex_plugin_request_user_input.questions import RequestUserInputEvent

    return [RequestUserInputEvent]


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handler of the op ``user_input_answer``."""
    from codex_plugin_request_user_input.ops import AnswerHandler

    return [AnswerHandler()]
