from __future__ import annotations

import re

import attrs
import pytest

from codex_framework.config import plugin_settings, settings_from
from codex_framework.config.settings import fallback_warning, with_overrides
from codex_framework.contract.errors import ConfigError
from codex_framework.contract.permissions.profile import permissions_of
from codex_framework.contract.protocol.policies import (
    ApprovalPolicy,
    DangerFullAccess,
    GranularApproval,
    ReadOnly,
    WorkspaceWrite,
)
from codex_framework.contract.roles.models import ModelInfo, ProviderInfo
from codex_framework.contract.roles.settings import Settings
from codex_framework.toolkit.model_catalogue import fallback_model

OPENAI = ProviderInfo(id="openai", name="OpenAI", base_url="https://api.openai.com/v1", requires_openai_auth=True)
REPLAY = ProviderInfo(id="replay", name="Replay", wire_api="replay", options={"speed": 1})
BUILTIN = {"openai": OPENAI, "replay": REPLAY}


def settings(place, text="", *overrides):
    place.write(text)
    return settings_from(place.load(*overrides), BUILTIN)


def error(place, text, *overrides):
    with pytest.raises(ConfigError) as caught:
        settings(place, text, *overrides)
    return caught.value


def test_the_defaults(place):
    assert settings(place) == Settings(
        model="gpt-6.2-sol",
        provider=OPENAI,
        approval_policy=ApprovalPolicy.ON_REQUEST,
        permissions=permissions_of(ReadOnly()),
        cwd=place.project,
    )


def test_the_default_model_depends_on_whose_server_it_is(place):
    own = '[model_providers.own]\nbase_url = "http://x/v1"\n'
    assert settings(place, own, "model_provider=own").model == "gpt-5.5"
    assert settings(place, f"{own}requires_openai_auth = true\n", "model_provider=own").model == "gpt-6.2-sol"


def test_every_setting_comes_from_its_key(place):
    text = """
model = "m"
model_provider = "p"
approval_policy = "never"
sandbox_mode = "workspace-write"
model_reasoning_effort = "xhigh"
model_reasoning_summary = "concise"
model_verbosity = "high"
service_tier = "flex"
model_context_window = 1000
tool_output_token_limit = 20
model_supports_reasoning_summaries = true
developer_instructions = "Be kind."
hide_agent_reasoning = true
show_raw_agent_reasoning = true
[history]
persistence = "none"
[shell_environment_policy]
inherit = "none"
[sandbox_workspace_write]
writable_roots = ["/data"]
network_access = true
exclude_tmpdir_env_var = true
exclude_slash_tmp = true
[model_providers.p]
name = "Proxy"
base_url = "http://x/v1"
wire_api = "replay"
env_key = "P_KEY"
env_key_instructions = "Ask Paul."
experimental_bearer_token = "t"
query_params = { a = "1" }
http_headers = { b = "2" }
env_http_headers = { c = "C" }
request_max_retries = 0
stream_max_retries = 100
stream_idle_timeout_ms = 5
script = "turns.json"
speed = { factor = 2 }
"""
    assert settings(place, text) == Settings(
        model="m",
        provider=ProviderInfo(
            id="p",
            name="Proxy",
            base_url="http://x/v1",
            wire_api="replay",
            env_key="P_KEY",
            env_key_instructions="Ask Paul.",
            experimental_bearer_token="t",
            query_params={"a": "1"},
            http_headers={"b": "2"},
            env_http_headers={"c": "C"},
            request_max_retries=0,
            stream_max_retries=100,
            stream_idle_timeout_ms=5,
            options={"script": "turns.json", "speed": {"factor": 2}},
        ),
        approval_policy=ApprovalPolicy.NEVER,
        permissions=permissions_of(WorkspaceWrite(("/data",), True, True, True)),
        cwd=place.project,
        reasoning_effort="xhigh",
        reasoning_summary="concise",
        verbosity="high",
        service_tier="flex",
        context_window=1000,
        tool_output_token_limit=20,
        reasoning=True,
        shell_environment_policy={"inherit": "none"},
        hide_agent_reasoning=True,
        show_raw_agent_reasoning=True,
    )


