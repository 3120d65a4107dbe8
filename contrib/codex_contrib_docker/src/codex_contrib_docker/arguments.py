"""The engine's arguments for creating a container, and for starting and signalling commands in it. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from codex_contrib_docker.layout import Kind, Layout
from codex_framework import NetworkMode
from codex_framework.contract.permissions.file_access import ResourceLimits

__all__ = ["STATUS_FOLDER", "Container", "exec_words", "kill_words", "run_words"]

STATUS_FOLDER = "/.codex-status"
"""The folder in which commands in the container report that they have been started."""

_START = """\
status=$1 folder=$2; shift 2
say() { echo "$1" > "$status.new" && mv "$status.new" "$status"; }
cd -- "$folder" 2>/dev/null || { say folder; exit 127; }
case $1 in
*/*) [ -e "$1" ] || { say missing; exit 127; }
     { [ -f "$1" ] && [ -x "$1" ]; } || { say refused; exit 126; } ;;
*) command -v -- "$1" >/dev/null 2>&1 || { say missing; exit 127; } ;;
esac
say $$
exec "$@"
"""
"""Run by the container's ``sh``. It reports its process id, or why the command cannot start, and then becomes the command."""


class Container(NamedTuple):
    """The properties of a container.

    Attributes:
        owner: User and group id of this process.
        keep_id: Whether to map the own user to itself (Podman without root).
        memory_mb: The memory limit of all processes together in MB. None means no limit.
        status: The folder of this machine that is mounted at :data:`STATUS_FOLDER`.
        covers: The folders that cover hidden ones, by path.
    """

    image: str
    name: str
    layout: Layout
    network: NetworkMode
    limits: ResourceLimits
    owner: tuple[int, int]
    keep_id: bool
    memory_mb: int | None
    status: str
    covers: Mapping[str, str]


def run_words(container: Container) -> tuple[str, ...]:
    """Return the arguments of ``run``. The container ends when its stdin is closed, and so with this process in any case."""
    uid, gid = container.owner
    words = ["run", "--rm", "--interactive", "--init", "--pull", "never", "--name", container.name]
    words += [
        "--label",
        "codex-framework=sandbox",
        "--hostname",
        "sandbox",
        "--log-driver",
        "none",
        "--sig-proxy=false",
    ]
    words += ["--network", "host" if container.network is NetworkMode.ON else "none", "--ipc", "private"]
    words += ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", f"{uid}:{gid}"]
    if container.keep_id:
        words += ["--userns", "keep-id"]
    limits = container.limits
    if limits.processes is not None:
        words += ["--pids-limit", str(limits.processes)]
    memory = container.memory_mb << 20 if container.memory_mb is not None else limits.memory_bytes
    if memory is not None:
        words += ["--memory", str(memory), "--memory-swap", str(memory)]
    words += ["--ulimit", "core=0"]
    if limits.file_bytes is not None:
        words += ["--ulimit", f"fsize={limits.file_bytes}"]
    words += _mounts(container.layout, container.covers)
    words += ["--mount", _bind(container.status, STATUS_FOLDER)]
    return (*words, "--workdir", "/", "--entrypoint", "cat", container.image)


def exec_words(
    container: str, *, token: str, argv: Sequence[str], cwd: str, env: Mapping[str, str], env_file: str, tty: bool
) -> tuple[str, ...]:
    """Return the arguments of ``exec`` that start a command.

    Args:
        container: The container's name.
        token: The name of the file in which the command reports its start.
        argv: The program and its arguments.
        cwd: The working folder.
        env: The variables. Only those with several lines are put on the command line, which others can see.
        env_file: A file with the other variables.
        tty: Whether its standard streams are a terminal.
    """
    lines = [word for name, value in env.items() if "\n" in value for word in ("--env", f"{name}={value}")]
    terminal = ["--tty"] if tty else []
    start = ["sh", "-c", _START, "sh", f"{STATUS_FOLDER}/{token}", cwd]
    return (
        "exec",
        "--interactive",
        *terminal,
        "--workdir",
        "/",
        "--env-file",
        env_file,
        *lines,
        container,
        *start,
        *argv,
    )


def kill_words(container: str, pid: int, number: int) -> tuple[str, ...]:
    """Return the arguments of ``exec`` that send a signal to the group of a command, which has its own session."""
    return ("exec", container, "sh", "-c", 'kill -"$1" "-$2" 2>/dev/null || :', "sh", str(number), str(pid))


def _mounts(layout: Layout, covers: Mapping[str, str]) -> Iterator[str]:
    for path, kind in layout.mounts:
        match kind:
            case Kind.WRITABLE:
                yield from ("--mount", _bind(path, path))
            case Kind.READABLE:
                yield from ("--mount", _bind(path, path, read_only=True))
            case Kind.HIDDEN_FILE:
                yield from ("--mount", _bind("/dev/null", path, read_only=True))
            case Kind.HIDDEN_FOLDER | Kind.PASSABLE:  # not by --tmpfs, because Podman mounts these before anything else
                yield from ("--mount", _bind(covers[path], path, read_only=True))
            case Kind.PRIVATE:
                yield from ("--tmpfs", f"{path}:rw,nosuid,nodev,exec,mode=1777")


def _bind(source: str, target: str, *, read_only: bool = False) -> str:
    """Return a value of ``--mount``. It is parsed as a line of CSV, so values with commas or quotes are quoted."""
    fields = ["type=bind", f"source={source}", f"target={target}", *(["readonly"] if read_only else [])]
    return ",".join(
        '"' + field.replace('"', '""') + '"' if any(mark in field for mark in ',"') else field for field in fields
    )
