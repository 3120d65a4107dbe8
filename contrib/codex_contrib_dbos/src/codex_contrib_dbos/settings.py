"""The table ``[framework.plugins.dbos]``."""

from __future__ import annotations

from codex_framework.contract.value import Value

__all__ = ["DbosSettings"]


class DbosSettings(Value, kw_only=True):
    """The settings of the plugin.

    Attributes:
        url: The database: ``postgresql://user@host/name`` or ``sqlite:////path/of/a/file``. Without it, the environment variable
            ``CODEX_DATABASE_URL`` names the database. A password belongs there, into ``~/.pgpass`` or into ``PGPASSWORD``.
        queue: The queue. Workers run only the jobs of their queue, so all workers of a queue must have the same configuration.
        workers: How many workers the launcher starts on this machine. They end with it. 0 leaves the jobs to workers that were
            started with ``codex-framework dbos-worker``.
        concurrency: How many sessions each worker runs at once.
        max_queued: How many jobs may wait for a worker. A program that starts more waits until there is room.
        poll_s: Programs and workers look for changes in the database this often, in seconds.
        lease_s: The sessions of a worker that has not been heard of for this many seconds go to other workers.
        patience_s: How long a program waits for a database that does not answer, in seconds.
    """

    url: str | None = None
    queue: str = "codex"
    workers: int = 0
    concurrency: int = 16
    max_queued: int = 10_000
    poll_s: float = 0.5
    lease_s: float = 30.0
    patience_s: float = 60.0
