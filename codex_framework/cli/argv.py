"""A parser for command lines, driven by a table of options.

Other programs start ``exec`` once per turn, so its start-up time matters: this parser costs a hundredth of the library that
the other commands use. It accepts what Codex's own parser accepts: options before, between and after positional
arguments and subcommands, ``--name=value``, ``-nVALUE`` and ``--``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

__all__ = ["Option", "UnknownOption", "UsageError", "help_of", "index", "read_argv"]

_WIDEST, _TWO_COLUMNS, _NARROWEST = 120, 80, 30
"""Widths of ``--help`` in characters: the maximum, the minimum for two columns, and the minimum overall."""


class UsageError(Exception):
    """The command line is invalid. It is printed with the usage line, and the exit status is 2."""


class UnknownOption(UsageError):  # noqa: N818  # a usage error like the others
    """The command line has an option that is not in the table."""


class Option:
    """One option.

    Args:
        names: ``--long`` and ``-s``. The first long name gives the key.
        text: The description for ``--help``.
        metavar: The name of its value. An option without a metavar is a switch.
        many: Whether the option may be repeated. The key's value is then a list.
        choices: The allowed values. Empty means any.
        hidden: Whether the option is accepted but not shown.
        also: A test for following arguments. They become values too, up to the first that fails the test.
    """

    __slots__ = ("also", "choices", "hidden", "key", "many", "metavar", "names", "text")

    def __init__(
        self,
        names: str,
        text: str,
        *,
        metavar: str | None = None,
        many: bool = False,
        choices: tuple[str, ...] = (),
        hidden: bool = False,
        also: Callable[[str], bool] | None = None,
    ) -> None:
        self.names = tuple(names.split())
        self.text = text
        self.metavar = metavar
        self.many = many
        self.choices = choices
        self.hidden = hidden
        self.also = also
        self.key = next(name for name in self.names if name.startswith("--"))[2:].replace("-", "_")


def index(options: Iterable[Option]) -> dict[str, Option]:
    """Return the options, indexed by each of their names."""
    return {name: option for option in options for name in option.names}


def read_argv(
    argv: Sequence[str],
    options: Mapping[str, Option],
    *,
    commands: Sequence[str] = (),
    stop_at_positional: bool = False,
    skip_unknown: bool = False,
) -> tuple[dict[str, Any], str | None, list[str]]:
    """Return the options by key, the subcommand, and the remaining arguments.

    Args:
        argv: The arguments to parse.
        options: The known options, by name.
        commands: Words that are subcommands if they are the first positional argument. Options may follow them.
        stop_at_positional: Whether to return everything from the first positional argument on unparsed.
        skip_unknown: Whether to skip unknown options. A value after one is then a positional argument.

    Raises:
        UnknownOption: An option is unknown.
        UsageError: An option lacks its value, or has an invalid one.
    """
    values: dict[str, Any] = {}
    command: str | None = None
    rest: list[str] = []
    position = 0
    while position < len(argv):
        argument = argv[position]
        position += 1
        if argument == "--":
            return values, command, [*rest, *argv[position:]]
        if argument == "-" or not argument.startswith("-"):
            if stop_at_positional:
                return values, command, list(argv[position - 1 :])
            if command is None and not rest and argument in commands:
                command = argument
            else:
                rest.append(argument)
            continue
        name, value = _split(argument)
        option = options.get(name)
        if option is None:
            if skip_unknown:
                continue
            raise UnknownOption(f"unexpected argument '{name}' found\n\n  tip: {_option_tip(name, options)}")
        if option.metavar is None:
            if value is not None:
                raise UsageError(f"unexpected value '{value}' for '{name}' found; no more were expected")
            values[option.key] = True
            continue
        if value is None:
            if position == len(argv) or argv[position] == "--":
                raise UsageError(f"a value is required for '{name} <{option.metavar}>' but none was supplied")
            value = argv[position]
            position += 1
        position += _store(values, option, name, value, argv[position:])
    return values, command, rest


def _split(argument: str) -> tuple[str, str | None]:
    if argument.startswith("--"):
        name, equals, value = argument.partition("=")
        return name, value if equals else None
    name, value = argument[:2], argument[2:]
    return name, (value[1:] if value.startswith("=") else value) if value else None


def _store(values: dict[str, Any], option: Option, name: str, value: str, following: Sequence[str]) -> int:
    """Store a value. Return how many of the following arguments were values too."""
    if option.choices and value not in option.choices:
        near = _nearest(value, option.choices)
        tip = f"\n\n  tip: a similar value exists: '{near}'" if near else ""
        raise UsageError(
            f"invalid value '{value}' for '{name} <{option.metavar}>'\n  [possible values: {', '.join(option.choices)}]{tip}"
        )
    if not option.many:
        values[option.key] = value
        return 0
    stored = values.setdefault(option.key, [])
    stored.append(value)
    taken = 0
    while option.also is not None and taken < len(following) and option.also(following[taken]):
        stored.append(following[taken])
        taken += 1
    return taken


def _option_tip(name: str, options: Mapping[str, Option]) -> str:
    near = _nearest(name, [known for known, option in options.items() if not option.hidden])
    return f"a similar argument exists: '{near}'" if near else f"to pass '{name}' as a value, use '-- {name}'"


def _nearest(word: str, known: Iterable[str]) -> str | None:
    import difflib

    return next(iter(difflib.get_close_matches(word, [each for each in known if len(each) > 2], n=1)), None)


def help_of(usage: Sequence[str], about: str, arguments: Mapping[str, str], options: Iterable[Option]) -> str:
    """Return the text of ``--help``, as wide as the terminal (``$COLUMNS``), but at most ``_WIDEST``."""
    import shutil
    import textwrap

    width = max(_NARROWEST, min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST))
    lines = [*textwrap.wrap(about, width), ""]
    for number, line in enumerate(usage):
        start = "Usage: " if number == 0 else "       "
        lines += textwrap.wrap(line, width, initial_indent=start, subsequent_indent=" " * 11)
    if arguments:
        lines += ["", "Arguments:", *_rows(arguments.items(), width)]
    shown = [(_names_and_value(option), _description(option)) for option in options if not option.hidden]
    return "\n".join([*lines, "", "Options:", *_rows(shown, width), ""])


def _names_and_value(option: Option) -> str:
    short = [name for name in option.names if not name.startswith("--")]
    long = [name for name in option.names if name.startswith("--")]
    value = f" <{option.metavar}>" if option.metavar else ""
    return (", ".join([*short, long[0]]) if short else f"    {long[0]}") + value


def _description(option: Option) -> str:
    values = f" [possible values: {', '.join(option.choices)}]" if option.choices else ""
    return f"{option.text}{values}"


def _rows(rows: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Return two columns; on a narrow terminal, the second one is below the first."""
    import textwrap

    indent = 35 if width >= _TWO_COLUMNS else 10
    lines: list[str] = []
    for left, text in rows:
        wrapped = textwrap.wrap(text, width - indent - 1, break_on_hyphens=False)
        if indent - 3 >= len(left):
            lines.append(f"  {left:<{indent - 3}} {wrapped.pop(0)}")
        else:
            lines.append(f"  {left}")
        lines += [" " * indent + more for more in wrapped]
    return lines
