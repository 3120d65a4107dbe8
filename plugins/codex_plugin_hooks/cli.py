"""``codex-framework hooks``: list the hooks, trust them, switch them on and off, and try them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from codex_framework import ConfigError, PluginContext, UserConfig
from codex_framework.toolkit.tables import fit
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_hooks.isolation import module_folders
from codex_plugin_hooks.names import EVENTS
from codex_plugin_hooks.wire import hook_wire

if TYPE_CHECKING:
    from codex_plugin_hooks.definitions import Definitions, Handler

__all__ = ["hooks"]

_STATES = {
    "managed": "managed by the administrator",
    "trusted": "trusted",
    "modified": "changed since it was trusted; does not run",
    "untrusted": "not trusted; does not run",
}

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("hooks")
def hooks() -> None:
    """List the configured hooks, trust them, and try them.

    Hooks are commands of `hooks.json` and `[hooks]` that run at events of a session.
    """


@hooks.command("list")
@_json_option
@click.pass_obj
def list_hooks(context: PluginContext, *, as_json: bool) -> None:
    """List the hooks of this folder and of the user, with their state.

    The exit status is 1 if a hook cannot be run.
    """
    found = _load_definitions(context)
    if as_json:
        problems = [{"message": str(error), "hint": error.hint} for error in found.errors]
        _print(
            {"hooks": [hook_wire(each) for each in found.known], "errors": problems, "warnings": list(found.warnings)}
        )
    else:
        _show(found)
    if found.errors:
        raise SystemExit(1)


def _show(found: Definitions) -> None:
    for each in found.known:
        click.echo(fit(f"{each.order + 1}. {_definition_line(each)}", "   "))
        state = _STATES[each.trust] if each.enabled else "switched off"
        click.echo(fit(f"   {state}; {each.source}, {printable(each.path)}; time limit {each.timeout_s} s", "   "))
        if each.scripts.paths:
            click.echo(fit(f"   read-only for the model: {printable(', '.join(each.scripts.paths))}", "   "))
        if folders := dict.fromkeys(module_folders(each.scripts)):
            click.echo(
                fit(
                    f"   read-only with everything in it, because scripts load it: {printable(', '.join(folders))}",
                    "   ",
                )
            )
        if each.scripts.unknown:
            click.echo(
                fit(f"   not understood, so perhaps not protected: {printable(', '.join(each.scripts.unknown))}", "   ")
            )
    if not found.known:
        click.echo("No hooks are configured.")
    for warning in found.warnings:
        click.echo(f"Warning: {printable(warning)}", err=True)
    for error in found.errors:
        if error.slug != "hook-trust":
            click.echo(f"Error: {printable(str(error))}\n  {printable(error.hint)}", err=True)
    if any(error.slug == "hook-trust" for error in found.errors):
        click.echo("To trust the hooks that do not run: codex-framework hooks trust")


def _definition_line(each: Handler) -> str:
    """Return a definition as a line in which nothing is hidden."""
    return printable(f"{each.event.name}{f' ({each.matcher})' if each.matcher else ''}: {each.command}")


@hooks.command("trust")
@click.argument("numbers", nargs=-1, metavar="[NUMBER | KEY]...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_json_option
@click.pass_obj
def trust(context: PluginContext, numbers: tuple[str, ...], *, yes: bool, as_json: bool) -> None:
    """Trust hooks, by the numbers or keys of `hooks list`. Without any, all that are not trusted yet.

    Trust is for the definition of a hook: its command, event, matcher and time limit. A hook that changes must be trusted again.
    """
    found = _load_definitions(context)
    wanted = [each for each in found.known if each.trust in ("untrusted", "modified")]
    if numbers:
        wanted = [each for each in _find_hooks(found, numbers) if each.trust != "managed"]
    if not as_json:
        for each in wanted:
            click.echo(fit(f"{_definition_line(each)}  [{printable(each.path)}]", "   "))
    if wanted and not yes:
        click.confirm("Trust these hooks? They run as you, without a sandbox.", abort=True, err=as_json)
    _decide(context, wanted, lambda each: ("trusted_hash", each.hash))
    if as_json:
        _print({"trusted": [each.key for each in wanted]})
    else:
        click.echo(f"Trusted {len(wanted)} hook{'' if len(wanted) == 1 else 's'}." if wanted else "Nothing to trust.")


@hooks.command("disable")
@click.argument("numbers", nargs=-1, required=True, metavar="NUMBER | KEY...")
@click.pass_obj
def disable(context: PluginContext, numbers: tuple[str, ...]) -> None:
    """Switch hooks off, by the numbers or keys of `hooks list`. Hooks of the administrator stay on."""
    _switch(context, numbers, on=False)


@hooks.command("enable")
@click.argument("numbers", nargs=-1, required=True, metavar="NUMBER | KEY...")
@click.pass_obj
def enable(context: PluginContext, numbers: tuple[str, ...]) -> None:
    """Switch hooks on again."""
    _switch(context, numbers, on=True)


def _switch(context: PluginContext, numbers: Sequence[str], *, on: bool) -> None:
    wanted = _find_hooks(_load_definitions(context), numbers)
    for each in wanted:
        if each.trust == "managed":
            raise ConfigError(
                f"the hook {each.command!r} is managed by the administrator",
                slug="hooks",
                hint=f"Ask the administrator to change {each.path}.",
            )
    _decide(context, wanted, lambda _: ("enabled", on))
    click.echo(f"Switched {len(wanted)} hook{'' if len(wanted) == 1 else 's'} {'on' if on else 'off'}.")


def _decide(context: PluginContext, wanted: Sequence[Handler], state: Callable[[Handler], tuple[str, object]]) -> None:
    config = UserConfig(context.codex_home)
    for each in wanted:
        name, value = state(each)
        config.set(("hooks", "state", each.key, name), value)


def _find_hooks(found: Definitions, numbers: Sequence[str]) -> list[Handler]:
    """Return hooks by their numbers or keys.

    Raises:
        ConfigError: There is no such hook.
    """
    by_name = {str(each.order + 1): each for each in found.known} | {each.key: each for each in found.known}
    for number in numbers:
        if number not in by_name:
            hint = "List the hooks with their numbers: codex-framework hooks list"
            raise ConfigError(f"there is no hook {number!r}", slug="hooks", hint=hint)
    return list(dict.fromkeys(by_name[number] for number in numbers))


@hooks.command("test")
@click.argument("event", type=click.Choice(list(EVENTS)))
@click.option("--tool", default="Bash", show_default=True, help="The tool of the sample call, for events of tools.")
@click.option("--input", "text", help="The tool's arguments or other fields of the sample, as a JSON object.")
@click.option("--prompt", default="Hello!", show_default=True, help="The sample prompt.")
@click.option("--untrusted", is_flag=True, help="Run hooks that are not trusted, too.")
@_json_option
@click.pass_obj
def test(
    context: PluginContext, event: str, *, tool: str, text: str | None, prompt: str, untrusted: bool, as_json: bool
) -> None:
    """Run the hooks of EVENT, and show their decisions.

    The hooks really run, on a sample input. No model and no tool is called.
    """
    from codex_plugin_hooks.trial import Sample, run_trial

    try:
        given = json.loads(text) if text else {}
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--input") from None
    if not isinstance(given, dict):
        raise click.BadParameter("not a JSON object", param_hint="--input")
    sample = Sample(event=event, tool=tool, given=given, prompt=prompt)
    trial = run_trial(context, _load_definitions(context), sample, untrusted=untrusted)
    if as_json:
        _print(trial.wire())
    else:
        for line in trial.lines():
            click.echo(printable(line))


def _load_definitions(context: PluginContext) -> Definitions:
    from codex_plugin_hooks.definitions import known_definitions

    return known_definitions(context)


def _print(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))
