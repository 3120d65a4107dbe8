"""The role of a context source, which adds fragments of instructions and context to a prompt."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.value import Value, field

__all__ = ["READABLE", "ContextSource", "Fragment"]


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


READABLE: Mapping[str, tuple[str, ...]] = {
    "settings": (
        *("config", "cwd", "permissions", "access", "approval_policy"),
        *("collaboration_mode", "approvals_reviewer"),
    ),
    "model": ("model",),
    "previous_model": ("previous_model",),
    "environments": (
        *("environments", "environment_id", "environment_states", "previous_environments"),
        "shell",
    ),
    "tools": ("deferred_tools",),
    "thread": ("thread_id", "agent", "depth"),
    "date": (),
    "files": (),
}
"""The words of :attr:`ContextSource.reads`, each with the facts of a turn that it means. ``date`` is today's date and time
zone, and ``files`` are the files that :meth:`ContextSource.files` names. Facts that never change in a kernel, such as
``codex_home``, need no word. For the first turn of a thread, the kernel may use what a source returned for the first turn of
another thread.
"""


class ContextSource:
    """A source of context fragments.

    Attributes:
        name: Short and unique.
        reads: The facts on which the fragments depend, as words of ``READABLE``. The source is called again only when one of
            them has changed. A source without this declaration is called in every turn, and so is a source that raised an error
            in the last turn.
    """

    name: str
    reads: ClassVar[frozenset[str] | None] = None

    @abstractmethod
    def fragments(self, facts: TurnFacts) -> Iterable[Fragment]:
        """Return the current fragments. May read files, but must not block for long.

        Raises:
            CodexError: Some fragments cannot be provided. The turn continues with a warning that names the source. Fragments
                that a generator has yielded before it raises are sent.
        """
        raise NotImplementedError

    def files(self, facts: TurnFacts) -> Iterable[str]:  # noqa: ARG002  # for those who override it
        """Return the absolute paths of the files and folders that the fragments depend on, existing or not.

        Called before :meth:`fragments` by a source that reads ``files``. In each turn the kernel looks whether one of them has
        been made, written, replaced or removed. A folder changes when an entry of it is made or removed.
        """
        return ()
