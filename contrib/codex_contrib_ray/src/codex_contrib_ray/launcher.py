"""The launcher ``ray``: finds or starts workers on a Ray cluster."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any

from codex_contrib_ray.settings import RaySettings
from codex_framework.contract.roles.launchers import Launcher, LaunchError, Workplace

if TYPE_CHECKING:
    from codex_contrib_ray.cluster import Cluster

__all__ = ["RayLauncher"]

_CONNECT_S = 10.0


class RayLauncher(Launcher):
    """Runs sessions in Ray actors."""

    name = "ray"

    def __init__(self, settings: RaySettings) -> None:
        self._settings = settings

    async def open(self, workplace: Workplace, *, max_sessions: int | None = None) -> Cluster:
        """Connect to the cluster, and find or start the first worker.

        Raises:
            LaunchError: Ray is not installed or cannot be reached, no node can run a worker, or a worker has other versions.
            CodexError: A worker cannot create its kernel.
        """
        if max_sessions is not None and max_sessions < 1:
            raise LaunchError(f"max_sessions is {max_sessions}; it must be at least 1", hint="Allow a session.")
        try:
            import ray
        except ImportError as error:
            fact = f"Ray cannot be imported: {error}"
            raise LaunchError(fact, hint="Install it on this machine: pip install ray") from error
        from codex_contrib_ray.cluster import Cluster

        connects = not ray.is_initialized()
        if connects:
            await asyncio.to_thread(self._connect, ray)
        cluster = Cluster(workplace, self._settings, max_sessions or self._settings.max_sessions, disconnects=connects)
        try:
            await cluster.open()
        except BaseException:
            await cluster.aclose()
            raise
        return cluster

    def _connect(self, ray: Any) -> None:
        """Connect this process with the cluster. Ray's reports about workers stay in its log files."""
        from ray._private import worker

        from codex_contrib_ray.workers import first_line

        address = self._settings.address
        host, _, port = address.rpartition(":")
        try:
            if port.isdecimal() and "/" not in host:  # Ray tries for minutes
                socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
            ray.init(
                address=address,
                namespace=self._settings.namespace,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (OSError, RuntimeError, ValueError) as error:
            fact = f"the Ray cluster {address!r} cannot be used: {first_line(error)}"
            hint = (
                "Start one with `ray start --head`, or set `address` in [framework.plugins.ray]: `host:port`,"
                " or `local` for a cluster that ends with this program."
            )
            raise LaunchError(fact, hint=hint) from error
        worker._worker_logs_enabled = False  # noqa: SLF001  # Ray prints the loss of a worker in spite of log_to_driver
