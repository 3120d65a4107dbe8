"""The table ``[framework.plugins.ray]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from codex_framework.contract.value import Value, field

__all__ = ["RaySettings"]


class RaySettings(Value, kw_only=True):
    """The settings of the plugin.

    Attributes:
        address: The cluster: ``auto`` (the environment variable ``RAY_ADDRESS``, or the cluster of this machine), ``host:port``, or
            ``local`` for a cluster that starts and ends with the program.
        namespace: Programs in the same namespace find each other's sessions. Ray's dashboard shows it, too.
        sessions_per_actor: How many sessions a worker, which is a Ray actor, runs at once. With 1, each session has a process.
        max_sessions: How many sessions run at once, unless the program says it.
        num_cpus: The CPUs that Ray reserves for a worker.
        memory_mb: The memory that Ray reserves for a worker. By default, none.
        resources: Custom resources that a worker needs, with their amounts.
        placement: Whether workers fill one node after the other or spread over all nodes.
        runtime_env: Ray's description of the workers' environment. It must contain the same version of codex-framework.
        max_restarts: How many workers a session may lose before it fails.
        idle_s: A worker without sessions ends after this many seconds, and frees its resources.
        start_timeout_s: How long the first worker may take to start.
    """

    address: str = "auto"
    namespace: str = "codex"
    sessions_per_actor: int = 32
    max_sessions: int = 256
    num_cpus: float = 1.0
    memory_mb: int | None = None
    resources: Mapping[str, float] = field(factory=dict)
    placement: Literal["pack", "spread"] = "pack"
    runtime_env: Mapping[str, Any] = field(factory=dict)
    max_restarts: int = 10
    idle_s: float = 60.0
    start_timeout_s: float = 120.0
