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
    help="The address to listen on: stdio://, unix://, unix://PATH, or ws://IP:PORT.",
)
@click.option("--stdio", is_flag=True, help="The same as --listen stdio://.")
@click.option(
    "-c",
    "--config",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a key of the configuration. The value is parsed as TOML or, if that fails, used as a string.",
)
@click.option(
    "--ws-auth",
    "mode",
    type=click.Choice(["capability-token"]),
    help="The authentication required from ws:// clients: the token, as 'Authorization: Bearer TOKEN'.",
)
@click.option("--ws-token-file", "token_file", metavar="PATH", help="The absolute path of a file with the token.")
@click.option("--ws-token-sha256", "token_sha256", metavar="HEX", help="The SHA-256 digest of the token.")
@click.option("--enable", "enabled", metavar="FEATURE", multiple=True, help="Enable a feature.")
@click.option("--disable", "disabled", metavar="FEATURE", multiple=True, help="Disable a feature.")
@click.pass_context
def app_server(
    context: click.Context,
    /,
    *,
    address: str,
    stdio: bool,
    mode: str | None,
    token_file: str | None,
    token_sha256: str | None,
    settings: Sequence[str],
    enabled: Sequence[str],
    disabled: Sequence[str],
) -> None:
    """Serve the agent to editors, SDKs and other clients, by Codex's app server protocol.

    Each message is a JSON object: a line over stdio, a text frame over the WebSockets of unix:// and ws://.
    """
    if context.invoked_subcommand is not None:
        return
    from codex_plugin_app_server.addresses import AddressError, parse_address, read_access
    from codex_plugin_app_server.serving import serve

    if context.find_root().params.get("profile"):
        raise click.UsageError("--profile does not apply to app-server. Put the settings into config.toml, or use -c.")
    features = [*(f"features.{name}=true" for name in enabled), *(f"features.{name}=false" for name in disabled)]
    files = [path for path in context.find_object(tuple) or () if isinstance(path, Path)]
    try:
        place = parse_address("stdio://" if stdio else address)
        access = read_access(place, mode, token_file, token_sha256)
    except AddressError as error:
        raise click.UsageError(str(error)) from None
    context.exit(serve(place, access, [*settings, *features], files))


def _generator(name: str, what: str) -> None:
    """Add a subcommand that writes the types of the protocol."""

    @app_server.command(name, help=f"Write {what} of the protocol's types.")
    @click.option(
        "-o", "--out", "folder", type=click.Path(path_type=Path), required=True, help="The folder to write to."
    )
    @click.option("--experimental", is_flag=True, help="Include experimental methods.")
    def generate(*, folder: Path, experimental: bool) -> None:
        from codex_plugin_app_server import generated_types

        write = generated_types.write_typescript if name == "generate-ts" else generated_types.write_json_schemas
        try:
            count = write(folder, experimental=experimental)
        except OSError as error:
            raise click.ClickException(f"cannot write to {folder}: {error.strerror or error}") from None
        click.echo(f"{count} files in {folder}")


_generator("generate-json-schema", "JSON Schemas")
_generator("generate-ts", "TypeScript")
