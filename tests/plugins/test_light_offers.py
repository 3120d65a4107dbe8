"""What a bundled plugin loads when it is asked for its offers: names, specs and predicates, and nothing that only a call needs."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

import pytest

OFFERS = """
import importlib, json, sys
from pathlib import Path
from codex_framework import PluginContext

class Context:
    environ = {}
    codex_home = Path("/nowhere")
    config = {}
    layers = ()
    def __init__(self, name):
        self.name = name
    def settings(self, kind):
        return kind()

loaded = {}
for package in sys.argv[1:]:
    plugin = importlib.import_module(package)
    for name, hook in list(vars(plugin).items()):
        if name.startswith("codex_") and callable(hook) and name not in ("codex_commands", "codex_settings"):
            wants = hook.__code__.co_varnames[: hook.__code__.co_argcount]
            list(hook(Context(package.removeprefix("codex_plugin_"))) if wants else hook())
    loaded[package] = sorted(name for name in sys.modules if name.startswith(package + "."))
print(json.dumps(loaded))
"""

WORKING_PARTS = {
    "agent_roles": ("component", "context", "reading"),
    "apply_patch": ("application", "grammar", "plan", "preview", "script", "steps"),
    "chat": ("body", "client", "conversation", "messages", "reply", "text_chunks"),
    "compaction": ("writing",),
    "dynamic_tools": ("definitions", "tool"),
    "execpolicy": ("calls", "dangerous", "interpretation", "judgement", "rulefile", "verdicts"),
    "guardian": ("review", "transcript"),
    "hooks": ("definitions", "firing", "interceptors", "outputs", "reviewer", "running"),
    "goals": ("pursuit", "tools"),
    "landlock": ("instances", "jail.seccomp", "jail.syscalls", "launcher", "plan", "probe"),
    "mcp": (
        "client_lists",
        "connection",
        "connections",
        "elicitation",
        "errors",
        "events",
        "features",
        "forms",
        "peer",
        "prompts",
        "questions",
        "resources",
        "sampling",
        "servers",
        "session",
        "tools",
        "transports.stdio",
    ),
    "message_history": ("history",),
    "network_proxy": ("gate", "rules", "wire"),
    "older_ops": ("sandboxes",),
    "openai": ("body", "client", "events", "reading"),
    "otel": ("configuration", "process", "telemetry", "worker.main"),
    "prompts": ("cli", "expansion", "library"),
    "provenance": ("answers", "command", "reading", "session"),
    "read_file": ("indentation", "paths", "search"),
    "realtime": (
        "audio",
        "connecting",
        "conversation",
        "dialogue",
        "handling",
        "instructions",
        "parsing",
        "starting",
        "startup",
    ),
    "replay": ("cassette", "clients", "recording"),
    "review": ("git", "output", "prompt", "targets", "task"),
    "rollout": (
        "files",
        "forks",
        "git",
        "lineage",
        "listing",
        "organising",
        "paginated",
        "reading",
        "reconstruction",
        "repairs",
        "writer_lock",
    ),
    "seatbelt": ("confinement", "process", "profile"),
    "sessions": ("cli", "stores", "table", "transcript"),
    "shell": ("report", "running"),
    "skills": (
        "catalog",
        "frontmatter",
        "implicit",
        "listing",
        "mentions",
        "needs",
        "reading",
        "scanning",
        "yaml_tree",
    ),
    "sub_agents": ("arguments", "family", "forms", "items", "names", "tools", "tree", "waiting"),
    "tool_search": ("ranking",),
    "trace": ("cli", "page.document", "reading.trace", "writing.trace_file", "writing.watchers"),
    "unified_exec": ("report", "sessions"),
    "usage": ("cli", "ledger", "meter", "scan", "table"),
    "user_shell": ("report", "task"),
    "view_image": ("shrinking", "signature"),
}


@cache
def loaded() -> dict[str, list[str]]:
    """The modules of each plugin that are loaded by asking for its offers, in one process: no plugin imports another's."""
    packages = [f"codex_plugin_{plugin}" for plugin in WORKING_PARTS]
    command = [sys.executable, "-c", OFFERS, *packages]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.stderr == ""
    found: dict[str, list[str]] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("plugin", WORKING_PARTS)
def test_an_offer_is_light(plugin: str) -> None:
    package = f"codex_plugin_{plugin}"
    assert set(loaded()[package]) & {f"{package}.{part}" for part in WORKING_PARTS[plugin]} == set()
    for part in WORKING_PARTS[plugin]:  # none of the names is out of date
        __import__(f"{package}.{part}")


LOADING = """
import sys
from codex_framework.loader.registry import load_registry

registry = load_registry({}, environ={})
assert "hooks" in [report.name for report in registry.reports]
print(*sorted({"attr", "cattrs", "httpx", "tomlkit"} & set(sys.modules)))
"""


def test_loading_all_bundled_plugins_imports_no_heavy_library() -> None:
    result = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, timeout=60, check=False)
    assert (result.stderr, result.stdout.split()) == ("", [])
