"""Models."""

from __future__ import annotations

from typing import Any

from codex_framework import ModelInfo
from codex_framework.toolkit.model_catalogue import bundled_models
from codex_plugin_app_server.pages import page_of
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()


@table.method("model/list", "ModelListParams", "ModelListResponse")
async def list_models(call: Call) -> Json:
    """List the models of the configured provider, the recommended ones first."""
    kernel = call.server.kernel
    settings = kernel.settings()
    known: dict[str, ModelInfo] = {}
    for catalogue in kernel.registry.catalogues.values():
        known = {**{model.slug: model for model in catalogue.models(settings.provider)}, **known}
    known.update({model.slug: model for model in bundled_models() if model.slug not in known})
    found = [model for model in known.values() if call.params.get("includeHidden") or not model.hidden]
    page, cursor = page_of(
        [_model_json(model, is_default=place == 0) for place, model in enumerate(found)], call.params
    )
    return {"data": page, "nextCursor": cursor}


def _model_json(model: ModelInfo, *, is_default: bool) -> dict[str, Any]:
    efforts = [{"reasoningEffort": effort, "description": _EFFORTS.get(effort, "")} for effort in model.efforts]
    return {
        "id": model.slug,
        "model": model.slug,
        "upgrade": None,
        "upgradeInfo": None,
        "availabilityNux": None,
        "displayName": model.display_name or model.slug,
        "description": "",
        "modelSpecialty": None,
        "hidden": model.hidden,
        "supportedReasoningEfforts": efforts,
        "defaultReasoningEffort": model.default_effort or "medium",
        "inputModalities": ["text", "image"] if model.supports_images else ["text"],
        "supportsPersonality": False,
        "multiAgentVersion": model.multi_agent,
        "additionalSpeedTiers": [],
        "serviceTiers": [],
        "defaultServiceTier": None,
        "availableAccessPrograms": None,
        "isDefault": is_default,
    }


_EFFORTS = {
    "low": "Fast responses with lighter reasoning",
    "medium": "Balances speed and reasoning depth for everyday tasks",
    "high": "Greater reasoning depth for complex problems",
    "xhigh": "Extra high reasoning depth for complex problems",
    "max": "Maximum reasoning depth for the hardest problems",
}
