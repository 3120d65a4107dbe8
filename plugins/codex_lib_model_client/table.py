"""Options of a provider's table, each with an error that names the key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codex_framework.contract.errors import ModelError
from codex_framework.contract.roles.models import ProviderInfo

__all__ = ["OptionReader"]


class OptionReader:
    """Reads ``info.options``. A key that is not in the table has its default.

    Every method raises ModelError if the value is of the wrong kind. Unknown keys are the business of ``addresses.check_options``.
    """

    def __init__(self, info: ProviderInfo) -> None:
        self._info = info

    def text(self, key: str, default: str = "") -> str:
        """Return a string."""
        value = self._info.options.get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, f"is {value!r}", f'Write a string, such as {key} = "...".')
        return value

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return whether an option is on."""
        value = self._info.options.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, f"is {value!r}", "Write true or false.")
        return value

    def texts(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return a list of strings."""
        value = self._info.options.get(key, default)
        if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
            raise self.wrong(key, "is not a list of strings", f'Write {key} = ["..."].')
        return tuple(value)

    def choice(self, key: str, words: Sequence[str]) -> str:
        """Return one of some words. The first one is the default."""
        value = self._info.options.get(key, words[0])
        if value not in words:
            raise self.wrong(key, f"is {value!r}", f"Use one of: {', '.join(words)}.")
        return str(value)

    def count(self, key: str, *, least: int, noun: str) -> int | None:
        """Return a whole number, or None if the key is not in the table.

        Args:
            noun: The counted unit, such as ``tokens``.
        """
        value = self._info.options.get(key)
        if key in self._info.options and (type(value) is not int or value < least):
            raise self.wrong(key, f"is {value!r}", f"Write a number of {noun}, at least {least}.")
        return value

    def fields(self, fixed: Sequence[str]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """Return ``request_fields`` and ``omit_fields``: what to add to the body of every request, and what to leave out of it.

        Args:
            fixed: Fields that are the request itself and cannot be changed.
        """
        added, omitted = self._info.options.get("request_fields", {}), self.texts("omit_fields")
        if not isinstance(added, Mapping):
            raise self.wrong("request_fields", "is not a table", "Write request_fields = { temperature = 0.2 }.")
        for key, names in (("request_fields", added), ("omit_fields", omitted)):
            for name in names:
                if name in fixed:
                    raise self.wrong(key, f"names {name!r}, which is always sent", "Remove it.")
        return added, omitted

    def wrong(self, key: str, what: str, hint: str) -> ModelError:
        """Return the error for an option.

        Args:
            what: The rest of the sentence that begins with the key.
        """
        fact = f"model_providers.{self._info.id}.{key} {what}"
        return ModelError(fact, info="bad_request", slug="provider-option", hint=hint)
