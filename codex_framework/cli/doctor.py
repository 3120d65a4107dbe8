"""``codex-framework plugins doctor``: the conformance checks of a plugin, as a table or as JSON."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from codex_framework.config import Config
    from codex_framework.testing.conformance.plugins import PluginCheck

__all__ = ["HEADER", "check_as_json", "check_lines", "examine_plugin", "summary"]

HEADER = "RESULT     PLUGIN: CHECK"

_COLOURS = {"passed": "green", "failed": "red", "not tried": "yellow"}


def examine_plugin(package: str, config: Config, report: Callable[[PluginCheck], None]) -> Sequence[PluginCheck]:
    """Check a plugin, and return the checks.

    Args:
        package: The name of a plugin or of a distribution, or the path of a one-file plugin.
        config: The configuration with the plugin's settings.
        report: Gets each check as soon as it has ended.

    Raises:
        PluginError: No such plugin is installed.
    """
    from codex_framework.testing import ContractViolation, check_plugin

    found: list[PluginCheck] = []
    plugin = Path(package) if package.endswith(".py") or "/" in package else package

    def ended(check: PluginCheck) -> None:
        found.append(check)
        report(check)

    with contextlib.suppress(ContractViolation):  # each violation is in a check that has failed
        check_plugin(plugin, config=config, report=ended)
    return found


def check_lines(check: PluginCheck) -> Iterator[str]:
    """Return a check as a row of the table, with problems and hints on separate lines."""
    result = click.style(check.result.ljust(9), fg=_COLOURS[check.result])
    name = f"{check.check} {check.subject}".strip()
    first, *rest = check.facts or ("",)
    if check.result == "passed":
        yield f"{result}  {check.plugin}: {name}{f' ({first})' if first else ''}"
    else:
        yield f"{result}  {check.plugin}: {name}"
        rest = [first, *rest]
    for fact in rest:
        yield f"           {fact}"
    if check.hint:
        yield f"           -> {check.hint}"


def check_as_json(check: PluginCheck) -> dict[str, Any]:
    """Return a check as JSON data."""
    return {
        "plugin": check.plugin,
        "check": check.check,
        "subject": check.subject or None,
        "result": check.result,
        "facts": list(check.facts),
        "hint": check.hint,
    }


def summary(checks: Sequence[PluginCheck]) -> str:
    """Return the number of checks for each result."""
    count = {result: sum(check.result == result for check in checks) for result in _COLOURS}
    return f"{count['passed']} passed, {count['failed']} failed, {count['not tried']} not tried"
