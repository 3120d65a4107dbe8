"""Scripts for the turn machine: inputs, and the commands that must follow.

    assert (
        Playbook(Turn(parallel=lambda call: True))
        << InputArrived((prompt,))
        >> Record((prompt,))
        >> Sample()
        << ModelItem(message)
        >> Record((message,))
        << ModelCompleted()
        >> Flush()
        >> Finish(Outcome(Status.COMPLETED, "Hi!"))
    )

``<<`` adds an input, ``>>`` one expected command. ``assert`` plays everything added since the last ``assert`` and compares all of
it, so a playbook may be asserted in pieces. Differences are shown within the whole script.
"""

from __future__ import annotations

import difflib
from typing import Self

from codex_framework.contract.value import Value
from codex_framework.threads.turn.commands import Command
from codex_framework.threads.turn.inputs import Input
from codex_framework.threads.turn.machine import Turn

__all__ = ["Playbook"]

_WIDTH = 160
"""Maximum length of a displayed line of the script."""


class Playbook:
    """A script for one turn.

    Args:
        turn: The machine, in any state.
    """

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self._script: list[tuple[Input, list[Command | type[Value]]]] = []
        self._played: list[str] = []

    def __lshift__(self, event: Input) -> Self:
        """Add an input."""
        self._script.append((event, []))
        return self

    def __rshift__(self, command: Command | type[Value]) -> Self:
        """Add an expected command. A class matches any of its instances (``>> Emit``)."""
        if not self._script:
            raise ValueError("a command follows from an input: begin with `<<`")
        self._script[-1][1].append(command)
        return self

    def __bool__(self) -> bool:
        """Play the added part. Return True if all commands are as expected.

        Raises:
            AssertionError: They are not; the text is the script with missing commands (``-``) and unexpected ones (``+``).
        """
        script, self._script = self._script, []
        expected, came = list(self._played), list(self._played)
        for event, wanted in script:
            commands = self.turn.receive(event)
            line = _show("<<", event)
            expected += [line, *(_show("  >>", command) for command in wanted)]
            came += [line, *_shown_commands(wanted, commands)]
        if expected != came:
            raise AssertionError("\n".join(["the turn did not follow its playbook:", *_difference(expected, came)]))
        self._played = came
        return True


def _shown_commands(wanted: list[Command | type[Value]], commands: list[Command]) -> list[str]:
    """Return the commands as lines. A command that matches a class is shown as that class."""
    lines = []
    for place, command in enumerate(commands):
        want = wanted[place] if place < len(wanted) else None
        of_class = isinstance(want, type) and isinstance(command, want)
        lines.append(_show("  >>", want if of_class else command))
    return lines


def _show(arrow: str, value: object) -> str:
    text = f"any {value.__name__}" if isinstance(value, type) else repr(value)
    return f"{arrow} {text}"


def _difference(expected: list[str], came: list[str]) -> list[str]:
    lines = []
    for kind, first, last, start, end in difflib.SequenceMatcher(None, expected, came, autojunk=False).get_opcodes():
        if kind == "equal":
            lines += [f"  {line}" for line in expected[first:last]]
            continue
        lines += [f"- {line}" for line in expected[first:last]]
        lines += [f"+ {line}" for line in came[start:end]]
    return [line if len(line) <= _WIDTH or line[0] in "+-" else line[: _WIDTH - 3] + "..." for line in lines]
