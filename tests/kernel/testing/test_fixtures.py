"""The pytest plugin: what its fixtures give, and that it costs nothing where they are not used."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import urllib.request

import pytest

from codex_framework import ConfigError, ToolContext, tool
from codex_framework.contract.roles.outcomes import Status
from codex_framework.testing import Offer, ResponsesServer, call, call_context, fail, say


@tool
async def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper() + "!"


def test_a_turn_is_run_with_the_tools_and_replies_of_a_test(run_turn):
    run = run_turn("Shout hi.", [call("shout", text="hi"), say("Done.")], tools=[shout])
    assert (run.result.status, run.final_message, run.error) == (Status.COMPLETED, "Done.", None)
    assert run.outputs == ("HI!",)
    assert "shout" in run.offered
    assert [item.type for item in run.history[-4:]] == ["message", "function_call", "function_call_output", "message"]
    assert len(run.requests) == 2
    assert run.warnings == ()


def test_installed_plugins_are_there_unless_they_are_left_out(run_turn, codex_home):
    assert "exec_command" in run_turn("Hello!", [say("Hi!")]).offered
    assert [path.name for path in codex_home.rglob("rollout-*.jsonl")] != []


def test_without_entry_points_only_what_the_test_brings_is_there(run_turn):
    run = run_turn("Hello!", [say("Hi!")], tools=[shout], entry_points=())
    assert run.offered == ("shout",)


def test_a_failed_turn_is_a_result(run_turn):
    run = run_turn("Hello!", [fail("no key")], entry_points=())
    assert (run.result.status, run.final_message, run.error) == (Status.FAILED, None, "no key")


def test_settings_and_configuration_reach_the_thread(run_turn, workspace):
    @tool
    async def told(context: ToolContext) -> list[str]:
        """Tell."""
        return [context.model.slug, str(context.config["framework"]), str(context.cwd)]

    run = run_turn(
        "Tell.",
        [call("told"), say("Done.")],
        tools=[told],
        config=['framework.plugins.prefer=["x"]', 'model="m-1"'],
        entry_points=(),
        cwd=workspace / "..",
    )
    (output,) = run.outputs
    assert "m-1" in output
    assert "prefer" in output
    assert f'"{workspace.parent}"' in output


def test_configuration_may_be_the_text_of_a_file(run_turn, codex_home):
    run = run_turn("Hello!", [say("Hi!")], config='model = "m-2"\n\n[tools]\nweb_search = false\n', entry_points=())
    assert run.requests[0].model.slug == "m-2"
    assert codex_home.joinpath("config.toml").read_text().endswith('model = "m-2"\n\n[tools]\nweb_search = false\n')


def test_a_wrong_configuration_is_an_error_with_its_place(run_turn):
    with pytest.raises(ConfigError):
        run_turn("Hello!", [say("Hi!")], config="modle = 1\n", entry_points=())
    with pytest.raises(ConfigError):
        run_turn("Hello!", [say("Hi!")], config="= broken", entry_points=())


def test_two_turns_of_one_test_do_not_know_each_other(run_turn):
    first = run_turn("One.", [say("1")], entry_points=())
    second = run_turn("Two.", [say("2")], entry_points=())
    assert (first.final_message, second.final_message) == ("1", "2")
    assert len(first.requests) == len(second.requests) == 1


def test_a_kernel_is_made_for_longer_conversations(make_kernel):
    async def converse():
        async with make_kernel([say("one"), say("two")], plugins=[Offer(tools=[shout])], entry_points=()) as kernel:
            thread = await kernel.start_thread()
            return [(await thread.run("Go on.")).final_message for _ in range(2)], kernel.model.unplayed

    assert asyncio.run(converse()) == (["one", "two"], 0)


def test_servers_are_started_and_stopped(responses_server):
    server = responses_server([say("hi")])
    request = urllib.request.Request(f"{server.url}/responses", b"{}", method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert b"response.completed" in answer.read()
    assert [request.path for request in server.requests] == ["/v1/responses"]


def test_a_model_is_scripted(scripted_model, run_turn):
    model = scripted_model([say("from a model of its own")], name="mine")
    run = run_turn("Hello!", plugins=[Offer(providers=[model])], config=['model_provider="mine"'], entry_points=())
    assert run.final_message == "from a model of its own"
    assert len(model.requests) == 1


def test_a_context_can_be_had_without_a_turn(workspace):
    async def made():
        events = []
        async with call_context(workspace, config={"a": 1}, emit=events.append) as context:
            await context.write_text("new.txt", "hello")
            result = await context.run(["cat", "new.txt"])
            return result.stdout, context.cwd, context.config, [event.type for event in events]

    stdout, cwd, config, events = asyncio.run(made())
    assert (stdout, cwd, config) == ("hello", workspace, {"a": 1})
    assert events[0] == "exec_command_begin"
    assert events[-1] == "exec_command_end"


def test_what_a_tool_keeps_is_closed_with_the_context(workspace):
    class Kept:
        closed = False

        async def aclose(self):
            self.closed = True

    class Stuck:
        async def aclose(self):
            raise OSError("stuck")

    async def made(kind):
        async with call_context(workspace) as context:
            return context.state("kept", kind)

    assert asyncio.run(made(Kept)).closed
    with pytest.raises(AssertionError, match="state 'kept': aclose\\(\\) failed: OSError: stuck"):
        asyncio.run(made(Stuck))


def test_the_plugin_imports_nothing_of_the_kernel_until_it_is_used(tmp_path):
    """It is imported by each run of pytest in an environment that has the package, whatever is tested there."""
    (tmp_path / "test_other.py").write_text(
        "import sys\n\n\ndef test_other():\n"
        "    found = sorted(name for name in sys.modules if name.startswith('codex_'))\n"
        "    assert found == ['codex_framework', 'codex_framework.testing', 'codex_framework.testing.plugin']\n"
        "    assert not {'attr', 'attrs', 'pluggy_', 'httpx', 'cattrs', 'tomlkit', 'asyncio'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "test_other.py"],
        cwd=tmp_path,
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "codex_framework.testing.plugin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_fixtures_are_there_without_being_asked_for(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "from codex_framework.testing import say\n\n\n"
        "def test_it(run_turn):\n    assert run_turn('Hello!', [say('Hi!')]).final_message == 'Hi!'\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def run_pytest(folder, *arguments, **variables):
    """Run pytest with the plugin alone: the others that are installed here would take half of the time."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": "codex_framework.testing.plugin",
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_request_that_was_not_recorded_is_shown_in_the_report(tmp_path):
    """The test that fails compares only the message, so its own text does not say why there is none."""
    (tmp_path / "test_it.py").write_text(
        "import os\n\n\ndef test_it(cassette, run_turn):\n"
        "    url = os.environ.get('URL', 'https://models.example.com/v1')\n"
        '    table = f\'model_provider = "mine"\\n[model_providers.mine]\\nbase_url = "{url}"\\nrequest_max_retries = 0\\n\'\n'
        "    config = cassette(table + 'stream_max_retries = 0\\n')\n"
        "    assert run_turn(os.environ.get('PROMPT', 'Two and two?'), config=config).final_message == 'Four.'\n"
    )
    path = tmp_path / "cassettes" / "test_it.test_it.jsonl"
    nobody = {"URL": "http://127.0.0.1:9/v1"}

    done = run_pytest(tmp_path, "--codex-cassettes=record", **nobody)
    assert (done.returncode, path.exists()) == (1, False)
    assert "Connection refused" in done.stdout
    assert f"{path} is not recorded, because no request was answered." in done.stdout

    with ResponsesServer([say("Four.")]) as server:
        assert run_pytest(tmp_path, "--codex-cassettes=missing", URL=server.url).returncode == 0
    recorded = path.read_bytes()
    assert run_pytest(tmp_path).returncode == 0

    done = run_pytest(tmp_path, PROMPT="Two and three?")
    assert done.returncode == 1
    assert '-   "text": "Two and two?",' in done.stdout
    assert '+   "text": "Two and three?",' in done.stdout

    done = run_pytest(tmp_path, "--codex-cassettes=record", **nobody)
    assert (done.returncode, path.read_bytes()) == (1, recorded)
    assert f"{path} is as before, because no request was answered." in done.stdout


def test_a_test_never_gets_the_configuration_of_the_person_who_runs_it(run_turn, codex_home, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "config.toml").write_text('model = "their-model"\n')
    run = run_turn(
        "Hello!", [say("Hi!")], env={"CODEX_HOME": str(theirs)}, config='model = "my-model"\n', ephemeral=False
    )
    assert run.requests[0].model.slug == "my-model"
    assert [file.name for file in theirs.iterdir()] == ["config.toml"]
    assert (codex_home / "config.toml").exists()
