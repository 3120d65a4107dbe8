"""The table ``[framework.plugins.postgres]``."""

from __future__ import annotations

from collections.abc import Mapping

from codex_framework.contract.value import Value, field
from codex_plugin_rate_limits.settings import ProviderLimits

__all__ = ["PostgresSettings"]


class PostgresSettings(Value, kw_only=True):
    """The settings of the plugin.

    Attributes:
        url: The database: ``postgresql://user@host/name`` or ``sqlite:////path/of/a/file``. Without it, the environment variable
            ``CODEX_DATABASE_URL`` names the database. A password belongs there, into ``~/.pgpass`` or into ``PGPASSWORD``.
        scope: Programs see only the threads of their scope, so several teams can share a database.
        lease_s: A thread can be continued elsewhere this many seconds after its process died.
        must_save: Whether a turn ends if its entries cannot be saved. Otherwise it continues, as with files on a full disk, and
            they are saved later. If the process dies first, a process that continues the thread does not know the entries of
            this turn.
        patience_s: At the end of the kernel, entries that could not be saved are tried for this many seconds.
        rate_limits: The limits that all processes with this database share, by the id of the provider.
    """

    url: str | None = None
    scope: str = ""
    lease_s: float = 30.0
    must_save: bool = False
    patience_s: float = 20.0
    rate_limits: Mapping[str, ProviderLimits] = field(factory=dict)
