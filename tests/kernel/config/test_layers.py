from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.config import load_config
from codex_framework.config.keys import lookup, merge
from codex_framework.contract.errors import ConfigError


def test_without_any_file_there_is_nothing(place):
    config = place.load()
    assert config.tables == {}
    assert config.layers == ()
    assert config.warnings == ()
    assert config.codex_home == place.codex_home
    assert config.cwd == place.project


def test_each_layer_beats_the_ones_below(place):
    place.system.write_text(
        'model = "system"\nreview_model = "system"\nservice_tier = "system"\nfile_opener = "none"\n'
    )
    place.write(
        f'model = "user"\nreview_model = "user"\nservice_tier = "user"\nprojects."{place.project}".trust_level = "trusted"\n'
        'model_verbosity = "low"\n[profiles.work]\nmodel = "old profile"\nservice_tier = "old profile"\n'
    )
    place.write('model = "profile"\nmodel_reasoning_effort = "profile"\npersonality = "none"\n', "work.config.toml")
    place.write_project('model = "root"\nmodel_reasoning_effort = "root"\ncompact_prompt = "root"\n')
    place.write_project('model = "nested"\ncompact_prompt = "nested"\n', "src")
    config = place.load(
        "model=override",
        "tool_output_token_limit=5",
        cwd=place.project / "src",
        profile="work",
        flags={"model": "flag"},
    )
    expected = {
        "file_opener": "none",
        "review_model": "user",
        "model_verbosity": "low",
        "service_tier": "old profile",
        "personality": "none",
        "model_reasoning_effort": "root",
        "compact_prompt": "nested",
        "tool_output_token_limit": 5,
        "model": "flag",
    }
    assert {key: config.tables[key] for key in expected} == expected
    assert [layer.name for layer in config.layers] == [
        "system", "user", "profile", "profile", "project", "project", "override", "flags",
    ]  # fmt: skip


def test_tables_of_several_layers_are_merged_and_lists_are_replaced(place):
    place.system.write_text(
        '[shell_environment_policy]\nexclude = ["A"]\ninherit = "core"\nset = { X = "1", Y = "1" }\n'
    )
    place.write('[shell_environment_policy]\nexclude = ["B"]\nset = { Y = "2" }\n')
    assert place.load().tables == {
        "shell_environment_policy": {"exclude": ["B"], "inherit": "core", "set": {"X": "1", "Y": "2"}}
    }


def test_the_origin_of_a_key_is_the_highest_layer_that_sets_it(place):
    place.write('# a comment\nmodel = "a"\n\n[history]\npersistence = "none"\n\n[mcp_servers.s]\ncommand = "x"\n')
    place.write('\nmodel = "b"\n', "work.config.toml")
    config = place.load("history.max_bytes=5", profile="work")
    assert str(config.origin("model")) == f"{place.codex_home}/work.config.toml:2"
    assert str(config.origin("history.persistence")) == f"{place.codex_home}/config.toml:5"
    assert str(config.origin("mcp_servers.s")) == f"{place.codex_home}/config.toml:7"
    assert str(config.origin("history.max_bytes")) == "-c"
    assert config.origin("personality") is None


def test_values_are_got_by_dotted_keys(place):
    place.write('[history]\npersistence = "none"\n[projects."/a.b/c"]\ntrust_level = "untrusted"\n')
    config = place.load()
    assert config.get("history.persistence") == "none"
    assert config.get('projects."/a.b/c".trust_level') == "untrusted"
    assert config.get("history.max_bytes", 7) == 7
    assert config.get("history.persistence.deeper") is None


@pytest.mark.parametrize("how", ["argument", "key", "override"])
def test_a_profile_is_chosen_by_argument_key_or_override(place, how):
    place.write(('profile = "work"\n' if how == "key" else "") + '[profiles.work]\nmodel = "m"\n')
    overrides = ["profile=work"] if how == "override" else []
    config = place.load(*overrides, profile="work" if how == "argument" else None)
    assert config.get("model") == "m"
    assert config.origin("model").line == (3 if how == "key" else 2)


