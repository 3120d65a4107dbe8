"""The op ``list_models`` lists what can be used at the thread's provider."""

from __future__ import annotations

import asyncio
import json

from codex_framework.contract.protocol.wire import to_wire
from codex_plugin_models.ops import ListModels, ListModelsResponseEvent


def test_the_models_of_the_provider_are_listed_with_their_efforts(make_thread, tmp_path):
    entry = {
        "slug": "mine",
        "display_name": "Mine",
        "context_window": 5000,
        "input_modalities": ["text"],
        "default_reasoning_level": "low",
        "supported_reasoning_levels": [{"effort": "low"}, {"effort": "high"}],
        "visibility": "hide",
    }
    file = tmp_path / "models.json"
    file.write_text(json.dumps({"models": [entry]}))
    config = [f'model_catalog_json="{file}"', 'model="unknown-one"']

    async def main():
        async with make_thread(config=config) as thread:
            await thread.client.submit(ListModels(), id="op")
            listed = {each.id: each for each in (await thread.until(ListModelsResponseEvent)).models}
            assert to_wire(listed["mine"]) == {
                "id": "mine",
                "model": "mine",
                "display_name": "Mine",
                "default_reasoning_effort": "low",
                "supported_reasoning_efforts": [
                    {"effort": "low", "description": ""},
                    {"effort": "high", "description": ""},
                ],
                "input_modalities": ["text"],
                "is_default": False,
                "show_in_picker": False,
                "context_window": 5000,
            }
            assert [name for name, each in listed.items() if each.is_default] == ["unknown-one"]
            assert not thread.requests

    asyncio.run(main())
