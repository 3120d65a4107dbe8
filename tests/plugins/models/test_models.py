"""The catalogues of a file and of the server, and the command ``models``."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from codex_framework import Event, ModelCatalogue, ModelInfo, ModelPrices, ProviderInfo
from codex_framework.contract.errors import ConfigError, ModelError
from codex_framework.testing.replies import say
from codex_framework.toolkit.model_catalogue import known_model
from codex_lib_model_client.credentials import Access
from codex_plugin_models import refreshing, server
from codex_plugin_models.cli import models as models_command
from codex_plugin_models.entries import EntryError, model_of
from codex_plugin_models.file import FileCatalogue
from codex_plugin_models.refreshing import Refresher, fetch, refresh
from codex_plugin_models.server import Cache, ServerCatalogue
from codex_plugin_openai.server_signals import ModelsChangedEvent
from tests.plugins.login.issuer import Issuer

ENTRY: dict[str, Any] = {
    "slug": "house",
    "display_name": "House",
    "context_window": 50_000,
    "max_context_window": 60_000,
    "effective_context_window_percent": 80,
    "truncation_policy": {"mode": "bytes", "limit": 5_000},
    "shell_type": "shell_command",
    "apply_patch_tool_type": "freeform",
    "supported_reasoning_levels": [{"effort": "low", "description": "l"}, {"effort": "high", "description": "h"}],
    "default_reasoning_level": "high",
    "default_reasoning_summary": "detailed",
    "support_verbosity": True,
    "default_verbosity": "medium",
    "input_modalities": ["text"],
    "supports_search_tool": True,
    "visibility": "hide",
    "base_instructions": "Be a house.",
    "prices": {"input": 1.5, "output": 6},
    "comp_hash": "2911",
    "experimental_supported_tools": ["clock", "sleep_well"],
    "from_the_future": {"x": 1},
}
HOUSE = ModelInfo(
    slug="house",
    display_name="House",
    context_window=50_000,
    max_context_window=60_000,
    usable_percent=80,
    truncation=("bytes", 5_000),
    shell_type="shell_command",
    default_effort="high",
    efforts=("low", "high"),
    default_summary="detailed",
    verbosity="medium",
    supports_images=False,
    tool_search=True,
    namespaces=True,
    hidden=True,
    base_instructions="Be a house.",
    prices=ModelPrices(input=1.5, output=6.0),
    compaction_hash="2911",
    extra_tools=("clock", "sleep_well"),
)
OPENAI = ProviderInfo(id="openai", base_url="https://api.openai.com/v1", requires_openai_auth=True)


def test_an_entry_becomes_properties() -> None:
    assert model_of(ENTRY, trusted=True) == HOUSE
    assert model_of(ENTRY, trusted=False) == HOUSE.evolve(base_instructions=None)
    assert model_of({"slug": "bare"}, trusted=True) == ModelInfo(slug="bare", apply_patch=None, default_effort=None)


BAD_ENTRIES: dict[str, tuple[Any, str]] = {
    "a list": ([], "not an object"),
    "no name": ({}, '"slug"'),
    "a number as its name": ({"slug": 5}, '"slug"'),
    "a name with line breaks": ({"slug": "a\nb"}, '"slug"'),
    "an endless name": ({"slug": "a" * 1000}, '"slug"'),
    "a negative window": ({"slug": "a", "context_window": -1}, '"context_window"'),
    "an endless window": ({"slug": "a", "context_window": 10**400}, '"context_window"'),
    "an endless limit": (
        {"slug": "a", "truncation_policy": {"mode": "bytes", "limit": 10**400}},
        '"truncation_policy"',
    ),
    "an endless price": ({"slug": "a", "prices": {"input": 10**400, "output": 1}}, '"prices"'),
    "a number as its hash": ({"slug": "a", "comp_hash": 3000}, '"comp_hash"'),
    "a name as its tools": (
        {"slug": "a", "experimental_supported_tools": "clock"},
        '"experimental_supported_tools"',
    ),
    "numbers as its tools": (
        {"slug": "a", "experimental_supported_tools": [1]},
        '"experimental_supported_tools"',
    ),
    "a text as its window": ({"slug": "a", "context_window": "big"}, '"context_window"'),
    "a truth as its window": ({"slug": "a", "context_window": True}, '"context_window"'),
    "a wrong limit": ({"slug": "a", "truncation_policy": {"mode": "lines", "limit": 5}}, '"truncation_policy"'),
    "a wrong shell": ({"slug": "a", "shell_type": "cmd.exe"}, '"shell_type"'),
    "efforts without names": ({"slug": "a", "supported_reasoning_levels": [{}]}, '"supported_reasoning_levels"'),
    "a wrong price": ({"slug": "a", "prices": {"input": -1, "output": 1}}, '"prices"'),
    "a wrong flag": ({"slug": "a", "use_responses_lite": "yes"}, '"use_responses_lite"'),
}


@pytest.mark.parametrize("name", BAD_ENTRIES)
def test_a_wrong_entry_is_an_error_that_names_model_and_key(name: str, tmp_path: Path) -> None:
    entry, words = BAD_ENTRIES[name]
    with pytest.raises(EntryError, match=words):
        model_of(entry, trusted=True)
    file = tmp_path / "models.json"
    file.write_text(json.dumps({"models": [ENTRY, entry]}))
    with pytest.raises(ConfigError) as caught:
        FileCatalogue(str(file)).model("house", OPENAI)
    assert str(file) in caught.value.fact
    assert words in caught.value.fact


def test_a_pipe_or_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), tmp_path / "nul\0"):
        with pytest.raises(ConfigError, match="cannot be read: "):
            FileCatalogue(str(path)).model("house", OPENAI)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b"{", "not valid JSON (line 1)"),
        (b"[]", 'no list "models"'),
        (b'{"models": {}}', 'no list "models"'),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_a_file_that_cannot_be_read_fails_the_turn_and_says_why(
    content: bytes | None, words: str, make_kernel: Any, tmp_path: Path
) -> None:
    file = tmp_path / "models.json"
    if content is not None:
        file.write_bytes(content)

    async def main() -> str:
        async with make_kernel([say("hi")], config=[f'model_catalog_json="{file}"']) as kernel:
            try:
                thread = await kernel.start_thread()
                result = await thread.run("a")
            except ConfigError as error:
                return str(error)
            return str(result.error)

    assert words in asyncio.run(main())


def test_a_turn_uses_the_file(scene: Any, tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    file.write_text(json.dumps({"models": [ENTRY]}))

    async def story(kernel: Any) -> Any:
        thread = await kernel.start_thread(model="house")
        return await thread.run("go")

    result = scene.play(story, [say("done")], f'model_catalog_json="{file}"')
    assert not [event for event in result.events if event.type == "warning"]
    body = scene.asked[0]
    assert (body["reasoning"], body["text"]) == ({"effort": "high", "summary": "detailed"}, {"verbosity": "medium"})
    assert body["instructions"] == "Be a house."


def test_the_catalogue_of_codex_is_read_as_the_built_in_one(codex_binary: str) -> None:
    done = subprocess.run([codex_binary, "debug", "models", "--bundled"], capture_output=True, check=True, timeout=60)
    entries = json.loads(done.stdout)["models"]
    assert len(entries) >= 10
    for entry in entries:
        assert model_of(entry, trusted=False) == known_model(entry["slug"]), entry["slug"]


# The server's list


class Lists:
    """A server with a list of models. ``answer`` is a status, a body and headers; ``hang`` stops it from answering."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.answer: tuple[int, bytes, dict[str, str]] = (
            200,
            json.dumps({"models": [ENTRY]}).encode(),
            {"etag": '"e1"'},
        )
        self.hang = threading.Event()
        self.hang.set()

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append({"path": handler.path, **{name.lower(): value for name, value in handler.headers.items()}})
        self.hang.wait(20)
        status, body, headers = self.answer
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        if status != 304:
            handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        if status != 304:
            handler.wfile.write(body)


