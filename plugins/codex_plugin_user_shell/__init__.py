"""Commands that the user types (``!cmd``): run unchanged, shown to clients, and recorded in the conversation for the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codex_framework import OpHandler, hookimpl
from codex_framework.toolkit.exports import lazy_exports

if TYPE_CHECKING:
    from codex_plugin_user_shell.request import RunUserShellCommand
else:
    __getattr__ = lazy_exports(__name__, {"request": "RunUserShellCommand"})

__all__ = ["RunUserShellCommand", "codex_ops"]


@hookimpl
def codex_ops() -> Iterable[OpHandler[Any]]:
    """Offer the handler of the op ``run_user_shell_command``."""
    from codex_plugin_user_shell.request import UserShellHandler

    return [UserShellHandler()]