@pytest.mark.parametrize(
    ("level", "approval", "sandbox"),
    [
        ("trusted", ApprovalPolicy.ON_REQUEST, WorkspaceWrite()),
        ("untrusted", ApprovalPolicy.UNTRUSTED, WorkspaceWrite()),
        (None, ApprovalPolicy.ON_REQUEST, ReadOnly()),
    ],
)
def test_what_is_allowed_by_default_depends_on_trust(place, level, approval, sandbox):
    text = f'[projects."{place.project}"]\ntrust_level = "{level}"' if level else ""
    found = settings(place, text)
    assert (found.approval_policy, found.sandbox_policy) == (approval, sandbox)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ('sandbox_mode = "read-only"', ReadOnly()),
        ('sandbox_mode = "workspace-write"', WorkspaceWrite()),
        ('sandbox_mode = "danger-full-access"', DangerFullAccess()),
        ('default_permissions = ":read-only"', ReadOnly()),
        (
            'default_permissions = ":workspace"\nsandbox_workspace_write.network_access = true',
            WorkspaceWrite(),  # the table belongs to the mode
        ),
        ('default_permissions = ":danger-full-access"', DangerFullAccess()),
        ('default_permissions = ":read-only"\nsandbox_mode = "danger-full-access"', ReadOnly()),
    ],
)
def test_the_sandbox_policy_comes_from_mode_or_permissions(place, text, policy):
    assert settings(place, text).sandbox_policy == policy


def test_a_policy_that_is_sent_back_as_it_was_told_widens_nothing(place):
    found = settings(place, 'default_permissions = ":workspace-no-secrets"')
    assert found.evolve(sandbox_policy=found.sandbox_policy).permissions is found.permissions
    assert found.evolve(sandbox_policy=ReadOnly()).permissions == permissions_of(ReadOnly())


def test_a_permission_profile_that_cannot_be_applied_is_an_error(place):
    found = error(place, 'default_permissions = "strict"\n[permissions.loose]\nfilesystem = { ":root" = "read" }\n')
    assert str(found) == (
        f"{place.codex_home}/config.toml:1: there is no permission profile 'strict'; existing profiles:"
        " :read-only, :workspace, :workspace-no-secrets, :danger-full-access, loose"
    )


def test_granular_approval(place):
    text = "[approval_policy.granular]\nsandbox_approval = true\nrules = false\nmcp_elicitations = true\n"
    assert settings(place, text).approval_policy == GranularApproval(True, False, True)


def test_granular_approval_has_to_be_complete(place):
    found = error(place, "\n[approval_policy.granular]\nrules = true\n")
    assert str(found) == (
        f"{place.codex_home}/config.toml:2: `approval_policy.granular` lacks `sandbox_approval`, `mcp_elicitations`"
    )
    assert "lacks" in str(error(place, "[approval_policy]\n"))


@pytest.mark.parametrize(
    ("word", "sent"), [("fast", "priority"), ("flex", "flex"), ("default", None), ("priority", "priority")]
)
def test_a_service_tier_is_translated_for_the_request(place, word, sent):
    assert settings(place, f'service_tier = "{word}"').service_tier == sent
    slow = settings(place, f'service_tier = "{word}"\n[features]\nfast_mode = false\n')
    assert slow.service_tier == (None if sent == "priority" else sent)


def test_a_table_over_a_built_in_provider_of_a_plugin_changes_only_what_it_names(place):
    text = 'model_provider = "replay"\n[model_providers.replay]\nscript = "x"\nstream_max_retries = 0\n'
    expected = REPLAY.evolve(stream_max_retries=0, options={"speed": 1, "script": "x"})
    assert settings(place, text).provider == expected


def test_the_url_of_openai_can_be_set(place):
    assert settings(place, "", "openai_base_url=http://x/v1").provider == OPENAI.evolve(base_url="http://x/v1")
    assert settings(place, "", "openai_base_url=http://x/v1", "model_provider=replay").provider == REPLAY


