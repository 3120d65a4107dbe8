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
PLAIN = {"PATH", "HOME", "AWS_REGION", "EDITOR"}
CODEX = {"ignore_default_excludes": True}


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        ({}, PLAIN),
        ({"inherit": "all"}, PLAIN),
        (CODEX, set(ENVIRON)),
        ({"inherit": "core"}, {"PATH", "HOME"}),
        ({"inherit": "none"}, set()),
        ({"ignore_default_excludes": False}, PLAIN),
        ({"exclude": ["aws_*", "E?ITOR"], **CODEX}, set(ENVIRON) - {"AWS_REGION", "EDITOR"}),
        ({"exclude": ["[A]WS_REGION", "AWS"], **CODEX}, set(ENVIRON)),
        ({"include_only": ["p*", "home"]}, {"PATH", "HOME"}),
        ({"inherit": "none", "set": {"CI": "1", "X": "2"}, "include_only": ["CI"]}, {"CI"}),
        ({"exclude": None, "set": None, "include_only": [], "ignore_default_excludes": None}, PLAIN),
        ({"experimental_use_profile": True}, PLAIN),
    ],
)
def test_the_policy_decides_what_commands_inherit(policy: dict[str, Any], names: set[str]) -> None:
    assert set(command_environment(policy, ENVIRON)) == names


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN GITHUB_TOKEN npm_config__auth PGPASSWORD MYSQL_PWD_PASSWORD",
        "GOOGLE_APPLICATION_CREDENTIALS SENTRY_DSN my_secret DB_PASS SSH_KEY_PASSPHRASE SIGNING_KEYS SESSION_COOKIE",
        "AZURE_STORAGE_CONNECTION_STRING KEY_ID_FOR_X",
    ],
)
def test_what_looks_like_a_secret_does_not_reach_commands(name: str) -> None:
    names = name.split()
    assert command_environment({}, dict.fromkeys(names, "x")) == {}
    assert set(command_environment(CODEX, dict.fromkeys(names, "x"))) == set(names)
    assert set(command_environment({}, dict.fromkeys(names, "x"), keep=[names[0].lower()])) == {names[0]}


def test_what_only_looks_like_a_secret_is_left_alone() -> None:
    names = "KEYBOARD_LAYOUT SSH_ASKPASS GIT_ASKPASS SSH_AUTH_SOCK XAUTHORITY TOKENIZERS_PARALLELISM".split()
    environ = dict.fromkeys(names, "x")
    assert command_environment({}, environ) == environ


def test_a_secret_can_be_set_on_purpose() -> None:
    assert command_environment({"set": {"API_KEY": "k"}}, {"API_KEY": "other"}) == {"API_KEY": "k"}


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
