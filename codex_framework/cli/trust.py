"""``codex-framework trust``: decide whether the settings of a project apply."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codex_framework.cli.config_check import check_content
from codex_framework.contract.errors import ConfigError
from codex_framework.toolkit.lazy_command import help_group

if TYPE_CHECKING:
    from codex_framework.config.target import Target

__all__ = ["command"]


@help_group("Configure")
@click.command("trust", short_help="Trust the project of a folder, so that its settings apply.")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--untrusted", is_flag=True, help="Store that the project is not trusted.")
@click.option("--revoke", is_flag=True, help="Remove the decision about the project.")
@click.option("--list", "listed", is_flag=True, help="List all decisions.")
@click.option("--json", "as_json", is_flag=True, help="With --list, print JSON.")
def command(folder: Path | None, *, untrusted: bool, revoke: bool, listed: bool, as_json: bool) -> None:
    """Trust the project of a folder (default: the current folder).

    The settings and rules in the `.codex` folder of a trusted project apply, and commands may write to it unless `sandbox_mode`
    says otherwise. The decision is stored for the git checkout that contains the folder, and applies to its worktrees. Outside
    of git it applies only to the folder. Codex stores and reads decisions in the same place.
    """
    from codex_framework.config.target import user_target

    if untrusted + revoke + listed > 1 or (listed and folder is not None) or (as_json and not listed):
        raise click.UsageError(
            "use only one of --untrusted, --revoke and --list; --list takes no folder, and --json needs it"
        )
    target = user_target(os.environ)
    if listed:
        _list(as_json=as_json)
        return
    place = _existing(folder or Path())
    if revoke:
        _revoke(target, place)
    else:
        _decide(target, place, "untrusted" if untrusted else "trusted")


def _existing(folder: Path) -> Path:
    path = Path(os.path.normpath(Path.cwd() / folder))
    if not path.is_dir():
        fact = "is not a folder" if path.exists() else "does not exist"
        raise ConfigError(f"{path} {fact}", path=str(path), slug="trust-folder", hint="Name the folder of a project.")
    return path


def _decide(target: Target, folder: Path, level: str) -> None:
    from codex_framework.config.trust import decide_trust, trusted_folder

    is_changed = decide_trust(target.path, folder, level, lambda content: check_content(target, content, plugins=False))
    click.echo(f"{trusted_folder(folder)}: {level}{'' if is_changed else ' already'} ({target.path})")
    for line in _consequences(folder, level):
        click.echo(line, err=True)


def _consequences(folder: Path, level: str) -> list[str]:
    """Return what else the user should know: which files apply now, and whether they are valid."""
    from codex_framework.config import load_config

    try:
        config = load_config(cwd=folder, environ=os.environ)
    except ConfigError as error:
        return [f"warning: the project's settings are invalid: {error}", *([error.hint] if error.hint else [])]
    if config.trust != level:
        return [f"warning: {config.origin('projects') or 'another setting'} overrides this decision: {config.trust}"]
    files = [layer.path for layer in config.layers if layer.name == "project"]
    return [f"These settings apply now: {', '.join(files)}"] if files else []


def _revoke(target: Target, folder: Path) -> None:
    from codex_framework.config.trust import revoke_trust

    removed = revoke_trust(target.path, folder, lambda content: check_content(target, content, plugins=False))
    if not removed:
        raise ConfigError(
            f"{target.path} contains no decision about {folder}",
            path=str(target.path),
            slug="trust-folder",
            hint="To see all decisions, run: codex-framework trust --list",
        )
    for name in removed:
        click.echo(f"{name}: no decision ({target.path})")


def _list(*, as_json: bool) -> None:
    rows = _decisions()
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    elif not rows:
        click.echo("No project is trusted or untrusted.")
    for row in [] if as_json else rows:
        missing = "" if row["exists"] else "  (missing)"
        click.echo(f"{row['trust_level']:<10} {row['path']}{missing}")


def _decisions() -> list[dict[str, Any]]:
    from codex_framework.config import find_codex_home, load_config

    config = load_config(cwd=find_codex_home(os.environ), environ=os.environ)
    projects = config.get("projects", {})
    return [
        {"path": path, "trust_level": entry["trust_level"], "exists": Path(path).is_dir()}
        for path, entry in projects.items()
        if isinstance(entry, Mapping) and "trust_level" in entry
    ]
