from __future__ import annotations

from typing import Any

import pytest

from codex_framework.errors import ConfigError
from codex_framework.process.environment import command_environment

ENVIRON = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "OPENAI_API_KEY": "sk",
    "my_secret_thing": "s",
    "GITHUB_TOKEN": "t",
    "AWS_REGION": "eu",
    "EDITOR": "vi",
}


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        ({}, set(ENVIRON)),
        ({"inherit": "all"}, set(ENVIRON)),
        ({"inherit": "core"}, {"PATH", "HOME"}),
        ({"inherit": "none"}, set()),
        ({"ignore_default_excludes": False}, {"PATH", "HOME", "AWS_REGION", "EDITOR"}),
        ({"exclude": ["aws_*", "E?ITOR"]}, set(ENVIRON) - {"AWS_REGION", "EDITOR"}),
        ({"exclude": ["[A]WS_REGION", "AWS"]}, set(ENVIRON)),
        ({"include_only": ["p*", "home"]}, {"PATH", "HOME"}),
        ({"inherit": "none", "set": {"CI": "1", "X": "2"}, "include_only": ["CI"]}, {"CI"}),
        ({"exclude": None, "set": None, "include_only": [], "ignore_default_excludes": None}, set(ENVIRON)),
        ({"experimental_use_profile": True}, set(ENVIRON)),
    ],
)
def test_the_policy_decides_what_commands_inherit(policy: dict[str, Any], names: set[str]) -> None:
    assert set(command_environment(policy, ENVIRON)) == names


def test_set_wins_over_inherited_and_excluded_values() -> None:
    policy = {"inherit": "core", "exclude": ["EDITOR"], "set": {"PATH": "/opt", "EDITOR": "ed"}}
    assert command_environment(policy, ENVIRON) == {"PATH": "/opt", "HOME": "/home/me", "EDITOR": "ed"}


def test_the_threads_id_is_always_there() -> None:
    policy = {"inherit": "none", "include_only": ["NOTHING"]}
    assert command_environment(policy, ENVIRON, thread_id="t-1") == {"CODEX_THREAD_ID": "t-1"}


@pytest.mark.parametrize(
    ("policy", "key", "fact"),
    [
        ({"inherit": "some"}, "inherit", "shell_environment_policy.inherit is 'some'"),
        ({"ignore_default_excludes": "no"}, "ignore_default_excludes", "is 'no'"),
        ({"exclude": "AWS_*"}, "exclude", "is 'AWS_*'"),
        ({"include_only": [1]}, "include_only", "is [1]"),
        ({"set": {"A": 1}}, "set", "is {'A': 1}"),
        ({"set": ["A=1"]}, "set", "is ['A=1']"),
    ],
)
def test_a_malformed_policy_is_an_error_that_names_the_setting(policy: dict[str, Any], key: str, fact: str) -> None:
    with pytest.raises(ConfigError) as caught:
        command_environment(policy, ENVIRON)
    assert caught.value.key == f"shell_environment_policy.{key}"
    assert caught.value.fact.endswith(fact)
    assert caught.value.hint
