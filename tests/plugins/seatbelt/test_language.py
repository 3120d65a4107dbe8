"""The evaluator itself: it refuses what it does not know, and answers as the language does."""

from __future__ import annotations

import pytest
from seatbelt_language import BadProfile, Profile, Query, posix_regex

HEAD = "(version 1) (deny default) "


def test_the_last_rule_counts():
    profile = Profile(HEAD + '(allow file-read* (subpath "/a")) (deny file-read-data (literal "/a/b"))', {})
    assert profile.reads("/a/c")
    assert not profile.reads("/a/b")
    assert profile.allows("file-read-metadata", Query(path="/a/b"))
    assert not profile.writes("/a/c")


def test_filters_combine():
    profile = Profile(
        HEAD + '(allow file-write* (require-all (subpath (param "R")) (require-not (regex #"^/r/[.]g(/.*)?$"))))',
        {"R": "/r"},
    )
    assert [profile.writes(path) for path in ("/r", "/r/x", "/r/.g", "/r/.g/x", "/r/.gg", "/rr")] == [
        True,
        True,
        False,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "text",
    [
        "(version 2)",
        HEAD + "(allow teleport)",
        HEAD + "(allow file-read* (subpath))",
        HEAD + '(allow file-read* (subpath (param "MISSING")))',
        HEAD + '(allow file-read* (nearby "/a"))',
        HEAD + '(allow file-read* (literal "/a")',
        HEAD + '(allow file-read* (regex #"a"b"))',
        HEAD + '(allow file-read* (regex #"unanchored"))',
        HEAD + '(allow network-outbound (remote ip "10.0.0.1:80"))',
        HEAD + "(import everything)",
        HEAD + "(allow)",
    ],
)
def test_what_is_unknown_is_refused(text):
    with pytest.raises(BadProfile):
        Profile(text, {})


@pytest.mark.parametrize("pattern", [r"^a\-b", r"^a\"", "^(?:a)", "^a*?", "^[[:alpha:]]", "^a$b", "^[ab"])
def test_notation_that_not_every_engine_has_is_refused(pattern):
    with pytest.raises(BadProfile):
        posix_regex(pattern)


def test_in_brackets_a_backslash_is_itself():
    assert posix_regex("^[\\]$").search("\\")
    assert posix_regex("^[]]$").search("]")
