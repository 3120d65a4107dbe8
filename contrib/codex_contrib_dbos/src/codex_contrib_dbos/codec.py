"""What goes through the database, as JSON text. Nothing is pickled: whoever can write into the database must not run code here."""

from __future__ import annotations

from typing import Any

from codex_framework.contract.roles.launchers import LaunchError
from codex_framework.toolkit.strict_json import strict_json

__all__ = ["FORMAT", "json_of", "refuse_pickle"]

FORMAT = "portable_json"
"""The serialization in DBOS's tables that is read and written here."""


def refuse_pickle() -> None:
    """Have DBOS refuse pickled data in this process.

    DBOS unpickles whatever a row of the database says is pickled, also if another serializer is configured.
    """
    from dbos._serialization import DefaultSerializer

    def refuse(_serializer: object, _data: object) -> Any:
        raise ValueError("pickled data in the database is refused: only JSON is read")

    DefaultSerializer.deserialize = refuse  # type: ignore[method-assign,assignment]


def json_of(text: str | None, serialization: str | None) -> Any:
    """Return the data of a value in one of DBOS's tables.

    Raises:
        LaunchError: It is not JSON.
    """
    try:
        if serialization != FORMAT or text is None:
            raise ValueError(f"its format is {serialization!r}")
        return strict_json(text)
    except (ValueError, RecursionError) as error:
        hint = f"Only {FORMAT} is read. Another program has written into the database, or deletes from it."
        raise LaunchError(f"a value in the database cannot be read: {error}", hint=hint) from error
