"""Notices of a server about a turn: another model answers, or its checks found something.

OpenAI sends this to logins with ChatGPT: the headers ``openai-model`` and ``x-models-etag``, and ``response.metadata`` events
with the keys ``openai_verification_recommendation`` and ``openai_chatgpt_moderation_metadata`` (Codex 0.169).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from codex_framework import EventMsg
from codex_framework.contract.roles.models import ModelNotice, ModelWarning

__all__ = [
    "ModelRerouteEvent",
    "ModelVerificationEvent",
    "ModelsChangedEvent",
    "TurnModerationMetadataEvent",
    "metadata_notices",
    "models_changed",
    "rerouted",
]

_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}")
_LONGEST = 200
"""Characters of a model's name that are shown."""

_MOST = 20
"""Verifications that are told of."""


class ModelRerouteEvent(EventMsg):
    """Another model than the requested one has answered. ``reason`` is ``high_risk_cyber_activity``, Codex's only one."""

    type: ClassVar[Literal["model_reroute"]] = "model_reroute"
    from_model: str
    to_model: str
    reason: str = "high_risk_cyber_activity"


class ModelVerificationEvent(EventMsg):
    """The server recommends that the account is verified, such as ``trusted_access_for_cyber``."""

    type: ClassVar[Literal["model_verification"]] = "model_verification"
    verifications: tuple[str, ...]


class TurnModerationMetadataEvent(EventMsg):
    """The findings of the server's moderation about the turn, unchanged."""

    type: ClassVar[Literal["turn_moderation_metadata"]] = "turn_moderation_metadata"
    metadata: Any


class ModelsChangedEvent(EventMsg):
    """The server's list of models has this tag now. Told for the first response of a provider, and when the tag changes."""

    type: ClassVar[Literal["models_changed"]] = "models_changed"
    etag: str


def models_changed(etag: str) -> Iterator[ModelNotice]:
    """Yield the event for a tag of the list of models. Invalid tags are ignored."""
    if 0 < len(etag) <= _LONGEST and etag.isascii():
        yield ModelNotice(ModelsChangedEvent(etag))


def rerouted(asked: str, headers: Mapping[str, str]) -> Iterator[ModelNotice | ModelWarning]:
    """Yield a warning and an event if another model answers. A dated name of the same model is no other one."""
    answers = headers.get("openai-model", "").strip()[:_LONGEST]
    if not answers or _DATE.sub("", answers).lower() == _DATE.sub("", asked).lower():
        return
    yield ModelWarning(f"the server answers with the model `{answers}`, although `{asked}` was asked")
    yield ModelNotice(ModelRerouteEvent(asked, answers))


def metadata_notices(payload: Mapping[str, Any]) -> Iterator[ModelNotice]:
    """Yield the events of a ``response.metadata`` event."""
    metadata = payload.get("metadata")
    if not isinstance(metadata, dict):
        return
    found = metadata.get("openai_verification_recommendation")
    if isinstance(found, list) and (names := [name[:_LONGEST] for name in found[:_MOST] if isinstance(name, str)]):
        yield ModelNotice(ModelVerificationEvent(tuple(names)))
    if (moderation := metadata.get("openai_chatgpt_moderation_metadata")) is not None:
        yield ModelNotice(TurnModerationMetadataEvent(moderation))
