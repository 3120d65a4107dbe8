"""The opener of files: what was checked is what is opened, also while somebody exchanges it."""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.links import resolved
from codex_framework.toolkit import files as files_module
from codex_framework.toolkit import off_limits, real_folders
from codex_framework.toolkit.files import Files, NotAFileError, NotPermittedError
from codex_framework.toolkit.real_folders import LinkInTheWayError, open_folder

ROUTES = ["walk", "openat2"]


@pytest.fixture(params=ROUTES, autouse=True)
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How folders are opened: by the system call, or folder by folder as where that call does not exist."""
    call = real_folders._found_openat2() if request.param == "openat2" else None
    if call is None and request.param == "openat2":
        pytest.skip("this system has no openat2")
    monkeypatch.setattr(real_folders, "_call", call)
    monkeypatch.setattr(real_folders, "_is_tried", True)
    return str(request.param)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """``in`` may be written, ``in/denied`` may not be read, ``out`` may be read only."""
    for name in ("in/sub", "in/denied", "out"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "in" / "file").write_text("fine")
    (tmp_path / "in" / "denied" / "secret").write_text("secret")
    (tmp_path / "out" / "kept").write_text("kept")
    return tmp_path


@pytest.fixture
def files(tree: Path) -> Files:
    return Files(FileAccess.writing(tree / "in", deny=[tree / "in" / "denied"]))


def descriptors() -> int:
    return len(list(Path("/proc/self/fd" if sys.platform.startswith("linux") else "/dev/fd").iterdir()))


@pytest.fixture(autouse=True)
def nothing_stays_open(route: str) -> Iterator[None]:
    before = descriptors()
    yield
    assert descriptors() == before


# Reading


def test_links_are_followed_as_the_system_follows_them(tree: Path, files: Files) -> None:
    inside = tree / "in"
    (inside / "near").symlink_to("file")
    (inside / "far").symlink_to(tree / "out" / "kept")
    (inside / "chain").symlink_to("near")
    (inside / "folder").symlink_to("../out")
    (tree / "above").symlink_to("in")
    expected = {
        "in/file": b"fine",
        "in/near": b"fine",
        "in/chain": b"fine",
        "in/far": b"kept",
        "in/folder/kept": b"kept",
        "above/folder/kept": b"kept",
        "in/folder/../in/file": b"fine",  # above the target of the link, not above the link
        "in/./sub/..//file": b"fine",
    }
    assert {path: files.read(f"{tree}/{path}") for path in expected} == expected
    assert files.read(f"//{inside}/file") == b"fine"


def test_a_limit_is_the_most_that_is_read(tree: Path, files: Files) -> None:
    (tree / "in" / "long").write_bytes(b"x" * 300_000)
    sizes = {
        limit: len(files.read(str(tree / "in" / "long"), limit)) for limit in (0, 1, 299_999, 300_000, 400_000, -1)
    }
    assert sizes == {0: 0, 1: 1, 299_999: 299_999, 300_000: 300_000, 400_000: 300_000, -1: 300_000}


@pytest.mark.parametrize(
    "path", ["denied/secret", "denied", "denied/nothing", "denied/no/such", "link", "folder/secret", "to"]
)
def test_what_is_denied_is_neither_opened_nor_told_of(tree: Path, files: Files, path: str) -> None:
    (tree / "in" / "link").symlink_to("denied/secret")
    (tree / "in" / "folder").symlink_to("denied")
    (tree / "in" / "denied" / "back").symlink_to("../file")
    (tree / "in" / "to").symlink_to("denied/back")
    for read in (files.open, files.read, files.folder):
        with pytest.raises(NotPermittedError):
            read(f"{tree}/in/{path}")


def test_only_regular_files_are_opened_and_nothing_is_waited_for(tree: Path, files: Files) -> None:
    os.mkfifo(tree / "in" / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tree / "in" / "socket"))
    (tree / "in" / "to-pipe").symlink_to("pipe")
    for path in (tree / "in" / "pipe", tree / "in" / "to-pipe", tree / "in" / "socket", Path("/dev/null")):
        for use in (files.open, lambda path: Files().write(path, b"x")):
            with pytest.raises(NotAFileError, match="is not a file"):
                use(str(path))
    with pytest.raises(IsADirectoryError):
        files.open(str(tree / "in"))
    with pytest.raises(IsADirectoryError):
        files.open("/")
    with pytest.raises(FileNotFoundError):
        files.open(str(tree / "in" / "nothing"))
    with pytest.raises(NotADirectoryError):
        files.open(str(tree / "in" / "file" / "below"))
    with pytest.raises(NotADirectoryError):
        files.folder(str(tree / "in" / "file"))
    with pytest.raises(ValueError, match="null"):
        files.open(f"{tree}/in/\0")


def test_a_circle_of_links_ends(tree: Path, files: Files) -> None:
    (tree / "in" / "a").symlink_to("b")
    (tree / "in" / "b").symlink_to("a")
    for use in (files.open, files.folder, lambda path: files.write(path, b"")):
        with pytest.raises(OSError, match="symbolic links") as caught:
            use(str(tree / "in" / "a"))
        assert caught.value.errno == errno.ELOOP


def test_a_folder_is_listed_where_it_is(tree: Path, files: Files) -> None:
    (tree / "link").symlink_to("in")
    (tree / "in" / "to-sub").symlink_to("sub")
    (tree / "in" / "sub" / "deep").mkdir()
    with files.folder(f"{tree}/link") as folder:
        assert folder.path == f"{tree}/in"
        assert [entry.name for entry in folder.entries()] == ["denied", "file", "sub", "to-sub"]
        with folder.folder("sub") as below:
            assert (below.path, [entry.name for entry in below.entries()]) == (f"{tree}/in/sub", ["deep"])
        for name in ("file", "to-sub"):
            with pytest.raises(OSError):  # noqa: PT011  # which error it is depends on the system
                folder.folder(name)
    with files.folder("/") as root:
        assert "usr" in [entry.name for entry in root.entries()]


# The operating system's own files


ON_LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is no /proc")


@ON_LINUX
@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc", "//proc/self/environ", "/sys", "/proc/thread-self/maps"]
)
@pytest.mark.parametrize("way", ["plain", "link", "folder", "dots"])
def test_files_of_the_system_are_never_opened(tree: Path, path: str, way: str) -> None:
    if way == "link":
        (tree / "link").symlink_to(path)
        path = f"{tree}/link"
    elif way == "folder":
        (tree / "link").symlink_to(Path(path).parent)
        path = f"{tree}/link/{Path(path).name}"
    elif way == "dots":
        path = f"{tree}{'/..' * 20}{path}"
    files = Files()
    for use in (files.open, files.read, files.folder, lambda path: files.write(path, b"x")):
        with pytest.raises(NotPermittedError, match="cannot access the system's files"):
            use(path)
    for use in (lambda path: files.remove(f"{path}/x"), files.make_folder):
        with pytest.raises((NotPermittedError, FileExistsError, FileNotFoundError)):
            use(path)


@ON_LINUX
@pytest.mark.parametrize("path", ["/proc/self/fd/{}", "/dev/fd/{}"])
def test_links_to_open_descriptors_lead_nowhere_but_to_what_may_be_read(tree: Path, files: Files, path: str) -> None:
    reading, writing = os.pipe()
    with (tree / "in" / "denied" / "secret").open() as secret, (tree / "in" / "file").open() as fine:
        for descriptor in (reading, secret.fileno()):
            with pytest.raises((NotPermittedError, NotAFileError, FileNotFoundError)):
                files.read(path.format(descriptor))
        assert files.read(path.format(fine.fileno())) == b"fine"
    os.close(reading)
    os.close(writing)


@ON_LINUX
def test_proc_is_not_opened_where_else_it_is_mounted(tree: Path, route: str) -> None:
    (tree / "else").mkdir()
    script = (
        "import sys, os\n"
        + ("import ctypes\n" if route == "openat2" else "")
        + "from codex_framework.toolkit.files import Files, NotPermittedError\n"
        "for path in ('self/environ', '', 'version'):\n"
        "    for use in (Files().open, Files().folder) if path else (Files().folder,):\n"
        "        try:\n            use(os.path.join(sys.argv[1], path).rstrip('/'))\n"
        "        except NotPermittedError as error: assert 'tools cannot access' in str(error)\n"
        "        else: sys.exit(f'opened {path}')\n"
    )
    mounted = 'mount --rbind /proc "$1" 2>/dev/null || exit 77; exec "$0" -c "$2" "$1"'
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare")
    for options in (["-m"], ["-rm"]):
        argv = [unshare, *options, "sh", "-c", mounted, sys.executable, str(tree / "else"), script]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode in (0, 1) and "unshare" not in done.stderr:
            break
    else:
        pytest.skip("nothing can be mounted here")
    assert (done.returncode, done.stderr) == (0, "")


# Writing


def test_a_file_is_written_in_place_and_created_with_its_folders(tree: Path, files: Files) -> None:
    file = tree / "in" / "file"
    file.chmod(0o751)
    os.link(file, tree / "in" / "other name")
    files.write(str(file), b"longer than before")
    files.write(str(file), b"new")
    assert (tree / "in" / "other name").read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o751
    files.write(f"{tree}/in/a/b/c", b"deep")
    assert (tree / "in/a/b/c").read_text() == "deep"
    (tree / "link").symlink_to("in/sub")
    files.write(f"{tree}/link/x/y", b"")
    assert (tree / "in/sub/x/y").read_bytes() == b""
    (tree / "in" / "dangling").symlink_to("sub/z")
    files.write(f"{tree}/in/dangling", b"z")
    assert (tree / "in/sub/z").read_text() == "z"


def test_nothing_is_written_made_or_removed_outside(tree: Path, files: Files) -> None:
    inside = tree / "in"
    (inside / "link").symlink_to("../out/kept")
    (inside / "folder").symlink_to("../out")
    (inside / "new").symlink_to("../out/new")
    before = sorted(tree.rglob("*"))
    for path in (
        "link",
        "folder/kept",
        "folder/new",
        "folder/a/b",
        "new",
        "../out/kept",
        "denied/secret",
        "../out/a/b",
    ):
        for use in (
            lambda path: files.write(path, b"x"),
            files.make_folder,
            lambda path: files.in_folder_of(path, use_no),
        ):
            with pytest.raises(NotPermittedError):
                use(f"{inside}/{path}")
    for path in ("folder/kept", "../out/kept", "denied/secret"):
        with pytest.raises(NotPermittedError):
            files.remove(f"{inside}/{path}")
        with pytest.raises(NotPermittedError):
            files.rename(f"{inside}/{path}", f"{inside}/moved")
        with pytest.raises(NotPermittedError):
            files.rename(f"{inside}/file", f"{inside}/{path}")
    assert sorted(tree.rglob("*")) == before
    assert (tree / "out" / "kept").read_text() == "kept"


def use_no(folder: int, name: str) -> None:
    raise AssertionError("it was opened")


def test_links_themselves_are_removed_and_renamed(tree: Path, files: Files) -> None:
    inside = tree / "in"
    (inside / "link").symlink_to("../out/kept")
    files.rename(f"{inside}/link", f"{inside}/sub/link")
    assert (inside / "sub" / "link").readlink() == Path("../out/kept")
    files.remove(f"{inside}/sub/link")
    files.rename(f"{inside}/file", f"{inside}/sub/file")
    files.make_folder(f"{inside}/x/y/z")
    files.make_folder(f"{inside}/x/y/z")
    files.rename(f"{inside}/x", f"{inside}/w")
    assert sorted(path.relative_to(inside).as_posix() for path in inside.rglob("*")) == [
        *("denied", "denied/secret", "sub", "sub/file", "w", "w/y", "w/y/z")
    ]
    with pytest.raises(FileExistsError):
        files.make_folder(f"{inside}/sub/file")
    with pytest.raises(FileNotFoundError):
        files.remove(f"{inside}/nothing")


def test_a_link_out_of_reach_that_leads_inside_may_be_written_through(tree: Path, files: Files) -> None:
    (tree / "out" / "link").symlink_to("../in/file")
    files.write(f"{tree}/out/link", b"through")
    assert (tree / "in" / "file").read_text() == "through"


def test_old_content_is_back_when_writing_fails(tree: Path, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    left = iter([5])

    def failing(descriptor: int, data: bytes) -> int:
        size = next(left, None)
        if size is None and bytes(data).startswith(b"-"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data if size is None else data[:size])

    monkeypatch.setattr(files_module.os, "write", failing)
    with pytest.raises(OSError, match="space"):
        files.write(f"{tree}/in/file", b"-----------")
    left = iter([5])
    with pytest.raises(OSError, match="space"):
        files.write(f"{tree}/in/new", b"-----------")
    assert (tree / "in" / "file").read_text() == "fine"
    assert not (tree / "in" / "new").exists()


# Folders by their real paths

NAMES = st.sampled_from(["a", "b", "link", "up", "self", "file", "."])


@given(parts=st.lists(NAMES, max_size=5))
def test_both_ways_open_the_same_folders(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    top = tmp_path_factory.getbasetemp() / "same"
    if not top.exists():
        for folder in (top, top / "a", top / "b"):
            for name in ("a", "b", "a/b"):
                (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / "link").symlink_to("a")
            (folder / "up").symlink_to("..")
            (folder / "self").symlink_to("self")
            (folder / "file").touch()
    path = "/".join([str(top), *parts])
    real = os.path.realpath(path)
    assert "self" in parts or resolved(path)[0] == real
    try:
        descriptor = open_folder(path)
    except LinkInTheWayError:
        assert real != os.path.normpath(path) or "self" in parts
    except NotADirectoryError:
        assert "file" in parts
    except FileNotFoundError:
        assert not Path(path).exists()
    except OSError:
        assert "." in parts
    else:
        opened = os.fstat(descriptor)
        os.close(descriptor)
        assert os.path.samestat(opened, Path(path).stat())
        assert os.path.normpath(path) == real


# Races

FLIP = """
import ctypes, sys
libc = ctypes.CDLL(None)
one, other = (name.encode() for name in sys.argv[1:3])
print(flush=True)
while True:
    if libc.renameat2(-100, one, -100, other, 2):
        sys.exit("no renameat2")
