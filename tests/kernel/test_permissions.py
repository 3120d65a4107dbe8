"""Permissions: what older notations come to, what can be added, and what of it all a turn may do with real paths."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codex_framework.commands.access import file_access
from codex_framework.contract.errors import CodexError
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode, PathRule
from codex_framework.contract.permissions.globs import deny_matcher
from codex_framework.contract.permissions.links import RealPaths
from codex_framework.contract.permissions.network_rules import NetworkRules
from codex_framework.contract.permissions.profile import (
    Permissions,
    SandboxOptions,
    builtin_permissions,
    permissions_from_list,
    permissions_of,
)
from codex_framework.contract.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    AdditionalPermissions,
    DisabledPermissions,
    FileEntry,
    GlobPattern,
    ManagedPermissions,
    NetworkPermission,
    PermissionProfile,
    RestrictedFiles,
    Special,
    SpecialPath,
    UnrestrictedFiles,
)
from codex_framework.contract.protocol.policies import DangerFullAccess, ExternalSandbox, ReadOnly, WorkspaceWrite
from codex_framework.contract.protocol.wire import WireError, read, to_wire

READ, WRITE, DENY = AccessMode.READ, AccessMode.WRITE, AccessMode.DENY
ROOT, WORKSPACE = SpecialPath(Special.ROOT), SpecialPath(Special.WORKSPACE_ROOTS)
GIVES = {DENY: 0, READ: 1, WRITE: 2}


def restricted(*entries, network=NetworkPermission.RESTRICTED, **options):
    made = tuple(
        FileEntry(AbsolutePath(str(path)) if isinstance(path, (str, Path)) else path, mode) for path, mode in entries
    )
    return Permissions(profile=ManagedPermissions(RestrictedFiles(made), network), **options)


def workspace(*entries, **options):
    return restricted((ROOT, READ), (WORKSPACE, WRITE), *entries, **options)


# Older notations


@pytest.mark.parametrize(
    "policy",
    [
        DangerFullAccess(),
        ExternalSandbox(),
        ExternalSandbox("enabled"),
        ReadOnly(),
        ReadOnly(network_access=True),
        WorkspaceWrite(),
        WorkspaceWrite(("/a", "/b"), network_access=True, exclude_slash_tmp=True, exclude_tmpdir_env_var=True),
        WorkspaceWrite(exclude_slash_tmp=True),
        WorkspaceWrite(exclude_tmpdir_env_var=True),
    ],
)
def test_a_sandbox_policy_survives_the_way_there_and_back(policy):
    assert permissions_of(policy).sandbox_policy == policy


@pytest.mark.parametrize(
    ("words", "policy"),
    [
        (["disk-full-read-access"], ReadOnly()),
        (["disk-full-read-access", "network-full-access"], ReadOnly(network_access=True)),
        (
            ["disk-full-read-access", "disk-write-cwd", "disk-write-folder=/a"],
            WorkspaceWrite(("/a",), exclude_slash_tmp=True, exclude_tmpdir_env_var=True),
        ),
        (
            [
                *("disk-full-read-access", "disk-write-cwd"),
                *("disk-write-platform-user-temp-folder", "disk-write-platform-global-temp-folder"),
            ],
            WorkspaceWrite(),
        ),
        (["disk-full-write-access", "network-full-access"], DangerFullAccess()),
        (["disk-full-write-access"], WorkspaceWrite(("/",))),
        ([], ReadOnly()),
    ],
)
def test_the_oldest_notation(words, policy):
    assert permissions_from_list(words).sandbox_policy == policy


@pytest.mark.parametrize("word", ["disk-write-folder=", "disk-write", "", "DISK-WRITE-CWD"])
def test_a_word_that_is_not_known_is_named(word):
    with pytest.raises(ValueError, match=f"^{word}$"):
        permissions_from_list(["disk-full-read-access", word])


@pytest.mark.parametrize(
    ("permissions", "policy"),
    [
        (workspace((SpecialPath(Special.WORKSPACE_ROOTS, "docs"), READ)), ReadOnly()),
        (workspace((SpecialPath(Special.WORKSPACE_ROOTS, "*.env"), DENY)), ReadOnly()),
        (workspace(("/somewhere", DENY)), ReadOnly()),
        (restricted((ROOT, READ), ("/a", WRITE)), ReadOnly()),
        (workspace((SpecialPath(Special.WORKSPACE_ROOTS, ".git"), READ)).evolve(), None),
        (
            workspace(workspace_roots=("/more",)),
            WorkspaceWrite(("/more",), exclude_slash_tmp=True, exclude_tmpdir_env_var=True),
        ),
        (Permissions(profile=ManagedPermissions(UnrestrictedFiles())), WorkspaceWrite(("/",))),
        (Permissions(profile=ManagedPermissions(UnrestrictedFiles(), NetworkPermission.ENABLED)), DangerFullAccess()),
        (builtin_permissions(":workspace-no-secrets"), WorkspaceWrite()),
    ],
)
def test_the_nearest_policy_is_never_wider(permissions, policy):
    expected = policy or WorkspaceWrite(exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
    assert permissions.sandbox_policy == expected


def test_whether_the_workspace_is_written_does_not_depend_on_what_is_held_back_in_it():
    assert workspace(("/somewhere", DENY)).writes_workspace
    assert restricted((SpecialPath(Special.WORKSPACE_ROOTS, "docs"), WRITE)).writes_workspace
    assert not restricted((ROOT, READ), ("/a", WRITE)).writes_workspace
    assert not Permissions(profile=DisabledPermissions()).writes_workspace


def test_a_network_with_rules_is_no_network_for_those_who_know_none():
    permissions = workspace(network=NetworkPermission.ENABLED, network_rules=NetworkRules(domains={"a.b": "allow"}))
    assert permissions.sandbox_policy == WorkspaceWrite(exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
    widened = permissions.with_entries((), network=True)
    assert file_access(widened, Path("/"), {}).network is NetworkMode.PROXY, "hosts that are denied stay denied"
    assert file_access(workspace().with_entries((), network=True), Path("/"), {}).network is NetworkMode.ON


# Realising


@pytest.fixture
def place(tmp_path):
    for name in ("work/docs", "work/secrets/open", "other/deep", "home/.ssh"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path.resolve()


def resolved(permissions, place, cwd="work", **environ):
    return file_access(permissions, place / cwd, {"HOME": str(place / "home"), **environ})


def test_the_longest_path_decides_and_of_equal_ones_the_stricter(place):
    work = place / "work"
    access = resolved(
        workspace(
            (work / "docs", READ),
            (work / "secrets", DENY),
            (work / "secrets/open", READ),
            (work / "secrets/open/wide", WRITE),
            (work / "both", READ),
            (work / "both", WRITE),
            (work / "three", WRITE),
            (work / "three", DENY),
            (work / "three", READ),
        ),
        place,
    )
    found = {name: access.mode_of(work / name).value for name in ("x", "docs/x", "secrets/x", "both", "three/x")}
    assert found == {"x": "write", "docs/x": "read", "secrets/x": "deny", "both": "write", "three/x": "deny"}
    assert access.mode_of(work / "secrets/open/x") is READ
    assert access.mode_of(work / "secrets/open/wide/x") is WRITE
    assert access.mode_of(place / "other") is READ


def test_patterns_start_from_each_workspace_root_the_home_or_the_folder(place):
    odd = place / "[odd] *"
    odd.mkdir()
    entries = [
        (SpecialPath(Special.WORKSPACE_ROOTS, "**/*.{pem,key}"), DENY),
        (GlobPattern("~/.s?h"), DENY),
        (GlobPattern("relative/*"), DENY),
    ]
    access = resolved(workspace(*entries, workspace_roots=(str(odd), "~/more")), place)
    for path in (
        "work/a.pem",
        "work/x/y/a.key",
        "[odd] */x/a.pem",
        "home/more/a.pem",
        "home/.ssh/id",
        "work/relative/x",
    ):
        assert access.mode_of(place / path) is DENY, path
    for path in ("other/a.pem", "work/a.pemm", "home/x", "odd/a.pem"):
        assert access.mode_of(place / path) is not DENY, path


def test_a_pattern_without_a_wildcard_left_is_a_path(place):
    access = resolved(workspace((GlobPattern(f"{place}/work/\\[x\\]"), DENY)), place)
    assert access.denied == (place / "work/[x]",)
    assert access.denied_globs == ()


def test_what_is_symbolic_follows_the_folder(place):
    permissions = workspace(
        (SpecialPath(Special.WORKSPACE_ROOTS, "docs"), READ), workspace_roots=(str(place / "home"),)
    )
    first, second = resolved(permissions, place), resolved(permissions, place, cwd="other")
    assert [first.may_write(place / name / "x") for name in ("work", "other", "home")] == [True, False, True]
    assert [second.may_write(place / name / "x") for name in ("work", "other", "home")] == [False, True, True]
    assert not second.may_write(place / "other/docs/x")
    assert first is resolved(permissions, place), "the same again is the same object"


def test_equal_answers_are_one_object_and_different_ones_are_not(place):
    floor = SandboxOptions(loopback=True)
    assert resolved(workspace(), place) is resolved(workspace(("/", READ)), place)
    assert resolved(workspace(), place) is not resolved(workspace(options=floor), place)
    assert resolved(workspace(options=floor), place).network is NetworkMode.LOOPBACK
    rules = [NetworkRules(domains={"a.b": word}) for word in ("allow", "deny", "allow")]
    made = [resolved(workspace(network=NetworkPermission.ENABLED, network_rules=one), place) for one in rules]
    assert made[0] is made[2]
    assert made[0] is not made[1]
    assert hash(made[0]) == hash(made[2].evolve())
    assert made[0] == made[0].evolve()


@pytest.mark.parametrize("home", ["", "relative"])
def test_without_a_home_the_one_of_the_account_counts(home, place):
    access = file_access(workspace(("~/.ssh", DENY)), place / "work", {"HOME": home} if home else {})
    assert [path.name for path in access.denied] == [".ssh"]
    assert access.denied[0].parent == Path("~").expanduser().resolve()


def test_where_no_home_is_known_at_all_nothing_in_it_can_be_denied_and_nothing_is_given(place, monkeypatch):
    monkeypatch.setenv("HOME", "nowhere")
    for entry in (("~/.ssh", DENY), (GlobPattern("~/*.x"), DENY)):
        with pytest.raises(CodexError, match="cannot be enforced here") as caught:
            file_access(workspace(entry), place / "work", {})
        assert caught.value.slug == "permissions"
    access = file_access(workspace(("~/x", WRITE)), place / "work", {})
    assert [root.root for root in access.roots] == [place / "work"]


@pytest.mark.parametrize("tmpdir", ["", "relative", "with\0null", "/nowhere/at/all"])
def test_an_odd_temp_folder_does_no_harm(tmpdir, place):
    access = resolved(workspace((SpecialPath(Special.TMPDIR), WRITE)), place, TMPDIR=tmpdir)
    expected = {place / "work"} | ({Path(tmpdir)} if tmpdir.startswith("/") else set())
    assert {root.root for root in access.roots} == expected
    assert resolved(workspace((SpecialPath(Special.TMPDIR), DENY)), place, TMPDIR=tmpdir).may_write(place / "work/x")


def test_names_of_any_bytes_are_paths(place):
    name = os.fsdecode(b"caf\xe9\n[x]")
    (place / "work" / name).mkdir()
    access = resolved(workspace((f"{place}/work/{name}", DENY), ("/nul\0here", WRITE)), place)
    assert not access.may_read(place / "work" / name / "x")
    assert not access.may_write(Path("/nul\0here"))
    assert not access.may_read(Path(f"{place}/work/\0"))


def test_dots_in_a_path_lead_where_they_lead(place):
    (place / "work/link").symlink_to(place / "other/deep")
    access = resolved(workspace((f"{place}/work/../other/./deep", DENY), (f"{place}/home/..//home/.ssh/", DENY)), place)
    assert not access.may_read(place / "other/deep/x")
    assert not access.may_read(place / "work/link/x")
    assert not access.may_read(place / "home/.ssh")
    assert not access.may_write(place / "work/link/../x"), "that is below other"


def test_a_place_of_a_newer_version_gives_nothing_and_cannot_be_denied(place):
    unknown = SpecialPath(Special.UNKNOWN, None, "moon")
    assert resolved(workspace((unknown, WRITE)), place) is resolved(workspace(), place)
    with pytest.raises(CodexError, match="the path 'moon' is unknown"):
        resolved(workspace((unknown, DENY)), place)


def test_a_wrong_pattern_from_a_client_is_an_error_and_no_gap(place):
    with pytest.raises(CodexError, match="a brace is not closed"):
        resolved(workspace((GlobPattern("/x/*.{a"), DENY)), place)


def test_an_unknown_place_stays_what_it_is_on_the_wire():
    raw = {
        "type": "managed",
        "file_system": {
            "type": "restricted",
            "entries": [
                {"path": {"type": "special", "value": {"kind": "moon", "subpath": "x"}}, "access": "read"},
                {"path": {"type": "special", "value": {"kind": "project_roots", "subpath": "x"}}, "access": "none"},
                {"path": {"type": "glob_pattern", "pattern": "/x/*"}, "access": "deny"},
                {"path": {"type": "path", "path": "/x"}, "access": "write"},
            ],
            "glob_scan_max_depth": 2,
        },
        "network": "enabled",
    }
    profile = read(PermissionProfile, raw)
    assert read(PermissionProfile, to_wire(profile)) == profile
    assert [entry.path for entry in profile.file_system.entries][:2] == [
        SpecialPath(Special.UNKNOWN, "x", "moon"),
        SpecialPath(Special.WORKSPACE_ROOTS, "x"),
    ]
    assert profile.file_system.entries[1].access is DENY


# Links


def test_a_folder_reached_by_a_link_is_the_folder_itself(place):
    (place / "link").symlink_to("work")
    access = file_access(workspace(), place / "link", {})
    assert [root.root for root in access.roots] == [place / "work"]
    assert access.may_write(place / "link/x")


def test_what_is_denied_by_a_link_is_denied_and_the_link_stays(place):
    (place / "work/link").symlink_to("../other")
    access = resolved(workspace((place / "work/link/deep", DENY)), place)
    assert not access.may_read(place / "other/deep/x")
    assert not access.may_read(place / "work/link/deep/x")
    assert access.mode_of(place / "work/link") is READ, "or a command could turn it elsewhere"


def test_a_link_that_commands_could_have_made_gives_nothing_new(place):
    (place / "work/link").symlink_to("../other")
    (place / "work/inside").symlink_to("docs")
    (place / "fixed").symlink_to("other")
    assert not resolved(workspace((place / "work/link", WRITE)), place).may_write(place / "other/x")
    assert resolved(workspace((place / "fixed", WRITE)), place).may_write(place / "other/x")
    assert not resolved(workspace((place / "work/inside", READ)), place).may_write(place / "work/docs/x")
    assert not resolved(workspace().with_writable([f"{place}/work/link"]), place).may_write(place / "other/x")


def test_a_denied_link_cannot_be_followed(place):
    (place / "work/a.key").symlink_to("../other")
    access = resolved(workspace((SpecialPath(Special.WORKSPACE_ROOTS, "*.key"), DENY)), place)
    assert not access.may_read(place / "work/a.key")
    assert not access.may_read(place / "work/a.key/deep/x")
    assert access.may_read(place / "other/deep/x")


def test_a_file_that_may_be_written_has_no_protected_names(place):
    (place / "other/file").touch()
    access = resolved(restricted((ROOT, READ), (place / "other/file", WRITE)), place)
    assert access.rules == (PathRule(place / "other/file", WRITE),)


NAMES = ["a", "b", "c"]


@settings(max_examples=settings().max_examples * 3 // 10)
@given(
    links=st.dictionaries(
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=2).map("/".join),
        st.lists(st.sampled_from([*NAMES, "..", "."]), min_size=1, max_size=3).map("/".join),
        max_size=4,
    ),
    paths=st.lists(st.lists(st.sampled_from([*NAMES, "..", ".", ""]), max_size=5).map("/".join), max_size=6),
)
def test_real_paths_are_those_of_the_system(tmp_path_factory, links, paths):
    root = tmp_path_factory.mktemp("tree").resolve()
    (root / "a/b").mkdir(parents=True)
    for name, target in links.items():
        if (root / name).parent.is_dir() and not os.path.lexists(root / name):
            (root / name).symlink_to(target)
    real = RealPaths()
    for path in paths:
        try:
            expected = os.path.realpath(f"{root}/{path}", strict=True)
        except OSError:
            continue  # what leads nowhere leads nowhere
        assert real(f"{root}/{path}") == expected


# Adding

SPOTS = [
    "work",
    "work/.git",
    "work/docs",
    "work/docs/x",
    "work/secrets",
    "work/secrets/open",
    "other",
    "other/deep",
    "home",
]
EVERYWHERE = [
    *SPOTS,
    "work/new",
    "work/docs/a.key",
    "work/secrets/x",
    "other/x",
    "other/.git",
    "other/deep/a.key",
    "home/x",
]
LINKS = {"into": "work/secrets", "work/out": "../other", "around": "work/secrets/open"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("tree").resolve()
    for name in SPOTS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    return root


MODES = st.sampled_from(list(AccessMode))
ABSOLUTE = st.sampled_from([*SPOTS, *LINKS, "into/open", "work/out/deep", "work/../other"])
PLACES = st.one_of(
    ABSOLUTE,
    st.sampled_from([ROOT, WORKSPACE, SpecialPath(Special.WORKSPACE_ROOTS, "docs"), SpecialPath(Special.TMPDIR)]),
)
PATTERNS = st.sampled_from(["work/**/*.key", "work/s*", "other/d?ep", "**/x", "work/docs/[a-y]", "into/*"])
PROFILES = st.tuples(
    st.lists(st.tuples(PLACES, MODES), max_size=6), st.lists(PATTERNS.map(lambda text: (text, DENY)), max_size=2)
)
ADDITIONS = st.lists(st.tuples(PLACES, st.sampled_from([READ, WRITE])), max_size=4)


def entries_of(pairs, root, *, patterns=False):
    for found, mode in pairs:
        if isinstance(found, str):
            yield FileEntry((GlobPattern if patterns else AbsolutePath)(f"{root}/{found}"), mode)
        else:
            yield FileEntry(found, mode)


def made(profile, root):
    plain, patterns = profile
    entries = (*entries_of(plain, root), *entries_of(patterns, root, patterns=True))
    return Permissions(profile=ManagedPermissions(RestrictedFiles(entries)))


def of_tree(permissions, root):
    return file_access(permissions, root / "work", {"TMPDIR": str(root / "home"), "HOME": str(root / "home")})


@settings(max_examples=settings().max_examples * 3 // 2)
@given(profile=PROFILES, additions=ADDITIONS)
@example(profile=([(ROOT, READ)], [("work/s*", DENY)]), additions=[("work/secrets/open", WRITE)])
@example(profile=([(ROOT, READ)], [("work/s*", DENY)]), additions=[("around", WRITE)])
@example(profile=([(ROOT, READ)], [("into", DENY)]), additions=[("into/open", WRITE)])
@example(profile=([(WORKSPACE, WRITE), ("home", DENY)], []), additions=[(ROOT, WRITE), ("home/new", READ)])
def test_additions_lift_no_denial_and_give_only_what_was_asked_for(tree, profile, additions):
    before = made(profile, tree)
    after = before.with_entries(entries_of(additions, tree))
    access, wider = of_tree(before, tree), of_tree(after, tree)
    asked = [
        (os.path.realpath(place), entry.access)
        for entry in entries_of(additions, tree)
        for place in places_of(entry, tree)
    ]
    for name in EVERYWHERE:
        path = tree / name
        was, now = access.mode_of(path), wider.mode_of(path)
        if was is DENY and access.denies_by_name(path):
            assert now is DENY
        assert GIVES[now] >= GIVES[was]
        if GIVES[now] > GIVES[was]:
            assert any(path.is_relative_to(place) and GIVES[mode] >= GIVES[now] for place, mode in asked)


def places_of(entry, root):
    if isinstance(entry.path, AbsolutePath):
        return [entry.path.path]
    return {
        Special.ROOT: ["/"],
        Special.WORKSPACE_ROOTS: [f"{root}/work/{entry.path.subpath or ''}"],
        Special.TMPDIR: [f"{root}/home"],
    }[entry.path.kind]


@settings(max_examples=settings().max_examples * 3 // 2)
@given(profile=PROFILES, additions=ADDITIONS)
def test_the_policy_told_to_older_clients_never_lets_more_be_written(tree, profile, additions):
    permissions = made(profile, tree).with_entries(entries_of(additions, tree))
    access, told = of_tree(permissions, tree), of_tree(permissions_of(permissions.sandbox_policy), tree)
    for name in EVERYWHERE:
        assert told.mode_of(tree / name) is not WRITE or access.mode_of(tree / name) is WRITE


def test_asking_for_what_is_denied_is_refused(tree):
    permissions = workspace((tree / "work/secrets", DENY), (GlobPattern(f"{tree}/**/*.key"), DENY))
    access = of_tree(permissions, tree)
    for path in ("work/secrets", "work/secrets/open/x", "into", "around/x", "other/a.key", "other/a.key/below"):
        asked = AdditionalPermissions((FileEntry(AbsolutePath(f"{tree}/{path}"), READ),))
        with pytest.raises(ValueError, match="is denied by the permission profile"):
            permissions.widened(asked, access, tree / "work")
    asked = AdditionalPermissions((FileEntry(AbsolutePath("../other"), WRITE),))
    wider = of_tree(permissions.widened(asked, access, tree / "work"), tree)
    assert wider.may_write(tree / "other/x")
    assert not wider.may_write(tree / "other/.git/config"), "protected names stay so in what is added"
    assert not wider.may_read(tree / "other/a.key")


def test_asking_by_way_of_a_link_that_a_command_may_have_made_is_refused(tree):
    permissions = workspace()
    access = of_tree(permissions, tree)
    asked = AdditionalPermissions((FileEntry(AbsolutePath("out/deep"), WRITE),))
    with pytest.raises(ValueError, match=f"{tree}/work/out is a link .*; request {tree}/other/deep itself"):
        permissions.widened(asked, access, tree / "work")
    into = AdditionalPermissions((FileEntry(AbsolutePath(f"{tree}/into"), WRITE),))
    permissions.widened(into, access, tree / "work")


def test_what_is_denied_in_what_is_added_is_denied(tree):
    entries = [FileEntry(AbsolutePath(f"{tree}/other"), WRITE), FileEntry(AbsolutePath(f"{tree}/other/deep"), DENY)]
    permissions = workspace().with_entries(entries)
    access = of_tree(permissions, tree)
    assert access.may_write(tree / "other/x")
    assert not access.may_read(tree / "other/deep/x")
    assert permissions.sandbox_policy == ReadOnly()


@pytest.mark.parametrize("subpath", ["/etc", "../other", "a/../../other", "/**/x"])
def test_a_part_of_the_workspace_does_not_lie_outside_of_it(subpath, tree):
    place = SpecialPath(Special.WORKSPACE_ROOTS, subpath)
    assert of_tree(workspace().with_entries([FileEntry(place, WRITE)]), tree) is of_tree(workspace(), tree)
    with pytest.raises(CodexError, match="cannot be enforced here"):
        of_tree(workspace((place, DENY)), tree)
    raw = {"path": {"type": "special", "value": {"kind": "project_roots", "subpath": subpath}}, "access": "write"}
    with pytest.raises(WireError, match=r"path"):
        read(FileEntry, raw)


@pytest.mark.parametrize("value", [3, {"kind": 3}, {"kind": "root", "subpath": 3}, {"kind": "unknown", "path": []}, {}])
def test_a_malformed_place_is_told(value):
    with pytest.raises(WireError):
        read(FileEntry, {"path": {"type": "special", "value": value}, "access": "read"})


def test_folders_that_are_opened_from_outside_become_a_part_of_the_profile(tree):
    permissions = workspace((tree / "other/deep", DENY)).with_writable([f"{tree}/other", f"{tree}/other/deep"])
    assert FileEntry(AbsolutePath(f"{tree}/other"), WRITE) in permissions.profile.file_system.entries
    access = of_tree(permissions, tree)
    assert access.may_write(tree / "other/x")
    assert not access.may_read(tree / "other/deep/x")
    full = Permissions(profile=ManagedPermissions(UnrestrictedFiles()))
    assert full.with_writable(["/x"]) is full


def test_nothing_can_be_added_where_nothing_is_held_back():
    permissions = Permissions(profile=DisabledPermissions())
    assert permissions.with_writable(["/x"]) is permissions


# Looking up

RULES = st.lists(st.tuples(st.lists(st.sampled_from(NAMES), max_size=3), MODES), max_size=5)


@given(
    rules=RULES,
    globs=st.lists(st.sampled_from(["/a/*", "/**/c", "/b/?/c"]), max_size=2),
    target=st.lists(st.sampled_from(NAMES), max_size=4),
)
def test_the_mode_of_a_path_is_that_of_the_nearest_rule_or_match(rules, globs, target):
    table = {Path("/", *parts): mode for parts, mode in rules}
    access = FileAccess(rules=tuple(itertools.starmap(PathRule, sorted(table.items()))), denied_globs=tuple(globs))
    matches = deny_matcher(tuple(globs)) or (lambda _: None)
    path = Path("/", *target)
    expected = next(
        (DENY if matches(str(at)) else table[at] for at in (path, *path.parents) if matches(str(at)) or at in table),
        READ,
    )
    assert access.mode_of(path) is expected
    denied = any(matches(str(at)) or table.get(at) is DENY for at in (path, *path.parents))
    assert access.denies_by_name(path) is denied