def test_the_profile_of_the_argument_counts_before_the_key(place):
    place.write('profile = "a"\n[profiles.a]\nmodel = "a"\n[profiles.b]\nmodel = "b"\n')
    assert place.load(profile="b").get("model") == "b"


def test_an_unknown_profile_is_an_error_that_lists_the_known_ones(place):
    place.write('[profiles.fast]\nmodel = "m"\n')
    place.write("", "slow.config.toml")
    error = place.error(profile="quick")
    assert str(error) == "there is no profile 'quick'; existing profiles: fast, slow"
    assert error.hint == f"Write its settings to {place.codex_home}/quick.config.toml, or name another profile."
    assert place.error(profile="fats").hint.startswith("Did you mean fast? Write its settings to ")


def test_a_profile_name_cannot_reach_outside_the_home(place):
    (place.home / "evil.config.toml").write_text('model = "evil"\n')
    assert str(place.error(profile="../evil")) == "there is no profile '../evil'; no profile exists"


def test_the_user_config_can_be_left_out(place):
    place.write('model = "user"\nnonsense = 1\n')
    assert place.load("model_verbosity=low", ignore_user_config=True).tables == {"model_verbosity": "low"}


def test_a_trusted_project_brings_its_settings_from_root_to_folder(place):
    place.trust()
    place.write_project('model = "root"\nmodel_verbosity = "low"\n')
    place.write_project('model = "deep"\n', "a/b")
    deep = place.project / "a" / "b"
    assert place.load(cwd=deep).get("model") == "deep"
    assert place.load(cwd=deep).get("model_verbosity") == "low"
    assert place.load(cwd=place.project / "a").get("model") == "root"
    assert place.load(cwd=deep).trust == "trusted"


@pytest.mark.parametrize(
    "line",
    [
        'sandbox_mode = "danger-full-access"',
        'approval_policy = "never"',
        'default_permissions = ":danger-full-access"',
        'base_instructions = "x"',
        "[shell_environment_policy]\nignore_default_excludes = true",
        '[shell_environment_policy]\nset = { PATH = "/evil" }',
        "[features]\nrequest_permissions_tool = true",
        "[framework.plugins.execpolicy]\nignore_rules = true",
        '[projects."/"]\ntrust_level = "trusted"',
        '[permissions.x.filesystem]\n"/" = "write"',
        '[mcp_servers.x]\ncommand = "evil"',
    ],
)
def test_a_folder_below_the_trusted_one_can_loosen_nothing(place, line):
    """A command may have written its file in an earlier session."""
    place.trust()
    plain = place.load()
    file = place.write_project(f'model = "deep"\n{line}\n', "a")
    config = place.load(cwd=place.project / "a")
    key = line.replace("[", "").split("]")[0].split(" ")[0].split(".")[0]
    assert config.tables == {**plain.tables, "model": "deep"}
    (warning,) = config.warnings
    assert warning.startswith(
        f"{file}:2: `{key}` is ignored, because you have trusted the project's folder and not this one"
    )
    trusted = place.load(f'projects."{place.project}/a".trust_level="trusted"', cwd=place.project / "a")
    assert trusted.get("model") == "deep"
    assert not any("not this one" in warning for warning in trusted.warnings)


@pytest.mark.parametrize("level", ["untrusted", None])
def test_the_settings_of_an_untrusted_project_are_left_out_with_a_warning(place, level):
    if level:
        place.trust(level)
    file = place.write_project("this is not even TOML")
    config = place.load()
    assert config.get("model") is None
    assert config.trust == level
    hint = f"run: codex-framework trust {place.project}"
    assert config.warnings == (f"{file}: ignored, because this project is not trusted. To trust it, {hint}",)


