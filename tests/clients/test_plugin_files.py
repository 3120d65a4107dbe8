"""``--plugin FILE.py``: one-file plugins on the command line, and the events of plugins in ``exec --json``."""

from __future__ import annotations

import json
from textwrap import dedent
from typing import Any

from codex_framework.testing.replies import call, say

MILESTONES = """
    import click

    from codex_framework import EventMsg, ToolContext, hookimpl, tool

    class Milestone(EventMsg):
        type = "milestone"
        kept = True
        name: str

    @hookimpl
    def codex_events():
        return [Milestone]

    @hookimpl
    def codex_tools():
        @tool
        async def reach(name: str, context: ToolContext) -> str:
            "Note that a milestone has been reached."
            context.emit(Milestone(name))
            return "Noted."

        return [reach]

    @hookimpl
    def codex_commands():
        return [click.Command("milestones", callback=lambda: click.echo("none yet"))]
"""


def write(cli: Any, name: str = "milestones.py", source: str = MILESTONES) -> str:
    file = cli.home.parent / name
    file.write_text(dedent(source))
    return str(file)


def test_exec_loads_a_file_and_tells_its_events_as_json(cli: Any) -> None:
    server = cli.serve(call("reach", name="beta"), say("Done."))
    ran = cli.json("--plugin", write(cli), "Go.")
    assert ran.status == 0
    events = [event for event in ran.events if event["type"] == "plugin.event"]
    assert events == [
        {"type": "plugin.event", "plugin": "milestones", "event": {"type": "milestone", "name": "beta"}},
    ]
    assert "reach" in [tool.get("name") for tool in server.requests[0].json["tools"]]
    (rollout,) = cli.rollouts()
    kept = [json.loads(line)["payload"] for line in rollout.read_text().splitlines()]
    assert {"type": "milestone", "name": "beta"} in kept


def test_the_option_may_stand_before_exec_and_be_repeated(cli: Any) -> None:
    server = cli.serve(say("Done."))
    other = MILESTONES.replace("milestone", "stone").replace("reach", "touch")
    ran = cli.run("--plugin", write(cli), "exec", "--plugin", write(cli, "stones.py", other), "Go.")
    assert ran.status == 0
    names = {tool.get("name") for tool in server.requests[0].json["tools"]}
    assert {"reach", "touch"} <= names


def test_a_broken_file_is_told_and_the_turn_goes_on(cli: Any) -> None:
    cli.serve(say("Done."))
    broken = write(cli, "broken.py", "def f(:\n")
    ran = cli.json("--plugin", broken, "--plugin", str(cli.home / "gone.py"), "Go.")
    assert ran.status == 0
    messages = [error["message"] for error in ran.items("error")]
    assert any("plugin 'broken'" in text and f"({broken}, line 1)" in text for text in messages)
    assert any(f"there is no file {cli.home / 'gone.py'}" in text for text in messages)


def test_a_run_that_cannot_start_tells_of_the_plugin_that_has_failed(cli: Any) -> None:
    """The provider is not misspelt: its plugin has failed, and that is what has to be mended."""
    (cli.home / "config.toml").write_text('model_provider = "odd"\n')
    file = cli.work / "odd.py"
    file.write_text("from codex_framework import hookimpl\n\n@hookimpl\ndef codex_model_providers():\n    1 / 0\n")
    ran = cli.run("--plugin", str(file), "exec", "hi")
    warning, error = (line for line in ran.err.splitlines() if line.startswith(("warning:", "Error:")))
    assert "plugin 'odd'" in warning
    assert "ZeroDivisionError: division by zero" in warning
    assert "unknown model provider 'odd'" in error
    assert ran.status == 1


