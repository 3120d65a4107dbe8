"""Placeholders that a killed sandbox has left go with the next session, whether it uses a sandbox or not."""

from __future__ import annotations

from codex_framework.testing.replies import call, say

WAIT = "for i in $(seq 400); do [ -e .agents ] || exit 0; sleep 0.05; done; exit 1"


def test_a_session_without_a_sandbox_removes_them(scene):
    left, folder = scene.workspace / ".agents", scene.workspace / ".aws"
    left.mkdir()
    left.chmod(0o1755)
    folder.mkdir()

    async def story(kernel):
        thread = await kernel.start_thread()
        await thread.run("Wait until it is gone.")

    scene.play(story, [call("exec_command", cmd=WAIT), say("It is gone.")])
    assert "Process exited with code 0" in scene.asked[1]["input"][-1]["output"]
    assert not left.exists()
    assert folder.exists(), "an ordinary empty folder"
