"""``codex-framework update`` prints the command that updates this installation."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click

from codex_framework.contract.value import Value
from codex_framework.toolkit.lazy_command import help_group

__all__ = ["Installation", "installation", "main"]

_NAME = "codex-framework"


class Installation(Value):
    """How the program was installed.

    Attributes:
        kind: In words.
        update: The command that installs the newest version.
    """

    kind: str
    update: str


@help_group("Help")
@click.command("update", short_help="Print the command that updates this installation.")
def main() -> None:
    """Print the command that updates this installation, which depends on how it was installed.

    Nothing is downloaded or changed. The exit status is 1, because the program has not been updated.
    """
    found = installation()
    click.echo(f"{_NAME} does not update itself. It was installed {found.kind}. To update it, run:\n", err=True)
    click.echo(f"  {found.update}")
    click.get_current_context().exit(1)


def installation(prefix: Path = Path(sys.prefix)) -> Installation:
    """Return how the program in an environment was installed.

    Args:
        prefix: The environment.
    """
    origin, installer = _origin()
    url, revision = str(origin.get("url", "")), origin.get("vcs_info", {}).get("requested_revision")
    folder = shlex.quote(unquote(url.removeprefix("file://"))) if "dir_info" in origin else ""
    pull = f"git -C {folder} pull && " if folder else ""
    if folder and origin["dir_info"].get("editable"):
        return Installation(f"from the folder {folder}", f"{pull}{_installer(installer)} -e {folder}")
    if (prefix / "uv-receipt.toml").exists():
        return Installation("with uv tool", f"{pull}uv tool upgrade {_NAME}")
    source = folder
    if "archive_info" in origin:
        source = shlex.quote(unquote(url.removeprefix("file://")) if url.startswith("file://") else url)
    if "vcs_info" in origin:
        source = shlex.quote(f"{_NAME} @ {origin['vcs_info']['vcs']}+{url}" + (f"@{revision}" if revision else ""))
    if (prefix / "pipx_metadata.json").exists():
        return Installation("with pipx", f"{pull}pipx install --force {source}" if source else f"pipx upgrade {_NAME}")
    if "archive-v0" in prefix.parts:
        return Installation(
            "with uvx", f"{pull}uvx --refresh --from {source} {_NAME}" if source else f"uvx {_NAME}@latest"
        )
    command = f"--force-reinstall {source}" if source else f"--upgrade {_NAME}"  # pip only compares versions otherwise
    return Installation(f"with {installer}", f"{pull}{_installer(installer)} {command}")


def _installer(name: str) -> str:
    """Return the command that installs into this environment."""
    return f"uv pip install --python {sys.executable}" if name == "uv" else f"{sys.executable} -m pip install"


def _origin() -> tuple[dict[str, Any], str]:
    """Return where the installed distribution comes from (PEP 610; empty for an index), and the program that installed it."""
    try:
        package = distribution(_NAME)
        return json.loads(package.read_text("direct_url.json") or "{}"), (
            package.read_text("INSTALLER") or "pip"
        ).strip()
    except (PackageNotFoundError, ValueError):
        return {}, "pip"
