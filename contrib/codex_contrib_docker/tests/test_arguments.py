"""What the engine is told, word by word, and which mounts come of an access."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from codex_contrib_docker.arguments import Container, exec_words, kill_words, run_words
from codex_contrib_docker.layout import Kind, Layout, Mount, covers, layout_of
from codex_framework import FileAccess, NetworkMode, SandboxError
from codex_framework.contract.permissions.file_access import ResourceLimits
from codex_framework.testing import access_of

CONTAINER = Container(
    image="work",
    name="codex-1-2",
    layout=Layout((Mount("/tmp", Kind.PRIVATE), Mount("/w", Kind.WRITABLE), Mount("/w/.git", Kind.READABLE))),
    network=NetworkMode.OFF,
    limits=ResourceLimits(),
    owner=(1000, 100),
    keep_id=False,
    memory_mb=None,
    status="/host/status",
    covers={"/s": "/host/0", "/s/x": "/host/1"},
)
COMMON = (
    "run --rm --interactive --init --pull never --name codex-1-2 --label codex-framework=sandbox --hostname sandbox"
    " --log-driver none --sig-proxy=false --network {network} --ipc private --read-only --cap-drop ALL"
    " --security-opt no-new-privileges --user 1000:100"
)
END = " --mount type=bind,source=/host/status,target=/.codex-status --workdir / --entrypoint cat work"


def test_the_words_for_a_workspace():
    assert " ".join(run_words(CONTAINER)) == (
        COMMON.format(network="none") + " --pids-limit 4096 --ulimit core=0 --tmpfs /tmp:rw,nosuid,nodev,exec,mode=1777"
        " --mount type=bind,source=/w,target=/w --mount type=bind,source=/w/.git,target=/w/.git,readonly" + END
    )


def test_the_words_for_limits_and_the_network():
    limits = ResourceLimits(processes=None, memory_bytes=1 << 30, file_bytes=1 << 20)
    container = CONTAINER._replace(network=NetworkMode.ON, limits=limits, keep_id=True, layout=Layout(()))
    assert " ".join(run_words(container)) == (
        COMMON.format(network="host") + " --userns keep-id --memory 1073741824 --memory-swap 1073741824"
        " --ulimit core=0 --ulimit fsize=1048576" + END
    )
    assert "--memory 2097152 " in " ".join(run_words(container._replace(memory_mb=2)))


def test_the_words_for_what_is_hidden():
    mounts = (
        Mount("/a,b", Kind.WRITABLE),
        Mount("/s", Kind.PASSABLE),
        Mount("/s/x", Kind.HIDDEN_FOLDER),
        Mount("/f", Kind.HIDDEN_FILE),
    )
    words = run_words(CONTAINER._replace(layout=Layout(mounts)))
    assert 'type=bind,"source=/a,b","target=/a,b"' in words
    assert "type=bind,source=/host/0,target=/s,readonly" in words
    assert "type=bind,source=/host/1,target=/s/x,readonly" in words
    assert "type=bind,source=/dev/null,target=/f,readonly" in words


def test_the_words_for_a_command():
    words = exec_words(
        "box", token="t", argv=("ls", "-l"), cwd="/w", env={"A": "b", "C": "d\ne"}, env_file="/e", tty=True
    )
    assert words[:10] == (
        "exec",
        "--interactive",
        "--tty",
        "--workdir",
        "/",
        "--env-file",
        "/e",
        "--env",
        "C=d\ne",
        "box",
    )
    assert (words[10:12], words[13:]) == (("sh", "-c"), ("sh", "/.codex-status/t", "/w", "ls", "-l"))
    assert kill_words("box", 12, 15)[-3:] == ("sh", "15", "12")


@pytest.mark.parametrize("network", [NetworkMode.OFF, NetworkMode.ON])
def test_a_real_client_understands_the_words(network):
    """It reads all options before it shows its help; no engine is needed for that."""
    client = shutil.which("docker") or shutil.which("podman")
    if client is None:
        pytest.skip("there is no docker or podman here")
    mounts = (
        Mount("/a,b", Kind.WRITABLE),
        Mount("/s", Kind.PASSABLE),
        Mount("/s/x", Kind.HIDDEN_FOLDER),
        Mount("/tmp", Kind.PRIVATE),
    )
    limits = ResourceLimits(memory_bytes=1 << 30, file_bytes=1 << 20)
    container = CONTAINER._replace(network=network, limits=limits, layout=Layout(mounts))
    run = run_words(container)
    execute = exec_words("box", token="t", argv=("ls",), cwd="/", env={"A": "b\nc"}, env_file="/e", tty=True)
    for words, subject in ((run, "work"), (execute, "box")):
        at = words.index(subject)
        told = (client, *words[:at], "--help")
        done = subprocess.run(told, capture_output=True, text=True, check=False)
        assert (done.returncode, "Usage:" in done.stdout) == (0, True), done.stderr
        wrong = subprocess.run(
            (client, words[0], "--no-such-flag", "--help"), capture_output=True, text=True, check=False
        )
        assert wrong.returncode != 0, "its help would hide a word that it does not know"


def test_mounts_follow_the_longest_rule_and_leave_the_system_to_the_image(work):
    for name in (".git", "sub/kept", "secret/open"):
        (work / name).mkdir(parents=True)
    (work / "sub" / "key.pem").touch()
    access = access_of(
        {
            Path("/usr"): "read",
            work: "write",
            work / ".git": "read",
            work / ".codex": "read",
            work / "sub" / "kept": "read",
            work / "secret": "deny",
            work / "secret" / "open": "write",
            work / "gone": "write",
        },
        denied_globs=(f"{work}/**/*.pem",),
    )
    layout = layout_of(access, str(work))
    assert layout.placeholders == (str(work / ".codex"),)
    assert layout.mounts[0] == Mount("/tmp", Kind.PRIVATE)
    assert [(str(Path(path).relative_to(work)), kind.name) for path, kind in layout.mounts[1:]] == [
        (".", "WRITABLE"),
        (".codex", "READABLE"),
        (".git", "READABLE"),
        ("secret", "PASSABLE"),
        ("sub", "WRITABLE"),
        ("secret/open", "WRITABLE"),
        ("sub/kept", "READABLE"),
        ("sub/key.pem", "HIDDEN_FILE"),
    ]


def test_folders_of_the_settings_are_shown_where_they_may_be_read(work):
    access = access_of({work: "write", Path("/opt"): "deny"})
    layout = layout_of(access, str(work), ("/usr", "/opt", "/no-such-folder"))
    assert Mount("/usr", Kind.READABLE) in layout.mounts
    assert all(path not in ("/opt", "/no-such-folder") for path, _ in layout.mounts)


def test_what_a_container_cannot_keep_is_refused(work):
    with pytest.raises(SandboxError, match="a container cannot be given all files of this machine"):
        layout_of(FileAccess(full=True), str(work))
    (work / ".git").symlink_to("/etc")
    with pytest.raises(SandboxError, match="is a symlink"):
        layout_of(access_of({work: "write", work / ".git": "read"}), str(work))


def test_what_covers_a_hidden_folder_has_places_for_what_is_shown_in_it(work, tmp_path):
    (work / "secret" / "deep" / "open").mkdir(parents=True)
    (work / "secret" / "file").touch()
    (work / "other").mkdir()
    modes = {work: "write", work / "other": "deny", work / "secret": "deny"}
    access = access_of({**modes, work / "secret" / "deep" / "open": "write", work / "secret" / "file": "read"})
    folder = tmp_path / "covers"
    folder.mkdir()
    made = covers(layout_of(access, str(work)), folder)
    assert sorted(made) == [str(work / "other"), str(work / "secret")]
    shown = {str(path.relative_to(made[str(work / "secret")])) for path in Path(made[str(work / "secret")]).rglob("*")}
    assert shown == {"deep", "deep/open", "file"}
    assert list(Path(made[str(work / "other")]).iterdir()) == []


def test_our_own_folder_is_hidden_where_it_would_be_seen(work):
    own = work / "own"
    own.mkdir()
    assert (
        Mount(str(own), Kind.HIDDEN_FOLDER) in layout_of(access_of({work: "write"}), str(work), own=(str(own),)).mounts
    )
    assert all(
        path != "/elsewhere" for path, _ in layout_of(access_of({work: "write"}), str(work), own=("/elsewhere",)).mounts
    )
