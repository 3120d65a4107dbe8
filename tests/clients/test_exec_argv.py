from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codex_framework.cli.argv import UsageError
from codex_framework.cli.exec_options import exec_help, read_options
from codex_framework.testing.replies import say

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_options_may_stand_before_and_after_resume() -> None:
    options = read_options(["--json", "-m", "a", "resume", "--image=x.png", "ID", "-c", "k=1", "go"])
    assert (options.resume, options.thread, options.prompt) == (True, "ID", "go")
    assert (options.text("model"), options.overrides) == ("a", ["k=1"])
    assert options.images == [str(Path("x.png").absolute())]


def test_the_shapes_of_the_sdks_are_read() -> None:
    options = read_options(["--experimental-json", "--config", "a=1", "--cd", "/d", "resume", "ID", "--image", "p"])
    assert (options.flag("json"), options.thread, options.prompt) == (True, "ID", None)
    options = read_options(["--json", "resume", "--image", "p", "--", "ID", "-"])
    assert (options.thread, options.prompt) == ("ID", "-")


def test_with_last_the_argument_is_the_prompt() -> None:
    options = read_options(["resume", "--last", "go on"])
    assert (options.thread, options.prompt) == (None, "go on")


def test_short_options_take_their_value_in_every_form() -> None:
    for argv in (["-sread-only"], ["-s", "read-only"], ["-s=read-only"], ["--sandbox=read-only"]):
        assert read_options(argv).flags == {"sandbox_mode": "read-only"}


def test_after_two_dashes_nothing_is_an_option_or_a_command() -> None:
    assert read_options(["--", "resume"]).prompt == "resume"
    assert read_options(["--", "--json"]).prompt == "--json"


def test_images_come_with_commas_and_one_after_another(tmp_path: Path) -> None:
    pictures = [tmp_path / name for name in ("a.png", "b.png")]
    for picture in pictures:
        picture.write_bytes(PNG)
    a, b = map(str, pictures)
    assert read_options(["-i", f"{a},{b}", "look"]).images == [a, b]
    options = read_options(["-i", a, b, "look"])
    assert (options.images, options.prompt) == ([a, b], "look")


def test_features_and_rights_become_settings() -> None:
    assert read_options(["--enable", "x", "--disable", "y", "--yolo"]).flags == {
        "features.x": True,
        "features.y": False,
        "sandbox_mode": "danger-full-access",
        "approval_policy": "never",
    }


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--nope"], "unexpected argument '--nope'"),
        (["-m"], "a value is required for '-m <MODEL>'"),
        (["-s", "wild"], "possible values: read-only"),
        (["--json=1"], "unexpected value '1'"),
        (["a", "b"], "unexpected argument 'b'"),
        (["--last"], "belongs to `exec resume`"),
        (["--include-non-interactive", "x"], "'--include-non-interactive' found\n\n  tip: it belongs to `exec resume`"),
        (["resume"], "or add --last"),
        (["fork"], "or add --last"),
    ],
)
def test_what_cannot_be_read_is_told(argv: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words.replace("(", r"\(")):
        read_options(argv).check_thread()


def test_a_usage_error_has_status_2_and_reads_stdin(cli: Any) -> None:
    ran = cli.exec("--nope", stdin=b"x" * 1_000_000)
    assert ran.status == 2
    assert ran.err.startswith("error: unexpected argument '--nope' found")


@pytest.mark.parametrize("argv", [("-C", "/no/such/folder"), ("-c", "nonsense"), ("--output-schema", "/no/file")])
def test_an_early_failure_does_not_break_the_callers_pipe(cli: Any, argv: tuple[str, ...]) -> None:
    process = cli.start("exec", *argv, stdin=subprocess.PIPE)
    written = process.stdin.write(b"x" * 4_000_000)  # BrokenPipeError here is what must not happen
    process.stdin.close()
    process.stdin = None
    out, err = process.communicate(timeout=30)
    assert (written, process.returncode, out) == (4_000_000, 1, b"")
    assert err.startswith(b"Error: ")


