"""Settings that a program gives as keyword arguments: names, types, and what is said about wrong ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_type_hints

import pytest

import codex_framework
from codex_framework import ApprovalPolicy, CodexError, ConfigError, Kernel, ProviderInfo, Settings, SettingsOverrides
from codex_framework.config import load_config
from codex_framework.config.overriding import KINDS
from codex_framework.contract.protocol.policies import ReadOnly
from codex_framework.contract.roles.setting_overrides import RunOptions, ThreadOptions
from codex_framework.contract.value import fields_of
from codex_framework.testing import Offer, ResponsesServer, ScriptedModel, say


def test_the_typed_settings_are_those_of_the_class_and_those_that_are_checked():
    fields = {field.name for field in fields_of(Settings)} | {"sandbox_policy"}
    assert set(get_type_hints(SettingsOverrides)) == set(KINDS) == fields


@pytest.mark.parametrize(("options", "left_out"), [(RunOptions, "config"), (ThreadOptions, "agent services")])
def test_the_typed_options_are_the_parameters_of_start_thread(options, left_out):
    import inspect

    parameters = set(inspect.signature(Kernel.start_thread).parameters) - {"self", "settings", "overrides"}
    assert set(get_type_hints(options)) - set(KINDS) == parameters - set(left_out.split())


@pytest.fixture
def start(tmp_path, codex_home):
    """Start a thread with these keyword arguments; return its settings."""

    def started(**overrides):
        async def main():
            environ = {"CODEX_HOME": str(codex_home)}
            config = load_config(cwd=tmp_path, environ=environ, overrides=["model_provider=scripted"])
            plugin = Offer(providers=[ScriptedModel([])])
            async with await Kernel.create(config, entry_points=(), environ=environ, plugins=[plugin]) as kernel:
                thread = await kernel.start_thread(ephemeral=True, **overrides)
                assert (
                    kernel.settings(**{k: v for k, v in overrides.items() if k != "config"}).cwd == thread.settings.cwd
                )
                return thread.settings

        return asyncio.run(main())

    return started


@pytest.mark.parametrize(
    ("overrides", "fact", "hint"),
    [
        ({"modle": "x"}, "there is no setting 'modle'", "Did you mean model?"),
        ({"confg": {}}, "there is no setting 'confg'", "Did you mean config?"),
        ({"xyz": 1}, "there is no setting 'xyz'", "The settings are model, provider, approval_policy,"),
        (
            {"sandbox_mode": "read-only"},
            "there is no setting 'sandbox_mode'",
            "It is a key of the configuration: pass config={'sandbox_mode': ...}.",
        ),
        ({"model": 5}, "the setting 'model' is 5, not a string", "Correct the value."),
        ({"context_window": "big"}, "the setting 'context_window' is 'big', not a number or None", ""),
        ({"context_window": True}, "the setting 'context_window' is True, not a number or None", ""),
        ({"cwd": 3}, "the setting 'cwd' is 3, not Path", ""),
        (
            {"provider": "ollama"},
            "the setting 'provider' is 'ollama', not ProviderInfo",
            "To choose one by its name, pass config={'model_provider': 'ollama'}.",
        ),
        (
            {"approval_policy": "sometimes"},
            "the setting 'approval_policy' is 'sometimes', not ApprovalPolicy or GranularApproval",
            "The words are untrusted, on-failure, on-request, never.",
        ),
    ],
)
def test_a_wrong_setting_is_an_error_with_what_to_do(start, overrides, fact, hint):
    with pytest.raises(ConfigError) as caught:
        start(**overrides)
    assert caught.value.fact == fact
    assert caught.value.hint.startswith(hint)
    assert caught.value.slug in ("config-unknown", "config-type")


def test_words_and_paths_become_values(start, tmp_path):
    settings = start(cwd="below/..", approval_policy="never", sandbox_policy=ReadOnly(), model="o3", verbosity=None)
    assert settings.cwd == tmp_path
    assert settings.approval_policy is ApprovalPolicy.NEVER
    assert (settings.model, settings.sandbox_policy) == ("o3", ReadOnly())
    assert start(cwd=Path("/")).cwd == Path("/")


def test_run_has_an_asynchronous_twin_and_names_it(tmp_path, codex_home, monkeypatch):
    monkeypatch.setenv("CODEX_HOME", str(codex_home))
    monkeypatch.chdir(tmp_path)
    with ResponsesServer([say("42")]) as server:
        provider = ProviderInfo(id="local", base_url=server.url)

        async def main():
            with pytest.raises(CodexError) as caught:
                codex_framework.run("6 * 7?", provider=provider)
            assert (caught.value.slug, "await codex_framework.run_async(...)" in caught.value.hint) == (
                "running-loop",
                True,
            )
            return await codex_framework.run_async("6 * 7?", provider=provider, ephemeral=True)

        assert asyncio.run(main()) == "42"
