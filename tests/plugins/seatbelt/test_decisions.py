"""A profile decides as the access it was made from: on random rules, patterns and paths, thousands of times."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seatbelt_language import Profile, Query, posix_regex

from codex_framework import AccessMode, FileAccess, PathRule
from codex_framework.contract.permissions.globs import deny_matcher
from codex_plugin_seatbelt.allowances import PLATFORM
from codex_plugin_seatbelt.patterns import any_case, below, components, residuals
from codex_plugin_seatbelt.profile import profile_for

READ, WRITE, DENY = AccessMode.READ, AccessMode.WRITE, AccessMode.DENY
NAMES = [
    "a",
    "b",
    "A",
    ".git",
    ".GIT",
    'quo"te',
    "br]ack[et",
    "new\nline",
    "sp ace",
    "é",
    "plus+.pem",
    "x.pem",
    "back\\slash",
    "(p|q)$",
]
"""None of them can be taken for another where a character without a safe spelling stands for any."""

PATHS = st.lists(st.sampled_from(NAMES), max_size=5).map(lambda names: "/r" + "".join(f"/{name}" for name in names))
PARTS = st.sampled_from(
    ["[*]x", "[[]q", "**", "*", "a", ".git", "*.pem", "?", "[ab]", "[!x]*", "sp ace", 'quo"*', "br]*", "é"]
)
"""What a negated class excludes has no other case among the names: the other case of ``[!a]`` is matched, as it is said."""

GLOBS = st.builds(
    lambda start, parts: start + "/".join(parts), st.sampled_from(["/r/", "/"]), st.lists(PARTS, min_size=1, max_size=4)
)
ACCESSES = st.builds(
    lambda modes, otherwise, globs: FileAccess(
        rules=tuple(PathRule(Path(path), mode) for path, mode in sorted(modes.items())),
        otherwise=otherwise,
        denied_globs=tuple(globs),
    ),
    modes=st.dictionaries(
        st.one_of(PATHS, PATHS, PATHS, st.just("/")), st.sampled_from([READ, WRITE, DENY]), max_size=6
    ),
    otherwise=st.sampled_from([READ, DENY]),
    globs=st.lists(GLOBS, max_size=2),
)


def compiled(access: FileAccess) -> Profile:
    text, parameters = profile_for(access, str).completed()
    return Profile(text, parameters)


def folded(access: FileAccess) -> FileAccess:
    """The access of a volume that does not tell upper from lower case: of rules for one path the strictest stands."""
    modes: dict[Path, AccessMode] = {}
    for rule in access.rules:
        path = Path(str(rule.path).lower())
        modes[path] = max(access.mode_of(rule.path), modes.get(path, WRITE), key=[WRITE, READ, DENY].index)
    rules = tuple(PathRule(path, mode) for path, mode in modes.items())
    return access.evolve(rules=rules, denied_globs=tuple(glob.lower() for glob in access.denied_globs))


@given(access=ACCESSES, paths=st.lists(PATHS, min_size=1, max_size=12))
def test_a_profile_allows_what_the_access_does_and_no_more(access, paths):
    profile = compiled(access)
    loose = folded(access)
    around = [str(rule.path).rstrip("/") + tail for rule in access.rules for tail in ("", "/.git", "/a/b", "x")]
    for path in [*paths, *(one for one in around if one.startswith("/"))]:
        mode, loosely = access.mode_of(Path(path)), loose.mode_of(Path(path.lower()))
        if profile.writes(path):
            assert mode is WRITE, path
        if profile.reads(path):
            assert mode is not DENY, path
        if mode is WRITE and loosely is WRITE:
            assert profile.writes(path), path
        if mode is not DENY and loosely is not DENY:
            assert profile.reads(path), path


@given(access=ACCESSES, paths=st.lists(PATHS, min_size=1, max_size=8))
def test_nothing_depends_on_the_order_of_the_statements(access, paths):
    profile = compiled(access)
    for path in paths:
        for operation in ("file-read-data", "file-write-data", "file-write-unlink", "process-exec"):
            query = Query(path=path)
            assert profile.allows(operation, query) == profile.allows_whatever_the_order(operation, query)


@given(access=ACCESSES, paths=st.lists(PATHS, min_size=1, max_size=8))
def test_what_may_not_be_written_cannot_be_moved_with_a_folder_around_it(access, paths):
    profile = compiled(access)
    kept = [str(rule.path) for rule in access.rules if rule.access is not WRITE]
    for path in [*paths, *(str(parent) for one in kept for parent in Path(one).parents)]:
        moved = profile.allows("file-write-unlink", Query(path=path))
        if moved:
            assert profile.writes(path)
            inside = [one for one in kept if one.startswith(f"{path}/")]
            around = [
                one
                for one in inside
                if access.mode_of(Path(one).parent) is WRITE or profile.writes(str(Path(one).parent))
            ]
            assert not around, (path, around)


@given(access=ACCESSES, spelled=st.sampled_from([".GIT", ".Git", ".giT"]))
def test_a_kept_name_cannot_be_made_in_another_case(access, spelled):
    rules = {rule.path: rule for rule in access.rules}
    rules |= {Path(path): PathRule(Path(path), mode) for path, mode in [("/r/w", WRITE), ("/r/w/.git", READ)]}
    profile = compiled(access.evolve(rules=tuple(rules.values()), denied_globs=()))
    assert profile.writes("/r/w/file")
    assert not profile.writes(f"/r/w/{spelled}")
    assert not profile.writes(f"/r/w/{spelled}/config")


@given(glob=GLOBS, paths=st.lists(PATHS, min_size=1, max_size=8))
def test_a_pattern_matches_what_it_matches_for_file_tools(glob, paths):
    matches = deny_matcher((glob,))
    assert matches is not None
    expression = posix_regex(f"^/{below(components(glob))}$")
    for path in paths:
        if matches(path):
            assert expression.search(path), path
        elif not deny_matcher((glob.lower(),))(path.lower()):  # type: ignore[misc]
            assert not expression.search(path), path


@given(glob=GLOBS, path=PATHS, cut=st.integers(1, 5))
def test_what_is_left_of_a_pattern_below_a_folder(glob, path, cut):
    parts = components(path)
    folder, rest = parts[:cut], parts[cut:]
    whole = deny_matcher((glob.lower(),))
    assert whole is not None
    left = [posix_regex(f"^{below(one)}$") for one in residuals(glob, "/" + "/".join(folder))]
    if rest:
        found = any(one.search("/".join(rest)) for one in left)
        assert found == bool(whole(path.lower()))


@pytest.mark.parametrize(
    "pattern",
    [
        "[-a]",
        "[a-]",
        "[a-cX]",
        "[!a-c]",
        "[]a]",
        "[!]a]",
        "[[:]",
        "[\\]",
        '["]',
        "[^a]",
        "[a^]",
        "[a-c-e]",
        "[+--]",
        "[A-z]",
        "[!-a]",
        "[*]",
    ],
)
def test_classes_are_kept_or_match_more(pattern):
    matches = deny_matcher((f"/{pattern}",))
    assert matches is not None
    expression = posix_regex(f"^/{below((pattern,))}$")
    for character in map(chr, range(33, 127)):
        if matches(f"/{character}"):
            assert expression.search(f"/{character}"), character


def test_a_class_takes_the_other_case_and_nothing_else():
    expression = posix_regex(f"^{below(('[a-c-]',))}$")
    assert [one for one in map(chr, range(33, 127)) if expression.search(one)] == list("-ABCabc")
    expression = posix_regex(f"^{below(('[a-c-e*]',))}$")
    assert [one for one in map(chr, range(33, 127)) if expression.search(one)] == list("*-ABCEabce")
    expression = posix_regex(f"^{below(('[-x]',))}$")
    assert [one for one in map(chr, range(33, 127)) if expression.search(one)] == list("-Xx")


def test_names_in_either_case():
    assert any_case(".git/x-1") == "[.][gG][iI][tT]/[xX]-1"
    assert '"' not in any_case('a"b\\c\nd')


def test_a_rule_below_a_match_opens_it_again():
    rules = (PathRule(Path("/r"), WRITE), PathRule(Path("/r/.git/a"), WRITE), PathRule(Path("/r/.git/b"), READ))
    profile = compiled(FileAccess(rules=rules, denied_globs=("/**/.git",)))
    assert profile.writes("/r/.git/a/x")
    assert profile.reads("/r/.git/b/x")
    assert not profile.writes("/r/.git/b/x")
    assert not any(
        profile.reads(path) for path in ["/r/.git", "/r/.git/x", "/r/.git/a/.git", "/r/.git/a/x/.git/x", "/.git"]
    )


def test_where_reading_is_refused_programs_of_the_system_can_be_read_unless_a_rule_says_otherwise():
    profile = compiled(FileAccess(otherwise=DENY, rules=(PathRule(Path("/w"), READ),)))
    assert all(profile.reads(path) for path in [*PLATFORM, "/usr/bin/env", "/w/file", "/"])
    assert not any(
        profile.reads(path) for path in ["/Users/me/file", "/private/etc/master.passwd", "/x", "/private/tmp/x"]
    )
    assert profile.allows("file-read-metadata", Query(path="/private"))
    hidden = compiled(FileAccess(otherwise=DENY, rules=(PathRule(Path("/usr"), DENY), PathRule(Path("/bin"), DENY))))
    assert not hidden.reads("/usr/bin/env")
    assert not hidden.reads("/bin/sh")
    assert hidden.reads("/System/Library/x")
    globbed = compiled(FileAccess(otherwise=DENY, denied_globs=("/usr/**/secret",)))
    assert globbed.reads("/usr/lib/x")
    assert not globbed.reads("/usr/lib/secret/x")


def test_the_way_to_a_readable_folder_can_be_looked_at_and_not_read():
    profile = compiled(FileAccess(rules=(PathRule(Path("/d"), DENY), PathRule(Path("/d/e/w"), WRITE))))
    assert not profile.reads("/d/e")
    assert profile.allows("file-read-metadata", Query(path="/d/e"))
    assert not profile.allows("file-read-metadata", Query(path="/d/other"))
    assert profile.writes("/d/e/w/x")


def test_a_program_that_may_not_be_read_is_not_started():
    profile = compiled(FileAccess(rules=(PathRule(Path("/d"), DENY),)))
    assert profile.allows("process-exec", Query(path="/usr/bin/env"))
    assert not profile.allows("process-exec", Query(path="/d/program"))


def test_full_access_to_files():
    profile = compiled(FileAccess(full=True))
    assert profile.writes("/etc/x")
    assert profile.reads("/x")
    assert profile.allows("process-exec", Query(path="/x"))
