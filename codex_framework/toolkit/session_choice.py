"""Choosing a stored session at a terminal, for commands that were given none."""

from __future__ import annotations

import os
from collections.abc import Callable

import click

from codex_framework.contract.roles.components import Component
from codex_framework.contract.roles.plugins import PluginContext
from codex_framework.contract.roles.stores import ThreadStore
from codex_framework.toolkit.thread_stores import configured_store

__all__ = ["SessionChooser", "chosen_session"]

SessionChooser = Callable[[str, ThreadStore, str, str], str | None]
"""The method ``choose_session`` of a front end's component: from a title, the store, ``$CODEX_HOME`` and a folder, whose sessions are
shown first, it returns the id of a session, or None."""


def chosen_session(plugin: PluginContext, title: str, *, missing: str) -> str:
    """Let the user choose a session with the installed front end, and return its id.

    Args:
        missing: The error if stdin or stdout is not a terminal, so that no choice is possible.

    Raises:
        UsageError: No choice is possible.
        Abort: The user has cancelled the choice.
    """
    _, store = configured_store(plugin)
    components = plugin.offered(Component).values()
    choosers = (getattr(offer.item, "choose_session", None) for offer in components)
    choose: SessionChooser | None = next(filter(None, choosers), None)
    if choose is None or store is None or not (os.isatty(0) and os.isatty(1)):
        raise click.UsageError(missing)
    chosen = choose(title, store, str(plugin.codex_home), os.getcwd())  # noqa: PTH109  # as the store writes it
    if chosen is None:
        raise click.Abort
    return chosen
