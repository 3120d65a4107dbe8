#!/usr/bin/env python3
"""Stands in for an engine's client where there is no engine: takes the words that are used, strictly, and does what they say locally.

State lies in ``$STAND_IN``: ``images``, ``containers`` and ``commands`` (a file for each), ``log`` (a line of JSON for each call)
and ``fault`` (``down`` or ``hangs``, if there is one). A container's first process is run for real, and so is each command;
nothing is confined. Paths in a mount whose source is elsewhere are translated in a command's words.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any, NoReturn

STATE = Path(os.environ["STAND_IN"])

RUN = {
    "--rm": None,
    "--interactive": None,
    "--init": None,
    "--pull": "never",
    "--name": r"[a-zA-Z0-9][a-zA-Z0-9_.-]+",
    "--label": r"[^=]+=.*",
    "--hostname": r"[a-z]+",
    "--log-driver": "none",
    "--sig-proxy=false": None,
    "--network": "none|host",
    "--ipc": "private",
    "--read-only": None,
    "--cap-drop": "ALL",
    "--security-opt": "no-new-privileges",
    "--user": r"\d+:\d+",
    "--userns": "keep-id",
    "--pids-limit": r"\d+",
    "--memory": r"\d+",
    "--memory-swap": r"\d+",
    "--ulimit": r"(core|fsize)=\d+",
    "--tmpfs": r"/[^:]*:((ro|rw|nosuid|nodev|noexec|exec|size=\d+k|mode=[0-7]{3,4})(,|$))+",
    "--mount": ".+",
    "--workdir": "/.*",
    "--entrypoint": ".+",
}
EXEC = {
    "--interactive": None,
    "--tty": None,
    "--workdir": "/.*",
    "--env-file": "/.+",
    "--env": r"(?s)[^=]+=.*",
}


def fail(status: int, text: str) -> NoReturn:
    print(text, file=sys.stderr)
    sys.exit(status)


def parsed(words: list[str], grammar: dict[str, str | None]) -> tuple[list[tuple[str, str]], list[str]]:
    """Options before the first word that is none."""
    found = []
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word not in grammar:
            fail(125, f"unknown flag: {word}")
        pattern = grammar[word]
        value = ""
        if pattern is not None:
            value = words.pop(0)
            if not re.fullmatch(pattern, value):
                fail(125, f"invalid argument {value!r} for {word!r}")
        found.append((word, value))
    return found, words


def mounts(options: list[tuple[str, str]]) -> dict[str, str]:
    """Target to source of the binds."""
    found = {}
    for word, value in options:
        if word != "--mount":
            continue
        (fields,) = csv.reader([value])
        pairs = dict(field.partition("=")[::2] for field in fields)
        if pairs.keys() - {"readonly"} != {"type", "source", "target"} or pairs["type"] != "bind":
            fail(125, f'invalid argument "{value}" for "--mount" flag')
        if not Path(pairs["source"]).exists():
            fail(125, f"docker: Error response from daemon: bind source path does not exist: {pairs['source']}.")
        found[pairs["target"]] = pairs["source"]
    return found


def image(words: list[str]) -> None:
    if words[:3] != ["inspect", "--format", "{{.Id}}"] or len(words) != 4:
        fail(125, f"unknown words: {words}")
    if not (STATE / "images" / words[3]).exists():
        fail(1, f"Error: No such image: {words[3]}")
    print("sha256:1234")


def run(words: list[str]) -> None:
    options, rest = parsed(words, RUN)
    if len(rest) != 1:
        fail(125, f"one image is wanted, not {rest}")
    if not (STATE / "images" / rest[0]).exists():
        fail(
            125,
            f"docker: Error response from daemon: No such image: {rest[0]}:latest.\n\nRun 'docker run --help' for more information",
        )
    named = dict(options)
    place = STATE / "containers" / named["--name"]
    starting = place.with_suffix(".starting")
    starting.touch()  # the container's first process may say that it runs before it is noted below
    with subprocess.Popen([named["--entrypoint"]]) as first:
        new = place.with_suffix(".new")
        new.write_text(json.dumps({"pid": first.pid, "mounts": mounts(options)}))
        new.rename(place)
        starting.unlink()
        status = first.wait()
    place.unlink(missing_ok=True)
    for leader in (STATE / "commands").glob(f"{place.name}-*"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(leader.name.rpartition("-")[2]), signal.SIGKILL)
        leader.unlink()
    sys.exit(status if status >= 0 else 128 - status)


def noted_state(place: Path) -> dict[str, Any]:
    """What is noted of a container that runs, or is about to."""
    while place.with_suffix(".starting").exists():
        time.sleep(0.01)
    try:
        state: dict[str, Any] = json.loads(place.read_text())
    except FileNotFoundError:
        fail(1, f"Error response from daemon: No such container: {place.name}")
    return state


def execute(words: list[str]) -> None:
    options, rest = parsed(words, EXEC)
    place = STATE / "containers" / rest.pop(0)
    state = noted_state(place)
    env = {"PATH": os.defpath}
    for word, value in options:
        if word == "--env-file":
            lines = Path(value).read_text(errors="surrogateescape").splitlines()
            env |= dict(line.partition("=")[::2] for line in lines)
        elif word == "--env":
            name, _, text = value.partition("=")
            env[name] = text
    terminal = ("--tty", "") in options
    if terminal and not os.isatty(0):
        fail(1, "the input device is not a TTY")
    for target, source in state["mounts"].items():
        if target != source:
            rest = [source + word[len(target) :] if word.startswith(f"{target}/") else word for word in rest]

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with subprocess.Popen(
        rest,
        env=env,
        start_new_session=True,
        preexec_fn=take_terminal if terminal else None,  # noqa: PLW1509
    ) as command:
        noted = STATE / "commands" / f"{place.name}-{command.pid}"
        noted.touch()
        status = command.wait()
        noted.unlink(missing_ok=True)
    sys.exit(status if status >= 0 else 128 - status)


def remove(words: list[str]) -> None:
    if words[:1] != ["--force"] or len(words) != 2:
        fail(125, f"unknown words: {words}")
    os.kill(noted_state(STATE / "containers" / words[1])["pid"], signal.SIGKILL)


def main() -> None:
    words = sys.argv[1:]
    with (STATE / "log").open("a") as log:
        log.write(json.dumps(words) + "\n")
    fault = (STATE / "fault").read_text() if (STATE / "fault").exists() else ""
    if fault == "down":
        fail(1, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?")
    if fault == "hangs":
        time.sleep(600)
    {"image": image, "run": run, "exec": execute, "rm": remove}[words[0]](words[1:])


main()
