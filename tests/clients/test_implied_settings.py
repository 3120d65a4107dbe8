"""Options of plugins that imply further settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import say

PLUGIN = """
from codex_framework import CodexError, ExecOption, Value, hookimpl

class Settings(Value, kw_only=True):
    quick: bool = False

def implied(use):
    assert use.value is True
    assert use.config["framework"]["plugins"]["quick"]["quick"] is True
    print("given", sorted(use.given), flush=True, file=__import__("sys").stderr)
    {body}

@hookimpl
def codex_settings():
    return Settings

@hookimpl
def codex_exec_options():
    return [ExecOption(name="quick", setting="quick", text="Be quick.", implies=implied)]
"""


@pytest.mark.parametrize(
    ("options", "model"),
    [((), "small"), (("-m", "big"), "big"), (("-c", 'model="other"'), "other")],
)
def test_an_option_implies_settings_that_the_command_line_precedes(
    cli: Any, tmp_path: Path, options: tuple[str, ...], model: str
) -> None:
    file = tmp_path / "quick.py"
    file.write_text(PLUGIN.replace("{body}", 'return {"model": "small", "model_verbosity": "low"}'))
    server = cli.serve(say("ok"), more='model_verbosity = "high"')
    ran = cli.exec("--plugin", str(file), "--quick", *options, "hi")
    assert ran.status == 0, ran.err
    body = server.requests[0].json
    assert (body["model"], body["text"]) == (model, {"verbosity": "low"})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('raise CodexError("no disk", hint="Buy one.")', "no disk\nBuy one."),
        ("return 5 / 0", "the option --quick of plugin 'quick' failed: ZeroDivisionError"),
        ("return 5", "the option --quick of plugin 'quick' failed: TypeError"),
    ],
)
def test_an_option_that_fails_ends_the_program_with_its_reason(cli: Any, tmp_path: Path, body: str, words: str) -> None:
    file = tmp_path / "quick.py"
    file.write_text(PLUGIN.replace("{body}", body))
    server = cli.serve(say("ok"))
    ran = cli.exec("--plugin", str(file), "--quick", "hi")
    assert (ran.status, words in ran.err, "Traceback" in ran.err, server.requests) == (1, True, False, [])
