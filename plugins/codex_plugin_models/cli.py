"""``codex-framework models``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click

from codex_framework import ConfigError, ModelError, PluginContext, ProviderInfo
from codex_framework.toolkit.tables import table_lines
from codex_framework.toolkit.terminal_text import printable
from codex_plugin_models.listing import Known, known_model, known_models, properties

__all__ = ["models"]


@click.command("models", short_help="List models and their properties.")
@click.argument("model", required=False)
@click.option("--provider", metavar="ID", help="The provider (default: the configured one).")
@click.option("--all", "everything", is_flag=True, help="Include hidden models.")
@click.option("--refresh", is_flag=True, help="Ask the provider's server for its models first.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def models(
    plugin: PluginContext,
    /,
    model: str | None,
    provider: str | None,
    *,
    everything: bool,
    refresh: bool,
    as_json: bool,
) -> None:
    """List the models of a provider, or show what requests assume about one MODEL and where each value comes from.

    Sources are the file of `model_catalog_json`, the list of OpenAI's server, catalogues of plugins, and the built-in list. An
    unknown model can be used too; it has the properties of the source `fallback`.
    """
    info = _provider(plugin, provider)
    names = _ask_server(plugin, info) if refresh else ()
    if model is not None:
        _show(plugin, known_model(plugin, info, model), info, as_json=as_json)
        return
    listed = [known_model(plugin, info, name) for name in names] if names else known_models(plugin, info)
    found = [known for known in listed if everything or not known.model.hidden]
    configured = plugin.config.get("model")
    if as_json:
        click.echo(json.dumps([_entry(known, configured) for known in found], indent=2))
        return
    for line in _table(found, configured):
        click.echo(line)


def _provider(plugin: PluginContext, name: str | None) -> ProviderInfo:
    from codex_plugin_models.selected import selected_provider

    info = selected_provider(plugin, name)
    if info is None:
        name = name or plugin.config.get("model_provider", "openai")
        raise ConfigError(
            f"unknown model provider {name!r}",
            slug="provider",
            hint=f"Add a table [model_providers.{name}], or name another one with --provider.",
        )
    return info


def _ask_server(plugin: PluginContext, info: ProviderInfo) -> Sequence[str]:
    """Ask the server. Return the names of its models, if it provides only names."""
    from codex_lib_model_client.credentials import access
    from codex_plugin_models.refreshing import fetch, refresh
    from codex_plugin_models.selected import selected_provider

    try:
        configured = selected_provider(plugin)
        if configured is not None and configured.id == info.id and refresh(plugin, force=True):
            return ()
        return fetch(info, access(info, plugin.environ, plugin.config)).names
    except (ModelError, OSError) as error:
        click.echo(f"warning: {printable(str(error))}", err=True)
        return ()


def _show(plugin: PluginContext, known: Known, info: ProviderInfo, *, as_json: bool) -> None:
    found = list(properties(plugin, known))
    if as_json:
        values = {each.name: {"value": each.value, "source": each.source} for each in found}
        whole = {
            "model": known.model.slug,
            "provider": info.id,
            "known": known.source != "fallback",
            "properties": values,
        }
        click.echo(json.dumps(whole, indent=2))
        return
    click.echo(printable(f"{known.model.slug} at {info.id}"))
    if known.source == "fallback":
        click.echo("Nothing is known about this model. Requests use fallback values.")
    click.echo()
    rows = [[each.name.replace("_", " "), _text(each.value), each.source] for each in found]
    for line in _lines(["Property", "Value", "Source"], rows):
        click.echo(line)


def _entry(known: Known, configured: str | None) -> dict[str, Any]:
    model = known.model
    return {
        "model": model.slug,
        "name": model.display_name or model.slug,
        "context_window": model.context_window,
        "max_context_window": model.max_context_window,
        "efforts": list(model.efforts),
        "default_effort": model.default_effort,
        "images": model.supports_images,
        "hidden": model.hidden,
        "known": known.source != "fallback",
        "source": known.source,
        "configured": model.slug == configured,
    }


def _table(found: Sequence[Known], configured: str | None) -> Iterator[str]:
    rows = [
        [
            f"{known.model.slug}{' *' if known.model.slug == configured else ''}",
            known.model.display_name or "-",
            f"{known.model.context_window:,}",
            " ".join(_efforts(known)) or "-",
            "text, image" if known.model.supports_images else "text",
            known.source,
        ]
        for known in found
    ]
    if not rows:
        yield "No models are known for this provider. Any name that its server knows can be used."
        return
    yield from _lines(["Model", "Name", "Window", "Efforts", "Input", "Source"], rows)
    if any(row[0].endswith(" *") for row in rows):
        yield "\n* configured"


def _efforts(known: Known) -> Iterator[str]:
    for effort in known.model.efforts:
        yield f"[{effort}]" if effort == known.model.default_effort else effort


def _text(value: Any) -> str:
    if value is None or value in ([], ""):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {part}" for key, part in value.items() if part is not None)
    return " ".join(map(_text, value)) if isinstance(value, list) else str(value)


def _lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    return table_lines(header, [[printable(cell) for cell in row] for row in rows])  # catalogues come from servers