@pytest.fixture
def lists() -> Iterator[Lists]:
    made = Lists()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            made.serve(self)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    made.url = f"http://127.0.0.1:{server.server_port}/v1"  # type: ignore[attr-defined]
    yield made
    made.hang.set()
    server.shutdown()
    server.server_close()


class Context:
    """What the plugin is given, with a login of ChatGPT and one provider on loopback."""

    def __init__(self, home: Path, url: str) -> None:
        self.codex_home = home
        self.environ = {"CODEX_HOME": str(home)}
        self.config: dict[str, Any] = {
            "model_provider": "here",
            "model_providers": {"here": {"base_url": url, "requires_openai_auth": True}},
        }
        tokens = {**Issuer().tokens(), "account_id": "acct-1"}
        (home / "auth.json").write_text(json.dumps({"auth_mode": "chatgpt", "tokens": tokens}))

    def offered(self, _: Any) -> dict[str, Any]:
        return {}

    def settings(self, kind: Callable[[], Any]) -> Any:
        return kind()


@pytest.fixture
def context(codex_home: Path, lists: Any) -> Any:
    return Context(codex_home, lists.url)


def here(lists: Any) -> ProviderInfo:
    return ProviderInfo(id="here", base_url=lists.url)


def test_the_list_is_fetched_stored_and_used(context: Any, lists: Any, codex_home: Path) -> None:
    assert refresh(context)
    asked = lists.asked[0]
    assert asked["path"] == "/v1/models?client_version=0.171.0"
    assert asked["chatgpt-account-id"] == "acct-1"
    assert asked["authorization"].startswith("Bearer ey")
    stored = json.loads((codex_home / "models_cache.json").read_text())
    assert (stored["etag"], stored["client_version"], stored["models"]) == ('"e1"', "0.171.0", [ENTRY])
    catalogue = ServerCatalogue(codex_home / "models_cache.json")
    assert catalogue.model("house", here(lists)) == HOUSE.evolve(base_instructions=None)
    assert catalogue.model("house", OPENAI) is None, "it is the list of another server"
    assert not refresh(context), "it is fresh"
    assert len(lists.asked) == 1


