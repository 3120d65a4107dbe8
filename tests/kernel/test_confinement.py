"""Which sandbox is taken, and when a failure looks like a denial."""

from __future__ import annotations

import signal

import attrs
import pytest

from codex_framework.commands.confinement import choose, is_sandbox_denial
from codex_framework.contract.errors import SandboxError
from codex_framework.contract.permissions.file_access import FileAccess, NetworkMode
from codex_framework.contract.roles.commands import CommandResult
from codex_framework.contract.roles.sandboxes import SandboxReport


@attrs.frozen
class Box:
    name: str
    report: SandboxReport

    def probe(self):
        return self.report

    def confine(self, access, cwd):
        raise SandboxError("not asked for")

    async def aclose(self):
        pass


GOOD = Box("good", SandboxReport(available=True, level="strong"))
OTHER = Box("other", SandboxReport(available=True))
BROKEN = Box("broken", SandboxReport(available=False, reason="no kernel support", hint="use a newer kernel"))


def boxes(*given):
    return {box.name: box for box in given}


def test_the_first_sandbox_that_works_is_taken():
    assert choose(boxes(BROKEN, GOOD, OTHER), None, FileAccess()) is GOOD


def test_a_wanted_sandbox_is_taken_and_no_other():
    assert choose(boxes(GOOD, OTHER), "other", FileAccess()) is OTHER
    with pytest.raises(SandboxError) as caught:
        choose(boxes(GOOD, BROKEN), "broken", FileAccess())
    assert str(caught.value) == "the sandbox 'broken' does not work here: no kernel support"
    assert caught.value.hint == "use a newer kernel"


def test_an_unknown_sandbox_is_named_beside_the_known():
    with pytest.raises(SandboxError, match=r"no sandbox named 'x' \(loaded: broken, good\)"):
        choose(boxes(GOOD, BROKEN), "x", FileAccess())


def test_without_a_working_sandbox_the_reasons_and_cures_are_told():
    with pytest.raises(SandboxError) as caught:
        choose(boxes(BROKEN), None, FileAccess(network=NetworkMode.ON))
    assert (
        str(caught.value)
        == "commands must be confined (read-only), but no sandbox works here (broken: no kernel support)"
    )
    assert caught.value.hint == "use a newer kernel"


def test_without_any_sandbox_plugin_that_is_said():
    with pytest.raises(SandboxError, match=r"\(no network\), but no sandbox plugin is loaded") as caught:
        choose({}, None, FileAccess(full=True))
    assert "codex-framework plugins" in caught.value.hint


def result(exit_code: int, text: str = "", *, stderr: str = "") -> CommandResult:
    return CommandResult(
        exit_code=exit_code,
        stdout=text,
        stderr=stderr,
        output=text + stderr,
        total_bytes=len(text + stderr),
        omitted_bytes=0,
        duration_s=0.0,
    )


@pytest.mark.parametrize(
    "text",
    [
        "touch: x: Operation not permitted",
        "bash: x: Permission denied",
        "cp: x: Read-only file system",
        "killed by seccomp",
        "the Sandbox said no",
        "landlock: refused",
        "Failed to write file x",
    ],
)
def test_words_of_denial_are_recognised_on_either_stream(text):
    assert is_sandbox_denial(result(1, text), confined=True)
    assert is_sandbox_denial(result(127, stderr=text), confined=True)


@pytest.mark.parametrize("exit_code", [1, 2, 126, 127, 128 + signal.SIGTERM])
def test_other_failures_are_no_denials(exit_code):
    assert not is_sandbox_denial(result(exit_code, "assertion failed"), confined=True)


def test_success_and_unconfined_commands_are_never_denied():
    assert not is_sandbox_denial(result(0, "permission denied"), confined=True)
    assert not is_sandbox_denial(result(1, "permission denied"), confined=False)


def test_death_by_the_filter_is_a_denial():
    assert is_sandbox_denial(result(128 + signal.SIGSYS), confined=True)
