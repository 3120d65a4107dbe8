"""Which login is used, and where it is stored."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import json
import os
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from codex_lib_model_client.login import storage as login_storage
from codex_lib_model_client.login.access import find_login
from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.storage import LoginStorage, store_mode
from codex_lib_model_client.login.stored import StoredLogin
from codex_lib_model_client.login.tokens import ChatGptTokens, PersonalToken
from codex_plugin_login.cli import logout_command
from tests.plugins.login.issuer import Issuer

SECRET = "sk-canary-0123456789"
KEY = StoredLogin.of_key(SECRET)


def kind_of(login: Any) -> str:
    return login if isinstance(login, str) else type(login).__name__


def test_the_first_login_of_the_order_is_used(env: dict[str, str], store: Callable[..., Any], codex_home: Path) -> None:
    everything = {**env, "CODEX_API_KEY": "codex", "CODEX_ACCESS_TOKEN": "at-1", "OPENAI_API_KEY": "openai"}
    store()
    found = []
    for removed in ("CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "auth.json", "OPENAI_API_KEY", ""):
        found.append(kind_of(find_login(everything, {})))
        everything.pop(removed, None)
        if removed == "auth.json":
            (codex_home / "auth.json").unlink()
    assert found == ["codex", PersonalToken.__name__, ChatGptTokens.__name__, "openai", "NoneType"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({"auth_mode": "apikey", "OPENAI_API_KEY": "k"}, "k"),
        ({"OPENAI_API_KEY": "k", "tokens": {"access_token": "a"}}, "k"),
        ({"auth_mode": "chatgpt", "OPENAI_API_KEY": "k", "tokens": {"access_token": "a"}}, "ChatGptTokens"),
        ({"tokens": {"access_token": "a"}}, "ChatGptTokens"),
        ({"OPENAI_API_KEY": None, "personal_access_token": "at-1"}, "PersonalToken"),
        ({}, "NoneType"),
    ],
)
def test_a_stored_login_is_read_as_codex_reads_it(
    content: Any, kind: str, env: dict[str, str], codex_home: Path
) -> None:
    (codex_home / "auth.json").write_text(json.dumps(content))
    assert kind_of(find_login(env, {})) == kind


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "5",
        "{",
        "\xff",
        '{"tokens": "x"}',
        '{"auth_mode": "agentIdentity", "agent_identity": "x"}',
        '{"tokens": {}}',
    ],
)
def test_a_login_that_cannot_be_used_is_an_error_without_its_content(
    content: str, env: dict[str, str], codex_home: Path
) -> None:
    (codex_home / "auth.json").write_text(content, encoding="latin-1")
    with pytest.raises(LoginError) as caught:
        find_login(env, {})
    assert caught.value.hint


@pytest.mark.parametrize(
    ("variables", "config"),
    [
        ({"CODEX_API_KEY": "k"}, {"forced_login_method": "chatgpt"}),
        ({"OPENAI_API_KEY": "k"}, {"forced_login_method": "chatgpt"}),
        ({"CODEX_ACCESS_TOKEN": "at-1"}, {"forced_login_method": "api"}),
        ({}, {"forced_login_method": "api"}),
        ({}, {"forced_chatgpt_workspace_id": ["other"]}),
        ({}, {"forced_chatgpt_workspace_id": "other"}),
    ],
)
def test_a_login_that_is_not_permitted_is_not_used(
    variables: dict[str, str], config: dict[str, Any], env: dict[str, str], store: Callable[..., Any], codex_home: Path
) -> None:
    store()
    if "OPENAI_API_KEY" in variables:
        (codex_home / "auth.json").unlink()
    with pytest.raises(LoginError) as caught:
        find_login({**env, **variables}, config)
    assert caught.value.reason == "forbidden"
    assert (codex_home / "auth.json").exists() is ("OPENAI_API_KEY" not in variables), "it is not deleted"


def test_a_personal_token_of_another_workspace_is_refused(env: dict[str, str], issuer: Issuer) -> None:
    issuer.answers["/v1/user-auth-credential/whoami"] = lambda _: (200, {"chatgpt_account_id": "acct-9"})
    tokens = find_login({**env, "CODEX_ACCESS_TOKEN": "at-1"}, {"forced_chatgpt_workspace_id": "other"})
    assert isinstance(tokens, PersonalToken)
    with pytest.raises(LoginError, match="acct-9"):
        asyncio.run(tokens.token())


def test_the_account_of_a_personal_token_is_looked_up_once(env: dict[str, str], issuer: Issuer) -> None:
    reply = {"chatgpt_account_id": "acct-9", "chatgpt_plan_type": "pro", "chatgpt_account_is_fedramp": True}
    issuer.answers["/v1/user-auth-credential/whoami"] = lambda _: (200, reply)
    tokens = find_login({**env, "CODEX_ACCESS_TOKEN": "at-1"}, {})
    assert isinstance(tokens, PersonalToken)

    async def asked() -> list[str]:
        return [*await asyncio.gather(*(tokens.token() for _ in range(3))), await tokens.token(refused="at-1")]

    assert asyncio.run(asked()) == ["at-1"] * 4
    assert len(issuer.seen) == 1
    assert (tokens.plan, tokens.headers) == ("pro", {"chatgpt-account-id": "acct-9", "x-openai-fedramp": "true"})


def test_threads_of_one_client_refresh_once(env: dict[str, str], issuer: Issuer, store: Callable[..., Any]) -> None:
    store()
    tokens = find_login(env, {})
    assert isinstance(tokens, ChatGptTokens)

    async def main() -> set[str]:
        old = await tokens.token()
        return set(await asyncio.gather(*(tokens.token(refused=old) for _ in range(5))))

    assert len(asyncio.run(main())) == 1
    assert len(issuer.seen) == 1


def test_a_refresh_ends_although_its_turn_is_interrupted(
    env: dict[str, str], issuer: Issuer, store: Callable[..., Any], codex_home: Path
) -> None:
    store()
    tokens = find_login(env, {})
    assert isinstance(tokens, ChatGptTokens)
    asked, go = threading.Event(), threading.Event()

    def slow(_: Any) -> tuple[int, Any]:
        asked.set()
        go.wait(60)
        return 200, issuer.tokens()

    issuer.answers["/oauth/token"] = slow

    async def main() -> None:
        task = asyncio.create_task(tokens.token(refused=await tokens.token()))
        await asyncio.to_thread(asked.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()

    asyncio.run(main())
    stored = json.loads((codex_home / "auth.json").read_text())
    assert stored["tokens"]["refresh_token"] == "refresh-2-canary"


# The keyring


class FakeKeyring(types.ModuleType):
    """The package ``keyring``, with a backend in memory."""

    def __init__(self) -> None:
        super().__init__("keyring")
        self.kept: dict[tuple[str, str], str] = {}
        self.of_codex: dict[tuple[str, str], str] = {}
        """Entries with more attributes, which are found first, and not replaced."""
        self.broken = False

    def get_keyring(self) -> object:
        return self

    def get_password(self, service: str, name: str) -> str | None:
        self._check()
        return self.of_codex.get((service, name), self.kept.get((service, name)))

    def set_password(self, service: str, name: str, password: str) -> None:
        self._check(password)
        self.kept[service, name] = password

    def delete_password(self, service: str, name: str) -> None:
        del (self.of_codex if (service, name) in self.of_codex else self.kept)[service, name]

    def _check(self, text: str = "") -> None:
        if self.broken:
            raise RuntimeError(f"locked: {text}")


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> FakeKeyring:
    made = FakeKeyring()
    backends, none = types.ModuleType("keyring.backends"), type("Keyring", (), {})
    for name in ("fail", "null"):
        module = types.ModuleType(f"keyring.backends.{name}")
        module.Keyring = none  # type: ignore[attr-defined]
        setattr(backends, name, module)
        monkeypatch.setitem(sys.modules, f"keyring.backends.{name}", module)
    monkeypatch.setitem(sys.modules, "keyring", made)
    monkeypatch.setitem(sys.modules, "keyring.backends", backends)
    return made


@pytest.mark.parametrize("mode", ["keyring", "auto"])
def test_a_login_in_the_keyring_leaves_no_file(mode: Any, keyring: FakeKeyring, codex_home: Path) -> None:
    LoginStorage(codex_home).save(StoredLogin.of_key("older"))
    storage = LoginStorage(codex_home, mode)
    storage.save(KEY)
    assert not storage.path.exists()
    ((service, name),) = keyring.kept
    assert (service, name[:4], len(name)) == ("Codex Auth", "cli|", 20)
    assert storage.load() == KEY
    assert LoginStorage(codex_home).load() is None
    assert storage.delete()
    assert (keyring.kept, storage.load(), storage.delete()) == ({}, None, False)


def test_a_keyring_that_fails_is_an_error_without_the_secret(keyring: FakeKeyring, codex_home: Path) -> None:
    keyring.broken = True
    storage = LoginStorage(codex_home, "keyring")
    for action in (storage.load, lambda: storage.save(KEY), storage.delete, LoginStorage(codex_home, "auto").delete):
        with pytest.raises(LoginError) as caught:
            action()
        assert (caught.value.reason, SECRET in f"{caught.value}{caught.value.__cause__}") == ("keyring", False)
    assert not storage.path.exists()
    auto = LoginStorage(codex_home, "auto")
    auto.save(KEY)
    assert (auto.load(), auto.path.exists()) == (KEY, True)


def test_a_keyring_that_fails_keeps_no_file_from_being_deleted(keyring: FakeKeyring, codex_home: Path) -> None:
    for mode in ("keyring", "auto"):
        LoginStorage(codex_home).save(KEY)
        keyring.broken = True
        storage = LoginStorage(codex_home, mode)  # type: ignore[arg-type]
        with pytest.raises(
            LoginError, match=r"a login may be left in it: the entry 'cli\|[0-9a-f]{16}' of 'Codex Auth'"
        ):
            storage.delete()
        assert not storage.path.exists()


def test_a_logout_says_what_is_left_after_it_has_done_the_rest(
    keyring: FakeKeyring, env: dict[str, str], issuer: Issuer, store: Callable[..., Any], codex_home: Path
) -> None:
    store()
    keyring.broken = True
    plugin: Any = types.SimpleNamespace(
        codex_home=codex_home, config={"cli_auth_credentials_store": "auto"}, environ=env, layers=()
    )
    done = CliRunner().invoke(logout_command(plugin), [])
    assert isinstance(done.exception, LoginError)
    assert ("may be left" in done.exception.fact, "Successfully" in done.output) == (True, False)
    assert (issuer.paths(), (codex_home / "auth.json").exists()) == (["/oauth/revoke"], False)


def test_with_auto_a_file_is_newer_than_an_entry_of_the_keyring(keyring: FakeKeyring, codex_home: Path) -> None:
    storage = LoginStorage(codex_home, "auto")
    storage.save(StoredLogin.of_key("older"))
    keyring.broken = True
    storage.save(KEY)
    keyring.broken = False
    assert (storage.load(), len(keyring.kept)) == (KEY, 1)
    storage.path.write_text("{")
    assert storage.load() == StoredLogin.of_key("older"), "a file that cannot be read hides nothing"
    LoginStorage(codex_home).save(KEY)
    keyring.kept = dict.fromkeys(keyring.kept, "{")
    assert storage.load() == KEY
    storage.save(KEY)
    assert (storage.load(), storage.path.exists()) == (KEY, False)


def test_with_auto_tokens_that_were_refreshed_later_are_used(keyring: FakeKeyring, codex_home: Path) -> None:
    def login(day: int, where: str = "") -> StoredLogin:
        return StoredLogin(
            {
                "auth_mode": "chatgpt",
                "tokens": {"access_token": f"of {day}{where}"},
                "last_refresh": f"2026-11-0{day}T00:00:00Z",
            }
        )

    storage = LoginStorage(codex_home, "auto")
    for kept, stored, used in ((1, 2, 2), (2, 1, 2)):
        LoginStorage(codex_home, "keyring").save(login(kept))
        LoginStorage(codex_home).save(login(stored))
        assert storage.load() == login(used)
    LoginStorage(codex_home, "keyring").save(login(3, " in the keyring"))
    LoginStorage(codex_home).save(login(3, " in the file"))
    assert storage.load() == login(3, " in the file")


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_login_in_the_file_removes_an_older_one_from_a_keyring_that_cannot_store(
    keyring: FakeKeyring, codex_home: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    storage = LoginStorage(codex_home, "auto")
    storage.save(StoredLogin.of_key("older"))

    def full(*_: str) -> None:
        raise RuntimeError("full")

    monkeypatch.setattr(keyring, "set_password", full)
    storage.save(KEY)
    assert (storage.load(), keyring.kept) == (KEY, {})


def test_the_entry_of_the_keyring_has_the_name_that_codex_gives_it(
    keyring: FakeKeyring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def named(home: Path) -> str:
        keyring.kept.clear()
        LoginStorage(home, "keyring").save(KEY)
        ((service, name),) = keyring.kept
        assert service == "Codex Auth"
        return name

    def expected(path: Path) -> str:
        return f"cli|{hashlib.sha256(os.fsencode(path).decode(errors='replace').encode()).hexdigest()[:16]}"

    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    assert named(tmp_path / "link") == expected(real)
    assert named(tmp_path / "link" / "later") == expected(real / "later"), "the folder is made first"
    odd = tmp_path / os.fsdecode(b"odd\xff\xfe")
    odd.mkdir()
    assert named(odd) == expected(odd)
    # The example in Codex's own tests: a folder that does not exist.
    monkeypatch.setattr(keyring, "get_password", lambda _, name: asked.append(name))
    asked: list[str] = []
    LoginStorage(Path("~/.codex"), "keyring").load()
    assert asked == ["cli|940db7b1d0e4eb40"]


def test_an_entry_of_codex_is_replaced_and_deleted_too(
    keyring: FakeKeyring, codex_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the Secret Service of Linux, where Codex's entry has the attributes ``target`` and ``application`` of its own."""
    monkeypatch.setattr(sys, "platform", "linux")
    storage = LoginStorage(codex_home, "keyring")
    storage.save(StoredLogin.of_key("of Codex"))
    keyring.of_codex, keyring.kept = keyring.kept, {}
    storage.save(KEY)
    assert (storage.load(), len(keyring.kept), keyring.of_codex) == (KEY, 1, {})
    keyring.of_codex = dict(keyring.kept)
    assert storage.delete()
    assert (storage.load(), keyring.kept, keyring.of_codex) == (None, {}, {})


