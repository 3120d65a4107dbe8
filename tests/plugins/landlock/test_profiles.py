"""Every profile is enforced as ``FileAccess`` says: the plan by itself, and real file operations at both levels."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codex_framework.commands.process.running import start_command
from codex_framework.contract.errors import CommandFailed, SandboxError
from codex_framework.contract.permissions.file_access import FileAccess, PathRule
from codex_framework.contract.permissions.globs import deny_matcher
from codex_framework.contract.protocol.permissions import AccessMode
from codex_plugin_landlock.jail.parts import parts
from codex_plugin_landlock.plan import plan_for
from codex_plugin_landlock.sandbox import LandlockSandbox

READ, WRITE, DENY = AccessMode.READ, AccessMode.WRITE, AccessMode.DENY
KIND = {READ: "read-only", WRITE: "writable", DENY: "denied"}
LEVELS = ["namespaces", "landlock"]
USER = "root" if os.geteuid() == 0 else "ordinary"
EXAMPLES = settings().max_examples
PYTHON = "/usr/bin/python3"
ENV = {"PATH": os.defpath + ":/usr/local/bin", "LANG": "C.UTF-8"}

FOLDERS, FILES, MISSING = ("a", "b", ".git"), ("f", "x.pem"), "m"
DEPTH = 3

# What a program needs in order to run, where nothing may be read but what is named.
SYSTEM = {Path(os.path.realpath(path)): READ for path in ("/usr", "/etc", "/lib", "/lib64", "/bin")}

RELATIVE = st.lists(st.sampled_from((*FOLDERS, *FILES, MISSING)), min_size=0, max_size=DEPTH + 1)
RULES = st.lists(st.tuples(RELATIVE, st.sampled_from((READ, WRITE, WRITE, DENY))), max_size=7)
GLOBS = st.lists(st.sampled_from(("**/x.pem", "*/b", "a/**/f", "**/.git", "**/[ab]/x.*", "b/?")), max_size=2)
PROFILES = st.tuples(RULES, GLOBS, st.booleans())


def build(base, depth=DEPTH):
    """A tree of folders and files below ``base``, which exists."""
    for name in FILES:
        (base / name).write_text(name)
    if depth:
        for name in FOLDERS:
            (base / name).mkdir()
            build(base / name, depth - 1)


def nodes(base):
    return [base, *sorted(base.rglob("*"))]


def access_of(base, profile, *, runs=False):
    """A profile for a tree. ``runs``: programs can run with it."""
    rules, globs, closed = profile
    modes = {base.joinpath(*names): mode for names, mode in rules}
    if runs and closed:
        modes |= SYSTEM
    return FileAccess(
        rules=tuple(PathRule(path, mode) for path, mode in sorted(modes.items())),
        otherwise=DENY if closed else READ,
        denied_globs=tuple(f"{base}/{pattern}" for pattern in globs),
    )


def granting(modes, **options):
    return FileAccess(rules=tuple(PathRule(path, mode) for path, mode in sorted(modes.items())), **options)


def closed(modes, **options):
    return granting(SYSTEM | modes, otherwise=DENY, **options)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    base = tmp_path_factory.mktemp("tree").resolve()
    build(base)
    return base


@pytest.fixture
def base():
    """An empty folder that is not below /tmp."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="profile-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=LEVELS)
def level(request, harness):
    return checked(request.param, harness)


@pytest.fixture
def namespaces(harness):
    return checked("namespaces", harness)


def checked(level, harness, user=USER):
    if reason := harness.reason_to_skip(level, user):
        pytest.skip(reason)
    return level


# The plan by itself


def kind_of(listed, root, path):
    """What the innermost mount at or above a path says."""
    return next((part.kind for part in reversed(listed) if path.is_relative_to(part.path)), root)


@settings(max_examples=min(2 * EXAMPLES, 10_000))
@given(profile=PROFILES, targets=st.lists(st.tuples(RELATIVE, st.booleans()), min_size=1, max_size=12))
@example(profile=([(["a", ".git", ".git"], READ)], ["**/.git"], False), targets=[(["a", ".git", ".git"], False)])
def test_the_parts_of_a_plan_allow_what_the_access_says(tree, profile, targets):
    """At the depth `deep` it takes minutes: 10,000 profiles."""
    access = access_of(tree, profile)
    plan = plan_for(access).resolved()
    data = json.loads(json.dumps(plan.data))
    matched = deny_matcher(access.denied_globs)
    for names, new in targets:
        path = tree.joinpath(*names, *(["new"] if new else []))
        missing = [one for one in (path, *path.parents) if not one.exists()]
        if matched is not None and any(matched(str(one)) for one in missing):
            continue  # only what exists is found by a pattern
        assert kind_of(parts(data), data["root"], path) == KIND[access.mode_of(path)], path


