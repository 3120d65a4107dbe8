from __future__ import annotations

from typing import Any

import pytest

from codex_framework.commands.process.environment import command_environment
from codex_framework.contract.errors import ConfigError

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
        "AZURE_STORAGE_CONNECTION_STRING KEY_ID_FOR_X ANTHROPIC_API_KEY GH_TOKEN GITHUB_PAT AZURE_DEVOPS_EXT_PAT CI_JOB_JWT",
        "AWS_ACCESS_KEY_ID AZURE_CLIENT_SECRET AZURE_STORAGE_SAS_TOKEN NPM_TOKEN NODE_AUTH_TOKEN YARN_NPM_AUTH_IDENT",
        "TWINE_PASSWORD UV_PUBLISH_TOKEN CARGO_REGISTRY_TOKEN DOCKER_AUTH_CONFIG PGPASSFILE MYSQL_PWD REDISCLI_AUTH",
        "STRIPE_SECRET_KEY TWILIO_AUTH_TOKEN SLACK_BOT_TOKEN SLACK_WEBHOOK_URL HF_TOKEN HUGGING_FACE_HUB_TOKEN VAULT_TOKEN",
        "CONSUL_HTTP_AUTH SECRET_KEY_BASE GPG_PASSPHRASE SOPS_AGE_KEY DD_APP_KEY NEW_RELIC_LICENSE_KEY TF_VAR_db_password",
        "TF_TOKEN_app_terraform_io ARM_ACCESS_KEY SMTP_PASS SSHPASS DBPASS ADMIN_PW SENTRY_AUTH_TOKEN WALLET_MNEMONIC",
        "AUTHORIZATION ACTIONS_ID_TOKEN_REQUEST_TOKEN npm_config_//registry.example/:_authToken COOKIE DISCORD_WEBHOOK",
    ],
)
def test_what_looks_like_a_secret_does_not_reach_commands(name: str) -> None:
    names = name.split()
    assert command_environment({}, dict.fromkeys(names, "x")) == {}
    assert set(command_environment(CODEX, dict.fromkeys(names, "x"))) == set(names)
    assert set(command_environment({}, dict.fromkeys(names, "x"), keep=[names[0].lower()])) == {names[0]}


def test_what_only_looks_like_a_secret_is_left_alone() -> None:
    names = (  # noqa: SIM905  # reads better so
        "KEYBOARD_LAYOUT SSH_ASKPASS GIT_ASKPASS SUDO_ASKPASS SSH_AUTH_SOCK XAUTHORITY TOKENIZERS_PARALLELISM PWD OLDPWD"
        " PASSWORD_STORE_DIR MAX_TOKENS CLAUDE_CODE_MAX_OUTPUT_TOKENS CONTEXT_TOKEN_LIMIT MONKEY_PATCH SIGNING_PUBLIC_KEY"
        " TERM_SESSION_ID GIT_AUTHOR_NAME DBUS_SESSION_BUS_ADDRESS KUBECONFIG KEYTIMEOUT PYTHON_KEYRING_BACKEND NODE_PATH"
        " SSL_CERT_FILE GOOGLE_CLOUD_PROJECT AWS_PROFILE AWS_REGION RUSTFLAGS VSCODE_GIT_ASKPASS_NODE COMPASS BYPASS"
    ).split()
    environ = dict.fromkeys(names, "x")
    assert command_environment({}, environ) == environ


SECRET_VALUES = {
    "DATABASE_URL": "postgres://shop:hunter2@db.example/shop",
    "CACHE": "redis://:hunter2@cache.example:6379/0",
    "DEPLOY": "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA",
}
PLAIN_VALUES = {
    "DATABASE_URL": "postgres://localhost/shop",
    "REPOSITORY": "ssh://git@host.example:22/shop",
    "HTTPS_PROXY": "http://me:hunter2@proxy.example:3128",
    "PAGE": "https://host.example:8080/a@b:c@d",
    "CERTIFICATE": "-----BEGIN CERTIFICATE-----\nAAAA",
}


def test_addresses_with_a_password_and_private_keys_do_not_reach_commands_under_any_name() -> None:
    assert command_environment({}, SECRET_VALUES) == {}
    assert command_environment(CODEX, SECRET_VALUES) == SECRET_VALUES
    assert set(command_environment({}, SECRET_VALUES, keep=["database_*"])) == {"DATABASE_URL"}
    assert command_environment({}, PLAIN_VALUES) == PLAIN_VALUES


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


@pytest.mark.parametrize(
    ("pattern", "dropped"),
    [
        ("*", {"", "A", "AB", "AXB", "AXYB", "BA", "kB", "A\nB", "ſ", "\u212a"}),
        ("", {""}),
        ("A*", {"A", "AB", "AXB", "AXYB", "A\nB"}),
        ("*a", {"A", "BA"}),
        ("*X*", {"AXB", "AXYB"}),
        ("A*B", {"AB", "AXB", "AXYB", "A\nB"}),
        ("A*X*B", {"AXB", "AXYB"}),
        ("*X*Y*", {"AXYB"}),
        ("A*B*B", set()),
        ("AB*B", set()),
        ("A**B", {"AB", "AXB", "AXYB", "A\nB"}),
        ("A?B", {"AXB", "A\nB"}),
        ("?", {"A", "ſ", "\u212a"}),
        ("K", {"\u212a"}),
        ("k*", {"kB", "\u212a"}),
        ("s", {"ſ"}),
    ],
)
def test_a_pattern_matches_whole_names_whatever_their_case(pattern: str, dropped: set[str]) -> None:
    names = {"", "A", "AB", "AXB", "AXYB", "BA", "kB", "A\nB", "ſ", "\u212a"}
    found = command_environment({**CODEX, "exclude": [pattern]}, dict.fromkeys(names, "1"))
    assert set(found) == names - dropped