def test_a_project_cannot_name_servers_and_programs(place):
    place.trust()
    file = place.write_project(
        'model = "m"\nmodel_provider = "evil"\nnotify = ["evil"]\n\n[model_providers.evil]\nbase_url = "x"\n'
    )
    config = place.load()
    assert config.get("model") == "m"
    assert config.get("model_provider") is None
    assert config.get("model_providers") is None
    assert config.get("notify") is None
    assert config.warnings == tuple(
        f"{file}:{line}: `{key}` is ignored, because a project's own file cannot set it. Set it in your config.toml."
        for key, line in (("model_provider", 2), ("model_providers", 5), ("notify", 3))
    )


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("[framework.plugins]\ndisabled = ['execpolicy']", "framework.plugins.disabled"),
        ("[framework.plugins]\nprefer = ['mine']", "framework.plugins.prefer"),
        ("[framework.plugins]\npaths = ['mine.py']", "framework.plugins.paths"),
        ("[framework]\nkeep_variables = ['*']", "framework.keep_variables"),
        ("[framework]\nsandbox = 'weak'", "framework.sandbox"),
        ("[framework]\nsandbox_floor = []", "framework.sandbox_floor"),
        ("[framework]\nsandbox_limits.processes = 0", "framework.sandbox_limits"),
        ("[framework]\nsandbox_loopback = true", "framework.sandbox_loopback"),
        ("[framework]\nsandbox_private_tmp = false", "framework.sandbox_private_tmp"),
        ("[framework]\nthread_store = 'mine'", "framework.thread_store"),
        ("[framework]\nunknown_keys = 'warn'", "framework.unknown_keys"),
        ("# a program of it may be run\noss_provider = 'lmstudio'", "oss_provider"),
    ],
)
def test_a_project_cannot_choose_code_or_drop_a_safeguard(place, line, key):
    place.trust()
    file = place.write_project(f"{line}\n")
    config = place.load()
    assert config.get(key) is None
    assert config.warnings == (
        f"{file}:2: `{key}` is ignored, because a project's own file cannot set it. Set it in your config.toml.",
    )


@pytest.mark.parametrize(
    ("user", "wanted", "kept"),
    [
        ("", "max_threads = 6\nmax_depth = 1", {"max_threads": 6, "max_depth": 1}),
        ("", "max_threads = 7\nmax_depth = 0", {"max_depth": 0}),
        ("max_threads = 9\nmax_depth = 3", "max_threads = 8\nmax_depth = 4", {"max_threads": 8, "max_depth": 3}),
        ("max_threads = 2", "max_threads = 3", {"max_threads": 2}),
        ("", "max_concurrent_threads_per_session = 4", None),
        ("", "max_concurrent_threads_per_session = 3", {"max_concurrent_threads_per_session": 3}),
    ],
)
def test_a_project_can_only_lower_the_limits_of_sub_agents(place, user, wanted, kept):
    place.trust()
    file = place.codex_home / "config.toml"
    file.write_text(f"{file.read_text()}\n[agents]\n{user}\n")
    place.write_project(f"[agents]\n{wanted}\n")
    config = place.load()
    assert (config.get("agents") or None) == kept
    ignored = [line for line in wanted.splitlines() if (kept or {}).get(line.split()[0]) != int(line.split()[-1])]
    assert len(config.warnings) == len(ignored)
    assert all("a project's own file can only lower it (from " in text for text in config.warnings)


def test_a_project_can_only_lower_the_places_of_a_team(place):
    place.trust()
    place.write_project("[features.multi_agent_v2]\nmax_concurrent_threads_per_session = 5\n")
    config = place.load()
    assert not (config.get("features") or {}).get("multi_agent_v2")
    assert "can only lower it (from 4)" in config.warnings[0]


def test_a_project_cannot_trust_itself(place):
    place.write_project(f'[projects."{place.project}"]\ntrust_level = "trusted"\n')
    assert place.load().trust is None


