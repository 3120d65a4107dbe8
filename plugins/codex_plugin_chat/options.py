"""The keys of a provider's table that only this plugin has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from codex_framework import ProviderInfo, Value
from codex_framework.contract.value import field
from codex_lib_model_client.table import OptionReader

__all__ = ["ChatOptions"]

_ROLES = ("system", "developer", "user")
_REASONING = ("turn", "all", "none")
_FIXED = ("messages", "model", "stream", "tools")
"""Fields of the body that are the request itself."""


class ChatOptions(Value, kw_only=True):
    """Options for servers that need different requests.

    Attributes:
        developer_role: The role of developer messages. With ``system``, developer messages at the beginning become part of the
            first message.
        send_reasoning: The reasoning that is sent back: of the current ``turn``, ``all``, or ``none``.
        request_fields: Added to the body of every request.
        omit_fields: Left out of the body of every request.
    """

    KEYS: ClassVar[frozenset[str]] = frozenset({"developer_role", "send_reasoning", "request_fields", "omit_fields"})

    developer_role: str = "system"
    send_reasoning: str = "turn"
    request_fields: Mapping[str, Any] = field(factory=dict)
    omit_fields: tuple[str, ...] = ()

    @classmethod
    def of(cls, info: ProviderInfo) -> ChatOptions:
        """Return the options in a provider's table.

        Raises:
            ModelError: One is invalid.
        """
        read = OptionReader(info)
        added, omitted = read.fields(_FIXED)
        return cls(
            developer_role=read.choice("developer_role", _ROLES),
            send_reasoning=read.choice("send_reasoning", _REASONING),
            request_fields=added,
            omit_fields=omitted,
        )
