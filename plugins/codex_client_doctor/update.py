"""``codex-framework update`` prints the command that updates this installation."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

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
    source, installer = _origin()
    if source:
        return Installation(f"from the folder {source}", f"git -C {source} pull && {_installer(installer)} -e {source}")
    if (prefix / "uv-receipt.toml").exists():
        return Installation("with uv tool", f"uv tool upgrade {_NAME}")
    if (prefix / "pipx_metadata.json").exists():
        return Installation("with pipx", f"pipx upgrade {_NAME}")
    if "archive-v0" in prefix.parts:
        return Installation("with uvx", f"uvx {_NAME}@latest")
    return Installation(f"with {installer}", f"{_installer(installer)} --upgrade {_NAME}")


def _installer(name: str) -> str:
    """Return the command that installs into this environment."""
    return f"uv pip install --python {sys.executable}" if name == "uv" else f"{sys.executable} -m pip install"


def _origin() -> tuple[str, str]:
    """Return the source folder of an editable installation, or an empty text, and the program that installed it."""
    try:
        package = distribution(_NAME)
        origin: dict[str, Any] = json.loads(package.read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return "", "pip"
    is_editable = origin.get("dir_info", {}).get("editable", False)
    source = str(origin.get("url", "")).removeprefix("file://") if is_editable else ""
    return source, (package.read_text("INSTALLER") or "pip").strip()
