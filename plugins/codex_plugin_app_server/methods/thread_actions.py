"""Actions of clients on a loaded thread besides turns: compaction, commands of the user, items, settings."""

from __future__ import annotations

from codex_framework.contract.protocol.ops import CleanBackgroundTerminals, ThreadSettings
from codex_framework.contract.protocol.wire import read_item
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.settings import turn_overrides
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()


@table.method("thread/compact/start", "ThreadCompactStartParams", "ThreadCompactStartResponse")
async def compact_thread(call: Call) -> Json:
    """Shorten the conversation, as a turn."""
    loaded = call.server.thread(call.params["threadId"])
    await loaded.run_op(call, call.server.kernel.op("compact"))
    return {}


@table.method("thread/shellCommand", "ThreadShellCommandParams", "ThreadShellCommandResponse")
async def run_shell_command(call: Call) -> Json:
    """Run a command that the user typed, without approval and without a sandbox."""
    loaded = call.server.thread(call.params["threadId"])
    command = call.params["command"]
    await loaded.run_op(call, call.server.kernel.op("run_user_shell_command", command=command))
    return {}


@table.method("thread/inject_items", "ThreadInjectItemsParams", "ThreadInjectItemsResponse")
async def inject_items(call: Call) -> Json:
    """Add items to the conversation. They cause no turn."""
    loaded = call.server.thread(call.params["threadId"])
    given = call.params["items"]
    if not given:
        raise RpcError("items must not be empty")
    for place, item in enumerate(given):
        if not isinstance(item, dict) or not isinstance(item.get("type"), str):
            raise RpcError(f"items[{place}] is not a valid response item")
    loaded.thread.deliver([read_item(item) for item in given])
    return {}


@table.method(
    "thread/settings/update", "ThreadSettingsUpdateParams", "ThreadSettingsUpdateResponse", stability="experimental"
)
async def update_settings(call: Call) -> Json:
    """Change the settings of later turns."""
    loaded = call.server.thread(call.params["threadId"])
    await loaded.run_op(call, ThreadSettings(turn_overrides(call.params)))
    return {}


@table.method(
    "thread/backgroundTerminals/clean",
    "ThreadBackgroundTerminalsCleanParams",
    "ThreadBackgroundTerminalsCleanResponse",
    stability="experimental",
)
async def clean_background_terminals(call: Call) -> Json:
    """End all commands that run in the background."""
    loaded = call.server.thread(call.params["threadId"])
    await loaded.run_op(call, CleanBackgroundTerminals())
    return {}
