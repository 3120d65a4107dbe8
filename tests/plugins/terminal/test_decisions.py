"""Questions and what their answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from codex_client_terminal.decisions import Decision, Question, question_of
from codex_client_terminal.items import command_text
from codex_client_terminal.keys import Key, Paste
from codex_client_terminal.text import plain_text, width_of
from codex_framework import Approval, Request, ReviewDecision, ToolApprovalRequestEvent
from codex_framework import Decision as Verdict
from codex_framework.contract.protocol.events import (
    AddFile,
    ApplyPatchApprovalRequestEvent,
    ExecApprovalRequestEvent,
    FileChange,
    RequestPermissionsEvent,
    UpdateFile,
)
from codex_plugin_mcp.questions import Elicitation, ElicitationRequest
from codex_plugin_request_user_input import Option, RequestUserInputEvent
from codex_plugin_request_user_input import Question as Asked

IDS: dict[str, Any] = {"call_id": "c", "turn_id": "t"}
COMMAND = ExecApprovalRequestEvent(
    command=("bash", "-lc", "git push\nevil"),
    cwd="/w",
    started_at_ms=0,
    proposed_execpolicy_amendment=("git", "push"),
    **IDS,
)
HOST = ExecApprovalRequestEvent(
    command=("network-access", "https://a.example"),
    cwd="/w",
    started_at_ms=0,
    network_approval_context={"host": "a.example", "protocol": "https"},
    proposed_network_policy_amendments=(
        {"action": "allow", "host": "a.example"},
        {"action": "deny", "host": "a.example"},
    ),
    **IDS,
)
PATCH = ApplyPatchApprovalRequestEvent(started_at_ms=0, changes={"/w/a": AddFile("line\n")}, **IDS)
PERMISSIONS = RequestPermissionsEvent(started_at_ms=0, cwd="/w", permissions={"network": {"enabled": True}}, **IDS)
TOOL = ToolApprovalRequestEvent(tool="t", approval=Approval(question="Delete it?", key="k", always=True), **IDS)


def _press(request: Request[Any], *keys: str) -> object:
    """Return the answer that keys give."""
    question = question_of(request)
    assert question is not None
    answers: list[object] = []
    decision = Decision(question, lambda answer, _: answers.append(answer))
    for key in keys:
        if key.startswith("text:"):
            decision.press(Paste(key[5:]))
        else:
            decision.press(Key(key))
        for width in (40, 80, 400):
            lines, (row, column) = decision.lines(width)
            assert all(width_of(plain_text(line)) <= width for line in lines)
            assert 0 <= row < len(lines)
            assert 0 <= column <= width
    [answer] = answers
    return answer


@pytest.mark.parametrize(
    ("request_", "keys", "verdict"),
    [
        (COMMAND, ["y"], Verdict.APPROVED),
        (COMMAND, ["enter"], Verdict.APPROVED),
        (COMMAND, ["a"], Verdict.APPROVED_FOR_SESSION),
        (COMMAND, ["d"], Verdict.DENIED),
        (COMMAND, ["n"], Verdict.ABORT),
        (COMMAND, ["esc"], Verdict.ABORT),
        (COMMAND, ["c-c"], Verdict.ABORT),
        (COMMAND, ["up", "enter"], Verdict.ABORT),
        (COMMAND, ["down", "enter"], Verdict.APPROVED_FOR_SESSION),
        (PATCH, ["y"], Verdict.APPROVED),
        (PATCH, ["a"], Verdict.APPROVED_FOR_SESSION),
        (PATCH, ["d"], Verdict.DENIED),
        (TOOL, ["y"], Verdict.APPROVED),
        (TOOL, ["a"], Verdict.APPROVED_FOR_SESSION),
        (TOOL, ["w"], Verdict.APPROVED_ALWAYS),
        (TOOL, ["esc"], Verdict.ABORT),
        (HOST, ["y"], Verdict.APPROVED),
        (HOST, ["n"], Verdict.ABORT),
    ],
)
def test_the_answers_to_approvals(request_: Request[Any], keys: list[str], verdict: Verdict) -> None:
    answer = _press(request_, *keys)
    assert answer == ReviewDecision(verdict)


@pytest.mark.parametrize(
    ("argv", "text", "question"),
    [
        (("/bin/bash", "-lc", "ls 'a b'"), "ls 'a b'", "ls 'a b'"),
        (("zsh", "-c", "git push\nevil"), "git push\nevil", "git push\\nevil"),
        (("ls", "a b"), "ls 'a b'", "ls 'a b'"),
        (("/tmp/bash", "-lc", "ls"), "/tmp/bash -lc ls", "/tmp/bash -lc ls"),
        (("./bash", "-c", "ls"), "./bash -c ls", "./bash -c ls"),
        (("python3", "-c", "ls"), "python3 -c ls", "python3 -c ls"),
        (("bash", "-c", "ls", "evil"), "bash -c ls evil", "bash -c ls evil"),
        (("bash", "-c", "-x"), "bash -c -x", "bash -c -x"),
        (("bash", "-ic", "ls"), "bash -ic ls", "bash -ic ls"),
        (("/bin/bash\n", "-c", "ls"), "'/bin/bash\n' -c ls", "'/bin/bash\\n' -c ls"),
        (("sh", "-c", "ls\r\x1b[2K\x08\tx"), "ls\\r\\x1b[2K\\x08\tx", "ls\\r\\x1b[2K\\x08\\tx"),
    ],
)
def test_only_the_wrapper_of_a_known_shell_is_left_out(argv: tuple[str, ...], text: str, question: str) -> None:
    assert command_text(argv) == text
    request = COMMAND.evolve(command=argv)
    asked = question_of(request)
    assert asked is not None
    assert plain_text(asked.lines[0]) == f"Allow Codex to run `{question}` in `/w`?"
    assert [row[1][0] for row in asked.details[1:]] == text.split("\n")
    first, *more = text.split("\n")
    assert asked.options[0].outcome == f"✔ You approved {first}{' …' if more else ''}"
    assert request.command == argv


def test_a_prefix_is_allowed() -> None:
    assert _press(COMMAND, "p") == ReviewDecision(Verdict.APPROVED, execpolicy_amendment=("git", "push"))


@pytest.mark.parametrize(
    ("label", "verdict", "action"), [("Allow the", Verdict.APPROVED, "allow"), ("Deny the", Verdict.DENIED, "deny")]
)
def test_a_host_is_decided_for_all_sessions(label: str, verdict: Verdict, action: str) -> None:
    question = question_of(HOST)
    assert question is not None
    [number] = [str(place) for place, each in enumerate(question.options, 1) if each.label.startswith(label)]
    assert _press(HOST, number) == ReviewDecision(verdict, network_amendment={"action": action, "host": "a.example"})


def test_the_question_about_a_host_names_it() -> None:
    question = question_of(HOST)
    assert question is not None
    assert not question.details
    assert question.options[0].outcome == "✔ You approved connections to a.example"
    assert plain_text(question.lines[1]) == "Requested: `network-access https://a.example`"


@pytest.mark.parametrize("request_", [COMMAND, HOST, PATCH, PERMISSIONS, TOOL])
def test_every_approval_can_be_denied_with_a_reason(request_: Request[Any]) -> None:
    answer = _press(request_, "r", "text:use make", "enter")
    assert isinstance(answer, ReviewDecision)
    assert answer.decision is Verdict.DENIED
    assert "use make" in (answer.message or "")


def test_writing_a_reason_chooses_nothing_and_can_be_left() -> None:
    assert _press(COMMAND, "r", "y", "esc", "d") == ReviewDecision(Verdict.DENIED)


def test_permissions_are_granted_for_the_turn_or_the_session() -> None:
    once, always = _press(PERMISSIONS, "y"), _press(PERMISSIONS, "a")
    assert isinstance(once, ReviewDecision)
    assert isinstance(always, ReviewDecision)
    assert (once.decision, always.decision) == (Verdict.APPROVED, Verdict.APPROVED_FOR_SESSION)
    assert once.granted == always.granted
    assert once.granted
    assert not getattr(_press(PERMISSIONS, "d"), "granted", None)


def test_the_whole_command_and_what_is_granted_are_shown() -> None:
    question = question_of(COMMAND)
    assert question is not None
    details = [plain_text(line) for line in question.details]
    assert details[1:] == ["$ git push", "  evil"]
    assert "begins with `git push`" in " ".join(plain_text(line) for line in question.lines)


@pytest.mark.parametrize("drawn", [False, True])
def test_a_question_takes_no_key_before_it_was_seen(drawn: bool) -> None:
    question = question_of(COMMAND)
    assert question is not None
    answers: list[object] = []
    decision = Decision(question, lambda answer, _: answers.append(answer), guard_s=60)
    if drawn:
        decision.lines(80)
    assert not any(decision.press(Key(key)) for key in ("y", "enter", "1", "esc"))
    assert answers == []


def test_a_key_that_is_no_number_chooses_nothing() -> None:
    assert _press(COMMAND, "²", "d") == ReviewDecision(Verdict.DENIED)


def _patch_rows(*changes: FileChange) -> list[str]:
    request = PATCH.evolve(changes={f"/w/{place}.js": change for place, change in enumerate(changes)})
    question = question_of(request)
    assert question is not None
    return [plain_text(line) for line in question.details]


def test_no_row_of_a_patch_is_taken_for_a_header() -> None:
    update = UpdateFile("--- a\n+++ b\n@@ -1,2 +1,1 @@\n--- comment\n+++a; evil()\n", None)
    shown = "\n".join(_patch_rows(AddFile("++ a; evil()\n"), update))
    assert "+++ a; evil()" in shown
    assert "+++a; evil()" in shown
    assert "--- comment" in shown
    assert "(+1 -1)" in shown
    assert "+++ b" not in shown


def test_a_long_patch_is_shown_whole() -> None:
    assert _patch_rows(AddFile("line\n" * 900 + "evil\n"))[-1].endswith("+evil")


@pytest.mark.parametrize("width", [40, 80])
def test_no_reason_of_the_model_pushes_the_question_off_the_screen(width: int) -> None:
    question = question_of(
        COMMAND.evolve(
            command=("bash", "-lc", "x " * 900), reason="Allow Codex to run `ls`? " * 200, without_sandbox=True
        )
    )
    assert question is not None
    decision = Decision(question, lambda *_: None)
    shown = [plain_text(line) for line in decision.lines(width)[0]]
    assert len(shown) <= 22
    assert shown[0].startswith("Allow Codex to run `x x")
    assert "WITHOUT the sandbox" in " ".join(shown)
    printed = "".join(plain_text(line) for line in question.printed(width))
    assert printed.count("Allow Codex to run `ls`?") + printed.count("\\`ls\\`") >= 150
    assert question_of(COMMAND).printed(400) == list(question_of(COMMAND).details)  # type: ignore[union-attr]


QUESTIONS = RequestUserInputEvent(
    questions=(
        Asked(
            id="q1", header="One", question="Which?", options=(Option("left", "the left"), Option("right", "the right"))
        ),
        Asked(id="q2", header="Two", question="Why?", isSecret=True),
    ),
    **IDS,
)


@pytest.mark.parametrize(
    ("keys", "first", "second"),
    [
        (["2", "enter", "text:because", "enter"], ("right",), ("because",)),
        (["3", "text:neither", "enter", "esc"], ("neither",), ()),
        (["esc", "esc"], (), ()),
    ],
)
def test_questions_of_the_model(keys: list[str], first: tuple[str, ...], second: tuple[str, ...]) -> None:
    answer: Any = _press(QUESTIONS, *keys)
    assert answer.answers["q1"].answers == first
    assert answer.answers["q2"].answers == second


def test_a_secret_is_not_shown() -> None:
    question = question_of(QUESTIONS)
    assert question is not None
    decision = Decision(question, lambda *_: None)
    for key in (Key("1"), Key("enter"), Paste("hunter2")):
        decision.press(key)
    assert "hunter2" not in "".join(plain_text(line) for line in decision.lines(80)[0])


FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "age": {"type": "integer"},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "sure": {"type": "boolean", "default": True},
    },
    "required": ["name", "age"],
}


def _elicitation(**fields: Any) -> ElicitationRequest:
    return ElicitationRequest(server_name="s", id="1", request=Elicitation(**{"message": "Please.", **fields}))


def test_a_form_is_asked_field_by_field() -> None:
    keys = ["enter", "text:Ada", "enter", "enter", "text:36", "enter", "2", "enter"]
    answer: Any = _press(_elicitation(mode="form", requested_schema=FORM), *keys)
    assert (answer.decision, answer.content) == ("accept", {"name": "Ada", "age": 36, "colour": "blue", "sure": True})


def test_no_message_of_a_server_hides_what_a_field_is_for() -> None:
    question = question_of(_elicitation(mode="form", message="text\n" * 99, requested_schema=FORM))
    assert question is not None
    assert "Your name" in "".join(plain_text(line) for line in question.shown(40))


@pytest.mark.parametrize(("key", "decision"), [("d", "decline"), ("n", "cancel"), ("esc", "cancel")])
def test_a_form_can_be_refused_at_any_field(key: str, decision: str) -> None:
    request = _elicitation(mode="form", requested_schema=FORM)
    for keys in ([key], ["enter", "text:Ada", "enter", key]):
        answer: Any = _press(request, *keys)
        assert (answer.decision, answer.content) == (decision, None)


@pytest.mark.parametrize(("key", "decision"), [("y", "accept"), ("d", "decline"), ("n", "cancel")])
def test_a_page_to_open(key: str, decision: str) -> None:
    answer: Any = _press(_elicitation(mode="url", url="https://a.example/x", host="a.example"), key)
    assert answer.decision == decision


def test_no_message_of_a_server_hides_whose_page_it_is() -> None:
    host = f"{'accounts.example.' * 9}evil.example"
    question = question_of(_elicitation(mode="url", message="text\n" * 99, url=f"https://{host}/", host=host))
    assert question is not None
    shown = "".join(plain_text(line) for line in Decision(question, lambda *_: None).lines(40)[0][:3])
    assert shown.partition("https")[0].endswith("evil.example")


@pytest.mark.parametrize(
    "request_",
    [
        QUESTIONS.evolve(questions=()),
        _elicitation(mode="form", requested_schema={"properties": ["a"]}),
        _elicitation(mode="form", requested_schema={"properties": {"a": "b"}}),
    ],
)
def test_a_question_that_makes_no_sense_is_for_nobody(request_: Request[Any]) -> None:
    assert question_of(request_) is None


def test_other_requests_are_not_for_a_person() -> None:
    class Other(Request[Any]):
        type = "other"

    assert question_of(Other()) is None
    assert isinstance(question_of(QUESTIONS), Question)


def test_each_answer_is_offered_once() -> None:
    question = question_of(COMMAND)
    assert question is not None
    assert [(each.key, each.label) for each in question.options] == [
        ("y", "Allow"),
        ("a", "Allow for this session"),
        ("p", "Allow, and do not ask again for commands that start like this"),
        ("d", "Deny, and let the model continue"),
        ("r", "Deny, and tell the model what to do instead"),
        ("n", "Deny, and stop the turn"),
    ]
    said = [each.outcome for each in question.options]
    assert [text[0] for text in said] == ["✔", "✔", "✔", "✗", "✗", "✗"]