@pytest.mark.parametrize("name", ["openai", "ollama", "lmstudio"])
def test_well_known_providers_cannot_be_redefined(place, name):
    found = error(place, f"[model_providers.{name}]\nbase_url = 'x'\n")
    assert str(found) == f"{place.codex_home}/config.toml:1: `model_providers.{name}` redefines a built-in provider"
    assert found.hint.startswith(f"Give it another id, for example {name}-custom")


@pytest.mark.parametrize("name", ["", " "])
def test_a_model_without_a_name_is_an_error(place, name):
    found = error(place, f'approval_policy = "never"\nmodel = "{name}"\n')
    assert str(found) == f"{place.codex_home}/config.toml:2: `model` is empty"
    assert found.hint.startswith("Name a model")


def test_an_unknown_provider_is_an_error_that_lists_the_known_ones(place):
    found = error(place, 'model_provider = "opnai"\n[model_providers.p]\nbase_url = "x"\n')
    assert (
        str(found)
        == f"{place.codex_home}/config.toml:1: unknown model provider 'opnai'; existing providers: openai, p, replay"
    )
    assert (
        found.hint == "Did you mean openai? Add a table [model_providers.opnai], or set model_provider to one of these."
    )


def test_without_any_provider_the_error_says_how_to_get_one(place):
    with pytest.raises(ConfigError) as caught:
        settings_from(place.load(), {})
    assert str(caught.value) == (
        "unknown model provider 'openai'; existing providers: none, because no plugin offers one and [model_providers] is empty"
    )
    assert caught.value.hint.startswith("Enable the plugin `openai`")


@pytest.mark.parametrize(
    ("text", "line", "fact"),
    [
        (
            "request_max_retries = 101",
            3,
            "`request_max_retries` of the model provider 'p' is 101, but at most 100 are allowed",
        ),
        (
            "stream_max_retries = 999",
            3,
            "`stream_max_retries` of the model provider 'p' is 999, but at most 100 are allowed",
        ),
        ('auth.command = "a"\nenv_key = "K"', 4, "the model provider 'p' has both `auth` and `env_key`"),
        (
            'auth.command = "a"\nexperimental_bearer_token = "K"',
            4,
            "the model provider 'p' has both `auth` and `experimental_bearer_token`",
        ),
        (
            'requires_openai_auth = true\nauth.command = "a"',
            3,
            "the model provider 'p' has both `auth` and `requires_openai_auth`",
        ),
        ('aws.region = "a"\nenv_key = "K"', 4, "the model provider 'p' has both `aws` and `env_key`"),
        ("auth = {}", 3, "`auth` of the model provider 'p' has no `command`"),
    ],
)
def test_a_provider_that_contradicts_itself_is_an_error(place, text, line, fact):
    found = error(place, f'model_provider = "p"\n[model_providers.p]\n{text}\n')
    assert str(found) == f"{place.codex_home}/config.toml:{line}: {fact}"
    assert found.hint


def test_a_table_beside_the_chosen_provider_must_not_contradict_itself(place):
    text = '[model_providers.p]\nenv_key = "A"\n[model_providers.p.auth]\ncommand = "x"\n'
    with pytest.raises(ConfigError, match="the model provider 'p' has both `auth` and `env_key`"):
        settings(place, text)


def test_limits_of_a_provider_count_when_it_is_chosen(place):
    assert settings(place, "[model_providers.p]\nrequest_max_retries = 101\n").provider == OPENAI


def test_filters_of_variables_are_lists_of_names_to_keep_and_to_drop(place):
    text = '[shell_environment_policy]\nset = { A = "1" }\nfilters = { "T_*" = "include", T_B = "exclude" }\n'
    policy = settings(place, text).shell_environment_policy
    assert policy == {"set": {"A": "1"}, "exclude": ["T_B"], "include_only": ["T_*"]}
    for older in ("exclude", "include_only"):
        with pytest.raises(ConfigError, match=f"has both `filters` and `{older}`"):
            settings(place, f'{text}{older} = ["X"]\n')


