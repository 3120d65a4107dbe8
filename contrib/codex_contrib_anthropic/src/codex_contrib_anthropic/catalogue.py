"""Properties of Claude models, derived from their names.

The limits come from Anthropic's overview of its models and its pages about thinking and effort (October 2026): the maximum
length of a response, the context window, the kind of thinking of a version and how it is turned off, and the supported efforts.
"""

from __future__ import annotations

import re
from typing import Literal

from codex_framework import ModelInfo, Value

__all__ = ["Abilities", "abilities", "described"]

_NAME = re.compile(r"claude-(?:(?P<family>[a-z]+)-)?(?P<major>\d{1,2})(?:[.-](?P<minor>\d{1,2}))?(?!\d)")
_PREVIEW = "claude-mythos-preview"
_WINDOW = 200_000
_LARGE_WINDOW = 1_000_000
"""The context window of models from version 4.6, in tokens."""

_LADDER = ("minimal", "low", "medium", "high", "xhigh", "max", "ultra")
_BASIC = ("low", "medium", "high")

Off = Literal["omit", "disabled", "between_tools", "never"]


class Abilities(Value, kw_only=True):
    """The abilities of a model.

    Attributes:
        window: The context window, in tokens.
        max_tokens: The longest response, in tokens.
        thinking: ``adaptive`` (the model decides how long it thinks), ``budget`` (a number of tokens) or ``none``.
        off: How a request asks for no thinking: it omits it, names the kind ``disabled`` or ``between_tools``, or cannot
            (``never``).
        efforts: The efforts that the server takes with adaptive thinking, weakest first.
        shows_thinking: Whether thinking must be requested as text (wire: ``display``).
        structured: Whether the server makes the model keep to a JSON schema.
        searches: Whether it can search the web.
        filters: Whether it can filter search results with its own code.
    """

    window: int = _WINDOW
    max_tokens: int = 8_192
    thinking: str = "none"
    off: Off = "omit"
    efforts: tuple[str, ...] = _BASIC
    shows_thinking: bool = False
    structured: bool = False
    searches: bool = False
    filters: bool = False

    @property
    def images(self) -> int:
        """The most images that a request may have."""
        return 100 if self.window <= _WINDOW else 600

    def effort(self, wanted: str | None) -> str | None:
        """Return the strongest effort that the server takes and that is not above the wanted one, or None for other words."""
        if wanted not in _LADDER:
            return None
        within = [effort for effort in self.efforts if _LADDER.index(effort) <= _LADDER.index(wanted)]
        return within[-1] if within else self.efforts[0]


_UNKNOWN = Abilities()


def abilities(slug: str) -> Abilities:
    """Return the abilities of a model. Models with unknown names have no special abilities."""
    if _PREVIEW in slug:
        return _large(off="never", efforts=(*_BASIC, "max"))
    found = _NAME.search(slug)
    if found is None:
        return _UNKNOWN
    family, version = found["family"], (int(found["major"]), int(found["minor"] or 0))
    if version < (3, 7):
        return Abilities(max_tokens=8_192 if version >= (3, 5) else 4_096, searches=version >= (3, 5))
    if version < (4, 5):
        return Abilities(max_tokens=32_000 if family == "opus" else 64_000, thinking="budget", searches=True)
    if version < (4, 6):
        return Abilities(max_tokens=64_000, thinking="budget", structured=True, searches=True)
    if version < (4, 7):
        return _large(efforts=(*_BASIC, "max"), shows=False)
    return _large(off=_off(family, version), efforts=(*_BASIC, "xhigh", "max"))


def _large(*, off: Off = "omit", efforts: tuple[str, ...], shows: bool = True) -> Abilities:
    return Abilities(
        window=_LARGE_WINDOW,
        max_tokens=128_000,
        thinking="adaptive",
        off=off,
        efforts=efforts,
        shows_thinking=shows,
        structured=True,
        searches=True,
        filters=True,
    )


def _off(family: str | None, version: tuple[int, int]) -> Off:
    """Return how thinking is turned off. Without thinking in the request, models from version 5 think."""
    if version < (5, 0):
        return "omit"
    if family in ("opus", "sonnet") and version < (5, 5):
        return "disabled"
    if family == "haiku":
        return "disabled"
    return "between_tools" if family == "sonnet" else "never"


def described(slug: str) -> ModelInfo | None:
    """Return the description of a Claude model, or None for other names."""
    if _NAME.search(slug) is None and _PREVIEW not in slug:
        return None
    able = abilities(slug)
    return ModelInfo(
        slug=slug,
        context_window=able.window,
        reasoning=able.thinking != "none",
        default_effort=None,
        efforts=able.efforts if able.thinking == "adaptive" else (),
        supports_images=True,
    )
