"""Turns: start, steer, interrupt."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

from codex_framework import ThreadError
from codex_framework.contract.protocol.events import ItemCompletedEvent
from codex_framework.contract.protocol.ops import UserInputOp
from codex_framework.contract.protocol.wire import read_item
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.notifications import turn_json
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.settings import additional_context, turn_overrides, user_input
from codex_plugin_app_server.table import Json, MethodTable
from codex_plugin_app_server.threads import LoadedThread

table = MethodTable()


def _input_op(call: Call) -> UserInputOp:
    params = call.params
    return UserInputOp(
        items=user_input(params["input"]),
        final_output_json_schema=params.get("outputSchema"),
        thread_settings=turn_overrides(params),
        responsesapi_client_metadata=params.get("responsesapiClientMetadata"),
        additional_context=additional_context(params.get("additionalContext")),
        client_user_message_id=params.get("clientUserMessageId"),
    )


@table.method("turn/start", "TurnStartParams", "TurnStartResponse")
async def start_turn(call: Call) -> Json:
    """Start a turn. If one is running, the input steers it."""
    loaded = call.server.thread(call.params["threadId"])
    if call.params.get("toolOutput") is not None:
        return {"turn": turn_json(await _deliver_tool_output(call, loaded), "inProgress")}
    turn_id, _ = await loaded.run_op(call, _input_op(call))
    return {"turn": turn_json(turn_id, "inProgress")}


async def _deliver_tool_output(call: Call, loaded: LoadedThread) -> str:
    """Start a turn with unsolicited output of a client's tool, or give it to the running turn. Return the turn's id."""
    if call.params["input"]:
        raise RpcError("toolOutput cannot be combined with input")
    given = call.params["toolOutput"]
    item_id, call_id = f"fco_{uuid4()}", f"call_{uuid4()}"
    named = {name: given[name] for name in ("name", "namespace") if given.get(name) is not None}
    called = {
        "type": "function_call",
        "call_id": call_id,
        "arguments": "{}",
        **named,
    }  # no server takes an output alone
    output = {"type": "function_call_output", "call_id": call_id, "output": given["output"]}
    shown = {"type": "FunctionCallOutput", "id": item_id, "output": given["output"], **named}
    event = ItemCompletedEvent(loaded.id, "", shown, int(time.time() * 1000))
    return await loaded.deliver_input(call, [read_item(called), read_item(output)], event)


@table.method("turn/steer", "TurnSteerParams", "TurnSteerResponse")
async def steer_turn(call: Call) -> Json:
    """Give input to the running turn."""
    loaded = call.server.thread(call.params["threadId"])
    expected = call.params["expectedTurnId"]
    loaded.hold(call)
    try:
        turn_id = loaded.thread.steer(_input_op(call), expected_turn_id=expected)
    except ThreadError as error:
        if error.slug == "no-active-turn":
            raise RpcError("no active turn to steer") from None
        if error.slug == "wrong-turn":
            raise RpcError(f"expected active turn id `{expected}` but found `{loaded.thread.turn_id}`") from None
        raise
    return {"turnId": turn_id}


@table.method("turn/interrupt", "TurnInterruptParams", "TurnInterruptResponse", concurrent=True)
async def interrupt_turn(call: Call) -> Json:
    """Interrupt the running turn, and wait for its end."""
    loaded = call.server.thread(call.params["threadId"])
    turn_id = call.params["turnId"]
    running = loaded.thread.turn_id
    if running is None:
        raise RpcError("no active turn to interrupt")
    if turn_id not in ("", running):
        raise RpcError(f"expected active turn id {turn_id} but found {running}")
    ending = asyncio.ensure_future(loaded.thread.interrupt())
    loaded.hold(call)
    await ending
    return {}


@table.method(
    "turn/settings/update", "TurnSettingsUpdateParams", "TurnSettingsUpdateResponse", stability="experimental"
)
async def update_turn_settings(call: Call) -> Json:
    """Refuse to change the settings of a running turn, which are fixed, as in Codex without an unfinished feature."""
    call.server.thread(call.params["threadId"])
    raise RpcError("turn settings updates require the step_model_switching feature")
