"""``codex-framework config``: real processes on real files."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

CONFIG = """\
# mine
model = "o3"  # the good one

[mcp_servers.docs]
command = "docs"
env = { TOKEN = "s3cret" }
"""


@pytest.fixture
def file(cli):
    path = cli.home / "config.toml"
    path.write_text(CONFIG)
    return path


def project_file(cli, text, *, trusted=True):
    path = cli.work / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(text)
    if trusted:
        with (cli.home / "config.toml").open("a") as stream:
            stream.write(f'\n[projects."{cli.work}"]\ntrust_level = "trusted"\n')
    return path


def check_refused(cli, file, arguments, *lines, content=CONFIG):
    """Check that a command fails with these lines, and leaves the file and its folder as they were."""
    before = sorted(cli.home.iterdir())
    done = cli.run("config", *arguments)
    assert (done.status, done.out, done.error.splitlines()) == (1, "", [*lines])
    assert file.read_text() == content
    assert sorted(cli.home.iterdir()) == before


def test_path_lists_the_files_of_all_layers(cli):
    project = project_file(cli, "x = [", trusted=False)
    done = cli.run("config", "path", "--profile", "fast")
    assert [line.split(maxsplit=2) for line in done.out.splitlines()] == [
        ["system", "/etc/codex/config.toml", "missing"],
        ["user", str(cli.home / "config.toml"), "missing"],
        ["profile", str(cli.home / "fast.config.toml"), "missing"],
        ["project", str(project), "ignored, because this project is not trusted"],
    ]
    project.write_text("")
    (cli.home / "config.toml").write_bytes(b"\xff")
    rows = json.loads(cli.run("config", "path", "--json").out)
    assert rows[1:] == [
        {"layer": "user", "path": str(cli.home / "config.toml"), "exists": True, "note": "1: byte 0xff is not UTF-8"},
        {
            "layer": "project",
            "path": str(project),
            "exists": True,
            "note": "ignored, because this project is not trusted",
        },
    ]


def test_path_of_the_project_is_its_root(cli):
    (cli.work / "sub").mkdir()
    done = cli.run("config", "path", "--project", cwd=cli.work / "sub")
    assert done.out == f"{cli.work}/.codex/config.toml\n"
    asked = cli.run("config", "path", "--project", "--json", cwd=cli.work / "sub")
    assert json.loads(asked.out) == {"path": f"{cli.work}/.codex/config.toml", "exists": False}


def test_get_prints_a_string_bare_and_anything_else_as_toml(cli, file):
    assert cli.run("config", "get", "model").out == "o3\n"
    assert cli.run("config", "get", "mcp_servers.docs.env").out == '[mcp_servers.docs.env]\nTOKEN = "(hidden)"\n'
    assert cli.run("config", "get", "mcp_servers.docs.env.TOKEN").out == "(hidden)\n"
    assert cli.run("config", "get", "mcp_servers.docs.env.TOKEN", "--show-secrets").out == "s3cret\n"
    assert cli.run("config", "get").out == (
        'model = "o3"\n\n[mcp_servers.docs]\ncommand = "docs"\n\n[mcp_servers.docs.env]\nTOKEN = "(hidden)"\n'
    )


def test_get_says_where_a_setting_comes_from(cli, file):
    project = project_file(cli, 'model = "o4"\nmodel_verbosity = "low"\n')
    (cli.home / "fast.config.toml").write_text('\nmodel = "o5"\n')
    assert cli.run("config", "get", "model", "--origin").out == f'{project}:1\tmodel = "o4"\n'
    assert cli.run("config", "get", "model", "--all", "-p", "fast").out == (
        f'{project}:1\tmodel = "o4"\n{cli.home}/fast.config.toml:2\tmodel = "o5"\n{file}:2\tmodel = "o3"\n'
    )
    assert cli.run("config", "get", "--origin").out.splitlines()[:3] == [
        f'{project}:1\tmodel = "o4"',
        f'{file}:5\tmcp_servers.docs.command = "docs"',
        f'{file}:6\tmcp_servers.docs.env.TOKEN = "(hidden)"',
    ]
    answer = json.loads(cli.run("config", "get", "model", "--all", "--json").out)
    assert answer == {
        "key": "model",
        "value": "o4",
        "origins": {"model": {"path": str(project), "line": 1}},
        "layers": [
            {"layer": "project", "value": "o4", "origins": {"model": {"path": str(project), "line": 1}}},
            {"layer": "user", "value": "o3", "origins": {"model": {"path": str(file), "line": 2}}},
        ],
    }


def test_get_writes_json_for_what_json_lacks(cli, file):
    file.write_text("[hooks]\nat = 2020-01-01\nmost = inf\n")
    assert json.loads(cli.run("config", "get", "hooks", "--json").out)["value"] == {"at": "2020-01-01", "most": "inf"}


def test_get_of_what_is_not_set_fails(cli, file):
    hint = "To see where settings come from, run: codex-framework config get --origin"
    check_refused(
        cli, file, ["get", "review_model"], "Error: `review_model` is not set in any of the configuration files.", hint
    )
    fact = 'Error: `history.persistence` is not set in any of the configuration files. Its default is "save-all".'
    check_refused(cli, file, ["get", "history.persistence"], fact, hint)
    fact = "Error: unknown key `modle`. Did you mean `model`?"
    check_refused(cli, file, ["get", "modle"], fact, "To list all settings, run: codex-framework config get")
    file.unlink()
    assert (cli.run("config", "get").status, cli.run("config", "get").out.strip()) == (0, "")
    assert json.loads(cli.run("config", "get", "--json").out) == {"key": "", "value": {}, "origins": {}}
    assert cli.run("config", "get", "--origin").out.strip() == ""


def test_set_tells_the_line_but_not_the_value(cli, file):
    done = cli.run("config", "set", "mcp_servers.docs.env.KEY", "s3cret2")
    assert (done.status, done.out, done.err) == (0, f"mcp_servers.docs.env.KEY: set ({file}:6)\n", "")
    assert file.read_text() == CONFIG.replace('"s3cret" }', '"s3cret", KEY = "s3cret2" }')
    assert cli.run("config", "set", "model", "o3").out == f"model: already set ({file}:2)\n"


def test_set_takes_toml_or_a_string(cli, file):
    for text, written in (("gpt-5.5", '"gpt-5.5"'), ('"5"', '"5"'), ("a b", '"a b"'), ("-x", '"-x"')):
        assert cli.run("config", "set", "model", text).status == 0
        assert file.read_text() == CONFIG.replace('"o3"', written)


def test_a_value_on_stdin_is_a_secret_that_no_list_of_processes_shows(cli, file):
    done = cli.run("config", "set", "mcp_servers.docs.env.TOKEN", "-", stdin=b"other\n")
    assert done.out + done.err == f"mcp_servers.docs.env.TOKEN: set ({file}:6)\n"
    assert file.read_text() == CONFIG.replace("s3cret", "other")
    refused = cli.run("config", "set", "model", "-", stdin=b"\xff")
    assert refused.error == "Error: the value on stdin is not UTF-8\nPass text.\n"


@pytest.mark.parametrize(
    ("arguments", "fact", "hint"),
    [
        (["model", "5"], "{file}:2: `model` is the number 5, but must be a string", 'Put it in quotes: "5".'),
        (
            ["modle", "x"],
            "{file}:3: unknown key `modle`. Did you mean `model`?",
            'Fix or remove it. To get warnings instead of errors, set `unknown_keys = "warn"` in [framework].',
        ),
        (
            ["history", "{max_bytes = -1}"],
            "{file}:9: `history.max_bytes` is the number -1, but must be an integer of at least 0",
            "Fix the value.",
        ),
        (
            ["model_provider", "nope"],
            "{file}:3: unknown model provider 'nope'; existing providers: lmstudio, ollama, openai",
            "Did you mean openai? Add a table [model_providers.nope], or set model_provider to one of these.",
        ),
        (
            ["mcp_servers.docs.url", "http://x"],
            "{file}:7: the MCP server 'docs' has both `command` and `url`: url is not supported for stdio",
            "Remove one. A server is either a program or reached over HTTP.",
        ),
        (
            ["model.x", "1"],
            "{file}: `model` is not a table, so `model.x` cannot be set",
            "Remove `model` first, or set it as a whole.",
        ),
        (
            ["a..b", "1"],
            "invalid key 'a..b': 'a..b' is not a dotted key",
            """Write a dotted key, with quotes around names that contain dots: 'projects."/a.b".trust_level'.""",
        ),
        (
            ["mcp_servers.docs.env.TOKEN", "5"],
            "{file}:6: `mcp_servers.docs.env.TOKEN` is the number 5, but must be a string",
            'Put it in quotes: "5".',
        ),
    ],
)  # fmt: skip
def test_set_refuses_what_the_file_must_not_contain(cli, file, arguments, fact, hint):
    check_refused(cli, file, ["set", *arguments], f"Error: {fact.format(file=file)}", hint)


PLUGIN = """
import attrs
from codex_framework import hookimpl