def test_an_unchanged_list_is_kept_and_counts_as_fresh(context: Any, lists: Any, codex_home: Path) -> None:
    refresh(context)
    before = json.loads((codex_home / "models_cache.json").read_text())
    lists.answer = (304, b"", {})
    assert refresh(context, force=True)
    assert lists.asked[1]["if-none-match"] == '"e1"'
    after = json.loads((codex_home / "models_cache.json").read_text())
    assert after["fetched_at"] > before["fetched_at"]
    assert {**after, "fetched_at": ""} == {**before, "fetched_at": ""}


def test_a_list_of_another_server_does_not_become_one_of_a_server_that_sends_none(
    context: Any, lists: Any, codex_home: Path
) -> None:
    path = codex_home / "models_cache.json"
    path.write_text(json.dumps({"fetched_at": "2020-01-01T00:00:00Z", "etag": '"e0"', "models": [ENTRY]}))
    lists.answer = (304, b"", {})
    with pytest.raises(ModelError):
        refresh(context)
    assert "if-none-match" not in lists.asked[0]
    assert ServerCatalogue(path).model("house", here(lists)) is None


LIES: dict[str, tuple[int, bytes, dict[str, str]]] = {
    "HTML": (200, b"<html>", {}),
    "an error": (500, b"", {}),
    "no list": (200, b'{"models": 5}', {}),
    "an empty list": (200, b'{"models": []}', {}),
    "only wrong entries": (200, b'{"models": [5, {}, {"slug": 1}]}', {}),
    "a redirect": (302, b"", {"location": "http://127.0.0.1:9/"}),
    "not UTF-8": (200, b"\xff\xff", {}),
    "endless": (200, b" " * 17_000_000, {}),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough) if name == "endless" else name for name in LIES]
)
def test_a_lying_server_changes_nothing(name: str, context: Any, lists: Any, codex_home: Path) -> None:
    refresh(context)
    before = (codex_home / "models_cache.json").read_bytes()
    lists.answer = LIES[name]
    with pytest.raises(ModelError) as caught:
        refresh(context, force=True)
    assert "127.0.0.1" in caught.value.fact or "can be read" in caught.value.fact
    assert (codex_home / "models_cache.json").read_bytes() == before


