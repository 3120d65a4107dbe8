"""The workers of a program: started as they are needed, found if an earlier program has left them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
import uuid
from collections import deque
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError

from codex_contrib_ray.sessions import Sessions
from codex_contrib_ray.settings import RaySettings
from codex_framework.contract.roles.launchers import JobFailure, LaunchError
from codex_lib_launch.encoding import check_versions

__all__ = ["RayWorker", "Workers", "check", "first_line"]

_ANSWER_S = 5.0
_START_S = 10.0
"""A worker that nobody needs any more is withdrawn only if it has not started for so long: no node has room for it."""

_MOST_FAILED_STARTS = 3
_MOST_CALLS = 100_000


class RayWorker:
    """A Ray actor of the class :class:`Sessions`, as this program sees it.

    Attributes:
        keys: The keys of the sessions that it runs.
        is_ready: Whether it takes sessions.
        asked_at: When it was asked for or found.
    """

    def __init__(self, name: str, actor: Any) -> None:
        self.name = name
        self.actor = actor
        self.keys: set[str] = set()
        self.is_ready = False
        self.asked_at = time.monotonic()


class Workers:
    """Gives each session a worker with room for it.

    There are as many workers as the sessions need. A worker that no node has room for stays pending in Ray, where the autoscaler
    sees it. Workers outlive the program, so that another program finds their sessions.
    """

    def __init__(self, workplace: str, settings: RaySettings) -> None:
        self._workplace = workplace
        self._prefix = f"codex-sessions-{hashlib.sha256(workplace.encode()).hexdigest()[:8]}-"
        self._settings = settings
        self._all: set[RayWorker] = set()
        self._found: dict[str, RayWorker] = {}
        self._waiting: deque[asyncio.Future[RayWorker]] = deque()
        self._keys_of: dict[asyncio.Future[RayWorker], str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._failed_starts = 0
        self._fault: LaunchError | None = None

    async def open(self) -> None:
        """Find workers, or start one and wait until it runs.

        Raises:
            LaunchError: The worker cannot start, or cannot be used.
        """
        names = await asyncio.to_thread(ray.util.list_named_actors)
        await asyncio.gather(*(self._find(name) for name in names if name.startswith(self._prefix)))
        try:
            await asyncio.wait_for(self.any(), self._settings.start_timeout_s)
        except TimeoutError:
            raise self._no_room() from None

    async def any(self) -> RayWorker:
        """Return a worker, as soon as there is one. Raises LaunchError if none can be started."""
        while True:
            if ready := [worker for worker in self._all if worker.is_ready]:
                return ready[0]
            if self._fault is not None:
                raise self._fault
            if not self._all:
                self._add()
            self._changed.clear()
            await self._changed.wait()

    def found(self, key: str) -> RayWorker | None:
        """Return the worker of an earlier program that runs a session."""
        worker = self._found.get(key)
        return worker if worker is not None and key in worker.keys else None

    async def take(self, key: str, *, first: bool) -> RayWorker:
        """Wait for a worker with room for a session.

        Args:
            first: Whether the session is served before those that wait already.

        Raises:
            LaunchError: No worker is left, and none can be started.
        """
        if (worker := self.found(key)) is not None:
            del self._found[key]
            return worker
        place: asyncio.Future[RayWorker] = asyncio.get_running_loop().create_future()
        self._keys_of[place] = key
        (self._waiting.appendleft if first else self._waiting.append)(place)
        self._assign()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.give_back(place.result(), key)
            raise
        finally:
            self._keys_of.pop(place, None)
            if place in self._waiting:
                self._waiting.remove(place)

    def give_back(self, worker: RayWorker, key: str) -> None:
        """Say that a session has ended, or was stopped."""
        worker.keys.discard(key)
        self._assign()

    def keep(self, worker: RayWorker, key: str) -> None:
        """Say that a worker runs a session of another program."""
        worker.keys.add(key)
        self._found[key] = worker
        self._spawn(self._join(worker, key))

    def lose(self, worker: RayWorker) -> None:
        """Say that a worker has ended."""
        worker.is_ready = False
        self._all.discard(worker)
        self._assign()

    async def aclose(self) -> None:
        """Leave the workers. Those that run sessions of other programs go on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(self._leave(worker) for worker in self._all))
        self._all.clear()
        await asyncio.gather(*self._ending)

    def _assign(self) -> None:
        """Give workers with room to the sessions that wait, and let the number of workers follow the demand."""
        size = self._settings.sessions_per_actor
        while self._waiting and self._waiting[0].done():  # its session was interrupted
            self._waiting.popleft()
        while self._waiting:
            free = [worker for worker in self._all if worker.is_ready and len(worker.keys) < size]
            if not free:
                break
            worker = min(free, key=lambda each: len(each.keys))
            place = self._waiting.popleft()
            if not place.done():
                worker.keys.add(self._keys_of[place])
                place.set_result(worker)
        self._fit()

    def _fit(self) -> None:
        """Start workers for the sessions that wait, and withdraw those that no node has room for and that are not needed any more."""
        pending = [worker for worker in self._all if not worker.is_ready]
        wanted = math.ceil(len(self._waiting) / self._settings.sessions_per_actor)
        if self._fault is None:
            for _ in range(wanted - len(pending)):
                self._add()
        elif not self._all:
            for place in self._waiting:
                if not place.done():
                    place.set_exception(self._fault)
            self._waiting.clear()
        if any(worker.is_ready for worker in self._all):
            late = [worker for worker in pending if time.monotonic() - worker.asked_at >= _START_S]
            for worker in late[: max(0, len(pending) - wanted)]:
                self._all.discard(worker)
                self._end(worker)

    def _add(self) -> None:
        settings = self._settings
        options: dict[str, Any] = {"num_cpus": settings.num_cpus, "resources": dict(settings.resources)}
        if settings.memory_mb is not None:
            options["memory"] = settings.memory_mb * 1024 * 1024
        if settings.placement == "spread":
            options["scheduling_strategy"] = "SPREAD"
        if settings.runtime_env:
            options["runtime_env"] = dict(settings.runtime_env)
        name = self._prefix + uuid.uuid4().hex[:8]
        try:
            actor = (
                ray.remote(Sessions)
                .options(
                    name=name,
                    lifetime="detached",
                    max_concurrency=_MOST_CALLS,
                    max_task_retries=-1,
                    **options,
                )
                .remote(self._workplace, settings.idle_s)
            )
        except (TypeError, ValueError) as error:
            raise LaunchError(
                f"Ray refuses the settings of workers: {error}", hint="Change [framework.plugins.ray]."
            ) from error
        worker = RayWorker(name, actor)
        self._all.add(worker)
        self._spawn(self._open(worker))

    async def _open(self, worker: RayWorker) -> None:
        """Wait until a worker runs, check it, and use it."""
        asyncio.get_running_loop().call_later(_START_S, self._fit)
        try:
            told = json.loads(await worker.actor.describe.remote())
            check_versions(told["versions"], told["name"])
            check(json.loads(await worker.actor.open.remote()), told["name"])
        except LaunchError as error:
            self._refuse(worker, error)
        except RayError as error:
            if worker not in self._all:
                return  # it was withdrawn
            self._failed_starts += 1
            fact = f"a worker did not start: {first_line(error)}"
            hint = "Ray's workers need codex-framework and codex-contrib-ray, installed or in `runtime_env`."
            self._refuse(worker, LaunchError(fact, hint=hint))
        else:
            self._failed_starts = 0
            self._use(worker)

    async def _find(self, name: str) -> None:
        """Take over a worker of an earlier program, with its sessions."""
        try:
            worker = RayWorker(name, await asyncio.to_thread(ray.get_actor, name))
            told = json.loads(await asyncio.wait_for(worker.actor.describe.remote(), _ANSWER_S))
            check_versions(told["versions"], told["name"])
        except TimeoutError:  # no node has had room for it yet
            self._all.add(worker)
            self._spawn(self._open(worker))
            return
        except (ValueError, RayError, LaunchError):
            return  # it has ended, or is left over from before an upgrade and ends after its sessions
        for key in told["keys"]:
            self.keep(worker, key)
        self._all.add(worker)
        self._use(worker)

    async def _join(self, worker: RayWorker, key: str) -> None:
        """Wait for the end of a session of an earlier program."""
        with suppress(RayError):
            await worker.actor.join.remote(key)
        if self._found.pop(key, None) is not None:  # nobody of this program has asked for it
            self.give_back(worker, key)

    def _use(self, worker: RayWorker) -> None:
        worker.is_ready = True
        self._changed.set()
        self._spawn(self._watch(worker))
        self._assign()

    def _refuse(self, worker: RayWorker, fault: LaunchError) -> None:
        """Do not use a worker. Then no others are started, unless it was perhaps lost by accident. Those that run go on."""
        self._all.discard(worker)
        self._end(worker)
        if not 0 < self._failed_starts < _MOST_FAILED_STARTS:
            self._fault = fault
        self._changed.set()
        self._assign()

    async def _watch(self, worker: RayWorker) -> None:
        """Notice the end of a worker, also if it has no sessions."""
        try:
            await worker.actor.lives.remote()
        except RayError:
            self.lose(worker)

    async def _leave(self, worker: RayWorker) -> None:
        own = worker.keys - self._found.keys()
        try:
            if worker.is_ready:
                left = worker.actor.leave.remote(json.dumps(sorted(own)))
                if not await asyncio.wait_for(left, _ANSWER_S):
                    return  # it runs sessions of another program
        except TimeoutError:
            if worker.keys - own:
                return
        except RayError:
            pass
        self._end(worker)

    def _end(self, worker: RayWorker) -> None:
        """End a worker. The launcher is closed only when that has happened: Ray forgets what a program asked for that disconnects."""
        task = asyncio.create_task(_kill(worker))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _no_room(self) -> LaunchError:
        settings = self._settings
        needs = {"CPU": settings.num_cpus, **settings.resources}
        if settings.memory_mb is not None:
            needs["memory"] = settings.memory_mb * 1024 * 1024
        nodes = [_amounts(node["Resources"]) for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        fact = (
            f"no worker has started within {settings.start_timeout_s:g} s: it needs {_amounts(needs)},"
            f" and the nodes of the cluster have {'; '.join(nodes) or 'nothing'}"
        )
        return LaunchError(fact, hint="Add a node, wait for other work to end, or change [framework.plugins.ray].")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _kill(worker: RayWorker) -> None:
    ray.kill(worker.actor)
    with suppress(RayError, TimeoutError):
        await asyncio.wait_for(worker.actor.lives.remote(), _ANSWER_S)


def check(told: Mapping[str, Any], worker: str = "") -> None:
    """Raise the failure that a worker has reported, if there is one, as a LaunchError."""
    if "failure" in told:
        failure = JobFailure(**told["failure"])
        fact = f"the worker {worker}: {failure.fact}" if worker else failure.fact
        raise LaunchError(fact, slug=failure.slug, hint=failure.hint)


def first_line(error: BaseException) -> str:
    """Return the first line of Ray's description of an error."""
    return str(error).strip().partition("\n")[0]


def _amounts(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={amount:g}" for name, amount in resources.items() if ":" not in name)
