"""Images from OpenAI's server for logins with ChatGPT: what is asked for, saved, shown, and said if there is none."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from codex_framework import Kernel
from codex_framework.config import load_config
from codex_framework.contract.protocol.events import (
    ImageGenerationBeginEvent,
    ImageGenerationEndEvent,
    ItemCompletedEvent,
    ItemStartedEvent,
    WarningEvent,
)
from codex_framework.contract.protocol.items import CustomToolCall, FunctionCall, UnknownItem
from codex_framework.contract.protocol.ops import LocalImageInput, TextInput
from codex_framework.testing.replies import call, fault, reply, say
from codex_framework.testing.server import ModelServer, RecordedRequest
from codex_framework.testing.wire import RESPONSES
from codex_plugin_openai import saved_images
from tests.plugins.login.issuer import Issuer, jwt


def png(text: str) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + text.encode()


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


DOT = png("a dot")
FIXED = {"model": "gpt-image-2", "quality": "auto", "size": "auto"}
"""What Codex 0.169 sends, as recorded from it on loopback."""


@attrs.frozen
class _Images:
    """The paths of the server's images: the script answers them in turn."""

    path: str
    name: str = "images"

    def events(self, *_: Any) -> list[bytes]:
        return []


WIRES = (RESPONSES, _Images("/images/generations"), _Images("/images/edits"))


def drawn(data: bytes = DOT, **more: Any) -> Any:
    return fault(status=200, body={"created": 1, "data": [{"b64_json": encoded(data)}], **more})


def draw(call_id: str = "call_1", **arguments: Any) -> Any:
    text = json.dumps({"prompt": "a dot", **arguments})
    return reply(FunctionCall(name="imagegen", namespace="image_gen", call_id=call_id, arguments=text))


def chatgpt(plan: str | None = "plus") -> dict[str, Any]:
    auth = {"chatgpt_account_id": "acct-1", "chatgpt_plan_type": plan}
    tokens = {
        "id_token": jwt(**{"https://api.openai.com/auth": auth}),
        "access_token": jwt(exp=4_000_000_000),
        "refresh_token": "r",
        "account_id": "acct-1",
    }
    return {"auth_mode": "chatgpt", "tokens": tokens}


@attrs.define
class Ran:
    """What happened in a thread."""

    requests: list[RecordedRequest]
    events: list[Any]
    home: Path
    thread_id: str

    @property
    def asked(self) -> list[RecordedRequest]:
        return [request for request in self.requests if "/images/" in request.path]

    @property
    def folder(self) -> Path:
        return self.home / "generated_images" / self.thread_id

    def of(self, *kinds: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]

    @property
    def outputs(self) -> list[Any]:
        """The outputs of all calls, as the model reads them."""
        sent = [request for request in self.requests if "/images/" not in request.path][-1].json["input"]
        return [item["output"] for item in sent if item["type"] == "function_call_output"]

    @property
    def output(self) -> Any:
        """The output of the last call."""
        return self.outputs[-1]

    def groups(self, number: int = 0) -> list[str]:
        return [tool.get("name") or tool["type"] for tool in self.requests[number].json["tools"]]


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()

    def ran(
        *replies: Any,
        login: Mapping[str, Any] | None = None,
        config: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        model: str = "gpt-5.5",
        images: tuple[Path, ...] = (),
    ) -> Ran:
        (home / "auth.json").write_text(json.dumps(chatgpt() if login is None else login))
        environ = {"CODEX_HOME": str(home), "HOME": str(home), "PATH": "/usr/bin:/bin", **(env or {})}
        with ModelServer([*replies, say("done")], wires=WIRES) as server:
            overrides = (
                f'model="{model}"',
                f'openai_base_url="{server.url}"',
                'approval_policy="never"',
                'sandbox_mode="danger-full-access"',
                *config,
            )

            async def main() -> tuple[list[Any], str]:
                loaded = load_config(cwd=work, environ=environ, overrides=overrides)
                async with await Kernel.create(loaded, environ=environ) as kernel:
                    thread = await kernel.start_thread()
                    told: list[Any] = []
                    given: list[Any] = [*(LocalImageInput(str(path)) for path in images), TextInput("Draw!")]
                    async for event in thread.stream(given):
                        told.append(event)
                    return told, thread.id

            told, thread_id = asyncio.run(main())
            return Ran(server.requests, told, home, thread_id)

    return ran


