"""Settings of Codex that have no effect here: said in one sentence, unless they were meant to refuse something."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ConfigError, Kernel
from codex_framework.config import load_config
from codex_framework.config.checking import idle_settings
from codex_framework.testing.replies import say

HANDLERS = '[{ matcher = "Bash", hooks = [{ type = "command", command = "exit 2" }] }]'


@pytest.fixture
def warning_of(tmp_path: Path) -> Any:
    def warning(text: str, *overrides: str) -> str | None:
        (tmp_path / "config.toml").write_text(text)
        environ = {"CODEX_HOME": str(tmp_path), "HOME": str(tmp_path)}
        return idle_settings(load_config(cwd=tmp_path, environ=environ, overrides=overrides).tables)

    return warning


def test_settings_without_an_effect_are_named_in_one_sentence(warning_of: Any) -> None:
    text = """
        notify = ["true"]
        experimental_thread_store = "https://h"
        model = "m"
        [mcp_servers.one]
        command = "true"
        [mcp_servers.two]
        url = "http://localhost"
        [agents.helper]
        description = "helps"
        config_file = "x"
        [tools]
        view_image = true
        [hooks]
        Stop = [{ hooks = [{ type = "command", command = "true" }] }]
    """
    assert warning_of(text, "otel.exporter=otlp-http") == (
        "these settings of Codex have no effect here yet: `notify`, `experimental_thread_store`, `hooks`"
    )


def test_rules_for_requests_to_a_host_that_nothing_enforces_are_named(warning_of: Any) -> None:
    text = """
        [permissions.p.network]
        enabled = true
        proxy_url = ""
        transparent_tcp = false
        domains = { "a.b" = "allow" }
        mitm.hooks.reading = { host = "a.b", methods = ["GET"] }
    """
    assert warning_of(text) == "these settings of Codex have no effect here yet: `permissions.p.network.mitm`"


@pytest.mark.parametrize(
    "text",
    [
        "",
        'model = "m"\n[tools]\nview_image = false',
        'web_search = "disabled"\nnotify = []\n[tools]\nweb_search = false',
        '[tui]\ntheme = "x"\n[notice]\na = 1\n[history]\nmax_bytes = 5\n[features]\nsteer = true',
        '[profiles.other]\nexperimental_thread_store = "https://h"',
    ],
)
def test_nothing_is_said_of_what_changes_nothing(warning_of: Any, text: str) -> None:
    assert warning_of(text) is None


def test_the_sentence_stays_short(warning_of: Any) -> None:
    names = [f"agents.a{number}.nickname_candidates" for number in range(11)]
    warning = warning_of("\n".join(f'{name} = ["x"]' for name in names))
    assert warning.endswith("`agents.a7.nickname_candidates` and 3 more")


def test_a_chosen_profile_counts(warning_of: Any) -> None:
    warning = warning_of('profile = "p"\n[profiles.p]\nexperimental_thread_store = "https://h"')
    assert "`experimental_thread_store`" in warning


def test_a_run_is_told_once(make_kernel: Any) -> None:
    idle = ["experimental_thread_store='https://h'", "model_auto_compact_token_limit_scope='total'"]

    async def main() -> list[str]:
        async with make_kernel([say("one"), say("two")], config=idle) as kernel:
            thread = await kernel.start_thread()
            results = [await thread.run(text) for text in ("a", "b")]
            return [event.message for result in results for event in result.events if event.type == "warning"]

    told = [text for text in asyncio.run(main()) if "no effect" in text]
    assert told == [
        "these settings of Codex have no effect here yet: `experimental_thread_store`, `model_auto_compact_token_limit_scope`"
    ]


def test_a_setting_that_a_plugin_claims_is_not_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('notify = ["true"]\nexperimental_thread_store = "https://h"\n')
    tables = load_config(cwd=tmp_path, environ={"CODEX_HOME": str(tmp_path), "HOME": str(tmp_path)}).tables
    assert (
        idle_settings(tables, ["notify"])
        == "these settings of Codex have no effect here yet: `experimental_thread_store`"
    )
    assert idle_settings(tables, ["notify", "experimental_thread_store"]) is None


def started(home: Path, cwd: Path, *overrides: str) -> None:
    async def main() -> None:
        environ = {"CODEX_HOME": str(home), "HOME": str(home)}
        config = load_config(cwd=cwd, environ=environ, overrides=overrides)
        async with await Kernel.create(config, environ=environ, entry_points=()):
            pass

    asyncio.run(main())


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest", "UserPromptSubmit"])
def test_a_hook_that_could_refuse_something_is_an_error(tmp_path: Path, event: str) -> None:
    (tmp_path / "config.toml").write_text(f'model = "m"\n[hooks]\n{event} = {HANDLERS}\n')
    with pytest.raises(ConfigError) as caught:
        started(tmp_path, tmp_path)
    place = f"{tmp_path}/config.toml:3"
    assert caught.value.fact.startswith(
        f"{place}: the hooks of `{event}` could refuse something, but no plugin runs hooks"
    )
    assert "features.hooks" in caught.value.hint
    assert "plugin `hooks`" in caught.value.hint
    started(tmp_path, tmp_path, "features.hooks=false")
    started(tmp_path, tmp_path, "features.codex_hooks=false")


@pytest.mark.parametrize(
    "text", ["PreToolUse = []", 'PreToolUse = [{ matcher = "x", hooks = [] }]', f"Stop = {HANDLERS}"]
)
def test_other_hooks_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(f"[hooks]\n{text}\n")
    started(tmp_path, tmp_path)


@pytest.mark.parametrize("place", ["user", "project"])
def test_a_hook_in_a_file_of_its_own_is_an_error(tmp_path: Path, place: str) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    for folder in (home, work / ".git", work / ".codex"):
        folder.mkdir(parents=True)
    (home / "config.toml").write_text(f'[projects."{work}"]\ntrust_level = "trusted"\n')
    (work / ".codex/config.toml").write_text('model = "m"\n')
    path = (home if place == "user" else work / ".codex") / "hooks.json"
    handlers = [{"hooks": [{"type": "command", "command": "exit 2"}]}]
    path.write_text(json.dumps({"hooks": {"Stop": handlers}}))
    started(home, work)
    for content in (json.dumps({"hooks": {"PreToolUse": handlers}}), "{broken"):
        path.write_text(content)
        with pytest.raises(ConfigError, match=r"hooks\.json: .*could refuse something"):
            started(home, work)
    started(home, work, "features.hooks=false")
