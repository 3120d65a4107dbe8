"""Render the API reference: which names each page has. Sphinx adds the docstrings when it builds the site.

    python docs/render_api.py

writes the pages ``reference/api/*.md``. A test checks that they are up to date and have every public name.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

import codex_framework
from codex_framework import testing

sys.path.insert(0, str(Path(__file__).parent))
from render_protocol import every, fields_on_the_wire

FOLDER = Path(__file__).parent / "reference" / "api"


@attrs.frozen
class Group:
    """A page for the names of some modules."""

    title: str
    about: str
    modules: tuple[str, ...]


_ROLES = "codex_framework.contract.roles."
_PROTOCOL = "codex_framework.contract.protocol."

GROUPS: Mapping[str, Group] = {
    "threads": Group(
        "Kernel, threads and turns",
        "Run a turn, keep a kernel, and what plugins see of its threads.",
        (
            "codex_framework.one_turn",
            "codex_framework.kernel",
            "codex_framework.threads.thread",
            *(
                _ROLES + name
                for name in ("outcomes", "settings", "setting_overrides", "facts", "threads", "components")
            ),
            *(_ROLES + name for name in ("tasks", "ops", "agents", "clients", "client_wrapper", "scopes")),
        ),
    ),
    "plugins": Group(
        "Plugins and commands",
        "The plugin itself: its class, context and settings, and what it adds to the command line.",
        (
            "codex_framework",
            "pluggy._decorators",
            "codex_framework.contract.value",
            "codex_framework.config.user_config",
            "codex_framework.toolkit.lazy_command",
            *(_ROLES + name for name in ("plugins", "exec_commands", "exec_options")),
        ),
    ),
    "tools": Group(
        "Tools",
        "Define tools, and answer the model's calls.",
        (
            "codex_framework.toolkit.tool",
            "codex_framework.toolkit.arguments",
            *(_ROLES + name for name in ("tools", "tool_specs", "calls")),
        ),
    ),
    "models": Group(
        "Models and context",
        "Talk to model servers, tell models about the world, and shorten conversations.",
        tuple(_ROLES + name for name in ("models", "context", "compactors")),
    ),
    "safety": Group(
        "Permissions, sandboxes and environments",
        "Decide what may be done, confine commands, and say where they run.",
        (
            *(_ROLES + name for name in ("policies", "reviewers", "constraints", "interceptors", "commands")),
            *(_ROLES + name for name in ("sandboxes", "networks", "environments")),
            "codex_framework.contract.permissions.file_access",
            "codex_framework.contract.permissions.network_rules",
            _PROTOCOL + "permissions",
            _PROTOCOL + "policies",
            "codex_framework.commands.process.spawn",
            "codex_framework.commands.shells",
        ),
    ),
    "records": Group(
        "Records and observers",
        "Store threads, record who changed what, and watch.",
        tuple(_ROLES + name for name in ("stores", "provenance", "observers")),
    ),
    "errors": Group("Errors", "[Errors](../../errors.md) explains each slug.", ("codex_framework.contract.errors",)),
    "testing": Group(
        "Testing kit",
        "[Test a plugin](../../extend/test-a-plugin.md) shows how to use it.",
        ("codex_framework.testing",),
    ),
}

_PUBLIC = frozenset(codex_framework.__all__)
_KINDS = {
    "ops": ("Operations", ("op", "input"), ("ops",)),
    "events": ("Events", ("event",), ("events.event", "events.requests", "events.turn")),
    "items": ("Items", ("item",), ("items",)),
}
"""The pages of the protocol: the title, the kinds of ``render_protocol``, and the modules with further public names."""


_ABOUT_PROTOCOL = """\
Each heading is the `type` of the JSON object on the wire. Below it are the fields with their Python types; `?` marks a field that
may be omitted. [Protocol](../protocol.md) lists all of them in one table, with a test of each. Further names are at the end.
"""


def pages() -> dict[str, str]:
    """Return every page by its file name."""
    found = {f"{name}.md": _group_page(group) for name, group in GROUPS.items()}
    protocol = every()
    for name, (title, kinds, modules) in _KINDS.items():
        found[f"{name}.md"] = _protocol_page(title, {kind: protocol[kind] for kind in kinds}, modules)
    return found


def _group_page(group: Group) -> str:
    names = [name for module in group.modules for name in names_of(module)]
    anchors: Counter[str] = Counter()
    table = []
    for name in names:
        anchor = re.sub(r"[^\w\- ]", "", _short(name).lower())
        again = f"-{anchors[anchor]}" if anchors[anchor] else ""
        anchors[anchor] += 1
        table.append(f"| [`{_short(name)}`](#{anchor}{again}) | {_summary(_object(name))} |")
    parts = [*_head(group.title), group.about, "", "| name | |", "|---|---|", *table, ""]
    return "\n".join([*parts, *(line for name in names for line in _entry(name))]).rstrip() + "\n"


def _protocol_page(title: str, kinds: Mapping[str, Mapping[str, tuple[type[Any], str]]], modules: Iterable[str]) -> str:
    parts = [*_head(title), _ABOUT_PROTOCOL]
    shown = set()
    for table in kinds.values():
        for tag, (cls, plugin) in table.items():
            name = (
                f"codex_framework.{cls.__name__}" if cls.__name__ in _PUBLIC else f"{cls.__module__}.{cls.__qualname__}"
            )
            shown.add(name)
            parts += [f"## `{tag}`", "", "```text", _wire_form(tag, cls), "```", ""]
            parts += [f"Of the plugin [{plugin}](../../plugins/{plugin}.md).", ""] if plugin else []
            parts += _directive(name, cls)
    others = [name for module in modules for name in names_of(_PROTOCOL + module) if name not in shown]
    return "\n".join([*parts, *(line for name in others for line in _entry(name))]).rstrip() + "\n"


def _head(title: str) -> list[str]:
    return [
        f"# {title}",
        "",
        "This page is rendered from the code by `python docs/render_api.py`. The site has the docstring of each name here.",
        "",
    ]


def names_of(module: str) -> list[str]:
    """Return the names of a module by the paths from which they are imported: ``codex_framework`` itself, if it has them."""
    if module == "codex_framework":
        return ["codex_framework.PLUGIN_API", "codex_framework.__version__"]
    here = importlib.import_module(module)
    if here is testing:
        return [f"codex_framework.testing.{name}" for name in testing.__all__]
    own = [name for name in _PUBLIC if _is_from(getattr(codex_framework, name), name, here)]
    others = getattr(here, "__all__", ()) if module.startswith(_ROLES) else ()
    top = [f"codex_framework.{name}" for name in sorted(own)]
    return [*top, *(f"{module}.{name}" for name in sorted(set(others) - _PUBLIC))]


def _is_from(value: Any, name: str, module: Any) -> bool:
    if name in {"PLUGIN_API", "__version__"}:
        return False
    source = getattr(value, "__module__", None)
    return source == module.__name__ or (source in (None, "types", "typing") and name in getattr(module, "__all__", ()))


def _entry(name: str) -> Iterator[str]:
    yield from (f"## `{_short(name)}`", "")
    yield from _directive(name, _object(name))


def _directive(name: str, value: Any) -> Iterator[str]:
    kind = (
        "class"
        if inspect.isclass(value)
        else "function"
        if callable(value) and not hasattr(value, "__args__")
        else "data"
    )
    options = ["   :undoc-members:"] if inspect.isclass(value) and issubclass(value, enum.Enum) else []
    yield from ("```{eval-rst}", f".. auto{kind}:: {name}", *options, "```", "")


def _wire_form(tag: str, cls: type[Any]) -> str:
    fields = (f'"{word}"{"?" * optional}: {kind}' for word, optional, kind in fields_on_the_wire(cls))
    return "{" + ", ".join([f'"type": "{tag}"', *fields]) + "}"


def _object(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def _short(name: str) -> str:
    return name.removeprefix("codex_framework.").removeprefix("testing.").removeprefix("contract.roles.")


def _summary(value: Any) -> str:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return ""
    text = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    return (
        re.split(r"(?<=\.)\s", text, maxsplit=1)[0]
        .replace(":func:", "")
        .replace(":class:", "")
        .replace("``", "`")
        .replace("|", "\\|")
    )


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"wrote {FOLDER / name}")


if __name__ == "__main__":
    main()
