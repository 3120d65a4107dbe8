"""``codex-framework debug``: what a turn would send, and who gave each part of it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import say
from codex_framework.toolkit.model_catalogue import bundled_models
from codex_plugin_models.entries import model_of

PLUGIN = """
from codex_framework import hookimpl, Interceptor, tool
from codex_framework.contract.roles.context import ContextSource, Fragment

class Weather(ContextSource):
    name = "weather"
    def fragments(self, facts):
        yield Fragment(role="developer", text="<weather>sunny</weather>", start="<weather>", order=900)

class Polite(Interceptor):
    name = "polite"
    order = 10_000
    async def request(self, request, turn):
        return request.evolve(instructions="Be brief.")
    async def input(self, input, turn):
        turn.because("good manners")
        from codex_framework.contract.protocol.items import user_message
        return input.evolve(items=[user_message("Please: " + input.items[0].content[0].text)])

@tool
async def shine() -> str:
    '''Shine.'''
    return ""

@hookimpl
def codex_context_sources():
    return [Weather()]

@hookimpl
def codex_interceptors():
    return [Polite()]

@hookimpl
def codex_tools():
    return [shine]
"""


@pytest.fixture
def plugin(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "weather_plugin.py").write_text(PLUGIN)
    path = cli.home / "config.toml"
    text = path.read_text() if path.exists() else ""
    path.write_text(f'{text}\n[framework.plugins]\npaths = ["{tmp_path}/weather_plugin.py"]\n')


def test_each_part_of_a_request_names_its_source(cli: Any, plugin: None) -> None:
    (cli.work / "AGENTS.md").write_text("Use tabs.")
    # Newer models get all tools within one.
    ran = cli.run("debug", "prompt", "--json", "-c", "model=gpt-5.5", "fix it")
    assert (ran.status, ran.err) == (0, "")
    shown = json.loads(ran.out)
    parts = {(part["kind"], part["source"]): part for part in shown["parts"]}
    assert parts["developer", "context source weather"]["plugin"] == "weather_plugin"
    assert parts["developer", "context source weather"]["text"] == "<weather>sunny</weather>"
    (rules,) = (part for part in shown["parts"] if "Use tabs." in part["text"])
    assert (rules["kind"], rules["plugin"]) == ("user", "context")
    last = shown["parts"][-1]
    assert (last["kind"], last["text"]) == ("user", "Please: fix it")
    assert last["source"] == "interceptor polite (because of good manners)"
    tools = {part["name"]: part["plugin"] for part in shown["parts"] if part["kind"] == "tool"}
    assert tools["shine"] == "weather_plugin"
    assert tools["exec_command"] == "unified_exec"
    assert (shown["parts"][0]["kind"], shown["parts"][0]["text"]) == ("instructions", "Be brief."), "as it would leave"
    assert shown["tokens"] == sum(part["tokens"] for part in shown["parts"])
    assert cli.rollouts() == [], "nothing is saved"


def test_it_is_the_request_that_exec_sends(cli: Any) -> None:
    server = cli.serve(say("one"), say("two"))
    shown = cli.run("debug", "prompt-input", "-c", 'approval_policy="never"', "fix it")
    assert server.requests == []
    thread = cli.json("fix it").events[0]["thread_id"]
    assert json.loads(shown.out) == server.inputs[0]
    table = cli.run("debug", "prompt", "--session", thread, "-c", 'approval_policy="never"', "and now?").out
    before = cli.rollouts()[0].read_bytes()
    cli.json("resume", thread, "and now?")
    assert cli.rollouts()[0].read_bytes().startswith(before)
    assert table.count("  the session  ") == len(server.inputs[1]) - 1
    assert "Nothing was sent." in table


def test_without_a_prompt_the_context_is_shown(cli: Any) -> None:
    ran = cli.run("debug", "prompt-input")
    assert ran.status == 0
    assert [item["role"] for item in json.loads(ran.out)] == ["developer", "user"]


def test_what_cannot_be_shown_is_told(cli: Any, tmp_path: Path) -> None:
    ran = cli.run("debug", "prompt", "--session", "nothing", "x")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("Error: no rollout found for thread id nothing\n")
    assert "does not exist" in cli.run("debug", "prompt", "-C", str(tmp_path / "no"), "x").err


def test_codex_shows_the_same_items(cli: Any, tmp_path: Path, codex_binary: str) -> None:
    done = subprocess.run(
        [codex_binary, "debug", "prompt-input", "hello"],
        cwd=cli.work,
        env={**cli.env, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    theirs = [item for item in json.loads(done.stdout) if item["type"] == "message"]
    ours = json.loads(cli.run("debug", "prompt-input", "hello").out)
    assert {item["role"] for item in ours} == {
        item["role"] for item in theirs
    }  # its bundled skills are further messages
    marks = ["<permissions instructions>", "<environment_context>"]
    for items in (ours, theirs):
        assert all(any(mark in json.dumps(item) for item in items) for mark in marks)
    assert [part["text"] for part in ours[-1]["content"]] == [part["text"] for part in theirs[-1]["content"]]
    assert {tuple(item) for item in ours} == {("type", "role", "content")}


CATALOGUE = """
from codex_framework import ModelCatalogue, ModelInfo, hookimpl

