"""Options of ``exec`` that plugins add."""

from __future__ import annotations

from codex_framework.contract.value import Value

__all__ = ["ExecOption"]


class ExecOption(Value, kw_only=True):
    """An option of ``exec`` and ``exec resume`` that sets a setting of the plugin: ``[framework.plugins.<plugin>]``.

    The value has precedence over the configuration, like those of the other options. The plugin reads it with
    ``plugin.settings(Settings)``.

    Attributes:
        name: The long name without dashes: lower-case letters, digits and ``-``. Names of the built-in options are not available.
        setting: The name of the setting: a field of the class that the plugin's ``codex_settings`` returns.
        text: The description for ``--help``.
        metavar: The name of its value in ``--help``. The setting gets the value as a string. None means that the option is a switch,
            which sets the setting to true.
        many: Whether the option may be repeated. The setting is then a list of strings.
        choices: The allowed values. Empty means any.
        is_path: Whether the value is a path. A relative path begins in the current folder, and the setting gets an absolute one.
    """

    name: str
    setting: str
    text: str
    metavar: str | None = None
    many: bool = False
    choices: tuple[str, ...] = ()
    is_path: bool = False