def test_with_auto_a_key_in_the_file_is_used_before_tokens_of_the_keyring(
    keyring: FakeKeyring, codex_home: Path
) -> None:
    """A key has no date of a refresh, and was stored after the tokens."""
    tokens = StoredLogin({"tokens": {"access_token": "old"}, "last_refresh": "2026-11-23T07:52:01.725831Z"})
    LoginStorage(codex_home, "keyring").save(tokens)
    LoginStorage(codex_home).save(KEY)
    assert LoginStorage(codex_home, "auto").load() == KEY


def test_a_logout_does_not_succeed_if_the_keyring_keeps_the_entry(
    keyring: FakeKeyring, codex_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LoginStorage(codex_home, "keyring").save(KEY)
    monkeypatch.setattr(keyring, "delete_password", lambda *_: None)
    for mode in ("keyring", "auto"):
        with pytest.raises(LoginError, match="a login may be left in it"):
            LoginStorage(codex_home, mode).delete()  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["keyring", "auto"])
def test_a_login_is_found_while_it_is_replaced(
    keyring: FakeKeyring, codex_home: Path, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    """On Linux the old entry is deleted before the new one is stored."""
    monkeypatch.setattr(sys, "platform", "linux")
    storage = LoginStorage(codex_home, mode)
    storage.save(StoredLogin.of_key("old"))
    deleted, looked = threading.Event(), threading.Event()
    delete, get = keyring.delete_password, keyring.get_password

    def slow(service: str, name: str) -> None:
        delete(service, name)
        deleted.set()
        assert looked.wait(60)

    def noticed(service: str, name: str) -> str | None:
        found = get(service, name)
        if threading.current_thread() is threading.main_thread():
            looked.set()
        return found

    monkeypatch.setattr(keyring, "delete_password", slow)
    monkeypatch.setattr(keyring, "get_password", noticed)
    saving = threading.Thread(target=storage.save, args=(KEY,))
    saving.start()
    assert deleted.wait(60)
    assert LoginStorage(codex_home, mode).load() == KEY
    saving.join(60)


@pytest.mark.parametrize("mode", ["file", "keyring", "auto", "ephemeral"])
def test_the_configuration_says_where_a_login_is_stored(mode: str) -> None:
    assert store_mode({"cli_auth_credentials_store": mode}) == mode
    assert store_mode({}) == store_mode({"cli_auth_credentials_store": "elsewhere"}) == "file"


def test_a_file_system_without_locks_keeps_a_login(codex_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    LoginStorage(codex_home).save(KEY)
    assert LoginStorage(codex_home).load() == KEY


def test_a_lock_that_is_never_released_is_named_and_leaves_no_file_open(
    codex_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_storage, "_LOCK_S", 0.05)
    storage = LoginStorage(codex_home)
    storage.save(KEY)
    with (codex_home / "auth.json.lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = len(list(Path("/proc/self/fd").iterdir()))
        with pytest.raises(LoginError, match="another process has been changing the login") as caught:
            storage.save(StoredLogin.of_key("other"))
        assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert (caught.value.reason, storage.load()) == ("timeout", KEY)


def test_a_huge_file_is_no_login(codex_home: Path) -> None:
    (codex_home / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": "sk-1", "padding": "x" * 2_000_000}))
    with pytest.raises(LoginError):
        LoginStorage(codex_home).load()


def test_an_ephemeral_login_is_in_memory_only(codex_home: Path) -> None:
    storage = LoginStorage(codex_home, "ephemeral")
    storage.save(KEY)
    assert (LoginStorage(codex_home, "ephemeral").load(), list(codex_home.glob("auth*"))) == (KEY, [])
    assert storage.delete()
    assert storage.load() is None


def test_a_symlink_is_followed_when_a_login_is_replaced_and_deleted(codex_home: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.json"
    target.write_text("{}")
    (codex_home / "auth.json").symlink_to(target)
    storage = LoginStorage(codex_home)
    storage.save(KEY)
    assert (json.loads(target.read_text()), storage.path.is_symlink()) == (dict(KEY.content), True)
    assert storage.delete()
    assert not target.exists()
    assert not storage.path.is_symlink()


def test_a_login_does_not_show_its_secrets() -> None:
    assert SECRET not in repr(KEY)
    assert SECRET not in str(LoginStorage(Path("/x"), "ephemeral").__dict__)
