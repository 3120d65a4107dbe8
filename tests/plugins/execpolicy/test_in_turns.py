"""The policy in real turns: what the model, the client and the person see."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Decision, Event, ReviewDecision
from codex_framework.contract.protocol.items import InputText, Message
from codex_framework.contract.protocol.ops import ExecApproval, TextInput, UserInputOp
from codex_framework.testing.replies import call, say
from codex_framework.testing.server import ResponsesServer
from tests.forked import RunProgram


def run(make_kernel: Any, script: str, *, config: list[str] | None = None, **fields: Any) -> Any:
    """One turn that runs one script with ``exec_command``."""

    async def turn() -> Any:
        replies = [call("exec_command", cmd=script, **fields), say("Done.")]
        async with make_kernel(replies, config=config or []) as kernel:
            return await kernel.run_turn("go")

    return asyncio.run(turn())


def write_rules(codex_home: Path, text: str) -> None:
    (codex_home / "rules").mkdir(parents=True, exist_ok=True)
    (codex_home / "rules" / "test.rules").write_text(text)


def test_a_forbidden_command_does_not_run_and_the_model_reads_why(make_kernel: Any) -> None:
    write_rules(make_kernel.codex_home, 'prefix_rule(["touch"], "forbidden", justification="nothing is touched here")')
    turn = run(make_kernel, "ls && touch a")
    assert "rejected: nothing is touched here" in turn.outputs[0]
    assert not (make_kernel.workspace / "a").exists()


def test_where_nobody_may_be_asked_a_prompt_is_a_refusal(make_kernel: Any) -> None:
    write_rules(make_kernel.codex_home, 'prefix_rule(["touch"], "prompt")')
    assert "approval required by policy, but AskForApproval is set to Never" in run(make_kernel, "touch a").outputs[0]


def test_a_forced_rm_in_the_workspace_runs_where_nobody_may_be_asked(make_kernel: Any) -> None:
    run(make_kernel, "mkdir d && rm -rf d && touch done")
    assert [path.name for path in make_kernel.workspace.iterdir()] == ["done"]


@pytest.mark.parametrize("policy", ["on-request", "on-failure"])
def test_a_forced_rm_runs_as_under_never_if_nobody_is_there_to_be_asked(make_kernel: Any, policy: str) -> None:
    turn = run(make_kernel, "mkdir d && rm -rf d && touch done", config=[f'approval_policy="{policy}"'])
    assert [path.name for path in make_kernel.workspace.iterdir()] == ["done"]
    assert "exited with code 0" in turn.outputs[0]


def test_what_a_rule_asks_for_is_refused_if_nobody_is_there_to_be_asked(make_kernel: Any) -> None:
    write_rules(make_kernel.codex_home, 'prefix_rule(["rm"], "prompt")')
    turn = run(make_kernel, "rm -rf d; touch done", config=['approval_policy="on-request"'])
    assert "this needs an approval, and no user can be asked for it" in turn.outputs[0]
    assert not list(make_kernel.workspace.iterdir())


def test_an_untrusted_rm_is_refused_if_nobody_is_there_to_be_asked(make_kernel: Any) -> None:
    turn = run(make_kernel, "rm -rf d; touch done", config=['approval_policy="untrusted"'])
    assert "this needs an approval, and no user can be asked for it" in turn.outputs[0]
    assert not list(make_kernel.workspace.iterdir())


READ_ONLY = 'sandbox_mode="read-only"'


@pytest.mark.skipif(sys.platform != "linux", reason="needs a sandbox")
def test_an_allowed_command_runs_outside_of_the_sandbox(make_kernel: Any) -> None:
    write_rules(make_kernel.codex_home, 'prefix_rule(["touch"])')
    run(make_kernel, "touch a", config=[READ_ONLY])
    run(make_kernel, "touch b && true", config=[READ_ONLY])
    assert [path.name for path in make_kernel.workspace.iterdir()] == ["a"]


def test_what_a_rule_allows_outside_needs_no_permission_to_go_there(make_kernel: Any) -> None:
    write_rules(make_kernel.codex_home, 'prefix_rule(["touch"])')
    wish = {"sandbox_permissions": "require_escalated", "justification": "I want to"}
    run(make_kernel, "touch a", config=[READ_ONLY], **wish)
    refused = run(make_kernel, "mkdir b", config=[READ_ONLY], **wish)
    assert [path.name for path in make_kernel.workspace.iterdir()] == ["a"]
    assert "approval policy is Never; reject command" in refused.outputs[0]


def test_a_wrong_file_is_a_warning_and_the_others_hold(make_kernel: Any) -> None:
    write_rules(make_kernel.codex_home, 'prefix_rule(["touch"], "forbidden")')
    (make_kernel.codex_home / "rules" / "bad.rules").write_text("prefix_rule([])")
    turn = run(make_kernel, "touch a")
    assert "rejected: policy forbids commands starting with `touch`" in turn.outputs[0]
    warnings = [event.message for event in turn.result.events if event.type == "warning"]
    assert any("bad.rules:1: pattern cannot be empty; what" in warning for warning in warnings)


@pytest.mark.parametrize(("script", "questions"), [("ls", 0), ("touch a", 1)])
def test_untrusted_asks_about_commands_that_do_more_than_look(make_kernel: Any, script: str, questions: int) -> None:
    async def turn() -> list[Event]:
        asked = []
        async with make_kernel(
            [call("exec_command", cmd=script), say("Done.")], config=['approval_policy="untrusted"']
        ) as kernel:
            thread = await kernel.start_thread()
            await thread.submit(UserInputOp((TextInput("go"),)))
            async for event in thread.events():
                if event.msg.type == "exec_approval_request":
                    asked.append(event)
                    await thread.submit(ExecApproval(event.msg.call_id, ReviewDecision(Decision.DENIED)))
                if event.msg.type == "task_complete":
                    return asked
        return asked

    assert len(asyncio.run(turn())) == questions
    assert list(make_kernel.workspace.iterdir()) == []


def asked(make_kernel: Any, replies: list[Any], answer: Any, *, config: list[str]) -> tuple[list[Any], list[Any]]:
    """The questions of one turn, each answered, and what the model was told by the kernel."""

    async def turn() -> tuple[list[Any], list[Any]]:
        questions = []
        async with make_kernel([*replies, say("Done.")], config=config) as kernel:
            thread = await kernel.start_thread()
            await thread.submit(UserInputOp((TextInput("go"),)))
            async for event in thread.events():
                if event.msg.type == "exec_approval_request":
                    questions.append(event.msg)
                    await thread.submit(ExecApproval(event.msg.approval_id or event.msg.call_id, answer(event.msg)))
                if event.msg.type == "task_complete":
                    break
            notes = [item for item in thread.history.items if isinstance(item, Message) and item.role == "developer"]
            return questions, [part.text for note in notes for part in note.content if isinstance(part, InputText)]

    return asyncio.run(turn())


def escalated(script: str, **fields: Any) -> Any:
    return call("exec_command", cmd=script, sandbox_permissions="require_escalated", justification="May I?", **fields)


def test_a_prefix_that_a_person_allows_for_good_needs_no_second_question(make_kernel: Any) -> None:
    def accept(question: Any) -> ReviewDecision:
        return ReviewDecision(Decision.APPROVED, execpolicy_amendment=question.proposed_execpolicy_amendment)

    replies = [
        escalated("touch a", prefix_rule=["touch"]),
        call("exec_command", cmd="touch b"),
        escalated("touch c"),
        escalated("mkdir d"),
    ]
    questions, told = asked(make_kernel, replies, accept, config=[READ_ONLY, 'approval_policy="on-request"'])
    assert [question.proposed_execpolicy_amendment for question in questions] == [("touch",), ("mkdir", "d")]
    assert sorted(path.name for path in make_kernel.workspace.iterdir()) == ["a", "b", "c", "d"]
    rules = (make_kernel.codex_home / "rules" / "default.rules").read_text()
    assert rules == (
        'prefix_rule(pattern=["touch"], decision="allow")\nprefix_rule(pattern=["mkdir", "d"], decision="allow")\n'
    )
    assert any(text.endswith('They run outside of the sandbox:\n- ["touch"]') for text in told)
    questions, _ = asked(
        make_kernel, [escalated("touch e")], accept, config=[READ_ONLY, 'approval_policy="on-request"']
    )
    assert questions == []


def test_a_prefix_that_cannot_be_kept_is_allowed_this_once(make_kernel: Any) -> None:
    (make_kernel.codex_home / "rules").write_text("in the way")

    def accept(question: Any) -> ReviewDecision:
        return ReviewDecision(Decision.APPROVED, execpolicy_amendment=question.proposed_execpolicy_amendment)

    replies = [escalated("touch a", prefix_rule=["touch"]), escalated("touch b")]
    questions, _ = asked(make_kernel, replies, accept, config=[READ_ONLY, 'approval_policy="on-request"'])
    assert len(questions) == 2
    assert sorted(path.name for path in make_kernel.workspace.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(("sandbox_approval", "rules"), [(True, False), (False, True)])
def test_granular_approval_tells_rules_from_judgement(make_kernel: Any, sandbox_approval: bool, rules: bool) -> None:
    write_rules(make_kernel.codex_home, 'prefix_rule(["touch"], "prompt")')
    policy = (
        f"approval_policy={{granular={{sandbox_approval={str(sandbox_approval).lower()},"
        f" rules={str(rules).lower()}, mcp_elicitations=false}}}}"
    )
    replies = [call("exec_command", cmd="touch a"), call("exec_command", cmd="rm -f b")]
    questions, _ = asked(make_kernel, replies, lambda _: ReviewDecision(Decision.DENIED), config=[policy])
    assert [question.command[-1] for question in questions] == ["touch a"] * rules + ["rm -f b"] * sandbox_approval


def test_exec_leaves_the_persons_rules_out_on_demand(tmp_path: Path, run_program: RunProgram) -> None:
    home = tmp_path / "home"
    write_rules(home, 'prefix_rule(["touch"], "forbidden")')
    with ResponsesServer([call("exec_command", cmd="touch a"), say("Done.")] * 2) as server:
        (home / "config.toml").write_text(
            f'model_provider = "x"\n[model_providers.x]\nname = "x"\nbase_url = "{server.url}"\n'
        )
        env = {**os.environ, "CODEX_HOME": str(home)}
        cases: list[tuple[list[str], list[str]]] = [([], []), (["--ignore-rules"], ["a"])]
        for flags, found in cases:
            work = tmp_path / f"work{len(flags)}"
            work.mkdir()
            done = run_program("exec", "--yolo", "--skip-git-repo-check", *flags, "go", cwd=work, env=env)
            assert done.returncode == 0, done.stderr
            assert [path.name for path in work.iterdir()] == found
