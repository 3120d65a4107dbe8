"""``review`` and ``exec review``: the options, the output and the errors."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from codex_framework.testing.replies import fault, say

OUTPUT = json.dumps(
    {
        "findings": [
            {
                "title": "[P2] Check it",
                "body": "It may be empty.",
                "confidence_score": 0.5,
                "priority": 2,
                "code_location": {"absolute_file_path": "/a.py", "line_range": {"start": 1, "end": 2}},
            }
        ],
        "overall_correctness": "patch is incorrect",
        "overall_explanation": "One problem.",
        "overall_confidence_score": 0.5,
    }
)
TEXT = "One problem.\n\nReview comment:\n\n- [P2] Check it — /a.py:1-2\n  It may be empty."


@pytest.fixture
def repo(cli: Any) -> Any:
    for argv in (
        ("init", "-q", "-b", "main"),
        ("-c", "user.name=u", "-c", "user.email=u@e", "commit", "-q", "--allow-empty", "-m", "x"),
    ):
        subprocess.run(["git", *argv], cwd=cli.work, check=True, capture_output=True)
    return cli


def asked(server: Any) -> str:
    (body,) = [request.json for request in server.requests if request.method == "POST"]
    return str(body["input"][-1]["content"][0]["text"])


def test_json_has_the_lines_of_codex_and_the_findings(repo: Any) -> None:
    repo.serve(say(OUTPUT))
    ran = repo.json("review", "--uncommitted")
    assert ran.status == 0, ran.err
    assert [kind for kind in ran.types if kind != "plugin.event"] == [
        "thread.started",
        "turn.started",
        "item.completed",
        "turn.completed",
    ]
    assert ran.items("agent_message") == [{"type": "agent_message", "text": TEXT}]
    (exited,) = [event["event"] for event in ran.events if event.get("event", {}).get("type") == "exited_review_mode"]
    assert exited["review_output"] == json.loads(OUTPUT)


def test_review_alone_prints_the_findings(repo: Any) -> None:
    server = repo.serve(say(OUTPUT))
    ran = repo.run("review", "--base", "main", "-o", str(repo.home / "last.txt"))
    assert (ran.status, ran.out) == (0, f"{TEXT}\n"), ran.err
    assert "user\nchanges against 'main'\n" in ran.err
    assert "git diff " in asked(server)
    assert (repo.home / "last.txt").read_text() == TEXT


def test_instructions_come_from_an_argument_or_from_stdin(repo: Any) -> None:
    server = repo.serve(say("Fine."))
    assert repo.run("review", "-", stdin=b"Look at the parser.\n").out == "Fine.\n"
    assert asked(server) == "Look at the parser."
    server = repo.serve(say("Fine."))
    assert repo.run("-c", 'model="other"', "review", "Look at the lexer.").status == 0
    assert asked(server) == "Look at the lexer."
    assert server.requests[-1].json["model"] == "other"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "status", "fact"),
    [
        ((), 1, "Specify --uncommitted, --base, --commit, or provide custom review instructions"),
        (("",), 1, "Review prompt cannot be empty"),
        (("--uncommitted", "--base", "x"), 2, "the argument '--uncommitted' cannot be used with '--base <BRANCH>'"),
        (("--commit", "x", "hello"), 2, "the argument '--commit <SHA>' cannot be used with '[PROMPT]'"),
        (("--title", "x"), 2, "--commit <SHA>"),
        (("--base", "nope"), 1, "the repository has no branch 'nope'"),
        (("--base", "-x"), 1, "is not a valid `branch`"),
        (("a", "b"), 2, "unexpected argument 'b' found"),
        (("--bsae", "x"), 2, "a similar argument exists: '--base'"),
        (("-i", "/etc/passwd", "x"), 2, "the argument '--image' cannot be used with 'review'"),
    ],
)
def test_wrong_command_lines_are_told(repo: Any, argv: tuple[str, ...], status: int, fact: str) -> None:
    server = repo.serve()
    ran = repo.exec("review", *argv)
    assert ran.status == status
    assert fact in ran.err
    assert ran.out == ""
    assert [request for request in server.requests if request.method == "POST"] == []


def test_a_failed_review_has_status_1(repo: Any) -> None:
    repo.serve(fault(status=400, body="no"))
    ran = repo.json("review", "--uncommitted")
    assert ran.status == 1
    assert ran.types[-1] == "turn.failed"
    assert "was interrupted" in ran.items("agent_message")[0]["text"]


@pytest.mark.slow
def test_outside_of_a_repository_it_is_an_error(cli: Any, tmp_path: Any) -> None:
    cli.serve()
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    ran = cli.run("review", "--uncommitted", cwd=folder)
    assert (ran.status, "--skip-git-repo-check" in ran.err) == (1, True)
    ran = cli.run("review", "--skip-git-repo-check", "--uncommitted", cwd=folder)
    assert (ran.status, "is not in a git repository" in ran.err) == (1, True)


@pytest.mark.slow
def test_help_names_the_options_of_the_command(cli: Any) -> None:
    for argv in (("review", "--help"), ("exec", "review", "--help")):
        text = cli.run(*argv).out
        assert all(option in text for option in ("--uncommitted", "--base", "--commit", "--title", "--json")), text
    assert "review" in cli.run("--help").out


def test_without_the_plugin_the_word_is_a_prompt(cli: Any) -> None:
    server = cli.serve(say("Fine."))
    assert cli.exec("-c", 'framework.plugins.disabled=["review"]', "review").status == 0
    assert asked(server).startswith("review")


@pytest.mark.slow
def test_a_prompt_of_one_word_stays_a_prompt(cli: Any) -> None:
    server = cli.serve(say("Hi."))
    assert cli.exec("hello").out == "Hi.\n"
    assert asked(server) == "hello"
