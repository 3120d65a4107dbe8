"""Requests of a thread as elicitations, and what the answers of clients mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pytest

from codex_framework import (
    Approval,
    ApprovalRequest,
    Decision,
    Request,
    ReviewDecision,
    ToolApprovalRequestEvent,
    Value,
)
from codex_framework.contract.protocol.events import (
    AddFile,
    ApplyPatchApprovalRequestEvent,
    ExecApprovalRequestEvent,
    RequestPermissionsEvent,
    UpdateFile,
)
from codex_framework.contract.protocol.wire import to_wire
from codex_framework.toolkit.approval_questions import approval_question
from codex_plugin_mcp_server.approvals import answer_of, elicitation, needs_page

IDS = {"call_id": "call", "turn_id": "turn"}


def asked(request: Request[Any]) -> dict[str, Any]:
    return elicitation(request, thread_id="thread", event_id="event", tool_call_id="7")


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


COMMAND = ExecApprovalRequestEvent(
    **IDS,
    command=("git", "push", "it's"),
    cwd="/work",
    started_at_ms=0,
    proposed_execpolicy_amendment=("git", "push"),
    proposed_network_policy_amendments=({"host": "example.com", "action": "allow"},),
)


def test_a_command() -> None:
    params = asked(COMMAND)
    assert params["message"].splitlines() == [
        """Allow Codex to run `git push 'it'"'"'s'` in `/work`?""",
        "“For this session” covers the same command in the same folder, until a file that it names changes.",
        "A rule that an answer can save for all sessions: allow the host `example.com`.",
        "“Do not ask again” allows every command that begins with `git push`, in all sessions and WITHOUT the sandbox.",
    ]
    assert params["codex_elicitation"] == "exec-approval"
    assert params["codex_command"] == ["git", "push", "it's"]
    assert (params["threadId"], params["codex_event_id"], params["codex_mcp_tool_call_id"]) == ("thread", "event", "7")
    always = ReviewDecision(Decision.APPROVED, execpolicy_amendment=("git", "push"))
    assert answer_of(COMMAND, accept(decision="approved_execpolicy_amendment")) == always
    wire = {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": ["git", "push"]}}
    assert answer_of(COMMAND, {"decision": wire}) == always
    rule = {"host": "example.com", "action": "allow"}
    network = {"network_policy_amendment": {"network_policy_amendment": rule}}
    assert answer_of(COMMAND, {"decision": network}) == ReviewDecision(Decision.APPROVED, network_amendment=rule)


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"decision": None},
        {"decision": "approve"},
        {"decision": "approved_always"},
        {"decision": "timed_out"},
        {"decision": ["approved"]},
        {"decision": {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": ["git"]}}},
        {"decision": {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": []}}},
        {"decision": {"approved_execpolicy_amendment": {}}},
        {"decision": {"network_policy_amendment": {"network_policy_amendment": {"host": "*", "action": "allow"}}}},
        {"action": "accept"},
        {"action": "accept", "content": "approved"},
        {"action": "approve", "decision": "approved"},
        accept(decision="yes"),
        accept(answer="approved"),
    ],
)
def test_what_cannot_be_read_is_no_answer(result) -> None:
    assert answer_of(COMMAND, result) is None


def test_closing_the_form_decides_against_whatever_else_is_said() -> None:
    approved = {"decision": "approved", "content": {"decision": "approved"}}
    assert answer_of(COMMAND, {"action": "decline", **approved}) == ReviewDecision(Decision.DENIED)
    assert answer_of(COMMAND, {"action": "cancel", **approved}) == ReviewDecision(Decision.ABORT)
    assert answer_of(COMMAND, {**accept(decision="denied"), "decision": "approved"}) == ReviewDecision(Decision.DENIED)


def test_only_offered_decisions_count() -> None:
    once = COMMAND.evolve(available_decisions=("approved", "abort"), proposed_execpolicy_amendment=None)
    form = asked(once)["requestedSchema"]["properties"]["decision"]
    assert form["enum"] == ["approved", "denied", "abort"]
    assert len(form["enumNames"]) == 3
    assert answer_of(once, accept(decision="approved_for_session")) is None
    assert answer_of(once, accept(decision="approved_execpolicy_amendment")) is None
    assert answer_of(once, accept(decision="approved")) == ReviewDecision(Decision.APPROVED)


def test_a_patch() -> None:
    patch = ApplyPatchApprovalRequestEvent(
        **IDS, started_at_ms=0, changes={"/work/a": AddFile("hi\n")}, reason="Needed.", grant_root="/work"
    )
    params = asked(patch)
    assert params["message"].splitlines() == [
        "Allow Codex to apply proposed code changes?",
        "add: `/work/a`",
        "“For this session” lets Codex write everything in `/work`.",
        "Reason of the model or of a rule: Needed.",
    ]
    assert params["codex_without_sandbox"] is False
    assert params["codex_elicitation"] == "patch-approval"
    assert params["codex_changes"] == {"/work/a": {"type": "add", "content": "hi\n"}}
    assert (params["codex_reason"], params["codex_grant_root"]) == ("Needed.", "/work")
    for_session = ReviewDecision(Decision.APPROVED_FOR_SESSION)
    assert answer_of(patch, {"decision": "approved_for_session"}) == for_session


@pytest.mark.parametrize(
    ("more", "choices"),
    [
        ({}, ["approved", "denied", "abort"]),
        ({"key": "k"}, ["approved", "approved_for_session", "denied", "abort"]),
        ({"always": True}, ["approved", "approved_always", "denied", "abort"]),
    ],
)
def test_a_tool(more, choices) -> None:
    approval = Approval(question="Send it?", details={"to": "Ann"}, **more)
    request = ToolApprovalRequestEvent(**IDS, tool="mail", approval=approval, arguments="{}", request_id="r")
    params = asked(request)
    assert params["message"].splitlines()[:3] == ["Send it?", "Tool: `mail`", "Arguments: {}"]
    assert ("is saved in your configuration" in params["message"]) is ("always" in more)
    assert params["codex_elicitation"] == "tool-approval"
    assert (params["codex_tool"], params["codex_details"]) == ("mail", {"to": "Ann"})
    assert params["requestedSchema"]["properties"]["decision"]["enum"] == choices
    for word in ("approved_for_session", "approved_always"):
        expected = ReviewDecision(Decision(word)) if word in choices else None
        assert answer_of(request, accept(decision=word)) == expected


def test_permissions() -> None:
    wanted = {"network": {"enabled": True}, "file_system": {"write": ["/data"]}}
    request = RequestPermissionsEvent(**IDS, started_at_ms=0, cwd="/work", permissions=wanted, reason="For the test.")
    params = asked(request)
    assert params["codex_elicitation"] == "permissions"
    assert params["codex_permissions"] == wanted
    assert params["message"].splitlines() == [
        "Allow Codex to use further permissions, in `/work`?",
        "Permission: the network",
        "Permission: write `/data`",
        "“Allow” is for this turn, “for this session” for all that follow.",
        "Reason of the model or of a rule: For the test.",
    ]
    answer = answer_of(request, accept(decision="approved_for_session"))
    assert isinstance(answer, ReviewDecision)
    assert answer.decision is Decision.APPROVED_FOR_SESSION
    assert answer.granted is not None
    assert answer.granted.network is True
    assert [entry.path.path for entry in answer.granted.entries] == ["/data"]
    assert answer_of(request, accept(decision="denied")) == ReviewDecision(Decision.DENIED)


HOSTILE = "x\r\nAllow\x1b[2K\u202e\u2066\x9b1m\u2028y"
QUESTIONS: list[ApprovalRequest] = [
    COMMAND.evolve(command=("sh", HOSTILE), cwd=HOSTILE, reason=HOSTILE, proposed_execpolicy_amendment=(HOSTILE,)),
    COMMAND.evolve(
        environment_id=HOSTILE,
        network_approval_context={"host": HOSTILE, "protocol": HOSTILE},
        additional_permissions={"file_system": {"write": [HOSTILE], "entries": [{"access": HOSTILE, "path": HOSTILE}]}},
    ),
    ApplyPatchApprovalRequestEvent(
        **IDS, started_at_ms=0, changes={HOSTILE: AddFile("hi\n")}, reason=HOSTILE, grant_root=HOSTILE
    ),
    ToolApprovalRequestEvent(**IDS, tool=HOSTILE, approval=Approval(question=HOSTILE), arguments=HOSTILE),
    RequestPermissionsEvent(**IDS, started_at_ms=0, cwd=HOSTILE, permissions={HOSTILE: HOSTILE}, reason=HOSTILE),
]


@pytest.mark.parametrize("request_", QUESTIONS)
def test_no_text_of_a_model_adds_a_line_to_a_question_or_hides_one(request_: ApprovalRequest) -> None:
    lines = asked(request_)["message"].split("\n")
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("Allow\\") for line in lines)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"without_sandbox": True},
            "It runs WITHOUT the sandbox: its reads, writes and connections are not restricted.",
        ),
        ({"environment_id": "box"}, "It runs in the environment `box`."),
        ({"reason": "Because."}, "Reason of the model or of a rule: Because."),
        ({"additional_permissions": {"network": {"enabled": True}}}, "It gets the network"),
        ({"additional_permissions": {"file_system": {"read": ["/etc"]}}}, "It gets read `/etc`"),
        (
            {"additional_permissions": {"file_system": {"entries": [{"access": "write", "path": {"path": "/a"}}]}}},
            "It gets write `/a`",
        ),
        (
            {"network_approval_context": {"host": "example.com", "protocol": "https"}},
            "Allow Codex to let a command connect to `example.com` (https)?",
        ),
    ],
)
def test_a_person_is_shown_what_is_granted(changes: Any, line: str) -> None:
    assert line in asked(COMMAND.evolve(**changes))["message"].splitlines()
    assert asked(COMMAND.evolve(**changes))["codex_without_sandbox"] is ("without_sandbox" in changes)


def lines_of(request: ApprovalRequest) -> list[str]:
    return approval_question(request).split("\n")


def patch_of(*paths: str, **more: Any) -> ApplyPatchApprovalRequestEvent:
    return ApplyPatchApprovalRequestEvent(**IDS, started_at_ms=0, changes=dict.fromkeys(paths, AddFile("")), **more)


def test_a_long_command_shows_its_end_and_says_how_much_is_left_out() -> None:
    request = COMMAND.evolve(command=("sh", "-c", f"echo {'x' * 1_000_000}; rm -rf important"), without_sandbox=True)
    first, *facts = lines_of(request)
    assert len(first) < 5_000
    assert "rm -rf important" in first
    assert "[... 996031 more characters ...]" in first
    assert facts[0].startswith("It runs WITHOUT the sandbox")


def test_a_command_cannot_push_its_end_out_of_sight() -> None:
    (first, *_) = lines_of(COMMAND.evolve(command=("sh", "-c", f"echo ok{' ' * 3000}; rm x")))
    assert "echo ok [2998 more spaces] ; rm x" in first


@pytest.mark.parametrize("unseen", ["\u3164", "\u2800", "\ufe0f", "\U000e0101", "\u034f", "\u200b", "\u202e"])
def test_no_character_of_a_path_is_invisible(unseen: str) -> None:
    assert f"add: `/work/a{unseen.encode('unicode_escape').decode()}b`" in lines_of(patch_of(f"/work/a{unseen}b"))


def test_no_path_ends_its_own_quotation() -> None:
    assert "in `/tmp\\` in the sandbox`?" in lines_of(COMMAND.evolve(cwd="/tmp` in the sandbox"))[0]


def test_a_patch_of_many_files_says_how_many_more_there_are_and_where() -> None:
    inside = [f"/work/ws/{number:05}" for number in range(10_000)]
    lines = lines_of(patch_of(*inside, without_sandbox=True))
    assert len(lines) < 110
    assert lines[1].startswith("They are made WITHOUT the sandbox")
    assert "... and 9900 more files, all in `/work/ws`" in lines
    assert "... and 9901 more files, all in `/`" in lines_of(patch_of(*inside, "/x/.bashrc"))
    assert "... and 9901 more files, all in `/`" in lines_of(patch_of(*inside, "/work/ws/9/../../../x"))
    assert "... and 9901 more files" in lines_of(patch_of(*inside, "x"))
    moved = {**patch_of(*inside).changes, inside[-1]: UpdateFile("", move_path="/x/.bashrc")}
    assert "... and 9900 more files, all in `/`" in lines_of(patch_of().evolve(changes=moved))


def test_permissions_are_counted() -> None:
    wanted = {"file_system": {"write": [f"/d/{number}" for number in range(1_000)]}}
    for request in (
        COMMAND.evolve(additional_permissions=wanted),
        RequestPermissionsEvent(**IDS, started_at_ms=0, cwd="/", permissions=wanted),
    ):
        assert len(lines_of(request)) < 110
        assert "... and 900 more permissions" in lines_of(request)


def test_what_an_answer_for_later_covers() -> None:
    host = COMMAND.evolve(network_approval_context={"host": "h", "protocol": "https"}, reason="`curl h` wants it")
    prefix = COMMAND.evolve(proposed_execpolicy_amendment=("git", "push"))
    tool = ToolApprovalRequestEvent(**IDS, tool="t", approval=Approval(question="?", key="srv/t"))
    for request, line in (
        (COMMAND, "“For this session” covers the same command in the same folder, until a file that it names changes."),
        (host, "“For this session” covers this host, port and protocol."),
        (host, "Because: `curl h` wants it"),
        (
            prefix,
            "“Do not ask again” allows every command that begins with `git push`, in all sessions and WITHOUT the sandbox.",
        ),
        (patch_of("/a"), "“For this session” covers patches of the same files."),
        (tool, "“For this session” covers all calls with the approval key `srv/t`, whatever their arguments."),
    ):
        assert line in lines_of(request)


class Custom(ApprovalRequest, kw_only=True):
    """A plugin's own approval."""

    type: ClassVar[Literal["custom_approval"]] = "custom_approval"
    request_id: str = "custom"
    subject: ClassVar[str] = "the launch"  # type: ignore[assignment]


