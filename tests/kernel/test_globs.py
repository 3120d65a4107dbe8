"""Patterns of what must not be read: what they match, what may be written for them, and what is found on disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.contract.permissions import globs
from codex_framework.contract.permissions.globs import (
    TooManyMatches,
    alternatives,
    deny_matcher,
    escaped,
    expand,
    has_wildcards,
    static_prefix,
)


def matches(pattern: str, path: str) -> bool:
    matcher = deny_matcher(alternatives(pattern))
    assert matcher is not None
    return matcher(path) is not None


@pytest.mark.parametrize(
    ("pattern", "path", "matched"),
    [
        ("/a/*.pem", "/a/x.pem", True),
        ("/a/*.pem", "/a/.pem", True),
        ("/a/*.pem", "/a/x.PEM", False),
        ("/a/*.pem", "/a/b/x.pem", False),
        ("/a/*.pem", "/a/line\nbreak.pem", True),
        ("/a/*.pem", "/a/\udce9.pem", True),
        ("/a/**/*.pem", "/a/x.pem", True),
        ("/a/**/*.pem", "/a/b/c/x.pem", True),
        ("/a/**/**/*.pem", "/a/x.pem", True),
        ("/a/s**/x", "/a/sub/x", True),
        ("/a/s**/x", "/a/sub/deep/x", False),
        ("/a/**", "/a/b/c", True),
        ("/a/?.x", "/a/b.x", True),
        ("/a/?.x", "/a/bb.x", False),
        ("/a/b?c", "/a/b/c", False),
        ("/a/[ab].x", "/a/b.x", True),
        ("/a/[!ab].x", "/a/b.x", False),
        ("/a/[^ab].x", "/a/c.x", True),
        ("/a/[!ab]x", "/a//x", False),
        ("/a/[a-c].x", "/a/b.x", True),
        ("/a/[]x].y", "/a/].y", True),
        ("/a/[odd.x*", "/a/[odd.xy", True),
        ("/a/[[]odd].x", "/a/[odd].x", True),
        ("/a/\\[odd\\].x", "/a/[odd].x", True),
        ("/a/\\*.x?", "/a/*.xy", True),
        ("/a/\\*.x?", "/a/b.xy", False),
        ("/a/*.{pem,key}", "/a/x.key", True),
        ("/a/*.{pem,key}", "/a/x.{pem,key}", False),
        ("/a/{b,{c,d}}*", "/a/dx", True),
        ("/a/*.p{,em}", "/a/x.p", True),
        ("/a/{b/c,d}/*", "/a/b/c/x", True),
        ("/a/*\\{x", "/a/b{x", True),
        ("/a/*[{]x", "/a/b{x", True),
        ("/a/sub[/]*.x", "/a/sub/b.x", True),
        ("/a/[x/]b?", "/a/xbc", True),
        ("/a/[!/]b", "/a/xb", True),
        ("/a/[&&||~~]", "/a/&", True),
    ],
)
def test_the_notation_is_that_of_codex(pattern, path, matched):
    assert matches(pattern, path) is matched


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("/a/[z-a]", "bad character range z-a"),
        ("/a/*.{pem", "a brace is not closed"),
        ("/a/*.pem}", "a brace is closed that was not opened"),
        ("/a/*\\", "a backslash at its end escapes nothing"),
        ("/a/[+-/]", "a range cannot begin or end with /"),
        ("/a/" + "{a,b}" * 12, "it stands for more than 1000 patterns"),
    ],
)
def test_a_wrong_pattern_says_what_is_wrong(pattern, fault):
    with pytest.raises(ValueError, match=fault):
        alternatives(pattern)


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [("/a/b/**/*.pem", "/a/b"), ("/*", "/"), ("/a/[[]b]/c*", "/a/[b]"), ("/a/b", "/a/b"), ("/a/[bc]/d", "/a")],
)
def test_the_static_prefix_is_the_path_above_the_first_wildcard(pattern, prefix):
    assert static_prefix(pattern) == prefix


PATHS = st.text(st.sampled_from("ab*?[]{},\\!-/.\n\udce9"), max_size=12).map(lambda text: "/x" + text)


@given(PATHS)
def test_an_escaped_path_matches_itself_alone(path):
    matcher = deny_matcher((escaped(path),))
    assert matcher is not None
    assert matcher(path)
    assert not matcher(path + "a")
    assert static_prefix(escaped(path)) == path


@given(PATHS, PATHS)
def test_whatever_is_accepted_can_be_matched(pattern, path):
    try:
        found = alternatives(pattern)
    except ValueError:
        return
    matcher = deny_matcher(found)
    assert matcher is not None
    matcher(path)
    if not has_wildcards(pattern) and not set("{}\\") & set(pattern):
        assert found == (pattern,)
        assert bool(matcher(path)) == (path == pattern)


@pytest.fixture
def tree(tmp_path):
    for name in ("a.pem", "sub/b.pem", "sub/deep/c.pem", "sub/b.txt", "keys.pem/inner.pem", "keys.pem/open/d.pem"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "link").symlink_to("sub")
    return tmp_path


def found(tree, *patterns, **options):
    return [path.removeprefix(f"{tree}/") for path in expand(tuple(f"{tree}/{one}" for one in patterns), **options)]


def test_what_exists_is_found_the_uppermost_only_and_not_through_links(tree):
    assert found(tree, "**/*.pem") == ["a.pem", "keys.pem", "sub/b.pem", "sub/deep/c.pem"]
    assert found(tree, "*/*.pem") == ["keys.pem/inner.pem", "sub/b.pem"]
    assert found(tree, "*/*.pem", "*.txt", "sub/*.txt") == ["keys.pem/inner.pem", "sub/b.pem", "sub/b.txt"]
    assert found(tree, "nowhere/*") == []


def test_the_depth_limits_only_the_search_that_has_no_end_of_its_own(tree):
    assert found(tree, "**/*.pem", depth=1) == ["a.pem", "keys.pem"]
    assert found(tree, "**/*.pem", depth=2) == ["a.pem", "keys.pem", "sub/b.pem"]
    assert found(tree, "*/*/*.pem", depth=1) == ["keys.pem/open/d.pem", "sub/deep/c.pem"]


def test_folders_that_are_opened_again_below_a_match_are_searched(tree):
    inside = [f"{tree}/keys.pem/open"]
    assert "keys.pem/open/d.pem" in found(tree, "**/*.pem", reopened=inside)


def test_too_many_matches_are_an_error(tree, monkeypatch):
    monkeypatch.setattr(globs, "MATCH_LIMIT", 2)
    with pytest.raises(TooManyMatches):
        found(tree, "**/*.pem")