@settings(max_examples=min(2 * EXAMPLES, 10_000))
@given(profile=PROFILES)
def test_nothing_with_a_mount_can_be_moved_along_with_a_folder(tree, profile):
    access = access_of(tree, profile)
    plan = plan_for(access).resolved()
    mounted = {Path(part.path) for part in plan.parts}
    kinds = {"/": plan.kinds["/"]} | {part.path: part.kind for part in plan.parts}
    for part in plan.parts:
        for folder in (Path(part.path), *Path(part.path).parents[:-1]):
            around = next(kinds[str(one)] for one in folder.parents if str(one) in kinds)
            assert around != "writable" or folder in mounted


def test_a_key_changes_with_what_matches(tmp_path):
    plan = plan_for(granting({tmp_path: WRITE}, denied_globs=(f"{tmp_path}/*.pem",)))
    before = plan.resolved()
    (tmp_path / "a.pem").touch()
    assert [part.path for part in plan.resolved().parts] == [str(tmp_path), str(tmp_path / "a.pem")]
    assert plan.resolved().key == plan.resolved().key != before.key


def test_patterns_are_looked_for_in_what_is_opened_again_below_a_match(tmp_path):
    for name in ("secret/open/secret/x", "secret/open/y", "secret/other/secret"):
        (tmp_path / name).mkdir(parents=True)
    opened = tmp_path / "secret" / "open"
    plan = plan_for(granting({opened: READ}, denied_globs=(f"{tmp_path}/**/secret",))).resolved()
    kinds = {part.path: part.kind for part in plan.parts}
    assert kinds == {
        str(tmp_path / "secret"): "denied",
        str(opened): "read-only",
        str(opened / "secret"): "denied",
    }


def test_what_a_matching_symlink_leads_to_is_denied_unless_a_rule_opens_it(tmp_path):
    for name in ("work", "keys/pub", "other"):
        (tmp_path / name).mkdir(parents=True)
    targets = {"a": "../other", "b": "../keys", "c": "/", "d": "missing", "e": "/dev/null", "f": "/proc/self"}
    for name, target in targets.items():
        (tmp_path / "work" / f"{name}.pem").symlink_to(target)
    access = granting({tmp_path / "keys" / "pub": WRITE}, denied_globs=(f"{tmp_path}/work/*.pem",))
    denied = {part.path for part in plan_for(access).resolved().parts if part.kind == "denied"}
    assert denied == {str(tmp_path / "other")} | {str(tmp_path / "work" / f"{name}.pem") for name in targets}


@pytest.mark.slow
def test_a_pattern_that_matches_too_much_is_refused(tmp_path):
    for number in range(8193):
        (tmp_path / f"{number}.pem").touch()
    with pytest.raises(SandboxError, match=r"matches more than 8192 files") as caught:
        plan_for(granting({}, denied_globs=(f"{tmp_path}/*.pem",))).resolved()
    assert "deny the folder" in caught.value.hint


@pytest.mark.parametrize("mode", [WRITE, DENY])
@pytest.mark.parametrize("path", ["/proc", "/proc/sys/kernel"])
def test_rules_for_proc_are_refused(path, mode):
    with pytest.raises(SandboxError, match=f"^{path} cannot be") as caught:
        plan_for(granting({Path(path): mode}))
    assert path in caught.value.hint


def test_reading_proc_is_nothing_special():
    assert plan_for(granting({Path("/proc/self"): READ}, otherwise=DENY)).parts == ()


def test_a_writable_tmp_can_be_private_and_another_cannot():
    assert plan_for(granting({Path("/tmp"): WRITE}, private_tmp=True)).private_tmp
    assert plan_for(granting({Path("/"): WRITE}, private_tmp=True)).private_tmp
    assert not plan_for(granting({Path("/tmp/a"): WRITE}, private_tmp=True)).private_tmp
    assert not plan_for(FileAccess(full=True, private_tmp=True)).private_tmp


# Real file operations