def test_some_wrong_entries_do_not_hide_the_others(context: Any, lists: Any, codex_home: Path) -> None:
    lists.answer = (200, json.dumps({"models": [5, {"slug": ""}, ENTRY]}).encode(), {})
    assert refresh(context)
    models = list(ServerCatalogue(codex_home / "models_cache.json").models(here(lists)))
    assert [model.slug for model in models] == ["house"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"models": 5}', '{"fetched_at": 5, "models": [1]}', "\x00"])
def test_a_broken_cache_is_no_error_and_fetched_again(content: str, context: Any, codex_home: Path, lists: Any) -> None:
    path = codex_home / "models_cache.json"
    path.write_text(content)
    assert ServerCatalogue(path).model("house", OPENAI) is None
    assert refresh(context)
    assert ServerCatalogue(path).model("house", here(lists)) is not None


def test_a_pipe_in_place_of_the_cache_is_not_waited_for(codex_home: Path) -> None:
    os.mkfifo(codex_home / "models_cache.json")
    assert Cache.read(codex_home / "models_cache.json") is None


def test_a_cache_that_codex_wrote_is_one_of_openai(codex_home: Path) -> None:
    path = codex_home / "models_cache.json"
    path.write_text(json.dumps({"fetched_at": "2026-11-23T08:20:59.195908103Z", "etag": None, "models": [ENTRY]}))
    assert ServerCatalogue(path).model("house", OPENAI) is not None
    assert ServerCatalogue(path).model("house", OPENAI.evolve(id="other")) is None
    cache = Cache.read(path)
    assert cache is not None
    assert cache.fetched_at > 1_700_000_000


def test_without_a_login_of_chatgpt_nobody_is_asked(context: Any, lists: Any, codex_home: Path) -> None:
    (codex_home / "auth.json").write_text('{"auth_mode": "apikey", "OPENAI_API_KEY": "sk-1"}')
    assert not refresh(context, force=True)
    assert lists.asked == []


def test_a_list_with_another_tag_is_fetched_though_the_stored_one_is_fresh(context: Any, lists: Any) -> None:
    lists.answer = (200, json.dumps({"models": [ENTRY]}).encode(), {"etag": "one"})
    assert refresh(context)
    assert not refresh(context, told="one")
    assert refresh(context, told="two")
    assert len(lists.asked) == 2


def test_a_server_that_says_that_its_list_has_changed_is_asked_again(context: Any, lists: Any) -> None:
    lists.answer = (200, json.dumps({"models": [ENTRY]}).encode(), {"etag": "one"})
    assert refresh(context)
    observer = Refresher(context, after_s=0.0)

    def tell(etag: str, asked: int) -> None:
        observer.observe("t", Event(id="", msg=ModelsChangedEvent(etag)))
        deadline = time.monotonic() + 20
        while (len(lists.asked) < asked or timers()) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(lists.asked) == asked

    def timers() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]

    tell("one", 1)
    tell("two", 2)
    for number in range(30):
        tell(f"tag {number}", min(3 + number, 20))  # of the 20 that are believed, two were told above


