"""What users learn where the JavaScript engine is not installed."""

from __future__ import annotations

import asyncio
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest

from codex_framework import ModelCatalogue, ModelInfo, ProviderInfo
from codex_framework.testing import Offer, say
from codex_framework.testing.threads import ThreadFactory
from codex_framework.toolkit.installing import install_command
from codex_plugin_code_mode.missing import Missing

INSTALLED = [EntryPoint("code_mode", "codex_plugin_code_mode", "codex_framework")]
NOTICE = f"Install it with: {install_command('codex-framework[code]')}"


class Catalogue(ModelCatalogue):
    name = "bench"

    def model(self, slug: str, provider: ProviderInfo) -> ModelInfo:
        return ModelInfo(slug=slug, tool_mode=slug)


@pytest.mark.parametrize(("mode", "times"), [("code_mode_only", 1), ("code_mode", 1), ("direct", 0)])
def test_a_model_made_for_code_mode_gets_the_usual_tools_and_its_user_one_notice(
    make_kernel: Any, monkeypatch: pytest.MonkeyPatch, mode: str, times: int
) -> None:
    monkeypatch.setattr("codex_plugin_code_mode.engine_folder._MODULE", "no_such_engine")

    async def story() -> None:
        plugin = Offer(name="bench", catalogues=[Catalogue()])
        async with ThreadFactory(make_kernel)(plugin, config=f'model = "{mode}"', entry_points=INSTALLED) as thread:
            for _ in range(2):
                assert (await thread.turn("go", say("done"))).final_message == "done"
            notices = [text for text in thread.warnings if NOTICE in text]
            assert [f"The model {mode} is made for code mode" in text for text in notices] == [True] * times
            assert [spec.name for spec in thread.requests[-1].tools] == []

    asyncio.run(story())


def test_the_default_model_has_no_notice(make_kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_plugin_code_mode.engine_folder._MODULE", "no_such_engine")

    class Always(Catalogue):
        def model(self, slug: str, provider: ProviderInfo) -> ModelInfo:  # the role's
            return ModelInfo(slug=slug, tool_mode="code_mode_only")

    async def story() -> None:
        plugin = Offer(name="bench", catalogues=[Always()])
        async with ThreadFactory(make_kernel)(plugin, entry_points=INSTALLED) as thread:
            assert (await thread.turn("go", say("done"))).final_message == "done"
            assert [text for text in thread.warnings if NOTICE in text] == []

    asyncio.run(story())


def test_the_notice_is_not_repeated_in_children() -> None:
    child: Any = SimpleNamespace(parent=object())
    assert Missing().for_thread(child) is None