def test_other_commands_know_the_file_too(cli: Any) -> None:
    file = write(cli)
    assert cli.run("--plugin", file, "milestones").out == "none yet\n"
    assert "milestones" in cli.run("--plugin", file, "--help").out
    shown = json.loads(cli.run("plugins", "--plugin", file, "show", "milestones", "--json").out)
    assert (shown["file"], shown["status"]) == (file, "loaded")
    assert shown["contributes"] == {"tools": ["reach"], "events": ["milestone"], "commands": ["milestones"]}
    assert json.loads(cli.run("--plugin", file, "plugins", "show", "milestones", "--json").out)["file"] == file


def test_settings_of_a_plugin_are_shown_and_wrong_ones_are_told(cli: Any) -> None:
    shown = json.loads(cli.run("plugins", "show", "guardian", "--json").out)
    assert [setting["name"] for setting in shown["settings"]] == ["model", "reasoning_effort"]
    assert shown["settings"][1]["default"] == '"low"'
    text = cli.run("plugins", "show", "guardian").out
    assert 'reasoning_effort: a string, default "low". The reasoning effort of the reviewing model.' in text
    cli.configure(more="[framework.plugins.guardian]\nmodel = 5\n[framework.plugins.quux]\na = 1")
    ran = cli.run("plugins")
    assert ran.status == 0
    assert "`framework.plugins.guardian.model`: " in ran.out
    assert "warning: the configuration has settings for the plugin 'quux', which is not installed" in ran.err
    refused = cli.exec("Go.")
    assert (refused.status, refused.out) == (1, "")
    assert f"Error: {cli.home / 'config.toml'}:4: invalid settings of the plugin 'guardian'" in refused.err


def test_a_distributions_metadata_is_shown(cli: Any, tmp_path: Any) -> None:
    site = tmp_path / "site"
    info = site / "acme_words-1.2.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme-words\nVersion: 1.2\nSummary: Counts words.\nProject-URL: Homepage, https://x.example\n"
    )
    info.joinpath("entry_points.txt").write_text("[codex_framework]\nwords = acme_words\n")
    site.joinpath("acme_words.py").write_text(dedent(MILESTONES))
    cli.env["PYTHONPATH"] = str(site)
    out = cli.run("plugins", "show", "words").out
    assert "  summary      Counts words.\n" in out
    assert "  home page    https://x.example\n" in out
    assert f"  installed in {site}\n" in out


CHATTY = """
    import os, subprocess, sys
    from codex_framework import Component, Observer, hookimpl, tool

    print("at import")

    class Log(Observer):
        name = "log"

        def observe(self, thread_id, event):
            print("observed")

    class Closing(Component):
        name = "closing"

        async def aclose(self):
            raise OSError("no disk")

    @tool
    async def chat() -> str:
        "Chat."
        print("printed")
        os.write(1, b"written\\n")
        subprocess.run(["echo", "by a child"], check=True)
        return "ok"

    @hookimpl
    def codex_tools(): return [chat]
    @hookimpl
    def codex_observers(): return [Log()]
    @hookimpl
    def codex_components(): return [Closing()]
"""


def test_nothing_that_a_plugin_prints_is_on_stdout(cli: Any) -> None:
    cli.serve(call("chat"), say("Done."))
    file = write(cli, "chatty.py", CHATTY)
    ran = cli.exec("--json", "--plugin", file, "Go.")
    assert [json.loads(line)["type"] for line in ran.out.splitlines()][-1] == "turn.completed"
    for text in ("at import", "observed", "printed", "written", "by a child"):
        assert text in ran.err
    cli.serve(call("chat"), say("Done."))
    assert cli.exec("--plugin", file, "Go.").out == "Done.\n"


def test_what_fails_when_a_component_is_closed_is_told_at_the_end(cli: Any) -> None:
    cli.serve(say("Done."))
    ran = cli.exec("--json", "--plugin", write(cli, "chatty.py", CHATTY), "Go.")
    assert "component 'closing' of plugin 'chatty': aclose() failed: OSError: no disk (" in ran.err
    assert 'Fix the plugin, or disable it with `[framework] plugins.disabled = ["chatty"]`.' in ran.err
