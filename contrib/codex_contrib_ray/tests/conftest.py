"""A real Ray cluster on loopback, of two nodes on this machine."""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ |= {  # before Ray is imported
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # all servers listen on loopback
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # else other work on this machine delays workers for long
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "3",
}

import pytest
from scene import Scene

from codex_contrib_ray.launcher import RayLauncher
from codex_contrib_ray.settings import RaySettings

_OBJECT_STORE = 80_000_000  # bytes, about the smallest that Ray takes


class Cluster:
    """A head node for one worker, and nodes that can be added and killed."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="ray-")  # sockets must have short paths
        os.makedirs(f"{self._folder}/ray")
        os.environ["RAY_TMPDIR"] = self._folder
        from ray.cluster_utils import Cluster as RayCluster

        node = {"num_cpus": 1, "object_store_memory": _OBJECT_STORE, "node_ip_address": "127.0.0.1"}
        self._node = {**node, "include_log_monitor": False}
        self._cluster = RayCluster(initialize_head=True, head_node_args={**self._node, "include_dashboard": False})
        self.address: str = self._cluster.address

    def add_node(self) -> Any:
        """Add a node for one worker."""
        return self._cluster.add_node(**self._node)

    def kill_node(self, node: Any) -> None:
        """Kill all processes of a node, as the end of its machine does."""
        (raylet,) = node.all_processes["raylet"]
        children = Path(f"/proc/{raylet.process.pid}/task/{raylet.process.pid}/children").read_text().split()
        for pid in (raylet.process.pid, *map(int, children)):
            os.kill(pid, signal.SIGKILL)
        self._cluster.worker_nodes.discard(node)

    def stop(self) -> None:
        """End all processes."""
        for node in [*self._cluster.list_all_nodes()]:
            node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Return a cluster that ends with the tests."""
    started = Cluster()
    yield started
    started.stop()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """Return a folder for sessions."""
    made = Scene(tmp_path)
    yield made
    made.close()


@pytest.fixture
def settings(cluster: Cluster, request: pytest.FixtureRequest) -> RaySettings:
    """Return settings of a namespace of the test's own."""
    return RaySettings(address=cluster.address, namespace=request.node.name, idle_s=20.0, start_timeout_s=100.0)


@pytest.fixture
def launcher(settings: RaySettings) -> RayLauncher:
    """Return a launcher on the cluster."""
    return RayLauncher(settings)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run tests that are coroutines in an event loop of their own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
