"""What is known about Claude models, from their names.

The limits come from Anthropic's overview of its models: the most tokens of a response, and which kind of thinking a version has.
"""

from __future__ import annotations

import re

from codex_framework import ModelInfo, Value

__all__ = ["Abilities", "abilities", "described"]

_NAME = re.compile(r"claude-(?:(?P<before>opus|sonnet|haiku)-)?(?P<major>\d)(?:[.-](?P<minor>\d))?(?!\d)")

_WINDOW = 200_000
"""The context window of all Claude models, in tokens. Some have a larger one, for which others pay: set it in the configuration."""


class Abilities(Value, kw_only=True):
    """What a model can do.

    Attributes:
        max_tokens: The longest response, in tokens.
        thinking: ``adaptive`` (the model decides how long it thinks), ``budget`` (a number of tokens) or ``none``.
        shows_thinking: Whether thinking has to be requested as text (wire: ``display``).
        structured: Whether the server makes the model keep to a JSON schema.
    """

    max_tokens: int = 8_192
    thinking: str = "none"
    shows_thinking: bool = False
    structured: bool = False


_UNKNOWN = Abilities()


def abilities(slug: str) -> Abilities:
    """Return what a model can do. Of models with unknown names, nothing is expected."""
    found = _NAME.search(slug)
    if found is None:
        return _UNKNOWN
    version = int(found["major"]), int(found["minor"] or 0)
    if version < (3, 7):
        return Abilities(max_tokens=8_192 if version >= (3, 5) else 4_096)
    if version < (4, 5):
        return Abilities(max_tokens=32_000 if found["before"] == "opus" else 64_000, thinking="budget")
    if version < (4, 6):
        return Abilities(max_tokens=64_000, thinking="budget", structured=True)
    return Abilities(max_tokens=64_000, thinking="adaptive", shows_thinking=version >= (4, 7), structured=True)


def described(slug: str) -> ModelInfo | None:
    """Return the description of a Claude model, or None for other names."""
    if _NAME.search(slug) is None:
        return None
    return ModelInfo(
        slug=slug,
        context_window=_WINDOW,
        reasoning=abilities(slug).thinking != "none",
        default_effort=None,
        supports_images=True,
    )
