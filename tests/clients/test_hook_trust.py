"""``exec --dangerously-bypass-hook-trust``: hooks run without trust for one invocation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codex_framework.testing import say

FLAG = "--dangerously-bypass-hook-trust"
TEXT = f"`{FLAG}` is enabled. Enabled hooks may run without review for this invocation."
HOOKS = json.dumps({"hooks": {"SessionEnd": [{"hooks": [{"type": "command", "command": "echo x >> ended"}]}]}})


@pytest.fixture
def hooked(cli: Any) -> Any:
    cli.serve(say("ok"), repeat_last=True)
    (cli.home / "hooks.json").write_text(HOOKS)
    return cli


def ends(cli: Any) -> int:
    """Return how often the hook has run."""
    file = cli.work / "ended"
    return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.mark.parametrize("command", [(), ("resume", "--last")])
def test_the_flag_runs_untrusted_hooks_and_says_so(hooked: Any, command: tuple[str, ...]) -> None:
    if command:
        assert hooked.run("exec", FLAG, "First.").status == 0
    ran = hooked.run("exec", "--json", FLAG, *command, "Go.")
    assert ran.status == 0, ran.err
    assert [item["message"] for item in ran.items("error")] == [TEXT, TEXT]
    assert ran.types.index("turn.started") == 3
    assert ends(hooked) == 1 + bool(command)


def test_without_the_flag_no_untrusted_hook_runs(hooked: Any) -> None:
    ran = hooked.run("exec", "--json", "Go.")
    assert ran.status == 1
    assert "is not trusted" in ran.err
    assert ends(hooked) == 0


def test_the_setting_in_the_users_configuration_says_nothing(hooked: Any) -> None:
    ran = hooked.run("exec", "--json", "-c", "framework.plugins.hooks.bypass_trust=true", "Go.")
    assert ran.status == 0, ran.err
    assert ran.items("error") == []
    assert ends(hooked) == 1


def test_a_workspace_cannot_set_what_the_flag_sets(hooked: Any) -> None:
    (hooked.work / ".codex").mkdir()
    (hooked.work / ".codex/config.toml").write_text("[framework.plugins.hooks]\nbypass_trust = true\n")
    trust = f'projects."{hooked.work}".trust_level="trusted"'
    for more in ((), ("-c", trust)):
        ran = hooked.run("exec", "--json", *more, "Go.")
        assert ran.status == 1, ran.out
    assert ends(hooked) == 0


def test_the_flag_does_not_run_the_hooks_of_an_untrusted_workspace(hooked: Any) -> None:
    (hooked.home / "hooks.json").unlink()
    (hooked.work / ".codex").mkdir()
    (hooked.work / ".codex/hooks.json").write_text(HOOKS)
    ran = hooked.run("exec", "--json", FLAG, "Go.")
    assert ran.status == 0, ran.err
    assert ends(hooked) == 0