def test_the_home_is_no_project_of_its_own(place):
    place.write(f'model = "m"\n[projects."{place.home}"]\ntrust_level = "trusted"\n')
    config = place.load(cwd=place.home)
    assert [layer.name for layer in config.layers] == ["user"]


def test_other_markers_can_mark_a_project_root(place):
    inner = place.project / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").touch()
    place.write_project('model_verbosity = "low"\n')
    place.write_project('model = "inner"\n', "inner")
    place.trust()
    assert place.load(cwd=inner).tables.keys() == {"projects", "model_verbosity", "model"}
    assert place.load('project_root_markers=["pyproject.toml"]', cwd=inner).tables.keys() == {
        "projects", "project_root_markers", "model",
    }  # fmt: skip


def test_paths_are_taken_from_the_folder_of_their_file(place):
    place.trust(also=['[sandbox_workspace_write]\nwritable_roots = ["data", "~/x", "/abs/../y"]'])
    place.write_project('model_instructions_file = "../AI.md"\n')
    config = place.load("log_dir=logs", "sqlite_home=~")
    assert config.get("sandbox_workspace_write.writable_roots") == [f"{place.codex_home}/data", f"{place.home}/x", "/y"]
    assert config.get("model_instructions_file") == f"{place.project}/AI.md"
    assert config.get("log_dir") == f"{place.project}/logs"
    assert config.get("sqlite_home") == str(place.home)


def test_paths_of_a_profile_are_absolute_too(place):
    place.write("""
        [model_providers.a.auth]
        command = "./get-token"
        cwd = "."
        [model_providers.b.auth]
        command = "x"
        cwd = "~/x"
        [model_providers.c.auth]
        command = "x"
        [profiles.p.model_providers.d.auth]
        command = "x"
        cwd = ""
    """)
    providers = place.load(profile="p").get("model_providers")
    folders = {name: table["auth"].get("cwd") for name, table in providers.items()}
    home = str(place.codex_home)
    assert folders == {"a": home, "b": f"{place.home}/x", "c": None, "d": home}, "never one of the workspace"
    place.write('[profiles.p]\nlog_dir = "logs"\n')
    assert place.load(profile="p").get("log_dir") == f"{place.codex_home}/logs"


def test_the_home_is_below_the_users_home_by_default(place):
    place.write('model = "m"\n')
    for environ in ({"HOME": str(place.home)}, {"HOME": str(place.home), "CODEX_HOME": ""}):
        config = place.load(environ=environ)
        assert config.codex_home == place.codex_home
        assert config.get("model") == "m"


def test_a_home_that_is_named_but_missing_is_created(place):
    home = place.home / "new" / "home"
    assert place.load(environ={"CODEX_HOME": str(home)}).codex_home == home
    assert home.stat().st_mode & 0o777 == 0o700


def test_a_home_that_is_no_folder_is_an_error(place):
    file = place.write("", "file")
    error = place.error(environ={"CODEX_HOME": f"{file}/home"})
    assert str(error) == f"CODEX_HOME is '{file}/home', a folder that cannot be created: Not a directory"
    assert error.hint == "Set CODEX_HOME to another folder, or unset it to use ~/.codex."
    assert str(place.error(environ={"CODEX_HOME": str(file)})) == f"CODEX_HOME is '{file}', which is not a folder"


def test_a_home_given_by_the_program_need_not_exist(place):
    config = place.load(codex_home=place.home / "fresh")
    assert config.codex_home == place.home / "fresh"
    assert config.tables == {}


def test_the_working_folder_is_made_absolute(place, monkeypatch):
    monkeypatch.chdir(place.project)
    config = load_config(cwd=Path("src/.."), environ={"HOME": str(place.home)}, system_config=place.system)
    assert config.cwd == place.project


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_an_error(place):
    path = place.write("")
    path.chmod(0)
    assert str(place.error()) == f"{path} cannot be read: permission denied"


