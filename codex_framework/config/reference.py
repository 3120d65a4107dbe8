"""The renderer of the configuration reference, ``docs/reference/config.md``, from the schema and plugins' settings classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework.config.key import Effect
from codex_framework.config.plugin_keys import plugin_keys
from codex_framework.config.schema import SECTIONS, USED_FEATURES, Key, features
from codex_framework.config.type_spec import describe_type

__all__ = ["render"]

_HEAD = """\
# Configuration

<!-- Rendered from codex_framework/config/schema.py and the settings classes of the bundled plugins by `python docs/render.py`. -->

The settings are those of Codex's `config.toml`, so you can use a configuration written for Codex without changes. The settings
that have an effect here are marked **used**. Those marked *refused* are an error of the turn that would need them. The others are
*accepted*: they are not errors, but nothing reads them yet.

## Where settings come from

Settings come from these layers. A later layer overrides an earlier one, and tables are merged key by key:

1. `/etc/codex/config.toml`
2. `$CODEX_HOME/config.toml`. The default of `CODEX_HOME` is `~/.codex`; if you set it, the folder is created when it is missing
3. the profile chosen by `--profile NAME` or `profile = "NAME"`: the table `[profiles.NAME]`, then the file
   `$CODEX_HOME/NAME.config.toml`
4. `.codex/config.toml` in each folder from the project root down to the working folder, if the project is trusted
5. `-c key=value`. The key is dotted (`projects."/a.b".trust_level=trusted`). The value is parsed as TOML; if that fails,
   it is used as a string (`-c model=o3`)
6. flags such as `--model`

`codex-framework config` shows and changes settings, and `codex-framework trust` decides about projects: see
[Change settings](../configure/change-settings.md).

A project is trusted if `[projects."<path>"] trust_level = "trusted"` names the working folder, its git checkout, or the main
checkout of its worktree. The file of a folder that is not named itself can
set only what loosens nothing (`model`, `model_reasoning_effort`, ...).
A project's own file cannot set `model_provider`, `model_providers`, `oss_provider`, `openai_base_url`,
`chatgpt_base_url`, `notify`, `otel`, `profile`, `profiles`, `apps_mcp_product_sku`, `experimental_realtime_ws_base_url`,
`experimental_realtime_webrtc_call_base_url`, `features.hooks` and `framework.plugins.paths`. They are ignored there with a
warning. It can only lower `agents.max_threads`, `agents.max_depth`, and their newer forms
`agents.max_concurrent_threads_per_session` and `features.multi_agent_v2.max_concurrent_threads_per_session`.

Relative paths start from the folder of the file that contains them, and for `-c` from the working folder. `~` is the home folder.

The command line sets the environment variables in `$CODEX_HOME/.env` when it starts, for example `OPENAI_API_KEY=...`. They
replace those of the shell, as in Codex. Names that start with `CODEX_` are ignored there. Programs that use the framework as a
library set their environment themselves.

A value of the wrong type is an error. A key that is not on this page is a warning, because it may be one of a newer Codex. It
is an error if it resembles a key on this page, or if it is in a table that says what may be done: `permissions`,
`sandbox_workspace_write`, `approval_policy`, `shell_environment_policy`, `projects` and `framework`. Both name the file and line.
With `[framework] unknown_keys = "error"` or `--strict-config` each unknown key is an error, with `"warn"` each is a warning.

If `approval_policy` and `sandbox_mode` are not set, they depend on trust. A trusted project gets `on-request` and
`workspace-write`, an untrusted one `untrusted` and `workspace-write`, and any other folder `on-request` and `read-only`.
"""

_FEATURES = """
## Features

`[features]` may contain these names; any other name is a warning. Used: {used}. Accepted: {accepted}.
"""


_PLUGIN = """
## Settings of the plugin {name}

The table `[framework.plugins.{name}]`. `codex-framework plugins show {name}` shows these settings too.

| key | type | default | meaning |
|---|---|---|---|
"""


def render(plugins: Mapping[str, type[Any]]) -> str:
    """Return the page as Markdown.

    Args:
        plugins: The settings class of each plugin that has one.
    """
    parts = [_HEAD]
    for title, keys in SECTIONS.items():
        parts.append(f"\n## {title}\n\n| key | type | default | meaning | here |\n|---|---|---|---|---|\n")
        parts += [_row(name, key) for name, key in keys.items()]
    for name, kind in plugins.items():
        parts.append(_PLUGIN.format(name=name))
        parts += [_plugin_row(name, *key) for key in plugin_keys(kind)]
    accepted = sorted(features() - set(USED_FEATURES))
    parts.append(_FEATURES.format(used=_join_names([*USED_FEATURES]), accepted=_join_names(accepted)))
    return "".join(parts)


def _row(name: str, key: Key) -> str:
    shown = name.replace("*", "<name>") if not name.endswith("_*") else name
    is_prose = key.default[:1].isalpha() and " " in key.default
    default = key.default if is_prose or not key.default else f"`{key.default}`"
    here = {Effect.USED: "**used**", Effect.REFUSED: "refused"}.get(key.effect, "accepted")
    return (
        f"| `{shown}` | {describe_type(key.type)} | {default} | {key.meaning.replace('|', chr(92) + '|')} | {here} |\n"
    )


def _plugin_row(plugin: str, name: str, kind: str, default: str, meaning: str) -> str:
    shown = default if default in ("", "required") else f"`{default}`"
    return f"| `framework.plugins.{plugin}.{name}` | {kind} | {shown} | {meaning.replace('|', chr(92) + '|')} |\n"


def _join_names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
