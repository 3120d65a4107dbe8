"""Hook ``codex_config_keys``: the settings of Codex that take effect through a plugin."""

from __future__ import annotations

import asyncio

import pytest

from codex_framework import ConfigError, Kernel, hookimpl
from codex_framework.config import load_config
from codex_framework.loader.registry import load_registry

HOOKS = '[hooks]\nPreToolUse = [{ hooks = [{ type = "command", command = "exit 2" }] }]\n'


class Claims:
    def __init__(self, *keys):
        self.keys = keys

    @hookimpl
    def codex_config_keys(self):
        return self.keys


def warnings_of(tmp_path, *plugins) -> tuple[str, ...]:
    async def main():
        environ = {"CODEX_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        config = load_config(cwd=tmp_path, environ=environ)
        async with await Kernel.create(config, environ=environ, entry_points=(), plugins=plugins) as kernel:
            return kernel.config.warnings

    return asyncio.run(main())


def test_codex_config_keys_example_runs_the_program(example, registry_of, tmp_path):
    module = example("codex_config_keys")
    assert registry_of(module).config_keys == {"notify"}
    (tmp_path / "config.toml").write_text('notify = ["true"]\nmodel_post_turn_compact_threshold_percent = 50\n')
    assert "`notify`, `model_post_turn_compact_threshold_percent`" in warnings_of(tmp_path)[-1]
    (warning,) = warnings_of(tmp_path, module)
    assert warning.endswith("no effect here yet: `model_post_turn_compact_threshold_percent`")


def test_codex_config_keys_of_hooks_lift_the_error_about_hooks(tmp_path):
    (tmp_path / "config.toml").write_text(HOOKS)
    with pytest.raises(ConfigError, match="no plugin runs hooks"):
        warnings_of(tmp_path, Claims("notify"))
    assert warnings_of(tmp_path, Claims("hooks")) == ()


@pytest.mark.parametrize("wrong", ["notfy", "otel.nothing", 5, ""])
def test_codex_config_keys_that_do_not_exist_disable_the_plugin(wrong):
    registry = load_registry({}, entry_points=(), extra_plugins=[Claims(wrong)])
    assert registry.config_keys == frozenset()
    assert f"contains {wrong!r}, which is not a setting of Codex" in registry.warnings[0]


def test_codex_config_keys_must_be_a_list():
    class Text:
        @hookimpl
        def codex_config_keys(self):
            return "notify"

    registry = load_registry({}, entry_points=(), extra_plugins=[Text()])
    assert "returned 'notify', not a list of settings" in registry.warnings[0]