def test_a_folder_in_the_place_of_a_file_is_an_error(place):
    path = place.codex_home / "config.toml"
    path.mkdir()
    error = place.error()
    assert str(error) == f"{path} is a folder, not a file"
    assert (error.path, error.slug) == (str(path), "config-unreadable")


def test_a_pipe_or_a_file_of_the_system_in_the_place_of_a_file_is_an_error(place):
    path = place.codex_home / "config.toml"
    os.mkfifo(path)
    assert str(place.error()) == f"{path} is not a regular file"
    path.unlink()
    path.symlink_to("/proc/self/environ")
    assert str(place.error()) == f"{path} is not a regular file"


def test_a_sparse_file_is_not_read(place):
    path = place.write("")
    os.truncate(path, 1 << 40)
    assert str(place.error()) == f"{path} is larger than 8,388,608 bytes"


@pytest.mark.parametrize(
    "line", ['projects = {"/a\\u0000b" = {trust_level = "trusted"}}', 'notify = ["a", "\\U00000000"]']
)
def test_a_character_that_no_path_may_contain_is_refused_with_its_line(place, line):
    path = place.write(f"# C:\\u000 is none\n{line}\n")
    error = place.error()
    assert (str(error), error.line) == (f"{path}:2: a string contains a NUL character", 2)


def test_an_escape_in_a_literal_string_stands_for_itself(place):
    place.write("developer_instructions = '\\u0000'\n")
    assert place.load().tables["developer_instructions"] == r"\u0000"


def test_a_file_with_a_byte_order_mark_and_crlf_is_read(place):
    (place.codex_home / "config.toml").write_bytes(b'\xef\xbb\xbfmodel = "m"\r\n[history]\r\npersistence = "none"\r\n')
    config = place.load()
    assert config.tables == {"model": "m", "history": {"persistence": "none"}}
    assert config.origin("history.persistence").line == 3


def test_two_loads_are_independent(place):
    place.write('[history]\npersistence = "none"\n')
    first = place.load("history.max_bytes=1")
    second = place.load()
    assert first.tables == {"history": {"persistence": "none", "max_bytes": 1}}
    assert second.tables == {"history": {"persistence": "none"}}


tables = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.integers() | st.lists(st.integers(), max_size=2), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner | st.integers(), max_size=3),
    max_leaves=8,
)


@given(tables)
def test_merging_with_nothing_or_with_itself_changes_nothing(table):
    assert merge(table, {}) == merge({}, table) == merge(table, table) == table


def _same_kinds(*parts):
    """Whether no key is a table in one and a value in another: then the order of merging does not matter."""
    for key in set().union(*parts):
        values = [part[key] for part in parts if key in part]
        inner = [value for value in values if isinstance(value, dict)]
        if inner and (len(inner) != len(values) or not _same_kinds(*inner)):
            return False
    return True


@given(tables, tables, tables)
def test_merging_is_associative(low, middle, high):
    if _same_kinds(low, middle, high):
        assert merge(merge(low, middle), high) == merge(low, merge(middle, high))


def _leaves(table, path=()):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


@given(tables, tables)
def test_everything_of_the_higher_layer_is_kept(low, high):
    merged = merge(low, high)
    assert all(lookup(merged, path) == value for path, value in _leaves(high))
    assert merged.keys() == low.keys() | high.keys()


def test_errors_name_where_a_setting_was_made(place):
    place.write("\n[framework.plugins.words]\nlimit = 1\n")
    config = place.load("model=x")
    assert (
        str(config.error("framework.plugins.words.limit", "too small"))
        == f"{place.codex_home}/config.toml:3: too small"
    )
    assert str(config.error("model", "bad")) == "-c: bad"
    error = config.error("personality", "missing", hint="Set it.")
    assert (str(error), error.path, error.line, error.key) == ("missing", None, None, "personality")
    assert isinstance(error, ConfigError)
