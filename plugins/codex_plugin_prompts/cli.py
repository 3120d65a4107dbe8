"""``codex-framework prompts``: list the custom prompts, or print the text of one."""

from __future__ import annotations

import json
import shlex

import click

from codex_framework import ConfigError, PluginContext
from codex_framework.toolkit.tables import fit
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_prompts.events import CustomPrompt
from codex_plugin_prompts.expansion import PREFIX, ExpansionError, expanded, named_arguments
from codex_plugin_prompts.library import FOLDER, PromptFileError, find_prompt, read_prompts

__all__ = ["prompts"]


@click.group("prompts")
def prompts() -> None:
    """List your custom prompts, or print the text of one.

    A custom prompt is a file in `$CODEX_HOME/prompts`. An input `/prompts:NAME ARGUMENTS` is replaced by its text.
    """


@prompts.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def list_prompts(context: PluginContext, *, as_json: bool) -> None:
    """List the prompts, and the files that cannot be used."""
    library = read_prompts(context.codex_home)
    if as_json:
        listed = {"prompts": [_wire(prompt) for prompt in library.prompts], "errors": list(library.problems)}
        click.echo(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    for prompt in library.prompts:
        click.echo(fit(printable(" ".join([f"{PREFIX}{prompt.name}", *_arguments(prompt)])), "   "))
        if prompt.description:
            click.echo(fit(f"   {printable(prompt.description)}", "   "))
    if not library.prompts:
        click.echo(f"There are no prompts in {context.codex_home / FOLDER}.")
    for problem in library.problems:
        click.echo(printable(f"Warning: {problem}"), err=True)


def _arguments(prompt: CustomPrompt) -> list[str]:
    hint = prompt.argument_hint
    return [hint] if hint else [f"{name}=..." for name in named_arguments(prompt.content)]


def _wire(prompt: CustomPrompt) -> dict[str, str | None]:
    return {
        "name": prompt.name,
        "path": prompt.path,
        "content": prompt.content,
        "description": prompt.description,
        "argument_hint": prompt.argument_hint,
    }


@prompts.command("show", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[ARGUMENT]...")
@click.pass_obj
def show(context: PluginContext, name: str, arguments: tuple[str, ...]) -> None:
    """Print the text of a prompt with these arguments."""
    wanted = name.removeprefix(PREFIX)
    hint = "List the prompts: codex-framework prompts list"
    try:
        prompt = find_prompt(context.codex_home, wanted)
        if prompt is None:
            raise ConfigError(f"there is no prompt {wanted!r}", slug="prompts", hint=hint)
        click.echo(expanded(prompt.content, shlex.join(arguments)), nl=False)
    except (PromptFileError, ExpansionError) as error:
        raise ConfigError(f"{PREFIX}{wanted}: {error}", slug="prompts", hint=hint) from error