def test_a_turn_does_not_wait_for_a_server_that_hangs(context: Any, lists: Any, make_kernel: Any) -> None:
    from codex_framework.testing.offering import Offer

    lists.hang.clear()
    observer = Refresher(context, after_s=0.0)

    async def main() -> str:
        async with make_kernel([say("one"), say("two")], plugins=[Offer(observers=[observer], name="p")]) as kernel:
            thread = await kernel.start_thread()
            answers = [(await thread.run(text)).final_message for text in ("a", "b")]
            return str(answers[-1])

    assert asyncio.run(main()) == "two"
    deadline = time.monotonic() + 20
    while not lists.asked and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(lists.asked) == 1
    waiting = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert [thread.daemon for thread in waiting] == [True], "the end of the program does not wait for it"


_ENDING = """
import atexit, sys, threading, time
from pathlib import Path
from types import SimpleNamespace
from codex_plugin_models.refreshing import Refresher

class Context:
    codex_home = Path(sys.argv[1])
    environ = {"CODEX_HOME": sys.argv[1]}
    config = {"model_provider": "here", "model_providers": {"here": {"base_url": sys.argv[2], "requires_openai_auth": True}}}
    offered = staticmethod(lambda _: {})
    settings = staticmethod(lambda kind: kind())

def told():
    for thread in threads:
        thread.join(20)
        print("runs" if thread.is_alive() else "ended", flush=True)

atexit.register(told)  # the first handler is called last
Refresher(Context(), after_s=0.0).observe("t", SimpleNamespace(msg=SimpleNamespace(type="task_started")))
threads = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
sys.stdin.readline()
"""


def test_the_end_of_a_program_breaks_off_the_question_for_the_list(context: Any, lists: Any, codex_home: Path) -> None:
    """A daemon thread that were within OpenSSL then would crash the program."""
    lists.hang.clear()
    command = [sys.executable, "-c", _ENDING, str(codex_home), lists.url]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        end = time.monotonic() + 30
        while not lists.asked and time.monotonic() < end:
            time.sleep(0.01)
        told = program.communicate("\n", timeout=60)
    assert (program.returncode, told) == (0, ("ended\n", ""))
    assert not (codex_home / "models_cache.json").exists()


def test_servers_of_the_plain_api_give_names(lists: Any) -> None:
    lists.answer = (200, b'{"object": "list", "data": [{"id": "llama"}, {"id": 5}, 7]}', {})
    assert fetch(here(lists), Access("sk-1")).names == ("llama",)
    assert lists.asked[0]["authorization"] == "Bearer sk-1"


def test_a_fresh_list_of_another_server_is_none(context: Any, lists: Any) -> None:
    assert refresh(context)
    context.config["model_providers"]["here"]["base_url"] = f"{lists.url}/other"
    assert refresh(context)
    assert [asked["path"].partition("?")[0] for asked in lists.asked] == ["/v1/models", "/v1/other/models"]
    assert "if-none-match" not in lists.asked[1]


def test_the_login_says_where_openais_list_is(lists: Any) -> None:
    assert fetch(OPENAI, Access("sk-1", base_url=lists.url)).entries
    assert lists.asked[0]["path"] == "/v1/models?client_version=0.171.0"


def test_the_parameters_of_a_table_are_sent(lists: Any) -> None:
    fetch(here(lists).evolve(query_params={"api-version": "1"}), Access("sk-1"))
    assert lists.asked[0]["path"] == "/v1/models?api-version=1&client_version=0.171.0"


@pytest.mark.parametrize("status", [204, 301, 401, 404, 429, 500])
def test_only_a_status_of_success_has_a_list(status: int, lists: Any) -> None:
    lists.answer = (status, json.dumps({"models": [ENTRY]}).encode(), {})
    with pytest.raises(ModelError, match=f"it answered with status {status}"):
        fetch(here(lists), Access("sk-1"))


