"""The page on the command line equals what the commands say of themselves."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from codex_framework.cli.exec_options import EXEC_OPTIONS, RESUME_OPTIONS, SHARED_OPTIONS, exec_help

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_equals_what_the_commands_say():
    spec = importlib.util.spec_from_file_location("render_cli", DOCS / "render_cli.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    assert page == module.cli_reference(), "run `python docs/render_cli.py`"


def test_help_names_every_option_that_is_not_hidden():
    text = exec_help("resume")
    shown = {option.names[0] for option in (*SHARED_OPTIONS, *EXEC_OPTIONS, *RESUME_OPTIONS) if not option.hidden}
    assert {name for name in shown if re.search(rf"(?m){name}[\s,]", text)} == shown


def test_the_guide_names_only_options_that_exist():
    guide = (DOCS / "run" / "exec.md").read_text(encoding="utf-8")
    known = {name for option in (*SHARED_OPTIONS, *EXEC_OPTIONS, *RESUME_OPTIONS) for name in option.names}
    used = {
        word for line in guide.splitlines() if "codex-framework" in line for word in re.findall(r"\s(--[a-z-]+)", line)
    }
    assert used - known == set()
