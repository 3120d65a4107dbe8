"""Programs that do not exist, hang, flood or are killed: one clear line, the turn unharmed, and nothing left running."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from codex_framework.contract.errors import PluginError
from codex_framework.testing import say
from codex_plugin_notify.component import NotifyComponent, Reports
from codex_plugin_notify.processes import Processes


def script(folder: Path, text: str) -> Path:
    path = folder / "notifier"
    path.write_text(text)
    path.chmod(0o755)
    return path


def one_line(ran: Any) -> str:
    (line,) = ran.said
    assert "\n" not in line
    assert all(result.final_message == "Done." for result in ran.results)
    return str(line)


@pytest.mark.parametrize(
    ("notify", "fact"),
    [
        ('["/no/such/program"]', "the program '/no/such/program' of `notify` was not found"),
        ('["no-such-program", "x"]', "the program 'no-such-program' of `notify` was not found"),
        ('["/etc/passwd"]', "was not found"),
        ('["/"]', "was not found"),
        ('["false"]', "the program 'false' of `notify` exited with status 1"),
        ('["sh", "-c", "exit 77"]', "exited with status 77"),
        ('["sh", "-c", "kill -SEGV $$"]', "was ended by SIGSEGV"),
        ('["sh", "-c", "kill -KILL $$"]', "was ended by SIGKILL"),
    ],
)
def test_a_program_that_fails_is_told_once(run: Any, notify: str, fact: str):
    line = one_line(run(f"notify = {notify}", [say("Done."), say("Done."), say("Done.")], turns=3, until=bool))
    assert fact in line
    assert line.startswith("notify: the program ")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("#!/no/such/interpreter\n", "its interpreter does not exist"),
        ("\x7fELF no program\n", "Exec format error"),
        ("echo no interpreter line\n", "Exec format error"),
    ],
)
def test_a_file_that_is_no_program(run: Any, tmp_path: Path, text: str, fact: str):
    line = one_line(run(f'notify = ["{script(tmp_path, text)}"]', until=bool))
    assert f"cannot be run: {fact}" in line


@pytest.mark.parametrize("name", ["notifier", "./notifier", "sub/../notifier"])
def test_a_program_is_never_taken_from_the_working_folder(
    run: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    script(workspace, "#!/bin/sh\ntouch was-run\n")
    monkeypatch.chdir(workspace)
    line = one_line(run(f'notify = ["{name}"]', env={"PATH": f".:{os.defpath}:"}))
    assert "was not found" in line
    assert ("absolute path" in line) == ("/" in name)
    time.sleep(0.1)
    assert not (workspace / "was-run").exists()


def test_nothing_is_run_for_an_empty_list(run: Any):
    for notify in ("[]", '[""]', '["", "x"]'):
        ran = run(f"notify = {notify}")
        assert (ran.said, ran.problems) == ([], [])


def test_a_program_that_floods_its_output_delays_nothing(run: Any, tmp_path: Path):
    done = tmp_path / "done"
    program = script(tmp_path, f"#!/bin/sh\nhead -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2\ntouch {done}\n")
    assert run(f'notify = ["{program}"]').said == []
    until = time.monotonic() + 20
    while not done.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert done.exists()


def processes_of(marker: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (
                marker.encode() in (folder / "cmdline").read_bytes()
                and "Z" not in (folder / "stat").read_text().split()[2]
            ):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def gone(marker: str) -> bool:
    until = time.monotonic() + 20
    while processes_of(marker) and time.monotonic() < until:
        time.sleep(0.05)
    return not processes_of(marker)


needs_proc = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="this system has no /proc")
HANGS = """#!/bin/sh
trap '' TERM INT HUP
[ "$1" = again ] || "$0" again &
while :; do sleep 1; done
"""
"""A program that cannot be ended by words, and neither can what it starts."""


@pytest.mark.thorough
@needs_proc
def test_a_program_that_hangs_is_killed_after_the_end_of_the_session(
    responses_server: Any, codex_home: Path, workspace: Path, tmp_path: Path
):
    program = script(tmp_path, HANGS)
    server = responses_server([say("Done.")])
    (codex_home / "config.toml").write_text(
        f'notify = ["{program}"]\nmodel = "gpt-5.5"\nmodel_provider = "here"\n'
        f'[model_providers.here]\nname = "here"\nbase_url = "{server.url}"\n'
        "[framework.plugins.notify.program]\ntimeout_s = 5.0\n"
        "[sandbox_workspace_write]\nexclude_slash_tmp = true\n"
    )
    argv = [sys.executable, "-P", "-m", "codex_framework", "exec", "--skip-git-repo-check", "hello"]
    env = {"CODEX_HOME": str(codex_home), "PATH": "/usr/bin:/bin", "HOME": str(codex_home)}
    done = subprocess.run(
        argv, env=env, cwd=workspace, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True
    )
    assert "notify" not in done.stderr
    assert processes_of(str(program)), "it has its time, although the session has ended"
    assert gone(str(program))
    assert gone("os.killpg(pid, number)")


@needs_proc
def test_a_program_that_hangs_is_killed_while_the_kernel_runs(run: Any, tmp_path: Path):
    program = script(tmp_path, HANGS)
    limit = "[framework.plugins.notify.program]\ntimeout_s = 0.1\n"

    line = one_line(run(f'notify = ["{program}"]\n{limit}', until=bool))
    assert "did not end within 0.1 s and was killed" in line
    assert gone(str(program))


@pytest.mark.thorough
@needs_proc
def test_the_guard_ends_with_what_it_guards(tmp_path: Path, run: Any):
    program = script(tmp_path, "#!/bin/sh\nsleep 1\n")
    run(f'notify = ["{program}"]')
    assert gone(str(program))
    assert gone("os.killpg(pid, number)")


@pytest.mark.thorough
def test_without_descriptors_of_processes_the_end_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    told: list[tuple[str, str]] = []
    program = script(tmp_path, HANGS)
    processes = Processes("it", os.environ, 60.0, lambda reason, text: told.append((reason, text)))
    processes.start(str(program), [str(program)], "thread")
    processes.close()
    assert gone(str(program))
    assert told == [("thread", "it did not end within 60 s and was killed")]


@pytest.mark.thorough
def test_too_many_runs_at_once_are_not_started(tmp_path: Path):
    told: list[str] = []
    program = script(tmp_path, "#!/bin/sh\nsleep 987\n")
    processes = Processes("it", os.environ, 0.5, lambda reason, text: told.append(text))
    for _ in range(18):
        processes.start(str(program), [str(program)], "")
    assert told == ["it was not run, because 16 earlier runs have not ended"] * 2
    assert gone(str(program))
    processes.close()


@pytest.mark.parametrize("how", ["program", "argument", "link", "through a link"])
def test_a_program_that_commands_can_write_is_not_run(
    run: Any, workspace: Path, tmp_path: Path, recorder: Any, how: str
):
    outside = tmp_path.parent / f"{tmp_path.name}-{how.replace(' ', '-')}"
    inner = workspace / "notifier"
    inner.write_text(f'#!/bin/sh\nexec {recorder.path} "$@"\n')
    inner.chmod(0o755)
    if how == "link":
        inner.unlink()
        inner.symlink_to(recorder.path)
    if how == "through a link":
        outside.symlink_to(inner)
    argv = {"program": [inner], "argument": ["/bin/sh", inner], "link": [inner], "through a link": [outside]}[how]
    words = ", ".join(f'"{word}"' for word in argv)
    # The folder of the recorder would be writable as a part of /tmp.
    modes = "[sandbox_workspace_write]\nexclude_slash_tmp = true\nexclude_tmpdir_env_var = true\n"
    line = one_line(run(f'sandbox_mode = "workspace-write"\nnotify = [{words}]\n{modes}'))
    assert f"was not run, because commands of the model can write {argv[-1]}. Move it out" in line


def test_a_program_out_of_their_reach_is_run(run: Any, recorder: Any):
    modes = "[sandbox_workspace_write]\nexclude_slash_tmp = true\nexclude_tmpdir_env_var = true\n"
    ran = run(f'sandbox_mode = "workspace-write"\nnotify = ["{recorder.path}"]\n{modes}')
    assert ran.said == []
    recorder.runs(1)


def test_failures_without_a_kernel_are_raised_at_the_end():
    reports = Reports(NotifyComponent())
    reports.tell("", "it failed")
    reports.tell("", "it failed")
    with pytest.raises(PluginError, match=r"^it failed$"):
        reports.finish()
    reports.finish()


def test_the_end_waits_until_a_warning_is_passed_on():
    """The event loop is busy for a moment when a notifier ends."""

    class BusyKernel:
        def __init__(self) -> None:
            self.warned: list[str] = []

        def warn(self, text: str) -> None:
            self.warned.append(text)

        def call_from_thread(self, function: Callable[[], Coroutine[Any, Any, None]]) -> Future[None]:
            done: Future[None] = Future()

            def later() -> None:
                time.sleep(0.2)
                done.set_result(asyncio.run(function()))

            threading.Thread(target=later).start()
            return done

    kernel: Any = BusyKernel()
    component = NotifyComponent()
    asyncio.run(component.start(kernel))
    reports = Reports(component)
    reports.tell("thread", "it failed.")
    reports.finish()
    assert kernel.warned == ["notify: it failed."]
