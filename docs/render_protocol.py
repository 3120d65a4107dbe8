"""Renders ``reference/protocol.md`` from the classes of operations, events and items.

    python docs/render_protocol.py

writes the page. A test checks that the page is up to date, and that each row is shown by a test.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, get_args

from codex_framework.contract.fields import MISSING
from codex_framework.contract.protocol import items, ops
from codex_framework.contract.protocol.events import EventMsg
from codex_framework.contract.protocol.variants import variants_of, wire_fields
from codex_framework.contract.value import fields_of
from codex_framework.loader.registry import load_registry

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "protocol.md"
TESTS = ROOT / "tests" / "docs" / "protocol_tests.json"
"""Which test shows what: ``protocol`` by ``kind tag``, and ``systems`` by the name of a system."""

_MODULES = ("command", "event", "message", "requests", "thread", "tool", "turn")

_EVENT_CLASS = re.compile(r"^class \w+\((EventMsg|Request\[)", re.MULTILINE)

_WIRE_NAMES = {("exec_command_end", "duration_s"): "duration"}
"""Fields of events that have another name, and another form, on the wire."""

_INTRODUCTION = """\
# Protocol

This page is rendered from the code. To change it, change the classes and run `python docs/render_protocol.py`.

A client submits operations and receives events. The wire form of each is a JSON object with a `type`. Operations and events of
plugins are there if the plugin is enabled. An operation that nobody handles is answered with an `error` event; an event, item or input
of an unknown type is kept as it is. The last column names a test that shows it. `codex-framework proto` carries both as
[JSON lines](../extend/exchange-ops-and-events.md).

`to_wire(event)` returns an event with its envelope: `id` (the operation that caused it, or its turn), `msg` (the event itself),
`number` (the place among the events of the thread since it was started or resumed), `thread_id` for a request that a child has made,
and `request_id` for a request and for `request_resolved`, whatever the id is called in the event.
"""

_SECTIONS = {
    "op": ("Operations", "What a client submits to a thread (`Thread.submit`)."),
    "input": ("Input items", "The `items` of `user_input`."),
    "event": ("Events", "What clients receive, in the order in which it happens. Requests wait for an answer."),
    "item": (
        "Items",
        "What the conversation consists of, as it is sent to the model and stored in `response_item` lines.",
    ),
}


def every() -> dict[str, dict[str, tuple[type[Any], str]]]:
    """Return the classes by kind and tag, each with its plugin. The kernel's own have none."""
    registry = load_registry({}, entry_points=_entry_points(), environ={})
    found: dict[str, dict[str, tuple[type[Any], str]]] = {kind: {} for kind in _SECTIONS}
    for kind in get_args(ops.KernelOp):
        found["op"][kind.type] = kind, ""
    for tag, offer in registry.ops.items():
        found["op"][tag] = offer.item.op, offer.plugin
    for event in _kernel_events():
        found["event"][event.type] = event, ""
    for tag, event in registry.events.items():
        found["event"][tag] = event, registry.event_owners.get(event, "")
    for event, plugin in _events_of_plugins():
        found["event"][event.type] = event, plugin
    found["item"] = {tag: (kind, "") for tag, kind in variants_of(items.ResponseItem).items()}
    found["input"] = {tag: (kind, "") for tag, kind in variants_of(ops.UserInputItem).items()}
    return {kind: {tag: known for tag, known in sorted(table.items()) if tag} for kind, table in found.items()}


def protocol_reference() -> str:
    """Return the page."""
    tests: Mapping[str, str] = json.loads(TESTS.read_text(encoding="utf-8"))["protocol"]
    parts = [_INTRODUCTION]
    for kind, table in every().items():
        title, about = _SECTIONS[kind]
        parts += [f"## {title}\n", f"{about}\n", "| type | fields | | plugin | test |", "|---|---|---|---|---|"]
        parts += [_row(kind, tag, cls, plugin, tests) for tag, (cls, plugin) in table.items()]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _row(kind: str, tag: str, cls: type[Any], plugin: str, tests: Mapping[str, str]) -> str:
    fields = ", ".join(f"`{word}`{'?' * optional}" for word, optional, _ in fields_on_the_wire(cls)) or "-"
    about = (inspect.getdoc(cls) or "").split("\n\n", 1)[0].replace("\n", " ").replace("``", "`").replace("|", "\\|")
    link = f"[{plugin}](../plugins/{plugin}.md)" if plugin else ""
    test = tests.get(f"{kind} {tag}", "")
    path, _, name = test.partition("::")
    shown = f"[`{name}`](../../{path})" if name else ""
    return f"| `{tag}` | {fields} | {about} | {link} | {shown} |"


def fields_on_the_wire(cls: type[Any]) -> Iterator[tuple[str, bool, str]]:
    """Yield each field: its name on the wire, whether it has a default, and its type in Python."""
    words = dict(wire_fields(cls))
    types = {
        name: str(text)
        for each in reversed(cls.__mro__)
        for name, text in vars(each).get("__annotations__", {}).items()
    }
    for each in fields_of(cls):
        if each.name in words:
            optional = each.default is not MISSING or each.factory is not None
            yield _WIRE_NAMES.get((cls.type, each.name), words[each.name]), optional, types[each.name]


def _kernel_events() -> Iterator[type[EventMsg]]:
    for module in _MODULES:
        found = importlib.import_module(f"codex_framework.contract.protocol.events.{module}")
        for kind in vars(found).values():
            if inspect.isclass(kind) and issubclass(kind, EventMsg) and kind.__module__ == found.__name__ and kind.type:
                yield kind


def _events_of_plugins() -> Iterator[tuple[type[EventMsg], str]]:
    """Yield the events of the bundled plugins, also of those that do not declare theirs because no other program reads them back."""
    for path in sorted((ROOT / "plugins").glob("codex_plugin_*/**/*.py")):
        if not _EVENT_CLASS.search(path.read_text(encoding="utf-8")):
            continue
        module = importlib.import_module(".".join(path.relative_to(ROOT / "plugins").with_suffix("").parts))
        plugin = path.relative_to(ROOT / "plugins").parts[0].removeprefix("codex_plugin_")
        for kind in vars(module).values():
            if (
                inspect.isclass(kind)
                and issubclass(kind, EventMsg)
                and kind.__module__ == module.__name__
                and kind.type
            ):
                yield kind, plugin


def _entry_points() -> list[Any]:
    return [point for point in distribution("codex-framework").entry_points if point.group == "codex_framework"]


def main() -> None:
    """Write the page."""
    PAGE.write_text(protocol_reference(), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
