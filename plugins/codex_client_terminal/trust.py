"""The question whether a folder is trusted."""

from __future__ import annotations

import tomllib
from typing import Any

from codex_client_terminal.decisions import Option, Question
from codex_client_terminal.text import Line, one_line
from codex_framework.config.layers import project_files
from codex_framework.toolkit.regular_files import read_regular

__all__ = ["trust_question"]

_LARGEST = 1 << 20
_RUNNING = frozenset({"mcp_servers", "hooks", "plugins", "framework", "notify"})
"""Settings that can run programs. They are named first, so that no number of other ones hides them."""


def trust_question(config: Any) -> Question:
    """Return the question for a folder about which nothing has been decided. Answers: trusted, untrusted, once or quit."""
    lines: list[Line] = [
        [("Do you trust the contents of this directory?", "bold")],
        [(str(config.cwd), "cyan")],
        [("Working with untrusted contents comes with a higher risk of prompt injection.", "")],
        [
            (
                "Trusting it lets its own .codex/config.toml count, whose MCP servers and hooks run outside of the sandbox.",
                "",
            )
        ],
        *([(line, "yellow")] for line in _own_settings(config)),
    ]
    quit_ = Option(label="No, quit", key="q", answer="quit")
    options = [
        Option(label="Yes, trust it from now on", key="y", answer="trusted"),
        Option(label="No, but continue without its settings, and do not ask again", key="n", answer="untrusted"),
        Option(label="Continue without its settings this time", key="o", answer="once"),
        quit_,
    ]
    return Question(lines=lines, options=options, on_escape=quit_)


def _own_settings(config: Any) -> list[str]:
    """Return the settings that the configuration files of a folder and its parents in the project would change, as sentences."""
    found = []
    for file in project_files(config.cwd, config.codex_home, config.tables):
        try:
            keys = sorted(
                tomllib.loads(read_regular(file, _LARGEST).decode()), key=lambda key: (key not in _RUNNING, key)
            )
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError):
            found.append(f"{file} cannot be read.")
            continue
        found.append(f"{file} sets: {one_line(', '.join(keys)) or 'nothing'}")
    return found
