"""Where tokens are kept: the file that Codex shares, and the keyring of the system."""

from __future__ import annotations

import json
import stat
import sys
import threading
from pathlib import Path

import pytest

from codex_plugin_mcp.oauth.credentials import StoredTokens, store_key
from codex_plugin_mcp.oauth.errors import LoginFailed
from codex_plugin_mcp.oauth.store import TokenStore

TOKENS = StoredTokens(
    server_name="s",
    url="http://h/mcp",
    client_id="c",
    access_token="a",
    expires_at=7,
    refresh_token="r",
    scopes=("x", "y"),
    issuer="https://i",
    client_secret="hush",
    auth_method="client_secret_post",
    token_endpoint="https://i/token",
    resource="http://h",
    wanted_scopes=("z",),
)


class Memory:
    """A keyring in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.broken = False

    def get_password(self, service_name: str, username: str) -> str | None:
        if self.broken:
            raise RuntimeError("locked: hush")
        return self.kept.get((service_name, username))

    def set_password(self, service_name: str, username: str, password: str) -> None:
        if self.broken:
            raise RuntimeError("locked: hush")
        self.kept[service_name, username] = password

    def delete_password(self, service_name: str, username: str) -> None:
        del self.kept[service_name, username]


def test_the_file_is_codexs(tmp_path: Path) -> None:
    store = TokenStore(tmp_path, "file")
    store.save(TOKENS)
    assert store.load("s", "http://h/mcp") == TOKENS
    assert store.load("other", "http://h/mcp") is None
    assert store.load("s", "http://other/mcp") is None
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    ((key, entry),) = json.loads(store.path.read_text()).items()
    # What Codex 0.169 wrote for such a server, but for our own table:
    assert store_key("conf", "http://127.0.0.1:45745/mcp") == "conf|b7774c74d12ce7f8"
    assert key == store_key("s", "http://h/mcp")
    assert {name: value for name, value in entry.items() if name != "codex_framework"} == {
        "server_name": "s",
        "server_url": "http://h/mcp",
        "issuer": "https://i",
        "client_id": "c",
        "access_token": "a",
        "expires_at": 7,
        "refresh_token": "r",
        "scopes": ["x", "y"],
    }


def test_other_entries_of_the_file_stay_as_they_are(tmp_path: Path) -> None:
    store = TokenStore(tmp_path, "file")
    theirs = {
        "server_name": "s",
        "server_url": "http://h/mcp",
        "executor_owned": True,
        "access_token": "theirs",
        "new": 1,
    }
    store.path.write_text(json.dumps({"theirs": theirs}))
    assert store.load("s", "http://h/mcp") is None
    store.save(TOKENS)
    store.save(TOKENS)
    entries = json.loads(store.path.read_text())
    assert entries["theirs"] == theirs
    assert len(entries) == 2
    assert store.delete("s", "http://h/mcp") is True
    assert json.loads(store.path.read_text()) == {"theirs": theirs}


@pytest.mark.parametrize("content", ["{", "[]", '{"a": 1}', "[" * 100_000])
def test_a_broken_file_is_named_and_kept(tmp_path: Path, content: str) -> None:
    store = TokenStore(tmp_path, "file")
    store.path.write_text(content)
    for act in (lambda: store.load("s", "u"), lambda: store.save(TOKENS), lambda: store.delete("s", "u")):
        with pytest.raises(LoginFailed, match="does not contain logins"):
            act()
    assert store.path.read_text() == content


def test_a_file_that_tools_cannot_open_is_written_and_belongs_to_the_user_alone(tmp_path: Path) -> None:
    from codex_framework.toolkit.off_limits import keep_private

    store = TokenStore(tmp_path, "file")
    keep_private(str(store.path))
    (tmp_path / "real").touch(mode=0o644)
    store.path.symlink_to("real")
    (tmp_path / "real").write_text("{}")
    store.save(TOKENS)
    assert store.path.is_symlink()
    assert store.load("s", "http://h/mcp") == TOKENS
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [".credentials.json", "mcp-oauth-locks", "real"]


def test_the_keyring_is_preferred_if_there_is_one(tmp_path: Path) -> None:
    file, keyring = TokenStore(tmp_path, "file"), Memory()
    file.save(TOKENS)
    store = TokenStore(tmp_path, "auto", keyring=keyring)
    assert store.load("s", "http://h/mcp") == TOKENS  # from the file
    store.save(TOKENS.evolve(access_token="new"))
    assert file.load("s", "http://h/mcp") is None
    assert store.load("s", "http://h/mcp") == TOKENS.evolve(access_token="new")
    (key,) = keyring.kept
    assert key == ("Codex MCP Credentials", store_key("s", "http://h/mcp"))
    entry = json.loads(keyring.kept[key])
    assert entry["token_response"] == {
        "access_token": "new",
        "token_type": "bearer",
        "refresh_token": "r",
        "scope": "x y",
    }
    assert store.delete("s", "http://h/mcp") is True
    assert not keyring.kept


def test_a_broken_keyring_is_replaced_by_the_file_or_named(tmp_path: Path) -> None:
    keyring = Memory()
    keyring.broken = True
    store = TokenStore(tmp_path, "auto", keyring=keyring)
    store.save(TOKENS)
    assert store.load("s", "http://h/mcp") == TOKENS
    only = TokenStore(tmp_path, "keyring", keyring=keyring)
    for act in (lambda: only.load("s", "u"), lambda: only.save(TOKENS)):
        with pytest.raises(LoginFailed, match=r"the keyring of the system failed \(RuntimeError\)"):
            act()


def test_tokens_are_never_missing_while_they_are_replaced_in_the_keyring(tmp_path: Path) -> None:
    """An entry is deleted before the new one is stored. Who reads in between waits."""
    keyring = Memory()
    store = TokenStore(tmp_path, "keyring", keyring=keyring)
    store.save(TOKENS)
    read: list[StoredTokens | None] = []
    reader = threading.Thread(target=lambda: read.append(store.load("s", "http://h/mcp")))

    class Slow(Memory):
        def set_password(self, service_name: str, username: str, password: str) -> None:
            keyring.delete_password(service_name, username)
            reader.start()
            reader.join(0.05)
            keyring.set_password(service_name, username, password)

    TokenStore(tmp_path, "keyring", keyring=Slow()).save(TOKENS.evolve(access_token="new"))
    reader.join(20)
    assert read == [TOKENS.evolve(access_token="new")]


def test_tokens_in_the_file_remove_older_ones_from_a_keyring_that_cannot_store(tmp_path: Path) -> None:
    class Full(Memory):
        refused = False

        def delete_password(self, service_name: str, username: str) -> None:
            if not self.refused:
                self.refused = True
                raise RuntimeError("locked")
            super().delete_password(service_name, username)

    full = Full()
    TokenStore(tmp_path, "keyring", keyring=(old := Memory())).save(TOKENS)
    full.kept.update(old.kept)
    store = TokenStore(tmp_path, "auto", keyring=full)
    store.save(TOKENS.evolve(access_token="new"))
    assert store.load("s", "http://h/mcp") == TOKENS.evolve(access_token="new")


def test_a_keyring_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(LoginFailed, match="cannot be used") as caught:
        TokenStore(tmp_path, "keyring").load("s", "u")
    assert "package `keyring`" in caught.value.hint
    TokenStore(tmp_path, "auto").save(TOKENS)
    assert (tmp_path / ".credentials.json").exists()
