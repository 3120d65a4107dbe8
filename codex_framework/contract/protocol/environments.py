"""The selection of the places in which a thread works. Wire names as in Codex."""

from __future__ import annotations

from codex_framework.contract.value import Value

__all__ = ["LOCAL_ENVIRONMENT", "EnvironmentSelection", "EnvironmentSelections"]

LOCAL_ENVIRONMENT = "local"
"""The id of this machine."""


class EnvironmentSelection(Value):
    """An environment that a thread uses.

    Attributes:
        environment_id: ``local`` for this machine.
        cwd: The working folder there, absolute.
        workspace_roots: Further folders of the workspace there, absolute. None keeps the workspace folders of the permissions.
    """

    environment_id: str
    cwd: str
    workspace_roots: tuple[str, ...] | None = None


class EnvironmentSelections(Value, kw_only=True):
    """All environments that a thread uses, the primary one first. The list may be empty.

    On the wire, the list alone is accepted too, as in older versions of Codex.

    Attributes:
        legacy_fallback_cwd: The thread's folder while no environment is selected. None keeps the previous folder.
    """

    environments: tuple[EnvironmentSelection, ...]
    legacy_fallback_cwd: str | None = None
