"""``codex-framework batch``: many sessions from a file, their results, retries, budgets, and how a run continues."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_client_batch.results import ResultsFile
from codex_client_batch.rows import BadRow, Row, RowReader
from codex_framework.contract.errors import CodexError
from codex_framework.testing import Reply, call, fault, say
from codex_lib_launch.encoding import thread_id_of
from tests.clients.conftest import COMMAND


def last_text(request: Any) -> str:
    """The text of the newest message of the user in a request."""
    messages = [item for item in request.json["input"] if item.get("type") == "message" and item["role"] == "user"]
    return messages[-1]["content"][-1]["text"]


def echo(request: Any) -> Reply:
    return say(f"echo {last_text(request)}")


SANDBOX = 'sandbox_mode = "workspace-write"\napproval_policy = "never"'


class Batch:
    """A batch file in the user's folder, and its runs."""

    def __init__(self, cli: Any) -> None:
        self.cli = cli
        self.results = cli.work / "b.results.jsonl"

    def write(self, *rows: Any) -> None:
        (self.cli.work / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(self, *argv: str, **options: Any) -> Any:
        return self.cli.run("batch", "b.jsonl", "--launcher", "in-process", *argv, **options)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.results.read_text().splitlines()]

    def newest(self) -> dict[str, dict[str, Any]]:
        return {line["key"]: line for line in self.lines()[1:]}


@pytest.fixture
def batch(cli: Any) -> Batch:
    return Batch(cli)


def test_each_row_is_a_session_with_a_result_and_a_second_run_starts_none(batch: Batch) -> None:
    server = batch.cli.serve(echo, repeat_last=True)
    batch.write("one", {"prompt": "two", "key": "b", "expected": 2}, "one")
    ran = batch.run("--max", "2")
    assert ran.status == 0, ran.err
    head, *results = batch.lines()
    assert head["type"] == "batch"
    assert sorted((line["row"], line["status"], line["message"]) for line in results) == [
        (1, "completed", "echo one"),
        (2, "completed", "echo two"),
        (3, "completed", "echo one"),
    ]
    assert batch.newest()["b"]["extra"] == {"expected": 2}
    assert len({line["thread_id"] for line in results}) == len(batch.cli.rollouts()) == 3
    assert all(line["usage"]["tokens"]["total_tokens"] == 120 for line in results)
    again = batch.run()
    assert (again.status, len(server.requests), len(batch.lines())) == (0, 3, 4), again.err


LOSING = """
from codex_framework import hookimpl
from codex_framework.contract.roles.launchers import Launcher, LaunchError
from codex_plugin_launchers.in_process import InProcessLauncher


class Losing(Launcher):
    name = "losing"

    async def open(self, workplace, *, max_sessions=None):
        self.opened = await InProcessLauncher().open(workplace)
        return self

    async def start(self, job):
        if job.prompt == "refused":
            raise LaunchError("the database is away")
        self.job = await self.opened.start(job)
        return self

    async def result(self):
        await self.job.result()
        raise LaunchError("the database is away, but the job goes on", hint="Run the batch again.")

    async def aclose(self):
        await self.opened.aclose()


@hookimpl
def codex_launchers():
    return [Losing()]
"""


def test_an_engine_that_is_lost_fails_no_row(batch: Batch) -> None:
    server = batch.cli.serve(echo, repeat_last=True)
    (batch.cli.work / "losing.py").write_text(LOSING)
    argv = ("--plugin", "losing.py", "batch", "b.jsonl", "--launcher", "losing", "--retries", "0", "--max", "1")
    batch.write("one")
    lost = batch.cli.run(*argv)
    assert (lost.status, len(batch.lines())) == (1, 1), lost.err
    assert "the database is away, but the job goes on\nRun the batch again." in lost.err
    batch.write("refused", "one")
    refused = batch.cli.run(*argv)
    assert (refused.status, [line["failure"]["retryable"] for line in batch.lines()[1:]]) == (1, [True])
    assert batch.run().status == 0
    assert [line["message"] for line in batch.newest().values()] == ["echo refused", "echo one"]
    assert len(server.requests) == 2  # the session that went on was not run again


