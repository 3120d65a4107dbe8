from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from codex_framework.config.edit import clear_path, set_path
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
        "import sys; from pathlib import Path; from codex_framework.config.edit import set_path\n"
        "for i in range(10): set_path(Path(sys.argv[1]), ['projects', f'/{sys.argv[2]}/{i}', 'trust_level'], 'trusted')"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(file), str(number)]) for number in range(3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(tomllib.loads(file.read_text())["projects"]) == 30
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml"]
