"""How sessions are set up: instructions, start-up context, configuration and credentials."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from codex_framework.config import load_config
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.protocol.items import Message, OutputText, user_message
from codex_framework.contract.protocol.wire import read_op, to_wire
from codex_framework.contract.roles.stores import ThreadSummary
from codex_framework.testing import say
from codex_lib_model_client.login.storage import LoginStorage
from codex_lib_model_client.login.stored import StoredLogin
from codex_plugin_realtime import (
    RealtimeAudioFrame,
    RealtimeConversationAudio,
    RealtimeConversationClose,
    RealtimeConversationListVoices,
    RealtimeConversationSpeech,
    RealtimeConversationStart,
    RealtimeConversationText,
    WebrtcTransport,
    startup,
)
from codex_plugin_realtime.addresses import calls_url, socket_url
from codex_plugin_realtime.dialogue import within_tokens
from tests.plugins.login.issuer import jwt
from tests.plugins.realtime.test_troubles import refusal


def answer(text: str) -> Message:
    return Message("assistant", (OutputText(text),))


def test_the_instructions_are_those_of_the_configuration_the_client_or_the_plugin(talk: Any, play: Any) -> None:
    async def story() -> list[str]:
        found = []
        async with talk() as here:
            for fields in ({}, {"prompt": "Mine."}, {"prompt": None}, {"prompt": ""}):
                found.append((await here.start(**fields))["instructions"])
        async with talk(config=['experimental_realtime_ws_backend_prompt="Configured."'], context="More.") as here:
            found.append((await here.start(prompt="Mine."))["instructions"])
            found.append((await here.start(include_startup_context=False))["instructions"])
        return found

    default, mine, none, empty, configured, alone = play(story)
    assert "You are Codex, and you talk with " in default
    assert "`[BACKEND] `" in default
    assert "{" not in default
    assert (mine, none, empty) == ("Mine.", "", "")
    assert (configured, alone) == ("Configured.\n\nMore.", "Configured.")


def test_the_configuration_chooses_model_voice_and_version_unless_the_client_does(talk: Any, play: Any) -> None:
    async def story() -> list[Any]:
        config = [
            'experimental_realtime_ws_model="theirs"',
            'realtime={version="v1", voice="ember", transport="webrtc"}',
        ]
        async with talk(config=config) as here:
            first = await here.start()
            second = await here.start(version="v2", model="mine", voice="ash", output_modality="text")
            return [
                first["audio"],
                second["audio"]["output"]["voice"],
                second["output_modalities"],
                here.server.requests,
            ]

    first, voice, modalities, requests = play(story)
    assert first["output"] == {"voice": "ember"}
    assert (voice, modalities) == ("ash", ["text"])
    assert [path for path, _ in requests] == ["/v1/realtime?intent=quicksilver&model=theirs", "/v1/realtime?model=mine"]


def test_the_start_up_context_has_the_thread_other_sessions_and_readable_files(
    talk: Any, play: Any, workspace: Path, tmp_path: Path
) -> None:
    for name in ("src/deep/deeper", "node_modules", ".hidden", "closed"):
        (workspace / name).mkdir(parents=True)
    (workspace / "src" / "a.py").touch()
    (workspace / "odd\nname").touch()
    home = tmp_path / "user"
    (home / "music").mkdir(parents=True)
    profile = f'permissions.some.filesystem={{":root"="read", "{workspace}/closed"="deny"}}'

    async def story() -> str:
        config = ['default_permissions="some"', profile]
        replies = (say("An old answer."), say("Fine."))
        async with talk(*replies, config=config, context=None, env={"HOME": str(home)}) as here:
            other = await here.thread.kernel.start_thread()
            await other.run("What an old\nquestion! " + "x" * 400)
            await other.shutdown()
            await here.thread.turn("How are you?")
            session = await here.start(prompt="Be nice.")
            instructions: str = session["instructions"]
            return instructions

    text = play(story)
    assert text.startswith("Be nice.\n\n<startup_context>\nStartup context from Codex.\n")
    assert text.endswith("\n</startup_context>")
    assert "### Latest turn\nUser:\nHow are you?\n\nAssistant:\nFine.\n" in text
    assert f"### Directory: {workspace}\nRecent sessions: 1\n" in text
    assert "\n- What an old question! xxx" in text
    assert f"Current working directory: {workspace}\n" in text
    assert "\n- src/\n  - deep/\n  - a.py\n- odd?name\n" in text
    assert "User root tree:\n- music/\n" in text
    hidden = ("deeper", "node_modules", ".hidden", "closed")
    assert [name for name in hidden if name in text] == []


def test_the_parts_of_the_start_up_context_stay_within_their_limits(tmp_path: Path) -> None:
    history = [user_message("old"), answer("first"), user_message("long " + "q" * 9000), answer("a" * 9000)]
    history += [user_message("new"), answer("one"), answer("two")]
    said = startup._said(history)
    assert said.index("### Latest turn\nUser:\nnew\n\nAssistant:\none\n\ntwo") < said.index(
        "### Previous turn 1\nUser:\nlong "
    )
    assert said.index("### Previous turn 2\nUser:\nold") > 0
    assert len(said.encode()) <= 1200 * 4
    many = [item for number in range(20) for item in (user_message(f"{number} " + "q" * 300), answer("a" * 300))]
    assert 3 < startup._said(many).count("###") < 20
    summaries = [
        ThreadSummary(id=str(n), cwd=f"/f{n % 11}", created_at=0, updated_at=n, source="cli", preview=f"ask {n}")
        for n in range(99)
    ]
    recent = startup._recent(Path("/f3"), summaries)
    assert recent.startswith("### Directory: /f3\nRecent sessions: 9\nLatest activity: 1970-01-01T00:01:31+00:00\n")
    assert recent.count("### Directory") == 8
    assert recent.count("- ask") == 40
    assert startup._recent(Path("/"), [ThreadSummary(id="1", cwd="/a", created_at=0, updated_at=0, source="cli")]) == ""
    long = ThreadSummary(id="1", cwd="/a", created_at=0, updated_at=0, source="cli", name="a \n" * 300)
    assert startup._recent(Path("/"), [long]).endswith("a a...")
    assert len(startup._recent(Path("/"), [long]).splitlines()[-1]) == 242
    for number in range(25):
        (tmp_path / f"file{number:02}").touch()
    tree = startup._tree(tmp_path, FileAccess())
    assert (len(tree), tree[0], tree[-1]) == (21, "- file00", "- ... 5 more entries")
    assert startup._tree(tmp_path / "none", FileAccess()) == []


@pytest.mark.parametrize(
    ("base", "socket", "calls"),
    [
        ("https://h", "wss://h/v1/realtime?model=m&t=1", "https://h/realtime/calls?t=1"),
        ("http://h:8/", "ws://h:8/v1/realtime?model=m&t=1", "http://h:8/realtime/calls?t=1"),
        ("https://h/api/v1", "wss://h/api/v1/realtime?model=m&t=1", "https://h/api/v1/realtime/calls?t=1"),
        ("https://h/v1/?a=b", "wss://h/v1/realtime?a=b&model=m&t=1", "https://h/v1/realtime/calls?a=b&t=1"),
        ("https://h/realtime/", "wss://h/realtime?model=m&t=1", "https://h/realtime/realtime/calls?t=1"),
        ("https://h/other#x", "wss://h/other?model=m&t=1", "https://h/other/realtime/calls?t=1"),
    ],
)
def test_urls_are_made_as_codex_makes_them(base: str, socket: str, calls: str) -> None:
    more = {"t": "1", "intent": "no", "model": "no"}
    assert socket_url(base, "key", "v2", more, model="m") == socket
    assert calls_url(base, "key", "v2", {"t": "1"}) == calls
    assert socket_url(base, "key", "v1", more, call_id="c").endswith("intent=quicksilver&t=1&model=no&call_id=c")


def test_texts_are_cut_so_that_they_fit_with_the_marker() -> None:
    for text in ("x" * 4001, "\u00e9" * 3000, "x" * 100_000):
        assert 3990 < len(within_tokens(text, 1000).encode()) <= 4000
    assert within_tokens("x" * 4000, 1000) == "x" * 4000


def test_a_token_that_the_server_refuses_is_replaced_once(talk: Any, play: Any, tmp_path: Path) -> None:
    script = tmp_path / "token.py"
    script.write_text(
        "import pathlib\np = pathlib.Path(__file__).with_suffix('.n')\n"
        "n = int(p.read_text()) + 1 if p.exists() else 1\np.write_text(str(n))\nprint(f'token-canary-{n}')\n"
    )

    async def story() -> list[str]:
        table = f'{{command="{sys.executable}", args=["{script}"], refresh_interval_ms=600000}}'
        async with talk(access=f"auth={table}") as here:
            here.server.refusals.append(refusal(401, "no token-canary-1"))
            await here.start()
            await here.submit(RealtimeConversationClose())
            await here.closed()
            here.server.refusals += [refusal(401, "no"), refusal(401, "no token-canary-4")]
            await here.submit(RealtimeConversationStart("audio"))
            error = await here.payload("Error")
            assert "token-canary" not in error
            return [
                headers["authorization"].removeprefix("Bearer token-canary-") for _, headers in here.server.requests
            ]

    assert play(story) == ["1", "2", "3", "4"], "each conversation asks for a token"


def test_a_login_of_chatgpt_is_enough_for_calls_but_not_for_a_websocket(talk: Any, play: Any, codex_home: Path) -> None:
    token = jwt(exp=4_000_000_000)
    claims = {"https://api.openai.com/auth": {"chatgpt_account_id": "account-1"}}
    tokens = {"id_token": jwt(**claims), "access_token": token, "refresh_token": "r", "account_id": "account-1"}
    LoginStorage(codex_home).save(StoredLogin.of_chatgpt(tokens))
    access = "requires_openai_auth=true"

    async def story() -> tuple[str, str, dict[str, str]]:
        async with talk(access=access) as here:
            error = await here.failed_start()
            here.server.answers.append((201, {"location": "/rtc_1"}, b"v=0"))
            await here.offer()
            await here.server.next("session.update")
            posted = here.server.posted[0][1]
            assert here.server.requests[0][1]["authorization"] == posted["authorization"]
        async with talk(access=access, env={"OPENAI_API_KEY": "sk-own"}) as here:
            await here.start()
            return error, here.server.requests[0][1]["authorization"], posted

    error, sent, posted = play(story)
    assert error.startswith(
        "realtime conversation requires API key auth. Set OPENAI_API_KEY, or let the client use WebRTC"
    )
    assert sent == "Bearer sk-own"
    assert (posted["authorization"], posted["chatgpt-account-id"]) == (f"Bearer {token}", "account-1")


def test_the_ops_are_read_as_they_are_written(talk: Any, play: Any) -> None:
    frame = RealtimeAudioFrame(data="AAAA", sample_rate=24000, num_channels=1, samples_per_channel=1, item_id="i")
    every = [
        RealtimeConversationStart("text"),
        RealtimeConversationStart("audio", prompt=None, transport=WebrtcTransport("v=0"), version="v2", voice="ash"),
        RealtimeConversationAudio(frame),
        RealtimeConversationText("x", "developer"),
        RealtimeConversationSpeech("x"),
        RealtimeConversationClose(),
        RealtimeConversationListVoices(),
    ]
    kinds = {type(op).type: type(op) for op in every}
    assert [read_op(to_wire(op), kinds) for op in every] == every
    assert to_wire(every[1])["transport"] == {"type": "webrtc", "sdp": "v=0"}

    async def story() -> Any:
        async with talk() as here:
            op = here.thread.kernel.registry.ops["realtime_conversation_start"].item.op
            inside = here.thread.inside("realtime").kernel
            return op, inside.op("realtime_conversation_start", output_modality="audio", prompt=None)

    kind, made = play(story)
    assert (kind, made.prompt) == (RealtimeConversationStart, None)


def test_a_project_cannot_choose_the_servers_that_get_the_credentials(codex_home: Path, workspace: Path) -> None:
    names = ("experimental_realtime_ws_base_url", "experimental_realtime_webrtc_call_base_url")
    (codex_home / "config.toml").write_text(f'projects."{workspace}".trust_level = "trusted"\n')
    (workspace / ".codex").mkdir()
    (workspace / ".codex" / "config.toml").write_text(
        "".join(f'{name} = "ws://evil"\n' for name in names) + 'realtime.voice = "ash"\n'
    )
    config = load_config(cwd=workspace, environ={"CODEX_HOME": str(codex_home)})
    assert config.tables["realtime"] == {"voice": "ash"}
    assert [name for name in names if name in config.tables] == []
    assert [name for name in names if not any(name in warning for warning in config.warnings)] == []
