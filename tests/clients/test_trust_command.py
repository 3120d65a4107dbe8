"""``codex-framework trust``: decisions about projects, in real repositories."""

from __future__ import annotations

import json
import subprocess

import pytest


@pytest.fixture
def repository(cli):
    """A repository with a subfolder and a worktree."""
    folder = cli.work.parent / "shop"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q", str(folder)], ["-C", str(folder), "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*git, *arguments], check=True)
    subprocess.run([*git, "-C", str(folder), "worktree", "add", "-q", str(folder.parent / "tree")], check=True)
    (folder / "sub").mkdir()
    return folder


def written(cli):
    return (cli.home / "config.toml").read_text()


def test_a_decision_is_stored_for_the_checkout(cli, repository):
    (cli.home / "config.toml").write_text("# mine\n\n[history] # h\n")
    done = cli.run("trust", str(repository / "sub"))
    assert (done.status, done.out, done.err) == (0, f"{repository}: trusted ({cli.home}/config.toml)\n", "")
    entry = f'[projects."{repository}"]\ntrust_level = '
    assert written(cli) == f'# mine\n\n[history] # h\n\n{entry}"trusted"\n'
    assert cli.run("trust", cwd=repository).out == f"{repository}: trusted already ({cli.home}/config.toml)\n"
    assert cli.run("trust", "--untrusted", cwd=repository.parent / "tree").status == 0
    assert written(cli) == f'# mine\n\n[history] # h\n\n{entry}"untrusted"\n'
    done = cli.run("trust", "--revoke", cwd=repository)
    assert done.out == f"{repository}: no decision ({cli.home}/config.toml)\n"
    assert written(cli) == "# mine\n\n[history] # h\n\n"


def test_a_folder_outside_of_git_and_a_link_are_stored_by_their_real_path(cli):
    plain = cli.work.parent / "plain 'x' \"y\""
    plain.mkdir()
    link = cli.work.parent / "link"
    link.symlink_to(plain)
    assert cli.run("trust", cwd=link).status == 0
    rows = json.loads(cli.run("trust", "--list", "--json").out)
    assert rows == [{"path": str(plain), "trust_level": "trusted", "exists": True}]
    plain.rmdir()
    assert cli.run("trust", "--list").out == f"trusted    {plain}  (missing)\n"


def test_the_settings_of_a_trusted_project_apply(cli):
    project = cli.work / ".codex" / "config.toml"
    project.parent.mkdir()
    project.write_text('model = "o4"\n')
    before = cli.run("config", "get")
    assert "To trust it, run: codex-framework trust" in before.err
    assert cli.run("trust").err == f"These settings apply now: {project}\n"
    assert cli.run("config", "get", "model").out == "o4\n"
    project.write_text("model = 4\n")
    done = cli.run("trust", "--untrusted")
    assert (done.status, done.err) == (0, "")
    done = cli.run("trust")
    assert (done.status, done.err.splitlines()) == (
        0,
        [
            f"warning: the project's settings are invalid: {project}:1: `model` is the number 4, but must be a string",
            'Put it in quotes: "4".',
        ],
    )


def test_a_narrower_decision_does_not_remain_in_the_way(cli, repository):
    sub = repository / "sub"
    (cli.home / "config.toml").write_text(f'projects = {{ "{sub}" = {{ trust_level = "untrusted" }} }}  # all\n')
    assert cli.run("trust", cwd=sub).status == 0
    assert json.loads(cli.run("config", "get", "projects", "--json").out)["value"] == {
        str(sub): {"trust_level": "trusted"},
        str(repository): {"trust_level": "trusted"},
    }
    assert written(cli).endswith("  # all\n")
    assert cli.run("trust", "--revoke", cwd=sub).out.count("no decision") == 2
    assert cli.run("trust", "--list").out == "No project is trusted or untrusted.\n"
    done = cli.run("trust", "--revoke", cwd=sub)
    assert (done.status, done.error.splitlines()) == (
        1,
        [
            f"Error: {cli.home}/config.toml contains no decision about {sub}",
            "To see all decisions, run: codex-framework trust --list",
        ],
    )


def test_a_folder_that_is_none_and_options_that_contradict_are_errors(cli):
    (cli.work / "file").touch()
    assert (
        cli.run("trust", "nowhere").error
        == f"Error: {cli.work}/nowhere does not exist\nName the folder of a project.\n"
    )
    assert cli.run("trust", "file").error == f"Error: {cli.work}/file is not a folder\nName the folder of a project.\n"
    for arguments in (["--revoke", "--untrusted"], ["--list", "."], ["--json"]):
        done = cli.run("trust", *arguments)
        assert (done.status, "use only one of" in done.err) == (2, True)


@pytest.mark.parametrize("text", ["projects = 1\n", 'projects = { "%s" = 1 }\n', "x = \n", "modle = 1\n"])
def test_a_wrong_file_is_left_as_it_is(cli, text):
    file = cli.home / "config.toml"
    file.write_text(text.replace("%s", str(cli.work)))
    before = file.read_text()
    for arguments in ([], ["--revoke"]):
        done = cli.run("trust", *arguments)
        assert done.status == 1
        assert str(file) in done.err
        assert file.read_text() == before
    file.chmod(0o400)
    assert "is read-only" in cli.run("trust").err
