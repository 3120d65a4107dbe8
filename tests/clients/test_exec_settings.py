from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import call, say


def banner(ran: Any) -> dict[str, str]:
    rows = [line.partition(": ") for line in ran.err.split("--------")[1].strip().splitlines()]
    return {name: value for name, _, value in rows}


def test_without_options_nothing_may_be_written_and_nobody_is_asked(cli: Any) -> None:
    cli.serve(say("ok"))
    shown = banner(cli.exec("hi"))
    assert (shown["approval"], shown["sandbox"]) == ("never", "read-only")


def test_a_setting_that_asks_about_commands_is_not_replaced_silently(cli: Any) -> None:
    cli.serve(say("ok"))
    cli.configure(base_url=cli.servers[0].url, more='approval_policy = "untrusted"')
    ran = cli.exec("hi")
    assert ran.status == 1
    assert 'approval_policy = "untrusted"' in ran.err
    assert not cli.servers[0].requests, "no model was asked"
    assert banner(cli.exec("-c", "approval_policy=never", "hi"))["approval"] == "never"


@pytest.mark.parametrize("sandbox", ["read-only", "workspace-write"])
@pytest.mark.parametrize("approval", ["on-request", "on-failure", "never"])
def test_other_settings_keep_their_sandbox_when_nobody_can_be_asked(cli: Any, approval: str, sandbox: str) -> None:
    cli.serve(say("ok"))
    settings = f'approval_policy = "{approval}"\nsandbox_mode = "{sandbox}"'
    cli.configure(base_url=cli.servers[0].url, more=settings)
    shown = banner(cli.exec("hi"))
    assert (shown["approval"], shown["sandbox"].split()[0]) == ("never", sandbox)


def test_a_trusted_project_may_be_written(cli: Any) -> None:
    cli.serve(say("ok"))
    cli.configure(base_url=cli.servers[0].url, more=f'projects."{cli.work}".trust_level = "trusted"')
    assert banner(cli.exec("hi"))["sandbox"] == "workspace-write [workdir, /tmp, $TMPDIR]"


def test_a_profile_is_named_with_what_it_lets_be_written(cli: Any) -> None:
    cli.serve(say("ok"))
    profile = """default_permissions = "shop"
[permissions.shop]
extends = ":workspace"
[permissions.shop.filesystem]
":slash_tmp" = "read"
":workspace_roots" = { "data" = "read" }
"/srv/shop" = "write"
[permissions.shop.network]
enabled = true
domains = { "pypi.org" = "allow" }
"""
    cli.configure(base_url=cli.servers[0].url, more=profile)
    assert banner(cli.exec("hi"))["sandbox"] == (
        "workspace-write [workdir, $TMPDIR, /srv/shop] (network access through a proxy) (profile shop)"
    )


@pytest.mark.parametrize("flag", ["--yolo", "--dangerously-bypass-approvals-and-sandbox"])
def test_all_confinement_can_be_lifted(cli: Any, flag: str) -> None:
    cli.serve(say("ok"))
    cli.configure(base_url=cli.servers[0].url, more='approval_policy = "on-request"\nsandbox_mode = "read-only"')
    shown = banner(cli.exec(flag, "hi"))
    assert (shown["approval"], shown["sandbox"]) == ("never", "danger-full-access")


def test_full_auto_is_told_to_be_gone(cli: Any) -> None:
    cli.serve(say("ok"))
    ran = cli.exec("--full-auto", "hi")
    assert ran.status == 0
    assert ran.err.startswith("warning: `--full-auto` was removed")
    assert "sandbox: workspace-write" in ran.err


@pytest.mark.parametrize(("outcome", "made"), [("allow", True), ("deny", False)])
def test_a_model_can_answer_in_place_of_a_person(cli: Any, outcome: str, made: bool) -> None:
    outside = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        command = call("exec_command", cmd=f"touch {outside}/x", sandbox_permissions="require_escalated")
        answer = {"outcome": outcome, "risk_level": "medium", "user_authorization": "high", "rationale": "as asked"}
        cli.serve(command, say(json.dumps(answer)), say("done"))
        ran = cli.json("--approve-for-me", "hi")
        assert ran.status == 0
        assert (outside / "x").exists() is made
    finally:
        shutil.rmtree(outside)


