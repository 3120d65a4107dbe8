"""``codex-framework sandbox``: run a command in the model's sandbox, and check and test the sandboxes of this machine."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codex_framework.toolkit.lazy_command import help_group

if TYPE_CHECKING:
    from codex_framework import Kernel
    from codex_framework.config import Config
    from codex_framework.contract.permissions.profile import Permissions

__all__ = ["main"]

_MODES = ("read-only", "workspace-write", "danger-full-access")
_NETWORKS = ("off", "loopback", "on")
_ARGV = "codex_client_sandbox.argv"


class SandboxCommand(click.Group):
    """The ``sandbox`` group. Arguments that are not a subcommand, or follow ``--``, are the command to run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Separate the command to run from the other arguments."""
        _, rest, _ = self.make_parser(ctx).parse_args(list(args))
        options = args[: len(args) - len(rest)]
        if rest and (rest[0] not in self.commands or options[-1:] == ["--"]):
            ctx.meta[_ARGV] = tuple(rest)
            args = options[:-1] if options[-1:] == ["--"] else options
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write both usage lines."""
        formatter.write_usage(ctx.command_path, "[OPTIONS] [--] COMMAND [ARGS]...")
        formatter.write_usage(ctx.command_path, "doctor|prove [--json]")


@help_group("Run")
@click.group("sandbox", cls=SandboxCommand, invoke_without_command=True, short_help="Run a command in the sandbox.")
@click.option(
    "-s",
    "--sandbox",
    "--mode",
    "mode",
    type=click.Choice(_MODES),
    help="The sandbox mode, instead of the configured `sandbox_mode`.",
)
@click.option(
    "-P",
    "--permission-profile",
    "--permissions-profile",
    "permissions",
    metavar="NAME",
    help="Apply this permission profile: a built-in one (`:workspace`, ...) or one of `[permissions]`.",
)
@click.option("-p", "--profile", metavar="NAME", help="Use this configuration profile.")
@click.option("-C", "--cd", "folder", metavar="DIR", help="The working folder.")
@click.option(
    "--add-writable", "--add-dir", "writable", multiple=True, metavar="DIR", help="An additional writable folder."
)
@click.option(
    "--network", type=click.Choice(_NETWORKS), help="The network access, which overrides the mode or profile."
)
@click.option(
    "--sandbox-state-json",
    "state",
    metavar="JSON",
    help="Apply the sandbox of a session, which an MCP server receives with a call, instead of the configuration.",
)
@click.option(
    "--sandbox-state-readable-root",
    "readable",
    multiple=True,
    metavar="DIR",
    help="Another readable folder for --sandbox-state-json.",
)
@click.option(
    "--sandbox-state-disable-network", "disable_network", is_flag=True, help="Deny network access in any case."
)
@click.option("--include-managed-config", "managed", is_flag=True, hidden=True, help="Refused: `exec` applies them.")
@click.option("--transparent-tcp", "transparent", is_flag=True, hidden=True, help="Refused: programs need HTTPS_PROXY.")
@click.option(
    "--enable", "enabled", multiple=True, metavar="FEATURE", help="Enable a feature, like `-c features.FEATURE=true`."
)
@click.option(
    "--disable",
    "disabled",
    multiple=True,
    metavar="FEATURE",
    help="Disable a feature, like `-c features.FEATURE=false`.",
)
@click.option("-c", "--config", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a configuration value.")
@click.pass_context
def main(context: click.Context, /, **options: Any) -> None:
    """Run COMMAND in the sandbox of the configured policy, with this command's own stdin, stdout and stderr.

    The exit status is COMMAND's: 128+N after signal N, 127 if there is no such program, 126 if it cannot be executed, and 125
    if the sandbox cannot enforce the policy. Signals are forwarded to COMMAND. It runs in a separate session, so a terminal is
    not its controlling terminal and shells have no job control.
    """
    argv = context.meta.get(_ARGV)
    if argv is not None:
        context.exit(asyncio.run(_run(argv, options)))
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
    context.obj = options


@main.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor(context: click.Context, *, as_json: bool) -> None:
    """Show what every sandbox prevents on this machine.

    The page shows the mechanism, missing protections, and how to fix them. A command is run in each sandbox. The exit status is
    1 if none works.
    """
    from codex_client_sandbox.report import examine_sandboxes, report_lines

    async def examine() -> list[dict[str, Any]]:
        async with await _kernel(_config(context.obj)) as kernel:
            return await examine_sandboxes(kernel.registry.sandboxes, kernel.config.get("framework.sandbox"))

    reports = asyncio.run(examine())
    click.echo(json.dumps(reports, indent=2) if as_json else "\n".join(report_lines(reports)))
    context.exit(0 if any(report["works"] for report in reports) else 1)


@main.command("prove")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def prove(context: click.Context, *, as_json: bool) -> None:
    """Run attacks in the sandbox, and show which were stopped.

    Their targets are created for them. The exit status is 1 if an attack succeeded that the sandbox claims to stop.
    """
    from codex_client_sandbox.report import run_attacks

    async def attack() -> dict[str, Any]:
        async with await _kernel(_config(context.obj)) as kernel:
            return await run_attacks(kernel.registry.sandboxes, kernel.config.get("framework.sandbox"))

    outcome = asyncio.run(attack())
    if as_json:
        click.echo(json.dumps(outcome, indent=2))
    else:
        for entry in outcome["attacks"]:
            colour = {"stopped": "green", "escaped": "red"}.get(entry["result"], "yellow")
            click.echo(f"{click.style(entry['result'].ljust(18), fg=colour)} {entry['attack']}")
        click.echo(
            f"\n{outcome['sandbox']} ({outcome['level']}): {outcome['stopped']} of {len(outcome['attacks'])} stopped"
        )
    context.exit(1 if any(entry["result"] == "escaped" for entry in outcome["attacks"]) else 0)


def _config(options: dict[str, Any]) -> Config:
    from codex_framework.config import load_config

    if options["permissions"] and options["mode"]:
        raise click.UsageError("--permission-profile and --mode cannot be used together")
    _check_state(options)
    flags: dict[str, Any] = {} if options["mode"] is None else {"sandbox_mode": options["mode"]}
    for names, switch in ((options["enabled"], True), (options["disabled"], False)):
        flags |= {f"features.{name}": switch for name in names}
    return load_config(
        cwd=options["folder"] or Path.cwd(),
        environ=os.environ,
        profile=options["profile"],
        overrides=options["overrides"],
        flags=flags,
    )


def _check_state(options: dict[str, Any]) -> None:
    """Refuse options that contradict the state of a session, and unsupported options.

    Raises:
        CodexError: An option of Codex is not supported.
        click.UsageError: The options contradict each other.
    """
    from codex_framework.contract.errors import CodexError

    if options["transparent"]:
        fact = "--transparent-tcp is not supported: commands reach the network proxy by the variables that name it"
        raise CodexError(fact, slug="sandbox-option", hint="Leave it out, and let the program use HTTPS_PROXY.")
    if options["managed"]:
        fact = "--include-managed-config is not supported: requirements.toml applies to sessions, and not to `sandbox`"
        raise CodexError(fact, slug="sandbox-option", hint="Leave it out. `exec` applies the requirements.")
    others = [name for name in ("permissions", "mode", "folder", "writable", "network") if options[name]]
    if options["state"] is not None and others:
        names = {"permissions": "permission-profile", "folder": "cd", "writable": "add-writable"}
        raise click.UsageError(f"--sandbox-state-json cannot be used with --{names.get(others[0], others[0])}")
    if options["state"] is None and (options["readable"] or options["disable_network"]):
        raise click.UsageError(
            "--sandbox-state-readable-root and --sandbox-state-disable-network need --sandbox-state-json"
        )


async def _kernel(config: Config) -> Kernel:
    from codex_framework import Kernel

    return await Kernel.create(config, plugins=click.get_current_context().find_root().obj or ())


def _permissions(kernel: Kernel, options: dict[str, Any]) -> Permissions:
    """Return the permissions of the configuration or of the named profile, with the additional writable folders."""
    from codex_framework.config.permissions import named_permissions
    from codex_framework.contract.errors import ConfigError

    permissions = kernel.settings().permissions
    if options["permissions"] is not None:
        permissions = named_permissions(kernel.config, options["permissions"]).evolve(options=permissions.options)
    folders = tuple(os.path.normpath(Path.cwd() / folder) for folder in options["writable"])
    if not folders:
        return permissions
    if not permissions.writes_workspace:
        raise ConfigError(
            "--add-writable requires the mode workspace-write", slug="add-writable", hint="Add --mode workspace-write."
        )
    for folder in folders:
        if not Path(folder).exists():
            raise ConfigError(
                f"{folder} does not exist", slug="add-writable", hint="Create it first, or name another folder."
            )
    return permissions.with_writable(folders)


async def _run(argv: Sequence[str], options: dict[str, Any]) -> int:
    from codex_client_sandbox.inherited import run_inherited
    from codex_framework.commands.access import file_access
    from codex_framework.commands.confinement import Confinements
    from codex_framework.commands.process.environment import command_environment
    from codex_framework.config.credentials import credentials
    from codex_framework.contract.errors import CodexError
    from codex_framework.contract.permissions.file_access import NetworkMode

    config = _config(options)
    cwd, of_state = config.cwd, None
    if options["state"] is not None:
        from codex_client_sandbox.state import read_state

        of_state, cwd = read_state(options["state"], options["readable"], disable_network=options["disable_network"])
    if not cwd.is_dir():
        raise CodexError(f"{cwd} is not a folder", slug="cwd", hint="Name an existing folder.")
    async with await _kernel(config) as kernel:
        permissions = _permissions(kernel, options)
        if of_state is not None:
            permissions = of_state.evolve(options=permissions.options)
        access = file_access(permissions, cwd, os.environ, kernel.deciding)
        if options["network"] is not None:
            access = access.evolve(network=NetworkMode(options["network"]), network_rules=None)
        settings = kernel.settings()
        named = credentials(config.tables, (settings.provider, *kernel.registry.builtin_providers.values()))
        env = command_environment(
            settings.shell_environment_policy, os.environ, keep=settings.keep_variables, credentials=named
        )
        wanted = config.get("framework.sandbox")
        confinements = Confinements(kernel.registry.sandboxes, wanted)
        proxy = next(iter(kernel.registry.network_proxies.values()), None)
        return await run_inherited(confinements, access, argv, str(cwd), env, proxy)
