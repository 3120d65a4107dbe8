"""``codex-framework features``, and the same commands of Codex."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codex_client_features.stages import stages
from codex_framework.config.schema import USED_FEATURES, features

FILE = """# top
model = "o3"  # mine

[features] # the features
goals = true # keep
multi_agent_v2 = { enabled = false, max_concurrent_threads_per_session = 3 }
"""


def states(cli: Any, *argv: str) -> dict[str, str]:
    ran = cli.run(*argv)
    assert ran.status == 0, ran.err
    return {line.split()[0]: line.split()[-1] for line in ran.out.splitlines()}


def test_the_list_has_the_form_of_codex(cli: Any) -> None:
    lines = cli.run("features", "list").out.splitlines()
    assert "goals                                    stable             true" in lines
    assert "code_mode                                under development  false" in lines
    assert len(lines) == len(stages())


@pytest.mark.codex
def test_the_list_is_that_of_codex(cli: Any, codex_binary: Path) -> None:
    for argv in (
        ("features", "list"),
        ("features", "list", "--disable", "goals"),
        ("--enable", "code_mode", "features", "list"),
    ):
        theirs = subprocess.run(
            [codex_binary, *argv], env=cli.env, cwd=cli.work, capture_output=True, text=True, check=True
        )
        assert cli.run(*argv).out == theirs.stdout


def test_every_feature_of_the_list_can_be_configured() -> None:
    assert {name for name in stages() if "." not in name} <= features()


def test_settings_of_files_and_of_the_command_line_are_shown(cli: Any) -> None:
    (cli.home / "config.toml").write_text(FILE)
    (cli.home / "p.config.toml").write_text("[features]\nshell_tool = false\n")
    assert states(cli, "features", "list")["multi_agent_v2"] == "false"
    assert states(cli, "features", "list", "--disable", "goals")["goals"] == "false"
    assert states(cli, "features", "--disable", "goals", "list")["goals"] == "false"
    assert states(cli, "--disable", "goals", "features", "list")["goals"] == "false"
    assert states(cli, "-c", "features.goals=false", "features", "list")["goals"] == "false"
    assert states(cli, "features", "list", "-p", "p")["shell_tool"] == "false"
    assert states(cli, "-p", "p", "features", "list")["shell_tool"] == "false"


def test_what_has_an_effect_is_told(cli: Any) -> None:
    ran = cli.run("features", "list")
    used = states(cli, "features", "list", "--used")
    assert ran.err == f"{len(used)} of these {len(stages())} features have an effect here; see --used.\n"
    assert set(used) == USED_FEATURES.keys() & stages().keys()
    rows = json.loads(cli.run("features", "list", "--json").out)
    assert {"name": "goals", "stage": "stable", "enabled": True, "effect": True} in rows
    assert {"name": "apps", "stage": "stable", "enabled": True, "effect": False} in rows


def test_switches_are_written_and_comments_stay(cli: Any) -> None:
    file = cli.home / "config.toml"
    file.write_text(FILE)
    ran = cli.run("features", "disable", "goals")
    assert (ran.status, ran.out, ran.err) == (0, "Disabled feature `goals` in config.toml.\n", "")
    assert file.read_text() == FILE.replace("goals = true", "goals = false")
    cli.run("features", "enable", "goals")
    assert file.read_text() == FILE


def test_a_feature_with_a_table_keeps_its_other_settings(cli: Any) -> None:
    file = cli.home / "config.toml"
    file.write_text(FILE)
    assert cli.run("features", "enable", "multi_agent_v2").status == 0
    assert file.read_text() == FILE.replace("enabled = false", "enabled = true")
    assert states(cli, "features", "list")["multi_agent_v2"] == "true"


def test_what_is_off_by_default_is_disabled_by_removing_it(cli: Any) -> None:
    ran = cli.run("features", "enable", "code_mode_only")
    assert "`code_mode_only` is under development" in ran.err
    assert "code_mode_only = true" in (cli.home / "config.toml").read_text()
    cli.run("features", "disable", "code_mode_only")
    assert (cli.home / "config.toml").read_text().strip() in ("", "[features]")


def test_a_profile_gets_its_own_switch(cli: Any) -> None:
    for argv in (("features", "enable", "code_mode", "-p", "p"), ("-p", "q", "features", "disable", "code_mode")):
        assert cli.run(*argv).status == 0
    assert (cli.home / "p.config.toml").read_text() == "[features]\ncode_mode = true\n"
    assert (cli.home / "q.config.toml").read_text() == "[features]\ncode_mode = false\n"
    assert not (cli.home / "config.toml").exists()


def test_a_feature_without_effect_is_written_with_a_warning(cli: Any) -> None:
    ran = cli.run("features", "enable", "guardian_ext")
    assert (ran.status, ran.err) == (0, "warning: `guardian_ext` has no effect here; Codex reads the same file.\n")
    assert "guardian_ext = true" in (cli.home / "config.toml").read_text()


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (("enable", "unified_exce"), "Did you mean unified_exec?"),
        (("disable", ""), "To list all features, run: codex-framework features list"),
        (("enable", "a.b"), "To list all features, run"),
        (("list", "--enable", "goal"), "Did you mean goals?"),
    ],
)
def test_an_unknown_feature_is_refused(cli: Any, argv: tuple[str, ...], hint: str) -> None:
    ran = cli.run("features", *argv)
    assert ran.status == 1
    assert ran.err.startswith("Error: Unknown feature flag: ")
    assert hint in ran.err
    assert not (cli.home / "config.toml").exists()


def test_an_invalid_file_stays_as_it_is(cli: Any) -> None:
    (cli.home / "config.toml").write_text("features = {x\n")
    for argv in (("enable", "goals"), ("list",)):
        ran = cli.run("features", *argv)
        assert ran.status == 1
        assert "config.toml:1" in ran.err
    assert (cli.home / "config.toml").read_text() == "features = {x\n"


def test_a_file_with_another_mistake_stays_as_it_is(cli: Any) -> None:
    (cli.home / "config.toml").write_text("modle = 'o3'\n")
    ran = cli.run("features", "enable", "goals")
    assert (ran.status, "unknown key `modle`" in ran.err) == (1, True)
    assert (cli.home / "config.toml").read_text() == "modle = 'o3'\n"


def test_switches_at_once_are_all_kept(cli: Any) -> None:
    names = [name for name in list(USED_FEATURES)[:8] if name in stages()]
    processes = [cli.start("features", "enable", name) for name in names]
    assert [process.wait(timeout=60) for process in processes] == [0] * len(names)
    for process in processes:
        process.communicate()
    text = (cli.home / "config.toml").read_text()
    assert [name for name in names if f"{name} = true" not in text] == []