PROBE = """
import json, os, sys
def tried(operation, path):
    try:
        if operation == "read":
            with open(path, "rb") as file: file.read()
        elif operation == "list":
            os.listdir(path)
        elif operation == "write":
            with open(path, "ab") as file: file.write(b"x")
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "xb") as file: file.write(b"x")
        return True
    except OSError:
        return False
print(json.dumps([tried(*one) for one in json.loads(sys.argv[1])]))
"""


def probe(harness, level, access, probes, user):
    """Which of some operations succeed in one command."""
    argv = (PYTHON, "-I", "-S", "-c", PROBE, json.dumps(probes))
    ended = harness.run_all(level, user, access, Path("/"), {"it": argv})["it"]
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.output)


def wanted_probes(base, profile):
    """Operations on everything there is, on what rules speak of, and beside it."""
    listed = []
    for path in nodes(base):
        listed += [("list", path), ("make", path / "new")] if path.is_dir() else [("read", path), ("write", path)]
    for names, _ in profile[0]:
        path = base.joinpath(*names)
        above = [one for one in path.parents if one.is_relative_to(base)]
        if not path.exists() and not any(one.is_file() for one in above):
            listed += [("make", path / "inside"), ("make", path.with_name("beside"))]
    order = ("read", "list", "write", "make")
    return sorted(dict.fromkeys(listed), key=lambda one: order.index(one[0]))


def is_made(access, path):
    """Whether a file can be made, with the folders above it that are missing: that takes writing in the one that is there."""
    missing = [one for one in path.parents if not one.exists()]
    there = next(one for one in path.parents if one.exists())
    return all(access.mode_of(one) is WRITE for one in (path, *missing, *([there] if missing else [])))


def expected(access, operation, path):
    mode = access.mode_of(path)
    if operation == "make":
        return is_made(access, path)
    return mode is WRITE if operation == "write" else mode is not DENY


def enumerated(access, folder, kept):
    """Whether something else may be done with something that exists below a folder that may be written."""
    return any(path != folder and path.is_relative_to(folder) for path in kept)


@pytest.mark.slow
@pytest.mark.parametrize("user", ["root", "ordinary"])
@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=min(EXAMPLES // 5, 300))
@given(profile=PROFILES)
def test_real_operations_succeed_exactly_where_the_access_says(harness, level, user, profile):
    """It takes seconds: every example is a tree of its own, and a program in a sandbox that tries all of it."""
    checked(level, harness, user)
    if not os.access(PYTHON, os.X_OK):
        pytest.skip(f"needs {PYTHON}")
    base = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="profile-"))
    try:
        build(base, 2)
        if user == "ordinary" and os.geteuid() == 0:
            for path in nodes(base):
                os.chown(path, harness.ORDINARY_UID, -1)
        access = access_of(base, profile, runs=True)
        before = {path: access.mode_of(path) for path in nodes(base)}
        kept = [path for path, mode in before.items() if mode is not WRITE]
        probes = wanted_probes(base, profile)
        if level == "landlock":
            # Denied folders may be listed; where something in a folder is protected, nothing new can be made in it; and
            # what does not exist is not protected.
            probes = [
                (operation, path)
                for operation, path in probes
                if not (operation == "list" and before[path] is DENY)
                and not (operation == "make" and (not path.parent.exists() or enumerated(access, path.parent, kept)))
            ]
        wanted = [expected(access, *one) for one in probes]
        found = probe(harness, level, access, [(operation, str(path)) for operation, path in probes], user)
        wrong = [(*one, got) for one, right, got in zip(probes, wanted, found, strict=True) if right != got]
        assert not wrong
        placeholders = [path for path in nodes(base) if path.is_dir() and stat.S_IMODE(path.stat().st_mode) == 0o1755]
        assert not placeholders
    finally:
        shutil.rmtree(base)


def run(harness, level, access, script, cwd, user=USER):
    """Output and errors of a shell script, line by line."""
    return harness.run_all(level, user, access, cwd, {"it": ("/bin/sh", "-c", script)})["it"].output.splitlines()


def last_words(lines):
    return [line.rsplit(": ", 1)[-1] for line in lines]


