# ruff: noqa: ISC004
"""Ordinary work that must go on inside the sandbox, as any user, with namespaces and without."""

from __future__ import annotations

import os
import shutil

import pytest

pytestmark = pytest.mark.slow

JOBS = {
    "shell pipes": ("echo one two | tr ' ' '\\n' | sort -r | head -1", "two\n"),
    "heredoc": ("cat <<EOF\nfrom a heredoc\nEOF", "from a heredoc\n"),
    "here string": ("cat <<<word", "word\n"),
    "process substitution": ("diff <(echo a) <(echo a) && echo same", "same\n"),
    "background jobs": ("(sleep 0.1; echo late) & echo early; wait", "early\nlate\n"),
    "redirection to a device": ("echo lost >/dev/null; echo kept >/dev/stdout; echo err >/dev/stderr", "kept\nerr\n"),
    "files": (
        "mkdir -p d/e && echo x > d/e/f && mv d/e/f d/g && ln d/g d/h && ln -s g d/i && cat d/i && rm -r d",
        "x\n",
    ),
    "modes and times": (
        "touch m && chmod 750 m && touch -d 2001-01-01 m && stat -c '%a %Y' m && rm m",
        "750 978307200\n",
    ),
    "folder in a set-group folder": ("mkdir shared/s && stat -c %a shared/s && rmdir shared/s", "2755\n"),
    "tar": (
        "mkdir t && echo 1 > t/a && tar czf t.tgz t && rm -r t && tar xzf t.tgz && cat t/a && rm -r t t.tgz",
        "1\n",
    ),
    "find and xargs": ("mkdir f && touch f/1 f/2 && find f -type f | sort | xargs echo && rm -r f", "f/1 f/2\n"),
    "temporary files": ("f=$(mktemp -p .) && echo t > $f && cat $f && rm $f", "t\n"),
    "sed in place": ("echo a > z && sed -i s/a/b/ z && cat z && rm z", "b\n"),
    "fifo": ("mkfifo p && (echo through > p &) && cat p && rm p", "through\n"),
    "git": (
        "git init -q repo && cd repo && git config user.email a@b && git config user.name n && echo 1 > f && git add f"
        " && git commit -qm one && echo 2 > f && git diff --stat | tail -1 && git log --oneline | wc -l && cd .. && rm -rf repo",
        " 1 file changed, 1 insertion(+), 1 deletion(-)\n1\n",
    ),
    "process list": ("ps -o pid= -p $$ | tr -d ' ' | grep -c .", "1\n"),
    "limits": ("ulimit -c; ulimit -n 100 && ulimit -n", "0\n100\n"),
    "timeout": ("timeout 0.1 sleep 5; echo $?", "124\n"),
    "signals": ("trap 'echo got' USR1; kill -USR1 $$; echo on", "got\non\n"),
    "nice": ("nice -n 5 nice", "5\n"),
    "python threads": (
        "python3 -c 'from concurrent.futures import *; print(sum(ThreadPoolExecutor(4).map(abs, range(10))))'",
        "45\n",
    ),
    "python processes": (
        "cat > pool.py <<EOF\n"
        "from multiprocessing import Pool, Queue, Lock, shared_memory\n"
        "if __name__ == '__main__':\n"
        "    with Pool(2) as pool: print(sum(pool.map(abs, range(10))))\n"
        "    s = shared_memory.SharedMemory(create=True, size=10); s.close(); s.unlink()\n"
        "EOF\npython3 pool.py; rm pool.py",
        "45\n",
    ),
    "python subprocesses": (
        "cat > sub.py <<EOF\n"
        "import asyncio\n"
        "async def main():\n"
        "    p = await asyncio.create_subprocess_exec('echo', 'sub', stdout=-1)\n"
        "    print((await p.communicate())[0])\n"
        "    print(await asyncio.to_thread(lambda: 7))\n"
        "asyncio.run(main())\n"
        "EOF\npython3 sub.py; rm sub.py",
        "b'sub\\n'\n7\n",
    ),
    "python socket pairs": (
        "python3 -c 'import socket; a, b = socket.socketpair(); a.send(b\"x\"); a.shutdown(1); print(b.recv(9), b.getsockopt(1, 3))'",
        "b'x' 1\n",
    ),
    "python terminals": (
        'python3 -c \'import pty; pty.spawn(["echo", "in a terminal"])\'',
        "in a terminal\r\n",
    ),
    "gcc": (
        "printf '#include <stdio.h>\\nint main(){puts(\"built\");}' > c.c && TMPDIR=$PWD gcc c.c -o c && ./c && rm c c.c",
        "built\n",
    ),
    "make": (
        "printf 'a: b\\n\\tcp b a\\nb:\\n\\techo made > b\\n' > Makefile && make -sj2 && cat a && rm a b Makefile",
        "made\n",
    ),
    "node": (
        'node -e \'const c=require("child_process"); console.log(c.execSync("echo nested")+"");'
        ' c.spawn("echo",["async"],{stdio:"inherit"})\'',
        "nested\n\nasync\n",
    ),
    "pip": ("python3 -m pip --version | cut -d' ' -f1", "pip\n"),
    "random and time": ("head -c 4 /dev/urandom | wc -c; date +%Y | wc -c", "4\n5\n"),
    "who am i": ("test $(id -u) = $UID && echo me", "me\n"),
    "exit status": ("exit 3", ""),
}

NEEDS = {"gcc": "gcc", "make": "make", "node": "node", "git": "git"}


@pytest.mark.parametrize("user", [pytest.param("root", marks=pytest.mark.thorough), "ordinary"])
@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_ordinary_jobs_work(harness, level, user):
    reason = harness.reason_to_skip(level, user)
    if reason:
        pytest.skip(reason)
    jobs = {name: job for name, job in JOBS.items() if name not in NEEDS or shutil.which(NEEDS[name])}
    uid = harness.ORDINARY_UID if user == "ordinary" and os.geteuid() == 0 else os.geteuid()
    place = harness.make_place(uid)
    (place.work / "shared").mkdir()
    os.chown(place.work / "shared", uid, -1)
    (place.work / "shared").chmod(0o2775)
    try:
        if level == "landlock":
            shutil.rmtree(place.work / ".git")  # beside it, new names are refused at this level
        commands = {name: ("/bin/bash", "-c", script) for name, (script, _) in jobs.items()}
        env = {"TMPDIR": str(place.work), "PATH": "/usr/local/bin:/usr/bin:/bin"}
        ended = harness.run_all(level, user, place.access(), place.work, commands, env=env)
    finally:
        shutil.rmtree(place.base)
    assert {name: one.output for name, one in ended.items()} == {name: output for name, (_, output) in jobs.items()}
    assert {name: one.exit_code for name, one in ended.items() if one.exit_code} == {"exit status": 3}