@attrs.frozen
class Settings:
    lines: int = 1

@hookimpl
def codex_tools(plugin):
    plugin.settings(Settings)
    return []
"""


def test_set_refuses_wrong_settings_of_a_plugin(cli, file):
    site = cli.work.parent / "site"
    info = site / "acme-1.2.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text("Name: acme\nVersion: 1.2\n")
    info.joinpath("entry_points.txt").write_text("[codex_framework]\nacme = acme_settings\n")
    site.joinpath("acme_settings.py").write_text(PLUGIN)
    env = cli.env | {"PYTHONPATH": str(site)}
    done = cli.run("config", "set", "framework.plugins.acme.lines", "x", env=env)
    assert (done.status, file.read_text()) == (1, CONFIG), done
    assert "framework.plugins.acme.lines" in done.err
    assert cli.run("config", "set", "framework.plugins.acme.lines", "2", env=env).status == 0
    file.write_text(file.read_text().replace("lines = 2", "lines = 'x'"))
    assert cli.run("config", "set", "model", "o4", env=env).status == 0  # a plugin that fails does not stop a thread
    done = edited(cli, 'echo "# mine" >> "$1"', env={"PYTHONPATH": str(site)})
    assert done.status == 1
    assert f"{file}:9" in done.err


def test_a_broken_file_is_refused_and_can_be_repaired_in_an_editor(cli, file):
    file.write_text("model = \n")
    for arguments in (["set", "model", "x"], ["unset", "model"], ["get", "model"]):
        check_refused(
            cli,
            file,
            arguments,
            f"Error: {file}:1:9: not valid TOML: invalid value in `model =`",
            "Fix this line. Strings need quotes, and each table and key may appear only once.",
            content="model = \n",
        )
    done = cli.run("config", "edit", env=cli.env | {"EDITOR": "sed -i 's/= /= 1/;s/1/\"a\"/'"})
    assert (done.status, done.out) == (0, f"{file}: written\n")
    assert file.read_text() == 'model = "a"\n'


def test_unset_removes_a_setting_but_no_comment(cli, file):
    assert cli.run("config", "unset", "model").out == f"model: removed ({file})\n"
    assert file.read_text() == CONFIG.replace('model = "o3"  # the good one', "# the good one")
    done = cli.run("config", "unset", "model")
    assert (done.status, done.err.splitlines()[0]) == (
        1,
        f'Error: `model` is not set in {file}. Its default is "gpt-6.2-sol".',
    )


def test_unset_of_what_the_rest_needs_is_refused(cli, file):
    check_refused(
        cli,
        file,
        ["unset", "mcp_servers.docs.command"],
        f"Error: {file}:4: the MCP server 'docs' has neither `command` nor `url`",
        "Set `command` if the server is a program, or `url` if it is reached over HTTP.",
    )


def test_the_home_is_made_if_it_is_missing(cli):
    env = {key: value for key, value in cli.env.items() if key != "CODEX_HOME"}
    home = cli.work.parent / ".codex"
    assert cli.run("config", "set", "model", "o3", env=env).out == f"model: set ({home}/config.toml:1)\n"
    assert (home / "config.toml").stat().st_mode & 0o777 == 0o600
    named = cli.work.parent / "named"
    done = cli.run("config", "set", "model", "o3", env=cli.env | {"CODEX_HOME": str(named)})
    assert done.out == f"model: set ({named}/config.toml:1)\n"


def test_a_profile_is_its_own_file_or_the_table_that_exists(cli, file):
    fast = cli.home / "fast.config.toml"
    assert cli.run("config", "set", "-p", "fast", "model", "o5").out == f"model: set ({fast}:1)\n"
    assert cli.run("config", "get", "-p", "fast", "model").out == "o5\n"
    file.write_text(CONFIG + "\n[profiles.old]\n")
    done = cli.run("config", "set", "-p", "old", "model", "o1")
    assert done.out == f"profiles.old.model: set ({file}:9)\n"
    assert cli.run("config", "get", "-p", "old", "model").out == "o1\n"
    assert cli.run("config", "unset", "-p", "old", "model").out == f"profiles.old.model: removed ({file})\n"
    refused = cli.run("config", "set", "-p", "fast", "modle", "o5")
    assert refused.err.startswith(f"Error: {fast}:2: unknown key `modle`")
    assert "cannot be the name of a profile" in cli.run("config", "set", "-p", "a/b", "model", "o5").err
    assert "select different files" in cli.run("config", "set", "-p", "a", "--project", "model", "o5").err


def test_a_project_has_a_file_of_its_own(cli, file):
    project = cli.work / ".codex" / "config.toml"
    done = cli.run("config", "set", "--project", "model", "o4")
    assert done.out == f"model: set ({project}:1)\n"
    assert done.err == (
        f"warning: {project}: ignored, because this project is not trusted. To trust it, run: codex-framework trust {cli.work}\n"
    )
    refused = cli.run("config", "set", "--project", "notify", '["x"]')
    assert refused.error == (
        f"Error: {project}:2: `notify` is ignored, because a project's own file cannot set it\n"
        "Set it in your own config.toml instead, without --project.\n"
    )
    raised = cli.run("config", "set", "--project", "agents.max_threads", "7")
    assert raised.error == (
        f"Error: {project}:4: `agents.max_threads` is ignored, because a project's own file can only lower it (from 6)\n"
        "Set it in your own config.toml instead, without --project.\n"
    )
    assert cli.run("config", "set", "--project", "model", "4").err.startswith(
        f"Error: {project}:1: `model` is the number 4"
    )
    assert project.read_text() == 'model = "o4"\n'


def test_the_home_is_no_project(cli):
    home = cli.work / ".codex"
    home.mkdir()
    done = cli.run("config", "set", "--project", "model", "o4", env=cli.env | {"CODEX_HOME": str(home)})
    assert done.err.startswith(f"Error: {home}/config.toml is your own configuration, not a project's\n")


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_project_whose_symlinks_lead_out_of_it_is_not_written_to(cli, tmp_path, link):
    outside = tmp_path / "outside"
    outside.mkdir()
    victim = outside / "config.toml"
    victim.write_text("[build]\njobs = 4\n")
    folder = cli.work / ".codex"
    if link == "folder":
        folder.symlink_to(outside)
    else:
        folder.mkdir()
        (folder / "config.toml").symlink_to(victim)
    for arguments in (["set", "--project", "model", "o4"], ["unset", "--project", "build"]):
        refused = cli.run("config", *arguments)
        assert refused.err.startswith(f"Error: {folder}/config.toml leads out of the project, to {victim}\n")
    assert victim.read_text() == "[build]\njobs = 4\n"
    assert [path.name for path in outside.iterdir()] == ["config.toml"]


def test_a_project_file_that_leads_to_the_own_configuration_is_not_written_to(cli, file):
    folder = cli.work / ".codex"
    folder.mkdir()
    (folder / "config.toml").symlink_to(file)
    before = file.read_bytes()
    refused = cli.run("config", "set", "--project", "sandbox_mode", "danger-full-access")
    assert refused.err.startswith(f"Error: {folder}/config.toml is your own configuration, not a project's\n")
    assert file.read_bytes() == before


def test_set_warns_if_another_file_overrides_the_setting(cli, file):
    project = project_file(cli, 'model = "o4"\n')
    done = cli.run("config", "set", "model", "o5")
    assert done.status == 0
    assert done.err == f"warning: here, `model` is set by {project}:1, which overrides {file}\n"
    project.write_text("model = 4\n")
    done = cli.run("config", "set", "model", "o6")
    assert done.status == 0
    assert done.err.startswith(
        f"warning: the configuration of this folder is invalid: {project}:1: `model` is the number 4"
    )


def test_set_tells_the_warnings_about_the_key(cli, file):
    done = cli.run("config", "set", "features.nothing", "true")
    assert done.status == 0
    assert done.err == f"warning: {file}:9: unknown feature `nothing`, which has no effect.\n"
    assert cli.run("config", "set", "model", "o5").err == ""


def test_two_writers_lose_nothing(cli, file):
    writers = [cli.start("config", "set", f'projects."/p{number}".trust_level', "trusted") for number in range(6)]
    assert [writer.communicate()[1] for writer in writers] == [b""] * 6
    answer = json.loads(cli.run("config", "get", "projects", "--json").out)
    assert sorted(answer["value"]) == [f"/p{number}" for number in range(6)]
    assert file.read_text().startswith(CONFIG)


@pytest.mark.parametrize("command", [["set", "model", "x"], ["unset", "model"]])
def test_a_read_only_file_is_refused(cli, file, command):
    file.chmod(0o400)
    hint = "Check the permissions of the file and its folder, and the free disk space."
    check_refused(cli, file, command, f"Error: {file} cannot be written: it is read-only", hint)


def test_a_linked_file_is_changed_where_it_is(cli, file):
    real = cli.work / "dotfiles.toml"
    file.rename(real)
    file.symlink_to(real)
    assert cli.run("config", "set", "model", "o5").status == 0
    assert file.is_symlink()
    assert real.read_text() == CONFIG.replace("o3", "o5")


def edited(cli, script, *, env=()):
    """Run ``config edit`` with a shell script as the editor. ``$1`` is the copy."""
    editor = cli.work.parent / "my editor"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o700)
    variables = {"VISUAL": f"'{editor}'", "EDITOR": "false", "TMPDIR": str(cli.work.parent)}
    return cli.run("config", "edit", env={**cli.env, **variables, **dict(env)})


def kept(done):
    """The text that a failed edit has kept, where only its owner can read it."""
    path = Path(done.error.rsplit("kept in ", 1)[1].strip())
    assert path.parent.stat().st_mode & 0o077 == 0
    return path.read_text()


def test_an_edit_is_checked_and_installed(cli, file):
    done = edited(cli, 'echo "# more" >> "$1"; touch "$0.seen"; cp "$1" "$0.copy"')
    assert (done.status, done.out, done.err) == (0, f"{file}: written\n", "")
    assert file.read_text() == CONFIG + "# more\n"
    assert not list(cli.work.parent.glob("codex-config-*"))
    done = edited(cli, "true")
    assert done.out == f"{file}: not changed\n"


def test_an_edit_of_a_missing_file_makes_it(cli):
    assert edited(cli, 'test ! -s "$1" && echo "model = 1" > "$1"').status == 1
    assert not (cli.home / "config.toml").exists()
    assert edited(cli, 'echo "model = \'a\'" > "$1"').status == 0
    assert (cli.home / "config.toml").read_text() == "model = 'a'\n"


def test_a_wrong_edit_is_kept_beside_the_file_as_it_was(cli, file):
    done = edited(cli, 'sed -i s/o3/o4/ "$1"; echo "tool_timeout_secs = 1" >> "$1"')
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(f"Error: {file}:7: unknown key `mcp_servers.docs.tool_timeout_secs`")
    assert file.read_text() == CONFIG
    assert kept(done) == CONFIG.replace("o3", "o4") + "tool_timeout_secs = 1\n"


def test_an_edit_does_not_overwrite_the_change_of_another_program(cli, file):
    done = edited(cli, f'echo "# mine" >> "$1"; echo "# theirs" >> {file}')
    assert done.err.startswith(f"Error: {file} has been changed by another program in the meantime\n")
    assert file.read_text() == CONFIG + "# theirs\n"
    assert kept(done) == CONFIG + "# mine\n"


def test_a_failing_editor_changes_nothing(cli, file):
    done = edited(cli, 'echo "# mine" >> "$1"; exit 3')
    assert done.err.startswith("Error: the editor ")
    assert "ended with exit status 3\n" in done.err
    assert (file.read_text(), kept(done)) == (CONFIG, CONFIG + "# mine\n")
    assert "has removed" in edited(cli, 'rm "$1"').err
    for name, text, fact in (
        ("VISUAL", "no-such-editor -x", "VISUAL is 'no-such-editor -x', but there is no program 'no-such-editor'"),
        ("EDITOR", "'vi", 'EDITOR is "\'vi", which is not a command: No closing quotation'),
        ("EDITOR", " ", "no editor was found: vi is not installed"),
    ):
        env = {key: value for key, value in cli.env.items() if key not in ("VISUAL", "EDITOR")} | {name: text}
        if not text.strip():
            env["PATH"] = "/nowhere"
        done = cli.run("config", "edit", env=env)
        assert (done.status, done.err.splitlines()[0]) == (1, f"Error: {fact}")


def test_a_person_may_edit_again(cli, file):
    """With a terminal, the question is asked until the text is valid, or the answer is no."""
    editor = cli.work.parent / "editor"
    editor.write_text(
        '#!/bin/sh\nif [ -e "$0.again" ]; then sed -i s/modle/model/ "$1"; else touch "$0.again"; sed -i s/model/modle/ "$1"; fi\n'
    )
    editor.chmod(0o700)
    env = cli.env | {"VISUAL": str(editor), "TMPDIR": str(cli.work.parent)}
    for answer, status in (("n", 1), ("y", 0)):
        editor.with_name("editor.again").unlink(missing_ok=True)
        file.write_text(CONFIG)
        ours, theirs = os.openpty()
        process = cli.start("config", "edit", env=env, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE)
        os.close(theirs)
        shown = b""
        while b"Edit again? [Y/n]" not in shown:
            shown += os.read(ours, 1000)
        editor.with_name("editor.again").touch()
        os.write(ours, answer.encode() + b"\n")
        out = process.communicate(timeout=60)[0].decode()
        os.close(ours)
        assert process.returncode == status
        assert f"{file}:2: unknown key `modle`" in shown.decode()
        assert out == (f"{file}: not changed\n" if status == 0 else "")
        assert file.read_text() == CONFIG
