"""Commands as processes: the environment they get, how they are started, read, capped and ended."""

from __future__ import annotations

from codex_framework.process.environment import command_environment
from codex_framework.process.output import CappedOutput
from codex_framework.process.running import Command, start_command
from codex_framework.process.spawn import SpawnedProcess, Unconfined, os_error_text

__all__ = [
    "CappedOutput",
    "Command",
    "SpawnedProcess",
    "Unconfined",
    "command_environment",
    "os_error_text",
    "start_command",
]
