"""``codex-framework app-server``: its options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

__all__ = ["app_server"]


@click.group("app-server", invoke_without_command=True)
@click.option(
    "--listen",
    "address",
    metavar="URL",
    default="stdio://",
    show_default=True,
    help="Where to listen: stdio://, and nothing else yet.",
)
@click.option("--stdio", is_flag=True, help="The same as --listen stdio://.")
@click.option(
    "-c",
    "--config",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a key of the configuration. The value is TOML, or else text.",
)
@click.option("--enable", "enabled", metavar="FEATURE", multiple=True, help="Enable a feature.")
@click.option("--disable", "disabled", metavar="FEATURE", multiple=True, help="Disable a feature.")
@click.pass_context
def app_server(
    context: click.Context,
    /,
    *,
    address: str,
    stdio: bool,
    settings: Sequence[str],
    enabled: Sequence[str],
    disabled: Sequence[str],
) -> None:
    """Serve the agent to editors, SDKs and other clients, by Codex's app server protocol.

    Each message is a JSON object on a line of its own.
    """
    if context.invoked_subcommand is not None:
        return
    if address != "stdio://" and not stdio:
        raise click.UsageError(f"unsupported --listen URL {address!r}; expected stdio://")
    from codex_plugin_app_server.serving import serve_stdio

    features = [*(f"features.{name}=true" for name in enabled), *(f"features.{name}=false" for name in disabled)]
    files = [path for path in context.find_object(tuple) or () if isinstance(path, Path)]
    context.exit(serve_stdio([*settings, *features], files))