"""


@contextmanager
def flipping(one: Path, other: Path) -> Iterator[None]:
    """Exchange two names without end, as fast as it goes, from another process."""
    if not hasattr(ctypes.CDLL(None), "renameat2"):
        pytest.skip("there is no renameat2")
    argv = [sys.executable, "-I", "-S", "-c", FLIP, str(one), str(other)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield
            assert child.poll() is None
        finally:
            child.kill()


def rounds(count: int, action: Callable[[], object]) -> set[str]:
    """Do something at least so many times, and until it had two kinds of outcome; returns these."""
    outcomes = set()
    for number in range(100 * count):
        try:
            action()
        except (NotPermittedError, OSError) as error:
            outcomes.add(type(error).__name__)
        else:
            outcomes.add("done")
        if number >= count and len(outcomes) > 1:
            break
        for _ in range(random.randrange(50)):  # so that the two do not run in step
            pass
    return outcomes


COUNTS = [150, pytest.param(2000, marks=pytest.mark.thorough)]


@pytest.mark.parametrize("count", COUNTS)
def test_a_file_that_turns_into_a_link_is_never_read_through_it(tree: Path, files: Files, count: int) -> None:
    (tree / "in" / "flip").write_text("fine")
    (tree / "in" / "link").symlink_to("denied/secret")
    read = []
    with flipping(tree / "in" / "flip", tree / "in" / "link"):
        outcomes = rounds(count, lambda: read.append(files.read(f"{tree}/in/flip")))
    assert set(read) == {b"fine"}
    assert outcomes >= {"done", "NotPermittedError"}, "the race was not run"


@pytest.mark.parametrize("count", COUNTS)
def test_a_folder_that_turns_into_a_link_is_never_gone_through(tree: Path, files: Files, count: int) -> None:
    (tree / "in" / "flip").mkdir()
    (tree / "in" / "flip" / "secret").write_text("fine")
    (tree / "in" / "link").symlink_to("denied")
    read, listed = [], set()

    def use() -> None:
        with files.folder(f"{tree}/in/flip") as folder:
            listed.add((folder.path, *(entry.name for entry in folder.entries())))
        read.append(files.read(f"{tree}/in/flip/secret"))

    (tree / "in" / "denied" / "more").touch()
    with flipping(tree / "in" / "flip", tree / "in" / "link"):
        rounds(count, use)
        until = time.monotonic() + 20
        while not read and time.monotonic() < until:  # on a busy machine the folder may have been a link each time
            rounds(count, use)
    assert set(read) == {b"fine"}
    assert listed == {(f"{tree}/in/flip", "secret")}


@pytest.mark.parametrize("count", COUNTS)
def test_a_file_that_turns_into_a_pipe_is_not_waited_for(tree: Path, files: Files, count: int) -> None:
    (tree / "in" / "flip").write_text("fine")
    os.mkfifo(tree / "in" / "pipe")
    read = []

    def use() -> None:
        read.append(files.read(f"{tree}/in/flip"))
        files.write(f"{tree}/in/flip", b"fine")

    with flipping(tree / "in" / "flip", tree / "in" / "pipe"):
        outcomes = rounds(count, use)
    assert set(read) == {b"fine"}
    assert outcomes <= {"done", "NotAFileError"}


@pytest.mark.parametrize("count", COUNTS)
def test_nothing_is_made_or_written_behind_a_link_that_appears(tree: Path, files: Files, count: int) -> None:
    (tree / "in" / "flip").mkdir()
    (tree / "in" / "link").symlink_to("../out")
    numbers = itertools.count()

    def use() -> None:
        number = next(numbers)
        top = f"{tree}/in/flip/{number}"
        uses = (
            lambda: files.write(f"{top}/a/b", b"x"),
            lambda: files.write(f"{tree}/in/flip/kept", b"x"),
            lambda: files.make_folder(f"{top}/c/d"),
            lambda: files.in_folder_of(f"{top}/e", lambda folder, name: os.mkdir(name, dir_fd=folder)),
            lambda: files.remove(f"{tree}/in/flip/kept"),
            lambda: files.rename(f"{tree}/in/flip/kept", f"{tree}/in/moved"),
        )
        failed = []
        for one in uses:
            try:
                one()
            except (NotPermittedError, OSError) as error:
                failed.append(error)
        if failed:
            raise failed[0]

    with flipping(tree / "in" / "flip", tree / "in" / "link"):
        rounds(count, use)
    assert [path.name for path in (tree / "out").iterdir()] == ["kept"]
    assert (tree / "out" / "kept").read_text() == "kept"
    inside = next(path for path in (tree / "in" / "flip", tree / "in" / "link") if not path.is_symlink())
    assert len(list(inside.iterdir())) > 1, "nothing was made"


@pytest.mark.thorough
def test_the_races_are_won_by_those_who_check_first_and_open_then(tree: Path, route: str) -> None:
    """The tests above would notice."""
    access = FileAccess.writing(tree / "in", deny=[tree / "in" / "denied"])
    (tree / "in" / "flip").write_text("fine")
    (tree / "in" / "link").symlink_to("denied/secret")
    read = []

    def naive() -> None:
        path = tree / "in" / "flip"
        if access.may_read(path):
            read.append(path.read_text())
        if "secret" in read:
            raise NotPermittedError

    with flipping(tree / "in" / "flip", tree / "in" / "link"):
        rounds(2000, naive)
    assert "secret" in read


def test_credentials_of_this_process_are_never_opened(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(off_limits, "_private", set())
    (tree / "home").symlink_to("in")
    (tree / "in" / "auth.json").write_text("key")
    (tree / "in" / "link").symlink_to("auth.json")
    off_limits.keep_private(f"{tree}/home/auth.json", f"{tree}/home/new")
    for path in ("in/auth.json", "home/auth.json", "in/link"):
        with pytest.raises(NotPermittedError, match="credentials"):
            Files().read(f"{tree}/{path}")
        with pytest.raises(NotPermittedError, match="credentials"):
            Files().write(f"{tree}/{path}", b"")
    with pytest.raises(NotPermittedError, match="credentials"):
        Files().write(f"{tree}/in/new", b"")
