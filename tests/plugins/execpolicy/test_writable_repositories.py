"""Rules that allow git are not believed where git would run, outside the sandbox, what commands can write."""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_belief import UNCONFINED, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path)
    found.repository(found.work)
    return found


@pytest.mark.parametrize(
    "command",
    [
        "cd -P link/.. && git status",
        "cd -L link && git status",
        "cd link && git status",
        "cd link/.. && git status",
        "cd -- sub && git status",
        "cd . sub && git status",
        "git diff -O/x",
        "git diff --upload-pack=x",
    ],
)
def test_where_git_runs_is_known_even_through_links(place: Place, tmp_path: Path, command: str):
    far = place.work / "sub" / "far"
    far.mkdir()
    place.repository(place.work / "sub", '[filter "x"]\n\tclean = ./strip.sh\n')
    (place.work / "link").symlink_to(far)
    assert place.judge("git status") == UNCONFINED
    assert place.judge(command) is None


@pytest.mark.parametrize(
    "part", ["config", "hooks", "config.worktree", "commondir", "info", "HEAD", "hooks/pre-commit"]
)
def test_a_part_of_the_repository_that_is_a_link_to_the_workspace(place: Place, part: str):
    target = place.work / "target"
    if part in ("hooks", "info"):
        target.mkdir()
    else:
        target.write_text("")
    link = place.work / ".git" / part
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    assert place.judge("git status") is None


@pytest.mark.parametrize(
    "hook", ["post-index-change", "pre-commit", "fsmonitor-watchman", "post-checkout", "reference-transaction"]
)
def test_a_hook_may_run_files_of_the_workspace(place: Place, hook: str):
    hooks = place.work / ".git" / "hooks"
    hooks.mkdir()
    place.program(hooks / f"{hook}.sample")
    assert place.judge("git status") == UNCONFINED
    (hooks / hook).write_text("#!/bin/sh\nsh scripts/check.sh\n")
    assert place.judge("git status") == UNCONFINED, "git does not run it"
    (hooks / hook).chmod(0o755)
    assert place.judge("git status") is None


def test_the_hooks_of_lfs_are_known(place: Place):
    hook = place.work / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir()
    hook.write_text(
        '#!/bin/sh\ncommand -v git-lfs >/dev/null 2>&1 || { exit 2 }\ngit lfs post-checkout "$@"\n'.replace("; }", " }")
    )
    hook.chmod(0o755)
    assert place.judge("git status") == UNCONFINED


@pytest.mark.parametrize(
    "config",
    [
        '\ufeff[filter "x"] clean = ./strip.sh\n',
        "\ufeff[include]\n\tpath = /x\n",
        "[core] [include]\n\tpath = /x\n",
        '[filter "x"]\n\tclean = ."/"strip\n',
        '[filter "x"]\n\tclean = WORK/strip\n',
        '[filter "x"]\n\tclean = tool "conf"/strip\n',
        '[filter "x"]\n\tclean = find . -exec ./x {} +\n',
        '[filter "x"]\n\tclean = env A=b ./x\n',
        '[filter "x"]\n\tclean = awk -f prog\n',
        '[filter "x"]\n\tclean = cat | python3 strip\n',
        '[filter "x"]\n\tclean = "cat; sh strip"\n',
        '[filter "x"]\n\tclean = sed -nf prog\n',
        '[filter "x"]\n\tclean = make -s clean\n',
        '[filter "x"]\n\tclean = npx prettier\n',
        '[filter "x"]\n\tclean = $TOOL\n',
        '[filter "x"]\n\tclean = timeout 9 python3 -m strip\n',
        "[core]\n\teditor = vim -S session\n",
        "[core]\n\teditor = emacs --load lib\n",
        "[core]\n\tsshCommand = ssh -F cfg\n",
        '[core]\n\tsshCommand = ssh -o "ProxyCommand=sh go"\n',
        "[core]\n\tsshCommand = ssh -i keys/id\n",
        "[credential]\n\thelper = !python3 -m helper\n",
    ],
)
def test_settings_that_lead_into_the_workspace(place: Place, config: str):
    (place.work / ".git" / "config").write_text(config.replace("WORK", str(place.work)), encoding="utf-8")
    assert place.judge("git status") is None


@pytest.mark.parametrize(
    "config", ["[core]\n\thooksPath = .husky\n", '[core]\n\thooksPath = "hooks"\n', '[filter "x"] clean = WORK/x\n']
)
def test_settings_of_the_user_that_lead_into_the_workspace(place: Place, config: str):
    (place.home / ".gitconfig").write_text(config.replace("WORK", str(place.work)))
    assert place.judge("git status") is None


def test_the_shared_repository_of_a_worktree_counts(place: Place, tmp_path: Path):
    common = tmp_path / "common"
    common.mkdir()
    (common / "config").write_text('[filter "x"]\n\tclean = ./strip.sh\n')
    (place.work / ".git" / "commondir").write_text(f"{common}\n")
    assert place.judge("git status") is None


@pytest.mark.parametrize(
    "config",
    [
        "[core]\n\teditor = vim\n",
        "[core]\n\teditor = nvim -f\n",
        "[core]\n\teditor = code --wait\n",
        "[core]\n\teditor = emacs -nw\n",
        "[core]\n\tsshCommand = ssh\n",
        "[core]\n\tsshCommand = ssh -i ~/.ssh/id -o IdentitiesOnly=yes -F /dev/null\n",
        "[core]\n\tsshCommand = /usr/bin/ssh -4\n",
        '[diff "x"]\n\ttextconv = jq\n',
        '[diff "x"]\n\ttextconv = jq --sort-keys .\n',
        "[core]\n\tpager = less -FRX\n",
        '[filter "x"]\n\tclean = sed -e s,a,b,\n',
        "[credential]\n\thelper = store\n\thelper = !/usr/bin/gh auth git-credential\n",
        "[gpg]\n\tprogram = gpg2\n",
    ],
)
def test_usual_programs_of_git_leave_a_rule_in_effect(place: Place, config: str):
    """They run nothing that commands can write, so rules for git keep their meaning."""
    (place.work / ".git" / "config").write_text(config)
    (place.home / ".gitconfig").write_text(config)
    assert place.judge("git status") == UNCONFINED


def test_the_folder_that_a_rule_names_is_looked_at_too(place: Place, tmp_path: Path):
    other = tmp_path / "other"
    place.repository(other)
    rules = [["git", "-C", folder, "status"] for folder in (str(place.work / "sub"), "sub", str(other))]
    (place.codex / "rules" / "b.rules").write_text("\n".join(f"prefix_rule({rule})" for rule in rules))
    assert [place.judge(rule) for rule in rules] == [None, None, UNCONFINED], "commands can make a repository in sub"
    (other / ".git" / "config").write_text('[filter "x"]\n\tclean = ./strip.sh\n')
    assert place.judge(rules[2]) is None


@pytest.mark.parametrize("rule", [["git", "switch", "-c"], ["git", "commit", "-C"], ["git", "commit", "-c", "HEAD"]])
def test_an_option_of_a_subcommand_chooses_no_repository(place: Place, tmp_path: Path, rule: list[str]):
    (place.codex / "rules" / "b.rules").write_text(f"prefix_rule({rule})")
    other = tmp_path / "other"
    place.repository(other)
    command = [*rule, str(other)]
    assert place.judge(command) == UNCONFINED
    (place.work / ".git" / "config").write_text('[filter "x"]\n\tclean = ./strip.sh\n')
    assert place.judge(command) is None
