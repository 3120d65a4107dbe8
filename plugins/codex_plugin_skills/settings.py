"""The settings of the plugin."""

from __future__ import annotations

from codex_framework import Value

__all__ = ["Settings"]


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.skills]``.

    Attributes:
        roots: Absolute paths of further folders with skills, which have the scope ``user``.
    """

    roots: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Check the paths. Raises ValueError."""
        for root in self.roots:
            if not root.startswith("/") or "\0" in root:
                raise ValueError(f"{root!r} is not an absolute path")
