"""Turns: start, steer, interrupt."""

from __future__ import annotations

import asyncio

from codex_framework import ThreadError
from codex_framework.contract.protocol.ops import UserInputOp
from codex_plugin_app_server.errors import RpcError
from codex_plugin_app_server.notifications import turn_json
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.settings import additional_context, turn_overrides, user_input
from codex_plugin_app_server.table import Json, MethodTable

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
    op = _input_op(call)
    loaded.hold(call)
    running = loaded.turn_id
    submission = await loaded.thread.submit(op)
    return {"turn": turn_json(running or submission, "inProgress")}


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
            raise RpcError(f"expected active turn id `{expected}` but found `{loaded.turn_id}`") from None
        raise
    return {"turnId": turn_id}


@table.method("turn/interrupt", "TurnInterruptParams", "TurnInterruptResponse", concurrent=True)
async def interrupt_turn(call: Call) -> Json:
    """Interrupt the running turn, and wait for its end."""
    loaded = call.server.thread(call.params["threadId"])
    turn_id = call.params["turnId"]
    if not loaded.thread.running:
        raise RpcError("no active turn to interrupt")
    if turn_id and loaded.turn_id not in (None, turn_id):
        raise RpcError(f"expected active turn id {turn_id} but found {loaded.turn_id}")
    ending = asyncio.ensure_future(loaded.thread.interrupt())
    loaded.hold(call)
    await ending
    return {}
