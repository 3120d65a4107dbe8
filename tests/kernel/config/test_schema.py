from __future__ import annotations

import ast
import asyncio
import tomllib
from pathlib import Path

import pytest

import codex_framework
from codex_framework import ModelError
from codex_framework.config import load_config, settings_from
from codex_framework.config.key import Effect
from codex_framework.config.schema import KEYS, SECTIONS, USED_FEATURES, features
from codex_framework.config.type_spec import describe_type, find_mismatch
from codex_plugin_openai.provider import ResponsesProvider

CHECKOUT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", [name for name, key in KEYS.items() if key.default.strip() not in ("", "by trust")])
def test_every_default_is_of_its_type(name):
    key = KEYS[name]
    if key.default in ("the id", "the first available"):
        return
    assert find_mismatch(key.type, tomllib.loads(f"value = {key.default}")["value"]) is None


@pytest.mark.parametrize("kind", sorted({key.type for key in KEYS.values()}))
def test_every_type_can_be_said_in_words(kind):
    words = describe_type(kind)
    assert words
    assert "[" not in words
    assert " entries" not in words


def test_no_key_stands_twice():
    assert sum(len(section) for section in SECTIONS.values()) == len(KEYS)


HANDLE_EVERY_KEY = ("schema", "reference", "checking", "paths", "layers", "secrecy", "plugin_tables")
"""Modules of ``config`` that name keys without giving them an effect: they check them, or make their paths absolute."""

ELSEWHERE = {
    "personality": "a placeholder in instructions",
    "instructions": "a field of agents and of the wire",
    "nickname_candidates": "known to the plugin agent_roles, which accepts it",
    "skills": "a folder that commands may not write",
    "hooks": "a folder that commands may not write",
    "plugins": "a command, and [framework.plugins]",
    "notify": "claimed by a plugin of this name",
    "memories": "a table of the configuration",
    "remote_compaction": "a key of a provider's table",
    "desktop": "a kind of notifications",
    "image_detail_original": "a property of models",
    "view_image": "a tool",
    "tool_search": "a tool and a plugin",
    "undo": "an op and a plugin",
    "disable_response_storage": "a field of an older op",
    "token_budget": "a field of goals",
    "web_search_request": "the oldest form of a setting, which is read with it",
    "persistence": "claimed by the plugin message_history",
    "max_bytes": "claimed by the plugin message_history",
    "web_search": "a kind of item, which traces show",
    "collab": "a word of an error message",
    "step_model_switching": "a word of an error message",
    "content_item_kinds": "a field of the metadata of items",
    "network_proxy": "a plugin",
    "steer": "a word for when input arrives",
    "enabled": "a field of hooks, which is about a single one",
    "worktrees": "a folder of git",
    "parallel": "a property of tools",
    "audio": "a kind of content of MCP",
    "debug": "a level of the logs of MCP servers",
    "notice": "a level of the logs of MCP servers",
    "apps": "a key of requirements.toml",
    "browser_use": "a key of requirements.toml",
    "computer_use": "a key of requirements.toml",
    "in_app_browser": "a key of requirements.toml",
    "marketplaces": "a key of requirements.toml",
    "sqlite": "how the name of Codex's database of turns ends",
    "sqlite_home": "a key of requirements.toml",
    "windows": "a key of requirements.toml",
    "mcp": "a word of many messages",
    "transport": "how a client of realtime conversations or MCP connects",
}
"""Last words of keys and names of features that stand in the code, where they mean something else."""


def _words() -> set[str]:
    """The words of all strings in the code of the kernel and the bundled plugins, without docstrings, and the names of fields."""
    kernel = Path(codex_framework.__file__).parent
    skipped = {kernel / "config" / f"{name}.py" for name in HANDLE_EVERY_KEY}
    skipped.add(CHECKOUT / "plugins/codex_client_features/stages.py")  # it lists all features
    skipped.add(CHECKOUT / "plugins/codex_plugin_app_server/methods/features.py")  # it says which a client can switch
    found: set[str] = set()
    for file in (*kernel.rglob("*.py"), *(CHECKOUT / "plugins").rglob("*.py")):
        if file in skipped:
            continue
        tree = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        docstrings = {id(node.value) for node in tree if isinstance(node, ast.Expr)}
        for node in tree:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                found.update(node.value.replace(".", " ").split())
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return found


def test_what_is_said_to_be_used_is_read_and_nothing_else_is():
    words = _words()
    segments = {name: [part for part in name.split(".") if part != "*"] for name in KEYS}
    read = {name for name in KEYS if words.issuperset(segments[name])}
    assert sorted(name for name, key in KEYS.items() if key.has_effect and name not in read) == []
    unread = {name for name, key in KEYS.items() if key.effect in (Effect.ACCEPTED, Effect.INTERFACE)}
    assert sorted(name for name in unread & read if segments[name][-1] not in ELSEWHERE) == []
    assert sorted(set(USED_FEATURES) - words) == []
    assert set(USED_FEATURES) <= features()
    assert sorted((features() - set(USED_FEATURES)) & words - ELSEWHERE.keys()) == []
    last = {segments[name][-1] for name in unread & read} | (features() & words)
    assert sorted(ELSEWHERE.keys() - last) == []


PROVIDER = "model_providers.*."
SAMPLES = {
    "str": '"PATH"',
    "bool": "false",
    "int>=0": "50",
    "int>=1": "50",
    "list[str]": '["a"]',
    "map[str]": '{a = "PATH"}',
    "secret": '"PATH"',
    "map[secret]": '{a = "PATH"}',
    "folder": '"PATH"',
    '"zstd" | "none"': '"zstd"',
}
URL = 'base_url = "http://127.0.0.1:1"'


def provider_table(key: str) -> str:
    """A table of a provider with this key, and what the key needs beside it."""
    line = f"{key} = {SAMPLES[KEYS[PROVIDER + key].type]}"
    if key in ("base_url", "wire_api"):
        return f'{URL}\nwire_api = "responses"'
    beside = 'auth.command = "true"\n' if key.startswith("auth.") and key != "auth.command" else ""
    return f"{URL}\n{beside}{line}"


@pytest.mark.parametrize(
    "key", [name.removeprefix(PROVIDER) for name in KEYS if name.startswith(PROVIDER) and name[-1] != "*"]
)
def test_a_key_of_a_provider_does_what_the_page_says_of_it(tmp_path, key):
    """Used and accepted ones let the provider open; a refused one does not."""
    text = f'model_provider = "p"\n[model_providers.p]\n{provider_table(key)}\n'
    (tmp_path / "config.toml").write_text(text)
    config = load_config(cwd=tmp_path, environ={"CODEX_HOME": str(tmp_path)})
    info = settings_from(config, {}).provider
    provider = ResponsesProvider()
    if KEYS[PROVIDER + key].effect is Effect.REFUSED:
        with pytest.raises(
            ModelError, match=rf"\[model_providers.p\] .*`{key.partition('.')[0]}`, which is unsupported"
        ):
            provider.open(info, {"PATH": "/bin"})
    else:
        client = provider.open(info, {"PATH": "/bin"})
        asyncio.run(client.aclose())
