"""The role of a context source: fragments of instructions and context that go into a prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from codex_framework.permissions import Permissions
from codex_framework.protocol.policies import ApprovalPolicy, GranularApproval, SandboxPolicy
from codex_framework.roles.providers import ModelInfo
from codex_framework.roles.sandboxes import FileAccess
from codex_framework.value import Value

__all__ = ["ContextFacts", "ContextSource", "Fragment"]


class ContextFacts(Value, kw_only=True):
    """What a source may know when it is asked, at the start of each turn.

    Attributes:
        codex_home: ``$CODEX_HOME``.
        shell: Path of the person's shell.
        permissions: What the thread may do, with its symbolic places.
        access: The same, realised for this turn.
        first: Whether the thread has sent nothing yet.
    """

    thread_id: str
    cwd: Path
    codex_home: Path
    shell: str
    model: ModelInfo
    approval_policy: ApprovalPolicy | GranularApproval
    permissions: Permissions
    access: FileAccess
    config: Mapping[str, Any]
    first: bool

    @property
    def sandbox_policy(self) -> SandboxPolicy:
        """The nearest sandbox policy to the permissions."""
        return self.permissions.sandbox_policy


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


class ContextSource(Protocol):
    """Gives fragments."""

    @property
    def name(self) -> str:
        """Short and unique."""
        ...

    def fragments(self, facts: ContextFacts) -> Iterable[Fragment]:
        """The fragments that hold now. May read files; must not block for long.

        Raises:
            CodexError: Not all that should be sent can be; the turn goes on with a warning that names the source. What a
                generator has yielded before it raises is sent.
        """
        ...
