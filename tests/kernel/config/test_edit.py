from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tomllib

import pytest

from codex_framework.config.editing import files as edit
from codex_framework.config.editing.files import clear_path, replace_content, set_path
from codex_framework.contract.errors import ConfigError

TEXT = """\
# mine
model = "a"   # the good one

[history]
persistence = "none"

[tui]
theme = "x"
"""


def test_a_changed_value_leaves_comments_and_order_alone(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(TEXT)
    set_path(file, ["model"], "b")
    set_path(file, ["history", "persistence"], "save-all")
    assert file.read_text() == TEXT.replace('"a"', '"b"').replace('"none"', '"save-all"')


def test_missing_tables_and_files_are_made(tmp_path):
    file = tmp_path / "new" / "config.toml"
    set_path(file, ["projects", "/a.b/c", "trust_level"], "trusted")
    set_path(file, ["projects", "/d", "trust_level"], "untrusted")
    assert file.read_text() == (
        '[projects."/a.b/c"]\ntrust_level = "trusted"\n\n[projects."/d"]\ntrust_level = "untrusted"\n'
    )
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_value_is_set_in_an_inline_table(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("history = { persistence = 'none' }\n")
    set_path(file, ["history", "max_bytes"], 5)
    assert tomllib.loads(file.read_text()) == {"history": {"persistence": "none", "max_bytes": 5}}


def test_line_ends_stay_as_they_are(tmp_path):
    file = tmp_path / "config.toml"
    file.write_bytes(b'# a\r\nmodel = "a"\r\npersonality = "none"\r\n')
    set_path(file, ["model"], "b")
    assert file.read_bytes() == b'# a\r\nmodel = "b"\r\npersonality = "none"\r\n'


def test_a_key_is_removed(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(TEXT)
    assert clear_path(file, ["history"])
    assert file.read_text() == TEXT.replace('[history]\npersistence = "none"\n', "")
    before = file.stat().st_mtime_ns
    assert not clear_path(file, ["history", "persistence"])
    assert not clear_path(file, ["model", "x"])
    assert file.stat().st_mtime_ns == before
    assert not clear_path(tmp_path / "none.toml", ["a"])


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    real, link = tmp_path / "real.toml", tmp_path / "config.toml"
    real.write_text('model = "a"\n')
    link.symlink_to(real)
    set_path(link, ["model"], "b")
    assert link.is_symlink()
    assert real.read_text() == 'model = "b"\n'


def test_a_broken_file_is_left_as_it_is(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("model = \n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        set_path(file, ["model"], "b")
    assert file.read_text() == "model = \n"


def test_a_key_through_a_value_is_an_error(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("model = 'a'\n")
    with pytest.raises(ConfigError) as caught:
        set_path(file, ["model", "x"], 1)
    assert str(caught.value) == f"{file}: `model` is not a table, so `model.x` cannot be set"
    assert file.read_text() == "model = 'a'\n"


def test_a_place_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot be written: (Not a directory|File exists)"):
        set_path(tmp_path / "file" / "config.toml", ["model"], "b")


def test_writers_at_the_same_time_lose_nothing(tmp_path):
    file = tmp_path / "config.toml"
    code = (
        "import sys; from pathlib import Path; from codex_framework.config.editing.files import set_path\n"
        "for i in range(10): set_path(Path(sys.argv[1]), ['projects', f'/{sys.argv[2]}/{i}', 'trust_level'], 'trusted')"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(file), str(number)]) for number in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(tomllib.loads(file.read_text())["projects"]) == 30
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml"]


def test_the_mark_at_the_start_and_a_missing_line_end_stay(tmp_path):
    file = tmp_path / "config.toml"
    file.write_bytes(b'\xef\xbb\xbfmodel = "a"')
    assert set_path(file, ["model"], "b")
    assert file.read_bytes() == b'\xef\xbb\xbfmodel = "b"'
    assert set_path(file, ["personality"], "none")
    assert file.read_bytes() == b'\xef\xbb\xbfmodel = "b"\npersonality = "none"'
    assert clear_path(file, ["personality"])
    assert file.read_bytes() == b'\xef\xbb\xbfmodel = "b"'


def test_a_value_that_is_there_already_is_not_written(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("model = 'a'\n")
    before = file.stat()
    assert not set_path(file, ["model"], "a")
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o660])
def test_the_mode_stays(tmp_path, mode):
    file = tmp_path / "config.toml"
    file.touch()
    file.chmod(mode)
    set_path(file, ["model"], "a")
    assert file.stat().st_mode & 0o777 == mode


def test_a_check_sees_the_whole_content_before_it_is_written(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("# a\n")
    seen = []

    def refuse(content):
        seen.append((content, file.read_text()))
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        set_path(file, ["model"], "a", refuse)
    with pytest.raises(ConfigError, match="no"):
        replace_content(file, b"# a\n", b"x", refuse)
    assert seen == [(b'# a\nmodel = "a"\n', "# a\n"), (b"x", "# a\n")]
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]
    assert file.read_text() == "# a\n"


def refused(file, slug):
    """The fact of the error with which a change is refused. The folder must be as it was."""
    before = sorted(path.name for path in file.parent.iterdir())
    with pytest.raises(ConfigError) as caught:
        set_path(file, ["model"], "b")
    assert caught.value.slug == slug
    assert caught.value.hint
    assert sorted(path.name for path in file.parent.iterdir()) == before
    return str(caught.value)


def test_a_read_only_file_is_not_replaced(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("model = 'a'\n")
    file.chmod(0o444)
    assert refused(file, "config-unwritable") == f"{file} cannot be written: it is read-only"
    assert file.read_text() == "model = 'a'\n"


def test_a_device_is_not_replaced(tmp_path):
    file = tmp_path / "config.toml"
    null = tmp_path / "null"
    os.mkfifo(null)
    file.symlink_to(null)
    assert refused(file, "config-unwritable") == f"{file} cannot be written: it is not a regular file"
    assert file.is_symlink()
    assert null.is_fifo()


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path):
    file = tmp_path / "config.toml"
    file.mkdir()
    assert refused(file, "config-unreadable") == f"{file} is a folder, not a file"


def test_a_sparse_file_is_left_as_it_is(tmp_path):
    file = tmp_path / "config.toml"
    file.touch()
    os.truncate(file, 1 << 40)
    assert refused(file, "config-unreadable") == f"{file} is larger than 8,388,608 bytes"
    assert file.stat().st_size == 1 << 40


def test_a_file_that_is_not_utf_8_is_left_as_it_is(tmp_path):
    file = tmp_path / "config.toml"
    file.write_bytes(b"# a\n# \xe4\n")
    assert refused(file, "config-syntax") == f"{file}:2: byte 0xe4 is not UTF-8"
    assert file.read_bytes() == b"# a\n# \xe4\n"


def test_a_link_to_nowhere_and_a_circle_are_errors(tmp_path):
    file = tmp_path / "config.toml"
    file.symlink_to(tmp_path / "missing" / "config.toml")
    assert "No such file or directory" in refused(file, "config-unwritable")
    file.unlink()
    file.symlink_to(file)
    refused(file, "config-unwritable")


def test_a_text_that_is_not_unicode_is_refused(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("# a\n")
    with pytest.raises(ConfigError, match="would not be UTF-8"):
        set_path(file, ["projects", "/\udcff", "trust_level"], "trusted")
    with pytest.raises(ConfigError, match="would not be UTF-8"):
        set_path(file, ["model"], "\udcff")
    assert file.read_text() == "# a\n"


def test_a_full_disk_loses_nothing(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("# a\n")
    code = (
        "import resource, sys; from pathlib import Path; from codex_framework.config.editing.files import set_path\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "set_path(Path(sys.argv[1]), ['model'], 'a' * 2000)"
    )
    done = subprocess.run([sys.executable, "-B", "-c", code, str(file)], capture_output=True, text=True, check=False)
    assert f"ConfigError: {file} cannot be written: File too large" in done.stderr
    assert file.read_text() == "# a\n"
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_a_file_that_stays_locked_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(edit, "_LOCK_WAIT_S", 0.1)
    file = tmp_path / "config.toml"
    file.write_text("# a\n")
    with (tmp_path / ".config.toml.lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert "is being changed by another process" in refused(file, "config-locked")
    assert set_path(file, ["model"], "b")  # the owner is gone, its lock file is not
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_a_lock_whose_file_its_last_owner_has_removed_is_none(tmp_path, monkeypatch):
    """Another program may hold the next one by then: its lock file has the same name."""
    file, lock = tmp_path / "config.toml", tmp_path / ".config.toml.lock"
    file.write_text("# a\n")
    flock, held, waited = fcntl.flock, [], []

    def late(descriptor, operation):
        if (
            not held
        ):  # opened, but not locked yet: the last owner removes the file, and another program makes and locks it
            lock.unlink()
            held.append(os.open(lock, os.O_RDWR | os.O_CREAT))
            flock(held[0], fcntl.LOCK_EX)
        elif len(waited) < 3:
            waited.append(file.read_text())
            if len(waited) == 3:
                os.close(held[0])
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    assert set_path(file, ["model"], "b")
    assert waited == ["# a\n"] * 3, "nothing was written while the other program held it"
    assert file.read_text() == '# a\nmodel = "b"\n'


def test_a_change_of_another_program_in_between_is_kept(tmp_path):
    """Programs that know no lock write too. The change is then made again, on what they wrote."""
    file = tmp_path / "config.toml"
    file.write_text("# a\n")
    seen = []

    def check(content):
        seen.append(content)
        if len(seen) == 1:
            file.write_text("# theirs\n")

    assert set_path(file, ["model"], "b", check)
    assert file.read_text() == '# theirs\nmodel = "b"\n'
    with pytest.raises(ConfigError) as caught:
        replace_content(file, b"# a\n", b"# mine\n", lambda _: None)
    assert caught.value.slug == "config-changed"
    assert file.read_text() == '# theirs\nmodel = "b"\n'
    replace_content(file, file.read_bytes(), b"# mine\n", lambda _: None)
    assert file.read_text() == "# mine\n"


def test_a_symlink_in_place_of_the_lock_is_not_followed(tmp_path):
    victim = tmp_path / "keys"
    victim.write_text("precious")
    folder = tmp_path / "project" / ".codex"
    folder.mkdir(parents=True)
    (folder / ".config.toml.lock").symlink_to(victim)
    with pytest.raises(ConfigError, match=r"config\.toml cannot be written") as caught:
        set_path(folder / "config.toml", ["model"], "b")
    assert caught.value.slug == "config-unwritable"
    assert victim.read_text() == "precious"
    assert not (folder / "config.toml").exists()


def test_a_lock_that_is_there_already_keeps_its_content(tmp_path):
    other = tmp_path / "other"
    other.write_text("precious")
    os.link(other, tmp_path / ".config.toml.lock")
    set_path(tmp_path / "config.toml", ["model"], "b")
    assert other.read_text() == "precious"
