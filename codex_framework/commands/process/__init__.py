"""Commands as processes: their environment, start, output and end."""

from __future__ import annotations

from codex_framework.commands.process.environment import command_environment
from codex_framework.commands.process.output import CappedOutput
from codex_framework.commands.process.running import Command, start_command
from codex_framework.commands.process.spawn import SpawnedProcess, Unconfined

__all__ = [
    "CappedOutput",
    "Command",
    "SpawnedProcess",
    "Unconfined",
    "command_environment",
    "start_command",
]