def test_an_image_is_asked_for_as_codex_does_saved_and_shown(run: Run) -> None:
    ran = run(draw(transparent_background=True), drawn(background="transparent"))
    (asked,) = ran.asked
    assert asked.path.endswith("/images/generations")
    assert asked.json == {"prompt": "a dot", "background": "transparent", **FIXED}
    turn = json.loads(asked.headers["x-codex-turn-metadata"])
    assert asked.headers["x-codex-image-turn-id"] == turn["turn_id"]
    assert (turn["thread_id"], turn["model"], "request_kind" in turn) == (ran.thread_id, "gpt-5.5", False)
    assert asked.headers["authorization"] == ran.requests[0].headers["authorization"]
    assert asked.headers["chatgpt-account-id"] == "acct-1"
    path = ran.folder / "call_1.png"
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (DOT, 0o600)
    shown, hint = ran.output
    url = f"data:image/png;base64,{encoded(DOT)}"
    assert shown == {"type": "input_image", "image_url": url, "detail": "original"}
    assert str(path) in hint["text"]
    item = {"type": "ImageGeneration", "id": "call_1", "revised_prompt": "a dot", "result": encoded(DOT)}
    ended = {**item, "status": "completed", "transparent_background": True, "saved_path": str(path)}
    kinds = (ItemStartedEvent, ItemCompletedEvent)
    started, completed = (event.item for event in ran.of(*kinds) if event.item["type"] == "ImageGeneration")
    assert (started["status"], completed) == ("in_progress", ended)
    assert ran.of(ImageGenerationBeginEvent, ImageGenerationEndEvent) == [
        ImageGenerationBeginEvent("call_1"),
        ImageGenerationEndEvent("call_1", "completed", "a dot", encoded(DOT), str(path)),
    ]


def test_files_are_edited(run: Run, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    gif = io.BytesIO()
    image.new("RGB", (3, 3), (1, 2, 3)).save(gif, "GIF")
    (tmp_path / "work" / "a.png").write_bytes(png("a"))
    (tmp_path / "work" / "b.gif").write_bytes(gif.getvalue())
    ran = run(draw(referenced_image_paths=[str(tmp_path / "work" / "a.png"), "b.gif"]), drawn())
    (asked,) = ran.asked
    first, second = (each["image_url"] for each in asked.json.pop("images"))
    assert asked.path.endswith("/images/edits")
    assert first == f"data:image/png;base64,{encoded(png('a'))}"
    assert image.open(io.BytesIO(base64.b64decode(second.partition(",")[2]))).format == "PNG"
    body = asked.json
    del body["images"]
    assert body == {"prompt": "a dot", "background": "opaque", **FIXED}


def test_the_latest_images_of_the_conversation_are_edited(run: Run, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.png").write_bytes(png(name) + b"IHDR" + b"\0" * 20)
    looked = png("c")[:8] + b"\0\0\0\rIHDR\0\0\0\x03\0\0\0\x03" + b"\0" * 5
    (tmp_path / "c.png").write_bytes(looked)
    hosted = UnknownItem({"type": "image_generation_call", "id": "ig", "result": encoded(png("d"))})
    ran = run(
        call("view_image", path=str(tmp_path / "c.png")),
        draw(num_last_images_to_include=2),
        drawn(png("e")),
        reply(hosted) + draw("call_2", num_last_images_to_include=4),
        drawn(),
        images=(tmp_path / "a.png", tmp_path / "b.png"),
    )
    edited = [[each["image_url"].partition(",")[2] for each in asked.json["images"]] for asked in ran.asked]
    b = encoded((tmp_path / "b.png").read_bytes())
    c = encoded(looked)
    assert edited == [[b, c], [b, c, encoded(png("e")), encoded(png("d"))]]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"referenced_image_paths": ["a"], "num_last_images_to_include": 1}, "provide only one of"),
    ({"referenced_image_paths": ["a"] * 6}, "must contain at most 5 paths"),
    ({"num_last_images_to_include": 0}, "must be between 1 and 5"),
    ({"num_last_images_to_include": 6}, "must be between 1 and 5"),
    ({"num_last_images_to_include": 2}, "requested the last 2 conversation images, but only 0 were available"),
    ({"gif": {}}, "GIF output is unavailable in this session."),
    ({"size": "big"}, "unknown field `size`, expected one of `prompt`, `transparent_background`"),
    ({"prompt": None}, "expected a string"),
    ({"referenced_image_paths": ["none.png"]}, "No such file or directory"),
    ({"referenced_image_paths": ["text.png"]}, "not a PNG, JPEG, WebP or GIF image"),
    ({"referenced_image_paths": ["broken.gif"]}, "unable to process referenced image"),
    ({"referenced_image_paths": ["huge.gif"]}, "it has 7000 x 7000 pixels, which are too many"),
    ({"referenced_image_paths": ["."]}, "it is not a file"),
    ({"referenced_image_paths": ["large.png"]}, "more than 52,428,800"),
    ({"referenced_image_paths": ["../home/auth.json"]}, "reading it is not permitted"),
]