@pytest.mark.slow
def test_another_results_file_is_another_batch(batch: Batch) -> None:
    server = batch.cli.serve(echo, repeat_last=True)
    batch.write("one")
    batch.run()
    assert batch.run("--output", "other.jsonl").status == 0
    assert len(server.requests) == 2


def test_rows_that_cannot_be_run_are_named_and_the_others_run(batch: Batch) -> None:
    batch.cli.serve(echo, repeat_last=True)
    text = b'"good"\n{"promt": "x"}\n\xff\n[1]\n\n{"prompt": "x", "cwd": ".."}\nnonsense\n'
    (batch.cli.work / "b.jsonl").write_bytes(b"\xef\xbb\xbf" + text)
    ran = batch.run()
    assert ran.status == 1
    assert "Traceback" not in ran.err
    facts = {line["row"]: line["failure"]["fact"] for line in batch.lines()[1:] if "failure" in line}
    assert facts == {
        2: "row 2: it has no `prompt`, but `promt`",
        3: "row 3: it is not UTF-8 at byte 1",
        4: "row 4: it is [1], not an object or a text",
        6: f"row 6: its `cwd` '..' is outside {batch.cli.work}; name a folder that contains both with --cd",
        7: "row 7: it is not JSON: Expecting value at character 1",
    }
    assert [line["message"] for line in batch.lines()[1:] if line["status"] == "completed"] == ["echo good"]
    checked = batch.run("--check")
    assert (checked.status, checked.out.splitlines()[-1]) == (1, "1 rows can be run, 5 cannot.")
    (batch.cli.work / "b.jsonl").write_bytes(b'"good"\n"mended"\n')
    assert batch.run().status == 0, batch.lines()


@pytest.mark.slow
def test_a_failure_that_can_pass_is_tried_again_in_the_same_session(batch: Batch) -> None:
    busy = fault(status=429, headers={"retry-after": "0"}, body={"error": {"message": "slow down"}})
    batch.cli.serve(busy, echo, stream_max_retries=0, repeat_last=True)
    batch.write("one")
    ran = batch.run("--retries", "1")
    assert ran.status == 0, batch.lines()
    assert len(batch.cli.rollouts()) == 1
    (result,) = batch.lines()[1:]
    assert (result["status"], result["attempts"]) == ("completed", 2)


def test_a_failure_that_cannot_pass_is_final_until_the_user_says_again(batch: Batch) -> None:
    refusal = fault(status=400, body={"error": {"message": "no such thing"}})
    server = batch.cli.serve(refusal, echo, repeat_last=True)
    batch.write("one")
    assert batch.run().status == 1
    assert batch.run().status == 1
    assert len(server.requests) == 1
    assert "no such thing" in batch.lines()[-1]["failure"]["fact"]
    assert batch.run("--again").status == 0, batch.lines()[-1]
    assert [line["round"] for line in batch.lines()[1:]] == [1, 2]
    assert len(batch.cli.rollouts()) == 2


def test_a_spent_budget_starts_no_more_sessions_and_a_larger_one_goes_on(batch: Batch) -> None:
    server = batch.cli.serve(echo, repeat_last=True)
    batch.write(*"abcde")
    ran = batch.run("--max", "1", "--budget-tokens", "240")
    assert (ran.status, len(server.requests)) == (1, 2), ran.err
    assert "The budget is spent." in ran.err
    assert batch.run("--max", "1", "--budget-tokens", "10000").status == 0
    assert len(server.requests) == 5


@pytest.mark.slow
def test_a_session_is_limited_to_what_is_left_of_the_budget(batch: Batch) -> None:
    batch.cli.serve(call("update_plan", plan=[]), repeat_last=True)
    batch.write("endless")
    ran = batch.run("--budget-tokens", "300")
    assert ran.status == 1
    assert batch.lines()[-1]["status"] == "limited"