@pytest.mark.parametrize("other", [("--sandbox", "read-only"), ("--yolo",)])
def test_a_reviewing_model_goes_with_no_other_mode(cli: Any, other: tuple[str, ...]) -> None:
    cli.serve(say("ok"))
    ran = cli.exec("--approve-for-me", *other, "hi")
    assert ran.status == 2
    assert "the argument '--approve-for-me' cannot be used with '--" in ran.err


def test_a_further_folder_may_be_written_and_others_not(cli: Any) -> None:
    outside = [Path(tempfile.mkdtemp(dir="/var/tmp")) for _ in range(2)]  # /tmp itself may be written
    try:
        named, other = outside
        cli.serve(call("exec_command", cmd=f"touch {named}/x; touch {other}/x"), say("ok"))
        ran = cli.json("-s", "workspace-write", "--add-dir", str(named), "hi")
        assert ran.status == 0
        assert [(folder / "x").exists() for folder in outside] == [True, False]
    finally:
        for folder in outside:
            shutil.rmtree(folder)


def test_it_works_in_the_named_folder(cli: Any) -> None:
    cli.serve(call("exec_command", cmd="pwd"), say("ok"))
    (cli.work / "sub").mkdir()
    ran = cli.json("-C", "sub", "hi")
    assert ran.items("command_execution")[0]["aggregated_output"] == f"{cli.work}/sub\n"


def test_a_profile_lies_over_the_users_settings(cli: Any) -> None:
    server = cli.serve(say("ok"))
    (cli.home / "fast.config.toml").write_text('model = "gpt-5.4"\n')
    cli.exec("-p", "fast", "hi")
    assert server.requests[0].json["model"] == "gpt-5.4"


def test_an_option_beats_an_override_beats_a_profile(cli: Any) -> None:
    server = cli.serve(say("ok"), say("ok"))
    (cli.home / "fast.config.toml").write_text('model = "gpt-5.4"\n')
    cli.exec("-p", "fast", "-c", "model=gpt-5.2", "hi")
    cli.exec("-p", "fast", "-c", "model=gpt-5.2", "-m", "gpt-5.5", "hi")
    assert [request.json["model"] for request in server.requests] == ["gpt-5.2", "gpt-5.5"]


def test_the_users_settings_can_be_left_out(cli: Any) -> None:
    server = cli.serve(say("ok"))
    (cli.home / "config.toml").write_text("broken = \n")
    ran = cli.exec(
        "--ignore-user-config", "-c", 'model_provider="m"', "-c", f'model_providers.m={{name="M",base_url="{server.url}"}}', "hi"
    )  # fmt: skip
    assert (ran.status, ran.out) == (0, "ok\n")


def test_unknown_keys_are_warnings_where_the_configuration_says_so(cli: Any) -> None:
    cli.serve(say("ok"))
    more = 'odd_key = 1\nframework.unknown_keys = "warn"'
    cli.configure(base_url=cli.servers[0].url, more=more)
    ran = cli.json("hi")
    assert ran.status == 0
    assert "odd_key" in ran.items("error")[0]["message"]
    strict = cli.json("--strict-config", "hi")
    assert strict.status == 1
    assert "odd_key" in strict.err


def test_a_local_provider_is_asked_where_it_listens(cli: Any) -> None:
    cli.serve(say("ok"))
    ran = cli.json("--oss", "--local-provider", "ollama", "-c", "model_providers.ollama.x=1", "hi")
    assert ran.status == 1  # its table cannot be changed: the name is reserved
    undecided = cli.exec("--oss", "hi")
    assert undecided.status == 1
    assert "--local-provider ollama" in undecided.err


def test_without_any_plugin_it_says_what_is_missing(cli: Any) -> None:
    cli.serve(say("ok"))
    listed = json.loads(cli.run("plugins", "--json").out)
    names = json.dumps([plugin["name"] for plugin in listed])
    ran = cli.exec("-c", f"framework.plugins.disabled={names}", "hi")
    assert ran.status == 1
    assert "no plugin serves wire_api 'responses'" in ran.err
