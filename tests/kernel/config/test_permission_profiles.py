"""``[permissions.NAME]``: what a table says, what it inherits, and what is said of wrong ones.

What the profiles come to has been compared with the sandbox of Codex 0.169 (see docs/configure/permission-profiles.md).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codex_framework.commands.access import file_access
from codex_framework.config.permissions import named_permissions, profile_names, starting_permissions
from codex_framework.contract.errors import ConfigError
from codex_framework.contract.permissions.file_access import NetworkMode
from codex_framework.contract.permissions.network_rules import NetworkRules
from codex_framework.contract.permissions.profile import SECRET_PLACES, builtin_permissions, permissions_of
from codex_framework.contract.protocol.permissions import (
    AbsolutePath,
    AccessMode,
    FileEntry,
    GlobPattern,
    ManagedPermissions,
    NetworkPermission,
    Special,
    SpecialPath,
)
from codex_framework.contract.protocol.policies import DangerFullAccess, ReadOnly, WorkspaceWrite

NO_TMP = '":slash_tmp" = "read"\n'  # where the folders of these tests lie
WORKSPACE = f'extends = ":workspace"\n[permissions.p.filesystem]\n{NO_TMP}'


def profile(place, text, name="p"):
    place.write(f"[permissions.p]\n{text}" if "[permissions" not in text.split("\n")[0] else text)
    return named_permissions(place.load(), name)


def modes(place, text, *paths, name="p"):
    """Of each path below the home: ``w``, ``r`` or ``-``."""
    environ = {"HOME": str(place.home), "TMPDIR": str(place.home / "tmp")}
    access = file_access(profile(place, text, name), place.project, environ)
    letters = {AccessMode.WRITE: "w", AccessMode.READ: "r", AccessMode.DENY: "-"}
    return "".join(letters[access.mode_of(place.home / path)] for path in paths)


def fault(place, text, name="p"):
    with pytest.raises(ConfigError) as caught:
        profile(place, text, name)
    error = caught.value
    assert error.hint
    assert "Traceback" not in str(error)
    return str(error).removeprefix(f"{place.codex_home}/config.toml:")


SHOP = ("work/shop/a", "work/shop/docs/d", "work/shop/secrets/s", "work/shop/.git/config", "other/o")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WORKSPACE, "wwwrr"),
        ('extends = ":read-only"', "rrrrr"),
        ("", "-----"),
        ('[permissions.p.filesystem]\n":root" = "read"', "rrrrr"),
        ('[permissions.p.filesystem]\n":root" = "write"\n"~/other" = "deny"', "wwww-"),
        (WORKSPACE + '":workspace_roots" = { "docs" = "read", "secrets" = "deny" }', "wr-rr"),
        (WORKSPACE + '":workspace_roots" = { "." = "read" }', "rrrrr"),
        (WORKSPACE + '":workspace_roots" = "read"', "rrrrr"),
        (WORKSPACE + '":workspace_roots" = { "secrets/" = "none" }', "ww-rr"),
        (WORKSPACE + '":workspace_roots" = { "secrets/**" = "deny" }', "ww-rr"),
        (WORKSPACE + '":workspace_roots" = { ".git" = "write" }', "wwwwr"),
        (WORKSPACE + '":workspace_roots" = { "**/s" = "deny" }', "ww-rr"),
        (WORKSPACE + '":workspace_roots" = { "{docs,secrets}/?" = "deny" }', "w--rr"),
        (WORKSPACE + '"~/other/" = "write"', "wwwrw"),
        (WORKSPACE + '"~/work/shop" = { "docs" = "read" }', "wrwrr"),
        (WORKSPACE + '"~/work/shop" = { "*/d" = "deny" }', "w-wrr"),
        (WORKSPACE + '"~" = "deny"', "wwwr-"),
        (WORKSPACE + '":project_roots" = { "docs" = "read" }', "wrwrr"),
        (WORKSPACE + '"~/other" = "write"\n"~/other/" = "deny"', "wwwr-"),
        (WORKSPACE + '"~/other/**" = "deny"\n"~/other" = "write"', "wwwr-"),
        (WORKSPACE + '":minimal" = "deny"', "wwwrr"),
        (
            'extends = ":workspace"\nworkspace_roots = { "~/other" = true, "../x" = false }\n[permissions.p.filesystem]\n'
            + NO_TMP,
            "wwwrw",
        ),
        (
            'extends = ":workspace"\nworkspace_roots = { "../../other" = true }\n[permissions.p.filesystem]\n' + NO_TMP,
            "wwwrw",
        ),
    ],
)
def test_what_a_table_lets_be_done(place, text, expected):
    assert modes(place, text, *SHOP) == expected


BASE = f'[permissions.base]\nextends = ":workspace"\n[permissions.base.filesystem]\n{NO_TMP}'
CHILD = '[permissions.p]\nextends = "base"\n[permissions.p.filesystem]\n'


@pytest.mark.parametrize(
    ("base", "child", "expected"),
    [
        ('"~/other" = "write"', "", "wwwrw"),
        ('"~/other" = "deny"', '"~/other" = "write"', "wwwrw"),
        ('"~/other" = "write"', '"~/other" = "deny"', "wwwr-"),
        # another way to write a place is another key, and then the stricter counts
        ('"~/other" = "deny"', '"~/other/**" = "read"', "wwwr-"),
        ('":project_roots" = { "docs" = "deny" }', '":workspace_roots" = { "docs" = "read" }', "w-wrr"),
        # tables are merged, and a word takes the place of a table, and a table of a word
        (
            '":workspace_roots" = { "docs" = "read", "secrets" = "deny" }',
            '":workspace_roots" = { "docs" = "write" }',
            "ww-rr",
        ),
        ('":workspace_roots" = { "secrets" = "deny" }', '":workspace_roots" = "read"', "rrrrr"),
        ('":workspace_roots" = "write"', '":workspace_roots" = { "docs" = "write" }', "rwrrr"),
    ],
)
def test_a_child_changes_what_it_inherits_key_by_key_as_in_codex(place, base, child, expected):
    assert modes(place, BASE + base + "\n" + CHILD + child, *SHOP) == expected


def test_the_depth_and_the_roots_are_inherited(place):
    text = (
        '[permissions.base]\nextends = ":workspace"\nworkspace_roots = { "/one" = true, "/two" = true }\n'
        '[permissions.base.filesystem]\nglob_scan_max_depth = 3\n[permissions.p]\nextends = "base"\n'
        'workspace_roots = { "/two/" = false, "/three" = true }\n'
    )
    found = profile(place, text)
    assert found.workspace_roots == ("/one", "/three")
    assert isinstance(found.profile, ManagedPermissions)
    assert found.profile.file_system.glob_scan_max_depth == 3
    assert (found.id, found.extends) == ("p", "base")


def test_workspace_roots_are_absolute(place):
    text = 'extends = ":workspace"\nworkspace_roots = { "~/more" = true, "~" = false, "../x/." = true, "/y/" = true }'
    assert profile(place, text).workspace_roots == (str(place.home / "more"), str(place.project.parent / "x"), "/y")


def test_places_become_entries(place):
    text = WORKSPACE + '":minimal" = "read"\n":tmpdir" = "deny"\n"/a" = "read"\n"~/*.x" = "deny"\n":later" = "write"'
    entries = profile(place, text).entries
    assert set(entries) == {
        FileEntry(SpecialPath(Special.ROOT), AccessMode.READ),
        FileEntry(SpecialPath(Special.WORKSPACE_ROOTS), AccessMode.WRITE),
        FileEntry(SpecialPath(Special.SLASH_TMP), AccessMode.READ),
        FileEntry(SpecialPath(Special.TMPDIR), AccessMode.DENY),
        FileEntry(SpecialPath(Special.MINIMAL), AccessMode.READ),
        FileEntry(AbsolutePath("/a"), AccessMode.READ),
        FileEntry(GlobPattern("~/*.x"), AccessMode.DENY),
        FileEntry(SpecialPath(Special.UNKNOWN, None, ":later"), AccessMode.WRITE),
    }


def test_the_profile_without_secrets_denies_the_login_too_and_can_be_built_on(place):
    entries = profile(place, "", ":workspace-no-secrets").entries
    denied = {entry.path.path for entry in entries if entry.access is AccessMode.DENY}
    assert denied == {
        *SECRET_PLACES,
        *(str(place.codex_home / name) for name in ("auth.json", ".credentials.json", ".env")),
    }
    text = 'extends = ":workspace-no-secrets"\n[permissions.p.filesystem]\n"~/.aws" = "read"'
    assert modes(place, text, ".ssh/id", ".aws/config", ".codex/auth.json", "work/shop/a") == "-r-w"


def test_the_table_of_the_mode_changes_no_profile(place):
    table = '[sandbox_workspace_write]\nwritable_roots = ["/other"]\nnetwork_access = true\nexclude_slash_tmp = true\n'
    plain = builtin_permissions(":workspace")
    assert plain is not None
    place.write(f'{table}[permissions.p]\nextends = ":workspace"\n')
    assert named_permissions(place.load(), ":workspace") == plain
    assert named_permissions(place.load(), "p").profile == plain.profile


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[permissions.p.filesystem]\n":root" = "raed"', "2: ':root' is 'raed', but must be read, write or deny"),
        ('[permissions.p.filesystem]\n":root" = 3', "2: ':root' is 3, but must be read, write or deny"),
        ('[permissions.p.filesystem]\n":root" = true', '2: `permissions.p.filesystem.":root"` is true, but must be'),
        ('[permissions.p.filesystem]\n":root" = []', '2: `permissions.p.filesystem.":root"` is a list, but must be'),
        ('[permissions.p.filesystem]\n":workspace_roots" = { a = [] }', "2: 'a' is [], but must be read"),
        ('[permissions.p.filesystem]\n":workspace_roots" = { a = { b = "read" } }', "2: 'a' is {'b': 'read'}"),
        (
            '[permissions.p.filesystem]\n":moon" = "deny"',
            "2: ':moon' is not a known path, so it cannot be denied",
        ),
        ('[permissions.p.filesystem]\n":moon" = { x = "none" }', "2: ':moon' is not a known path"),
        ('[permissions.p.filesystem]\n":minimal" = { x = "read" }', "2: :minimal cannot have a table"),
        ('[permissions.p.filesystem]\nother = "read"', "2: 'other' is not an absolute path"),
        ('[permissions.p.filesystem]\n"~you/x" = "read"', "2: '~you/x' is not an absolute path"),
        ('[permissions.p.filesystem]\n"" = "read"', "'' is not an absolute path"),
        ('[permissions.p.filesystem]\n"/a\\u0000b" = "deny"', "2: a string contains a NUL character"),
        ('[permissions.p.filesystem]\n":workspace_roots" = { "../x" = "write" }', "2: '../x' is not below"),
        ('[permissions.p.filesystem]\n":workspace_roots" = { "/x" = "write" }', "2: '/x' is not below"),
        ('[permissions.p.filesystem]\n":workspace_roots" = { "~/x" = "write" }', "2: '~/x' is not below"),
        (
            '[permissions.p.filesystem]\n"/a/*.x" = "read"',
            "2: the pattern '/a/*.x' can only be denied, not set to 'read'",
        ),
        (
            '[permissions.p.filesystem]\n"/a/[z-a]" = "deny"',
            "2: the pattern '/a/[z-a]' is invalid: bad character range z-a",
        ),
        (
            '[permissions.p.filesystem]\n"/a/*.{x" = "deny"',
            "2: the pattern '/a/*.{x' is invalid: a brace is not closed",
        ),
        ('[permissions.p.filesystem]\n"/a/*/../b" = "deny"', "2: the pattern '/a/*/../b' contains `..`"),
        ('[permissions.p.filesystem]\n"/**/*.x" = "deny"', "2: the pattern '/**/*.x' starts at the root"),
        ('[permissions.p.filesystem]\n"/{a,*}/x" = "deny"', "2: the pattern '/{a,*}/x' starts at the root"),
        (
            "[permissions.p.filesystem]\nglob_scan_max_depth = 0",
            "2: `glob_scan_max_depth` is 0, but must be an integer of at least 1",
        ),
        ('[permissions.p.filesystem]\nglob_scan_max_depth = "3"', "2: `glob_scan_max_depth` is '3'"),
        ("[permissions.p.filesystem]\nglob_scan_max_depth = true", "2: "),
        ('filesystem = "read"', "2: `permissions.p.filesystem` is the string"),
        ("network = true", "2: `permissions.p.network` is true, but must be a table"),
        ("description = 3", "2: `permissions.p.description` is the number 3"),
        ('extends = [":workspace"]', "2: `permissions.p.extends` is a list"),
        ('workspace_roots = ["/a"]', "2: `permissions.p.workspace_roots` is a list"),
        ('workspace_roots = { "/a" = "yes" }', '2: `permissions.p.workspace_roots."/a"` is the string "yes"'),
        ('extend = ":workspace"', "2: unknown key `permissions.p.extend`. Did you mean `extends`?"),
        ('extends = "q"', "2: 'p' extends 'q', which does not exist; existing profiles: :read-only,"),
        ('extends = "p"', "2: the permission profile 'p' extends itself (p -> p)"),
        ('extends = ":danger-full-access"', "2: 'p' extends ':danger-full-access', which has no limits"),
        ('[permissions.p.network]\nenabled = "yes"', "2: `enabled` is 'yes'"),
        ("[permissions.p.network]\nallowed = []", "2: `allowed` is not a network setting"),
        (
            "[permissions.p.network]\ndangerously_allow_all_unix_sockets = 1",
            "2: `dangerously_allow_all_unix_sockets` is 1",
        ),
        ('[permissions.p.network]\nmode = "half"', "2: `mode` is 'half'"),
        ("[permissions.p.network]\nmode = []", "2: `mode` is []"),
        ('[permissions.p.network]\nenable_socks5 = "no"', "2: `enable_socks5` is 'no'"),
        ('[permissions.p.network]\ndomains = ["a"]', "2: `domains` is ['a'], not a table"),
        ('[permissions.p.network]\ndomains = { "a" = "ask" }', "'a' is 'ask', but must be allow or deny"),
        ('[permissions.p.network]\ndomains = { "a" = [] }', "'a' is [], but must be allow or deny"),
        ('[permissions.p.network]\ndomains = { "*" = "deny" }', "'*' can only be allowed, not denied"),
        (
            '[permissions.p.network]\nunix_sockets = { "/s" = "maybe" }',
            "'/s' is 'maybe', but must be allow or deny or none",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_a_cure(place, text, message):
    assert message in fault(place, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("permissions = 3", "1: `permissions` is the number 3, but must be a table"),
        ('[permissions]\np = ":workspace"', '2: `permissions.p` is the string ":workspace", but must be a table'),
        (
            '[permissions.p]\nextends = "q"\n[permissions.q]\nextends = "p"',
            "4: the permission profile 'q' extends itself (p -> q -> p)",
        ),
        (
            '[permissions.":mine"]\n[permissions.p]',
            "1: the name of the permission profile ':mine' is reserved for built-in",
        ),
    ],
)
def test_wrong_tables_are_named_too(place, text, message):
    place.write(text)
    with pytest.raises(ConfigError) as caught:
        named_permissions(place.load(), "p")
    assert message in str(caught.value)
    assert caught.value.hint


def test_an_error_in_what_is_inherited_names_the_line_there(place):
    text = BASE + '"x" = "read"\n' + CHILD
    assert fault(place, text).startswith("5: 'x' is not an absolute path")


def test_profiles_that_are_not_used_may_be_wrong(place):
    text = '[permissions.p]\n[permissions.broken]\nextends = "nowhere"\n[permissions.broken.filesystem]\nx = "y"\n'
    assert profile(place, text).id == "p"
    assert profile_names(place.load())[-2:] == ("broken", "p")


def test_unknown_settings_of_the_network_can_be_ignored(place):
    text = '[framework]\nunknown_keys = "warn"\n[permissions.p.network]\nenabled = true\nnew_in_codex = 3\n'
    place.write(text)
    assert named_permissions(place.load(), "p").network_rules is None


NETWORK = '[permissions.base.network]\nenabled = true\ndomains = { "a.b" = "allow", "c.d" = "deny" }\n'


@pytest.mark.parametrize(
    ("text", "enabled", "rules"),
    [
        ("[permissions.p]", False, None),
        ("[permissions.p.network]\nenabled = true", True, None),
        ('[permissions.p.network]\ndomains = { "a.b" = "allow" }', False, None),
        (NETWORK + '[permissions.p]\nextends = "base"', True, NetworkRules(domains={"a.b": "allow", "c.d": "deny"})),
        (NETWORK + '[permissions.p]\nextends = "base"\n[permissions.p.network]\nenabled = false', False, None),
        (
            NETWORK + '[permissions.p]\nextends = "base"\n[permissions.p.network]\nmode = "limited"\n'
            'proxy_url = "http://x"\ndomains = { "c.d" = "allow" }',
            True,
            NetworkRules(domains={"a.b": "allow", "c.d": "allow"}, mode="limited"),
        ),
        (
            '[permissions.p.network]\nenabled = true\nunix_sockets = { "/a" = "allow", "/b" = "deny", "/c" = "none" }',
            True,
            NetworkRules(unix_sockets={"/a": "allow", "/b": "none", "/c": "none"}),
        ),
        (
            "[permissions.p.network]\nenabled = true\ndangerously_allow_all_unix_sockets = true\nmitm = {}",
            True,
            NetworkRules(unix_sockets={"*": "allow"}),
        ),
    ],
)
def test_the_network_of_a_profile(place, text, enabled, rules):
    found = profile(place, text)
    assert isinstance(found.profile, ManagedPermissions)
    assert found.profile.network is (NetworkPermission.ENABLED if enabled else NetworkPermission.RESTRICTED)
    assert found.network_rules == rules
    mode = file_access(found, place.project, {}).network
    assert mode is (NetworkMode.OFF if not enabled else NetworkMode.ON if rules is None else NetworkMode.PROXY)


@pytest.mark.parametrize(
    ("text", "overrides", "expected"),
    [
        ('default_permissions = ":read-only"', (), ":read-only"),
        ('default_permissions = ":read-only"\nsandbox_mode = "danger-full-access"', (), ":read-only"),
        ('default_permissions = ":read-only"', ("sandbox_mode=danger-full-access",), DangerFullAccess()),
        ('sandbox_mode = "danger-full-access"', ('default_permissions=":read-only"',), ":read-only"),
        ('sandbox_mode = "workspace-write"', (), WorkspaceWrite()),
        ('sandbox_permissions = ["disk-full-read-access"]\nsandbox_mode = "workspace-write"', (), WorkspaceWrite()),
        ('sandbox_permissions = ["disk-full-read-access", "network-full-access"]', (), ReadOnly(network_access=True)),
        ("", (), ReadOnly()),
    ],
)
def test_which_of_the_ways_to_say_it_counts(place, text, overrides, expected):
    place.write(text)
    found = starting_permissions(place.load(*overrides))
    if isinstance(expected, str):
        assert found == builtin_permissions(expected)
    else:
        assert found.profile == permissions_of(expected).profile


def test_a_flag_counts_over_a_profile_of_the_files(place):
    place.write('default_permissions = ":danger-full-access"')
    assert starting_permissions(place.load(flags={"sandbox_mode": "read-only"})).sandbox_policy == ReadOnly()


def test_no_table_still_leaves_the_built_in_names(place):
    assert profile_names(place.load()) == (":read-only", ":workspace", ":workspace-no-secrets", ":danger-full-access")


PAGE = Path(__file__).parents[3] / "docs" / "configure" / "permission-profiles.md"


@pytest.mark.skipif(not PAGE.is_file(), reason="no docs folder beside the tests")
def test_the_profiles_of_the_guide_can_be_applied(place):
    examples = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert examples
    for text in examples:
        place.write(text)
        config = place.load()
        for name in config.get("permissions"):
            assert file_access(named_permissions(config, name), place.project, {"HOME": str(place.home)}).confines
