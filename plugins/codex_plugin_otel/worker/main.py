"""The worker's main loop: the first line of stdin has the settings, each further line one measurement."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

from codex_plugin_otel.worker.pipelines import Pipelines
from codex_plugin_otel.worker.problems import Problems

__all__ = ["main"]


def main() -> None:
    """Send measurements until stdin ends, then what is left, within the time limit."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    source = sys.stdin.buffer
    settings = json.loads(source.readline())
    problems = Problems(sys.stdout.buffer)
    pipelines: Pipelines | None = None
    deadline = None
    for line in source:
        measurement = json.loads(line)
        if isinstance(measurement, float):  # the kernel closes
            deadline = measurement
            break
        if pipelines is None:
            pipelines = Pipelines(settings, problems, _service(measurement))
        try:
            pipelines.take(measurement)
        except Exception as error:  # one measurement that cannot be expressed; the others can
            problems.odd(measurement[1], error)
    if pipelines is not None:
        _finish(pipelines, problems, deadline or time.time() + settings["flush_timeout_s"])


def _service(measurement: list[Any]) -> str:
    """Return the name of the service: that of the client that started the first thread."""
    return str(measurement[5].get("originator") or "codex_framework")


def _finish(pipelines: Pipelines, problems: Problems, deadline: float) -> None:
    """Send what is left and exit. A collector that hangs, or that nobody can reach, does not hold the process."""
    last = threading.Thread(target=pipelines.shutdown, daemon=True)
    last.start()
    while last.is_alive() and time.time() < deadline and not problems.hopeless:
        last.join(0.02)
    if last.is_alive():
        problems.late()
    os._exit(0)
