"""``UserConfig``: what plugins save in the user's own file."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_framework import ConfigError, UserConfig


def test_keys_are_set_and_cleared_beside_the_rest(tmp_path: Path) -> None:
    user = UserConfig(tmp_path / "home")
    assert user.path == tmp_path / "home" / "config.toml"
    assert user.tables() == {}
    assert user.set(("model",), "a")
    user.path.write_text(user.path.read_text() + "# mine\n")
    assert user.set(("tui", "theme"), "x")
    assert not user.set(("model",), "a")
    assert user.tables() == {"model": "a", "tui": {"theme": "x"}}
    assert user.clear(("tui",))
    assert not user.clear(("tui",))
    assert user.path.read_text().startswith('model = "a"\n# mine\n')


@pytest.mark.parametrize(
    ("key", "value"), [(("modle",), "a"), (("model",), 3), (("mcp_servers", "a", "enabled"), True)]
)
def test_what_no_thread_could_start_with_is_not_written(tmp_path: Path, key: tuple[str, ...], value: object) -> None:
    user = UserConfig(tmp_path)
    user.set(("model",), "a")
    with pytest.raises(ConfigError) as caught:
        user.set(key, value)
    assert str(user.path) in caught.value.fact
    assert user.path.read_text() == 'model = "a"\n'


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("model = \n")
    with pytest.raises(ConfigError, match=r"config\.toml"):
        UserConfig(tmp_path).tables()
