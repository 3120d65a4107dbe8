"""Options of ``exec`` that plugins add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from codex_framework.contract.value import Value, field

__all__ = ["ExecOption", "OptionUse"]


class OptionUse(Value, kw_only=True):
    """An option on a command line.

    Attributes:
        value: Its value: a string, a list of strings, or True for a switch.
        config: The merged configuration, with all options.
        given: What the command line alone sets, by top-level key.
    """

    value: Any
    config: Mapping[str, Any] = field(repr=False)
    given: Mapping[str, Any] = field(repr=False)


class ExecOption(Value, kw_only=True):
    """An option of ``exec`` and ``exec resume`` that sets a setting of the plugin: ``[framework.plugins.<plugin>]``.

    The value has precedence over the configuration, like all options. The plugin reads it with
    ``plugin.settings(Settings)``.

    Attributes:
        name: The long name without dashes: lower-case letters, digits and ``-``. Names of the built-in options are not available.
        setting: The name of the setting: a field of the class that the plugin's ``codex_settings`` returns.
        text: The description for ``--help``.
        metavar: The name of its value in ``--help``. The setting gets the value as a string. None if the option is a switch,
            which sets the setting to true.
        many: Whether the option may be repeated. The setting is then a list of strings.
        choices: The allowed values. Empty means any.
        is_path: Whether the value is a path. A relative path begins in the current folder, and the setting gets an absolute one.
        implies: Returns further settings that follow from the option, by dotted key, or nothing. Called once, before the run. It may
            prepare something, print to stderr, and raise a ``CodexError``, which ends the program with its text. What the command
            line itself sets has precedence over the result; files have not. None if nothing follows.
    """

    name: str
    setting: str
    text: str
    metavar: str | None = None
    many: bool = False
    choices: tuple[str, ...] = ()
    is_path: bool = False
    implies: Callable[[OptionUse], Mapping[str, Any]] | None = None
