"""The methods of the protocol, one module per topic. :data:`METHODS` is the table of all of them."""

from __future__ import annotations

from codex_plugin_app_server.methods import account, config, handshake, models, threads, turns
from codex_plugin_app_server.table import MethodTable

__all__ = ["METHODS"]

METHODS = MethodTable(
    {
        **handshake.table,
        **threads.table,
        **turns.table,
        **models.table,
        **account.table,
        **config.table,
    }
)
"""Each method that the server has, by name."""
