"""The worker process, as the kernel sees it: started at the first measurement, fed with frames, ended within a time limit."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import IO

from codex_framework import __version__
from codex_framework.contract.errors import PluginError
from codex_plugin_otel.configuration import Configuration
from codex_plugin_otel.framing import frame
from codex_plugin_otel.settings import Settings

__all__ = ["Worker"]

_MAIN = """
import sys
package = sys.modules["codex_plugin_otel"] = type(sys)("codex_plugin_otel")
package.__path__, sys.path[:] = sys.argv[1:2], sys.argv[2:]
from codex_plugin_otel.worker.main import main
main()
"""
"""The worker's program. It does not run the plugin's ``__init__``, because importing the kernel takes as long as its own start."""

_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "LANG", "LC_ALL", "TZ")
"""Variables of the kernel that the worker gets, in addition to variables of OpenTelemetry and of proxies."""

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")

_LONGEST_FLUSH_S = 4.0
"""Watchers have five seconds for everything."""


_GRACE_S = 0.4
"""The time that the worker may need beyond its own time limit, in seconds."""


_HINT = "Turns are not affected. Check `[otel]` and the collector, or remove the exporter."


class Worker:
    """The process that contains the OpenTelemetry SDK.

    It has its own session, so that Ctrl-C does not end it before it has sent the remaining data, and it ends when its stdin
    ends. It always reads and drops data that it cannot send, so writing to it does not wait for a collector.
    """

    def __init__(self, configuration: Configuration, settings: Settings, environ: Mapping[str, str]) -> None:
        self._configuration = configuration
        self._settings = settings
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False
        self._reported = b""
        self._told = self._late = False

    def send(self, frames: bytes) -> None:
        """Write frames to the worker, which is started for the first one.

        Raises:
            PluginError: Telemetry could not be sent, said once.
        """
        if self._ended:
            return
        if self._process is None:
            self._process = self._started()
            frames = self._first_frame() + frames
        try:
            self._write(self._process, frames)
        except TimeoutError:
            self._kill(self._process)
        except OSError:
            self._end()
        self._tell(self._process)

    def close(self) -> None:
        """End the worker after it has sent the remaining data, or at the time limit.

        Raises:
            PluginError: See :meth:`send`.
        """
        if self._process is None or self._ended:
            return
        self._end()
        self._tell(self._process)

    def _write(self, process: subprocess.Popen[bytes], frames: bytes) -> None:
        """Write to the worker, which may have stopped reading.

        Raises:
            TimeoutError: It has not read anything for four seconds.
            OSError: It has ended.
        """
        assert process.stdin is not None
        poll = select.poll()
        poll.register(process.stdin, select.POLLOUT)
        left = memoryview(frames)
        while left:
            if not poll.poll(_LONGEST_FLUSH_S * 1000):
                raise TimeoutError
            left = left[process.stdin.write(left) or 0 :]

    def _end(self) -> None:
        process = self._process
        assert process is not None
        self._ended = True
        end = time.monotonic() + self._flush_timeout_s + _GRACE_S
        try:
            self._write(process, frame(time.time() + self._flush_timeout_s))
        except TimeoutError:
            self._kill(process)
        except OSError:
            pass
        _close(process.stdin)
        try:
            process.wait(max(end - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            self._kill(process)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        self._ended = self._late = True
        process.kill()
        process.wait()
        _close(process.stdin)

    def _tell(self, process: subprocess.Popen[bytes]) -> None:
        """Raise the first problem that the worker has reported, once.

        Raises:
            PluginError: There is one.
        """
        if self._told:
            return
        assert process.stdout is not None
        with contextlib.suppress(BlockingIOError, ValueError):
            self._reported += os.read(process.stdout.fileno(), 4096)
        if self._ended:
            process.stdout.close()
        problem, complete, _ = self._reported.partition(b"\n")
        if not complete and self._ended and process.returncode:
            late = "telemetry could not be sent in time, so its rest is lost"
            gone = "telemetry is not sent, because the process that sends it has ended"
            problem, complete = (late if self._late else gone).encode(), b"\n"
        if complete:
            self._told = True
            raise PluginError("otel", problem.decode("utf-8", "replace"), hint=_HINT)

    def _started(self) -> subprocess.Popen[bytes]:
        path = [entry for entry in sys.path if os.path.isabs(entry)]  # noqa: PTH117  # never the workspace
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _MAIN, os.path.dirname(__file__), *path],  # noqa: PTH120
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            env=self._env(),
            start_new_session=True,
        )
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        return process

    @property
    def _flush_timeout_s(self) -> float:
        return min(max(self._settings.flush_timeout_s, 0.0), _LONGEST_FLUSH_S)

    def _env(self) -> dict[str, str]:
        return {
            name: value
            for name, value in self._environ.items()
            if name in _VARIABLES or name.startswith("OTEL_") or name.lower() in _PROXIES
        }

    def _first_frame(self) -> bytes:
        wanted = self._configuration
        settings = {
            "environment": wanted.environment,
            "log_user_prompt": wanted.log_user_prompt,
            "log_tool_content": self._settings.log_tool_content,
            "tool_result_bytes": wanted.tool_result_bytes,
            "exporters": {name: None if to is None else to.plain() for name, to in wanted.exporters.items()},
            "span_attributes": dict(wanted.span_attributes),
            "tracestate": {member: dict(fields) for member, fields in wanted.tracestate.items()},
            "flush_timeout_s": self._flush_timeout_s,
            "version": __version__,
            "terminal": self._environ.get("TERM_PROGRAM") or self._environ.get("TERM") or "unknown",
            "auth": _auth(self._environ),
        }
        return frame(settings)


def _close(pipe: IO[bytes] | None) -> None:
    with contextlib.suppress(OSError):
        if pipe is not None:
            pipe.close()


def _auth(environ: Mapping[str, str]) -> dict[str, bool]:
    """Return which credentials the environment has, without the credentials."""
    return {
        "auth.env_openai_api_key_present": bool(environ.get("OPENAI_API_KEY")),
        "auth.env_codex_api_key_present": bool(environ.get("CODEX_API_KEY")),
        "auth.env_codex_api_key_enabled": True,
        "auth.env_refresh_token_url_override_present": bool(environ.get("CODEX_REFRESH_TOKEN_URL_OVERRIDE")),
    }
