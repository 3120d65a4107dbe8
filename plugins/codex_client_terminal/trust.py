"""The question whether a folder is trusted."""

from __future__ import annotations

from typing import Any

from codex_client_terminal.decisions import Option, Question
from codex_client_terminal.text import Line

__all__ = ["trust_question"]


def trust_question(config: Any) -> Question:
    """Return the question for a folder about which nothing has been decided. Answers: trusted, untrusted, once or quit."""
    own = [layer for layer in config.layers if layer.name == "project"]
    lines: list[Line] = [
        [("Do you trust the contents of this directory?", "bold")],
        [(str(config.cwd), "cyan")],
        [("Working with untrusted contents comes with a higher risk of prompt injection.", "")],
        [
            (
                "Trusting it lets its own .codex/config.toml set things, and start its MCP servers and hooks outside of the sandbox.",
                "",
            )
        ],
        *([[("It has such a file.", "yellow")]] if own else []),
    ]
    quit_ = Option(label="No, quit", key="q", answer="quit")
    options = [
        Option(label="Yes, trust it from now on", key="y", answer="trusted"),
        Option(label="No, but continue without its settings, and do not ask again", key="n", answer="untrusted"),
        Option(label="Continue without its settings this time", key="o", answer="once"),
        quit_,
    ]
    return Question(lines=lines, options=options, on_escape=quit_)
