"""Trust in hooks, and the errors of hooks that cannot be run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codex_framework import ConfigError
from codex_framework.testing import call, say
from tests.plugins.hooks.conftest import group, runs, warned

ECHO = [call("exec_command", cmd="echo x", login=False), say("Done.")]


def trusted(hooks, event, number=0, *, enabled=None):
    """Return settings with which a hook is trusted as it is now."""
    from codex_framework.contract.roles.plugins import ConfigLayer
    from codex_plugin_hooks.definitions import definitions
    from codex_plugin_hooks.settings import Settings

    layer = ConfigLayer(name="user", path=str(hooks.home / "config.toml"), folder=hooks.home)
    (found,) = [each for each in definitions([layer], Settings(), {}).known if each.event.name == event][number:][:1]
    state = {"trusted_hash": found.hash, **({} if enabled is None else {"enabled": enabled})}
    table = ", ".join(f"{name} = {json.dumps(value)}" for name, value in state.items())
    return f'hooks.state={{"{found.key}" = {{{table}}}}}'


def test_a_hook_that_is_not_trusted_is_an_error_before_the_first_turn(hooks, run_turn):
    hooks.write({"Stop": [hooks.python()]})
    with pytest.raises(ConfigError, match="of Stop is not trusted, so it cannot be run") as caught:
        run_turn("hello", [say("x")])
    assert caught.value.slug == "hook-trust"
    assert "codex-framework hooks trust" in caught.value.hint
    assert hooks.inputs == []


def test_a_trusted_hook_runs_until_its_definition_changes(hooks, run_turn):
    hooks.write({"PreToolUse": [group("echo no >&2; exit 2", matcher="Bash")]})
    trust = trusted(hooks, "PreToolUse")
    assert "blocked by PreToolUse hook" in run_turn("hello", ECHO, config=[trust]).outputs[0]
    for changed in (
        group("echo NO >&2; exit 2", matcher="Bash"),
        group("echo no >&2; exit 2", matcher="Bas"),
        group("echo no >&2; exit 2", matcher="Bash", timeout=5),
    ):
        hooks.write({"PreToolUse": [changed]})
        with pytest.raises(ConfigError, match="has changed since you trusted it"):
            run_turn("hello", ECHO, config=[trust])


def test_hooks_that_cannot_be_run_can_be_skipped(hooks, run_turn):
    hooks.write({"PreToolUse": ["exit 2"], "Stopp": ["true"]})
    turn = run_turn("hello", ECHO, config=['framework.plugins.hooks.unrunnable="skip"'])
    assert turn.outputs[0].endswith("x\n")
    assert sum("it is skipped" in text for text in warned(turn)) == 2


def test_a_hook_that_is_switched_off_does_not_run(hooks, run_turn):
    hooks.write({"PreToolUse": ["echo no >&2; exit 2"]})
    turn = run_turn("hello", ECHO, config=[trusted(hooks, "PreToolUse", enabled=False)])
    assert runs(turn) == []
    assert run_turn("hello", ECHO, config=["features.hooks=false"]).outputs[0].endswith("x\n")


def project(hooks, level: str) -> str:
    folder = hooks.workspace / ".codex"
    folder.mkdir()
    (hooks.workspace / ".git").mkdir()
    (hooks.workspace / ".git/HEAD").write_text("ref: x\n")
    hooks.write({"PreToolUse": ["echo project >&2; exit 2"]})
    (hooks.home / "hooks.json").rename(folder / "hooks.json")
    return f'projects={{"{hooks.workspace}" = {{trust_level = "{level}"}}}}'


def test_a_projects_hook_needs_trust_of_its_own(hooks, run_turn):
    trust = project(hooks, "trusted")
    with pytest.raises(ConfigError, match=r"\.codex/hooks\.json: the hook .* is not trusted"):
        run_turn("hello", ECHO, config=[trust])
    turn = hooks.turn(ECHO, config=[trust])
    assert [run.source for run in runs(turn)] == ["project"]


def test_a_project_cannot_trust_its_own_hooks(hooks, run_turn):
    trust = project(hooks, "trusted")
    path = hooks.workspace / ".codex/hooks.json"
    state = trusted_state(path)
    (hooks.workspace / ".codex/config.toml").write_text(f"[hooks.state]\n{state}\n")
    with pytest.raises(ConfigError, match="is not trusted"):
        run_turn("hello", ECHO, config=[trust])
    (hooks.workspace / ".codex/config.toml").write_text("[framework.plugins.hooks]\nbypass_trust = true\n")
    with pytest.raises(ConfigError, match="a project's own file cannot configure the plugin 'hooks'"):
        run_turn("hello", ECHO, config=[trust])


def trusted_state(path: Path) -> str:
    from codex_plugin_hooks.names import EVENTS
    from codex_plugin_hooks.trust import definition_hash

    handler = {"type": "command", "command": "echo project >&2; exit 2", "timeout": 600, "async": False}
    known = definition_hash(EVENTS["PreToolUse"], None, handler)
    return f'"{path}:pre_tool_use:0:0" = {{ trusted_hash = "{known}" }}'


def test_the_users_decision_about_a_projects_hook_counts(hooks, run_turn):
    trust = project(hooks, "trusted")
    state = trusted_state(hooks.workspace / ".codex/hooks.json")
    turn = run_turn("hello", ECHO, config=[trust, f"hooks.state={{{state}}}"])
    assert "project" in turn.outputs[0]


def test_hooks_of_an_untrusted_project_are_ignored_with_a_warning(hooks, run_turn):
    turn = run_turn("hello", ECHO, config=[project(hooks, "untrusted")])
    assert turn.outputs[0].endswith("x\n")
    assert any("hooks.json: ignored, because this project is not trusted" in text for text in warned(turn))


def test_hooks_of_all_sources_run_together(hooks):
    trust = project(hooks, "trusted")
    hooks.write({"PreToolUse": ["echo user >&2; exit 2"]})
    table = 'hooks.PreToolUse=[{hooks = [{type = "command", command = "echo flag >&2; exit 2"}]}]'
    turn = hooks.turn(ECHO, config=[trust, table])
    assert [run.source for run in runs(turn)] == ["user", "project", "session_flags"]
    assert "hook: user." in turn.outputs[0]


def test_the_hash_is_that_of_codex():
    from codex_plugin_hooks.names import EVENTS
    from codex_plugin_hooks.trust import definition_hash

    handler = {"type": "command", "command": "echo hi", "timeout": 600, "async": False}
    known = "sha256:3bbce6504b48cc6f0d7fe24bd36273633d1bfa5879bc87f4ed7ccd16f24d1415"  # of Codex 0.169
    assert definition_hash(EVENTS["PreToolUse"], "Bash", handler) == known


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        ("{broken", "hooks.json cannot be read: Expecting property name"),
        ("[]", "hooks.json is not an object with `hooks`"),
        ('{"hooks": []}', "hooks.json is not an object with `hooks`"),
        ("[" * 100_000, "hooks.json cannot be read"),
        ('{"hooks": {"PreToolUze": []}}', "hooks.PreToolUze is an unknown event"),
        ('{"hooks": {"Notification": []}}', "hooks.Notification is an event that does not occur here"),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop is not a list"),
        ('{"hooks": {"Stop": [5]}}', r"hooks.Stop\[0\] is not an object with a list `hooks`"),
        ('{"hooks": {"PreToolUse": [{"matcher": 5}]}}', r"hooks.PreToolUse\[0\].matcher is not text"),
        ('{"hooks": {"PreToolUse": [{"matcher": "["}]}}', r"matcher '\[' is no regular expression"),
        ('{"hooks": {"Stop": [{"hooks": ["x"]}]}}', r"hooks.Stop\[0\].hooks\[0\] is not an object"),
        ('{"hooks": {"Stop": [{"hooks": [{"type": "prompt"}]}]}}', "has the type 'prompt'"),
        ('{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": " "}]}]}}', "has no command"),
        (
            '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": "5"}]}]}}',
            "has the timeout '5'",
        ),
        ('{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "async": 1}]}]}}', "`async` that is not"),
    ],
)
def test_a_wrong_definition_is_one_clear_error(hooks, content, fact):
    (hooks.home / "hooks.json").write_text(content)
    with pytest.raises(ConfigError, match=fact) as caught:
        hooks.turn()
    assert str(caught.value).startswith(str(hooks.home / "hooks.json"))
    assert caught.value.hint


def test_unknown_fields_are_warnings(hooks):
    handler = {"type": "command", "command": "true", "once": True}
    (hooks.home / "hooks.json").write_text(json.dumps({"$schema": "x", "hooks": {"Stop": [{"hooks": [handler]}]}}))
    turn = hooks.turn()
    assert turn.final_message == "Done."
    told = [text for text in warned(turn) if "unknown" in text]
    assert ["`$schema`" in told[0], "Stop[0].hooks[0] has unknown `once`" in told[1]] == [True, True]


def test_hooks_cannot_be_set_for_one_thread(hooks, make_kernel):
    import asyncio

    async def main():
        async with make_kernel([say("x")]) as kernel:
            await kernel.start_thread(config={"hooks.Stop": []})

    with pytest.raises(ConfigError, match="is of the whole kernel"):
        asyncio.run(main())
