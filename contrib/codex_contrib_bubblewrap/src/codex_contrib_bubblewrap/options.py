"""Converts a file system layout and a network mode to bubblewrap's options, without I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from codex_contrib_bubblewrap.layout import Kind, Layout
from codex_framework import AccessMode, NetworkMode

__all__ = ["MOST_OPTIONS", "options_of"]

MOST_OPTIONS = 9000
"""Maximum number of words that bubblewrap accepts (its MAX_ARGS)."""

_NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
_OWN = ("/", "/dev", "/proc")
"""Paths that are always mounted. A hidden /dev or /proc is mounted over."""


def options_of(
    layout: Layout, network: NetworkMode, *, cwd: str, env: Mapping[str, str], private: str
) -> tuple[str, ...]:
    """Yield the options, up to the command.

    Args:
        layout: The mounts.
        network: The network access. Only ``on`` keeps the machine's network.
        cwd: The real path of the command's working folder.
        env: The command's whole environment. It is set inside, so that it cannot affect bubblewrap itself.
        private: The folder that replaces ``/tmp`` if the layout requires it.
    """
    words = [*_NAMESPACES]
    if network is not NetworkMode.ON:
        words.append("--unshare-net")
    words += ["--new-session", "--die-with-parent", "--cap-drop", "ALL"]
    words += _base(layout)
    words += _mounts(layout, private)
    words += [word for path, target in layout.links for word in ("--symlink", target, path)]
    words += [word for path in _seal_mounts(layout) for word in ("--remount-ro", path)]
    for name, value in env.items():
        words += ["--setenv", name, value]
    return (*words, "--chdir", cwd)


def _base(layout: Layout) -> list[str]:
    if layout.devices:
        return ["--dev-bind", "/", "/", "--proc", "/proc"]
    match layout.root:
        case AccessMode.WRITE:
            root = ["--bind", "/", "/"]
        case AccessMode.READ:
            root = ["--ro-bind", "/", "/"]
        case _:
            root = []
    return [*root, "--dev", "/dev", "--proc", "/proc"]


def _mounts(layout: Layout, private: str) -> Iterator[str]:
    for path, kind in layout.mounts:
        match kind:
            case Kind.WRITABLE if path not in _OWN:
                yield from ("--bind", path, path)
            case Kind.READABLE if path not in _OWN:
                yield from ("--ro-bind", path, path)
            case Kind.HIDDEN_FILE:
                yield from (
                    "--ro-bind",
                    "/dev/null",
                    path,
                )  # a device on a mount without devices, so it cannot be opened
            case Kind.HIDDEN_FOLDER:
                yield from ("--perms", "0000", "--tmpfs", path)
            case Kind.PASSABLE:
                yield from ("--perms", "0111", "--tmpfs", path)
            case Kind.PRIVATE:
                yield from ("--bind", private, path)


def _seal_mounts(layout: Layout) -> Iterator[str]:
    """Yield the options that finally make mounts read-only, when everything is in place."""
    yield from (path for path, kind in layout.mounts if kind in (Kind.HIDDEN_FOLDER, Kind.PASSABLE))
    if not any(path == "/proc" for path, _ in layout.mounts):
        yield "/proc"
    if layout.root is AccessMode.DENY:
        yield "/"
