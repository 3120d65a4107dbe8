"""An event loop for a thread that does not delay the end of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

__all__ = ["run"]


class _DaemonThreads(ThreadPoolExecutor):
    """An executor whose threads do not delay the end of the process, for example while one waits for a name server."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=work, name="notify-resolver", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """Wait for nothing."""


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a new event loop. The end of the program cancels it."""
    from codex_lib_model_client.small_replies import run_until_exit

    run_until_exit(work, executor=_DaemonThreads())