def test_a_batch_that_was_killed_goes_on_and_no_call_runs_twice(batch: Batch) -> None:
    log = batch.cli.work / "log.txt"
    killed = threading.Event()

    def answer(request: Any) -> Reply:
        if request.json["input"][-1]["type"] == "function_call_output":
            if not killed.is_set():
                killed.set()
                os.kill(running.pid, signal.SIGKILL)
                return fault(hang_s=1)
            return say(f"done {last_text(request)[:3]}")
        if any(item.get("type") == "function_call_output" for item in request.json["input"]):
            return say("done before")
        return call("exec_command", cmd=f"echo {last_text(request)} >> {log}")

    batch.cli.serve(answer, repeat_last=True, more='sandbox_mode = "danger-full-access"\napproval_policy = "never"')
    batch.write("row1", "row2", "row3")
    running = batch.cli.start("batch", "b.jsonl", "--launcher", "in-process", "--max", "1")
    running.communicate(timeout=60)
    assert running.returncode == -signal.SIGKILL
    assert batch.lines()[1:] == []
    ran = batch.run("--max", "1")
    assert ran.status == 0, (ran.err, batch.lines())
    assert sorted(log.read_text().split()) == ["row1", "row2", "row3"]
    assert batch.newest()[batch.lines()[1]["key"]]["attempts"] == 2


@pytest.mark.slow
def test_an_interrupted_batch_ends_with_130_and_goes_on(batch: Batch) -> None:
    def answer(request: Any) -> Reply:
        if last_text(request) == "slow":
            os.kill(running.pid, signal.SIGINT)
            return say("late") + Reply(delay_s=20)
        return echo(request)

    server = batch.cli.serve(answer, repeat_last=True)
    batch.write("first", "slow", "last")
    running = batch.cli.start("batch", "b.jsonl", "--launcher", "in-process", "--max", "1")
    _, err = running.communicate(timeout=60)
    assert (running.returncode, b"Traceback" in err) == (130, False), err
    assert len(batch.lines()) == 2
    assert "1 completed" in (batch.cli.work / "b.html").read_text()
    assert [*(batch.cli.work / "b.sessions").iterdir()] == []  # to write them takes seconds
    server.stop()
    batch.cli.serve(echo, repeat_last=True)
    assert batch.run().status == 0
    assert {line["row"]: line["status"] for line in batch.newest().values()} == dict.fromkeys((1, 2, 3), "completed")


@pytest.mark.slow
def test_the_report_escapes_what_models_say_and_links_the_pages_of_sessions(batch: Batch) -> None:
    batch.cli.serve(say("<script>alert(1)</script>"), repeat_last=True)
    batch.write({"prompt": "one", "key": "<b>"}, {"promt": "<i>"})
    ran = batch.run(fork=False)
    page = (batch.cli.work / "b.html").read_text()
    assert "<script>" not in page
    assert "&lt;b&gt;" in page
    assert "1 completed, 1 failed" in page
    (thread_id,) = (line["thread_id"] for line in batch.lines()[1:] if "thread_id" in line)
    assert f'href="b.sessions/{thread_id}.html"' in page, ran.err
    assert (batch.cli.work / "b.sessions" / f"{thread_id}.html").exists()


def test_what_the_user_can_get_wrong_is_told_with_what_to_do(batch: Batch) -> None:
    batch.cli.serve(echo, repeat_last=True)
    batch.write("one")
    (batch.cli.work / "notes.txt").write_text("important\n")
    cases = {
        ("nothing.jsonl",): "Error: cannot read nothing.jsonl: No such file or directory",
        (".",): "Error: cannot read .: Is a directory",
        ("b.jsonl", "--launcher", "in-proces"): "Error: no plugin offers a launcher 'in-proces'",
        ("b.jsonl", "--cd", "nowhere"): f"Error: {batch.cli.work}/nowhere is not a folder",
        (
            "b.jsonl",
            "--output",
            "notes.txt",
        ): f"Error: {batch.cli.work}/notes.txt exists and is not the results file of a batch",
        (
            "b.jsonl",
            "--output",
            "no/r.jsonl",
        ): f"Error: the results file {batch.cli.work}/no/r.jsonl cannot be opened: No such file",
        (
            "b.jsonl",
            "--report",
            "/proc/b.html",
        ): "Error: the report /proc/b.html cannot be written: tools cannot access",
        ("b.jsonl", "--report", "."): f"Error: the report {batch.cli.work} cannot be written: Is a directory",
    }
    for argv, error in cases.items():
        ran = batch.cli.run("batch", *argv)
        assert (ran.status, ran.err.startswith(error), len(ran.err.splitlines())) == (1, True, 3), (argv, ran.err)
    assert (batch.cli.work / "notes.txt").read_text() == "important\n"


