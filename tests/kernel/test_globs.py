"""Patterns of what must not be read: what they match, what may be written for them, and what is found on disk."""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.contract.errors import SandboxError
from codex_framework.contract.permissions import globs
from codex_framework.contract.permissions.globs import (
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
        ("/a/b[+-9]c", "/a/b.c", True),
        ("/a/b[+-9]c", "/a/b/c", False),
        ("/a/**/b/*/c/**/d", "/a/b/b/x/c/c/y/d", True),
        ("/a/**/b/**/b/**/c", "/a/b/x/c", False),
        ("/a/*b*bc*c", "/a/abbbcc", True),
        ("/a/*b*bc*c", "/a/abbc", False),
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
        ("/a/*.pem}", "a closing brace has no opening brace"),
        ("/a/*\\", "it ends with a backslash, which escapes nothing"),
        ("/a/[+-/]", "a range cannot begin or end with /"),
        ("/a/" + "{a,b}" * 12, "it expands to more than 1000 patterns"),
        ("/a/" + "{a,b}" * 9 + "c" * 1000, "it expands to more than 65536 characters"),
        ("{" * 5000, "its braces are nested too deeply"),
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


@pytest.mark.parametrize("wildcards", ["*a", "**/a/", "**/"])
def test_more_wildcards_do_not_take_much_longer(wildcards):
    def seconds(count):
        matcher = deny_matcher((f"/x/{wildcards * count}b",))
        assert matcher is not None
        before = time.process_time()
        for path in ("/x/" + "a" * 100, "/x/" + "a/" * 50 + "c"):
            assert not matcher(path)
        return time.process_time() - before

    assert seconds(6) < 100 * max(seconds(3), 1e-4)


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
    assert found(tree, "**/*.pem", reopened=inside) == [
        "a.pem",
        "keys.pem",
        "keys.pem/open/d.pem",
        "sub/b.pem",
        "sub/deep/c.pem",
    ]


def test_a_folder_that_is_opened_again_counts_only_if_it_exists_and_is_not_too_deep(tree):
    inner, missing = f"{tree}/keys.pem/inner.pem", f"{tree}/keys.pem/missing.pem"
    assert "keys.pem/inner.pem" in found(tree, "**/*.pem", reopened=[inner, missing])
    assert "keys.pem/missing.pem" not in found(tree, "**/*.pem", reopened=[inner, missing])
    assert "keys.pem/open/d.pem" not in found(tree, "**/*.pem", depth=2, reopened=[f"{tree}/keys.pem/open"])
    assert "keys.pem/inner.pem" not in found(tree, "**/*.pem", depth=1, reopened=[inner])


@pytest.mark.skipif(os.geteuid() == 0, reason="everything can be listed by root")
def test_what_cannot_be_listed_hides_nothing_that_is_opened_in_it(tree):
    (tree / "sub").chmod(0o111)
    try:
        assert "sub/deep/c.pem" in found(tree, "**/*.pem", reopened=[f"{tree}/sub/deep"])
    finally:
        (tree / "sub").chmod(0o755)


def test_braces_mean_themselves_where_they_hold_no_alternatives():
    assert alternatives("/{a,b}*}", braces=False) == ("/{a,b}*}",)
    matcher = deny_matcher(alternatives("/{a,b}*}", braces=False))
    assert matcher is not None
    assert matcher("/{a,b}c}")
    assert not matcher("/ac}")


def test_a_pattern_can_be_spelled_in_another_dialect():
    def bracketed(found):
        return f"<{'not ' if found.negated else ''}{' '.join(found.members)}>"

    dialect = globs.Dialect(str.upper, bracketed, run="..", one="_")
    parts = ["a", "**", "b*?", "[!x-z-]", "[odd", "**"]
    assert globs.expression(parts, dialect) == "A/(.*/)?B.._/<not x-z ->/[ODD/.*"


def test_too_many_matches_are_an_error(tree, monkeypatch):
    monkeypatch.setattr(globs, "MATCH_LIMIT", 2)
    with pytest.raises(SandboxError, match="matches more than 2 files"):
        found(tree, "**/*.pem")
