"""What a running thread takes over from the user's file, read again, and from keys that a client replaces."""

from __future__ import annotations

import pytest

from codex_framework.config.reloading import reload_config, replace_values
from codex_framework.contract.errors import ConfigError


def again(place, config):
    return reload_config(config, {"HOME": str(place.home)})


def test_what_is_read_each_turn_is_taken_and_the_rest_is_told(place):
    place.write('model = "a"\ncompact_prompt = "one"\n[features]\nshell_tool = true\nhooks = true\n[tui]\nx = 1\n')
    config = place.load()
    place.write(
        'model = "b"\ndeveloper_instructions = "d"\n[features]\nshell_tool = false\nhooks = false\n[tui]\nx = 2\n'
    )
    new, waiting = again(place, config)
    assert new.tables == {
        "model": "a",
        "developer_instructions": "d",
        "features": {"shell_tool": False, "hooks": True},
        "tui": {"x": 1},
    }
    assert waiting.startswith(f"{place.codex_home / 'config.toml'}: ")
    assert "`model`" in waiting
    assert "`features.hooks`" in waiting
    assert "tui" not in waiting
    assert "compact_prompt" not in waiting
    assert new.error("developer_instructions", "bad").line == 2


def test_a_removed_server_is_gone_with_its_table(place):
    place.write('[mcp_servers.a]\ncommand = "x"\n[mcp_servers.b]\ncommand = "y"\n')
    config = place.load()
    place.write('[mcp_servers.b]\ncommand = "y"\n')
    assert again(place, config)[0].tables == {"mcp_servers": {"b": {"command": "y"}}}
    place.write("")
    assert again(place, config)[0].tables == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model = ", "not valid TOML"),
        ("compact_prompt = 7", "compact_prompt"),
        ("compact_promt = 'x'", "compact_promt"),
        ("[mcp_servers.a]\ncommand = 'x'\nurl = 'http://x'", "'a' has both"),
        ("[profiles.w]\ncompact_prompt = 7", "compact_prompt"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_its_place(place, text, told):
    config = place.load()
    place.write(text)
    with pytest.raises(ConfigError, match=told) as caught:
        again(place, config)
    assert str(place.codex_home) in str(caught.value)


def test_higher_layers_still_win_and_the_profile_is_read_again(place):
    place.write('profile = "w"\ncompact_prompt = "user"\nreview_model = "user"\n[profiles.w]\nreview_model = "p"\n')
    place.write('developer_instructions = "old"\n', "w.config.toml")
    config = place.load('compact_prompt="flag"')
    place.write('profile = "w"\ncompact_prompt = "new"\nreview_model = "new"\n[profiles.w]\nreview_model = "q"\n')
    place.write('developer_instructions = "new"\n', "w.config.toml")
    tables = again(place, config)[0].tables
    assert tables["compact_prompt"] == "flag"
    assert tables["review_model"] == "q"
    assert tables["developer_instructions"] == "new"


def test_a_file_that_was_left_out_stays_so(place):
    config = place.load(ignore_user_config=True)
    place.write('compact_prompt = "user"')
    assert again(place, config)[0].tables == {}


def test_the_file_of_a_project_is_not_read_again_and_counts_only_while_it_is_trusted(place):
    place.trust()
    place.write_project('compact_prompt = "project"\n[tools]\nview_image = true\n')
    config = place.load()
    place.write_project('compact_prompt = "changed by a command"\n')
    assert again(place, config)[0].tables["compact_prompt"] == "project"
    place.trust("untrusted")
    new, _ = again(place, config)
    assert "compact_prompt" not in new.tables
    assert "tools" not in new.tables
    assert [layer.name for layer in new.layers] == ["user"]


def test_replaced_tables_lose_what_was_in_them(place):
    place.write('[mcp_servers.a]\ncommand = "x"\n')
    config = replace_values(place.load(), {"mcp_servers": {"b": {"command": "y"}}, "compact_prompt": "c"})
    assert config.tables == {"mcp_servers": {"b": {"command": "y"}}, "compact_prompt": "c"}
    config = replace_values(config, {"mcp_servers": {"c": {"command": "z"}}})
    assert config.tables["mcp_servers"] == {"c": {"command": "z"}}
    config = replace_values(config, {"mcp_servers": {"c": {"command": "z"}}})
    assert [layer.name for layer in config.layers] == ["user", "override", "override"], "layers do not pile up"
    place.write('[mcp_servers.d]\ncommand = "w"\n')
    assert again(place, config)[0].tables == {"mcp_servers": {"c": {"command": "z"}}, "compact_prompt": "c"}
    assert replace_values(config, {"mcp_servers": None}).tables == {"compact_prompt": "c"}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"sandbox_mode": "danger-full-access"}, "cannot change in a running thread"),
        ({"framework.sandbox": "none"}, "cannot change in a running thread"),
        ({"features.hooks": False}, "cannot change in a running thread"),
        ({"mcp_servers": {"a": {"command": 7}}}, "mcp_servers.a.command"),
        ({"mcp_servers": {"a": {"command": "x", "url": "http://x"}}}, "'a' has both"),
        ({"mcp_servers": 5}, "mcp_servers"),
    ],
)
def test_what_cannot_be_replaced_is_refused(place, values, told):
    with pytest.raises(ConfigError, match=told):
        replace_values(place.load(), values)
