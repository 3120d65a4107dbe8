"""The worker process: the OpenTelemetry SDK, fed with lines of JSON."""

from __future__ import annotations
