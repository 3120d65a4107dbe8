"""The role of a context source: fragments of instructions and context that go into a prompt."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.value import Value

__all__ = ["ContextSource", "Fragment"]


class Fragment(Value, kw_only=True):
    """A piece of context.

    The kernel sends a fragment when its text differs from the last one with the same markers that stands in history; so a
    source always gives its whole truth, and only changes cost tokens.

    Attributes:
        role: ``developer`` or ``user``. Fragments of one role are parts of one message, in order.
        text: With its markers.
        start, end: What the text begins and ends with; by them it is recognised later as context, not as a person's words.
        order: Small numbers first. 0 to 99 permissions, 100 to 199 instructions, 200 and up the environment.
    """

    role: str
    text: str
    start: str
    end: str = ""
    order: int = 100


class ContextSource:
    """Gives fragments.

    Attributes:
        name: Short and unique.
    """

    name: str

    @abstractmethod
    def fragments(self, facts: TurnFacts) -> Iterable[Fragment]:
        """Return the fragments that hold now. May read files; must not block for long.

        Raises:
            CodexError: Not all that should be sent can be; the turn goes on with a warning that names the source. What a
                generator has yielded before it raises is sent.
        """
        raise NotImplementedError
