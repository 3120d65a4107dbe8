"""The worker's main loop: the first frame of stdin has the settings, each further one the measurements of a moment."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from codex_plugin_otel.framing import frames
from codex_plugin_otel.worker.pipelines import Pipelines
from codex_plugin_otel.worker.problems import Problems

__all__ = ["main"]


def main() -> None:
    """Send measurements until stdin ends, then the remaining data, within the time limit."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    received = frames(sys.stdin.buffer)
    settings = next(received)
    problems = Problems(sys.stdout.buffer, _secrets(settings))
    pipelines: Pipelines | None = None
    deadline = None
    for measurements in received:
        if isinstance(measurements, float):  # the kernel closes
            deadline = measurements
            break
        for measurement in measurements:
            if pipelines is None:
                try:
                    pipelines = Pipelines(settings, problems, _service(measurement))
                except Exception as error:  # of the SDK: a variable OTEL_... or a file that it cannot use
                    problems.unusable(error)
                    return
            try:
                pipelines.take(measurement)
            except Exception as error:  # one measurement that cannot be expressed; the others can
                problems.odd(measurement[1], error)
    if pipelines is not None:
        _finish(pipelines, problems, deadline or time.time() + settings["flush_timeout_s"])


def _service(measurement: Sequence[Any]) -> str:
    """Return the name of the service: the client that started the first thread."""
    return str(measurement[5].get("originator") or "codex_framework")


def _secrets(settings: Mapping[str, Any]) -> list[str]:
    """Return the values of headers."""
    exporters = filter(None, settings["exporters"].values())
    return [value for exporter in exporters for value in exporter["headers"].values()]


def _finish(pipelines: Pipelines, problems: Problems, deadline: float) -> None:
    """Send the remaining data and exit. A hanging or unreachable collector does not delay the process."""
    last = threading.Thread(target=pipelines.shutdown, daemon=True)
    last.start()
    while last.is_alive() and time.time() < deadline and not problems.hopeless:
        last.join(0.02)
    if last.is_alive():
        problems.late()
    os._exit(0)
