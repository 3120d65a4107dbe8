"""A setting of the configuration, and the settings of limits."""

from __future__ import annotations

from codex_framework.contract.value import Value

__all__ = ["Key", "limit_keys"]


class Key(Value):
    """A setting.

    Attributes:
        type: The type, in the notation above.
        meaning: A description of one line.
        default: The default in TOML notation; empty if there is none.
        used: Whether the key has an effect here.
        refused: Whether the key is an error where it would be used, because ignoring it would do something else than was asked for.
    """

    type: str
    meaning: str
    default: str = ""
    used: bool = False
    refused: bool = False


def limit_keys(table: str) -> dict[str, Key]:
    """Return the keys ``TABLE.limits.*``."""
    most = "maximum number of"
    meanings = {"requests": f"{most} requests to a model", "turns": f"{most} turns", "tokens": f"{most} tokens"}
    whole = {
        name: Key("int>=1", text, used=True)
        for name, text in {**meanings, "tool_calls": f"{most} calls of tools"}.items()
    }
    seconds = Key("float", "maximum time of running turns in seconds", used=True)
    found = {
        **whole,
        "seconds": seconds,
        "cost": Key("float", "maximum cost, in the currency of the prices", used=True),
    }
    return {f"{table}.limits.{name}": key for name, key in found.items()}