def test_a_key_with_another_prompt_is_told_and_keeps_its_result(batch: Batch) -> None:
    batch.cli.serve(echo, repeat_last=True)
    batch.write({"prompt": "one", "key": "a"}, {"prompt": "two", "key": "b"})
    assert batch.run().status == 0
    batch.write({"prompt": "other", "key": "a"}, {"prompt": "two", "key": "b"})
    assert batch.run().status == 1
    newest = batch.newest()
    assert newest["a"]["message"] == "echo one"
    assert newest["(row 1)"]["failure"]["fact"].startswith("row 1: its key 'a' has the result of another prompt")
    batch.write({"prompt": "one", "key": "a"}, {"prompt": "two", "key": "b"})
    assert batch.run().status == 0
    assert "<h2>Failures" not in (batch.cli.work / "b.html").read_text()


@pytest.mark.slow
def test_a_folder_that_a_session_has_made_a_link_is_not_used(batch: Batch) -> None:
    second = batch.cli.work / "second"
    second.mkdir()

    def answer(request: Any) -> Reply:
        if last_text(request) == "one":
            second.rmdir()
            second.symlink_to("/tmp")
        return echo(request)

    server = batch.cli.serve(answer, repeat_last=True)
    batch.write("one", {"prompt": "two", "cwd": "second", "key": "b"})
    assert batch.run("--max", "1").status == 1
    assert len(server.requests) == 1
    assert "has become a link" in batch.newest()["b"]["failure"]["fact"]