def test_a_list_that_is_too_long_is_told(lists: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refreshing, "_MAX_BYTES", 100)
    with pytest.raises(ModelError, match="its list is too long"):
        fetch(here(lists), Access("sk-1"))


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"data": [{"id": ' + b"[" * 100_000])
def test_a_list_that_is_too_deep_is_told(data: bytes, lists: Any) -> None:
    lists.answer = (200, data, {})
    with pytest.raises(ModelError, match="cannot be used"):
        fetch(here(lists), Access("sk-1"))


@pytest.mark.parametrize(("etag", "kept"), [("x" * 999, "x" * 999), ("x" * 1000, ""), ("\u00e9", ""), ("a\tb", "")])
def test_a_tag_that_makes_no_sense_is_none(etag: str, kept: str, lists: Any) -> None:
    lists.answer = (200, json.dumps({"models": [ENTRY]}).encode(), {"etag": etag})
    assert fetch(here(lists), Access("sk-1")).etag == kept


def test_names_that_cannot_be_shown_are_left_out(lists: Any) -> None:
    names = ["a\u0007b", "x" * 200, "\u202e", "x" * 199, "ok"]
    lists.answer = (200, json.dumps({"data": [{"id": name} for name in names]}).encode(), {})
    assert fetch(here(lists), Access("sk-1")).names == ("x" * 199, "ok")


def timers() -> list[threading.Timer]:
    return [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


def test_what_servers_say_while_a_question_waits_is_one_question(context: Any, lists: Any) -> None:
    observer = Refresher(context, after_s=1.0)
    for etag in ("one", "two", "three"):
        observer.observe("t", Event(id="", msg=ModelsChangedEvent(etag)))
    (timer,) = timers()
    assert timer.daemon, "the end of the program does not wait for it"
    timer.join(20)
    assert len(lists.asked) == 1


def test_nobody_is_asked_where_the_settings_forbid_it(context: Any, lists: Any) -> None:
    context.settings = lambda kind: kind(refresh=False)
    observer = Refresher(context, after_s=0.0)
    observer.observe("t", Event(id="", msg=ModelsChangedEvent("one")))
    for timer in timers():
        timer.join(20)
    assert lists.asked == []


def test_a_cache_is_replaced_in_one_step_by_each_of_many(tmp_path: Path) -> None:
    path = tmp_path / "models_cache.json"
    Cache.write(path, [ENTRY], etag="old", source="here", account="")
    with path.open("rb") as old, ThreadPoolExecutor(8) as threads:
        for done in [
            threads.submit(Cache.write, path, [ENTRY] * 50, etag=f"new-{n}", source="here", account="")
            for n in range(40)
        ]:
            done.result()
        assert json.load(old)["etag"] == "old"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    cache = Cache.read(path)
    assert cache is not None
    assert (cache.etag[:4], len(cache.entries), cache.source) == ("new-", 50, "here")


def test_a_cache_that_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "models_cache.json"
    path.mkdir()
    with pytest.raises(OSError):  # noqa: PT011
        Cache.write(path, [ENTRY], etag="", source="here", account="")
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_huge_cache_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "models_cache.json"
    Cache.write(path, [ENTRY], etag="", source="here", account="")
    size = path.stat().st_size
    monkeypatch.setattr(server, "_MAX_BYTES", size)
    assert Cache.read(path) is not None
    path.write_text(path.read_text() + " ")
    assert Cache.read(path) is None


@pytest.mark.parametrize(("age_s", "fresh"), [(10, True), (290, True), (310, False), (-100, False)])
def test_a_list_is_fresh_for_five_minutes_and_none_is_from_the_future(
    context: Any, lists: Any, codex_home: Path, age_s: float, *, fresh: bool
) -> None:
    assert refresh(context)
    path = codex_home / "models_cache.json"
    content = json.loads(path.read_text())
    content["fetched_at"] = datetime.fromtimestamp(time.time() - age_s, UTC).isoformat()
    path.write_text(json.dumps(content))
    assert refresh(context) is not fresh


@pytest.mark.parametrize("fetched", ["0001-01-01T00:00:00", "9999-12-31T23:59:59-23:59", "yesterday", 5, None])
def test_a_time_that_makes_no_sense_is_not_fresh(context: Any, lists: Any, codex_home: Path, fetched: Any) -> None:
    assert refresh(context)
    path = codex_home / "models_cache.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "fetched_at": fetched}))
    assert refresh(context)


def test_a_catalogue_reads_its_file_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "models_cache.json"
    catalogue = ServerCatalogue(path)
    assert catalogue.cache is None
    Cache.write(path, [ENTRY], etag="one", source="openai", account="")
    first = catalogue.cache
    assert first is not None
    assert catalogue.cache is first
    Cache.write(path, [ENTRY], etag="two", source="openai", account="")
    os.utime(path, (1, 1))
    assert catalogue.cache is not None
    assert catalogue.cache.etag == "two"
    assert [model.slug for model in catalogue.models(OPENAI)] == ["house"]
    assert list(catalogue.models(ProviderInfo(id="other"))) == []


# The command


@pytest.fixture
def run(codex_home: Path, tmp_path: Path, run_program: Any) -> Callable[..., Any]:
    def ran(*words: str, **more: str) -> Any:
        env = {"CODEX_HOME": str(codex_home), "HOME": str(codex_home), "PATH": "/usr/bin:/bin", **more}
        return run_program("models", *words, cwd=tmp_path, env=env)

    return ran


def test_the_command_lists_models_with_their_source(run: Any, codex_home: Path, tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    file.write_text(json.dumps({"models": [{**ENTRY, "visibility": "list"}, {"slug": "gpt-5.5", "context_window": 9}]}))
    (codex_home / "config.toml").write_text(f'model = "house"\nmodel_catalog_json = "{file}"\n')
    (codex_home / "models_cache.json").write_text(
        json.dumps({"models": [{**ENTRY, "visibility": "list"}, {"slug": "of-server"}]})
    )
    table = run().stdout.splitlines()
    assert table[1].split()[:2] == ["house", "*"]
    assert [line.split()[-1] for line in table if line.startswith(("house", "gpt-5.5", "gpt-6.1-sol"))] == [
        *("file", "file", "in")
    ]
    entries = json.loads(run("--json").stdout)
    found = {entry["model"]: entry for entry in entries}
    assert len(found) == len(entries)
    assert (found["of-server"]["source"], found["house"]["source"]) == ("server", "file")
    assert (found["gpt-5.5"]["context_window"], found["gpt-5.5"]["source"]) == (9, "file")
    assert (found["house"]["configured"], found["house"]["efforts"]) == (True, ["low", "high"])
    assert "codex-auto-review" not in found
    assert "codex-auto-review" in run("--all").stdout


def test_the_command_says_where_each_value_comes_from(run: Any, codex_home: Path) -> None:
    config = codex_home / "config.toml"
    config.write_text('model_context_window = 1234\nmodel_reasoning_effort = "xhigh"\n')
    shown = json.loads(run("gpt-6.1-sol", "--json").stdout)
    found = shown["properties"]
    assert found["context_window"] == {"value": 1234, "source": f"model_context_window in {config}"}
    assert found["default_effort"] == {"value": "xhigh", "source": f"model_reasoning_effort in {config}"}
    assert found["lite"] == {"value": True, "source": "built in"}
    unknown = json.loads(run("no-such-model", "--json").stdout)
    assert (unknown["known"], unknown["properties"]["truncation"]["source"]) == (False, "fallback")
    assert "Nothing is known about this model" in run("no-such-model").stdout


@pytest.mark.parametrize(("words", "shown"), [((), "\\x1b[2Jname\\r\\n\\u202e"), (("evil",), "low\\x1b]0;title\\x07")])
def test_a_catalogue_cannot_control_the_terminal(words: Any, shown: str, context: Any, codex_home: Path) -> None:
    levels = [{"effort": "low\x1b]0;title\x07"}]
    entry = {"slug": "evil", "display_name": "\x1b[2Jname\r\n\u202e", "supported_reasoning_levels": levels}
    (codex_home / "models_cache.json").write_text(json.dumps({"models": [entry]}))
    context.config = {"model_providers": {"openai": {"base_url": "http://127.0.0.1:9"}}}
    known = SimpleNamespace(plugin="models", item=ServerCatalogue(codex_home / "models_cache.json"))
    context.offered = lambda role: {"server": known} if role is ModelCatalogue else {}
    done = CliRunner().invoke(models_command, words, obj=context)
    assert (done.exit_code, shown in done.output) == (0, True)
    assert done.output.replace("\n", "").isprintable()


@pytest.mark.thorough
def test_the_command_asks_a_server_for_names(run: Any, codex_home: Path, lists: Any) -> None:
    lists.answer = (200, b'{"data": [{"id": "llama"}, {"id": "gpt-5.5"}]}', {})
    (codex_home / "config.toml").write_text(
        f'model_provider = "here"\n[model_providers.here]\nbase_url = "{lists.url}"\n'
    )
    done = run("--refresh", "--json")
    found = {entry["model"]: entry["source"] for entry in json.loads(done.stdout)}
    assert found == {"llama": "fallback", "gpt-5.5": "built in"}
    lists.answer = (500, b"", {})
    done = run("--refresh", "--json")
    assert (done.returncode, "status 500" in done.stderr, "Traceback" in done.stderr) == (0, True, False)


def test_the_command_asks_the_server_that_is_named_and_no_other(run: Any, codex_home: Path, lists: Any) -> None:
    """The configured provider has no key, which is nobody's business here."""
    lists.answer = (200, b'{"data": [{"id": "llama"}]}', {})
    done = run("--provider", "ollama", "--refresh", "--json", CODEX_OSS_BASE_URL=lists.url)
    assert [entry["model"] for entry in json.loads(done.stdout)] == ["llama"]
    assert done.stderr == ""
    assert [asked["path"] for asked in lists.asked] == ["/v1/models?client_version=0.171.0"]


def test_a_server_of_local_models_has_none_of_the_models_of_openai(run: Any) -> None:
    names = [entry["model"] for entry in json.loads(run("--provider", "ollama", "--json").stdout)]
    assert "gpt-oss:20b" in names
    assert not any(name.startswith("gpt-5") for name in names)


@pytest.mark.thorough
def test_an_unknown_provider_is_an_error(run: Any) -> None:
    done = run("--provider", "nobody")
    assert (done.returncode, "unknown model provider 'nobody'" in done.stderr) == (1, True)


def test_prices_of_a_catalogue_are_used_for_costs(make_kernel: Any, tmp_path: Path) -> None:
    from codex_plugin_usage.prices import prices_for

    file = tmp_path / "models.json"
    file.write_text(json.dumps({"models": [ENTRY]}))

    async def main() -> tuple[ModelPrices | None, ModelPrices | None]:
        async with make_kernel([], config=[f'model_catalog_json="{file}"']) as kernel:
            contexts = [report for report in kernel.registry.reports if report.name == "usage"]
            assert contexts
            price = prices_for(Prices(kernel), print)
            return price("openai", "house"), price("openai", "gpt-5.5")

    house, other = asyncio.run(main())
    assert (house, other) == (ModelPrices(input=1.5, output=6.0), None)


class Prices:
    """The context of the plugin usage, as far as prices need it."""

    def __init__(self, kernel: Any) -> None:
        self.config: dict[str, Any] = {}
        self._registry = kernel.registry

    def offered(self, role: type[Any]) -> dict[str, Any]:
        from codex_framework import ModelCatalogue
        from codex_framework.contract.roles.plugins import Offer

        found = self._registry.catalogues if role is ModelCatalogue else self._registry.providers
        return {name: Offer("p", item) for name, item in found.items()}

    def settings(self, kind: Callable[[], Any]) -> Any:
        return kind()
