"""``ThreadContext.start_process``: environment, lossless output, time to clean up, named permissions, the end with the thread."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from codex_framework import ConfigError, ToolError
from codex_framework.testing import ThreadFactory


def python(text):
    return (sys.executable, "-c", text)


async def whole(process):
    out = {"stdout": b"", "stderr": b""}
    async for chunk in process.chunks():
        out[chunk.stream] += chunk.data
    return out["stdout"], out["stderr"]


@pytest.fixture
def play(make_kernel):
    """Run a story with a plugin's context of a thread."""

    def run(story, config=""):
        async def within():
            async with ThreadFactory(make_kernel)(config=config) as thread:
                return await story(thread.inside("some"))

        return asyncio.run(asyncio.wait_for(within(), 60))

    return run


def test_a_process_may_get_no_other_variables_than_those_given(play):

    async def story(inside):
        shown = python("import os; print(sorted(set(os.environ) - {'LC_CTYPE'}))")
        bare = await inside.start_process(shown, env={"A": "1"}, inherit_env=False)
        rich = await inside.start_process(shown, env={"A": "1"})
        return (await bare.wait()).stdout, (await rich.wait()).stdout

    bare, rich = play(story)
    assert bare == "['A']\n"
    assert "'A'" in rich
    assert "'CODEX_THREAD_ID'" in rich


def test_a_process_can_have_a_terminal_that_changes_its_size(play):
    async def story(inside):
        sizes = "import os\nfor _ in range(2): print(*os.get_terminal_size(0)); input()"
        process = await inside.start_process(python(sizes), lossless=True, tty=True, terminal_size=(30, 100))
        read = process.chunks()
        assert (await anext(read)).data.startswith(b"100 30")
        process.resize(40, 120)
        await process.write(b"\n\n")
        assert b"120 40" in b"".join([chunk.data async for chunk in read])
        with pytest.raises(ToolError, match="no terminal"):
            process.resize(1, 1)
        pipes = await inside.start_process(python("input()"))
        with pytest.raises(ToolError, match="no terminal"):
            pipes.resize(1, 1)

    play(story)


def test_lossless_output_waits_for_its_reader(play):
    lines = 400_000
    text = f"import sys\nfor n in range({lines}): print(n)\nprint('done', file=sys.stderr)"

    async def story(inside):
        process = await inside.start_process(python(text), lossless=True)
        await asyncio.sleep(0.4)
        assert process.exit_code is None  # it waits, because nobody reads 2.7 MB
        out, err = await whole(process)
        assert out == b"".join(b"%d\n" % n for n in range(lines))
        assert err == b"done\n"
        assert (await process.wait()).exit_code == 0

    play(story)


def test_the_output_of_before_the_reader_came_is_not_lost(play):
    async def story(inside):
        process = await inside.start_process(python("print('early')"), lossless=True)
        await process.wait()
        assert await whole(process) == (b"early\n", b"")

    play(story)


CLEANS_UP = """
import os, signal, time
def end(*_):
    time.sleep(0.3)
    os.write(1, b"cleaned\\n")
    os._exit(0)
signal.signal(signal.SIGTERM, end)
os.write(1, b"ready\\n")
time.sleep(60)
"""


@pytest.mark.parametrize(("grace_s", "cleaned"), [(5.0, True), (0.05, False)])
def test_a_process_may_clean_up_for_as_long_as_asked(play, grace_s, cleaned):
    async def story(inside):
        process = await inside.start_process(python(CLEANS_UP), lossless=True, grace_s=grace_s)
        reader = process.chunks()
        assert (await anext(reader)).data == b"ready\n"
        await process.kill()
        rest = [chunk.data async for chunk in reader]
        assert (rest == [b"cleaned\n"]) is cleaned

    play(story)


def test_the_end_does_not_wait_for_the_whole_grace_if_the_group_is_gone(play):
    child = "trap '' TERM; echo $$; exec sleep 60"

    async def story(inside):
        start = inside.start_process
        quick = await start(python("import time; time.sleep(60)"), grace_s=120.0)
        await quick.kill()  # 120 s would exceed the limit of `play`
        stubborn = await start(("sh", "-c", f"({child}) & read nothing"), lossless=True, grace_s=0.5)
        pid = int((await anext(stubborn.chunks())).data)
        began = time.monotonic()
        await stubborn.kill()
        assert time.monotonic() - began >= 0.4  # the group's other member had its time
        return pid

    pid = play(story)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0) or _unless_a_zombie(pid)


def _unless_a_zombie(pid):
    if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":  # nobody may reap orphans here
        raise ProcessLookupError


def test_it_ends_with_the_thread(play):
    async def story(inside):
        return await inside.start_process(python("import time; time.sleep(60)"), grace_s=2.0)

    process = play(story)
    assert process.exit_code == 128 + signal.SIGTERM


def test_permissions_may_be_those_of_a_named_profile(play, tmp_path):
    target = tmp_path / "target"
    config = f"""
        [permissions.narrow.filesystem]
        ":root" = "read"
        "{tmp_path}/open" = "write"
    """
    (tmp_path / "open").mkdir()
    text = f"open({str(tmp_path / 'open' / 'file')!r}, 'w').close(); open({str(target)!r}, 'w')"

    async def story(inside):
        confined = await inside.start_process(python(text), permissions="narrow")
        result = await confined.wait()
        assert result.exit_code == 1, result
        assert not target.exists()
        assert (tmp_path / "open" / "file").exists()
        free = await inside.start_process(python(text))
        assert (await free.wait()).exit_code == 0
        with pytest.raises(ConfigError, match="no permission profile 'wide'"):
            await inside.start_process(python("pass"), permissions="wide")

    play(story, config)
