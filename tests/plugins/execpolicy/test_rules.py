"""What ``.rules`` files may say, and which command it holds for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework import ConfigError, Verdict
from codex_plugin_execpolicy.judgement import evaluate
from codex_plugin_execpolicy.rulefile import Example, parse_rules, read_rules
from codex_plugin_execpolicy.rules import NetworkRule, PrefixRule, RuleSet


def said(text: str, *command: str, resolve: bool = True) -> dict[str, object]:
    return evaluate((command,), parse_rules(text, "x.rules").rules, resolve=resolve).wire()


def test_a_rule_holds_for_commands_that_begin_with_its_words() -> None:
    text = 'prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt", justification="leaves the machine")'
    match = {"matchedPrefix": ["git", "fetch"], "decision": "prompt", "justification": "leaves the machine"}
    assert said(text, "git", "fetch", "x") == {"matchedRules": [{"prefixRuleMatch": match}], "decision": "prompt"}
    assert said(text, "git", "status") == {"matchedRules": []}
    assert said(text, "git") == {"matchedRules": []}


def test_a_rule_allows_unless_it_says_otherwise() -> None:
    assert said('prefix_rule(["ls"])', "ls")["decision"] == "allow"


def test_the_most_severe_rule_decides() -> None:
    text = 'prefix_rule(["a"])\nprefix_rule(["a", "b"], "forbidden"); prefix_rule(["a"], decision="prompt")'
    assert (said(text, "a", "b")["decision"], said(text, "a")["decision"]) == ("forbidden", "prompt")


def test_alternatives_of_the_first_word_are_rules_of_their_own() -> None:
    rules = parse_rules('prefix_rule(pattern=[["npm", "yarn"], "test"])', "x.rules").rules
    assert list(rules.prefix_rules) == [PrefixRule("npm", (("test",),)), PrefixRule("yarn", (("test",),))]


def test_a_program_given_by_its_path_is_found_by_its_name() -> None:
    text = 'prefix_rule(["git", "push"], "prompt")'
    match = {"matchedPrefix": ["git", "push"], "decision": "prompt", "resolvedProgram": "/opt/git"}
    assert said(text, "/opt/git", "push") == {"matchedRules": [{"prefixRuleMatch": match}], "decision": "prompt"}
    assert said(text, "/opt/git", "push", resolve=False) == {"matchedRules": []}
    assert said(text, "./git", "push")["decision"] == "prompt"
    assert said(text.replace("prompt", "allow"), "./git", "push") == {"matchedRules": []}


def test_a_rule_for_the_path_itself_goes_first() -> None:
    assert said('prefix_rule(["/opt/git"], "forbidden")\nprefix_rule(["git"])', "/opt/git")["decision"] == "forbidden"


def test_listed_paths_are_the_only_ones_of_a_name() -> None:
    text = 'host_executable(name="git", paths=["/opt/git"])\nprefix_rule(["git"])'
    assert said(text, "/opt/git")["decision"] == "allow"
    assert said(text, "/usr/bin/git") == {"matchedRules": []}


def test_a_name_is_allowed_for_programs_of_the_system_only() -> None:
    assert said('prefix_rule(["git"])', "/usr/bin/git")["decision"] == "allow"
    assert said('prefix_rule(["git"])', "/tmp/git") == {"matchedRules": []}


def test_network_rules_are_read() -> None:
    text = 'network_rule(host="Example.com", protocol="https", decision="deny", justification="no")'
    assert parse_rules(text, "x").rules.network == [NetworkRule("example.com", "https", Verdict.FORBID, "no")]


def test_examples_are_kept_once_they_hold() -> None:
    text = '"""Rules."""\nprefix_rule(["a"], match=["a \'b c\'", ["a"]], not_match=["b"])'
    rules = (PrefixRule("a", ()),)
    assert parse_rules(text, "x").examples == (
        Example(command=("a", "b c"), matches=True, rules=rules, line=2),
        Example(command=("a",), matches=True, rules=rules, line=2),
        Example(command=("b",), matches=False, rules=rules, line=2),
    )


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("prefix_rule(pattern=[])", "pattern cannot be empty"),
        ('prefix_rule(pattern=["a", []])', "pattern alternatives cannot be empty"),
        ('prefix_rule(pattern="a")', "pattern must be a list (got str)"),
        ('prefix_rule(pattern=["a", 1])', "pattern element must be a string or list of strings (got int)"),
        ('prefix_rule(pattern=[["a", 1]])', "pattern alternative must be a string (got int)"),
        ('prefix_rule(["a"], justification=" ")', "justification cannot be empty"),
        ('prefix_rule(["a"], justification=1)', "justification must be a string (got int)"),
        ('prefix_rule(["a"], "no")', "invalid decision: no; use one of allow, prompt, forbidden"),
        ('prefix_rule(["a"], match=["b"])', "the example `b` is not matched by its rule"),
        ('prefix_rule(["a"], not_match=["a b"])', "the example `a b` is matched by its rule, but should not be"),
        ('prefix_rule(["a"], match="a")', "match must be a list of examples (got str)"),
        ('prefix_rule(["a"], match=[""])', "example cannot be an empty string"),
        ('prefix_rule(["a"], match=[[]])', "example cannot be an empty list"),
        ('prefix_rule(["a"], match=[\'"a\'])', "example string has invalid shell syntax"),
        ('prefix_rule(["a"], match=[1])', "match: an example is a string or a list of strings (got int)"),
        ('prefix_rule(["a"], match=[[1]])', "match: an example is a string or a list of strings"),
        (
            'host_executable(name="a/b", paths=["/a/b"])',
            "host_executable name must be a bare executable name (got a/b)",
        ),
        ('host_executable(name="a", paths=["a"])', "host_executable paths must be absolute (got a)"),
        ('host_executable(name="a", paths=["/b"])', "host_executable path `/b` must have basename `a`"),
        ('host_executable(name="a", paths="/a")', "host_executable paths must be a list of strings (got str)"),
        ('network_rule("", "https", "allow")', "network_rule host cannot be empty"),
        (
            'network_rule("*.a", "https", "allow")',
            "network_rule host must be a specific host; wildcards are not allowed",
        ),
        (
            'network_rule("https://a/b", "https", "allow")',
            "network_rule host must be a hostname or IP literal (without scheme or path)",
        ),
        (
            'network_rule("a", "ftp", "allow")',
            "network_rule protocol must be one of http, https, socks5_tcp, socks5_udp (got ftp)",
        ),
        ('network_rule("a", "http", "no")', "invalid decision: no; use one of allow, prompt, forbidden, deny"),
        ("prefix_rule()", "prefix_rule needs `pattern`"),
        (
            'prefix_rule(["a"], x=1)',
            "prefix_rule has no parameter `x`; it has pattern, decision, match, not_match, justification",
        ),
        ('prefix_rule(["a"], pattern=["a"])', "prefix_rule is given `pattern` twice"),
        ('host_executable("a", [], 1)', "host_executable takes at most 2 arguments"),
        ("prefix_rule(pattern=open('x'))", "`pattern` must be a string, or a list of them, and written out"),
        ('prefix_rule(f"a")', "`pattern` must be a string, or a list of them, and written out"),
        ("prefix_rule(x)", "`pattern`: the name `x` is not given to anything above"),
        ('prefix_rule(["a"] + "b")', "`pattern` must be a string, or a list of them, and written out"),
        ('prefix_rule(("a",))', "pattern must be a list (got tuple)"),
        ('prefix_rule([("a",)])', "pattern element must be a string or list of strings (got tuple)"),
        ('x = y = "a"', "only calls of prefix_rule, network_rule and host_executable may stand here"),
        (
            'network_rule("a:b", "http", "allow")',
            "network_rule host must be a hostname or IP literal (without scheme or path)",
        ),
        (
            'network_rule("[::1", "http", "allow")',
            "network_rule host must be a hostname or IP literal (without scheme or path)",
        ),
        ("network_rule(1, 'http', 'allow')", "network_rule host must be a string (got int)"),
        ("import os", "only calls of prefix_rule, network_rule and host_executable may stand here"),
        ("foo()", "there is no function `foo`; there are prefix_rule, network_rule, host_executable"),
    ],
)
def test_a_wrong_rule_is_told_with_its_place(text: str, fact: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rules(f"\n{text}", "x.rules")
    assert str(caught.value) == f"x.rules:2:1: {fact}"
    assert (caught.value.path, caught.value.line, caught.value.slug) == ("x.rules", 2, "exec-rules")


def test_names_and_sums_are_understood() -> None:
    rules = parse_rules('tools = ["a"] + ["b"]\nprefix_rule([tools, "x" + "y"], "prompt")', "x.rules").rules
    assert [rule.prefix_of((rule.program, "xy", "z")) for rule in rules.prefix_rules] == [("xy",), ("xy",)]
    assert [rule.program for rule in rules.prefix_rules] == ["a", "b"]


@pytest.mark.parametrize("text", ["a = 'x'\n" + "a = a + a\n" * 60, "a = " + "+".join(["'a'"] * 5000)])
def test_values_that_grow_beyond_reason_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_rules(text, "x.rules")


def test_examples_may_name_a_program_by_any_path() -> None:
    assert parse_rules('prefix_rule(["a"], match=["/opt/a b"])', "x.rules").examples
    with pytest.raises(ConfigError, match="is not matched"):
        parse_rules('host_executable("a", ["/bin/a"])\nprefix_rule(["a"], match=["/opt/a b"])', "x.rules")


@pytest.mark.parametrize(
    "text", ["prefix_rule(", "a b", "\0", "(" * 500, "prefix_rule(pattern=" + "[" * 150 + "]" * 150 + ")"]
)
def test_text_that_is_no_program_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match=r"x\.rules:1:"):
        parse_rules(text, "x.rules")


@given(st.text() | st.text('prefix_rule()[]"a,=\n '))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_rules(text, "x.rules")
    except ConfigError as error:
        assert error.slug == "exec-rules"


def test_a_file_that_is_not_there_or_not_utf8_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_rules(tmp_path / "none.rules")
    (tmp_path / "odd.rules").write_bytes(b'prefix_rule(["\xff"])')
    with pytest.raises(ConfigError, match="is not UTF-8: byte 14"):
        read_rules(tmp_path / "odd.rules")


def test_a_set_without_rules_is_false() -> None:
    assert (bool(RuleSet()), RuleSet().matches(())) == (False, ())