def test_filters_that_a_program_passes_count_like_those_of_a_file(place):
    found = with_overrides(settings(place, ""), {"shell_environment_policy": {"filters": {"A": "exclude"}}})
    assert found.shell_environment_policy == {"exclude": ["A"], "include_only": []}
    for wrong, told in (
        ({"filters": {"A": "exclude"}, "exclude": ["B"]}, "has both 'filters' and 'exclude'"),
        ({"filters": {"A": "drop"}}, "contains 'drop'"),
        ({"filters": ["A"]}, "contains ['A']"),
    ):
        with pytest.raises(ConfigError, match=re.escape(told)):
            with_overrides(found, {"shell_environment_policy": wrong})


def test_secrets_of_a_provider_are_not_shown(place):
    text = (
        'model_provider = "p"\n[model_providers.p]\nexperimental_bearer_token = "hush"\nhttp_headers = { a = "hush" }\n'
    )
    assert "hush" not in repr(settings(place, text))


def test_what_is_known_of_a_model_can_be_overridden(place):
    known = ModelInfo(slug="m", reasoning=False)
    assert settings(place).with_overrides(known) is known
    found = settings(
        place, "model_context_window = 9\ntool_output_token_limit = 7\nmodel_supports_reasoning_summaries = true\n"
    )
    assert found.with_overrides(known) == ModelInfo(
        slug="m", context_window=9, truncation=("tokens", 7), reasoning=True
    )
    assert found.with_overrides(fallback_model("m")).truncation == ("bytes", 28)


@pytest.mark.parametrize(
    ("wanted", "largest", "window", "usable"),
    [(100_000, 272_000, 100_000, 95_000), (900_000, 272_000, 272_000, 258_400), (900_000, None, 900_000, 855_000)],
)
def test_a_window_is_no_larger_than_the_model_has_and_clients_are_told_of_a_part(
    place, wanted, largest, window, usable
):
    """As in Codex 0.169."""
    known = ModelInfo(slug="m", max_context_window=largest)
    found = settings(place, f"model_context_window = {wanted}\n").with_overrides(known)
    assert (found.context_window, found.usable_window) == (window, usable)


def test_a_model_that_nobody_knows(place):
    assert fallback_model("x") == ModelInfo(
        slug="x",
        known=False,
        context_window=272_000,
        truncation=("bytes", 10_000),
        apply_patch="function",
        parallel_tool_calls=True,
        reasoning=True,
        default_effort=None,
        default_summary="auto",
    )
    assert fallback_warning("x") == (
        "Model metadata for `x` not found. Defaulting to fallback metadata; this can degrade performance and cause issues."
    )


@attrs.frozen
class Words:
    path: str
    limit: int = 10
    names: tuple[str, ...] = ()


@attrs.frozen
class Quiet:
    loud: bool = False


def test_a_plugin_gets_its_own_settings(place):
    place.write(
        '[framework.plugins.words]\npath = "a"\nnames = ["x", "y"]\n["framework"."plugins"."my-words"]\nloud = true\n'
    )
    config = place.load("framework.plugins.words.limit=3")
    assert plugin_settings(config, "words", Words) == Words("a", 3, ("x", "y"))
    assert plugin_settings(config, "my-words", Quiet) == Quiet(True)
    assert plugin_settings(config, "other", Quiet) == Quiet()


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        (
            "path = 'a'\nlimit = 'x'",
            ":3: invalid settings of the plugin 'words': `framework.plugins.words.limit`: it must be an integer",
        ),
        (
            "path = 'a'\nnames = [1]",
            ":3: invalid settings of the plugin 'words': `framework.plugins.words.names[0]`: it must be a string",
        ),
        (
            "path = 'a'\nnames = 1",
            ":3: invalid settings of the plugin 'words': `framework.plugins.words.names`: it must be a list",
        ),
        ("limit = 1", ":1: invalid settings of the plugin 'words': `framework.plugins.words"),
        ("path = 'a'\nlimits = 1", ":3: the plugin 'words' has no setting 'limits'; its settings: path, limit, names"),
    ],
)
def test_wrong_settings_of_a_plugin_are_an_error_with_file_and_line(place, text, fact):
    path = place.write(f"[framework.plugins.words]\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        plugin_settings(place.load(), "words", Words)
    assert str(caught.value).startswith(f"{path}{fact}")