def test_rules_alternate_at_any_depth(harness, level, base):
    deep = base / "w" / "r" / "w" / "d" / "w"
    deep.mkdir(parents=True)
    (deep.parent / "secret").write_text("secret")
    modes = {WRITE: [base / "w", base / "w/r/w", deep], READ: [base / "w/r"], DENY: [deep.parent]}
    access = granting({path: mode for mode, paths in modes.items() for path in paths})
    lines = run(
        harness,
        level,
        access,
        "touch w/r/n; touch w/r/w/d/n; cat w/r/w/d/secret; touch w/r/w/d/w/n; ls w/r/w/d/w",
        base,
    )
    assert "secret" not in lines
    assert lines[-1] == "n"
    assert [path.name for path in base.rglob("n")] == ["n"]
    assert (deep / "n").exists()


def test_a_denied_folder_can_be_passed_through_but_not_listed(harness, namespaces, base):
    (base / "d" / "x" / "open").mkdir(parents=True)
    (base / "d" / "x" / "open" / "file").write_text("readable\n")
    access = granting({base: WRITE, base / "d": DENY, base / "d/x/open": READ})
    script = "cat d/x/open/file; ls d; ls d/x; touch d/n; touch d/x/n; chmod 777 d; mv d e; mv d/x d/y"
    lines = run(harness, namespaces, access, script, base)
    assert lines[0] == "readable"
    assert last_words(lines[1:]) == [
        *["Permission denied"] * 2,
        *["Read-only file system"] * 3,
        "Device or resource busy",
        "Read-only file system",
    ]


def test_a_denied_file_cannot_be_read_moved_removed_or_linked(harness, namespaces, base):
    secret = base / "secret"
    secret.write_text("secret")
    script = "cat secret; echo x > secret; mv secret x; rm -f secret; ln secret y; cp secret z; ls"
    lines = run(harness, namespaces, granting({base: WRITE, secret: DENY}), script, base)
    assert "secret" in lines
    assert not any(line == "z" for line in lines)
    assert secret.read_text() == "secret"
    assert [path.name for path in base.iterdir()] == ["secret"]


def test_what_is_denied_and_missing_cannot_be_made(harness, namespaces, base):
    missing = base / "etc" / "keys" / "prod"
    script = (
        "mkdir -p etc/keys/prod/x; touch etc/keys/prod; touch etc/other; mv etc x; rm -r etc/keys; ls etc/keys/prod"
    )
    lines = run(harness, namespaces, granting({base: WRITE, missing: DENY}), script, base)
    assert lines[-1].endswith("Permission denied")
    assert sorted(path.name for path in base.rglob("*")) == ["etc", "other"]
    assert stat.S_IMODE((base / "etc").stat().st_mode) == 0o755


def test_what_is_missing_outside_of_writable_folders_is_no_matter(harness, level, base):
    modes = {base / "no" / "w": WRITE, base / "no" / "r": READ, base / "no" / "d": DENY}
    assert run(harness, level, granting(modes), "echo ran; ls", base) == ["ran"]
    assert list(base.iterdir()) == []


def test_only_what_is_named_can_be_read(harness, level, base):
    for name in ("work", "more", "other"):
        (base / name).mkdir()
        (base / name / "file").write_text(f"{name}\n")
    access = closed({base / "work": WRITE, base / "more": READ})
    script = (
        f"cat file ../more/file; cat ../other/file; ls ..; ls /; touch new ../more/new ../new /new; "
        f"readlink /bin; cat /proc/self/comm; echo x > /dev/null; cat {Path(__file__).resolve()}; cd /usr/bin && pwd"
    )
    lines = run(harness, level, access, script, base / "work")
    assert lines[:2] == ["work", "more"]
    assert lines[-1] == "/usr/bin"
    assert "cat" in lines
    if Path("/bin").is_symlink():
        assert str(Path("/bin").readlink()) in lines
    assert not any(line == "other" or line == "x" for line in lines)
    assert sum(line.endswith(("Permission denied", "No such file or directory")) for line in lines) >= 4
    assert (base / "work" / "new").exists()
    assert not (base / "more" / "new").exists()
    assert not (base / "new").exists()


def test_with_restricted_reads_the_root_has_nothing_else(harness, namespaces, base):
    script = (
        "for f in /*; do echo $f; done; test -e /sys || echo nothing; ls /proc/1/root/ >/dev/null 2>&1 || echo closed"
    )
    lines = run(harness, namespaces, closed({base: WRITE}), script, base)
    assert lines == ["/*", "nothing", "closed"]