def test_arguments_that_make_no_sense_are_explained_and_nothing_is_asked_for(run: Run, tmp_path: Path) -> None:
    (tmp_path / "work" / "text.png").write_text("hello")
    (tmp_path / "work" / "broken.gif").write_bytes(b"GIF89a")
    image = pytest.importorskip("PIL.Image")
    image.new("P", (7000, 7000)).save(tmp_path / "work" / "huge.gif")
    with (tmp_path / "work" / "large.png").open("wb") as file:
        file.truncate(50 * 1024 * 1024 + 1)
    calls = [draw(f"call_{number}", **arguments) for number, (arguments, _) in enumerate(REFUSED)]
    ran = run(sum(calls[1:], calls[0]))
    wrong = [pair for pair in zip(REFUSED, ran.outputs, strict=True) if pair[0][1] not in pair[1]]
    assert wrong == []
    assert (ran.asked, ran.of(ImageGenerationBeginEvent)) == ([], [])


def test_a_file_that_the_permissions_deny_is_not_sent(run: Run, tmp_path: Path) -> None:
    (tmp_path / "work" / "secret.png").write_bytes(png("secret"))
    denied = f'permissions.mine.filesystem={{":root"="read","{tmp_path}/work/secret.png"="none"}}'
    config = ("sandbox_mode=", denied, 'default_permissions="mine"')
    ran = run(draw(referenced_image_paths=["secret.png"]), config=config[1:])
    assert "not permitted" in ran.output
    assert ran.asked == []


BROKEN: list[tuple[Any, str]] = [
    (fault(status=400, body={"error": {"message": "no such people", "code": "moderation"}}), "no such people"),
    (fault(status=429, body={"error": {"type": "usage_limit_reached", "plan_type": "plus"}}), "usage limit"),
    (fault(status=200, body="<html>"), "not JSON"),
    (fault(status=200, body={"created": 1}), "without images"),
    (fault(status=200, body={"data": []}), "returned no image data"),
    (fault(status=200, body={"data": [{"url": "http://x"}]}), "returned no image data"),
    (fault(status=200, body={"data": [{"b64_json": "@@@"}]}), "not base64"),
    (fault(status=200, body={"data": [{"b64_json": encoded(b"hello")}]}), "not an image"),
    (fault(status=200, body={"data": [{"b64_json": "AAAA" * 1000}]}), "larger than"),
    (fault(status=200, body={"data": [{"b64_json": encoded(DOT)}]}, cut_at=20), "only a part of the image"),
]


def test_without_an_image_the_model_learns_why(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_images, "MOST_BYTES", 2000)
    ran = run(*(each for answer, _ in BROKEN for each in (draw(), answer)))
    wrong = [pair for pair in zip(BROKEN, ran.outputs, strict=True) if pair[0][1] not in pair[1]]
    assert wrong == []
    assert {output.partition(":")[0] for output in ran.outputs} == {"image generation failed"}
    assert len(ran.asked) == len(BROKEN)
    assert {event.status for event in ran.of(ImageGenerationEndEvent)} == {"failed"}
    assert not ran.folder.exists()


def test_a_server_error_is_tried_again(run: Run) -> None:
    ran = run(draw(), fault(status=500, body={"error": {"message": "boom"}}), drawn())
    assert len(ran.asked) == 2
    assert ran.output[0]["type"] == "input_image"


def test_an_image_that_cannot_be_saved_is_shown_and_one_warning_says_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "home" / "generated_images").write_text("in the way")
    ran = run(draw() + draw("call_2"), drawn(), drawn())
    (shown,) = ran.output
    assert shown["type"] == "input_image"
    (warning,) = (event.message for event in ran.of(WarningEvent) if "image" in event.message)
    assert "could not be saved" in warning


