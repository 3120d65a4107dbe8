"""The program that runs scripts: what leaves it, what it bounds, and what it has given up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import codex_plugin_code_mode.engine.host
from codex_lib_confinement.standalone import standalone_argv
from codex_plugin_code_mode.engine.faults import compile_fault, script_fault

quickjs = pytest.importorskip("quickjs", reason="the extra `code` is not installed")

KINDS = [["add", "object"], ["write", "text"]]


class Program:
    """The program, and what it writes for a script."""

    def __init__(self) -> None:
        folder = str(Path(quickjs.__file__).parent.parent)
        argv = [*standalone_argv(codex_plugin_code_mode.engine.host.__file__), folder]
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(argv, env={}, **pipes)
        self.first = self.next()

    def next(self) -> list[Any]:
        assert self.process.stdout is not None
        message: list[Any] = json.loads(self.process.stdout.readline())
        return message

    def run(self, source: str) -> list[list[Any]]:
        """Return what a script makes the program write, up to the script's end."""
        assert self.process.stdin is not None
        message = {"source": source, "stored": {}, "tools": {"kinds": KINDS, "all": "[]"}}
        self.process.stdin.write((json.dumps(message) + "\n").encode())
        self.process.stdin.flush()
        found = []
        while (written := self.next())[0] != "ready":
            found.append(written)
        return found


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    program = Program()
    with program.process:
        yield program
        program.process.kill()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="system-call filters are Linux's")
def test_the_program_has_confined_itself_when_it_is_ready(program: Program) -> None:
    assert program.first == ["ready", True]
    for thread in Path(f"/proc/{program.process.pid}/task").iterdir():
        status = (thread / "status").read_text()
        assert "Seccomp:\t2\n" in status
        assert "NoNewPrivs:\t1\n" in status