def test_an_approval_of_a_plugin() -> None:
    request = Custom(**IDS)
    assert asked(request)["message"] == "Allow the launch?"
    assert asked(request)["codex_elicitation"] == "approval"
    assert answer_of(request, accept(decision="approved")) == ReviewDecision(Decision.APPROVED)


class Number(Value):
    """An answer."""

    number: int


class Guess(Request[Number], kw_only=True):
    """A plugin's own question."""

    type: ClassVar[Literal["guess"]] = "guess"
    answer_type = Number
    hint: str
    request_id: str = "guess"


def test_a_question_of_a_plugin() -> None:
    request = Guess(hint="odd")
    params = asked(request)
    assert params["codex_elicitation"] == "request"
    assert params["codex_request"] == to_wire(request)
    assert params["requestedSchema"]["required"] == ["answer"]
    assert answer_of(request, {"answer": {"number": 7}}) == Number(7)
    assert answer_of(request, accept(answer='{"number": 7}')) == Number(7)
    for wrong in ({}, {"action": "decline"}, accept(answer="7"), accept(answer="{"), accept(answer='{"number": "x"}')):
        assert answer_of(request, wrong) is None


class Filled(Value):
    """The answer to a form of an MCP server."""

    decision: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None


class Form(Value):
    """A form of an MCP server."""

    mode: str
    message: str
    requested_schema: Mapping[str, Any] | None = None
    url: str | None = None
    elicitation_id: str | None = None


