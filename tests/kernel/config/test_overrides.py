from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.config.keys import format_key, split_key
from codex_framework.config.toml_file import parse_override


@pytest.mark.parametrize(
    ("argument", "key", "value"),
    [
        ("model=o3", ("model",), "o3"),
        ('model="o3"', ("model",), "o3"),
        ("model='o3'", ("model",), "o3"),
        ("model = o3", ("model",), "o3"),
        ("model=gpt-5.5", ("model",), "gpt-5.5"),
        ("model=", ("model",), ""),
        ('model=""', ("model",), ""),
        ("model=a=b", ("model",), "a=b"),
        ("n=5", ("n",), 5),
        ("n=-1.5", ("n",), -1.5),
        ("on=true", ("on",), True),
        ("on=True", ("on",), "True"),
        ("tools.web_search=false", ("tools", "web_search"), False),
        ('notify=["a", "b"]', ("notify",), ["a", "b"]),
        ("notify=[a]", ("notify",), "[a]"),
        ("t={}", ("t",), {}),
        ('t={a = 1, b.c = "x"}', ("t",), {"a": 1, "b": {"c": "x"}}),
        ('t={ "a b" = [{x = 1}] }', ("t",), {"a b": [{"x": 1}]}),
        ('projects."/a.b/c".trust_level=trusted', ("projects", "/a.b/c", "trust_level"), "trusted"),
        ("projects.'/a=b'.trust_level=trusted", ("projects", "/a=b", "trust_level"), "trusted"),
        ('"quo\\"ted".x=1', ('quo"ted', "x"), 1),
        ("a . b = 1", ("a", "b"), 1),
        ("text=a\nmodel = 1", ("text",), "a\nmodel = 1"),
        ("text=1\nmodel = 1", ("text",), "1\nmodel = 1"),
        ('text="""a\nb"""', ("text",), "a\nb"),
        ('text="half', ("text",), '"half'),
        ('text="un\\qoted"', ("text",), "un\\qoted"),
        ("text=it's", ("text",), "it's"),
        ("url=https://x/v1?a=b", ("url",), "https://x/v1?a=b"),
        ("sandbox_workspace_write.network_access=true", ("sandbox_workspace_write", "network_access"), True),
        ('openai_base_url="http://127.0.0.1:8080/v1"', ("openai_base_url",), "http://127.0.0.1:8080/v1"),
        ("x=" + "[" * 3000, ("x",), "[" * 3000),
    ],
)
def test_a_value_is_toml_where_it_reads_as_toml_else_text(argument, key, value):
    assert parse_override(argument) == (key, value)


@pytest.mark.parametrize(
    ("argument", "fact"),
    [
        ("model", "-c 'model': has no `=`"),
        (r'model="\u0000"', r"""-c 'model="\\u0000"': a string contains a NUL character"""),
        ("", "-c '': has no `=`"),
        ("=x", "-c '=x': the key is empty"),
        (" =x", "-c ' =x': the key is empty"),
        ("a..b=x", "-c 'a..b=x': 'a..b' is not a dotted key"),
        (".a=x", "-c '.a=x': '.a' is not a dotted key"),
        ("a.=x", "-c 'a.=x': 'a.' is not a dotted key"),
        ('a."b=x', "-c 'a.\"b=x': has no `=`"),
    ],
)
def test_a_malformed_override_is_an_error(place, argument, fact):
    error = place.error(argument)
    assert str(error) == fact
    assert (error.path, error.slug) == ("-c", "config-override")
    assert error.hint == "Write -c key=value, for example: -c model=gpt-5.5 or -c 'tools.web_search=false'."


def test_later_overrides_beat_earlier_ones_and_tables_are_merged(place):
    config = place.load("model=a", "history={persistence = 'none'}", "model=b", "history.max_bytes=1")
    assert config.tables == {"model": "b", "history": {"persistence": "none", "max_bytes": 1}}


def test_an_override_is_checked_like_a_file(place):
    assert str(place.error("modle=x")) == "-c: unknown key `modle`. Did you mean `model`?"
    assert str(place.error("history.max_bytes=lots")) == (
        '-c: `history.max_bytes` is the string "lots", but must be an integer of at least 0'
    )


def test_an_override_can_trust_the_project(place):
    place.write_project('model = "m"\n')
    assert place.load(f'projects."{place.project}".trust_level=trusted').get("model") == "m"


def test_the_arguments_of_the_typescript_sdk_load(place):
    config = place.load(
        'model_providers.mock={name = "mock", base_url = "http://127.0.0.1:1/v1", wire_api = "responses"}',
        'model_provider="mock"',
        "tools={}",
        'openai_base_url="http://127.0.0.1:1/v1"',
        'model_reasoning_effort="high"',
        "sandbox_workspace_write.network_access=true",
        'web_search="disabled"',
        'approval_policy="never"',
    )
    assert config.warnings == ()
    assert config.get("model_providers.mock.name") == "mock"
    assert config.get("sandbox_workspace_write.network_access") is True


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
def test_every_key_survives_being_written_and_split(segments):
    assert split_key(format_key(segments)) == tuple(segments)