def test_a_gif_is_made_where_the_feature_is_on(run: Run) -> None:
    config = ("features.image_generation_animation=true",)
    gif = b"GIF89a and so on"
    ran = run(draw(gif={"frame_count": 4}), drawn(gif), draw("call_2", gif={"frame_count": 17}), config=config)
    (asked,) = ran.asked
    expected = {"prompt": "a dot", "output_format": "gif", "frame_count": 4, "background": "opaque", **FIXED}
    assert asked.json == expected
    assert (ran.folder / "call_1.gif").read_bytes() == gif
    assert ran.output == "`gif.frame_count` must be between 2 and 16"


def test_a_careless_server_that_repeats_the_token_tells_it_to_nobody(run: Run) -> None:
    def careless(request: RecordedRequest) -> Any:
        message = f"bad {request.headers['authorization']}"
        return fault(status=400, body={"error": {"message": message, "code": "odd"}})

    ran = run(draw(), careless)
    assert "bad" in ran.output
    token = ran.asked[0].headers["authorization"].partition(" ")[2]
    assert token not in json.dumps(ran.output) + repr(ran.events)


def test_a_program_gets_the_image_as_a_result(run: Run) -> None:
    pytest.importorskip("quickjs")
    script = 'const made = await tools.image_gen__imagegen({prompt: "a dot"}); text(Object.keys(made)); generatedImage(made);'
    program = reply(CustomToolCall(name="exec", input=script, call_id="call_1"))
    ran = run(program, drawn(), model="gpt-5.6-sol")
    sent = [item for item in ran.requests[-1].json["input"] if item["type"] == "custom_tool_call_output"]
    keys, image, hint = sent[0]["output"][-3:]
    assert keys["text"] == '["image_url","output_hint"]'
    assert image["image_url"] == f"data:image/png;base64,{encoded(DOT)}"
    assert str(ran.folder) in hint["text"]


KEY = {"auth_mode": "apikey", "OPENAI_API_KEY": "sk-1"}
ON, OFF = ("features.image_generation=true",), ("features.image_generation=false",)
HOSTED = "image_generation"


@pytest.mark.parametrize(
    ("login", "config", "env", "offered"),
    [
        (None, (), {}, ["image_gen"]),
        (None, ON, {}, ["image_gen"]),
        (chatgpt(None), (), {}, ["image_gen"]),
        (chatgpt("free"), (), {}, []),
        (chatgpt("free"), ON, {}, [HOSTED]),
        (None, OFF, {}, []),
        (KEY, (), {}, []),
        (KEY, ON, {}, [HOSTED]),
        (None, (), {"CODEX_API_KEY": "sk-1"}, []),
    ],
)
def test_it_is_offered_to_logins_with_chatgpt_as_in_codex(
    run: Run, login: Any, config: tuple[str, ...], env: dict[str, str], offered: list[str]
) -> None:
    ran = run(login=login, config=config, env=env)
    assert [name for name in ran.groups() if name.startswith("image_")] == offered


@pytest.mark.parametrize(("plan", "offered"), [("pro", ["image_gen"]), ("free", [])])
def test_the_plan_of_a_personal_access_token_is_asked_for_once(run: Run, plan: str, offered: list[str]) -> None:
    with Issuer() as issuer:
        known = {"chatgpt_account_id": "acct-9", "chatgpt_plan_type": plan}
        issuer.answers["/v1/user-auth-credential/whoami"] = lambda _: (200, known)
        ran = run(login={"personal_access_token": "at-1"}, env={"CODEX_AUTHAPI_BASE_URL": issuer.url})
        assert [name for name in ran.groups() if name.startswith("image_")] == offered
        assert len(issuer.seen) == 1
    assert ran.requests[0].headers["chatgpt-account-id"] == "acct-9"


@pytest.mark.parametrize(
    ("table", "offered"),
    [
        ("requires_openai_auth=true", ["image_gen"]),
        ('env_key="OWN"', []),
        ('requires_openai_auth=true,record="TMP/it.json"', []),
    ],
)
def test_other_providers_draw_if_they_use_the_login(run: Run, table: str, offered: list[str], tmp_path: Path) -> None:
    with ModelServer([draw(), drawn(), say("done")], wires=WIRES) as server:
        own = f'model_providers.own={{base_url="{server.url}",{table.replace("TMP", str(tmp_path))}}}'
        run(config=(own, 'model_provider="own"'), env={"OWN": "k"})
        first = server.requests[0]
        assert [tool["name"] for tool in first.json["tools"] if tool.get("name") == "image_gen"] == offered
        assert [request.path for request in server.requests if "images" in request.path] == (
            ["/v1/images/generations"] if offered else []
        )
