"""``codex-framework skills``: list the skills, and switch them on and off."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from codex_framework import ConfigError, PluginContext, UserConfig
from codex_framework.toolkit.tables import fit
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_skills.catalog import Catalog
from codex_plugin_skills.reading import Skill
from codex_plugin_skills.sources import Sources

__all__ = ["skills"]

_SCOPES = {
    "repo": "of this project",
    "user": "yours",
    "system": "bundled",
    "admin": "of the administrator",
}


@click.group("skills")
def skills() -> None:
    """List the skills of this folder, and switch them on and off.

    A skill is a folder with instructions in a file `SKILL.md`.
    """


@skills.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def list_skills(context: PluginContext, *, as_json: bool) -> None:
    """List the skills, and the files that cannot be used.

    The skills are those of this folder and yours, with their state.
    """
    catalog = _catalog(context)
    if as_json:
        from codex_plugin_skills.wire import entry_wire

        click.echo(json.dumps(entry_wire(catalog.entry(os.getcwd())), indent=2, ensure_ascii=False))  # noqa: PTH109
        return
    for skill in catalog.skills:
        click.echo(fit(printable(f"${skill.name}: {skill.metadata.description}"), "   "))
        click.echo(fit(f"   {_state(skill)}{_SCOPES[skill.metadata.scope]}; {printable(skill.path)}", "   "))
    if not catalog.skills:
        click.echo("There are no skills.")
    for problem in catalog.problems:
        click.echo(printable(f"Warning: {problem.path}: {problem.message}"), err=True)


def _state(skill: Skill) -> str:
    if not skill.metadata.enabled:
        return "switched off; "
    return "" if skill.implicit else "only used if you name it; "


@skills.command("disable")
@click.argument("names", nargs=-1, required=True, metavar="NAME | PATH...")
@click.pass_obj
def disable(context: PluginContext, names: Sequence[str]) -> None:
    """Switch skills off. The model does not see them, and they cannot be named."""
    _switch(context, names, on=False)


@skills.command("enable")
@click.argument("names", nargs=-1, required=True, metavar="NAME | PATH...")
@click.pass_obj
def enable(context: PluginContext, names: Sequence[str]) -> None:
    """Switch skills on again."""
    _switch(context, names, on=True)


def _switch(context: PluginContext, names: Sequence[str], *, on: bool) -> None:
    catalog = _catalog(context)
    paths = list(dict.fromkeys(path for name in names for path in _skill_paths(catalog, name)))
    config = UserConfig(context.codex_home)
    table = config.tables().get("skills")
    entries = table.get("config") if isinstance(table, dict) else None
    kept = [entry for entry in entries or () if not (isinstance(entry, dict) and entry.get("path") in paths)]
    config.set(("skills", "config"), [*kept, *({"path": path, "enabled": on} for path in paths)])
    click.echo(f"Switched {len(paths)} skill{'' if len(paths) == 1 else 's'} {'on' if on else 'off'}.")


def _skill_paths(catalog: Catalog, name: str) -> list[str]:
    """Return the paths of the skills of a name or path.

    Raises:
        ConfigError: No skill matches.
    """
    wanted = name.removeprefix("$")
    real = os.path.realpath(name)
    paths = [skill.path for skill in catalog.skills if wanted == skill.name or real in (skill.path, skill.folder)]
    if not paths:
        hint = "List the skills: codex-framework skills list"
        raise ConfigError(f"there is no skill {name!r}", slug="skills", hint=hint)
    return paths


def _catalog(context: PluginContext) -> Catalog:
    config: dict[str, Any] = dict(context.config)
    return Sources(context).of(Path.cwd(), config)
