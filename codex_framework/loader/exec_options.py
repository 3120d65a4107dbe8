"""Checks the options of ``exec`` that plugins offer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from codex_framework.contract.roles.exec_options import ExecOption
from codex_framework.contract.value import Value, fields_of

__all__ = ["BUILT_IN_OPTIONS", "OPTION_NAME", "option_problems"]

BUILT_IN_OPTIONS = frozenset(
    """
    add-dir agent all approve-for-me cd color config cyber-access-program dangerously-bypass-approvals-and-sandbox
    dangerously-bypass-hook-trust disable enable ephemeral experimental-json full-auto heartbeat help ignore-rules
    ignore-user-config image json last model output-last-message output-schema plugin profile sandbox
    skip-git-repo-check strict-config thread-source version yolo
    """.split()  # noqa: SIM905
)
"""Names of options of ``exec`` that plugins cannot take."""

OPTION_NAME = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"


def option_problems(option: ExecOption, settings: type[Any] | None) -> Iterator[str]:
    """Yield the reasons why an option cannot be used.

    Args:
        settings: The class of the plugin's settings, if it has one.
    """
    name: Any = option.name
    if not isinstance(name, str) or not re.fullmatch(OPTION_NAME, name):
        yield f"its name is {name!r}; use lower-case letters, digits and single dashes, beginning with a letter"
    elif name in BUILT_IN_OPTIONS:
        yield f"the option --{name} is built in and cannot be replaced; give yours another name"
    if option.setting not in _fields(settings):
        yield f"it sets {option.setting!r}, which is not a field of the class that codex_settings returns"
    for field in ("text", "metavar"):
        value = getattr(option, field)
        if not isinstance(value, str) and (value is not None or field == "text"):
            yield f"its {field} is {value!r}, not a string"
    choices: Any = option.choices
    if not isinstance(choices, (list, tuple)) or not all(isinstance(choice, str) for choice in choices):
        yield f"its choices are {choices!r}, not a list of strings"
    implies: Any = option.implies
    if implies is not None and not callable(implies):
        yield f"its implies is {implies!r}, which cannot be called"
    if option.metavar is None and (option.many or option.choices or option.is_path):
        yield "it has no metavar, so it has no value; leave out many, choices and is_path"


def _fields(settings: type[Any] | None) -> set[str]:
    if settings is None:
        return set()
    if issubclass(settings, Value):
        return {field.name for field in fields_of(settings)}
    return {field.name for field in settings.__attrs_attrs__}