def test_all_flags_of_the_typescript_sdk_reach_the_request(cli: Any, user_texts: Any) -> None:
    server = cli.serve(say("ok"))
    schema = cli.work / "schema.json"
    schema.write_text(json.dumps({"type": "object", "properties": {"a": {"type": "string"}}}))
    picture = cli.work / "p.png"
    picture.write_bytes(PNG)
    ran = cli.exec(
        "--experimental-json", "--config", 'model_verbosity="high"', "--model", "gpt-5.5", "--thread-source", "user",
        "--sandbox", "workspace-write", "--cd", str(cli.work), "--add-dir", str(cli.home), "--skip-git-repo-check",
        "--output-schema", str(schema), "--cyber-access-program", "standard", "--config", 'model_reasoning_effort="high"',
        "--config", "sandbox_workspace_write.network_access=true", "--config", 'web_search="disabled"',
        "--config", 'approval_policy="never"', "--image", str(picture),
        stdin=b"Do it.",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    request = server.requests[0].json
    assert request["text"]["format"] == {
        "type": "json_schema",
        "strict": True,
        "name": "codex_output_schema",
        "schema": json.loads(schema.read_text()),
    }
    assert request["text"]["verbosity"] == "high"
    assert request["reasoning"]["effort"] == "high"
    assert user_texts(request)[-1] == "Do it."
    images = [part for part in request["input"][-1]["content"] if part["type"] == "input_image"]
    assert images[0]["image_url"].startswith("data:image/png;base64,")


def test_the_originator_is_that_of_the_caller(cli: Any) -> None:
    server = cli.serve(say("ok"), say("ok"))
    cli.exec("hi")
    cli.env["CODEX_INTERNAL_ORIGINATOR_OVERRIDE"] = "codex_sdk_ts"
    cli.exec("hi")
    assert [request.headers["originator"] for request in server.requests] == ["codex_exec", "codex_sdk_ts"]


def test_outside_of_a_repository_it_wants_to_be_told(cli: Any, tmp_path: Path) -> None:
    server = cli.serve(say("ok"))
    outside = tmp_path / "outside"
    outside.mkdir()
    ran = cli.exec("hi", cwd=outside)
    assert ran.status == 1
    assert "Not inside a trusted directory and --skip-git-repo-check was not specified." in ran.err
    assert cli.exec("--skip-git-repo-check", "hi", cwd=outside).status == 0
    assert len(server.requests) == 1


def test_the_version_needs_no_framework(cli: Any) -> None:
    code = (
        "import sys; from codex_framework.cli.main import main; main(['--version']);"
        " print(sorted({'asyncio', 'httpx', 'pluggy', 'click', 'attrs', 'cattrs'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [os.fspath(Path(subprocess.sys.executable)), "-c", code],
        capture_output=True,
        text=True,
        env=cli.env,
        check=True,
    )
    assert ran.stdout.splitlines()[1] == "[]"


@pytest.mark.parametrize("argv", [["--help"], ["config", "--help"], ["trust", "--help"], ["config", "get", "model"]])
def test_only_a_changed_setting_needs_the_editor_of_settings(cli: Any, argv: list[str]) -> None:
    (cli.home / "config.toml").write_text("model = 'o3'\n")
    code = (
        f"import sys; from codex_framework.cli.main import main; main({argv!r});"
        " print(sorted({'tomlkit', 'codex_framework.config.editing.files', 'codex_framework.config.editing.text'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=cli.env, cwd=cli.work, check=True
    )
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("words", [("-m", "gpt-5.4", "exec", "-m", "o3", "hi"), ("-mo3", "e", "hi")])
def test_options_before_the_command_are_taken(cli: Any, words: tuple[str, ...]) -> None:
    server = cli.serve(say("ok"))
    assert cli.run(*words).status == 0
    assert server.requests[0].json["model"] == "o3"


def test_settings_before_and_after_exec_are_joined(cli: Any) -> None:
    server = cli.serve(say("ok"))
    assert cli.run("-c", "model=a", "-c", 'model_verbosity="low"', "exec", "-c", "model=b", "hi").status == 0
    request = server.requests[0].json
    assert (request["model"], request["text"]["verbosity"]) == ("b", "low")


@pytest.mark.parametrize(
    ("words", "policy"),
    [(("-a", "never"), "never"), (("-a", "on-request"), "never"), (("--approve-for-me",), "on-request")],
)
def test_a_policy_before_exec_is_what_codex_makes_of_it(cli: Any, words: tuple[str, ...], policy: str) -> None:
    cli.serve(say("ok"))
    ran = cli.run(*words, "exec", "hi")
    assert (ran.status, f"\napproval: {policy}\n" in ran.err) == (0, True)


def test_only_never_replaces_a_policy_that_asks_about_everything(cli: Any) -> None:
    server = cli.serve(say("ok"), more='approval_policy = "untrusted"')
    assert cli.run("-a", "on-request", "exec", "hi").status == 1
    assert server.requests == []
    assert cli.run("-a", "never", "exec", "hi").status == 0


def test_a_search_before_exec_is_live(cli: Any) -> None:
    server = cli.serve(say("ok"))
    assert cli.run("--search", "exec", "hi").status == 0
    tools = {tool.get("type"): tool for tool in server.requests[0].json["tools"]}
    assert tools["web_search"]["external_web_access"] is True


def test_a_policy_that_asks_about_everything_is_refused(cli: Any) -> None:
    ran = cli.run("-a", "untrusted", "exec", "hi")
    assert ran.status == 2
    assert "[possible values: on-request, never]" in ran.err


@pytest.mark.parametrize("option", ["--oss", "--local-provider=ollama"])
def test_options_that_only_exec_has_are_refused_before_another_command(cli: Any, option: str) -> None:
    ran = cli.run(option, "plugins")
    assert ran.status == 2
    assert "these options belong to `exec`, not to `plugins`" in ran.err


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (("resume",), "codex-framework resume [OPTIONS] [THREAD] [PROMPT]"),
        (("fork",), "codex-framework fork [OPTIONS] [THREAD] [PROMPT]"),
        (("exec", "resume"), "codex-framework exec resume [OPTIONS] [THREAD] [PROMPT]"),
        (("-m", "o3", "resume"), "codex-framework resume [OPTIONS] [THREAD] [PROMPT]"),
        (("review",), "codex-framework review [OPTIONS] [PROMPT]"),
        (("exec", "review"), "codex-framework exec review [OPTIONS] [PROMPT]"),
    ],
)
def test_a_usage_line_names_its_command(cli: Any, words: tuple[str, ...], usage: str) -> None:
    assert f"Usage: {usage}\n" in cli.run(*words, "--zzz").err
    assert f"Usage: {usage}\n" in cli.run(*words, "--help").out