class Models(ModelCatalogue):
    name = "mine"
    def model(self, slug, provider):
        return None
    def models(self, provider):
        return [ModelInfo(slug="of-the-file")]

@hookimpl
def codex_model_catalogues():
    return [Models()]
"""


def catalogue(cli: Any, *argv: str) -> list[dict[str, Any]]:
    ran = cli.run("debug", "models", *argv)
    assert ran.status == 0, ran.err
    assert ran.out.count("\n") == 1
    return list(json.loads(ran.out)["models"])


def test_the_catalogue_of_models_is_read_again_as_it_was_written(cli: Any) -> None:
    entries = catalogue(cli, "--bundled")
    assert entries[0]["slug"] == "gpt-6.2-sol"
    assert [entry["priority"] for entry in entries] == list(range(1, len(entries) + 1))
    known = {model.slug: model for model in bundled_models()}
    for entry in entries:
        model = known[entry["slug"]]
        assert model_of(entry, trusted=True).evolve(namespaces=model.namespaces) == model


def test_a_catalogue_of_the_user_comes_first(cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    prices = {"input": 1.5, "output": 2.0, "currency": "EUR"}
    own = {"slug": "of-the-house", "context_window": 5000, "prices": prices, "base_instructions": "Be kind."}
    file.write_text(json.dumps({"models": [own, {"slug": "gpt-5.5", "context_window": 77_000}]}))
    cli.configure(base_url="http://127.0.0.1:1/v1", more=f"model_catalog_json = {json.dumps(str(file))}")
    first, second, *others = catalogue(cli)
    assert (first["slug"], first["context_window"], first["base_instructions"]) == ("of-the-house", 5000, "Be kind.")
    assert first["prices"] == prices
    assert (second["slug"], second["context_window"]) == ("gpt-5.5", 77_000)
    assert "gpt-5.5" not in [entry["slug"] for entry in others]
    assert "of-the-house" not in [entry["slug"] for entry in catalogue(cli, "--bundled")]


def test_a_catalogue_of_a_plugin_from_a_file_is_read(cli: Any) -> None:
    (cli.work / "mine.py").write_text(CATALOGUE)
    ran = cli.run("--plugin", "mine.py", "debug", "models")
    assert json.loads(ran.out)["models"][0]["slug"] == "of-the-file"


@pytest.mark.codex
def test_codex_reads_the_catalogue(cli: Any, tmp_path: Path, codex_binary: str) -> None:
    file = tmp_path / "models.json"
    file.write_text(cli.run("debug", "models", "--bundled").out)
    argv = [codex_binary, "-c", f"model_catalog_json={json.dumps(str(file))}", "debug", "models"]
    theirs = json.loads(
        subprocess.run(argv, env=cli.env, cwd=cli.work, capture_output=True, text=True, check=True).stdout
    )
    same = ("slug", "context_window", "max_context_window", "visibility", "shell_type", "comp_hash")
    for ours, read in zip(catalogue(cli, "--bundled"), theirs["models"], strict=True):
        assert {key: ours.get(key) for key in same} == {key: read.get(key) for key in same}


@pytest.mark.codex
def test_the_models_are_those_of_codex(cli: Any, codex_binary: str) -> None:
    argv = [codex_binary, "debug", "models", "--bundled"]
    theirs = json.loads(
        subprocess.run(argv, env=cli.env, cwd=cli.work, capture_output=True, text=True, check=True).stdout
    )
    ours = {entry["slug"]: entry for entry in catalogue(cli, "--bundled")}
    for entry in theirs["models"]:
        own = ours[entry["slug"]]
        keys = own.keys() & entry.keys() - {"priority", "base_instructions", "supported_reasoning_levels"}
        assert {key: own[key] for key in keys} == {key: entry[key] for key in keys}
