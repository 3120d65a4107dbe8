"""Render the reference pages from the code.

    python docs/render.py

writes the pages. A test checks that they are up to date.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from codex_framework.config.reference import render as render_config
from codex_framework.contract import hookspecs
from codex_framework.contract.roles.plugins import PluginContext
from codex_framework.loader.hook_checks import HOOKS
from codex_framework.loader.registry import load_registry
from codex_lib_model_client.server_behaviour import ANSWERS, REFUSALS

FOLDER = Path(__file__).parent

_INTRODUCTION = f"""\
# Hooks

This page is rendered from `codex_framework/contract/`. Edit `hookspecs/` and `roles/` there, then run
`python docs/render.py`.

A plugin is a module, a subclass of `codex_framework.Plugin` or any other object, named by an entry point of the group
`{hookspecs.GROUP}`. Each function or method of it that carries `@codex_framework.hookimpl` implements the hook of the same name and
returns what the plugin offers: a list, or any other iterable. Hooks are called once, when a kernel is created; the kernel then works
with the objects. All names in the examples are importable from `codex_framework` itself.

Every hook can take one parameter, `plugin`: the plugin's context in the kernel that loads it. A hook that does not need it omits it,
as most examples do. See [Keep state and settings in a plugin](../extend/plugin-classes.md).

{{context}}

A faulty plugin does not affect the others. `codex-framework plugins` shows the faults:

- A hook that does not exist, takes other parameters, is `async` or annotated with another type: the plugin is not loaded.
- A class that cannot be created with one `PluginContext`, or does not call `super().__init__(context)`: the plugin is not loaded.
- A hook that raises, or returns something that is not iterable: the plugin is not loaded.
- Settings that do not fit the plugin's class, or a required plugin that is missing, too old or broken: the plugin is not loaded.
- An object that lacks a member of its role, or whose methods cannot be called as the kernel calls them: this object is ignored.
- A name that two plugins offer: both plugins are reported, and one of them gets the name.
"""


def hooks_reference() -> str:
    """The page ``reference/hooks.md``."""
    rows = [f"| [`{name}`](#{name}) | {_role_link(name)} | {_summary(hook)} |" for name, hook in HOOKS.items()]
    table = "\n".join(["| hook | returns | summary |", "|---|---|---|", *rows])
    sections = [_hook_section(name, hook) for name, hook in HOOKS.items()]
    introduction = _INTRODUCTION.replace("{context}", _source(PluginContext))
    return "\n".join([introduction, table, "", *sections])


def example(hook: Callable[..., Any]) -> str:
    """The source of a hook's example."""
    (source,) = re.findall(r"```python\n(.*?)```", inspect.getdoc(hook) or "", re.S)
    return inspect.cleandoc(source) + "\n"


def config_reference() -> str:
    """The page ``reference/config.md``."""
    reports = load_registry({}).reports
    return render_config({one.name: one.settings for one in reports if one.bundled and one.settings is not None})


_SERVERS = """\
# What servers do

This page is rendered from `plugins/codex_lib_model_client/server_behaviour.py`. Edit the tables there, then run
`python docs/render.py`.

Model servers do things that their APIs do not describe, and proxies pass on the words of the servers behind them. The clients of all
APIs share this table: [responses](../plugins/openai.md), [chat](../plugins/chat.md) and the Messages API of the distribution
`codex-contrib-anthropic`. A test checks each row for each API to which it applies.

## Refusals

A refusal is recognised by its words, its code or its type, whatever its form: an object, a text, a list, or the answer of a server
behind a proxy. Similar words are recognised, too.

{refusals}

A conversation that is **too long** is compacted, and the request is sent again; see [compaction](../plugins/compaction.md). A status
of 413 means the same. If the model supports **no images**, the request is sent once more with notes instead of images, and so are
later requests. To send no images from the beginning, set `input_modalities = ["text"]` for the provider.

If ids of calls must be **short** (nine letters and digits, for models of Mistral), the request is sent once more with such ids, and
so are later requests.

If a refusal names one **tool** together with its schema (`Invalid schema for function 'x'`), or its place among the tools
(`tools[3].function.parameters`), the tool is left out of the thread. A warning says so, and the turn continues. A text about calls,
messages or arguments has no such effect, whichever names it contains. Other refusals end the turn.

## Answers

{answers}

## Requests

- **Schemas of tools** are sent in the form that servers accept: an object without combinators in its root, arrays with `items`, the
  keywords of draft 2020-12, and valid references. A keyword that servers do not support is removed. If it is a combinator in the
  root, a tuple or a requirement about other properties, its meaning is added to the description, up to 2,000 characters. Invalid
  parts are removed without a message: an invalid `pattern`, a broken reference, names in `required` without a property, and unknown
  types. A schema without such parts is sent unchanged.
- **Ids of calls** are unique, have at most 64 characters, and contain only characters that servers accept; a call and its output have
  the same id. **Ids of items** that another server wrote in another form are not sent. The record of the thread keeps all ids
  unchanged.
"""


