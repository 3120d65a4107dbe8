"""The reference page of configuration, rendered from the schema. ``docs/reference/config.md`` is its output."""

from __future__ import annotations

from codex_framework.config.notation import expected
from codex_framework.config.schema import SECTIONS, USED_FEATURES, Key, features

__all__ = ["render"]

_HEAD = """\
# Configuration

<!-- Rendered from codex_framework/config/schema.py by `python -m codex_framework.config.reference`. Do not edit. -->

The settings are those of Codex's `config.toml`, so a configuration made for Codex can be used as it is. Not all of them have
an effect here: those that do are marked **used**. The others are *accepted*: they are no mistake, and nothing reads them yet.

## Where settings come from

From low to high; a higher one wins, and tables are merged key by key:

1. `/etc/codex/config.toml`
2. `$CODEX_HOME/config.toml`; `CODEX_HOME` is `~/.codex` if it is not set, and must exist if it is
3. the profile chosen by `--profile NAME` or `profile = "NAME"`: the table `[profiles.NAME]`, then the file
   `$CODEX_HOME/NAME.config.toml`
4. `.codex/config.toml` in each folder from the project's root down to the working folder, if the project is trusted
5. `-c key=value`: the key is dotted (`projects."/a.b".trust_level=trusted`); the value is TOML where it reads as TOML,
   else a text (`-c model=o3`)
6. flags such as `--model`

A project is trusted if `[projects."<path>"] trust_level = "trusted"` names the working folder, its git checkout, or the main
checkout of its worktree. A project's own file cannot set `model_provider`, `model_providers`, `openai_base_url`,
`chatgpt_base_url`, `notify`, `otel`, `profile`, `profiles`, `apps_mcp_product_sku` and `experimental_realtime_ws_base_url`;
they are ignored there with a warning.

Relative paths are taken from the folder of the file they stand in (for `-c`: from the working folder); `~` is the home folder.
`$CODEX_HOME/.env` may hold environment variables, except those that begin with `CODEX_`.

A value of the wrong type and a key that is not on this page are errors that name file and line. With
`[framework] unknown_keys = "warn"` unknown keys are warnings.

Where nothing decides: a trusted project gets `approval_policy = "on-request"` and `sandbox_mode = "workspace-write"`, an
untrusted one `untrusted` and `workspace-write`, any other folder `on-request` and `read-only`.
"""

_FEATURES = """
## Features

Names that may stand in `[features]`; any other is a warning. Used: {used}. Accepted: {accepted}.
"""


def render() -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    for title, keys in SECTIONS.items():
        parts.append(f"\n## {title}\n\n| key | type | default | meaning | here |\n|---|---|---|---|---|\n")
        parts += [_row(name, key) for name, key in keys.items()]
    accepted = sorted(features() - set(USED_FEATURES))
    parts.append(_FEATURES.format(used=_listed(USED_FEATURES), accepted=_listed(accepted)))
    return "".join(parts)


def _row(name: str, key: Key) -> str:
    shown = name.replace("*", "<name>") if not name.endswith("_*") else name
    is_prose = key.default[:1].isalpha() and " " in key.default
    default = key.default if is_prose or not key.default else f"`{key.default}`"
    here = "**used**" if key.used else "accepted"
    return f"| `{shown}` | {expected(key.type)} | {default} | {key.meaning.replace('|', chr(92) + '|')} | {here} |\n"


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    import sys

    sys.stdout.write(render())
