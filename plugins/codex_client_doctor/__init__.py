"""``codex-framework doctor``: the problems of this set-up, and the commands that fix them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from codex_framework.toolkit.lazy_command import help_group

__all__ = ["main"]

_HINT = "The model's server and MCP servers were not asked. To ask them too: codex-framework doctor --online"


@help_group("Inspect")
@click.command("doctor", short_help="Find problems, and print the commands that fix them.")
@click.option(
    "--online", is_flag=True, help="Also send an empty request to the model's server, and start the MCP servers."
)
@click.option(
    "--network-only", is_flag=True, help="Like --online, but check only the configuration and the model's server."
)
@click.option("--summary", is_flag=True, help="Leave out the hints and commands.")
@click.option("--no-color", is_flag=True, help="Print no colours, as with NO_COLOR.")
@click.option("--all", "--ascii", is_flag=True, hidden=True, help="Accepted, without effect.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-p", "--profile", metavar="PROFILE", help="Use a named set of settings.")
@click.option("--disable", multiple=True, metavar="FEATURE", help="Disable a feature.")
@click.option("--enable", multiple=True, metavar="FEATURE", help="Enable a feature.")
@click.option("-c", "--config", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a configuration key.")
@click.pass_context
def main(
    context: click.Context,
    /,
    overrides: tuple[str, ...],
    enable: tuple[str, ...],
    disable: tuple[str, ...],
    profile: str | None,
    *,
    as_json: bool,
    online: bool,
    network_only: bool,
    summary: bool,
    no_color: bool,
    **_: Any,
) -> None:
    """Check environment, configuration, plugins, key, provider, sandbox, MCP servers and disk, and say what fixes each problem.

    It works if the configuration is broken. Without `--online` nothing is sent over the network. The page contains no secret, so
    you can paste it into an issue. The exit status is 1 if a check failed.
    """
    from codex_client_doctor.checks import OFFLINE, check_configuration, check_provider, run_check
    from codex_client_doctor.findings import Secrets, page, variables_of, worst
    from codex_client_doctor.setup import Setup
    from codex_framework import __version__

    switches = [*(f"features.{name}=true" for name in enable), *(f"features.{name}=false" for name in disable)]
    files: tuple[Path, ...] = context.find_root().obj or ()
    setup = Setup(dict(os.environ), {"overrides": (*overrides, *switches), "profile": profile}, files)
    login = None if setup.home is None else setup.home / "auth.json"
    tables = setup.config.tables
    secrets = Secrets(setup.environ, tables, variables_of(tables), login)
    checks = [*OFFLINE]
    if online or network_only:
        from codex_client_doctor.online import ONLINE, check_model_server

        checks = [check_configuration, check_provider, check_model_server] if network_only else [*checks, *ONLINE]
    found = [secrets.hide(finding) for check in checks for finding in run_check(check, setup)]
    if as_json:
        report: dict[str, Any] = {"version": __version__, "state": worst(found), "online": online or network_only}
        report["findings"] = [
            {
                "id": each.id,
                "area": each.area,
                "state": each.state,
                "text": each.text,
                "fix": each.fix,
                "hint": each.hint,
            }
            for each in found
        ]
        click.echo(json.dumps(report, indent=2))
    else:
        shown = [each.evolve(fix=(), hint="") for each in found] if summary else found
        for line in page(shown, () if online or network_only else (_HINT,)):
            click.echo(line, color=False if no_color else None)
    context.exit(1 if worst(found) == "failed" else 0)
