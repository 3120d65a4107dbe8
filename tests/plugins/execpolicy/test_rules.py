"""What ``.rules`` files may say, and which command it holds for."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_framework import ConfigError, Verdict
from codex_plugin_execpolicy.calls import Example
from codex_plugin_execpolicy.judgement import evaluate
from codex_plugin_execpolicy.rulefile import RuleFile, parse_rules, read_rules
from codex_plugin_execpolicy.rules import NetworkRule, PrefixRule, RuleSet


def read(text: str) -> RuleFile:
    return parse_rules(text.encode(), "x.rules")


def said(text: str, *command: str, resolve: bool = True) -> dict[str, object]:
    return evaluate((command,), read(text).rules, resolve=resolve).wire()


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
    rules = read('prefix_rule(pattern=[["npm", "yarn"], "test"])').rules
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
    assert read(text).rules.network == [NetworkRule("example.com", "https", Verdict.FORBID, "no")]


def test_examples_are_kept_once_they_hold() -> None:
    text = '"""Rules."""\nprefix_rule(["a"], match=["a \'b c\'", ["a"]], not_match=["b"])'
    rules = (PrefixRule("a", ()),)
    assert read(text).examples == (
        Example(command=("a", "b c"), matches=True, rules=rules, line=2),
        Example(command=("a",), matches=True, rules=rules, line=2),
        Example(command=("b",), matches=False, rules=rules, line=2),
    )


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("prefix_rule(pattern=[])", "pattern cannot be empty"),
        ('prefix_rule(pattern=["a", []])', "pattern alternatives cannot be empty"),
        ('prefix_rule(pattern="a")', "pattern must be a list (got string)"),
        ('prefix_rule(pattern=["a", 1])', "pattern element must be a string or list of strings (got int)"),
        ('prefix_rule(pattern=[["a", 1]])', "pattern alternative must be a string (got int)"),
        ('prefix_rule(["a"], justification=" ")', "justification cannot be empty"),
        ('prefix_rule(["a"], justification=1)', "justification must be a string (got int)"),
        ('prefix_rule(["a"], "no")', "invalid decision: no; use one of allow, prompt, forbidden"),
        ('prefix_rule(["a"], match=["b"])', "the example `b` is not matched by its rule"),
        ('prefix_rule(["a"], not_match=["a b"])', "the example `a b` is matched by its rule, but should not be"),
        ('prefix_rule(["a"], match="a")', "match must be a list of examples (got string)"),
        ('prefix_rule(["a"], match=[""])', "example cannot be an empty string"),
        ('prefix_rule(["a"], match=[[]])', "example cannot be an empty list"),
        ('prefix_rule(["a"], match=[\'"a\'])', "example string has invalid shell syntax"),
        ('prefix_rule(["a"], match=[1])', "match: an example is a string or a list of strings (got int)"),
        ('prefix_rule(["a"], match=[[1]])', "match: the words of an example are strings (got int)"),
        (
            'host_executable(name="a/b", paths=["/a/b"])',
            "host_executable name must be a bare executable name (got a/b)",
        ),
        ('host_executable(name="a", paths=["a"])', "host_executable paths must be absolute (got a)"),
        ('host_executable(name="a", paths=["/b"])', "host_executable path `/b` must have basename `a`"),
        ('host_executable(name="a", paths="/a")', "host_executable paths must be a list of strings (got string)"),
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
        ('prefix_rule("a")', "pattern must be a list (got string)"),
        ('prefix_rule(["a", [["b"]]])', "pattern alternative must be a string (got list)"),
        ('prefix_rule(("a",))', "pattern must be a list (got tuple)"),
        ('prefix_rule([("a",)])', "pattern element must be a string or list of strings (got tuple)"),
        ('prefix_rule([["a", ("b",)]])', "pattern alternative must be a string (got tuple)"),
        ('prefix_rule(["a"], justification=None)', "justification must be a string (got NoneType)"),
        ('prefix_rule(["a"], None)', "invalid decision: NoneType; use one of allow, prompt, forbidden"),
        ('prefix_rule(["a"], match=[("a", "b")])', "match: an example is a string or a list of strings (got tuple)"),
        ('prefix_rule(["a"], match=["# a"])', "example cannot be an empty string"),
        (
            'network_rule("a:b", "http", "allow")',
            "network_rule host must be a hostname or IP literal (without scheme or path)",
        ),
        (
            'network_rule("[::1", "http", "allow")',
            "network_rule host must be a hostname or IP literal (without scheme or path)",
        ),
        ("network_rule(1, 'http', 'allow')", "network_rule host must be a string (got int)"),
    ],
)
@pytest.mark.parametrize("first_line", ["", "x = 1"])  # with the second one, the text is Starlark and no list of calls
def test_a_wrong_rule_is_told_with_its_place(first_line: str, text: str, fact: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(f"{first_line}\n{text}")
    assert str(caught.value) == f"x.rules:2: {fact}"
    assert (caught.value.path, caught.value.line, caught.value.slug) == ("x.rules", 2, "exec-rules")


def test_examples_may_name_a_program_by_any_path() -> None:
    assert read('prefix_rule(["a"], match=["/opt/a b"])').examples
    with pytest.raises(ConfigError, match="is not matched"):
        read('host_executable("a", ["/bin/a"])\nprefix_rule(["a"], match=["/opt/a b"])')


def test_a_file_that_is_not_there_or_not_utf8_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_rules(tmp_path / "none.rules")
    (tmp_path / "odd.rules").write_bytes(b'\nprefix_rule(["\xff"])')
    with pytest.raises(ConfigError, match=r"odd\.rules:2: byte 0xff is not UTF-8"):
        read_rules(tmp_path / "odd.rules")


def test_a_set_without_rules_is_false() -> None:
    assert (bool(RuleSet()), RuleSet().matches(())) == (False, ())