def test_a_full_disk_is_told_although_the_report_cannot_be_written_either(batch: Batch) -> None:
    batch.cli.serve(echo, repeat_last=True)
    batch.write(*[f"row {number} {'<' * 100}" for number in range(20)])  # each < is &lt; in the report
    limited = ["bash", "-c", 'ulimit -f 4; exec "$0" "$@"', str(COMMAND)]
    argv = ["batch", "b.jsonl", "--launcher", "in-process", "--max", "1"]
    ran = subprocess.run(
        [*limited, *argv],
        cwd=batch.cli.work,
        env=batch.cli.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    assert f"Error: the results file {batch.results} cannot be written: File too large" in ran.stderr
    assert f"warning: the report {batch.cli.work}/b.html cannot be written: File too large" in ran.stderr
    assert all(line["status"] == "completed" for line in batch.lines()[1:])
    assert batch.run().status == 0
    assert len(batch.newest()) == 20


def test_two_runs_cannot_write_the_same_results(tmp_path: Path) -> None:
    first = ResultsFile(tmp_path / "r.jsonl", "b.jsonl")
    with pytest.raises(CodexError, match="another program writes to"):
        ResultsFile(tmp_path / "r.jsonl", "b.jsonl")
    first.close()
    ResultsFile(tmp_path / "r.jsonl", "b.jsonl").close()


@pytest.mark.parametrize("cut", [1, 20, -1])
def test_a_results_file_that_was_cut_off_loses_its_last_line_only(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "r.jsonl"
    file = ResultsFile(path, "b.jsonl")
    batch_id = file.batch.id
    file.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type":"result","row":1,"key":"a"}'[:cut])
    file = ResultsFile(path, "b.jsonl")
    assert (file.batch.id, file.results, path.read_bytes()) == (batch_id, {}, whole)
    file.close()
    path.write_bytes(whole[:cut])
    if cut != 1:
        file = ResultsFile(path, "b.jsonl")
        assert file.batch.id != batch_id
        file.close()


def rows_of(tmp_path: Path, *lines: Any) -> Sequence[Row | BadRow]:
    path = tmp_path / "b.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with path.open("rb") as stream:
        return list(RowReader("agent", tmp_path).rows(stream))


def test_a_row_keeps_its_key_when_others_move(tmp_path: Path) -> None:
    keys = {row.key for row in rows_of(tmp_path, "a", "b")}
    assert {row.key for row in rows_of(tmp_path, "new", "b", "a")} > keys
    first, second = rows_of(tmp_path, "a", {"prompt": "a", "agent": "other"})
    assert first.key != second.key


@pytest.mark.parametrize(
    ("row", "fact"),
    [
        ({"prompt": "x", "key": ""}, "its `key` does not have 1 to 120 printable characters"),
        ({"prompt": "x", "key": "a\nb"}, "its `key` does not have 1 to 120 printable characters"),
        ({"prompt": "x", "key": True}, "its `key` is true, not a text or an integer"),
        ({"prompt": 5}, "its `prompt` is 5, not a text"),
        ({"prompt": "x" * 1_048_577}, "its `prompt` has 1,048,577 characters, more than 1,048,576"),
        ({"prompt": "x" * 17_000_000}, "it is longer than 16,777,216 bytes"),
        ({"prompt": "x", "limits": {"token": 5}}, "its `limits` have no `token`, only requests, "),
        ({"prompt": "x", "limits": {"tokens": "many"}}, "its `limits` are wrong: "),
        ({"prompt": "x", "cwd": "/etc"}, "its `cwd` '/etc' is outside "),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, row: Any, fact: str) -> None:
    (bad,) = rows_of(tmp_path, row)
    assert isinstance(bad, BadRow)
    assert bad.fact.startswith(fact)


def test_a_link_out_of_the_folder_is_outside(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to("/etc")
    (bad,) = rows_of(folder, {"prompt": "x", "cwd": "link"})
    assert isinstance(bad, BadRow)


@pytest.mark.slow
def test_a_session_that_a_budget_has_limited_goes_on_with_a_larger_one(batch: Batch) -> None:
    batch.cli.serve(call("exec_command", cmd="echo hi"), echo, repeat_last=True)
    batch.write("a")
    batch.run("--budget-tokens", "100")
    assert batch.lines()[-1]["status"] == "limited"
    assert batch.run("--budget-tokens", "100000").status == 0, batch.lines()[-1]
    assert len(batch.cli.rollouts()) == 1


@pytest.mark.slow
def test_a_new_session_of_a_row_never_has_the_key_of_another_row(batch: Batch) -> None:
    refusal = fault(status=400, body={"error": {"message": "no such thing"}})
    batch.cli.serve(refusal, echo, repeat_last=True)
    batch.write({"prompt": "one", "key": "a"}, {"prompt": "two", "key": "a~2"})
    batch.run("--max", "1")
    assert batch.run("--again").status == 0, batch.lines()


@pytest.mark.slow
def test_rows_that_a_session_adds_to_the_file_do_not_run(batch: Batch) -> None:
    server = batch.cli.serve(call("exec_command", cmd="echo '\"more\"' >> b.jsonl; echo x"), echo, repeat_last=True)
    batch.write("one")
    assert batch.run("--max", "1", "-c", "sandbox_mode=danger-full-access", "-c", "approval_policy=never").status == 0
    assert "more" in (batch.cli.work / "b.jsonl").read_text()
    assert len(server.requests) == 2


ATTACKS = """
for file in b.jsonl b.results.jsonl b.html b.sessions/x.html; do
    (echo forged >> $file); (: > $file); rm -f $file; mv $file moved; ln -f $file linked; (echo forged >> linked)
    echo forged > copy; mv -f copy $file; ln -sf "$PWD/other" $file; chmod 777 $file; touch -d 2001-01-01 $file
done
mv b.sessions moved; rm -rf b.sessions; mv "$PWD" "$PWD.moved"; echo done > work
"""


@pytest.mark.parametrize("launcher", ["in-process", pytest.param("pool", marks=pytest.mark.slow)])
def test_a_session_in_the_folder_of_the_batch_cannot_write_its_files(batch: Batch, launcher: str) -> None:
    patches = [
        call("apply_patch", input=f"*** Begin Patch\n*** Add File: {name}\n+forged\n*** End Patch")
        for name in ("b.html", "b.sessions/x.html")
    ]
    server = batch.cli.serve(call("exec_command", cmd=ATTACKS), *patches, say("done"), more=SANDBOX, repeat_last=True)
    batch.write("one")
    ran = batch.cli.run("batch", "b.jsonl", "--launcher", launcher)
    assert ran.status == 0, ran.err
    assert (batch.cli.work / "work").read_text() == "done\n", server.requests[1].json["input"][-1]
    assert [line.get("message") for line in batch.lines()] == [None, "done"]
    files = {".git", "b.jsonl", "b.results.jsonl", "b.html", "b.sessions", "copy", "linked", "work"}  # and not "moved"
    assert {path.name for path in batch.cli.work.iterdir()} == files
    assert (batch.cli.work / "b.jsonl").read_text() == '"one"\n'
    assert "1 completed" in (batch.cli.work / "b.html").read_text()
    assert [page.stem for page in (batch.cli.work / "b.sessions").iterdir()] == [batch.lines()[1]["thread_id"]]


def test_rows_from_a_pipe_leave_nothing_in_the_folder_of_the_sessions(batch: Batch) -> None:
    server = batch.cli.serve(call("exec_command", cmd="ls"), say("done"), more=SANDBOX, repeat_last=True)
    ran = batch.cli.run("batch", "-", "--output", "r.jsonl", "--launcher", "in-process", stdin=b'"one"\n')
    assert ran.status == 0, ran.err
    output = server.requests[1].json["input"][-1]["output"]
    assert output.rpartition("Output:\n")[2].split() == ["r.html", "r.jsonl", "r.sessions"]


@pytest.mark.slow
def test_a_pool_runs_without_stderr(batch: Batch) -> None:
    batch.cli.serve(echo, repeat_last=True)
    batch.write("one")
    program = Path(sys.executable).parent / "codex-framework"
    command = f"exec '{program}' batch b.jsonl --launcher pool 2>&-"
    subprocess.run(["sh", "-c", command], cwd=batch.cli.work, env=batch.cli.env, check=True, timeout=60)
    assert batch.lines()[-1]["status"] == "completed"


@pytest.mark.parametrize("forged", [{"status": '"><b>'}, {"thread_id": "--output=elsewhere"}, {"thread_id": "../../x"}])
def test_a_line_that_is_no_result_of_its_job_is_not_read(tmp_path: Path, forged: dict[str, str]) -> None:
    job = "b/a"
    line = {"type": "result", "row": 1, "key": "a", "job": job, "thread_id": thread_id_of(job), "status": "completed"}
    path = tmp_path / "r.jsonl"
    with contextlib.closing(ResultsFile(path, "b.jsonl")):
        pass
    with path.open("a") as stream:
        stream.write(json.dumps(line) + "\n" + json.dumps({**line, "key": "b", **forged}) + "\n")
    with contextlib.closing(ResultsFile(path, "b.jsonl")) as file:
        assert list(file.results) == ["a"]


def test_a_key_cannot_be_the_key_of_a_row_that_cannot_be_run(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, {"prompt": "x", "key": "(row 3)"})
    assert isinstance(row, BadRow)


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["--config", 'framework.plugins.disabled=["launchers"]'], "sessions could write the files of the batch"),
        (["--config", "framework.plugins.launchers.protected=5"], "`framework.plugins.launchers.protected` is not a"),
        (["--config", "framework.plugins.launchers.protected=[5]"], "sessions could write the files of the batch"),
    ],
)
def test_a_batch_whose_files_cannot_be_protected_does_not_run(batch: Batch, argv: list[str], error: str) -> None:
    server = batch.cli.serve(echo, repeat_last=True)
    batch.write("one")
    ran = batch.run(*argv)
    assert (ran.status, server.requests, "Traceback" in ran.err) == (1, [], False), ran.err
    assert f"Error: {error}" in ran.err
