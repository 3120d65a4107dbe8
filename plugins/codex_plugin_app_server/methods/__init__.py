"""The methods of the protocol, one module per topic. :data:`METHODS` is the table of all of them."""

from __future__ import annotations

from codex_plugin_app_server.methods import (
    account,
    apps,
    background_terminals,
    collaboration_modes,
    command_exec,
    config,
    features,
    file_search,
    fs,
    goals,
    handshake,
    hooks,
    mcp,
    memory_mode,
    models,
    permission_profiles,
    providers,
    realtime,
    requirements,
    review,
    skills,
    thread_actions,
    thread_items,
    thread_list,
    thread_records,
    thread_search,
    threads,
    turns,
)
from codex_plugin_app_server.table import MethodTable

__all__ = ["METHODS"]

METHODS = MethodTable(
    {
        **handshake.table,
        **threads.table,
        **thread_list.table,
        **thread_search.table,
        **thread_items.table,
        **thread_records.table,
        **thread_actions.table,
        **goals.table,
        **turns.table,
        **realtime.table,
        **review.table,
        **models.table,
        **account.table,
        **apps.table,
        **background_terminals.table,
        **command_exec.table,
        **config.table,
        **file_search.table,
        **fs.table,
        **mcp.table,
        **permission_profiles.table,
        **collaboration_modes.table,
        **features.table,
        **hooks.table,
        **memory_mode.table,
        **providers.table,
        **requirements.table,
        **skills.table,
    }
)
"""Each method that the server has, by name."""