def servers_reference() -> str:
    """The page ``reference/what-servers-do.md``."""
    refusals = [
        "| meaning | server | status | words |",
        "|---|---|---|---|",
        *(f"| {row.meaning} | {row.server} | {row.status} | {_cell(row.words)} |" for row in REFUSALS),
    ]
    answers = [
        "| form | response of the server | effect |",
        "|---|---|---|",
        *(f"| {row.name} | {row.does} | {row.becomes} |" for row in ANSWERS),
    ]
    return _SERVERS.format(refusals="\n".join(refusals), answers="\n".join(answers))


def _cell(text: str) -> str:
    return f"``{text}``" if "`" in text else f"`{text}`"


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/config.md": config_reference,
    "reference/hooks.md": hooks_reference,
    "reference/what-servers-do.md": servers_reference,
}
"""Every rendered page and what renders it."""


def _hook_section(name: str, hook: Callable[..., Any]) -> str:
    text = (inspect.getdoc(hook) or "").partition("Example:")[0].strip()
    parts = [
        f"## {name}",
        "",
        f"```python\ndef {name}(plugin: PluginContext) -> {_returned(hook)}\n```",
        "",
        _markdown(text),
        "",
    ]
    parts += [f"```python\n{example(hook)}```", ""]
    role = _role_of(name)
    if role is not None:
        parts += [f"The role `{role.__name__}` (`{role.__module__}`):", "", _source(role), ""]
    return "\n".join(parts)


def _source(role: type) -> str:
    """A role as it stands in the code, without bodies that do nothing and without comments for linters."""
    lines = [
        re.sub(r"\s+# (noqa|type:|pyright:).*", "", line)
        for line in inspect.getsource(role).splitlines()
        if line.strip() not in ("...", "raise NotImplementedError")
    ]
    return "```python\n" + "\n".join(lines).rstrip() + "\n```"


def _summary(hook: Callable[..., Any]) -> str:
    """The first sentence of a hook's documentation."""
    text = " ".join((inspect.getdoc(hook) or "").partition("\n\n")[0].split())
    return _markdown(re.split(r"(?<=\.)\s", text, maxsplit=1)[0])


def _markdown(text: str) -> str:
    return text.replace("``", "`")


def _returned(hook: Callable[..., Any]) -> str:
    return str(hook.__annotations__["return"])


def _role_of(name: str) -> Any:
    """The class of the objects that a hook offers; None if it offers none."""
    return next((hook.role for hook in hookspecs.OFFERING if hook.name == name), None)


def _role_link(name: str) -> str:
    role = _role_of(name)
    if role is not None:
        return f"`{role.__name__}`"
    return f"`{_returned(HOOKS[name])}`" if HOOKS[name] in hookspecs.DECLARATIONS else f"`{_inner(HOOKS[name])}`"


def _inner(hook: Callable[..., Any]) -> str:
    returned = hook.__annotations__["return"]
    if get_origin(returned) is not None:
        return str(get_args(returned)[0].__name__)
    return str(returned).partition("[")[2].removesuffix("]")


def main() -> None:
    """Write all pages."""
    for name, render in PAGES.items():
        page = FOLDER / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(render(), encoding="utf-8")
        print(f"wrote {page}")


if __name__ == "__main__":
    main()
