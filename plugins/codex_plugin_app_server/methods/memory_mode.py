"""Whether later sessions may learn from a thread."""

from __future__ import annotations

from codex_framework import Kernel, Op
from codex_framework.contract.protocol.events import ErrorEvent
from codex_plugin_app_server.errors import METHOD_NOT_FOUND, RpcError
from codex_plugin_app_server.methods.thread_records import load_stored
from codex_plugin_app_server.server import Call, checked_id
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_OP = "set_thread_memory_mode"


@table.method(
    "thread/memoryMode/set", "ThreadMemoryModeSetParams", "ThreadMemoryModeSetResponse", stability="experimental"
)
async def set_memory_mode(call: Call) -> Json:
    """Say whether later sessions may learn from a thread, which need not be loaded."""
    kernel, thread_id = call.server.kernel, checked_id(call.params["threadId"])
    if _OP not in kernel.registry.ops:
        raise RpcError("no plugin of this server keeps memory modes", METHOD_NOT_FOUND)
    op = kernel.op(_OP, mode=call.params["mode"])
    async with call.server.lock(thread_id):
        loaded = call.server.threads.get(thread_id)
        if loaded is None:
            await load_stored(call, thread_id)
            await _change(kernel, thread_id, op)
    if loaded is not None:
        await loaded.run_op(call, op)
    return {}


async def _change(kernel: Kernel, thread_id: str, op: Op) -> None:
    """Run an op in a stored thread. Raises RpcError and ThreadError."""
    thread = await kernel.resume_thread(thread_id)
    try:
        events = thread.events([ErrorEvent], answers=False)
        await thread.submit(op)
        events.end()
        async for event in events:
            if isinstance(event.msg, ErrorEvent):
                raise RpcError(event.msg.message)
    finally:
        await thread.shutdown()
