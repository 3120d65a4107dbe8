"""What the command line says about words that it does not know, and its help on narrow terminals."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework.cli.argv import UsageError
from codex_framework.cli.commands import BUILT_IN, unknown_command
from codex_framework.cli.exec_options import EXEC_OPTIONS, RESUME_OPTIONS, SHARED_OPTIONS, exec_help, read_options
from codex_framework.testing.replies import say

OPTIONS = [option for option in (*SHARED_OPTIONS, *EXEC_OPTIONS, *RESUME_OPTIONS) if not option.hidden]


@pytest.mark.parametrize("words", [("fix the tests",), ("fix", "the", "tests")])
def test_a_task_without_exec_is_answered_with_the_whole_command(cli: Any, words: tuple[str, ...]) -> None:
    ran = cli.run(*words)
    assert (ran.status, ran.out) == (2, "")
    assert "  To give the model this task, run: codex-framework exec 'fix the tests'\n" in ran.err
    assert "Did you mean" not in ran.err


def test_a_task_with_options_but_without_exec_keeps_its_options(cli: Any) -> None:
    ran = cli.run("-m", "o3", "fix it")
    assert ran.status == 2
    assert "  To give the model this task, run: codex-framework exec -m o3 'fix it'\n" in ran.err
    assert "codex-framework exec -m o3 PROMPT\n" in cli.run("-m", "o3").err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["plugns", "show", "shell"], "codex-framework plugins show shell"),
        (["exce", "fix it"], "codex-framework exec 'fix it'"),
        (["resum", "--last"], "codex-framework resume --last"),
        (["execpolcy"], "codex-framework execpolicy"),
    ],
)
def test_a_mistyped_command_is_answered_with_the_nearest_one(words: list[str], meant: str) -> None:
    assert f"  Did you mean: {meant}" in unknown_command(words, [*BUILT_IN, "execpolicy"]).splitlines()


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("cloud", "except by: codex-framework apply TASK_ID"),
        ("plugin", "run: codex-framework plugins"),
        ("exec-server", "It is a service of Codex that is not offered here."),
        ("migrate-rollouts", "Nothing needs to be migrated"),
        ("queue", "run: codex-framework exec resume SESSION MESSAGE"),
    ],
)
def test_a_command_of_codex_that_is_missing_is_answered_with_what_to_do(word: str, answer: str) -> None:
    assert answer in unknown_command([word, "more"], [*BUILT_IN])


def test_a_mistyped_command_of_a_plugin_is_known(cli: Any) -> None:
    ran = cli.run("execpolcy")
    assert (ran.status, ran.err.splitlines()[-1]) == (2, "  Did you mean: codex-framework execpolicy")


@pytest.mark.parametrize(
    ("argv", "tip"),
    [
        (["--modle", "o3"], "tip: a similar argument exists: '--model'"),
        (["--skip-git-repo"], "tip: a similar argument exists: '--skip-git-repo-check'"),
        (["--zzz"], "tip: to pass '--zzz' as a value, use '-- --zzz'"),
        (["-x"], "tip: to pass '-x' as a value, use '-- -x'"),
        (["--cyber-access-progra", "x"], "tip: to pass '--cyber-access-progra' as a value"),
        (["-s", "wrkspace"], "tip: a similar value exists: 'workspace-write'"),
        (["--color=alwys"], "tip: a similar value exists: 'always'"),
    ],
)
def test_a_mistyped_option_or_value_is_answered_with_the_nearest_one(argv: list[str], tip: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_options(argv)
    assert tip in str(caught.value)


def test_a_value_like_no_other_gets_the_list_alone() -> None:
    with pytest.raises(UsageError) as caught:
        read_options(["-s", "zzz"])
    assert str(caught.value).endswith("[possible values: read-only, workspace-write, danger-full-access]")


def test_options_before_exec_get_the_same_tips(cli: Any) -> None:
    assert "tip: a similar argument exists: '--model'" in cli.run("--modle", "o3", "exec", "hi").err


@pytest.mark.parametrize("columns", [40, 50, 79, 80, 100, 200])
def test_help_fits_the_terminal_and_shows_all_values(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for text in (exec_help(), exec_help("resume")):
        assert [line for line in text.splitlines() if len(line) > columns and " " in line.strip()] == []
        words = " ".join(text.split())
        for option in OPTIONS:
            if option.choices and option.names[-1] in words:
                assert f"[possible values: {', '.join(option.choices)}]" in words
    two_columns = "  -m, --model <MODEL>              The model to use." in exec_help().splitlines()
    assert two_columns is (columns >= 80)


@pytest.mark.parametrize(
    ("argv", "tip"),
    [
        (["-p", "fats"], "Did you mean fast? "),
        (["--agent", "tidi"], "Did you mean tidy? "),
        (["-c", "model_provider=lopback"], "Did you mean loopback? "),
        (["-c", "sandbox_mode=wrkspace"], "Did you mean `workspace-write`?"),
        (["-c", "modle=1"], "Did you mean `model`?"),
        (["--enable", "unified_exce"], "Did you mean `unified_exec`?"),
    ],
)
def test_mistyped_names_of_the_configuration_get_the_nearest_one(cli: Any, argv: list[str], tip: str) -> None:
    cli.serve(say("ok"))
    with (cli.home / "config.toml").open("a") as file:
        file.write("[profiles.fast]\nmodel = 'x'\n[agents.tidy]\ninstructions = 'x'\n")
    assert tip in cli.exec(*argv, "hi").err