@pytest.mark.parametrize("words", [("version",), ("--version",), ("-V",)])
def test_the_version_is_a_command_too(cli: Any, words: tuple[str, ...]) -> None:
    ran = cli.run(*words)
    assert (ran.status, ran.out.split()[0]) == (0, "codex-framework")


@pytest.mark.parametrize(
    "words", [(), ("exec",), ("resume",), ("review",), ("mcp", "add"), ("config", "set"), ("debug", "prompt")]
)
def test_help_is_a_command_too(cli: Any, words: tuple[str, ...]) -> None:
    assert cli.run("help", *words) == cli.run(*words, "--help")
    assert cli.run("help", "frobnicate").status == 2


def test_an_unknown_command_is_told(cli: Any) -> None:
    ran = cli.run("frobnicate")
    assert ran.status == 2
    assert "No such command 'frobnicate'" in ran.err


def test_a_prompt_that_is_no_text_is_refused(cli: Any) -> None:
    ran = cli.exec(os.fsdecode(b"abc\xff"))
    assert ran.status == 1
    assert "the prompt is not valid UTF-8" in ran.err


def test_the_source_of_a_thread_is_kept(cli: Any) -> None:
    cli.serve(say("ok"))
    cli.exec("--thread-source", "nightly", "hi")
    (rollout,) = cli.rollouts()
    head = json.loads(rollout.read_text().splitlines()[0])["payload"]
    assert (head["source"], head["thread_source"]) == ("exec", "nightly")


def test_a_bug_is_called_one(cli: Any, tmp_path: Path) -> None:
    code = (
        "import sys, codex_framework.cli.exec as e; from codex_framework.cli.main import main;"
        " e.read_options = lambda *a, **k: 1 / 0; sys.exit(main(['exec', 'hi']))"
    )
    argv = [subprocess.sys.executable, "-c", code]
    ran = subprocess.run(argv, capture_output=True, text=True, env=cli.env, stdin=subprocess.DEVNULL)
    assert ran.returncode == 1
    assert ran.stderr == (
        "Error: a bug in codex-framework: ZeroDivisionError: division by zero\n"
        "Run it again with CODEX_FRAMEWORK_TRACEBACK=1 and report what it prints.\n"
    )
    told = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        env={**cli.env, "CODEX_FRAMEWORK_TRACEBACK": "1"},
        stdin=subprocess.DEVNULL,
    )
    assert "Traceback" in told.stderr


def test_a_turn_loads_nothing_that_it_does_not_use(cli: Any) -> None:
    cli.serve(say("ok"))
    cli.env["PYTHONPROFILEIMPORTTIME"] = "1"
    ran = cli.json("hi")
    assert ran.status == 0
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in ran.err.splitlines() if "|" in line}
    assert "asyncio" in loaded  # the lines have been read rightly
    assert loaded & {"click", "rich", "httpx", "cattrs", "tomlkit", "argparse", "tree_sitter", "email"} == set()


@pytest.mark.parametrize("command", ["resume", "fork"])
def test_the_help_of_the_short_commands_says_that_they_continue_in_a_terminal(command: str) -> None:
    abouts = [" ".join(exec_help(command, *program).split("\n\n")[0].split()) for program in (("codex-framework",), ())]
    assert ["In a terminal, the conversation continues there." in about for about in abouts] == [True, False]
