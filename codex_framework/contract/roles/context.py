"""The role of a context source, which adds fragments of instructions and context to a prompt."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.value import Value, field

__all__ = ["ContextSource", "Fragment"]


class Fragment(Value, kw_only=True):
    """A piece of context.

    The kernel sends a fragment if its text differs from the last one in the history with the same markers. So a source always
    returns all its fragments, and only changes cost tokens.

    Attributes:
        role: ``developer`` or ``user``. Fragments of one role are parts of one message, in order.
        text: The text, including its markers. Empty means that there is nothing to say now.
        start, end: The markers at the beginning and end of the text. They distinguish context from user input later.
        order: Small numbers first. 0 to 99 permissions, 100 to 199 instructions, 200 and up the environment.
        replacement: The text to send in place of ``text`` if the history has another text with the same markers. Empty means
            ``text``.
        revocation: The text to send if ``text`` is empty and the history has a text with the same markers. Empty means that
            nothing is sent. It has the same markers.
        recorded: Fields for the record of the turn's settings (wire: ``turn_context``), as plain JSON data. They cannot replace
            the fields of the kernel.
    """

    role: str
    text: str
    start: str
    end: str = ""
    order: int = 100
    replacement: str = ""
    revocation: str = ""
    recorded: Mapping[str, Any] = field(factory=dict)


class ContextSource:
    """A source of context fragments.

    Attributes:
        name: Short and unique.
    """

    name: str

    @abstractmethod
    def fragments(self, facts: TurnFacts) -> Iterable[Fragment]:
        """Return the current fragments. May read files, but must not block for long.

        Raises:
            CodexError: Some fragments cannot be provided. The turn continues with a warning that names the source. Fragments that a
                generator has yielded before it raises are sent.
        """
        raise NotImplementedError
