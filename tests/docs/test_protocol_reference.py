"""The protocol reference equals what the code says, and every row of it, and every system of a session, is shown by a test."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SHOWN: dict[str, dict[str, str]] = json.loads((ROOT / "tests/docs/protocol_tests.json").read_text(encoding="utf-8"))

SYSTEMS = """
Queues; Protocol; Session configure; Session state; Turn context; Settings update; Task model; Submission loop; Turn loop;
Pending input / steering; Prompt building; Environment context; Retry / backoff; Context overflow; Dangling calls; Streaming deltas;
Item model; Token usage; Compaction; History; Rollback; Undo / ghost snapshots; Rollout; Message history; Exec approval;
Patch approval; Execpolicy amendment; Safety; Shell tool; Sandbox error flow; Exec events; Unified exec; apply_patch; Plan tool;
Tool system; MCP client; MCP elicitation; Web search; Review mode; User shell command; Custom prompts; Notify; Background events;
Interrupt / abort; Shutdown; Conversation manager; Chat wire; ZDR / response storage; Telemetry; Rate limits;
Inter-agent communication; Guardian;
request_user_input / permissions / dynamic tools; Realtime conversation; Memory mode; Config reload; Extensions;
Fork-specific; App-server side; Tests in seed
"""
"""The systems of a session that Codex had over the years, and that are here."""


@cache
def page_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render_protocol", ROOT / "docs" / "render_protocol.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def functions(path: str) -> set[str]:
    """The names of the functions of a file."""
    nodes = ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def test_the_page_equals_what_the_code_says() -> None:
    page = (ROOT / "docs" / "reference" / "protocol.md").read_text(encoding="utf-8")
    assert page == page_module().protocol_reference(), "run `python docs/render_protocol.py`"


def rows() -> list[tuple[str, type[Any]]]:
    return [
        (f"{kind} {tag}", known[0]) for kind, table in page_module().every().items() for tag, known in table.items()
    ]


def test_every_operation_event_and_item_is_shown_by_a_test_and_nothing_else_is_listed() -> None:
    named = {name for name, _ in rows()}
    assert sorted(named - SHOWN["protocol"].keys()) == [], "name a test in tests/docs/protocol_tests.json"
    assert sorted(SHOWN["protocol"].keys() - named) == [], "these are gone"


def test_every_system_is_shown_by_a_test() -> None:
    assert list(SHOWN["systems"]) == [name.strip() for name in SYSTEMS.replace("\n", " ").split(";")]


@pytest.mark.parametrize("table", ["protocol", "systems"])
def test_the_named_tests_exist(table: str) -> None:
    gone = []
    for name, test in SHOWN[table].items():
        path, _, function = test.partition("::")
        if not (ROOT / path).is_file() or function not in functions(path):
            gone.append(f"{name}: {test}")
    assert gone == []


def test_the_file_of_a_named_test_names_what_it_shows() -> None:
    silent = []
    for name, cls in rows():
        path = SHOWN["protocol"].get(name, "").partition("::")[0]
        tag = name.partition(" ")[2]
        if path and not re.search(rf"\b({cls.__name__}|{tag})\b", (ROOT / path).read_text(encoding="utf-8")):
            silent.append(name)
    assert silent == []
