"""Subcommands of ``exec`` that plugins add."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from codex_framework.contract.protocol.ops import Op
from codex_framework.contract.value import Value

__all__ = ["CommandOption", "ExecCommand", "ExecRequest"]


class CommandOption(Value, kw_only=True):
    """An option of an :class:`ExecCommand`.

    Attributes:
        name: The long name without dashes: lower-case letters, digits and ``-``. Names of the options of ``exec`` are not
            available.
        text: The description for ``--help``.
        metavar: The name of its value in ``--help``. None if the option is a switch.
    """

    name: str
    text: str
    metavar: str | None = None


class ExecRequest(Value, kw_only=True):
    """The submission of an :class:`ExecCommand`.

    Attributes:
        op: The op. Its handler starts a turn, which ``exec`` follows to its end.
        shown: The text that the output shows instead of a prompt.
    """

    op: Op
    shown: str


class ExecCommand(Value, kw_only=True):
    """A subcommand of ``exec`` that submits an op instead of a prompt, such as ``exec review``.

    The options of ``exec`` are also its options, with the same meaning, and the output has the same form.

    Attributes:
        name: A lower-case word.
        text: A sentence for ``--help`` that describes it.
        request: Returns the op for the given options (by name: text, or True for a switch) and the argument (None if missing).
            It raises ``ValueError`` for a wrong command line: the text is printed with the usage line.
        argument: The description of the argument for ``--help``. With ``-`` the argument is read from stdin. Without a
            description, the command takes no argument.
        options: Its own options.
        alone: Whether ``codex-framework NAME`` does the same.
    """

    name: str
    text: str
    request: Callable[[Mapping[str, str | bool], str | None], ExecRequest]
    argument: str | None = None
    options: Sequence[CommandOption] = ()
    alone: bool = False