def test_with_restricted_reads_a_command_that_cannot_start_says_why(level, base):
    async def main():
        sandbox = LandlockSandbox(level)
        confinement = sandbox.confine(closed({base: WRITE}), base)
        words = []
        try:
            for argv, cwd in (
                (["no-such-program"], base),
                (["true"], Path(__file__).resolve().parent),
                (["true"], base),
            ):
                try:
                    command = await start_command(confinement, argv=argv, cwd=str(cwd), env=ENV)
                    words.append((await command.wait()).exit_code)
                except CommandFailed as failed:
                    words.append(str(failed))
        finally:
            await sandbox.aclose()
        return words

    missing, closed_folder, ran = asyncio.run(main())
    assert "No such file" in missing
    if level == "namespaces":
        assert "No such file" in closed_folder
    assert ran == 0


def test_a_file_given_as_input_cannot_be_opened_again_where_reads_are_restricted(harness, level, base):
    (base / "work").mkdir()
    (base / "input").write_text("given\n")
    command = ("/bin/sh", "-c", "cat; cat /proc/self/fd/0; echo x > /proc/self/fd/0")
    access = closed({base / "work": WRITE})
    ended = harness.run_all(level, USER, access, base / "work", {"it": command}, stdin=str(base / "input"))["it"]
    assert ended.output.splitlines()[0] == "given"
    assert ended.output.count("given") == 1
    assert (base / "input").read_text() == "given\n"


