"""Which mounts come of an access, and which options of them. Nothing is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_contrib_bubblewrap.layout import Kind, Layout, Mount, layout_of
from codex_contrib_bubblewrap.options import options_of
from codex_framework import AccessMode, FileAccess, NetworkMode, SandboxError
from codex_framework.testing import access_of


@pytest.fixture
def tree(place: Path) -> Path:
    for name in ("work/.git", "work/sub/deep/kept", "secret/open/closed", "data"):
        (place / name).mkdir(parents=True)
    for name in ("secret/file", "work/key.pem", "work/sub/other.pem", "data/key.pem"):
        (place / name).write_text("x")
    return place


def laid(tree: Path, layout: Layout) -> list[tuple[str, str]]:
    return [(str(Path(path).relative_to(tree)), kind.name) for path, kind in layout.mounts]


def test_the_longest_rule_decides_at_every_depth(tree):
    access = access_of(
        {
            tree / "secret": "deny",
            tree / "secret" / "open": "write",
            tree / "secret" / "open" / "closed": "deny",
            tree / "secret" / "file": "read",
            tree / "work": "write",
            tree / "work" / ".git": "read",
            tree / "data": "read",
        }
    )
    assert laid(tree, layout_of(access)) == [
        ("secret", "PASSABLE"),
        ("work", "WRITABLE"),
        ("secret/file", "READABLE"),
        ("secret/open", "WRITABLE"),
        ("work/.git", "READABLE"),
        ("secret/open/closed", "HIDDEN_FOLDER"),
    ]


def test_folders_above_what_is_kept_are_pinned(tree):
    access = access_of({tree / "work": "write", tree / "work" / "sub" / "deep" / "kept": "read"})
    assert laid(tree, layout_of(access)) == [
        ("work", "WRITABLE"),
        ("work/sub", "WRITABLE"),
        ("work/sub/deep", "WRITABLE"),
        ("work/sub/deep/kept", "READABLE"),
    ]


def test_patterns_are_looked_up_and_hidden(tree):
    (tree / "work" / "link.pem").symlink_to("/etc/passwd")
    access = access_of({tree / "work": "write", tree / "work" / "key.pem": "read"}, denied_globs=(f"{tree}/**/*.pem",))
    assert laid(tree, layout_of(access)) == [
        ("work", "WRITABLE"),
        ("data/key.pem", "HIDDEN_FILE"),
        ("work/key.pem", "HIDDEN_FILE"),
        ("work/sub", "WRITABLE"),
        ("work/sub/other.pem", "HIDDEN_FILE"),
    ]


def test_missing_names_get_a_placeholder_where_they_could_be_made(tree):
    access = access_of(
        {
            tree / "work": "write",
            tree / "work" / ".codex": "read",
            tree / "work" / "not" / "there": "deny",
            tree / "data" / ".codex": "read",
            tree / "gone": "write",
        }
    )
    layout = layout_of(access)
    assert layout.placeholders == (str(tree / "work/.codex"), str(tree / "work/not"))
    assert laid(tree, layout) == [("work", "WRITABLE"), ("work/.codex", "READABLE"), ("work/not", "READABLE")]
    assert not (tree / "work/.codex").exists()


def test_a_protected_symlink_that_could_be_replaced_is_refused(tree):
    (tree / "work" / ".codex").symlink_to(tree / "data")
    with pytest.raises(SandboxError, match="is a symlink"):
        layout_of(access_of({tree / "work": "write", tree / "work" / ".codex": "read"}))


def test_where_all_is_hidden_links_to_what_is_not_remain(tree):
    layout = layout_of(access_of({Path("/usr"): "read", tree / "work": "write"}, otherwise=AccessMode.DENY))
    assert layout.root is AccessMode.DENY
    assert dict(layout.links) == {
        str(path): str(path.readlink())
        for path in Path("/").iterdir()
        if path.is_symlink() and path.resolve().is_relative_to("/usr")
    }


def test_a_private_tmp_keeps_what_is_opened_below_it(tmp_path):
    if not tmp_path.is_relative_to("/tmp"):
        pytest.skip("temporary folders are not in /tmp here")
    root = tmp_path.resolve()
    access = access_of({Path("/tmp"): "write", Path("/tmp/no-such-name"): "read", root: "write"}, private_tmp=True)
    layout = layout_of(access)
    assert layout.mounts == (Mount("/tmp", Kind.PRIVATE), Mount(str(root), Kind.WRITABLE))
    assert layout.placeholders == ()


def test_the_options_of_a_workspace():
    layout = Layout(
        AccessMode.READ,
        (
            Mount("/w", Kind.WRITABLE),
            Mount("/w/.git", Kind.READABLE),
            Mount("/w/key", Kind.HIDDEN_FILE),
            Mount("/w/private", Kind.HIDDEN_FOLDER),
            Mount("/x", Kind.PASSABLE),
            Mount("/x/y", Kind.WRITABLE),
        ),
    )
    options = options_of(layout, NetworkMode.OFF, cwd="/w", env={"A": "b"}, private="")
    assert " ".join(options) == (
        "--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --unshare-net"
        " --new-session --die-with-parent --cap-drop ALL --ro-bind / / --dev /dev --proc /proc"
        " --bind /w /w --ro-bind /w/.git /w/.git --ro-bind /dev/null /w/key --perms 0000 --tmpfs /w/private"
        " --perms 0111 --tmpfs /x --bind /x/y /x/y"
        " --remount-ro /w/private --remount-ro /x --remount-ro /proc --setenv A b --chdir /w"
    )


def test_the_options_where_all_is_hidden():
    layout = Layout(AccessMode.DENY, (Mount("/usr", Kind.READABLE),), links=(("/bin", "usr/bin"),))
    words = " ".join(options_of(layout, NetworkMode.ON, cwd="/usr", env={}, private=""))
    assert "--unshare-net" not in words
    assert words.endswith(
        "--cap-drop ALL --dev /dev --proc /proc --ro-bind /usr /usr --symlink usr/bin /bin"
        " --remount-ro /proc --remount-ro / --chdir /usr"
    )


def test_without_limits_on_files_only_the_rest_is_confined():
    words = options_of(layout_of(FileAccess(full=True)), NetworkMode.OFF, cwd="/", env={}, private="")
    assert " --dev-bind / / --proc /proc --remount-ro /proc" in " ".join(words)
