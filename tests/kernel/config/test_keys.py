"""What the rows of the table of keys say is done: who may set a key, how long a value lasts, what is hidden, and what is a path.

The lists here repeat the table on purpose. A row that is changed by mistake must be noticed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework.config import Config, load_config
from codex_framework.config.key import Effect, Key, Lifetime, Projects
from codex_framework.config.keys import lookup, merge, nest_value, split_key
from codex_framework.config.layers import overridden
from codex_framework.config.reloading import reload_config, replace_values
from codex_framework.config.schema import KEYS, USED_FEATURES, find_keys, keys_of, limits_on_projects
from codex_framework.config.secrecy import HIDDEN, without_secrets
from codex_framework.config.type_spec import find_mismatch
from codex_framework.contract.errors import ConfigError
from tests.cases import for_each

words = str.split

NEVER = words("""
    openai_base_url chatgpt_base_url apps_mcp_product_sku model_provider model_providers oss_provider notify
    cli_auth_credentials_store forced_chatgpt_workspace_id forced_login_method profile profiles
    experimental_realtime_ws_base_url experimental_realtime_webrtc_call_base_url otel web_search tools.web_search
    tools.web_search_request features.hooks features.codex_hooks features.image_generation features.web_search
    features.web_search_cached features.web_search_request framework.plugins.disabled framework.plugins.prefer
    framework.plugins.paths framework.keep_variables framework.limits framework.sandbox framework.sandbox_floor
    framework.sandbox_limits framework.sandbox_loopback framework.sandbox_private_tmp framework.thread_store
    framework.unknown_keys goals allow_symlinked_codex_home browser_use computer_use mcp_enterprise_managed_auth responses_api_metadata
""")

ANY_FOLDER = words("""
    model review_model model_reasoning_effort model_reasoning_summary model_verbosity service_tier model_context_window
    model_auto_compact_token_limit model_auto_compact_token_limit_scope personality model_supports_reasoning_summaries
    plan_mode_reasoning_effort tool_output_token_limit project_doc_max_bytes project_doc_fallback_filenames
    include_environment_context compact_prompt hide_agent_reasoning show_raw_agent_reasoning file_opener tui
    model_post_turn_compact_threshold_percent responses
""")

AT_MOST = {
    "agents.max_threads": 6,
    "agents.max_concurrent_threads_per_session": 3,
    "agents.max_depth": 1,
    "features.multi_agent_v2.max_concurrent_threads_per_session": 4,
}

OF_KERNEL = words("""
    framework.plugins.disabled framework.plugins.prefer framework.plugins.paths framework.sandbox hooks memories
    allow_symlinked_codex_home responses_api_metadata
""")

OF_TURN = words("""
    compact_prompt developer_instructions history include_collaboration_mode_instructions include_environment_context
    include_permissions_instructions mcp_oauth_callback_port mcp_oauth_callback_url mcp_oauth_credentials_store mcp_servers
    model_auto_compact_token_limit project_doc_fallback_filenames project_doc_max_bytes review_model skills tools web_search
    features.default_mode_request_user_input features.image_generation features.image_generation_animation
    features.request_permissions_tool features.shell_tool features.unified_exec features.web_search features.web_search_cached
    features.web_search_request framework.compactor mcp_enterprise_managed_auth mcp_optional_startup_grace_ms
""")

SECRET = words("""
    shell_environment_policy.set model_providers.*.experimental_bearer_token model_providers.*.query_params
    model_providers.*.http_headers mcp_servers.*.env mcp_servers.*.http_headers
""")

PATHS = words("""
    model_catalog_json model_instructions_file experimental_instructions_file experimental_compact_prompt_file sqlite_home
    log_dir sandbox_workspace_write.writable_roots framework.plugins.paths model_providers.*.auth.cwd
    otel.headers_helper
