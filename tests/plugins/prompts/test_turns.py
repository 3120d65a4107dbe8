"""Prompts in real turns, in the command line and on the wire; and files that cannot be used."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from codex_framework import CodexError
from codex_framework.config import load_config
from codex_framework.contract.protocol.ops import TextInput, UserInputOp
from codex_framework.contract.protocol.wire import read_event, to_wire
from codex_framework.loader.context import LoadContext
from codex_framework.testing import say
from codex_plugin_prompts.cli import prompts as prompts_command
from codex_plugin_prompts.events import ListCustomPromptsResponseEvent
from codex_plugin_prompts.library import read_prompts
from codex_plugin_prompts.request import ListCustomPrompts


@pytest.fixture
def prompts(codex_home: Path) -> Path:
    folder = codex_home / "prompts"
    folder.mkdir()
    (folder / "review.md").write_text("---\ndescription: Review a file\nargument-hint: FILE=path\n---\nReview $FILE.\n")
    (folder / "plain.md").write_text("Say hello.")
    return folder


def said(run: Any) -> list[str]:
    """Return the texts of the user."""
    found = [item.content[0].text for item in run.history if item.type == "message" and item.role == "user"]
    return [text for text in found if not text.startswith("<environment_context>")]


def warned(run: Any) -> list[str]:
    texts = [event.message for event in run.result.events if event.type == "warning"]
    return [text for text in texts if not text.startswith("Model metadata")]


def test_the_model_gets_the_text(run_turn: Any, prompts: Path) -> None:
    run = run_turn("/prompts:review FILE='my file.py'", [say("Fine.")])
    assert (said(run), run.final_message) == (["Review my file.py.\n"], "Fine.")
    (event,) = [event for event in run.result.events if event.type == "user_message"]
    assert event.message == "/prompts:review FILE='my file.py'"


def test_other_inputs_stay_as_they_are(run_turn: Any, prompts: Path) -> None:
    for text in ("hello", " /prompts:review", "see /prompts:plain", "/review"):
        assert said(run_turn(text, [say("Fine.")])) == [text]


def test_without_the_folder_nothing_is_expanded(run_turn: Any) -> None:
    assert said(run_turn("/prompts:review", [say("Fine.")])) == ["/prompts:review"]


def test_what_exec_reads_from_stdin_stays_behind_the_text(run_turn: Any, prompts: Path) -> None:
    run = run_turn("/prompts:review FILE=a\n\n<stdin>\nit's $1\n</stdin>", [say("Fine.")])
    assert said(run) == ["Review a.\n\n\n<stdin>\nit's $1\n</stdin>"]


REFUSED = {
    "/prompts:nothing": "there is no prompt 'nothing' in PROMPTS. The prompts are: plain, review",
    "/prompts:": "there is no prompt '' in PROMPTS. The prompts are: plain, review",
    "/prompts:../prompts/plain": "there is no prompt '../prompts/plain' in PROMPTS. The prompts are: plain, review",
    "/prompts:review": "/prompts:review: these arguments are missing: FILE. Add FILE=...",
    "/prompts:review it's": "/prompts:review: a single quote is not closed. For an apostrophe, write \\' or use double quotes",
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.items(), ids=REFUSED)
def test_an_input_that_cannot_be_expanded_is_refused_and_not_sent(
    run_turn: Any, prompts: Path, text: str, reason: str
) -> None:
    run = run_turn(text, [say("Never.")])
    assert run.requests == ()
    assert said(run) == []
    told = [event.message for event in run.result.events if event.type in ("error", "warning")]
    assert any(reason.replace("PROMPTS", str(prompts)) in message for message in told), told


def test_arguments_without_a_place_are_told(run_turn: Any, prompts: Path) -> None:
    run = run_turn("/prompts:plain now please", [say("Fine.")])
    assert said(run) == ["Say hello."]
    assert warned(run) == ["the prompt plain takes no arguments; `now please` is ignored"]


def test_a_prompt_can_name_a_skill(run_turn: Any, prompts: Path, codex_home: Path) -> None:
    (codex_home / "skills" / "alpha").mkdir(parents=True)
    (codex_home / "skills" / "alpha" / "SKILL.md").write_text("---\ndescription: d\n---\nBody.")
    (prompts / "use.md").write_text("Use $$alpha with $1 and $alpha.")
    first, second = said(run_turn("/prompts:use it", [say("Fine.")]))
    assert first == "Use $$alpha with it and $alpha."
    assert second.startswith("<skill>\n<name>alpha</name>")


def test_steered_input_is_expanded(make_kernel: Any, prompts: Path) -> None:
    async def main() -> list[Any]:
        async with make_kernel([say("one"), say("two"), say("three")]) as kernel:
            thread = await kernel.start_thread()
            await thread.submit(UserInputOp((TextInput("go"),)))
            await thread.submit(UserInputOp((TextInput("/prompts:plain"),)))
            await thread.settled()
            return list(thread.history.items)

    texts = [item.content[0].text for item in asyncio.run(main()) if item.type == "message" and item.role == "user"]
    assert texts[-1] == "Say hello."


BAD = {
    "bytes": (b"caf\xe9", "it is not UTF-8: the byte at position 3 does not fit"),
    "huge": (b"x" * ((1 << 20) + 1), "it has more than 1 MiB"),
}


@pytest.mark.parametrize(("data", "reason"), BAD.values(), ids=BAD)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(
    run_turn: Any, prompts: Path, data: bytes, reason: str
) -> None:
    (prompts / "bad.md").write_bytes(data)
    run = run_turn("/prompts:bad", [say("Never.")])
    assert run.requests == ()
    assert f"the prompt 'bad' cannot be used: {prompts}/bad.md: {reason}" in str(run.result.events)
    assert said(run_turn("/prompts:plain", [say("Fine.")])) == ["Say hello."]


def test_odd_entries_are_skipped_or_told(prompts: Path, tmp_path: Path, codex_home: Path) -> None:
    (prompts / "folder.md").mkdir()
    (prompts / "notes.txt").write_text("x")
    (prompts / ".md").write_text("x")
    (prompts / "UPPER.MD").write_text("x")
    (tmp_path / "elsewhere.md").write_text("linked")
    (prompts / "link.md").symlink_to(tmp_path / "elsewhere.md")
    (prompts / "loop.md").symlink_to(prompts / "loop.md")
    (prompts / "gone.md").symlink_to(tmp_path / "gone.md")
    (prompts / "empty.md").write_text("")
    os.mkfifo(prompts / "pipe.md")
    library = read_prompts(codex_home)
    assert [(prompt.name, prompt.content) for prompt in library.prompts if prompt.name not in ("plain", "review")] == [
        ("UPPER", "x"),
        ("empty", ""),
        ("link", "linked"),
    ]
    assert sorted(problem.split(": ", 1)[0].rsplit("/", 1)[1] for problem in library.problems) == [
        "gone.md",
        "loop.md",
        "pipe.md",
    ]


def test_a_folder_that_is_a_file_is_told(codex_home: Path) -> None:
    (codex_home / "prompts").write_text("x")
    assert read_prompts(codex_home).problems == [f"{codex_home}/prompts: the folder cannot be read: Not a directory"]


FRONTMATTER = {
    "none": ("text", None, None, "text"),
    "both": ("---\ndescription: d\nargument-hint: h\n---\ntext\n", "d", "h", "text\n"),
    "underscore and quotes": ("---\nDescription: \"a: b\"\nargument_hint: '[x]'\n---\n\ntext", "a: b", "[x]", "\ntext"),
    "comments and others": ("---\n# description: no\n\nmodel: x\nnonsense\n---\ntext", None, None, "text"),
    "not closed": ("---\ndescription: d\ntext", None, None, "---\ndescription: d\ntext"),
    "windows": ("---\r\ndescription: d\r\n---\r\ntext\r\n", "d", None, "text\r\n"),
    "only": ("---\ndescription: d\n---", "d", None, ""),
}


@pytest.mark.parametrize(("text", "description", "hint", "content"), FRONTMATTER.values(), ids=FRONTMATTER)
def test_the_frontmatter_is_read(
    prompts: Path, codex_home: Path, text: str, description: str | None, hint: str | None, content: str
) -> None:
    (prompts / "a.md").write_bytes(text.encode())
    prompt = read_prompts(codex_home).prompts[0]
    assert (prompt.description, prompt.argument_hint, prompt.content) == (description, hint, content)


def test_the_op_lists_the_prompts(make_kernel: Any, prompts: Path) -> None:
    (prompts / "bad.md").write_bytes(b"\xff")

    async def main() -> list[Any]:
        async with make_kernel([]) as kernel:
            thread = await kernel.start_thread()
            events = thread.events()
            submission = await thread.submit(ListCustomPrompts())
            found = []
            async for event in events:
                found.append(event.msg)
                if event.id == submission:
                    return found
            return found

    *before, answer = asyncio.run(main())
    assert to_wire(answer) == {
        "type": "list_custom_prompts_response",
        "custom_prompts": [
            {"name": "plain", "path": f"{prompts}/plain.md", "content": "Say hello."},
            {
                "name": "review",
                "path": f"{prompts}/review.md",
                "content": "Review $FILE.\n",
                "description": "Review a file",
                "argument_hint": "FILE=path",
            },
        ],
    }
    assert read_event(to_wire(answer), {answer.type: ListCustomPromptsResponseEvent}) == answer
    assert any("bad.md: it is not UTF-8" in getattr(event, "message", "") for event in before)


@pytest.fixture
def cli(codex_home: Path, workspace: Path) -> Callable[..., str]:
    def run(*words: str) -> str:
        environ = {"CODEX_HOME": str(codex_home)}
        config = load_config(cwd=workspace, environ=environ)
        result = CliRunner().invoke(prompts_command, words, obj=LoadContext("prompts", config, environ))
        if isinstance(result.exception, CodexError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return str(result.output)

    return run


def test_the_command_lists_prompts_and_problems(cli: Callable[..., str], prompts: Path) -> None:
    (prompts / "named.md").write_text("$A $B")
    (prompts / "bad.md").write_bytes(b"\xff")
    assert cli("list").splitlines() == [
        "/prompts:named A=... B=...",
        "/prompts:plain",
        "/prompts:review FILE=path",
        "   Review a file",
        f"Warning: {prompts}/bad.md: it is not UTF-8: the byte at position 0 does not fit",
    ]
    listed = json.loads(cli("list", "--json"))
    assert [prompt["name"] for prompt in listed["prompts"]] == ["named", "plain", "review"]
    assert len(listed["errors"]) == 1


def test_the_command_shows_what_a_prompt_stands_for(cli: Callable[..., str], prompts: Path) -> None:
    assert cli("show", "review", "FILE=my file") == "Review my file.\n"
    assert cli("show", "/prompts:plain") == "Say hello."
    for words, fact in (
        (("nothing",), "there is no prompt 'nothing'"),
        (("review",), "/prompts:review: these arguments are missing: FILE. Add FILE=..."),
    ):
        with pytest.raises(CodexError) as caught:
            cli("show", *words)
        assert (caught.value.fact, caught.value.slug) == (fact, "prompts")


def test_without_prompts_that_is_said(cli: Callable[..., str], codex_home: Path) -> None:
    assert cli("list") == f"There are no prompts in {codex_home}/prompts.\n"
