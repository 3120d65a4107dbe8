"""The table ``[framework.plugins.docker]``."""

from __future__ import annotations

from codex_framework.contract.value import Value

__all__ = ["DockerSettings"]


class DockerSettings(Value, kw_only=True):
    """The settings of the plugin.

    Attributes:
        image: The image of containers. It must exist locally and contain ``sh``, ``cat`` and ``kill``. Without an image, the
            sandbox is not available.
        engine: ``docker``, ``podman`` or the absolute path of a program with the same command line. The default is the first of
            both on ``PATH``.
        folders: Absolute folders of this machine to mount in the container, in addition to the working folder and the folders
            of rules, and as far as the permissions allow. In other folders, commands see the image's files, or nothing.
        memory_mb: Memory limit for all commands of a container together in MB. The default is the limit of ``sandbox_limits``.
        timeout_s: Time limit for the engine to start a container or a command, in seconds.
    """

    image: str | None = None
    engine: str | None = None
    folders: tuple[str, ...] = ()
    memory_mb: int | None = None
    timeout_s: float = 30.0