def test_what_is_mounted_in_a_writable_folder_keeps_its_rules(harness, namespaces, base):
    """In a mount namespace of the test's own, so that nothing is left behind."""
    code = f"""
import os, sys
sys.path[:0] = {[str(Path(__file__).parents[3]), *sys.path]!r}
from pathlib import Path
from codex_framework.contract.protocol.permissions import AccessMode as Mode
from codex_framework.contract.permissions.file_access import FileAccess, PathRule
from tests.plugins.landlock.conftest import run_all
base = Path({str(base)!r})
modes = {{base: Mode.WRITE, base / "read": Mode.READ, base / "deny": Mode.DENY, base / "deny/sub": Mode.WRITE}}
access = FileAccess(rules=tuple(PathRule(path, mode) for path, mode in modes.items()))
script = "exec 2>/dev/null; for d in write read deny deny/sub; do touch $d/new; ls $d; done; touch write/ro/new; ls write/ro"
print(run_all("namespaces", "root", access, base, {{"it": ("/bin/sh", "-c", script)}})["it"].output)
"""
    mounts = "; ".join(
        [
            f"cd {base}",
            "mkdir write read deny",
            *(f"mount -t tmpfs tmpfs {name}; touch {name}/old" for name in ("write", "read", "deny")),
            "mkdir deny/sub write/ro",
            "mount -t tmpfs -o ro tmpfs write/ro",
            "mount -t tmpfs tmpfs deny/sub; touch deny/sub/old",
        ]
    )
    if USER != "root" or shutil.which("unshare") is None:
        pytest.skip("needs root and `unshare` to mount something")
    command = [
        "unshare",
        "-m",
        "sh",
        "-c",
        f'{mounts}; cd "$1"; exec "$2" -c "$3"',
        "sh",
        str(Path.cwd()),
        sys.executable,
        code,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "mount:" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    assert done.stdout.split() == ["new", "old", "ro", "old", "new", "old"], done.stderr


def test_a_command_starts_in_a_folder_that_is_named_by_a_symlink(harness, level, base):
    (base / "real").mkdir()
    (base / "link").symlink_to("real")
    assert run(harness, level, closed({base / "real": WRITE}), "pwd -P; touch new", base / "link") == [
        str(base / "real")
    ]
    assert (base / "real" / "new").exists()


def test_the_whole_file_system_can_be_writable_but_for_parts(harness, namespaces, base):
    for name in ("d", "r"):
        (base / name).mkdir()
    access = granting({Path("/"): WRITE, base / "d": DENY, base / "r": READ})
    lines = run(harness, namespaces, access, f"touch n r/n d/n; mv {base} /var/tmp/moved; ls; ls d", base)
    assert sorted(path.name for path in base.rglob("n")) == ["n"]
    assert lines[-1].endswith("Permission denied")


def test_files_can_be_parts(harness, namespaces, base):
    for name in ("r/w", "r/d", "w/r"):
        (base / name).parent.mkdir(exist_ok=True)
        (base / name).write_text("old\n")
    access = granting({base / "r/w": WRITE, base / "r/d": DENY, base / "w": WRITE, base / "w/r": READ})
    run(harness, namespaces, access, "echo new > r/w; echo new > r/d; echo new > w/r; rm w/r; cat r/d > w/stolen", base)
    assert [(base / name).read_text() for name in ("r/w", "r/d", "w/r")] == ["new\n", "old\n", "old\n"]
    assert (base / "w/stolen").read_text() == ""


@pytest.mark.parametrize("name", [b"new\nline", b"not-utf8-\xff\xfe", "\u00e9\u4e2d".encode(), b"quote'\"\\"])
def test_any_file_name_can_be_denied(harness, level, base, name):
    folder = base / os.fsdecode(name)
    for one in (folder, folder / "open", base / "beside"):
        one.mkdir()
        (one / "file").write_text("text\n")
    access = granting({base: WRITE, folder: DENY, folder / "open": WRITE})
    script = (
        'for f in *; do cat "$f/file" && echo x >> "$f/file"; cat "$f/open/file" && echo more >> "$f/open/file"; done'
    )
    lines = run(harness, level, access, script + " 2>/dev/null", base)
    assert lines == ["text", "text"]
    texts = [(one / "file").read_text() for one in (folder, folder / "open", base / "beside")]
    assert texts == ["text\n", "text\nmore\n", "text\nx\n"]


def test_rules_on_mount_points(harness, namespaces, base):
    script = "ls /sys; ls /dev/shm; touch /dev/shm/n; echo x > /dev/null && echo ran"
    lines = run(harness, namespaces, granting({Path("/sys"): DENY, Path("/dev/shm"): DENY}), script, base)
    assert last_words(lines[:2]) == ["Permission denied"] * 2
    assert "Read-only" in lines[2] or "Permission denied" in lines[2]
    assert lines[3] == "ran"


@pytest.mark.parametrize("mode", [READ, WRITE, DENY])
def test_dev_is_always_the_sandbox_s_own(harness, namespaces, base, mode):
    script = "echo x > /dev/null && echo ran; ls /dev; touch /dev/new"
    lines = run(harness, namespaces, granting({Path("/dev"): mode}), script, base)
    assert lines[0] == "ran"
    assert {"null", "zero", "shm"} <= set(lines)
    assert not any(name.startswith((".denied", "vd", "sd")) for name in lines)
    assert lines[-1].endswith("Read-only file system")


def test_below_dev_a_path_can_be_denied_and_another_opened(harness, namespaces, base):
    shm = Path("/dev/shm")
    names = {mode: shm / f"{mode.value}-{os.getpid()}" for mode in (READ, WRITE, DENY)}
    try:
        for path in names.values():
            path.mkdir()
            (path / "file").write_text("text\n")
        access = granting({path: mode for mode, path in names.items()})
        script = "for folder in *; do cat $folder/file; echo x >> $folder/file; done"
        run(harness, namespaces, access, f"cd {shm}; {script}", base)
        assert [(names[mode] / "file").read_text() for mode in (READ, WRITE, DENY)] == ["text\n", "text\nx\n", "text\n"]
    finally:
        for path in names.values():
            shutil.rmtree(path)


@pytest.mark.parametrize("around", ["closed", "read", "write"])
def test_a_private_tmp_is_empty_but_for_the_roots_in_it(harness, namespaces, around):
    outer = Path(tempfile.mkdtemp(dir="/tmp", prefix="root-"))
    try:
        (outer / "denied").mkdir()
        (outer / "file").write_text("text\n")
        tmp = Path("/tmp")
        modes = {tmp: WRITE, tmp / ".git": READ, tmp / "x/y/z": DENY}
        modes |= {outer: WRITE, outer / ".git": READ, outer / "denied": DENY}
        if around == "write":
            modes[Path("/")] = modes.pop(tmp)
        access = (closed if around == "closed" else granting)(modes, private_tmp=True)
        script = (
            "cat file; touch new; touch /tmp/mine /tmp/x/y/mine; touch .git/x /tmp/.git/x; mv /tmp/x /tmp/X; ls denied; "
            "ls /tmp/x/y/z; ls -A /tmp; ls /tmp/x/y; stat -c %a /tmp"
        )
        lines = run(harness, namespaces, access, script, outer)
        assert lines[0] == "text"
        assert [line.rsplit(": ", 1)[-1] for line in lines[1:6]] == [
            *["Read-only file system"] * 2,
            "Device or resource busy",
            *["Permission denied"] * 2,
        ]
        assert lines[6:] == [".git", "mine", outer.name, "x", "mine", "z", "1777"]
        assert sorted(path.name for path in outer.iterdir()) == ["denied", "file", "new"]
        assert not (tmp / "mine").exists()
    finally:
        shutil.rmtree(outer)


@pytest.mark.slow
def test_programs_share_the_placeholders_of_missing_folders(namespaces, base):
    access = granting({base: WRITE, base / "a/b/c": DENY, base / ".git": READ})
    script = (
        "mkdir a/b/c/x || mkdir .git/x || touch a/$0 || true; touch a/$0; rm a/$0; sleep 0.0$0; ls a/b/c || echo kept"
    )

    async def one(number):
        found = []
        for _ in range(3):
            sandbox = LandlockSandbox("namespaces")
            try:
                confinement = sandbox.confine(access, base)
                command = await start_command(
                    confinement, argv=["sh", "-c", f"exec 2>/dev/null; {script}", str(number)], cwd=str(base), env=ENV
                )
                found.append((await command.wait()).stdout)
            finally:
                await sandbox.aclose()
        return found

    async def main():
        return await asyncio.gather(*(one(number) for number in range(6)))

    assert asyncio.run(main()) == [["kept\n"] * 3] * 6
    assert list(base.iterdir()) == []


def test_a_private_tmp_is_refused_where_it_cannot_be(harness, base):
    checked("landlock", harness)
    sandbox = LandlockSandbox("landlock")
    with pytest.raises(SandboxError, match="a private /tmp") as caught:
        sandbox.confine(granting({Path("/tmp"): WRITE}, private_tmp=True), base)
    assert "sandbox_private_tmp" in caught.value.hint


def test_files_that_appear_between_commands_are_covered_too(level, base):
    access = granting({base: WRITE}, denied_globs=(f"{base}/**/*.pem",))
    (base / "sub").mkdir()

    async def main():
        sandbox = LandlockSandbox(level)
        confinement = sandbox.confine(access, base)

        async def output():
            command = await start_command(
                confinement, argv=["sh", "-c", "exec 2>&1; cat *.pem */*.pem; cat file"], cwd=str(base), env=ENV
            )
            return (await command.wait()).output

        try:
            found = [await output()]
            (base / "sub" / "key.pem").write_text("secret")
            (base / "file").write_text("text\n")
            (base / "link.pem").symlink_to("file")
            found.append(await output())
            (base / "sub" / "key.pem").rename(base / "sub" / "key")
            (base / "link.pem").unlink()
            found.append(await output())
            return found
        finally:
            await sandbox.aclose()

    first, second, third = asyncio.run(main())
    assert "Permission denied" not in first
    assert second.count("Permission denied") == 3
    assert "secret" not in second
    assert third.endswith("text\n")


@pytest.mark.slow
def test_too_many_entries_beside_what_is_denied_are_refused(harness, base):
    """It takes seconds: twenty thousand files are made."""
    checked("landlock", harness)
    for number in range(20_001):
        (base / str(number)).touch()
    access = granting({base: WRITE, base / "0": DENY})
    with pytest.raises(SandboxError, match=r"20,?000") as caught:
        run(harness, "landlock", access, "echo ran", base, user="root")
    assert "namespaces" in caught.value.hint


@pytest.mark.slow
def test_a_thousand_entries_beside_what_is_denied_are_no_matter(harness, base):
    checked("landlock", harness)
    for number in range(1500):
        (base / str(number)).touch()
    access = granting({base: WRITE, base / "0": DENY})
    lines = run(harness, "landlock", access, "echo ran > 1499; cat 1499; cat 0; ulimit -n", base)
    assert lines[0] == "ran"
    assert lines[1].endswith("Permission denied")


@pytest.mark.slow
def test_many_denied_files_are_no_matter(harness, level, base):
    for folder in range(40):
        (base / f"{folder}").mkdir()
        for number in range(40):
            (base / f"{folder}" / f"{number}.pem").write_text("secret\n")
        (base / f"{folder}" / "file").write_text("text\n")
    access = granting({base: WRITE}, denied_globs=(f"{base}/**/*.pem",))
    lines = run(harness, level, access, "cat */* 2>/dev/null | sort | uniq -c", base)
    assert [line.split() for line in lines] == [["40", "text"]]
