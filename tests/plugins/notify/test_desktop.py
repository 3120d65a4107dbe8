"""The desktop: a command, whose texts are neither options nor scripts nor markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing import fail, say
from codex_plugin_notify.desktop import command_line

from .conftest import APPROVED

TABLE = "[framework.plugins.notify.desktop]\n"


@pytest.fixture
def desktop(recorder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A ``notify-send`` that writes down its arguments, in a PATH of its own."""
    from codex_plugin_notify import desktop as module

    monkeypatch.setattr(module.sys, "platform", "linux")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "notify-send").symlink_to(recorder.path)
    return {"PATH": f"relative:{folder}:/usr/bin:/bin"}


def test_a_turn_is_shown(run: Any, recorder: Any, desktop: dict[str, str]):
    ran = run(TABLE, [say("-x --urgency=critical <b>&\x1b[31m</b>\n$(id)")], env=desktop)
    (shown,) = recorder.runs(1)
    assert shown["argv"] == [
        "--app-name=codex-framework",
        "--",
        "Agent turn complete",
        "-x --urgency=critical &lt;b&gt;&amp; [31m&lt;/b&gt; $(id)",
    ]
    assert ran.said == []


def test_the_kinds_have_titles(run: Any, recorder: Any, desktop: dict[str, str]):
    run(TABLE, [*APPROVED, fail("no model")], turns=2, env=desktop)
    shown = [each["argv"][2:] for each in recorder.runs(3)]
    assert sorted(shown) == [
        ["Agent turn complete", "It is done."],
        ["Approval requested", "Allow the tool risky to run?"],
        ["Turn failed", "no model"],
    ]


def test_the_content_can_be_left_out(run: Any, recorder: Any, desktop: dict[str, str]):
    run(f"{TABLE}content = false\nkinds = ['approval-requested']\n", APPROVED, env=desktop)
    (shown,) = recorder.runs(1)
    assert shown["argv"][2:] == ["Approval requested", ""]


def test_a_missing_command_is_told_once(run: Any, tmp_path: Path):
    ran = run(TABLE, [say("Done."), say("Done.")], turns=2, env={"PATH": str(tmp_path)})
    (line,) = ran.said
    assert "the desktop cannot be notified, because 'notify-send' was not found. Install it" in line
    assert [result.final_message for result in ran.results] == ["Done.", "Done."]


def test_without_its_table_nothing_is_shown(run: Any, recorder: Any, desktop: dict[str, str]):
    run(f'notify = ["{recorder.path}"]', env=desktop)
    assert len(recorder.runs(1)) == 1


def test_a_command_that_fails_is_told(run: Any, tmp_path: Path):
    (tmp_path / "notify-send").symlink_to("/bin/false")
    (line,) = run(TABLE, env={"PATH": str(tmp_path)}, until=bool).said
    assert "'notify-send' exited with status 1. It requires a desktop session." in line


def test_the_texts_are_arguments_of_the_script_on_macos():
    text = '"; do shell script "id" --'
    argv = command_line("osascript", "Turn failed", text)
    assert argv[-2:] == ["Turn failed", text]
    assert argv[:2] == ["osascript", "-e"]
    assert text not in argv[:-1]