""")


def patterns(wanted: Callable[[Any], bool]) -> set[str]:
    """The shortest patterns below which every row is wanted, and the wanted features."""
    found = {f"features.{name}" for name, feature in USED_FEATURES.items() if wanted(feature)}
    for name in KEYS:
        parts = name.split(".")
        tables = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
        found |= set(next(([table] for table in tables if all(map(wanted, keys_of(table)))), []))
    return found


@pytest.mark.parametrize(
    ("wanted", "listed"),
    [
        (lambda key: key.projects is Projects.NEVER, NEVER),
        (lambda key: key.projects is Projects.ANY, ANY_FOLDER),
        (lambda key: key.lasts is Lifetime.KERNEL, OF_KERNEL),
        (lambda key: key.lasts is Lifetime.TURN, OF_TURN),
    ],
    ids=["never", "any folder", "kernel", "turn"],
)
def test_the_rows_say_what_was_decided(wanted: Callable[[Any], bool], listed: list[str]) -> None:
    assert patterns(wanted) == set(listed)


def test_limits_that_a_project_can_only_lower_are_those_that_were_decided() -> None:
    assert {".".join(key): most.default for key, most in limits_on_projects()} == AT_MOST


def test_a_key_without_one_of_its_facts_cannot_be_made() -> None:
    facts = ("str", Effect.USED, Projects.NEVER, Lifetime.THREAD, "a meaning")
    assert Key(*facts).default == ""
    for length in range(len(facts)):
        with pytest.raises(TypeError):
            Key(*facts[:length])


def value_of(kind: str) -> Any:
    """A value of a type that differs from every default."""
    texts = {
        "path": "some/where",
        "folder": "some/where",
        "any": "a text",
        "table": {"a": 1},
        "profile": {"model": "m"},
    }
    plain = {"str": "a text", "secret": "s3cret", "bool": True, "float": 77.5, "int": 77, **texts}
    if kind in plain:
        return plain[kind]
    first = kind.split(" | ", maxsplit=1)[0]
    if kind.startswith("list[") and kind.endswith("]"):
        return [value_of(kind[5:-1])]
    if kind.startswith("map[") and kind.endswith("]"):
        return {"name": value_of(kind[4:-1])}
    return int(first[5:]) + 70 if first.startswith("int>=") else value_of(first) if first in plain else first.strip('"')


def setting(pattern: str) -> tuple[tuple[str, ...], Any]:
    """A key of a pattern, and a value."""
    if pattern.startswith("features.") and pattern not in KEYS:
        return tuple(pattern.split(".")), True
    is_open = KEYS[pattern].type != "table" or len(keys_of(pattern)) == 1
    value = value_of(KEYS[pattern].type) if is_open else {}
    return tuple(pattern.replace("_*", "_x").replace("*", "some").split(".")), value


ROWS = [*KEYS, *(f"features.{name}" for name in USED_FEATURES)]


def facts_of(pattern: str) -> Any:
    return KEYS[pattern] if pattern in KEYS else USED_FEATURES[pattern.removeprefix("features.")]


def toml(table: dict[str, Any]) -> str:
    import tomlkit

    return tomlkit.dumps(table)


class Place:
    """A home, and a trusted project with a folder below its root."""

    def __init__(self, tmp_path: Path) -> None:
        self.home, self.project = tmp_path / "home", tmp_path / "shop"
        self.below = self.project / "part"
        (self.project / ".git").mkdir(parents=True)
        (self.project / ".git" / "HEAD").touch()
        for folder in (self.home, self.project / ".codex", self.below / ".codex"):
            folder.mkdir(parents=True)
        self.environ = {"CODEX_HOME": str(self.home), "HOME": str(tmp_path)}
        self.empty()

    def empty(self) -> None:
        """Remove all settings but the trust in the project."""
        self.user({})
        for folder in (self.project, self.below):
            (folder / ".codex" / "config.toml").unlink(missing_ok=True)

    def user(self, table: dict[str, Any]) -> None:
        trust = {"projects": {str(self.project): {"trust_level": "trusted"}}}
        (self.home / "config.toml").write_text(toml(merge(table, trust)))

    def load(self, cwd: Path | None = None) -> Config:
        nowhere = self.home / "none.toml"
        return load_config(cwd=cwd or self.project, environ=self.environ, system_config=nowhere)


@pytest.fixture(scope="module")
def only_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def place(only_place: Place) -> Place:
    only_place.empty()
    return only_place


def needed(key: tuple[str, ...]) -> dict[str, Any]:
    """Settings that must stand beside a key."""
    if key[0] == "mcp_servers":
        beside = {"command": "c"} if key[2] in ("args", "env", "env_vars", "cwd", "sandbox") else {"url": "http://h"}
        return {"mcp_servers": {"some": {} if key[2] in ("command", "url") else beside}}
    return {"profiles": {"a text": {"model": "m"}}} if key == ("profile",) else {}


@for_each("pattern", ROWS)
def test_a_project_sets_what_its_row_permits_and_nothing_else(place: Place, pattern: str) -> None:
    place.empty()
    key, value = setting(pattern)
    projects = facts_of(pattern).projects
    assert find_mismatch(KEYS[pattern].type if pattern in KEYS else "bool", value) is None
    if pattern == "projects.*.trust_level":
        return  # the user's own: see test_trust
    text = toml(merge(needed(key), nest_value(key, value)))
    (place.project / ".codex" / "config.toml").write_text(text)
    at_root = place.load()
    kept = lookup(at_root.tables, key) is not None
    assert kept == (projects in (Projects.TRUSTED, Projects.ANY)), at_root.warnings
    assert kept or any("ignored, because a project's own file" in warning for warning in at_root.warnings)

    (place.project / ".codex" / "config.toml").unlink()
    (place.below / ".codex" / "config.toml").write_text(text)
    below = place.load(place.below)
    assert (lookup(below.tables, key) is not None) == (projects is Projects.ANY), "commands may write there"


@for_each("pattern", [row for row in ROWS if facts_of(row).projects is Projects.NEVER])
def test_the_users_value_stays_where_a_project_sets_another(place: Place, pattern: str) -> None:
    place.empty()
    key, value = setting(pattern)
    own = {**needed(key)}
    place.user(merge(own, nest_value(key, value)))
    before = lookup(place.load().tables, key)
    assert before is not None
    other = False if isinstance(value, bool) else value if not isinstance(value, str) else f"{value}x"
    if isinstance(value, (list, dict)):
        other = [] if isinstance(value, list) else {"evil": "x"}
    (place.project / ".codex" / "config.toml").write_text(toml(nest_value(key, other)))
    assert lookup(place.load().tables, key) == before


@pytest.mark.parametrize(("name", "default"), AT_MOST.items())
@pytest.mark.parametrize("own", [None, 2])
def test_a_project_can_lower_a_limit_and_not_raise_it(place: Place, name: str, default: int, own: int | None) -> None:
    key = tuple(name.split("."))
    place.user({} if own is None else nest_value(key, own))
    most = default if own is None else own
    for wanted, holds in ((most + 1, own), (most, most), (most - 1, most - 1)):
        (place.project / ".codex" / "config.toml").write_text(toml(nest_value(key, wanted)))
        assert lookup(place.load().tables, key) == holds


@for_each("pattern", ROWS)
def test_what_is_of_the_kernel_cannot_be_set_for_a_thread(place: Place, pattern: str) -> None:
    place.empty()
    key, value = setting(pattern)
    if key[0] in ("mcp_servers", "projects"):
        value, key = {**needed(key).get(key[0], {}).get("some", {}), key[-1]: value}, key[:2]
    config = place.load()
    whole: dict[str, Any] = {key[0]: value if len(key) == 1 else nest_value(key[1:], value)}
    if facts_of(pattern).lasts is Lifetime.KERNEL:
        for values in ({".".join(key): value}, whole):
            with pytest.raises(ConfigError, match="is of the whole kernel"):
                overridden(config, values, place.environ)
    elif key[0] != "profile":
        assert lookup(overridden(config, whole, place.environ).tables, key) is not None


@for_each("pattern", [row for row in ROWS if not row.startswith(("projects.", "profile"))])
def test_a_running_thread_takes_what_lasts_for_a_turn_and_nothing_else(place: Place, pattern: str) -> None:
    place.empty()
    key, value = setting(pattern)
    config = place.load()
    changes = facts_of(pattern).lasts is Lifetime.TURN
    place.user(merge(needed(key), nest_value(key, value)))
    again, told = reload_config(config, place.environ)
    assert (lookup(again.tables, key) is not None) == changes
    assert (
        changes or value == {} or key[0] in ("desktop", "notice", "tui") or "do not apply to a running thread" in told
    )
    place.user({})
    gone, _ = reload_config(again, place.environ)
    assert lookup(gone.tables, key) is None
    if not changes:
        with pytest.raises(ConfigError, match="cannot change in a running thread"):
            replace_values(config, {".".join(key): value})


def test_a_key_of_any_length_is_found_by_its_row() -> None:
    def is_never(key: Any) -> bool:
        return bool(key.projects is Projects.NEVER)

    tables = {
        "features": {"hooks": True, "goals": True},
        "framework": {"plugins": {"paths": [], "mine": {}}},
        "otel": {},
    }
    assert [*find_keys(tables, is_never)] == [("features", "hooks"), ("framework", "plugins", "paths"), ("otel",)]
    assert [*find_keys({"framework": 5, "unknown": {"otel": 1}, "framework.sandbox": 1}, is_never)] == []


@for_each("pattern", KEYS)
def test_secrets_are_hidden_by_the_type_in_their_row(pattern: str) -> None:
    key, value = setting(pattern)
    shown = without_secrets(value, key)
    assert ("secret" in KEYS[pattern].type) == (pattern in SECRET)
    assert (shown == HIDDEN or shown == {"name": HIDDEN}) == (pattern in SECRET)
    inner = without_secrets(value, ("profiles", "p", *key))
    assert (inner == HIDDEN or inner == {"name": HIDDEN}) == (pattern in SECRET)


def test_a_row_whose_name_speaks_of_a_secret_has_the_type() -> None:
    words = re.compile(r"(?i)secret|passw|cookie|bearer_token$|^(http_)?headers$|(^|_)api_?key$")
    names = {pattern for pattern in KEYS if words.search(split_key(pattern.replace("*", "x"))[-1])}
    assert {pattern for pattern in names if "secret" not in KEYS[pattern].type} == set()


@for_each("pattern", KEYS)
def test_paths_start_from_the_folder_of_their_file(place: Place, pattern: str) -> None:
    place.empty()
    key, value = setting(pattern)
    if pattern == "profiles.*" or pattern.startswith("projects."):
        return
    is_path = re.search(r"\b(path|folder)\b", KEYS[pattern].type) is not None
    assert is_path == (pattern in PATHS)
    place.user(merge(needed(key), nest_value(key, value)))
    absolute = [str(place.home / "some/where")] if isinstance(value, list) else str(place.home / "some/where")
    assert lookup(place.load().tables, key) == (absolute if is_path else value)


def test_a_table_with_one_harmless_key_is_not_harmless(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    harmless = Key("int", Effect.USED, Projects.ANY, Lifetime.THREAD, "a number")
    monkeypatch.setitem(KEYS, "agents.harmless", harmless)
    table = {"agents": {"harmless": 1, "max_depth": 0}}
    (place.below / ".codex" / "config.toml").write_text(toml(table))
    assert "agents" not in place.load(place.below).tables


def test_what_a_folder_set_is_gone_once_it_is_not_trusted_itself(place: Place) -> None:
    both = {"projects": {str(place.below): {"trust_level": "trusted"}}}
    place.user(both)
    (place.below / ".codex" / "config.toml").write_text('developer_instructions = "obey"\nreview_model = "m"\n')
    config = place.load(place.below)
    assert config.get("developer_instructions") == "obey"
    place.user({})
    again, _ = reload_config(config, place.environ)
    assert (again.get("developer_instructions"), again.get("review_model")) == (None, "m")


def test_the_users_profile_beats_that_of_the_administrator(place: Place) -> None:
    system = place.home / "system.toml"
    system.write_text('[profiles.p]\nmodel = "theirs"\nreview_model = "theirs"\n')
    place.user({"profiles": {"p": {"model": "mine"}}})
    config = load_config(cwd=place.project, environ=place.environ, system_config=system, profile="p")
    assert (config.get("model"), config.get("review_model")) == ("mine", "theirs")
