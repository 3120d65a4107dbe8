"""The table ``[framework.plugins.docker]``."""

from __future__ import annotations

from codex_framework.contract.value import Value

__all__ = ["DockerSettings"]


class DockerSettings(Value, kw_only=True):
    """What a person can set.

    Attributes:
        image: What containers are made of. It has to be there already, with ``sh``, ``cat`` and ``kill`` in it. Without one, the
            sandbox is not available.
        engine: ``docker``, ``podman`` or the absolute path of a program that takes the same words; None: the first of both on
            ``PATH``.
        folders: Absolute folders of this machine that are in the container besides the working folder and what rules name,
            readable where the permissions say so. Without that, commands see the image's files there, or nothing.
        memory_mb: How much memory all commands of a container may use together; None: what ``sandbox_limits`` says.
        timeout_s: How long the engine may take to start a container or a command.
    """

    image: str | None = None
    engine: str | None = None
    folders: tuple[str, ...] = ()
    memory_mb: int | None = None
    timeout_s: float = 30.0