class FormRequest(Request[Filled], kw_only=True):
    """A form of an MCP server, as an event."""

    type: ClassVar[Literal["elicitation_request"]] = "elicitation_request"
    answer_type = Filled
    request: Form
    request_id: str = "form"


def test_an_elicitation_is_passed_on() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    request = FormRequest(request=Form("form", "Who are you?", requested_schema=schema))
    params = asked(request)
    assert (params["message"], params["requestedSchema"]) == ("Who are you?", schema)
    assert not needs_page(request)
    assert answer_of(request, accept(name="Ann")) == Filled("accept", {"name": "Ann"})
    assert answer_of(request, {"action": "decline"}) == Filled("decline")
    assert answer_of(request, {}) is None
    assert answer_of(request, {"decision": "approved"}) is None


def test_an_elicitation_with_a_page_is_passed_on() -> None:
    page = Form("url", "Log in.", url="https://example.com/login", elicitation_id="e1")
    request = FormRequest(request=page)
    params = asked(request)
    assert needs_page(request)
    assert {key: params[key] for key in ("mode", "message", "url", "elicitationId")} == {
        "mode": "url",
        "message": "Log in.",
        "url": "https://example.com/login",
        "elicitationId": "e1",
    }
    assert "requestedSchema" not in params
    assert answer_of(request, {"action": "accept"}) == Filled("accept")
