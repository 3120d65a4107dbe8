"""What plugins add to the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from codex_framework.contract.value import Value
from codex_framework.loader.offers import Offer
from codex_framework.loader.report import PluginReport

if TYPE_CHECKING:
    import click

    from codex_framework.contract.roles.exec_commands import ExecCommand
    from codex_framework.contract.roles.exec_options import ExecOption

__all__ = ["CommandTable"]


class CommandTable(Value):
    """The commands, options and subcommands of ``exec`` of plugins by name, and the reports of all plugins including them."""

    commands: Mapping[str, Offer[click.Command]]
    exec_options: Mapping[str, Offer[ExecOption]]
    exec_commands: Mapping[str, Offer[ExecCommand]]
    reports: tuple[PluginReport, ...]