FORBIDDEN = {
    "a file": "open('/etc/hostname')",
    "a folder": "os.listdir('/')",
    "a socket": "socket.socket()",
    "a process": "os.fork()",
    "a program": "os.execv('/bin/true', ['true'])",
    "a signal": "os.kill(os.getppid(), 0)",
    "machine code": "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)",
    "a limit of others": "resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))",
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="system-call filters are Linux's")
def test_what_is_locked_down_reaches_nothing_but_its_pipes() -> None:
    lines = [f"try_({name!r}, lambda: {act})" for name, act in FORBIDDEN.items()]
    source = """
import mmap, os, resource, socket, sys
sys.path[:0] = sys.argv[1:]
from codex_plugin_code_mode.engine.lockdown import lock_down
print(lock_down())
def try_(name, act):
    try:
        act()
        print(name)
    except OSError as error:
        pass
""" + "\n".join(lines)
    folders = [str(Path(codex_plugin_code_mode.engine.host.__file__).parents[2]), *filter(None, sys.path)]
    done = subprocess.run([sys.executable, "-c", source, *folders], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\n", "")


SCRIPTS: dict[str, list[list[Any]]] = {
    "text('\\ud800\\0'); const long = 'x'.repeat(9000) + 'y'.repeat(9000); text(long.length); text(long + long)": [
        ["text", "\ufffd\ufffd"],
        ["text", "18000"],
        ["text", ("x" * 9000 + "y" * 9000) * 2],
        ["done"],
    ],
    "try { store('k', 'x'.repeat(33 << 20)) } catch (e) { text(e) } text(typeof load('k'))": [
        ["text", 'Unable to store "k": a script can store and put out 32 MB besides text'],
        ["text", "undefined"],
        ["done"],
    ],
    "for (let n = 0; n < 6; n++) text('x'.repeat(1 << 20))": [
        *[["text", "x" * (1 << 20)]] * 4,
        *[["omitted", "text", 1 << 20]] * 2,
        ["done"],
    ],
    "try { exit() } catch {} text('a'); tools.add({}); throw 5": [["done"]],
    "text('x'.repeat(1e9))": [["failed", "InternalError: out of memory\n    at exec_main.mjs:1:10"]],
    "new ArrayBuffer(300 << 20)": [["failed", "InternalError: out of memory\n    at exec_main.mjs:1:23"]],
    "new ArrayBuffer(1e10)": [["failed", "RangeError: invalid array buffer length\n    at exec_main.mjs:1:1"]],
    "JSON.stringify = String = Promise = Reflect.apply = null; Promise.prototype; text(1)": [
        ["failed", "TypeError: cannot read property 'prototype' of null\n    at exec_main.mjs:1:59"]
    ],
    "Object.prototype.then = (f) => f('x'); Array.prototype[Symbol.iterator] = null; JSON.stringify = null; text({a: 1})": [
        ["text", '{"a":1}'],
        ["done"],
    ],
    "text(tools.add.constructor('return typeof __send + (this === globalThis)')())": [
        ["text", "undefinedtrue"],
        ["done"],
    ],
    "setTimeout(() => { throw new Error('late') }, 1); await new Promise(() => {})": [
        ["failed", "Error: late\n    at exec_main.mjs:1:26"]
    ],
    "let n = 0; const id = setTimeout(() => n++, 1); clearTimeout(id); await new Promise(r => setTimeout(r, 5)); text(n)": [
        ["text", "0"],
        ["done"],
    ],
    "throw Object.assign(new Error('x'), { stack: 'own' })": [["failed", "own"]],
    "throw 'x'.repeat(5 << 20)": [["failed", "x" * (4 << 20)]],
    "throw Symbol('x')": [["failed", ""]],
    "let = 5": [["failed", "SyntaxError: variable name expected\n    at exec_main.mjs:1:5"]],
}


@pytest.mark.parametrize("source", SCRIPTS)
def test_what_a_script_does_leaves_the_program_in_lines_of_the_program(program: Program, source: str) -> None:
    assert program.run(source) == SCRIPTS[source]


def test_a_script_makes_so_many_calls(program: Program) -> None:
    source = (
        "const all = []; for (let n = 0; n < 10001; n++) all.push(tools.write(''));\nall.at(-1).catch(text); await 1"
    )
    found = program.run(source)
    assert (sum(each[0] == "call" for each in found), found[-2:]) == (
        10_000,
        [["text", "a script can call tools 10000 times"], ["done"]],
    )


@pytest.mark.parametrize(
    ("text", "frames", "source", "shown"),
    [
        ("TypeError: not a function", "    at <eval> (<input>:1:2)\n", "()()", "TypeError: it is not a function\n    at exec_main.mjs:1:2"),  # noqa: E501
        ("Error: x", "    at f (<input>:2:9)\n    at g (native)\n    at <input>:1:1\n", "a\n    new B()", "Error: x\n    at f (exec_main.mjs:2:5)\n    at exec_main.mjs:1:1"),  # noqa: E501
        ("Error: x", "    at text (<input>:100040:3)\n    at <anonymous> (<input>:7:7)\n", "", "Error: x\n    at exec_main.mjs:7:7"),
        ("ReferenceError: could not load module 'fs'", "", "", "unsupported import in exec"),
    ],
)  # fmt: skip
def test_errors_name_places_of_the_script(text: str, frames: str, source: str, shown: str) -> None:
    assert script_fault(text, frames, source.split("\n")) == shown


def test_an_import_that_cannot_be_compiled_names_the_module() -> None:
    assert compile_fault("ReferenceError: could not load module 'a/b'\n") == "Unsupported import in exec: a/b"


@pytest.mark.slow
def test_a_script_that_computes_for_ever_is_ended() -> None:
    """The system ends a process that has used its processor time."""
    source = "from codex_plugin_code_mode.engine.lockdown import limit_cpu\nlimit_cpu(1)\nwhile True: pass"
    folders = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run([sys.executable, "-c", source], env={"PYTHONPATH": folders}, timeout=60)
    assert done.returncode < 0
